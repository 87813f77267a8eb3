//! Walks a document with the path of where it is, so that a rule names the exact field without passing paths around.
//!
//! Contract: a [`Cursor`] is copied freely and points to a value that may be absent; reading an absent value gives Go's
//! zero. Steps cost a few words in the walk's list; the text of a path is made only for an error. In debug builds every
//! field name is checked against the schema table: a name that the type lacks panics, so that tests find it.
//!
//! ```ignore
//! check(new, errors, |pod| {
//!     let spec = pod.field("spec");
//!     for container in spec.field("containers").items() {
//!         let name = container.field("name");
//!         if name.str().is_empty() {
//!             name.required("");
//!         }
//!         if container.str_of("image").len() > 10 {
//!             container.field("image").too_long(10);
//!         }
//!     }
//! });
//! ```

use std::cell::RefCell;

use triptych_object::Value;
use triptych_object::field::{Error, ErrorKind, ErrorList};
#[cfg(debug_assertions)]
use triptych_schema::types::{Shape, TypeId};

/// Runs rules over a document and adds what they find to `errors`. The document's `apiVersion` and `kind` say its type.
pub fn check(object: &Value, errors: &mut ErrorList, rules: impl FnOnce(Cursor<'_>)) {
    let sink = RefCell::new(std::mem::take(errors));
    {
        let walk = Walk {
            steps: RefCell::new(Vec::with_capacity(64)),
            errors: &sink,
            root: object,
        };
        rules(Cursor {
            walk: &walk,
            value: Some(object),
            step: ROOT,
            #[cfg(debug_assertions)]
            ty: crate::schema::kind_type(object.str_at(&["apiVersion"]), object.str_at(&["kind"])),
        });
    }
    *errors = sink.into_inner();
}

const ROOT: u32 = u32::MAX;

#[derive(Clone, Copy)]
enum Segment<'a> {
    Field(&'a str),
    Key(&'a str),
    Index(usize),
}

struct Walk<'a> {
    /// Each step with the one before it.
    steps: RefCell<Vec<(u32, Segment<'a>)>>,
    errors: &'a RefCell<ErrorList>,
    root: &'a Value,
}

/// A place in a document.
#[derive(Clone, Copy)]
pub struct Cursor<'a> {
    walk: &'a Walk<'a>,
    value: Option<&'a Value>,
    step: u32,
    #[cfg(debug_assertions)]
    ty: Option<TypeId>,
}

impl<'a> Cursor<'a> {
    fn step(self, segment: Segment<'a>, value: Option<&'a Value>) -> Cursor<'a> {
        let mut steps = self.walk.steps.borrow_mut();
        steps.push((self.step, segment));
        Cursor {
            walk: self.walk,
            value: value.filter(|v| !v.is_null()),
            step: (steps.len() - 1) as u32,
            #[cfg(debug_assertions)]
            ty: self.member_type(segment),
        }
    }

    #[cfg(debug_assertions)]
    fn member_type(&self, segment: Segment<'_>) -> Option<TypeId> {
        let schema = crate::schema::types()?;
        let ty = schema.get(self.ty?);
        match (&ty.shape, segment) {
            (Shape::Struct(s), Segment::Field(name)) => {
                let field = s.field(name);
                assert!(
                    field.is_some(),
                    "{} has no field {name:?}",
                    ty.name.as_deref().unwrap_or("?")
                );
                field.map(|f| f.ty)
            }
            (Shape::List(l), Segment::Index(_)) => Some(l.item),
            (Shape::Map(m), Segment::Key(_)) => Some(m.value),
            _ => None,
        }
    }

    /// A member of a struct.
    pub fn field(self, name: &'a str) -> Cursor<'a> {
        self.step(Segment::Field(name), self.value.and_then(|v| v.get(name)))
    }

    /// A member of a struct, if it is there.
    pub fn given(self, name: &'a str) -> Option<Cursor<'a>> {
        let cursor = self.field(name);
        cursor.value.is_some().then_some(cursor)
    }

    /// The same place under another last step `name`, for errors that kube-apiserver files below a name that the
    /// document does not have.
    pub fn alias(self, name: &'a str) -> Cursor<'a> {
        let mut steps = self.walk.steps.borrow_mut();
        steps.push((self.step, Segment::Field(name)));
        Cursor {
            step: (steps.len() - 1) as u32,
            ..self
        }
    }

    /// The same value, reported at another place.
    pub fn reported_at(self, place: Cursor<'a>) -> Cursor<'a> {
        Cursor {
            step: place.step,
            ..self
        }
    }

    /// The same place with its last step renamed.
    pub fn renamed(self, name: &'a str) -> Cursor<'a> {
        let mut steps = self.walk.steps.borrow_mut();
        let parent = steps.get(self.step as usize).map_or(ROOT, |(parent, _)| *parent);
        steps.push((parent, Segment::Field(name)));
        Cursor {
            step: (steps.len() - 1) as u32,
            ..self
        }
    }

    /// This value, but errors about it stand at `place`.
    pub fn standing_for(self, place: Cursor<'a>) -> Cursor<'a> {
        Cursor {
            step: place.step,
            ..self
        }
    }

    /// A value of a map; shows as `[key]`.
    pub fn key(self, key: &'a str) -> Cursor<'a> {
        self.step(Segment::Key(key), self.value.and_then(|v| v.get(key)))
    }

    /// An item of a list.
    pub fn index(self, index: usize) -> Cursor<'a> {
        let value = self.value.and_then(Value::as_array).and_then(|a| a.get(index));
        self.step(Segment::Index(index), value)
    }

    /// The items of a list in order.
    pub fn items(self) -> impl ExactSizeIterator<Item = Cursor<'a>> {
        let items = self.value.and_then(Value::as_array).unwrap_or(&[]);
        items
            .iter()
            .enumerate()
            .map(move |(i, item)| self.step(Segment::Index(i), Some(item)))
    }

    /// The values of a map with their keys.
    pub fn entries(self) -> impl Iterator<Item = (&'a str, Cursor<'a>)> {
        let entries = self.value.and_then(Value::as_object).map(|o| o.iter());
        entries
            .into_iter()
            .flatten()
            .map(move |(key, value)| (key, self.step(Segment::Key(key), Some(value))))
    }

    /// True if there is a value here.
    pub fn exists(self) -> bool {
        self.value.is_some()
    }

    /// What is here.
    pub fn value(self) -> Option<&'a Value> {
        self.value
    }

    /// What is here as it shows in an error: as it stands in the document, `null` if absent. For a struct of a built-in
    /// API use [`Cursor::go_struct`].
    pub fn shown(self) -> Value {
        match self.value {
            Some(value) => value.clone(),
            None => self.walk.errors.borrow().absent(&self.path()),
        }
    }

    /// What is here as Go shows its internal struct (or list of them) in an error.
    pub fn go_struct(self) -> Value {
        let whole = self.walk.errors.borrow().whole(&self.path(), self.value);
        super::go_struct::show(Some(&whole), self.walk.root, &self.steps())
    }

    /// The whole document.
    pub fn root(self) -> &'a Value {
        self.walk.root
    }

    /// The text here, empty if absent.
    pub fn str(self) -> &'a str {
        self.value.and_then(Value::as_str).unwrap_or("")
    }

    /// The integer here, if there is one.
    pub fn i64(self) -> Option<i64> {
        self.value.and_then(Value::as_i64)
    }

    /// The integer here, 0 if absent.
    pub fn int(self) -> i64 {
        self.i64().unwrap_or(0)
    }

    /// The boolean here, if there is one.
    pub fn bool(self) -> Option<bool> {
        self.value.and_then(Value::as_bool)
    }

    /// True if `true` is here.
    pub fn is_true(self) -> bool {
        self.bool() == Some(true)
    }

    /// How many items or members are here.
    pub fn len(self) -> usize {
        match self.value {
            Some(Value::Array(a)) => a.len(),
            Some(Value::Object(o)) => o.len(),
            Some(Value::String(s)) => s.len(),
            _ => 0,
        }
    }

    /// True if there are no items, members or bytes.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    fn peek(self, name: &str) -> Option<&'a Value> {
        #[cfg(debug_assertions)]
        self.member_type(Segment::Field(name));
        self.value.and_then(|v| v.get(name)).filter(|v| !v.is_null())
    }

    /// True if the member is there.
    pub fn has(self, name: &str) -> bool {
        self.peek(name).is_some()
    }

    /// The text of a member.
    pub fn str_of(self, name: &str) -> &'a str {
        self.peek(name).and_then(Value::as_str).unwrap_or("")
    }

    /// The integer of a member.
    pub fn i64_of(self, name: &str) -> Option<i64> {
        self.peek(name).and_then(Value::as_i64)
    }

    /// The boolean of a member.
    pub fn bool_of(self, name: &str) -> Option<bool> {
        self.peek(name).and_then(Value::as_bool)
    }

    /// True if the member is `true`.
    pub fn is_true_of(self, name: &str) -> bool {
        self.bool_of(name) == Some(true)
    }

    /// The path of this place: `spec.containers[0].name`, `metadata.labels[a/b]`; `<nil>` for the document itself.
    pub fn path(self) -> String {
        let mut out = String::new();
        for segment in self.steps() {
            match segment {
                Step::Field(name) => {
                    if !out.is_empty() {
                        out.push('.');
                    }
                    out.push_str(name);
                }
                Step::Key(key) => {
                    out.push('[');
                    out.push_str(key);
                    out.push(']');
                }
                Step::Index(i) => out.push_str(&format!("[{i}]")),
            }
        }
        if out.is_empty() { "<nil>".into() } else { out }
    }

    fn steps(self) -> Vec<Step<'a>> {
        let steps = self.walk.steps.borrow();
        let mut path = Vec::new();
        let mut at = self.step;
        while let Some((before, segment)) = steps.get(at as usize) {
            path.push(match *segment {
                Segment::Field(name) => Step::Field(name),
                Segment::Key(key) => Step::Key(key),
                Segment::Index(i) => Step::Index(i),
            });
            at = *before;
        }
        path.reverse();
        path
    }

    /// Adds any error.
    pub fn push(self, error: Error) {
        self.walk.errors.borrow_mut().push(error);
    }

    /// Adds an error about this place.
    pub fn error(self, kind: ErrorKind, value: impl Into<Value>, detail: impl Into<String>) {
        self.push(Error::new(kind, self.path(), &value.into(), detail));
    }

    /// `Required value`.
    pub fn required(self, detail: impl Into<String>) {
        self.push(Error::required(self.path(), detail));
    }

    /// `Invalid value`, showing `value`.
    pub fn invalid(self, value: impl Into<Value>, detail: impl Into<String>) {
        self.error(ErrorKind::Invalid, value, detail);
    }

    /// `Invalid value` for each message, showing the text here.
    pub fn invalid_text(self, messages: Vec<String>) {
        for message in messages {
            self.invalid(self.str(), message);
        }
    }

    /// `Forbidden`.
    pub fn forbidden(self, detail: impl Into<String>) {
        self.push(Error::forbidden(self.path(), detail));
    }

    /// `Unsupported value`, showing the text here. `supported` in the order in which it shows (Go sorts it).
    pub fn not_supported<S: AsRef<str>>(self, supported: &[S]) {
        self.push(Error::not_supported(self.path(), self.str(), supported));
    }

    /// `Duplicate value`.
    pub fn duplicate(self, value: impl Into<Value>) {
        self.error(ErrorKind::Duplicate, value, "");
    }

    /// `Not found`.
    pub fn not_found(self, value: impl Into<Value>) {
        self.error(ErrorKind::NotFound, value, "");
    }

    /// `Too long`.
    pub fn too_long(self, max_bytes: usize) {
        self.push(Error::too_long(self.path(), max_bytes));
    }

    /// `Too many`, for the items here.
    pub fn too_many(self, max: usize) {
        self.push(Error::too_many(self.path(), self.len(), max));
    }

    /// `Internal error`.
    pub fn internal(self, detail: impl Into<String>) {
        self.push(Error::internal(self.path(), detail));
    }

    /// How many errors were found so far, to see whether a rule found any.
    pub fn found(self) -> usize {
        self.walk.errors.borrow().len()
    }
}

/// One step of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A member of a struct.
    Field(&'a str),
    /// A key of a map.
    Key(&'a str),
    /// An item of a list.
    Index(usize),
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_object::json;

    fn parse(text: &str) -> Value {
        json::from_slice(text.as_bytes()).unwrap()
    }

    #[test]
    fn an_error_names_its_exact_field() {
        let pod = parse(r#"{"spec":{"containers":[{"name":"a"},{"name":""}],"nodeSelector":{"a/b":"c"}}}"#);
        let mut errors = ErrorList::new();
        check(&pod, &mut errors, |pod| {
            let spec = pod.field("spec");
            for container in spec.field("containers").items() {
                let name = container.field("name");
                if name.str().is_empty() {
                    name.required("");
                }
            }
            for (_, value) in spec.field("nodeSelector").entries() {
                value.invalid(value.str(), "no");
            }
            pod.required("all");
        });
        assert_eq!(
            errors.aggregate(),
            "[spec.containers[1].name: Required value, spec.nodeSelector[a/b]: Invalid value: \"c\": no, <nil>: Required value: all]"
        );
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "has no field \"contaners\"")]
    fn a_field_that_the_type_lacks_fails_the_test() {
        let pod = parse(r#"{"apiVersion":"v1","kind":"Pod","spec":{}}"#);
        check(&pod, &mut ErrorList::new(), |pod| {
            pod.field("spec").field("contaners");
        });
    }

    #[test]
    fn absent_values_read_as_zero() {
        let pod = parse(r#"{"spec":null}"#);
        check(&pod, &mut ErrorList::new(), |pod| {
            let spec = pod.field("spec");
            assert!(!spec.exists());
            assert_eq!((spec.str_of("nodeName"), spec.field("priority").int()), ("", 0));
            assert_eq!(spec.field("containers").items().len(), 0);
        });
    }
}
