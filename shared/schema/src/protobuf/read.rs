//! From protobuf to a tree.
//!
//! Singular messages that occur more than once are merged, as the format demands: their bytes are put one after the
//! other and read as one.

use std::borrow::Cow;

use base64::Engine;
use triptych_object::{Object, Quantity, Value, duration, json};

use super::Error;
use super::wire::{Reader, Wire};
use crate::decode::{Empty, Moment, format_micro_time, format_time, written, zero_of};
use crate::types::{Field, Schema, Shape, Struct, Type, TypeId};

/// Messages within messages, at most.
const MAX_DEPTH: usize = 400;
/// No object has more values than this.
const MAX_VALUES: usize = 1_000_000;

/// Reads an object of the type.
pub(super) fn message(schema: &Schema, id: TypeId, bytes: &[u8]) -> Result<Value, Error> {
    Decoder {
        schema,
        depth: 0,
        values: 0,
    }
    .message(id, bytes)
}

struct Decoder<'s> {
    schema: &'s Schema,
    depth: usize,
    values: usize,
}

/// What was read of a field.
enum Slot<'a> {
    Empty,
    Done(Value),
    /// A message, not yet read since more of it may follow.
    Pending(Cow<'a, [u8]>),
}

fn short_name(ty: &Type) -> &str {
    ty.name.as_deref().map_or("", |n| n.rsplit('.').next().unwrap_or(n))
}

/// Go's name of a field, as far as its JSON name tells.
fn go_field(schema: &Schema, f: &Field) -> String {
    const INITIALISMS: [&str; 9] = ["api", "uid", "id", "ip", "url", "tls", "cidr", "dns", "fs"];
    if f.name == "metadata" {
        return short_name(schema.get(f.ty)).to_owned();
    }
    let first = f.name.find(char::is_uppercase).unwrap_or(f.name.len());
    let (head, rest) = f.name.split_at(first);
    if INITIALISMS.contains(&head) {
        return format!("{}{rest}", head.to_ascii_uppercase());
    }
    let mut chars = f.name.chars();
    chars
        .next()
        .map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}

impl<'s> Decoder<'s> {
    fn count(&mut self, values: usize) -> Result<(), Error> {
        self.values += values;
        if self.values > MAX_VALUES {
            return Err(Error::new("proto: too many values"));
        }
        Ok(())
    }

    fn message(&mut self, id: TypeId, bytes: &[u8]) -> Result<Value, Error> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Error::new("proto: nested too deeply"));
        }
        let ty = self.schema.get(id);
        let value = match &ty.shape {
            Shape::Struct(s) => self.object(ty, s, bytes),
            Shape::List(list) => self.wrapped_list(ty, list.item, bytes),
            _ => self.special(ty, bytes),
        };
        self.depth -= 1;
        value
    }

    fn object(&mut self, ty: &'s Type, s: &'s Struct, bytes: &[u8]) -> Result<Value, Error> {
        let mut slots: Vec<Slot> = Vec::new();
        slots.resize_with(s.fields.len(), || Slot::Empty);
        self.fill(ty, s, bytes, &mut slots)?;
        let mut read = Vec::with_capacity(slots.len());
        for (field, slot) in s.fields.iter().zip(slots) {
            let value = match slot {
                Slot::Empty => None,
                Slot::Done(value) => Some(value),
                Slot::Pending(bytes) => Some(self.message(field.ty, &bytes)?),
            };
            read.push(value.map(|v| (field.name.to_string(), v)));
        }
        let object = written(self.schema, s, read, Empty::Goes);
        self.count(object.len())?;
        Ok(Value::Object(object))
    }

    /// Reads the fields of a message, those of embedded structs into the same slots.
    fn fill<'a>(&mut self, ty: &'s Type, s: &'s Struct, bytes: &'a [u8], slots: &mut [Slot<'a>]) -> Result<(), Error> {
        let mut r = Reader::new(bytes, short_name(ty));
        while let Some((tag, wire)) = r.key()? {
            let embedded = ty
                .message
                .iter()
                .flat_map(|m| &m.embedded)
                .find(|e| i32::from(e.tag) == tag);
            if let Some(e) = embedded {
                let inner = self.schema.get(e.ty);
                let bytes = r.bytes(wire, short_name(inner))?;
                let (Shape::Struct(inner_struct), Some(inner_slots)) =
                    (&inner.shape, slots.get_mut(e.start as usize..e.end as usize))
                else {
                    continue;
                };
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return Err(Error::new("proto: nested too deeply"));
                }
                self.fill(inner, inner_struct, bytes, inner_slots)?;
                self.depth -= 1;
                continue;
            }
            let position = s.fields.iter().position(|f| i32::from(f.tag) == tag);
            let Some((f, slot)) = position.and_then(|i| Some((&s.fields[i], slots.get_mut(i)?))) else {
                r.skip(wire)?;
                continue;
            };
            self.field(&mut r, wire, f, slot)?;
        }
        Ok(())
    }

    fn field<'a>(&mut self, r: &mut Reader<'a, '_>, wire: Wire, f: &Field, slot: &mut Slot<'a>) -> Result<(), Error> {
        let ty = self.schema.get(f.ty);
        let wrapped = ty.message.as_ref().is_some_and(|m| m.wraps_list);
        match &ty.shape {
            Shape::List(list) if !wrapped => {
                let item = self.item(r, wire, list.item, f)?;
                match slot {
                    Slot::Done(Value::Array(items)) => items.push(item),
                    slot => *slot = Slot::Done(Value::Array(vec![item])),
                }
            }
            Shape::Map(map) => {
                let entry = r.bytes(wire, &go_field(self.schema, f))?;
                let (key, value) = self.entry(map.value, entry, f)?;
                if !matches!(slot, Slot::Done(Value::Object(_))) {
                    *slot = Slot::Done(Value::Object(Object::new()));
                }
                if let Slot::Done(Value::Object(members)) = slot {
                    members.insert(key, value);
                }
            }
            shape if is_scalar(shape) => *slot = Slot::Done(self.scalar(r, wire, f.ty, f)?),
            _ => {
                let more = r.bytes(wire, &go_field(self.schema, f))?;
                match slot {
                    Slot::Pending(bytes) => bytes.to_mut().extend_from_slice(more),
                    slot => *slot = Slot::Pending(Cow::Borrowed(more)),
                }
            }
        }
        Ok(())
    }

    /// One item of a list.
    fn item(&mut self, r: &mut Reader<'_, '_>, wire: Wire, id: TypeId, f: &Field) -> Result<Value, Error> {
        self.count(1)?;
        if is_scalar(&self.schema.get(id).shape) {
            return self.scalar(r, wire, id, f);
        }
        let bytes = r.bytes(wire, &go_field(self.schema, f))?;
        self.message(id, bytes)
    }

    fn entry(&mut self, value_type: TypeId, bytes: &[u8], f: &Field) -> Result<(String, Value), Error> {
        self.count(1)?;
        let mut r = Reader::new(bytes, "");
        let (mut key, mut value) = (String::new(), None);
        while let Some((tag, wire)) = r.key()? {
            match tag {
                1 => key = r.text(wire, &go_field(self.schema, f))?,
                2 => value = Some(self.item(&mut r, wire, value_type, f)?),
                _ => r.skip(wire)?,
            }
        }
        let value = value.unwrap_or_else(|| match self.schema.get(value_type).shape {
            Shape::Bytes => Value::String(String::new()),
            _ => zero_of(self.schema, value_type),
        });
        Ok((key, value))
    }

    fn scalar(&mut self, r: &mut Reader<'_, '_>, wire: Wire, id: TypeId, f: &Field) -> Result<Value, Error> {
        let shape = &self.schema.get(id).shape;
        let wanted = match shape {
            Shape::Bool | Shape::Int { .. } => Wire::Varint,
            Shape::Float { bits: 32 } => Wire::Fixed32,
            Shape::Float { .. } => Wire::Fixed64,
            _ => Wire::Bytes,
        };
        if wire != wanted {
            Reader::expect(wire, wanted, &go_field(self.schema, f))?;
        }
        Ok(match shape {
            Shape::Bool => Value::Bool(r.varint()? != 0),
            Shape::Int {
                bits: 32,
                unsigned: false,
            } => Value::Int(i64::from(r.varint()? as i32)),
            Shape::Int { bits: 32, .. } => Value::Int(i64::from(r.varint()? as u32)),
            Shape::Int { unsigned: true, .. } => {
                let n = r.varint()?;
                i64::try_from(n).map_or(Value::Float(n as f64), Value::Int)
            }
            Shape::Int { .. } => Value::Int(r.varint()? as i64),
            Shape::Float { bits: 32 } => float(f64::from(f32::from_bits(r.fixed32()?)))?,
            Shape::Float { .. } => float(f64::from_bits(r.fixed64()?))?,
            Shape::Bytes => {
                let bytes = r.bytes(wire, "")?;
                Value::String(base64::engine::general_purpose::STANDARD.encode(bytes))
            }
            _ => Value::String(r.text(wire, "")?),
        })
    }

    /// A list that is a message of its own.
    fn wrapped_list(&mut self, ty: &Type, item: TypeId, bytes: &[u8]) -> Result<Value, Error> {
        let items_field = Field::plain("items".into(), item);
        let mut items = Vec::new();
        let mut r = Reader::new(bytes, short_name(ty));
        while let Some((tag, wire)) = r.key()? {
            match tag {
                1 => items.push(self.item(&mut r, wire, item, &items_field)?),
                _ => r.skip(wire)?,
            }
        }
        Ok(Value::Array(items))
    }

    fn special(&mut self, ty: &Type, bytes: &[u8]) -> Result<Value, Error> {
        let mut r = Reader::new(bytes, short_name(ty));
        match &ty.shape {
            Shape::Time | Shape::MicroTime if bytes.is_empty() => Ok(Value::Null),
            Shape::Time | Shape::MicroTime => {
                let (mut seconds, mut nanos) = (0, 0);
                while let Some((tag, wire)) = r.key()? {
                    match tag {
                        1 => {
                            Reader::expect(wire, Wire::Varint, "Seconds")?;
                            seconds = r.varint()? as i64;
                        }
                        2 => {
                            Reader::expect(wire, Wire::Varint, "Nanos")?;
                            nanos = r.varint()? as i32;
                        }
                        _ => r.skip(wire)?,
                    }
                }
                // Beyond these no date can be written.
                let seconds = seconds.clamp(-377_705_116_800, 253_402_300_799);
                match ty.shape {
                    Shape::Time => Ok(format_time(&Moment { seconds, nanos: 0 })),
                    _ => {
                        let nanos = u32::try_from(nanos).unwrap_or(0).min(999_999_999);
                        Ok(format_micro_time(&Moment { seconds, nanos }))
                    }
                }
            }
            Shape::Duration => {
                let mut nanos = 0;
                while let Some((tag, wire)) = r.key()? {
                    match tag {
                        1 => {
                            Reader::expect(wire, Wire::Varint, "Duration")?;
                            nanos = r.varint()? as i64;
                        }
                        _ => r.skip(wire)?,
                    }
                }
                Ok(Value::String(duration::format(nanos)))
            }
            Shape::Quantity => {
                let mut text = String::new();
                while let Some((tag, wire)) = r.key()? {
                    match tag {
                        1 => text = r.text(wire, "String_")?,
                        _ => r.skip(wire)?,
                    }
                }
                if text.is_empty() {
                    return Ok(Value::String("0".to_owned()));
                }
                let quantity: Quantity = text.trim().parse().map_err(|e| Error::new(format!("{e}")))?;
                Ok(Value::String(quantity.to_string()))
            }
            Shape::IntOrString => {
                let (mut kind, mut number, mut text) = (0, 0, String::new());
                while let Some((tag, wire)) = r.key()? {
                    match tag {
                        1 => {
                            Reader::expect(wire, Wire::Varint, "Type")?;
                            kind = r.varint()?;
                        }
                        2 => {
                            Reader::expect(wire, Wire::Varint, "IntVal")?;
                            number = r.varint()? as i32;
                        }
                        3 => text = r.text(wire, "StrVal")?,
                        _ => r.skip(wire)?,
                    }
                }
                Ok(if kind == 1 {
                    Value::String(text)
                } else {
                    Value::Int(i64::from(number))
                })
            }
            Shape::RawExtension | Shape::Json | Shape::FieldsV1 => {
                let mut raw: &[u8] = b"";
                while let Some((tag, wire)) = r.key()? {
                    match tag {
                        1 => raw = r.bytes(wire, "Raw")?,
                        _ => r.skip(wire)?,
                    }
                }
                if raw.is_empty() {
                    return Ok(Value::Null);
                }
                json::from_slice(raw).map_err(|e| Error::new(e.message))
            }
            shape => self.schema_or(shape, r),
        }
    }

    fn schema_or(&mut self, shape: &Shape, mut r: Reader<'_, '_>) -> Result<Value, Error> {
        let (inner, bool_form, text_form) = match shape {
            Shape::SchemaOrBool(inner) => (*inner, true, false),
            Shape::SchemaOrStringArray(inner) => (*inner, false, true),
            Shape::SchemaOrArray(inner) => (*inner, false, false),
            _ => return Ok(Value::Null),
        };
        let (mut allows, mut schema, mut items) = (false, None, Vec::new());
        while let Some((tag, wire)) = r.key()? {
            match (tag, bool_form) {
                (1, true) => {
                    Reader::expect(wire, Wire::Varint, "Allows")?;
                    allows = r.varint()? != 0;
                }
                (2, true) | (1, false) => schema = Some(self.message(inner, r.bytes(wire, "Schema")?)?),
                (2, false) if text_form => items.push(Value::String(r.text(wire, "Property")?)),
                (2, false) => items.push(self.message(inner, r.bytes(wire, "JSONSchemas")?)?),
                _ => r.skip(wire)?,
            }
        }
        self.count(items.len())?;
        Ok(match schema {
            _ if !items.is_empty() => Value::Array(items),
            Some(schema) => schema,
            None if bool_form => Value::Bool(allows),
            None => Value::Null,
        })
    }
}

fn is_scalar(shape: &Shape) -> bool {
    matches!(
        shape,
        Shape::Bool | Shape::Int { .. } | Shape::Float { .. } | Shape::String | Shape::Bytes
    )
}

/// A float as JSON has it: what is written without fraction is an integer.
fn float(f: f64) -> Result<Value, Error> {
    if !f.is_finite() {
        return Err(Error::new("json: unsupported value"));
    }
    Ok(if f.fract() == 0.0 && f.abs() < 9.0e15 {
        Value::Int(f as i64)
    } else {
        Value::Float(f)
    })
}
