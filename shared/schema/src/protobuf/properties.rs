//! Any object of any built-in type survives decoding, protobuf and back.

use proptest::prelude::*;
use triptych_object::{Object, Value, json};

use super::{decode, encode};
use crate::decode::normalise;
use crate::test_support::everything;
use crate::types::{Schema, Shape, TypeId};

/// A source of choices.
struct Choices(u64);

impl Choices {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % below
    }
}

/// Some value of a type.
fn some(schema: &Schema, id: TypeId, choices: &mut Choices, depth: usize) -> Value {
    let text = |choices: &mut Choices| ["", "a", "é😀", "x\ny"][choices.next(4) as usize].to_owned();
    match &schema.get(id).shape {
        Shape::Bool => Value::Bool(choices.next(2) == 0),
        Shape::Int { unsigned, .. } => Value::Int(choices.next(1000) as i64 - if *unsigned { 0 } else { 500 }),
        Shape::Float { .. } => Value::Float(choices.next(8) as f64 / 4.0),
        Shape::String => Value::String(text(choices)),
        Shape::Bytes => Value::from(["", "YQ==", "AAEC"][choices.next(3) as usize]),
        Shape::Quantity => Value::from(["0", "100m", "1.5Gi", "12e6"][choices.next(4) as usize]),
        Shape::Time => Value::from(["2024-01-01T00:00:00Z", "1969-12-31T23:59:59+01:00"][choices.next(2) as usize]),
        Shape::MicroTime => Value::from("2024-01-01T00:00:00.123456Z"),
        Shape::Duration => Value::from(["1h", "0s", "1.5ms"][choices.next(3) as usize]),
        Shape::IntOrString if choices.next(2) == 0 => Value::Int(choices.next(100) as i64),
        Shape::IntOrString => Value::String(text(choices)),
        Shape::RawExtension | Shape::Json | Shape::FieldsV1 => Value::from([("k", Value::Int(1))]),
        Shape::SchemaOrBool(_) => Value::Bool(choices.next(2) == 0),
        Shape::SchemaOrArray(inner) | Shape::SchemaOrStringArray(inner) => some(schema, *inner, choices, depth + 1),
        Shape::List(list) => {
            let count = if depth > 9 { 0 } else { choices.next(3) };
            Value::Array(
                (0..count)
                    .map(|_| some(schema, list.item, choices, depth + 1))
                    .collect(),
            )
        }
        Shape::Map(map) => {
            let count = if depth > 9 { 0 } else { choices.next(3) };
            let members = (0..count).map(|i| (format!("k{i}"), some(schema, map.value, choices, depth + 1)));
            Value::Object(members.collect::<Object>())
        }
        Shape::Struct(s) => {
            let mut members = Object::new();
            for field in &s.fields {
                if field.name != "kind"
                    && field.name != "apiVersion"
                    && choices.next(4 + depth as u64) == 0
                    && depth < 12
                {
                    members.insert(&*field.name, some(schema, field.ty, choices, depth + 1));
                }
            }
            Value::Object(members)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn protobuf_gives_back_what_decoding_made(seed in any::<u64>()) {
        let schema = &everything().schema;
        let mut ids: Vec<TypeId> = schema
            .all_named()
            .map(|(_, id)| id)
            .filter(|id| schema.get(*id).message.as_ref().is_some_and(|m| !m.json_only && !m.kinds.is_empty()))
            .collect();
        ids.sort();
        let mut choices = Choices(seed);
        let id = ids[choices.next(ids.len() as u64) as usize];
        let mut value = some(schema, id, &mut choices, 0);
        normalise(schema, id, &mut value).unwrap();
        let bytes = encode(schema, id, &value).unwrap();
        let back = decode(schema, id, &bytes).unwrap();
        prop_assert_eq!(json::to_string(&back), json::to_string(&value), "{:?}", schema.get(id).name);
        prop_assert_eq!(encode(schema, id, &back).unwrap(), bytes);
    }
}
