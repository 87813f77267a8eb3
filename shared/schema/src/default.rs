//! Defaults that a table states unconditionally: what is absent gets its value. For a field that is no pointer, zero is
//! absent, and so is an empty list. Defaults that depend on other fields are strategy code.

use triptych_object::Value;

use crate::types::{Field, Schema, Shape, TypeId};

/// Sets the table's defaults in a normalised document. `gate` tells whether a feature gate is on: a gated field's default
/// applies only then.
pub fn apply(schema: &Schema, ty: TypeId, value: &mut Value, gate: &dyn Fn(&str) -> bool) {
    match &schema.get(ty).shape {
        Shape::Struct(s) => {
            let Some(map) = value.as_object_mut() else { return };
            for field in &s.fields {
                if let Some(present) = map.get_mut(&field.name).filter(|v| !absent(field, v)) {
                    apply(schema, field.ty, present, gate);
                } else if let Some(default) = schema.default_of(field).filter(|_| gates_are_on(field, gate)) {
                    map.insert(&*field.name, default.clone());
                } else if !field.pointer && matches!(schema.get(field.ty).shape, Shape::Struct(_)) {
                    // a struct that is no pointer exists even where nobody wrote it
                    let mut empty = Value::object();
                    apply(schema, field.ty, &mut empty, gate);
                    if empty.as_object().is_some_and(|o| !o.is_empty()) {
                        map.insert(&*field.name, empty);
                    }
                }
            }
        }
        Shape::List(list) => {
            for item in value.as_array_mut().into_iter().flatten() {
                apply(schema, list.item, item, gate);
            }
        }
        Shape::Map(map) => {
            for (_, item) in value.as_object_mut().into_iter().flat_map(|o| o.iter_mut()) {
                apply(schema, map.value, item, gate);
            }
        }
        _ => {}
    }
}

fn gates_are_on(field: &Field, gate: &dyn Fn(&str) -> bool) -> bool {
    field.details().gates.iter().all(|name| gate(name))
}

/// Whether Go would take the value for unset.
fn absent(field: &Field, value: &Value) -> bool {
    match value {
        Value::Null => true,
        _ if field.pointer => false,
        Value::Bool(b) => !b,
        Value::Int(i) => *i == 0,
        Value::Float(f) => *f == 0.0,
        Value::String(s) => s.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{FieldDetails, Struct, Type};

    fn field(name: &'static str, ty: TypeId, pointer: bool, default: Option<Value>) -> Field {
        let details = default.map(|d| {
            Box::new(FieldDetails {
                default: Some(d),
                ..FieldDetails::default()
            })
        });
        Field {
            pointer,
            details,
            ..Field::plain(name.into(), ty)
        }
    }

    #[test]
    fn zero_is_absent_unless_the_field_is_a_pointer() {
        let mut schema = Schema::new();
        let int = schema.push(Type::of(Shape::Int {
            bits: 32,
            unsigned: false,
        }));
        let fields = vec![
            field("a", int, false, Some(Value::Int(7))),
            field("b", int, true, Some(Value::Int(8))),
        ];
        let inner = schema.push(Type::of(Shape::Struct(Struct::new(fields))));
        let outer = schema.push(Type::of(Shape::Struct(Struct::new(vec![field(
            "spec", inner, false, None,
        )]))));
        let mut value = Value::from([("spec", Value::from([("a", Value::Int(0)), ("b", Value::Int(0))]))]);
        apply(&schema, outer, &mut value, &|_| true);
        assert_eq!(
            value,
            Value::from([("spec", Value::from([("a", Value::Int(7)), ("b", Value::Int(0))]))])
        );
        let mut nothing = Value::object();
        apply(&schema, outer, &mut nothing, &|_| true);
        assert_eq!(
            nothing,
            Value::from([("spec", Value::from([("a", Value::Int(7)), ("b", Value::Int(8))]))])
        );
    }
}
