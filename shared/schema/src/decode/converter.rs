//! What apimachinery's unstructured converter says of a value of the wrong kind: strategic merge patch and server-side
//! apply come to typed objects through it, not through the JSON decoder.

use triptych_object::Value;

use crate::types::{Schema, Shape, TypeId};

/// Go's kind of a value in an unstructured tree.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

/// The converter's text of a value that cannot become one of the type, which Go calls `name`.
pub(super) fn refusal(schema: &Schema, id: TypeId, name: &str, value: &Value) -> String {
    let have = kind(value);
    let shape = &schema.get(id).shape;
    let numeric = matches!(shape, Shape::Int { .. } | Shape::Float { .. });
    match shape {
        Shape::Struct(_) => format!("cannot restore struct from: {have}"),
        Shape::List(_) | Shape::Bytes => format!("cannot restore slice from {have}"),
        Shape::Map(_) => format!("cannot restore map from {have}"),
        // Go converts between numbers, and an integer to text, but the converter does not let it
        _ if numeric && matches!(value, Value::Int(_) | Value::Float(_)) => format!("cannot convert {have} to {name}"),
        Shape::String if matches!(value, Value::Int(_)) => format!("cannot convert {have} to {name}"),
        Shape::String => "unrecognized type: string".to_owned(),
        Shape::Bool => "unrecognized type: bool".to_owned(),
        Shape::Int { bits, unsigned } => format!("unrecognized type: {}int{bits}", if *unsigned { "u" } else { "" }),
        Shape::Float { bits } => format!("unrecognized type: float{bits}"),
        _ => format!("unrecognized type: {name}"),
    }
}

/// A number as Go converts it to an integer of these bits: cut off, not refused; none if it has a fraction.
pub(super) fn integer(value: &Value, bits: u8, unsigned: bool) -> Option<i64> {
    let number = match value {
        Value::Int(i) => *i,
        Value::Float(f) if f.trunc() == *f => *f as i64,
        _ => return None,
    };
    Some(match (bits, unsigned) {
        (32, false) => i64::from(number as i32),
        (32, true) => i64::from(number as u32),
        _ => number,
    })
}
