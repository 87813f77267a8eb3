//! One step of a field path, ordered and printed as structured-merge-diff does.
//!
//! Elements borrow their texts from the object, schema or stored `managedFields` they were made from, so that most field
//! sets are built without copying a name.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use triptych_object::field::quote;
use triptych_object::{Value, json};

use crate::go_text;

/// A value that tells list items apart. Numbers compare by value whatever their kind; lists and maps are odd but legal.
#[derive(Clone, Debug)]
pub enum Scalar<'a> {
    /// A whole number.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// Text.
    Text(Cow<'a, str>),
    /// A boolean.
    Bool(bool),
    /// A list or map.
    Tree(Arc<Value>),
    /// `null`.
    Null,
}

impl<'a> Scalar<'a> {
    /// The value as a key.
    pub fn of(value: &'a Value) -> Scalar<'a> {
        match value {
            Value::Int(i) => Scalar::Int(*i),
            Value::Float(f) => Scalar::Float(*f),
            Value::String(s) => Scalar::Text(Cow::Borrowed(s)),
            Value::Bool(b) => Scalar::Bool(*b),
            Value::Null => Scalar::Null,
            tree => Scalar::Tree(Arc::new(tree.clone())),
        }
    }

    /// The same, borrowing nothing.
    pub fn into_owned(self) -> Scalar<'static> {
        match self {
            Scalar::Int(i) => Scalar::Int(i),
            Scalar::Float(f) => Scalar::Float(f),
            Scalar::Text(s) => Scalar::Text(Cow::Owned(s.into_owned())),
            Scalar::Bool(b) => Scalar::Bool(b),
            Scalar::Tree(tree) => Scalar::Tree(tree),
            Scalar::Null => Scalar::Null,
        }
    }

    fn owned(value: Value) -> Scalar<'static> {
        match value {
            Value::Int(i) => Scalar::Int(i),
            Value::Float(f) => Scalar::Float(f),
            Value::String(s) => Scalar::Text(Cow::Owned(s)),
            Value::Bool(b) => Scalar::Bool(b),
            Value::Null => Scalar::Null,
            tree => Scalar::Tree(Arc::new(tree)),
        }
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        match self {
            Scalar::Int(i) => json::write(out, &Value::Int(*i)),
            Scalar::Float(f) => json::write(out, &Value::Float(*f)),
            Scalar::Text(s) => json::write_string(out, s),
            Scalar::Bool(b) => json::write(out, &Value::Bool(*b)),
            Scalar::Tree(tree) => json::write(out, tree),
            Scalar::Null => out.extend_from_slice(b"null"),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Scalar::Int(_) | Scalar::Float(_) => 0,
            Scalar::Text(_) => 1,
            Scalar::Bool(_) => 2,
            Scalar::Tree(tree) if matches!(**tree, Value::Array(_)) => 3,
            Scalar::Tree(_) => 4,
            Scalar::Null => 5,
        }
    }
}

impl fmt::Display for Scalar<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Both stored sets and apply patches are decoded with every number a float.
            Scalar::Int(i) => f.write_str(&go_text::float(*i as f64)),
            Scalar::Float(x) => f.write_str(&go_text::float(*x)),
            Scalar::Text(s) => f.write_str(&quote(s)),
            Scalar::Bool(b) => write!(f, "{b}"),
            Scalar::Tree(tree) => write_tree(f, tree),
            Scalar::Null => f.write_str("null"),
        }
    }
}

fn write_tree(f: &mut fmt::Formatter<'_>, tree: &Value) -> fmt::Result {
    match tree {
        Value::Array(items) => {
            f.write_str("[")?;
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    f.write_str(",")?;
                }
                write!(f, "{}", Scalar::of(item))?;
            }
            f.write_str("]")
        }
        Value::Object(map) => map
            .iter()
            .try_for_each(|(key, member)| write!(f, "{key}={}", Scalar::of(member))),
        scalar => write!(f, "{}", Scalar::of(scalar)),
    }
}

impl Ord for Scalar<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Scalar::Int(a), Scalar::Int(b)) => a.cmp(b),
            (Scalar::Int(a), Scalar::Float(b)) => (*a as f64).total_cmp(b),
            (Scalar::Float(a), Scalar::Int(b)) => a.total_cmp(&(*b as f64)),
            (Scalar::Float(a), Scalar::Float(b)) => a.total_cmp(b),
            (Scalar::Text(a), Scalar::Text(b)) => a.cmp(b),
            (Scalar::Bool(a), Scalar::Bool(b)) => a.cmp(b),
            (Scalar::Tree(a), Scalar::Tree(b)) if self.rank() == other.rank() => compare_trees(a, b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

fn compare_trees(a: &Value, b: &Value) -> Ordering {
    let scalars = |items: &[Value], others: &[Value]| items.iter().map(Scalar::of).cmp(others.iter().map(Scalar::of));
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => scalars(a, b),
        (Value::Object(a), Value::Object(b)) => {
            let sorted = |map: &triptych_object::Object| {
                let mut members: Vec<(String, Value)> = map.iter().map(|(k, v)| (k.to_owned(), v.clone())).collect();
                members.sort_by(|a, b| a.0.cmp(&b.0));
                members
            };
            let (a, b) = (sorted(a), sorted(b));
            let key = |m: &'_ (String, Value)| m.0.clone();
            a.iter().map(key).cmp(b.iter().map(key)).then_with(|| {
                a.iter()
                    .map(|m| Scalar::of(&m.1))
                    .cmp(b.iter().map(|m| Scalar::of(&m.1)))
            })
        }
        _ => Ordering::Equal,
    }
}

impl PartialOrd for Scalar<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scalar<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scalar<'_> {}

/// A key field of an item and its value.
pub type KeyField<'a> = (Cow<'a, str>, Scalar<'a>);

/// One step of a field path. The order of the variants is the order in which they sort.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathElement<'a> {
    /// A member of a struct or map: `f:name`.
    Field(Cow<'a, str>),
    /// An item of a list of maps, by its key fields sorted by name: `k:{"name":"a"}`.
    Key(Arc<[KeyField<'a>]>),
    /// An item of a set, by its value: `v:"a"`.
    Value(Scalar<'a>),
    /// An item by its position: `i:0`.
    Index(i64),
}

impl<'a> PathElement<'a> {
    /// A member.
    pub fn field(name: &'a str) -> PathElement<'a> {
        PathElement::Field(Cow::Borrowed(name))
    }

    /// An item by its key fields.
    pub fn key(mut fields: Vec<KeyField<'a>>) -> PathElement<'a> {
        if fields.len() > 1 {
            fields.sort_by(|a, b| a.0.cmp(&b.0));
        }
        PathElement::Key(fields.into())
    }

    /// An item by its only key field.
    pub fn one_key(field: KeyField<'a>) -> PathElement<'a> {
        PathElement::Key(Arc::new([field]))
    }

    /// The same, borrowing nothing.
    pub fn into_owned(self) -> PathElement<'static> {
        match self {
            PathElement::Field(name) => PathElement::Field(Cow::Owned(name.into_owned())),
            PathElement::Key(fields) => PathElement::Key(
                fields
                    .iter()
                    .map(|(k, v)| (Cow::Owned(k.clone().into_owned()), v.clone().into_owned()))
                    .collect(),
            ),
            PathElement::Value(value) => PathElement::Value(value.into_owned()),
            PathElement::Index(i) => PathElement::Index(i),
        }
    }

    /// Reads the text form; `Ok(None)` for a kind of element this version does not know.
    pub fn parse(text: &'a str) -> Result<Option<PathElement<'a>>, String> {
        if text.len() < 2 {
            return Err("key must be 2 characters long:".into());
        }
        if text.as_bytes()[1] != b':' {
            return Err(format!("missing colon: {text}"));
        }
        let rest = text.get(2..).unwrap_or_default();
        let read = || json::from_slice(rest.as_bytes()).map_err(|e| e.message);
        Ok(Some(match text.as_bytes()[0] {
            b'f' => PathElement::field(rest),
            b'v' => PathElement::Value(match plain_scalar(rest) {
                Some((value, "")) => value,
                _ => Scalar::owned(read()?),
            }),
            b'i' => PathElement::Index(
                rest.parse()
                    .map_err(|_| format!("strconv.Atoi: parsing {}: invalid syntax", quote(rest)))?,
            ),
            b'k' => match plain_key(rest) {
                Some(element) => element,
                None => match read()? {
                    Value::Object(map) => PathElement::key(
                        map.into_iter()
                            .map(|(k, v)| (Cow::Owned(k), Scalar::owned(v)))
                            .collect(),
                    ),
                    _ => return Err("expect { or n".into()),
                },
            },
            _ => return Ok(None),
        }))
    }

    /// The text form: `f:name`, `k:{"name":"a"}`, `v:"a"`, `i:0`.
    pub fn text(&self) -> String {
        match self {
            PathElement::Field(name) => ["f:", name].concat(),
            PathElement::Key(fields) => {
                let mut out = Vec::with_capacity(32);
                out.extend_from_slice(b"k:{");
                for (i, (name, value)) in fields.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    json::write_string(&mut out, name);
                    out.push(b':');
                    value.write_json(&mut out);
                }
                out.push(b'}');
                String::from_utf8(out).unwrap_or_default()
            }
            PathElement::Value(value) => {
                let mut out = b"v:".to_vec();
                value.write_json(&mut out);
                String::from_utf8(out).unwrap_or_default()
            }
            PathElement::Index(i) => format!("i:{i}"),
        }
    }
}

/// Reads a key object as the API server writes it, borrowing its texts; none for any other spelling.
fn plain_key(text: &str) -> Option<PathElement<'_>> {
    let mut rest = text.strip_prefix('{')?;
    let mut first = None;
    let mut more = Vec::new();
    loop {
        let (name, after) = plain_text(rest)?;
        let (value, after) = plain_scalar(after.strip_prefix(':')?)?;
        let field = (Cow::Borrowed(name), value);
        match first {
            None => first = Some(field),
            Some(_) => more.push(field),
        }
        rest = match after.strip_prefix(',') {
            Some(rest) => rest,
            None if after == "}" => break,
            None => return None,
        };
    }
    let first = first?;
    if more.is_empty() {
        return Some(PathElement::one_key(first));
    }
    more.insert(0, first);
    Some(PathElement::key(more))
}

/// A text without escapes, and what follows.
fn plain_text(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix('"')?;
    let end = rest.bytes().position(|b| b == b'"' || b == b'\\')?;
    (rest.as_bytes()[end] == b'"').then(|| (&rest[..end], &rest[end + 1..]))
}

/// A text without escapes or a whole number, and what follows.
fn plain_scalar(text: &str) -> Option<(Scalar<'_>, &str)> {
    if text.starts_with('"') {
        let (text, rest) = plain_text(text)?;
        return Some((Scalar::Text(Cow::Borrowed(text)), rest));
    }
    let end = text.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    let canonical = end == 1 || !text.starts_with('0');
    let number = text[..end].parse().ok().filter(|_| canonical)?;
    let rest = &text[end..];
    (rest.is_empty() || rest.starts_with([',', '}'])).then_some((Scalar::Int(number), rest))
}

impl fmt::Display for PathElement<'_> {
    /// `.name`, `[name="a"]`, `[="a"]`, `[0]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathElement::Field(name) => write!(f, ".{name}"),
            PathElement::Key(fields) => {
                f.write_str("[")?;
                for (i, (name, value)) in fields.iter().enumerate() {
                    let comma = if i > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={value}")?;
                }
                f.write_str("]")
            }
            PathElement::Value(value) => write!(f, "[={value}]"),
            PathElement::Index(i) => write!(f, "[{i}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_read_back_as_they_were_written() {
        for text in [
            "f:spec",
            "f:",
            "k:{\"containerPort\":80,\"protocol\":\"TCP\"}",
            "v:\"a\\\"b\"",
            "v:1.5",
            "v:true",
            "i:3",
        ] {
            assert_eq!(PathElement::parse(text).unwrap().unwrap().text(), text);
        }
        for text in [
            "k:{\"a\":\"\\u0041\"}",
            "k:{\"a\" : 1.0}",
            "v:01",
            "v:\"a\" x",
            "k:{}",
            "k:{\"a\":[1]}",
        ] {
            let read = PathElement::parse(text);
            let same = json::from_slice(&text.as_bytes()[2..]).is_ok();
            assert_eq!(read.is_ok(), same, "{text}");
        }
        assert_eq!(PathElement::parse("x:odd"), Ok(None));
        assert!(PathElement::parse("f").is_err());
        assert!(PathElement::parse("field").is_err());
    }

    #[test]
    fn elements_print_as_in_conflicts() {
        let shown = |text: &str| PathElement::parse(text).unwrap().unwrap().to_string();
        assert_eq!(shown("k:{\"b\":\"x\",\"a\":1}"), "[a=1,b=\"x\"]");
        assert_eq!(shown("v:\"a\""), "[=\"a\"]");
        assert_eq!(shown("f:spec"), ".spec");
        assert_eq!(shown("i:1"), "[1]");
    }

    #[test]
    fn fields_sort_before_keys_before_values() {
        let mut texts = [
            "v:\"a\"",
            "v:2",
            "k:{\"name\":\"b\"}",
            "k:{\"name\":\"a\"}",
            "f:z",
            "i:0",
            "v:1.5",
        ];
        texts.sort_by(|a, b| PathElement::parse(a).unwrap().cmp(&PathElement::parse(b).unwrap()));
        assert_eq!(
            texts,
            [
                "f:z",
                "k:{\"name\":\"a\"}",
                "k:{\"name\":\"b\"}",
                "v:1.5",
                "v:2",
                "v:\"a\"",
                "i:0"
            ]
        );
    }
}
