//! Fields whose feature gate is off: they are dropped from what is written, unless the old object uses them already.

use std::collections::BTreeSet;

use triptych_object::Value;

use crate::types::{Field, Schema, Shape, TypeId};

type Place = (TypeId, u32);

/// Drops from a normalised document the fields that are off and that `old` does not use anywhere.
pub fn drop_unused(schema: &Schema, ty: TypeId, new: &mut Value, old: Option<&Value>, gate: &dyn Fn(&str) -> bool) {
    let mut used = BTreeSet::new();
    let walk = Walk { schema, gate };
    if !walk.finds_any(ty, new) {
        return;
    }
    if let Some(old) = old {
        walk.collect(ty, old, &mut used);
    }
    walk.drop(ty, new, &used);
}

struct Walk<'a> {
    schema: &'a Schema,
    gate: &'a dyn Fn(&str) -> bool,
}

impl Walk<'_> {
    fn is_off(&self, field: &Field) -> bool {
        let gates = &field.details().gates;
        !gates.is_empty() && !gates.iter().all(|name| (self.gate)(name))
    }

    fn finds_any(&self, ty: TypeId, value: &Value) -> bool {
        match &self.schema.get(ty).shape {
            Shape::Struct(s) => s.fields.iter().any(|field| {
                let present = value.get(&field.name);
                present.is_some_and(|v| self.is_off(field) || self.finds_any(field.ty, v))
            }),
            Shape::List(list) => {
                let mut items = value.as_array().into_iter().flatten();
                items.any(|item| self.finds_any(list.item, item))
            }
            Shape::Map(map) => {
                let mut items = value.as_object().into_iter().flat_map(|o| o.iter());
                items.any(|(_, item)| self.finds_any(map.value, item))
            }
            _ => false,
        }
    }

    fn collect(&self, ty: TypeId, value: &Value, used: &mut BTreeSet<Place>) {
        match &self.schema.get(ty).shape {
            Shape::Struct(s) => {
                for (i, field) in s.fields.iter().enumerate() {
                    if let Some(present) = value.get(&field.name) {
                        if self.is_off(field) {
                            used.insert((ty, i as u32));
                        }
                        self.collect(field.ty, present, used);
                    }
                }
            }
            Shape::List(list) => {
                for item in value.as_array().into_iter().flatten() {
                    self.collect(list.item, item, used);
                }
            }
            Shape::Map(map) => {
                for (_, item) in value.as_object().into_iter().flat_map(|o| o.iter()) {
                    self.collect(map.value, item, used);
                }
            }
            _ => {}
        }
    }

    fn drop(&self, ty: TypeId, value: &mut Value, used: &BTreeSet<Place>) {
        match &self.schema.get(ty).shape {
            Shape::Struct(s) => {
                let Some(map) = value.as_object_mut() else { return };
                for (i, field) in s.fields.iter().enumerate() {
                    if self.is_off(field) && !used.contains(&(ty, i as u32)) {
                        map.remove(&field.name);
                    } else if let Some(present) = map.get_mut(&field.name) {
                        let held = present.as_object().is_some_and(|o| !o.is_empty());
                        self.drop(field.ty, present, used);
                        // a pointer to nothing but what was dropped goes with it (a lifecycle of a stop signal alone)
                        if held && field.pointer && present.as_object().is_some_and(|o| o.is_empty()) {
                            map.remove(&field.name);
                        }
                    }
                }
            }
            Shape::List(list) => {
                for item in value.as_array_mut().into_iter().flatten() {
                    self.drop(list.item, item, used);
                }
            }
            Shape::Map(map) => {
                for (_, item) in value.as_object_mut().into_iter().flat_map(|o| o.iter_mut()) {
                    self.drop(map.value, item, used);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{FieldDetails, Struct, Type};

    #[test]
    fn what_is_off_is_dropped_unless_it_was_there() {
        let mut schema = Schema::new();
        let int = schema.push(Type::of(Shape::Int {
            bits: 32,
            unsigned: false,
        }));
        let mut off = Field::plain("b".into(), int);
        off.details = Some(Box::new(FieldDetails {
            gates: vec!["Off".into()],
            ..FieldDetails::default()
        }));
        let ty = schema.push(Type::of(Shape::Struct(Struct::new(vec![
            Field::plain("a".into(), int),
            off,
        ]))));
        let whole = Value::from([("a", Value::Int(1)), ("b", Value::Int(2))]);
        let without = Value::from([("a", Value::Int(1))]);
        for (old, gate, expected) in [
            (None, false, &without),
            (Some(&without), false, &without),
            (Some(&whole), false, &whole),
            (None, true, &whole),
        ] {
            let mut new = whole.clone();
            drop_unused(&schema, ty, &mut new, old, &|_| gate);
            assert_eq!(&new, expected);
        }
    }
}
