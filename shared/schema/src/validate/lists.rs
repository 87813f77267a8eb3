//! Uniqueness in lists of type `set` and `map`.

use std::collections::HashMap;

use triptych_object::field::{Error, ErrorList};
use triptych_object::{Object, Value, json};

use super::child;
use crate::types::{List, ListKind, Schema, Shape, TypeId};

/// Reports items that stand twice in sets and associative lists; `prefix` is the path of the value, empty for the object.
pub fn list_types(schema: &Schema, root: TypeId, value: &Value, prefix: &str) -> ErrorList {
    let mut errors = ErrorList::new();
    visit(schema, root, value, prefix, &mut errors);
    errors
}

fn visit(schema: &Schema, ty: TypeId, value: &Value, path: &str, errors: &mut ErrorList) {
    match (&schema.get(ty).shape, value) {
        (Shape::Struct(s), Value::Object(map)) => {
            for (key, member) in map.iter() {
                if let Some(field) = s.field(key) {
                    visit(schema, field.ty, member, &child(path, key), errors);
                }
            }
        }
        (Shape::Map(m), Value::Object(map)) => {
            for (key, member) in map.iter() {
                visit(schema, m.value, member, &format!("{path}[{key}]"), errors);
            }
        }
        (Shape::List(list), Value::Array(items)) => {
            check(list, items, path, errors);
            for (i, item) in items.iter().enumerate() {
                visit(schema, list.item, item, &format!("{path}[{i}]"), errors);
            }
        }
        _ => {}
    }
}

fn check(list: &List, items: &[Value], path: &str, errors: &mut ErrorList) {
    match &list.kind {
        ListKind::Set => {
            for i in repeated(items.iter()) {
                errors.push(Error::duplicate(format!("{path}[{i}]"), items[i].clone()));
            }
        }
        ListKind::Map(keys) => {
            let wrong = items
                .iter()
                .position(|item| !matches!(item, Value::Object(_) | Value::Null));
            if let Some(i) = wrong {
                let detail = "must be an object for an array of list-type map";
                errors.push(Error::invalid(format!("{path}[{i}]"), items[i].clone(), detail));
                return;
            }
            let key_of = |item: &Value| -> Value {
                let members = keys.iter().filter_map(|k| Some((k.to_string(), item.get(k)?.clone())));
                Value::Object(members.collect::<Object>())
            };
            let found: Vec<Value> = items.iter().map(key_of).collect();
            // A key that is the only one is compared as it is, several as JSON.
            let positions = match &**keys {
                [only] => repeated(found.iter().map(|key| key.get(only).unwrap_or(key))),
                _ => repeated(found.iter()),
            };
            for i in positions {
                errors.push(Error::duplicate(format!("{path}[{i}]"), found[i].clone()));
            }
        }
        _ => {}
    }
}

/// Positions of the second occurrence of every value that occurs more than once.
fn repeated<'a>(values: impl Iterator<Item = &'a Value>) -> Vec<usize> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut positions = Vec::new();
    for (i, value) in values.enumerate() {
        let times = seen.entry(identity(value)).or_insert(0);
        *times += 1;
        if *times == 2 {
            positions.push(i);
        }
    }
    positions
}

/// What makes two values the same to Go: numbers by their type, too, unless they are within something.
fn identity(value: &Value) -> String {
    match value {
        Value::Float(f) => format!("float {f}"),
        value => {
            let mut sorted = value.clone();
            sort(&mut sorted);
            json::to_string(&sorted)
        }
    }
}

fn sort(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.sort();
            map.iter_mut().for_each(|(_, member)| sort(member));
        }
        Value::Array(items) => items.iter_mut().for_each(sort),
        _ => {}
    }
}
