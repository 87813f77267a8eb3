//! Which zero values Go writes, and how.
//!
//! Contract: encoding/json's `omitempty` and `omitzero`, by the field's [`Omit`](crate::types::Omit).

use std::fmt::Write;

use triptych_object::{Empties, Object, Quantity, Value};

use crate::types::{Field, Schema, Shape, Struct, TypeId};

/// What becomes of lists, maps and bytes that are there and empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Empty {
    /// They stay, as in a Go struct.
    Stays,
    /// They go, as by way of JSON and the store's protobuf.
    Goes,
}

/// True for `[]`, `{}` and `""` of a field that holds a list, a map or bytes; what Go calls empty but not nil.
fn is_empty_collection(shape: &Shape, value: &Value) -> bool {
    match (shape, value) {
        (Shape::Bytes, Value::String(s)) => s.is_empty(),
        (Shape::List(_), Value::Array(items)) => items.is_empty(),
        (Shape::Map(_), Value::Object(map)) => map.is_empty(),
        _ => false,
    }
}

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
pub(crate) fn written(schema: &Schema, s: &Struct, slots: Vec<Option<(String, Value)>>, empty: Empty) -> Object {
    let mut object = Object::with_capacity(slots.iter().flatten().count());
    for (field, slot) in s.fields.iter().zip(slots) {
        match slot {
            Some((key, member)) => {
                if let Some(member) = kept(schema, field, member, empty) {
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
fn kept(schema: &Schema, field: &Field, value: Value, keep: Empty) -> Option<Value> {
    if field.pointer {
        return Some(value);
    }
    let shape = &schema.get(field.ty).shape;
    if keep == Empty::Stays && is_empty_collection(shape, &value) {
        return Some(value);
    }
    let empty = match (shape, &value) {
        (Shape::Bool, Value::Bool(b)) => !b,
        (Shape::Int { .. } | Shape::Float { .. }, Value::Int(i)) => *i == 0,
        (Shape::Float { .. }, Value::Float(f)) => *f == 0.0,
        (Shape::String, Value::String(s)) => s.is_empty(),
        (Shape::Bytes | Shape::List(_) | Shape::Map(_), Value::Null) => true,
        _ => is_empty_collection(shape, &value),
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

/// Drops what is empty and omitted so from a decoded and defaulted document, and notes it; what is always written stays.
/// `managedFields: []` stays too: it is an order to forget all owners.
pub fn settle(schema: &Schema, ty: TypeId, document: &mut Value) -> Empties {
    let mut settling = Settling {
        schema,
        path: String::new(),
        found: Empties::default(),
    };
    settling.value(ty, document);
    settling.found
}

struct Settling<'s> {
    schema: &'s Schema,
    path: String,
    found: Empties,
}

impl Settling<'_> {
    fn value(&mut self, ty: TypeId, value: &mut Value) {
        let schema = self.schema;
        match (&schema.get(ty).shape, value) {
            (Shape::Struct(s), Value::Object(map)) => map.retain(|name, member| {
                let Some(field) = s.field(name) else { return true };
                let back = self.path.len();
                if back > 0 {
                    self.path.push('.');
                }
                self.path.push_str(name);
                let keep = self.member(field, member);
                self.path.truncate(back);
                keep
            }),
            (Shape::List(list), Value::Array(items)) if self.has_parts(list.item) => {
                for (i, item) in items.iter_mut().enumerate() {
                    let back = self.path.len();
                    let _ = write!(self.path, "[{i}]");
                    self.value(list.item, item);
                    self.path.truncate(back);
                }
            }
            (Shape::Map(map_type), Value::Object(map)) if self.has_parts(map_type.value) => {
                for (key, item) in map.iter_mut() {
                    let back = self.path.len();
                    let _ = write!(self.path, "[{key}]");
                    self.value(map_type.value, item);
                    self.path.truncate(back);
                }
            }
            _ => {}
        }
    }

    fn has_parts(&self, ty: TypeId) -> bool {
        matches!(
            self.schema.get(ty).shape,
            Shape::Struct(_) | Shape::List(_) | Shape::Map(_)
        )
    }

    /// False if the member goes.
    fn member(&mut self, field: &Field, member: &mut Value) -> bool {
        if !is_empty_collection(&self.schema.get(field.ty).shape, member) {
            self.value(field.ty, member);
            return true;
        }
        if field.pointer || self.path == "metadata.managedFields" {
            return true;
        }
        let omitted = field.omit.empty() || field.omit.zero();
        self.found.note(&self.path, member.clone(), !omitted);
        !omitted
    }
}
