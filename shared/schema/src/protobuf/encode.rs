//! From a tree to protobuf.

use triptych_object::{Value, duration, json};

use super::Error;
use super::wire::{Back, Wire};
use crate::decode::{decode_base64, parse_micro_time, parse_time};
use crate::types::{Embedded, Field, Schema, Shape, Struct, Type, TypeId};

static NOTHING: Value = Value::Null;

/// Writes the content of a message.
pub(super) fn message(out: &mut Back, schema: &Schema, id: TypeId, value: &Value) -> Result<(), Error> {
    let ty = schema.get(id);
    match &ty.shape {
        Shape::Struct(s) => fields(out, schema, ty, s, value),
        Shape::List(list) => {
            for item in value.as_array().unwrap_or(&[]).iter().rev() {
                singular(out, schema, 1, list.item, item)?;
            }
            Ok(())
        }
        shape => special(out, schema, shape, value),
    }
}

/// A field of the message, or the struct that Go embeds.
enum Member<'a> {
    Field(&'a Field),
    Embedded(&'a Embedded),
}

fn fields(out: &mut Back, schema: &Schema, ty: &Type, s: &Struct, value: &Value) -> Result<(), Error> {
    let own = s
        .fields
        .iter()
        .filter(|f| f.tag != 0)
        .map(|f| (f.tag, Member::Field(f)));
    let embedded = ty
        .message
        .iter()
        .flat_map(|m| &m.embedded)
        .map(|e| (e.tag, Member::Embedded(e)));
    let mut members: Vec<(u16, Member)> = own.chain(embedded).collect();
    members.sort_by_key(|(tag, _)| std::cmp::Reverse(*tag));
    for (tag, member) in members {
        match member {
            Member::Field(f) => field(out, schema, f, value.get(&f.name).unwrap_or(&NOTHING))?,
            Member::Embedded(e) => {
                let end = out.len();
                message(out, schema, e.ty, value)?;
                out.close(tag, end);
            }
        }
    }
    Ok(())
}

fn field(out: &mut Back, schema: &Schema, f: &Field, value: &Value) -> Result<(), Error> {
    let ty = schema.get(f.ty);
    let wrapped = ty.message.as_ref().is_some_and(|m| m.wraps_list);
    match (&ty.shape, value) {
        (Shape::List(_), Value::Null) if wrapped => Ok(()),
        (Shape::List(list), Value::Array(items)) if !wrapped => items
            .iter()
            .rev()
            .try_for_each(|item| singular(out, schema, f.tag, list.item, item)),
        (Shape::Map(map), Value::Object(members)) => {
            let mut sorted: Vec<(&str, &Value)> = members.iter().collect();
            sorted.sort_by(|a, b| b.0.cmp(a.0));
            for (key, member) in sorted {
                let end = out.len();
                singular(out, schema, 2, map.value, member)?;
                out.bytes_field(1, key.as_bytes());
                out.close(f.tag, end);
            }
            Ok(())
        }
        (Shape::List(_) | Shape::Map(_) | Shape::Bytes, Value::Null) => Ok(()),
        // A pointer to the zero time is written as null.
        (Shape::Time | Shape::MicroTime, Value::Null) if f.pointer => Ok(()),
        (_, Value::Null) if f.pointer => Ok(()),
        _ => singular(out, schema, f.tag, f.ty, value),
    }
}

/// Writes one value, zero if there is none.
fn singular(out: &mut Back, schema: &Schema, tag: u16, id: TypeId, value: &Value) -> Result<(), Error> {
    let shape = &schema.get(id).shape;
    match (shape, value) {
        (Shape::Bool, Value::Null) | (Shape::Int { .. }, Value::Null) => out.varint_field(tag, 0),
        (Shape::Bool, Value::Bool(b)) => out.varint_field(tag, u64::from(*b)),
        (Shape::Int { .. }, Value::Int(i)) => out.varint_field(tag, *i as u64),
        (Shape::Float { bits }, Value::Null | Value::Int(_) | Value::Float(_)) => {
            let number = value.as_f64().unwrap_or(0.0);
            if *bits == 32 {
                out.prepend(&(number as f32).to_le_bytes());
                out.key(tag, Wire::Fixed32);
            } else {
                out.prepend(&number.to_le_bytes());
                out.key(tag, Wire::Fixed64);
            }
        }
        (Shape::String, Value::Null) => out.bytes_field(tag, b""),
        (Shape::String, Value::String(text)) => out.bytes_field(tag, text.as_bytes()),
        (Shape::Bytes, Value::Null) => {}
        (Shape::Bytes, Value::String(text)) => {
            let bytes = decode_base64(text.as_bytes())
                .map_err(|at| Error::new(format!("illegal base64 data at input byte {at}")))?;
            out.bytes_field(tag, &bytes);
        }
        (Shape::Bool | Shape::Int { .. } | Shape::Float { .. } | Shape::String | Shape::Bytes, other) => {
            return Err(unfit(other, shape));
        }
        _ => {
            let end = out.len();
            message(out, schema, id, value)?;
            out.close(tag, end);
        }
    }
    Ok(())
}

fn unfit(value: &Value, shape: &Shape) -> Error {
    let shape = format!("{shape:?}");
    let shape = shape.split([' ', '(']).next().unwrap_or("");
    Error::new(format!("cannot encode {} as {shape}", value.type_name()))
}

fn text<'v>(value: &'v Value, shape: &Shape) -> Result<&'v str, Error> {
    value.as_str().ok_or_else(|| unfit(value, shape))
}

/// Messages of types that are no structs in JSON.
fn special(out: &mut Back, schema: &Schema, shape: &Shape, value: &Value) -> Result<(), Error> {
    match shape {
        Shape::Time | Shape::MicroTime if value.is_null() => {}
        Shape::Time => {
            let moment = parse_time(text(value, shape)?).map_err(Error::new)?;
            out.varint_field(2, 0);
            out.varint_field(1, moment.seconds as u64);
        }
        Shape::MicroTime => {
            let moment = parse_micro_time(text(value, shape)?).map_err(Error::new)?;
            out.varint_field(2, u64::from(moment.nanos));
            out.varint_field(1, moment.seconds as u64);
        }
        Shape::Duration => {
            let nanos = if value.is_null() {
                0
            } else {
                duration::parse(text(value, shape)?).map_err(Error::new)?
            };
            out.varint_field(1, nanos as u64);
        }
        Shape::Quantity if value.is_null() => out.bytes_field(1, b"0"),
        Shape::Quantity => out.bytes_field(1, text(value, shape)?.as_bytes()),
        Shape::IntOrString => {
            let (kind, number, text) = match value {
                Value::Null => (0, 0, ""),
                Value::Int(i) => (0, *i, ""),
                Value::String(s) => (1, 0, s.as_str()),
                other => return Err(unfit(other, shape)),
            };
            out.bytes_field(3, text.as_bytes());
            out.varint_field(2, number as u64);
            out.varint_field(1, kind);
        }
        Shape::RawExtension | Shape::Json | Shape::FieldsV1 if value.is_null() => {}
        Shape::RawExtension | Shape::Json | Shape::FieldsV1 => out.bytes_field(1, &json::to_vec(value)),
        Shape::SchemaOrBool(inner) => match value {
            Value::Object(_) => {
                let end = out.len();
                message(out, schema, *inner, value)?;
                out.close(2, end);
                out.varint_field(1, 1);
            }
            other => out.varint_field(1, u64::from(other.as_bool().unwrap_or(false))),
        },
        Shape::SchemaOrArray(inner) | Shape::SchemaOrStringArray(inner) => match value {
            Value::Array(items) => {
                let schemas = matches!(shape, Shape::SchemaOrArray(_));
                for item in items.iter().rev() {
                    match schemas {
                        true => singular(out, schema, 2, *inner, item)?,
                        false => out.bytes_field(2, text(item, shape)?.as_bytes()),
                    }
                }
            }
            Value::Object(_) => singular(out, schema, 1, *inner, value)?,
            _ => {}
        },
        _ => return Err(unfit(value, shape)),
    }
    Ok(())
}
