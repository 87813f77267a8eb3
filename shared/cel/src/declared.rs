//! A custom resource's structural schema as CEL sees it: the types rules are checked with, the sizes their cost is estimated with,
//! and the typed views of documents they are evaluated on.
//!
//! Contract: reads the JSON form of an `openAPIV3Schema`. As upstream, a node of no known type has no CEL type, and neither has the member that
//! holds it; its size estimates and minimum sizes are those of apiserver's `common.SchemaDeclType`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use base64::Engine as _;
use triptych_object::{self as object, Value as Json};

use crate::error::EvalError;
use crate::escape::escape;
use crate::time::{Span, Timestamp};
use crate::types::Type;
use crate::value::{Found, List, Map, Text, Value};

/// Bytes of a request.
pub const MAX_REQUEST_SIZE: i64 = 3 * 1024 * 1024;
/// Levels of a schema; deeper ones have no type.
const MAX_DEPTH: usize = 200;

/// How a list's items are told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// By their place.
    Plain,
    /// They are their own keys.
    Set,
    /// By these members.
    Map(Vec<String>),
}

/// A node of a schema.
#[derive(Debug)]
pub struct Declared {
    kind: Kind,
    nullable: bool,
    preserve: bool,
    /// What is known for checking; `None` if the node has no CEL type.
    typed: Option<Typed>,
}

/// What checking and estimating need to know of a node.
#[derive(Clone, Debug)]
struct Typed {
    ty: Type,
    /// Items, members, or units of text at most.
    max_elements: u64,
    /// Bytes at least, written as JSON.
    min_size: i64,
}

#[derive(Debug)]
enum Kind {
    IntOrString,
    /// Members by name; with `named` false of those nothing can be seen.
    Object {
        fields: HashMap<String, Arc<Declared>>,
        named: bool,
    },
    Values(Arc<Declared>),
    List {
        items: Option<Arc<Declared>>,
        kind: ListKind,
    },
    String(Format),
    Number,
    Integer,
    Boolean,
    Other(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Plain,
    Bytes,
    Duration,
    Date,
    DateTime,
}

/// What can be seen of an object's members.
#[derive(Clone, Copy, Debug)]
pub enum Members<'a> {
    /// Those named.
    Named(&'a HashMap<String, Arc<Declared>>),
    /// All, of one type.
    Values(&'a Declared),
    /// None.
    None,
}

fn flag(schema: &Json, name: &str) -> bool {
    schema.get(name).and_then(Json::as_bool) == Some(true)
}

fn number(schema: &Json, name: &str) -> Option<i64> {
    schema.get(name).and_then(Json::as_i64).map(|n| n.max(0))
}

/// A member that is a schema.
fn sub<'a>(schema: &'a Json, name: &str) -> Option<&'a Json> {
    schema.get(name).filter(|s| s.as_object().is_some())
}

fn format_of(schema: &Json) -> Format {
    match schema.str_at(&["format"]) {
        "byte" => Format::Bytes,
        "duration" => Format::Duration,
        "date" => Format::Date,
        "date-time" => Format::DateTime,
        _ => Format::Plain,
    }
}

impl Declared {
    /// Reads a schema; `root` is that of a whole object, whose kind, apiVersion and metadata's name rules may use.
    pub fn read(schema: &Json, root: bool) -> Arc<Declared> {
        Arc::new(Self::node(schema, root, "self", 0))
    }

    /// Reads the properties of a schema, those of a whole object added.
    fn node(schema: &Json, whole: bool, name: &str, depth: usize) -> Declared {
        let whole = whole || flag(schema, "x-kubernetes-embedded-resource");
        let nullable = flag(schema, "nullable");
        let preserve = flag(schema, "x-kubernetes-preserve-unknown-fields");
        let (kind, typed) = if depth > MAX_DEPTH {
            (Kind::Other(String::new()), None)
        } else if flag(schema, "x-kubernetes-int-or-string") {
            let max = number(schema, "maxLength").map_or(MAX_REQUEST_SIZE - 2, |n| n.saturating_mul(4));
            (Kind::IntOrString, typed(Type::Dyn, max, 1))
        } else {
            match schema.str_at(&["type"]) {
                "object" => Self::object(schema, whole, name, depth),
                "array" => Self::list(schema, name, depth),
                "string" => Self::string(schema),
                "number" => (Kind::Number, typed(Type::Double, 0, 1)),
                "integer" => (Kind::Integer, typed(Type::Int, 0, 1)),
                "boolean" => (Kind::Boolean, typed(Type::Bool, 0, 4)),
                other => (Kind::Other(other.to_owned()), None),
            }
        };
        Declared {
            kind,
            nullable,
            preserve,
            typed,
        }
    }

    fn object(schema: &Json, whole: bool, name: &str, depth: usize) -> (Kind, Option<Typed>) {
        if let Some(values) = sub(schema, "additionalProperties").filter(|_| !whole) {
            let values = Arc::new(Self::node(values, false, &format!("{name}.@elem"), depth + 1));
            let found = values.typed.as_ref().and_then(|value| {
                let max = number(schema, "maxProperties").unwrap_or((MAX_REQUEST_SIZE - 2) / (value.min_size + 6));
                typed(Type::map(Type::String, value.ty.clone()), max, 2)
            });
            return (Kind::Values(values), found);
        }
        let properties = sub(schema, "properties").and_then(Json::as_object);
        let required: Vec<&str> = schema.array_at(&["required"]).iter().filter_map(Json::as_str).collect();
        let mut fields = HashMap::new();
        let mut types: BTreeMap<String, Type> = BTreeMap::new();
        let mut min_size: i64 = 2;
        let base = (whole && !says_what_it_is(schema)).then(whole_object);
        let own = properties.into_iter().flat_map(object::Object::iter);
        let own = own.filter(|(property, _)| base.as_ref().is_none_or(|b| b.get(property).is_none()));
        let whole = base.iter().filter_map(Json::as_object).flat_map(object::Object::iter);
        for (property, schema) in own.chain(whole) {
            let escaped = escape(property);
            let shown = escaped.as_deref().unwrap_or(property);
            let field = Self::node(schema, false, &format!("{name}.{shown}"), depth + 1);
            if let Some(found) = &field.typed {
                if let Some(escaped) = escaped {
                    types.insert(escaped, found.ty.clone());
                }
                if required.contains(&property) && schema.get("default").is_none_or(Json::is_null) {
                    min_size += property.len() as i64 + found.min_size + 4;
                }
            }
            fields.insert(property.to_owned(), Arc::new(field));
        }
        let named = properties.is_some() || base.is_some();
        let found = typed(Type::object(name, types), 0, min_size);
        (Kind::Object { fields, named }, found)
    }

    fn list(schema: &Json, name: &str, depth: usize) -> (Kind, Option<Typed>) {
        let items =
            sub(schema, "items").map(|items| Arc::new(Self::node(items, false, &format!("{name}.@idx"), depth + 1)));
        let found = items.as_ref().and_then(|i| i.typed.as_ref()).and_then(|item| {
            let max = number(schema, "maxItems").unwrap_or((MAX_REQUEST_SIZE - 2) / (item.min_size + 1));
            typed(Type::list(item.ty.clone()), max, 2)
        });
        let keys = schema.array_at(&["x-kubernetes-list-map-keys"]).iter();
        let kind = match schema.str_at(&["x-kubernetes-list-type"]) {
            "set" => ListKind::Set,
            "map" => ListKind::Map(
                keys.filter_map(Json::as_str)
                    .map(|k| escape(k).unwrap_or_else(|| k.to_owned()))
                    .collect(),
            ),
            _ => ListKind::Plain,
        };
        (Kind::List { items, kind }, found)
    }

    fn string(schema: &Json) -> (Kind, Option<Typed>) {
        let format = format_of(schema);
        let max_length = number(schema, "maxLength");
        let found = match format {
            Format::Bytes => typed(Type::Bytes, max_length.unwrap_or(MAX_REQUEST_SIZE - 2), 2),
            Format::Duration => typed(Type::Duration, 32, 3),
            Format::Date => typed(Type::Timestamp, 12, 12),
            Format::DateTime => typed(Type::Timestamp, 32, 21),
            Format::Plain => {
                let values = schema.array_at(&["enum"]);
                let longest = values.iter().filter_map(Json::as_str).map(str::len).max();
                let max = match max_length {
                    Some(length) => length.saturating_mul(4),
                    None if !values.is_empty() => longest.unwrap_or(0) as i64,
                    None => MAX_REQUEST_SIZE - 2,
                };
                typed(Type::String, max, 2)
            }
        };
        (Kind::String(format), found)
    }

    /// The type rules are checked with; `None` if rules cannot stand here.
    pub fn cel_type(&self) -> Option<&Type> {
        self.typed.as_ref().map(|t| &t.ty)
    }

    /// How many such values fit in a request, at most.
    pub fn max_cardinality(&self) -> u64 {
        let size = self.typed.as_ref().map_or(1, |t| t.min_size);
        (MAX_REQUEST_SIZE / (size + 1)) as u64
    }

    /// The member of an object, or any value of a map.
    pub fn member(&self, name: &str) -> Option<&Arc<Declared>> {
        match &self.kind {
            Kind::Object { fields, .. } => fields.get(name),
            Kind::Values(values) => Some(values),
            _ => None,
        }
    }

    /// The items of a list, or the values of a map.
    pub fn element(&self) -> Option<&Arc<Declared>> {
        match &self.kind {
            Kind::Values(values) => Some(values),
            Kind::List { items, .. } => items.as_ref(),
            _ => None,
        }
    }

    /// The size that what a path leads to may have at most.
    pub fn max_size(&self, path: &[String]) -> Option<u64> {
        let mut here = self;
        for (i, step) in path.iter().enumerate() {
            here = match step.as_str() {
                "@items" | "@values" => here.element()?,
                // A map's keys are texts of which nothing is known.
                "@keys" => {
                    let is_map = matches!(here.kind, Kind::Values(_));
                    return (is_map && i + 1 == path.len()).then_some(0);
                }
                name => match &here.kind {
                    Kind::Object { fields, .. } => fields.get(&crate::escape::unescape(name)?)?,
                    _ => return None,
                },
            };
        }
        Some(here.typed.as_ref()?.max_elements)
    }

    /// What can be seen of the members of an object of this type.
    pub(crate) fn members(&self) -> Members<'_> {
        match &self.kind {
            Kind::Object { fields, named: true } => Members::Named(fields),
            Kind::Values(values) => Members::Values(values),
            _ => Members::None,
        }
    }

    /// A document seen through this schema; an error if it is of another type.
    pub fn view<'a>(&'a self, document: &'a Json) -> Found<'a> {
        let refuse = |message: &str| Err(EvalError::new(message));
        match (&self.kind, document) {
            (_, Json::Null) if self.nullable => Ok(Value::Null),
            (_, Json::Null) => refuse("invalid data, got null for schema with nullable=false"),
            (Kind::IntOrString, Json::String(text)) => Ok(Value::String(Text::Borrowed(text))),
            (Kind::IntOrString, Json::Int(number)) => Ok(Value::Int(*number)),
            (Kind::IntOrString, _) => {
                refuse("invalid data, expected XIntOrString value to be either a string or integer")
            }
            (Kind::Object { .. } | Kind::Values(_), Json::Object(members)) => {
                Ok(Value::Map(Map::view(members, Some(self))))
            }
            (Kind::Object { .. } | Kind::Values(_), _) => {
                refuse("invalid data, expected a map for the provided schema with type=object")
            }
            (
                Kind::List {
                    items: Some(items),
                    kind,
                },
                Json::Array(values),
            ) => Ok(Value::List(List::view(values, Some(items)).with_kind(kind))),
            (Kind::List { items: None, .. }, Json::Array(_)) => {
                refuse("invalid array type, expected Items with a non-empty Schema")
            }
            (Kind::List { .. }, _) => refuse("invalid data, expected an array for the provided schema with type=array"),
            (Kind::String(format), Json::String(text)) => string(*format, text),
            (Kind::String(_), other) => refuse(&format!("invalid data, expected string, got {}", go_type(other))),
            (Kind::Number, Json::Int(number)) => Ok(Value::Double(*number as f64)),
            (Kind::Number, Json::Float(number)) => Ok(Value::Double(*number)),
            (Kind::Number, other) => refuse(&format!("invalid data, expected float, got {}", go_type(other))),
            (Kind::Integer, Json::Int(number)) => Ok(Value::Int(*number)),
            (Kind::Integer, other) => refuse(&format!("invalid data, expected int, got {}", go_type(other))),
            (Kind::Boolean, Json::Bool(b)) => Ok(Value::Bool(*b)),
            (Kind::Boolean, other) => refuse(&format!("invalid data, expected bool, got {}", go_type(other))),
            (Kind::Other(_), document) if self.preserve => Ok(Value::Preserved(document)),
            (Kind::Other(name), _) => refuse(&format!(
                "invalid type, expected object, array, number, integer, boolean or string, or no type with x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields is true, got {name}"
            )),
        }
    }
}

fn typed(ty: Type, max_elements: i64, min_size: i64) -> Option<Typed> {
    Some(Typed {
        ty,
        max_elements: max_elements.max(0) as u64,
        min_size,
    })
}

/// Whether a schema declares what every whole object has.
fn says_what_it_is(schema: &Json) -> bool {
    let typed = |path: &[&str], ty: &str| schema.at(path).is_some_and(|s| s.str_at(&["type"]) == ty);
    typed(&["properties", "kind"], "string")
        && typed(&["properties", "apiVersion"], "string")
        && typed(&["properties", "metadata"], "object")
        && typed(&["properties", "metadata", "properties", "name"], "string")
        && typed(&["properties", "metadata", "properties", "generateName"], "string")
}

/// What every whole object has.
fn whole_object() -> Json {
    let string = || Json::from([("type", "string".into())]);
    let metadata = Json::from([
        ("type", "object".into()),
        (
            "properties",
            Json::from([("name", string()), ("generateName", string())]),
        ),
    ]);
    Json::from([("kind", string()), ("apiVersion", string()), ("metadata", metadata)])
}

fn string(format: Format, text: &str) -> Found<'_> {
    let outcome = match format {
        Format::Plain => Ok(Value::String(Text::Borrowed(text))),
        Format::Duration => Span::parse_lenient(text)
            .map(Value::Duration)
            .map_err(|e| format!("Invalid duration {text}: {e}")),
        Format::Date => Timestamp::parse_date(text)
            .map(Value::Timestamp)
            .map_err(|e| format!("Invalid date formatted string {text}: {e}")),
        Format::DateTime => Timestamp::parse(&text.to_uppercase())
            .map(Value::Timestamp)
            .map_err(|e| format!("Invalid date-time formatted string {text}: {e}")),
        Format::Bytes => base64::engine::general_purpose::STANDARD
            .decode(text)
            .map(|bytes| Value::Bytes(bytes.into()))
            .map_err(|e| format!("Invalid byte formatted string {text}: {e}")),
    };
    outcome.map_err(EvalError::new)
}

fn go_type(value: &Json) -> &'static str {
    match value {
        Json::Null => "<nil>",
        Json::Bool(_) => "bool",
        Json::Int(_) => "int64",
        Json::Float(_) => "float64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    }
}
