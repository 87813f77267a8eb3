//! Values at run time.
//!
//! Contract: a document is looked at through views that borrow it ([`Value::of`] for untyped, [`crate::Declared::view`] for typed ones); nothing is
//! converted before it is asked for. Everything else is shared, so that cloning a value is cheap.

mod compare;
mod list;
mod map;
mod text;

use std::fmt;
use std::sync::Arc;

use triptych_object as object;

use crate::declared::Declared;
use crate::error::EvalError;
use crate::libraries::Extension;
use crate::time::{Span, Timestamp};
use crate::types::Type;

pub(crate) use compare::concat;
pub use compare::{compare, equal, is_comparable};
pub use list::List;
pub use map::{Built, Key, Map};
pub use text::Text;

/// A value.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// true or false
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A number.
    Double(f64),
    /// A text.
    String(Text<'a>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A span of time.
    Duration(Span),
    /// A point in time.
    Timestamp(Timestamp),
    /// A type.
    Type(Type),
    /// A list.
    List(List<'a>),
    /// A map, or an object of a document.
    Map(Map<'a>),
    /// A value or nothing.
    Optional(Option<Arc<Value<'a>>>),
    /// A struct made by an expression.
    Struct(Arc<Struct<'a>>),
    /// A value of one of Kubernetes' libraries.
    Extension(Extension),
    /// A part of a document about which the schema says nothing.
    Preserved(&'a object::Value),
}

/// A struct made by an expression, `Object{metadata: …}`.
#[derive(Clone, Debug)]
pub struct Struct<'a> {
    /// The name of its type.
    pub name: Arc<str>,
    /// What was set, in that order.
    pub fields: Vec<(Arc<str>, Value<'a>)>,
}

impl<'a> Struct<'a> {
    /// A field that was set.
    pub fn get(&self, name: &str) -> Option<&Value<'a>> {
        self.fields.iter().find(|(n, _)| &**n == name).map(|(_, v)| v)
    }
}

impl<'a> Value<'a> {
    /// A document without a schema.
    pub fn of(document: &'a object::Value) -> Value<'a> {
        match document {
            object::Value::Null => Value::Null,
            object::Value::Bool(b) => Value::Bool(*b),
            object::Value::Int(i) => Value::Int(*i),
            object::Value::Float(f) => Value::Double(*f),
            object::Value::String(s) => Value::String(Text::Borrowed(s)),
            object::Value::Array(items) => Value::List(List::view(items, None)),
            object::Value::Object(members) => Value::Map(Map::view(members, None)),
        }
    }

    /// A text.
    pub fn string(text: impl Into<Arc<str>>) -> Value<'a> {
        Value::String(Text::Shared(text.into()))
    }

    /// A list of values.
    pub fn list(items: Vec<Value<'a>>) -> Value<'a> {
        Value::List(List::new(items))
    }

    /// This value, or nothing.
    pub fn optional(value: Option<Value<'a>>) -> Value<'a> {
        Value::Optional(value.map(Arc::new))
    }

    /// The text, if this is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The truth, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// Its type; without parameters, as values do not know them.
    pub fn type_of(&self) -> Type {
        match self {
            Value::Null => Type::Null,
            Value::Bool(_) => Type::Bool,
            Value::Int(_) => Type::Int,
            Value::Uint(_) => Type::Uint,
            Value::Double(_) => Type::Double,
            Value::String(_) => Type::String,
            Value::Bytes(_) => Type::Bytes,
            Value::Duration(_) => Type::Duration,
            Value::Timestamp(_) => Type::Timestamp,
            Value::Type(_) => Type::Type(None),
            Value::List(_) => Type::list(Type::Dyn),
            Value::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Value::Optional(_) => Type::optional(Type::Dyn),
            Value::Struct(s) => Type::Object(Arc::new(crate::types::ObjectType::named(s.name.clone()))),
            Value::Extension(e) => e.type_of(),
            Value::Preserved(_) => Type::Opaque("unknown".into(), Arc::new([])),
        }
    }

    /// The name of its type, as errors show it.
    pub fn type_name(&self) -> String {
        self.type_of().name().to_owned()
    }

    /// The length, for what has one: code points, bytes, items, members; an optional has that of its value.
    pub fn size(&self) -> Option<u64> {
        Some(match self {
            Value::String(text) => text.chars().count() as u64,
            Value::Bytes(bytes) => bytes.len() as u64,
            Value::List(list) => list.len() as u64,
            Value::Map(map) => map.len() as u64,
            Value::Extension(e) => return e.size(),
            _ => return None,
        })
    }

    /// Whether it is empty or zero.
    pub fn is_zero(&self) -> bool {
        match self {
            Value::Null => true,
            Value::Bool(b) => !b,
            Value::Int(i) => *i == 0,
            Value::Uint(u) => *u == 0,
            Value::Double(d) => *d == 0.0,
            Value::String(text) => text.is_empty(),
            Value::Bytes(bytes) => bytes.is_empty(),
            Value::Duration(span) => span.nanos() == 0,
            Value::Timestamp(t) => t.is_zero(),
            Value::List(list) => list.is_empty(),
            Value::Map(map) => map.is_empty(),
            Value::Optional(inner) => inner.as_ref().is_none_or(|v| v.is_zero()),
            Value::Struct(s) => s.fields.is_empty(),
            Value::Type(_) | Value::Extension(_) | Value::Preserved(_) => false,
        }
    }

    /// The document this value stands for, with structs, maps and lists made of members.
    ///
    /// `None` for what JSON cannot say: types, optionals, values of libraries; numbers that are not finite.
    pub fn to_json(&self) -> Option<object::Value> {
        Some(match self {
            Value::Null => object::Value::Null,
            Value::Bool(b) => object::Value::Bool(*b),
            Value::Int(i) => object::Value::Int(*i),
            Value::Uint(u) => i64::try_from(*u).map_or(object::Value::Float(*u as f64), object::Value::Int),
            Value::Double(d) if d.is_finite() => object::Value::Float(*d),
            Value::String(text) => object::Value::String((**text).to_owned()),
            Value::Bytes(bytes) => {
                use base64::Engine as _;
                object::Value::String(base64::engine::general_purpose::STANDARD.encode(bytes))
            }
            Value::Duration(span) => object::Value::String(span.seconds_text()),
            Value::Timestamp(t) => object::Value::String(t.to_string()),
            Value::List(list) => {
                let mut items = Vec::with_capacity(list.len());
                for item in list.iter() {
                    items.push(item.ok()?.to_json()?);
                }
                object::Value::Array(items)
            }
            Value::Map(map) => {
                let mut members = object::Object::new();
                for key in map.keys() {
                    let value = map.get(&key)?.ok()?;
                    members.insert(key.to_string(), value.to_json()?);
                }
                object::Value::Object(members)
            }
            Value::Struct(s) => {
                let mut members = object::Object::new();
                for (name, value) in &s.fields {
                    members.insert(name.to_string(), value.to_json()?);
                }
                object::Value::Object(members)
            }
            Value::Preserved(document) => (*document).clone(),
            Value::Double(_) | Value::Type(_) | Value::Optional(_) | Value::Extension(_) => return None,
        })
    }
}

impl fmt::Display for Value<'_> {
    /// As Go's `%v` shows it in errors.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("NULL_VALUE"),
            Value::Bool(b) => write!(f, "{b}"),
            Value::Int(i) => write!(f, "{i}"),
            Value::Uint(u) => write!(f, "{u}"),
            Value::Double(d) => f.write_str(&crate::number::shortest(*d)),
            Value::String(text) => f.write_str(text),
            Value::Bytes(bytes) => write!(f, "{bytes:?}"),
            Value::Duration(span) => write!(f, "{span}"),
            Value::Timestamp(t) => write!(f, "{t}"),
            Value::Type(ty) => f.write_str(ty.name()),
            Value::List(list) => {
                f.write_str("[")?;
                for (i, item) in list.iter().enumerate() {
                    let comma = if i > 0 { ", " } else { "" };
                    match item {
                        Ok(item) => write!(f, "{comma}{item}")?,
                        Err(e) => write!(f, "{comma}{e}")?,
                    }
                }
                f.write_str("]")
            }
            Value::Map(map) => {
                f.write_str("{")?;
                for (i, key) in map.keys().into_iter().enumerate() {
                    let comma = if i > 0 { ", " } else { "" };
                    match map.get(&key) {
                        Some(Ok(value)) => write!(f, "{comma}{key}: {value}")?,
                        _ => write!(f, "{comma}{key}: ")?,
                    }
                }
                f.write_str("}")
            }
            Value::Optional(None) => f.write_str("optional.none()"),
            Value::Optional(Some(value)) => write!(f, "optional({value})"),
            Value::Struct(s) => f.write_str(&s.name),
            Value::Extension(e) => write!(f, "{e}"),
            Value::Preserved(document) => f.write_str(&object::json::to_string(document)),
        }
    }
}

/// What is found on the way through a value.
pub type Found<'a> = Result<Value<'a>, EvalError>;

/// A view of a part of a document, typed if its schema is known.
pub(crate) fn view<'a>(document: &'a object::Value, declared: Option<&'a Declared>) -> Found<'a> {
    match declared {
        Some(declared) => declared.view(document),
        None => Ok(Value::of(document)),
    }
}
