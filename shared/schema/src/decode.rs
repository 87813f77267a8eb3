//! What Go's decoding into structs does to a document, done to a tree, and what writing it again does.
//!
//! Contract, for built-in types: unknown fields are dropped (and reported, with duplicates, in the order in which they
//! stand); `null` and zero `omitempty` are dropped, what is always written is written; quantities, times, durations,
//! int-or-strings and bytes are canonical; fields are in Go's order. A value of the wrong type gives the text of
//! sigs.k8s.io/json: the first wrong type is reported when everything else was read, but an error of a type that
//! decodes itself (a time, a quantity) at once. Empty lists, maps and bytes stay when a document is decoded, as they do in
//! Go's structs; [`settle`] drops those that are not written, and [`normalise`] makes `null` of the rest, as the way
//! through the store's protobuf does.
//!
//! For custom resources only `metadata` is decoded, with the type ObjectMeta.

mod base64;
mod converter;
mod time;
mod zero;

use triptych_object::json::{self, Duplicate, OddNumber};
use triptych_object::{Quantity, Value, duration};

use crate::types::{Schema, Shape, Struct, Type, TypeId};

pub use base64::decode as decode_base64;
pub use time::{Moment, format_micro_time, format_time, parse_micro_time, parse_time};
pub(crate) use zero::{Empty, written};
pub use zero::{settle, zero_of};

/// Why a tree is no object of its type; the text is Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(pub String);

/// What strict reading objects to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StrictError {
    /// The type has no such field.
    Unknown(String),
    /// The field stands twice.
    Duplicate(String),
    /// Another reader's text (YAML).
    Other(String),
}

impl std::fmt::Display for StrictError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use triptych_object::field::quote;
        match self {
            StrictError::Unknown(path) => write!(f, "unknown field {}", quote(path)),
            StrictError::Duplicate(path) => write!(f, "duplicate field {}", quote(path)),
            StrictError::Other(text) => f.write_str(text),
        }
    }
}

/// `strict decoding error: …` of everything that strict reading objected to.
pub fn strict_text(errors: &[StrictError]) -> String {
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    format!("strict decoding error: {}", texts.join(", "))
}

/// The apiserver's text of a body that is no object of its kind: `Pod in version "v1" cannot be handled as a Pod: …`.
pub fn cannot_be_handled(kind: &str, version: &str, expected: &str, error: &str) -> String {
    format!("{kind} in version \"{version}\" cannot be handled as a {expected}: {error}")
}

/// What the reader of a body noted beside its value (see [`json::Parsed`]).
#[derive(Clone, Copy, Debug, Default)]
pub struct Source<'a> {
    /// Keys that stood twice.
    pub duplicates: &'a [Duplicate],
    /// Numbers whose text matters to error messages and quantities.
    pub numbers: &'a [OddNumber],
}

/// No object has more values than this; what Go writes for a zero struct is more than the `{}` that asks for it.
const MAX_VALUES: usize = 1_000_000;

/// No more strict errors than this are kept.
const MAX_STRICT: usize = 100;

/// Decodes a document as the type, in place; `prefix` is its path in the body (empty for the body itself).
///
/// Returns what strict reading objects to, in the order in which it stands.
pub fn decode(
    schema: &Schema,
    ty: TypeId,
    value: &mut Value,
    source: Source<'_>,
    prefix: &str,
) -> Result<Vec<StrictError>, DecodeError> {
    decode_with(schema, ty, value, source, prefix, Empty::Stays)
}

/// The same, for what goes on as JSON.
pub(crate) fn decode_with(
    schema: &Schema,
    ty: TypeId,
    value: &mut Value,
    source: Source<'_>,
    prefix: &str,
    empty: Empty,
) -> Result<Vec<StrictError>, DecodeError> {
    let mut decoder = Decoder::new(schema, empty);
    decoder.strict = Some(Strict {
        path: prefix.to_owned(),
        source,
        errors: Vec::new(),
    });
    decoder.root(ty, value)?;
    Ok(decoder.strict.map(|s| s.errors).unwrap_or_default())
}

/// By whose rules a tree that was not read from a body becomes an object, and in whose words it does not.
#[derive(Clone, Copy, Debug)]
pub enum Reader<'a> {
    /// The JSON decoder's, after JSON and merge patches; with the numbers whose text the patch kept.
    Json(&'a [OddNumber]),
    /// The unstructured converter's, after strategic merge patches and applies.
    Converter,
}

/// Decodes a tree as the type, in place, like [`decode`].
pub fn decode_tree(
    schema: &Schema,
    ty: TypeId,
    value: &mut Value,
    reader: Reader<'_>,
) -> Result<Vec<StrictError>, DecodeError> {
    let numbers = match reader {
        Reader::Json(numbers) => numbers,
        Reader::Converter => &[],
    };
    let mut decoder = Decoder::new(schema, Empty::Stays);
    decoder.converts = matches!(reader, Reader::Converter);
    decoder.strict = Some(Strict {
        path: String::new(),
        source: Source {
            duplicates: &[],
            numbers,
        },
        errors: Vec::new(),
    });
    decoder.root(ty, value)?;
    let mut strict = decoder.strict.map(|s| s.errors).unwrap_or_default();
    if matches!(reader, Reader::Converter) {
        strict.sort_by_key(ToString::to_string);
    }
    Ok(strict)
}

/// Does to a tree what decoding and encoding again do to it in Go. For trees that a patch or webhook changed.
pub fn normalise(schema: &Schema, ty: TypeId, value: &mut Value) -> Result<(), DecodeError> {
    Decoder::new(schema, Empty::Goes).root(ty, value)
}

struct Strict<'a> {
    path: String,
    source: Source<'a>,
    errors: Vec<StrictError>,
}

impl Strict<'_> {
    fn push(&mut self, error: StrictError) {
        if self.errors.len() < MAX_STRICT && !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    fn field(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    /// Reports the known members that stood for the second time when `before` different ones had been read.
    fn duplicates(&mut self, before: usize, known: impl Fn(&str) -> bool) {
        for d in self.source.duplicates {
            if d.before == before && d.parent() == self.path && known(d.key()) {
                self.push(StrictError::Duplicate(d.path.clone()));
            }
        }
    }
}

/// A wrong type as Go's `UnmarshalTypeError` holds it.
struct WrongType {
    /// `string`, `number 1.5`, …
    value: String,
    /// `int32`, `v1.Container`, …
    wanted: String,
    /// Fields below the type that decodes itself.
    inner: String,
}

/// What ends decoding at once.
enum Fatal {
    Wrong(WrongType),
    Text(String),
}

struct Decoder<'s, 'a> {
    schema: &'s Schema,
    /// Go name of the struct whose field is being read, without its package; empty outside any.
    struct_name: &'s str,
    /// Fields on the way to the value, those of Go's embedded structs included.
    fields: Vec<&'s str>,
    /// The first wrong type.
    saved: Option<String>,
    strict: Option<Strict<'a>>,
    values: usize,
    empty: Empty,
    /// The unstructured converter's rules and words, not the JSON decoder's.
    converts: bool,
}

/// `Container` of `io.k8s.api.core.v1.Container`.
fn short_name(ty: &Type) -> &str {
    ty.name.as_deref().map_or("", |n| n.rsplit('.').next().unwrap_or(n))
}

impl<'s> Decoder<'s, '_> {
    fn new(schema: &'s Schema, empty: Empty) -> Self {
        Decoder {
            schema,
            struct_name: "",
            fields: Vec::new(),
            saved: None,
            strict: None,
            values: 0,
            empty,
            converts: false,
        }
    }

    fn root(&mut self, ty: TypeId, value: &mut Value) -> Result<(), DecodeError> {
        match self.value(ty, value) {
            Ok(()) => self.saved.take().map_or(Ok(()), |text| Err(DecodeError(text))),
            Err(Fatal::Wrong(wrong)) => Err(DecodeError(self.worded(&wrong))),
            Err(Fatal::Text(text)) => Err(DecodeError(text)),
        }
    }

    fn worded(&self, wrong: &WrongType) -> String {
        let WrongType { value, wanted, inner } = wrong;
        if self.converts || self.struct_name.is_empty() && self.fields.is_empty() {
            return if inner.is_empty() {
                format!("json: cannot unmarshal {value} into Go value of type {wanted}")
            } else {
                format!("json: cannot unmarshal {value} into Go struct field {inner} of type {wanted}")
            };
        }
        let mut path = self.fields.join(".");
        if let Some((_, inner)) = inner.split_once('.') {
            path.push('.');
            path.push_str(inner);
        }
        format!(
            "json: cannot unmarshal {value} into Go struct field {}.{path} of type {wanted}",
            self.struct_name
        )
    }

    /// A number as it stood in the body.
    fn number_text(&self, value: &Value) -> String {
        let noted = match (&self.strict, value) {
            (Some(strict), Value::Float(_)) => strict.source.numbers.iter().find(|n| n.path == strict.path),
            _ => None,
        };
        noted.map_or_else(|| json::to_string(value), |n| n.text.clone())
    }

    /// Go's name of a type; a map of resources has one of its own.
    fn go_name(&self, id: TypeId) -> String {
        if let Shape::Map(map) = &self.schema.get(id).shape
            && matches!(self.schema.get(map.value).shape, Shape::Quantity)
            && matches!(short_name(self.schema.get(map.key)), "" | "ResourceName")
        {
            return "v1.ResourceList".to_owned();
        }
        self.schema.go_name(id)
    }

    /// Remembers the first wrong type; the value becomes zero. The converter ends there.
    fn wrong(&mut self, id: TypeId, value: &mut Value, shown: String) -> Result<(), Fatal> {
        if self.converts {
            let text = converter::refusal(self.schema, id, &self.go_name(id), value);
            return Err(Fatal::Text(text));
        }
        if self.saved.is_none() {
            let wrong = WrongType {
                value: shown,
                wanted: self.go_name(id),
                inner: String::new(),
            };
            self.saved = Some(self.worded(&wrong));
        }
        *value = zero_of(self.schema, id);
        Ok(())
    }

    /// Decodes one value that is not `null` or stands where Go has no field to leave alone (an item, a map's value).
    fn value(&mut self, id: TypeId, value: &mut Value) -> Result<(), Fatal> {
        let schema = self.schema;
        let ty = schema.get(id);
        if value.is_null() {
            return self.null(id, ty, value);
        }
        match &ty.shape {
            Shape::Bool if matches!(value, Value::Bool(_)) => {}
            Shape::String if matches!(value, Value::String(_)) => {}
            Shape::Int { bits, unsigned } if self.converts && matches!(value, Value::Int(_) | Value::Float(_)) => {
                match converter::integer(value, *bits, *unsigned) {
                    Some(number) => *value = Value::Int(number),
                    None => self.wrong(id, value, String::new())?,
                }
            }
            Shape::Int { bits, unsigned } if matches!(value, Value::Int(_) | Value::Float(_)) => {
                let fits = match value {
                    Value::Int(i) => match (bits, unsigned) {
                        (32, false) => i32::try_from(*i).is_ok(),
                        (32, true) => u32::try_from(*i).is_ok(),
                        (_, unsigned) => !unsigned || *i >= 0,
                    },
                    _ => false,
                };
                if !fits {
                    self.wrong(id, value, format!("number {}", self.number_text(value)))?;
                }
            }
            Shape::Float { .. } if matches!(value, Value::Int(_) | Value::Float(_)) => {}
            Shape::Bytes if matches!(value, Value::String(_) | Value::Array(_)) => self.bytes(id, value)?,
            Shape::Quantity => {
                let text = match &*value {
                    Value::String(s) => s.trim().to_owned(),
                    Value::Int(_) | Value::Float(_) => self.number_text(value),
                    other => json::to_string(other),
                };
                let quantity: Quantity = text.parse().map_err(text_of)?;
                *value = Value::String(quantity.to_string());
            }
            Shape::Time => *value = time::format_time(&parse_time(self.text(value)?).map_err(Fatal::Text)?),
            Shape::MicroTime => {
                *value = time::format_micro_time(&parse_micro_time(self.text(value)?).map_err(Fatal::Text)?);
            }
            Shape::Duration => {
                let nanos = duration::parse(self.text(value)?).map_err(Fatal::Text)?;
                *value = Value::String(duration::format(nanos));
            }
            Shape::IntOrString => match value {
                Value::String(_) => {}
                Value::Int(i) if i32::try_from(*i).is_ok() => {}
                Value::Int(_) | Value::Float(_) => {
                    return Err(wrong_type(&format!("number {}", self.number_text(value)), "int32"));
                }
                other => return Err(wrong_type(other.type_name(), "int32")),
            },
            Shape::RawExtension | Shape::Json | Shape::FieldsV1 => {}
            Shape::SchemaOrBool(inner) => match value {
                Value::Bool(_) => {}
                Value::Object(_) => self.apart(*inner, value)?,
                _ => return Err(Fatal::Text("boolean or JSON schema expected".to_owned())),
            },
            Shape::SchemaOrArray(inner) | Shape::SchemaOrStringArray(inner) => match value {
                Value::Object(_) => self.apart(*inner, value)?,
                Value::Array(items) if items.is_empty() => *value = Value::Null,
                Value::Array(items) => {
                    let schemas = matches!(ty.shape, Shape::SchemaOrArray(_));
                    for item in items {
                        match (schemas, &*item) {
                            (true, _) => self.apart(*inner, item)?,
                            (false, Value::String(_)) => {}
                            (false, Value::Null) => *item = Value::String(String::new()),
                            (false, other) => return Err(wrong_type(word(other), "string")),
                        }
                    }
                }
                _ => *value = Value::Null,
            },
            Shape::Struct(s) if matches!(value, Value::Object(_)) => self.fields(ty, s, value)?,
            Shape::List(list) if matches!(value, Value::Array(_)) => {
                let (item_type, Value::Array(items)) = (list.item, value) else {
                    return Ok(());
                };
                for (i, item) in items.iter_mut().enumerate() {
                    let back = self.enter(|| format!("[{i}]"));
                    self.value(item_type, item)?;
                    self.leave(back);
                }
            }
            Shape::Map(map) if matches!(value, Value::Object(_)) => self.members(map.value, value)?,
            _ => self.wrong(id, value, word(value).to_owned())?,
        }
        Ok(())
    }

    fn null(&mut self, id: TypeId, ty: &Type, value: &mut Value) -> Result<(), Fatal> {
        if matches!(ty.shape, Shape::Duration) {
            return duration::parse("").map(drop).map_err(Fatal::Text);
        }
        *value = zero_of(self.schema, id);
        Ok(())
    }

    /// The text of a type that decodes itself from a string.
    fn text<'v>(&self, value: &'v Value) -> Result<&'v str, Fatal> {
        value.as_str().ok_or_else(|| wrong_type(word(value), "string"))
    }

    /// Decodes a schema within a type that decodes itself: leniently, and with a context of its own.
    fn apart(&mut self, id: TypeId, value: &mut Value) -> Result<(), Fatal> {
        let mut inner = Decoder::new(self.schema, self.empty);
        let outcome = inner.value(id, value);
        let error = match (outcome, inner.saved.take()) {
            (Ok(()), None) => return Ok(()),
            (Ok(()), Some(text)) => text,
            (Err(Fatal::Text(text)), _) => return Err(Fatal::Text(text)),
            (Err(Fatal::Wrong(wrong)), _) => inner.worded(&wrong),
        };
        // The inner error is worded already; take it apart again, for the outer context to be put around it.
        let parts = error
            .strip_prefix("json: cannot unmarshal ")
            .and_then(|rest| rest.split_once(" into Go "))
            .and_then(|(value, rest)| Some((value, rest.rsplit_once(" of type ")?)));
        Err(match parts {
            Some((value, (place, wanted))) => Fatal::Wrong(WrongType {
                value: value.to_owned(),
                wanted: wanted.to_owned(),
                inner: place.strip_prefix("struct field ").unwrap_or("").to_owned(),
            }),
            None => Fatal::Text(error),
        })
    }

    fn bytes(&mut self, id: TypeId, value: &mut Value) -> Result<(), Fatal> {
        use ::base64::Engine;
        let engine = &::base64::engine::general_purpose::STANDARD;
        let bytes = match &*value {
            Value::String(text) => match base64::decode(text.as_bytes()) {
                Ok(bytes) => bytes,
                Err(at) => {
                    let text = format!("illegal base64 data at input byte {at}");
                    if self.converts {
                        return Err(Fatal::Text(format!("error decoding from json: {text}")));
                    }
                    self.saved.get_or_insert(text);
                    *value = Value::Null;
                    return Ok(());
                }
            },
            Value::Array(items) => {
                let byte = |item: &Value| item.as_i64().and_then(|i| u8::try_from(i).ok());
                match items
                    .iter()
                    .map(|item| byte(item).ok_or(item))
                    .collect::<Result<Vec<u8>, &Value>>()
                {
                    Ok(bytes) => bytes,
                    Err(item) => {
                        let shown = match item {
                            Value::Int(_) | Value::Float(_) => format!("number {}", self.number_text(item)),
                            other => word(other).to_owned(),
                        };
                        let wrong = WrongType {
                            value: shown,
                            wanted: "uint8".to_owned(),
                            inner: String::new(),
                        };
                        self.saved = self.saved.take().or_else(|| Some(self.worded(&wrong)));
                        *value = Value::Null;
                        return Ok(());
                    }
                }
            }
            other => return self.wrong(id, value, word(&other.clone()).to_owned()),
        };
        *value = Value::String(engine.encode(bytes));
        Ok(())
    }

    /// Extends the path of strict errors; gives its former length to [`leave`](Self::leave).
    fn enter(&mut self, step: impl FnOnce() -> String) -> usize {
        match &mut self.strict {
            Some(strict) => {
                let back = strict.path.len();
                strict.path.push_str(&step());
                back
            }
            None => 0,
        }
    }

    fn enter_field(&mut self, name: &str) -> usize {
        match &mut self.strict {
            Some(strict) => {
                let back = strict.path.len();
                if back > 0 {
                    strict.path.push('.');
                }
                strict.path.push_str(name);
                back
            }
            None => 0,
        }
    }

    fn leave(&mut self, back: usize) {
        if let Some(strict) = &mut self.strict {
            strict.path.truncate(back);
        }
    }

    fn duplicates(&mut self, before: usize, known: impl Fn(&str) -> bool) {
        if let Some(strict) = &mut self.strict
            && !strict.source.duplicates.is_empty()
        {
            strict.duplicates(before, known);
        }
    }

    fn members(&mut self, value_type: TypeId, value: &mut Value) -> Result<(), Fatal> {
        let Value::Object(map) = value else { return Ok(()) };
        for (i, (key, member)) in map.iter_mut().enumerate() {
            self.duplicates(i, |_| true);
            let back = self.enter_field(key);
            match (&self.schema.get(value_type).shape, &*member) {
                // Protobuf has no bytes that are nil in a map.
                (Shape::Bytes, Value::Null) => *member = Value::String(String::new()),
                _ => self.value(value_type, member)?,
            }
            self.leave(back);
        }
        self.duplicates(map.len(), |_| true);
        map.sort();
        Ok(())
    }

    fn fields(&mut self, ty: &'s Type, s: &'s Struct, value: &mut Value) -> Result<(), Fatal> {
        let Value::Object(map) = std::mem::take(value) else {
            return Ok(());
        };
        let mut slots: Vec<Option<(String, Value)>> = Vec::new();
        slots.resize_with(s.fields.len(), || None);
        let (outer, depth) = (self.struct_name, self.fields.len());
        let count = map.len();
        // Go skips what it does not know, however often it stands there.
        let known = |key: &str| s.position(key).is_some();
        for (i, (key, mut member)) in map.into_iter().enumerate() {
            self.duplicates(i, known);
            let Some(position) = s.position(&key) else {
                if let Some(strict) = &mut self.strict {
                    let path = strict.field(&key);
                    strict.push(StrictError::Unknown(path));
                }
                continue;
            };
            let field = &s.fields[position];
            self.struct_name = short_name(ty);
            self.embedded(ty, position);
            self.fields.push(&field.name);
            let back = self.enter_field(&key);
            if !member.is_null() {
                self.value(field.ty, &mut member)?;
                slots[position] = Some((key, member));
            } else if !field.pointer && matches!(self.schema.get(field.ty).shape, Shape::Duration) {
                self.value(field.ty, &mut member)?;
            } else if self.empty == Empty::Goes && field.pointer && self.is_time(field.ty) {
                // what was decoded before points to the zero time
                slots[position] = Some((key, member));
            }
            self.leave(back);
            self.fields.truncate(depth);
            self.struct_name = outer;
        }
        self.duplicates(count, known);
        let object = zero::written(self.schema, s, slots, self.empty);
        self.values += object.len();
        if self.values > MAX_VALUES {
            return Err(Fatal::Text("the object has too many values".to_owned()));
        }
        *value = Value::Object(object);
        Ok(())
    }

    fn is_time(&self, id: TypeId) -> bool {
        matches!(self.schema.get(id).shape, Shape::Time | Shape::MicroTime)
    }

    /// Go's error path names the structs that a field is embedded by.
    fn embedded(&mut self, ty: &'s Type, position: usize) {
        let (mut ty, mut position) = (ty, position);
        while let Some(message) = ty.message.as_deref() {
            let within = |e: &&crate::types::Embedded| (e.start as usize..e.end as usize).contains(&position);
            let Some(e) = message.embedded.iter().find(within) else {
                return;
            };
            ty = self.schema.get(e.ty);
            position -= e.start as usize;
            self.fields.push(short_name(ty));
        }
    }
}

/// What Go's decoder calls a value.
fn word(value: &Value) -> &'static str {
    value.type_name()
}

fn wrong_type(value: &str, wanted: &str) -> Fatal {
    Fatal::Wrong(WrongType {
        value: value.to_owned(),
        wanted: wanted.to_owned(),
        inner: String::new(),
    })
}

fn text_of(error: impl ToString) -> Fatal {
    Fatal::Text(error.to_string())
}

#[cfg(test)]
mod tests;
