//! Structural defaults.
//!
//! Contract: a default applies wherever its parent is there, at every level; `null` of what is not nullable counts as
//! absent. What is null, not nullable and has no default is removed.

use triptych_object::Value;

use crate::types::{Schema, Shape, TypeId};

/// Applies a structural schema's defaults.
pub fn apply_defaults(schema: &Schema, ty: TypeId, value: &mut Value) {
    match (&schema.get(ty).shape, value) {
        (Shape::Struct(s), Value::Object(map)) => {
            for field in &s.fields {
                let field_type = schema.get(field.ty);
                if let Some(default) = &field_type.default
                    && match map.get(&field.name) {
                        None => true,
                        Some(member) => member.is_null() && !field_type.nullable,
                    }
                {
                    map.insert(&*field.name, (**default).clone());
                }
                if let Some(member) = map.get_mut(&field.name) {
                    apply_defaults(schema, field.ty, member);
                }
            }
        }
        (Shape::Map(map_type), Value::Object(map)) => {
            for (_, member) in map.iter_mut() {
                element(schema, map_type.value, member);
            }
        }
        (Shape::List(list), Value::Array(items)) => {
            for item in items {
                element(schema, list.item, item);
            }
        }
        _ => {}
    }
}

fn element(schema: &Schema, ty: TypeId, value: &mut Value) {
    let element_type = schema.get(ty);
    if value.is_null()
        && !element_type.nullable
        && let Some(default) = &element_type.default
    {
        *value = (**default).clone();
    }
    apply_defaults(schema, ty, value);
}

/// Removes `null` members of maps and structs that are neither nullable nor have a default.
pub fn prune_nulls(schema: &Schema, ty: TypeId, value: &mut Value) {
    match (&schema.get(ty).shape, value) {
        (Shape::Struct(s), Value::Object(map)) => {
            map.retain(|key, member| s.field(key).is_none_or(|field| keep(schema, field.ty, member)));
        }
        // what `additionalProperties: true` allows is nobody's to judge
        (Shape::Map(map_type), Value::Object(_)) if says_nothing(schema, map_type.value) => {}
        (Shape::Map(map_type), Value::Object(map)) => map.retain(|_, member| keep(schema, map_type.value, member)),
        (Shape::List(list), Value::Array(items)) => {
            items.iter_mut().for_each(|item| prune_nulls(schema, list.item, item));
        }
        _ => {}
    }
}

fn says_nothing(schema: &Schema, ty: TypeId) -> bool {
    let ty = schema.get(ty);
    let nothing = |s: &crate::types::Struct| s.untyped && s.fields.is_empty() && !s.preserve_unknown;
    ty.validation.is_none() && ty.as_struct().is_some_and(nothing)
}

fn keep(schema: &Schema, ty: TypeId, value: &mut Value) -> bool {
    let member_type = schema.get(ty);
    if value.is_null() {
        return member_type.nullable || member_type.default.is_some();
    }
    prune_nulls(schema, ty, value);
    true
}
