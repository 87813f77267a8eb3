//! Which zero values Go writes, and how.
//!
//! Contract: encoding/json's `omitempty` and `omitzero`, by the field's [`Omit`](crate::types::Omit).

use triptych_object::{Object, Quantity, Value};

use crate::types::{Field, Schema, Shape, Struct, TypeId};

/// The zero value of a type as Go writes it where it must.
pub fn zero_of(schema: &Schema, id: TypeId) -> Value {
    match &schema.get(id).shape {
        Shape::Bool | Shape::SchemaOrBool(_) => Value::Bool(false),
        Shape::Int { .. } | Shape::Float { .. } | Shape::IntOrString => Value::Int(0),
        Shape::String => Value::String(String::new()),
        Shape::Quantity => Value::String("0".to_owned()),
        Shape::Duration => Value::String("0s".to_owned()),
        Shape::Struct(s) => Value::Object(zero_struct(schema, s)),
        _ => Value::Null,
    }
}

fn zero_struct(schema: &Schema, s: &Struct) -> Object {
    let mut object = Object::new();
    for field in &s.fields {
        if let Some(zero) = written_when_absent(schema, field) {
            object.push_new(field.name.to_string(), zero);
        }
    }
    object
}

/// The members of a struct that Go writes, in its order; `slots` are the fields that were read, with their names.
pub(crate) fn written(schema: &Schema, s: &Struct, slots: Vec<Option<(String, Value)>>) -> Object {
    let mut object = Object::with_capacity(slots.iter().flatten().count());
    for (field, slot) in s.fields.iter().zip(slots) {
        match slot {
            Some((key, member)) => {
                if let Some(member) = kept(schema, field, member) {
                    object.push_new(key, member);
                }
            }
            None => {
                if let Some(zero) = written_when_absent(schema, field) {
                    object.push_new(field.name.to_string(), zero);
                }
            }
        }
    }
    object
}

/// How a field that is not set is written; none if it is not.
fn written_when_absent(schema: &Schema, field: &Field) -> Option<Value> {
    if field.pointer {
        return (!field.omit.empty() && !field.omit.zero()).then_some(Value::Null);
    }
    let struct_like = matches!(
        schema.get(field.ty).shape,
        Shape::Struct(_)
            | Shape::Time
            | Shape::MicroTime
            | Shape::Duration
            | Shape::Quantity
            | Shape::IntOrString
            | Shape::RawExtension
            | Shape::Json
            | Shape::FieldsV1
            | Shape::SchemaOrArray(_)
            | Shape::SchemaOrBool(_)
            | Shape::SchemaOrStringArray(_)
    );
    let omitted = field.omit.zero() || (field.omit.empty() && !struct_like);
    (!omitted).then(|| zero_of(schema, field.ty))
}

/// The value as the field writes it; none if it is zero and zero is not written.
fn kept(schema: &Schema, field: &Field, value: Value) -> Option<Value> {
    if field.pointer {
        return Some(value);
    }
    let shape = &schema.get(field.ty).shape;
    let empty = match (shape, &value) {
        (Shape::Bool, Value::Bool(b)) => !b,
        (Shape::Int { .. } | Shape::Float { .. }, Value::Int(i)) => *i == 0,
        (Shape::Float { .. }, Value::Float(f)) => *f == 0.0,
        (Shape::String | Shape::Bytes, Value::String(s)) => s.is_empty(),
        (Shape::List(_), Value::Array(items)) => items.is_empty(),
        (Shape::Map(_), Value::Object(map)) => map.is_empty(),
        (Shape::Bytes | Shape::List(_) | Shape::Map(_), Value::Null) => true,
        _ => false,
    };
    if empty && field.omit.empty() {
        return None;
    }
    let collection = matches!(shape, Shape::List(_) | Shape::Map(_) | Shape::Bytes);
    if empty && collection {
        // Through the store's protobuf, empty and nil are the same.
        return (!field.omit.zero()).then_some(Value::Null);
    }
    if field.omit.zero() && is_zero(schema, field.ty, &value) {
        return None;
    }
    Some(value)
}

/// Whether Go's value is the zero of its type.
fn is_zero(schema: &Schema, id: TypeId, value: &Value) -> bool {
    match (&schema.get(id).shape, value) {
        (_, Value::Null) => true,
        (Shape::Struct(s), Value::Object(map)) => map.iter().all(|(key, member)| match s.field(key) {
            Some(field) if field.pointer => member.is_null(),
            Some(field) => is_zero(schema, field.ty, member),
            None => false,
        }),
        (Shape::Quantity, Value::String(text)) => text.parse::<Quantity>().is_ok_and(|q| q.is_zero()),
        (Shape::Duration, Value::String(text)) => text == "0s",
        (Shape::List(_), Value::Array(items)) => items.is_empty(),
        (Shape::Map(_), Value::Object(map)) => map.is_empty(),
        (Shape::String | Shape::Bytes, Value::String(text)) => text.is_empty(),
        (_, Value::Bool(b)) => !b,
        (_, Value::Int(i)) => *i == 0,
        (Shape::Float { .. }, Value::Float(f)) => *f == 0.0,
        _ => false,
    }
}
