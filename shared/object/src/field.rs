//! Field errors as Kubernetes words them, and the bounded list that validation pushes them into.
//!
//! Contract: the texts equal Go's `field.Error` (k8s.io/apimachinery/pkg/util/validation/field): a bad value shows as
//! `%q` for strings, `%v` for numbers and booleans, JSON for everything else. Validation never returns early; a
//! [`ErrorList`] stops growing at its bound so that hostile input cannot make an unbounded answer.

use std::sync::Arc;

use crate::empties::Empties;
use crate::json;
use crate::value::Value;

/// What is wrong with a field; the name is the `reason` of a `Status` cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Something referenced does not exist.
    NotFound,
    /// A value is missing.
    Required,
    /// A value stands twice where it must be unique.
    Duplicate,
    /// The value is malformed.
    Invalid,
    /// The value is not one of the allowed ones.
    NotSupported,
    /// The field may not be set or changed.
    Forbidden,
    /// The text is too long.
    TooLong,
    /// The text is too short.
    TooShort,
    /// There are too many items.
    TooMany,
    /// There are too few items.
    TooFew,
    /// The server's fault.
    Internal,
    /// The value has the wrong type.
    TypeInvalid,
}

impl ErrorKind {
    /// The cause's `reason`.
    pub fn reason(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "FieldValueNotFound",
            ErrorKind::Required => "FieldValueRequired",
            ErrorKind::Duplicate => "FieldValueDuplicate",
            ErrorKind::Invalid => "FieldValueInvalid",
            ErrorKind::NotSupported => "FieldValueNotSupported",
            ErrorKind::Forbidden => "FieldValueForbidden",
            ErrorKind::TooLong => "FieldValueTooLong",
            ErrorKind::TooShort => "FieldValueTooShort",
            ErrorKind::TooMany => "FieldValueTooMany",
            ErrorKind::TooFew => "FieldValueTooFew",
            ErrorKind::Internal => "InternalError",
            ErrorKind::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    /// How the kind begins an error's text.
    pub fn text(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "Not found",
            ErrorKind::Required => "Required value",
            ErrorKind::Duplicate => "Duplicate value",
            ErrorKind::Invalid | ErrorKind::TypeInvalid => "Invalid value",
            ErrorKind::NotSupported => "Unsupported value",
            ErrorKind::Forbidden => "Forbidden",
            ErrorKind::TooLong => "Too long",
            ErrorKind::TooShort => "Too short",
            ErrorKind::TooMany => "Too many",
            ErrorKind::TooFew => "Too few",
            ErrorKind::Internal => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(
            self,
            ErrorKind::Required | ErrorKind::Forbidden | ErrorKind::TooLong | ErrorKind::TooShort | ErrorKind::Internal
        )
    }
}

/// One field's error.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// Path of the field: `spec.containers[0].name`, `metadata.labels[a/b]`; `<nil>` for the root.
    pub field: String,
    /// The value as it shows in the text, already formatted; `None` if it is left out.
    pub shown: Option<String>,
    /// What would be right; may be empty.
    pub detail: String,
}

impl Error {
    /// Any kind, with a value shown if the kind shows one.
    pub fn new(kind: ErrorKind, field: impl Into<String>, value: &Value, detail: impl Into<String>) -> Error {
        let shown = kind.shows_value().then(|| show(value));
        Error {
            kind,
            field: field.into(),
            shown,
            detail: detail.into(),
        }
    }

    /// `Required value`.
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Error {
        Error {
            kind: ErrorKind::Required,
            field: field.into(),
            shown: None,
            detail: detail.into(),
        }
    }

    /// `Invalid value`.
    pub fn invalid(field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Error {
        Error::new(ErrorKind::Invalid, field, &value.into(), detail)
    }

    /// `Invalid value` of the wrong type (its cause says `FieldValueTypeInvalid`).
    pub fn type_invalid(field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Error {
        Error::new(ErrorKind::TypeInvalid, field, &value.into(), detail)
    }

    /// `Invalid value` whose text shows no value.
    pub fn invalid_unshown(field: impl Into<String>, detail: impl Into<String>) -> Error {
        Error {
            kind: ErrorKind::Invalid,
            field: field.into(),
            shown: None,
            detail: detail.into(),
        }
    }

    /// `Unsupported value`; `supported` is listed in the order given.
    pub fn not_supported<S: AsRef<str>>(field: impl Into<String>, value: impl Into<Value>, supported: &[S]) -> Error {
        let quoted: Vec<String> = supported.iter().map(|s| quote(s.as_ref())).collect();
        let detail = if quoted.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", quoted.join(", "))
        };
        Error::new(ErrorKind::NotSupported, field, &value.into(), detail)
    }

    /// `Duplicate value`.
    pub fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Error {
        Error::new(ErrorKind::Duplicate, field, &value.into(), "")
    }

    /// `Not found`.
    pub fn not_found(field: impl Into<String>, value: impl Into<Value>) -> Error {
        Error::new(ErrorKind::NotFound, field, &value.into(), "")
    }

    /// `Forbidden`.
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Error {
        Error {
            kind: ErrorKind::Forbidden,
            field: field.into(),
            shown: None,
            detail: detail.into(),
        }
    }

    /// `Too long: may not be more than N bytes`.
    pub fn too_long(field: impl Into<String>, max_bytes: usize) -> Error {
        let detail = format!("may not be more than {max_bytes} bytes");
        Error {
            kind: ErrorKind::TooLong,
            field: field.into(),
            shown: None,
            detail,
        }
    }

    /// `Too many: N: must have at most M item(s)`.
    pub fn too_many(field: impl Into<String>, actual: usize, max: usize) -> Error {
        let items = if max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {max} {items}");
        Error {
            kind: ErrorKind::TooMany,
            field: field.into(),
            shown: Some(actual.to_string()),
            detail,
        }
    }

    /// `Internal error`.
    pub fn internal(field: impl Into<String>, detail: impl Into<String>) -> Error {
        Error {
            kind: ErrorKind::Internal,
            field: field.into(),
            shown: None,
            detail: detail.into(),
        }
    }

    /// The text without the field: the `message` of a `Status` cause.
    pub fn body(&self) -> String {
        let mut s = self.kind.text().to_owned();
        if let Some(shown) = &self.shown {
            s.push_str(": ");
            s.push_str(shown);
        }
        if !self.detail.is_empty() {
            s.push_str(": ");
            s.push_str(&self.detail);
        }
        s
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

/// A value as it stands in an error's text.
fn show(value: &Value) -> String {
    match value {
        Value::String(s) => quote(s),
        Value::Float(f) => json::general_float(*f),
        other => json::to_string(other),
    }
}

/// Go's `strconv.Quote` / `%q`.
pub fn quote(s: &str) -> String {
    let mut out = String::with_capacity(s.len() + 2);
    out.push('"');
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            c if c < ' ' || c == '\u{7f}' => out.push_str(&format!("\\x{:02x}", c as u32)),
            // Go prints what unicode calls printable; of the rest only these occur outside attacks.
            c if matches!(c as u32, 0x80..=0xa0 | 0xad | 0x2028..=0x202e | 0x2060..=0x206f | 0xfeff | 0xe000..=0xf8ff) =>
            {
                out.push_str(&format!("\\u{:04x}", c as u32));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Field errors in the order they were found, at most [`ErrorList::LIMIT`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ErrorList {
    errors: Vec<Error>,
    /// What would be wrong, had it not been so before.
    tolerated: Vec<Error>,
    empties: Option<Arc<Empties>>,
}

impl ErrorList {
    /// No more errors than this are kept.
    pub const LIMIT: usize = 1000;

    /// An empty list.
    pub fn new() -> ErrorList {
        ErrorList::default()
    }

    /// An empty list about a document that names empty values.
    pub fn about(empties: &Arc<Empties>) -> ErrorList {
        ErrorList {
            empties: Some(empties.clone()),
            ..ErrorList::default()
        }
    }

    /// How what is absent from the document at `path` shows: `null`, or as the empty value that stood there.
    pub fn absent(&self, path: &str) -> Value {
        let empties = self.empties.as_deref();
        empties.and_then(|e| e.at(path)).cloned().unwrap_or(Value::Null)
    }

    /// What is at `path` of the document with the empty values that stood in it, as Go would hold it.
    pub fn whole(&self, path: &str, value: Option<&Value>) -> Value {
        let Some(value) = value else {
            return self.absent(path);
        };
        let mut whole = value.clone();
        if let Some(empties) = &self.empties {
            empties.restore(path, &mut whole);
        }
        whole
    }

    /// Adds one, unless the list is full.
    pub fn push(&mut self, error: Error) {
        if self.errors.len() < Self::LIMIT {
            self.errors.push(error);
        }
    }

    /// Adds one that is only warned of, because what is wrong was so before.
    pub fn tolerate(&mut self, error: Error) {
        if self.tolerated.len() < Self::LIMIT {
            self.tolerated.push(error);
        }
    }

    /// What is only warned of.
    pub fn tolerated(&self) -> &[Error] {
        &self.tolerated
    }

    /// Adds all of another list.
    pub fn append(&mut self, other: ErrorList) {
        other.errors.into_iter().for_each(|e| self.push(e));
    }

    /// True if nothing was found.
    pub fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// How many were found.
    pub fn len(&self) -> usize {
        self.errors.len()
    }

    /// In the order found.
    pub fn iter(&self) -> impl Iterator<Item = &Error> {
        self.errors.iter()
    }

    /// Go's aggregate text: one error as it is, several as `[a, b]`, repeated texts once.
    pub fn aggregate(&self) -> String {
        aggregate(self.errors.iter().map(ToString::to_string))
    }
}

impl IntoIterator for ErrorList {
    type Item = Error;
    type IntoIter = std::vec::IntoIter<Error>;
    fn into_iter(self) -> Self::IntoIter {
        self.errors.into_iter()
    }
}

impl FromIterator<Error> for ErrorList {
    fn from_iter<I: IntoIterator<Item = Error>>(errors: I) -> ErrorList {
        let mut list = ErrorList::new();
        errors.into_iter().for_each(|e| list.push(e));
        list
    }
}

/// Go's text of several errors: one as it is, several as `[a, b]`, repeated texts once.
pub fn aggregate(texts: impl IntoIterator<Item = String>) -> String {
    let mut seen = std::collections::HashSet::new();
    let unique: Vec<String> = texts.into_iter().filter(|t| seen.insert(t.clone())).collect();
    match unique.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_read_as_kubernetes_writes_them() {
        let e = Error::invalid("spec.replicas", -1i64, "must be greater than or equal to 0");
        assert_eq!(
            e.to_string(),
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0"
        );
        let e = Error::not_supported("spec.type", "x", &["A", "B"]);
        assert_eq!(e.body(), r#"Unsupported value: "x": supported values: "A", "B""#);
        assert_eq!(Error::required("a", "").body(), "Required value");
        assert_eq!(Error::invalid("a", Value::Null, "x").body(), "Invalid value: null: x");
        let e = Error::invalid("a", Value::from([("b", "c".into())]), "x");
        assert_eq!(e.body(), r#"Invalid value: {"b":"c"}: x"#);
    }

    #[test]
    fn an_aggregate_names_each_text_once() {
        let twice = || Error::required("a", "");
        let list: ErrorList = [twice(), twice(), Error::required("b", "")].into_iter().collect();
        assert_eq!(list.aggregate(), "[a: Required value, b: Required value]");
        assert_eq!(list.len(), 3);
    }
}
