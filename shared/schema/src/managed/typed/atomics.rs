//! Which parts of a value are owned as a whole.

use triptych_object::Value;

use super::super::element::PathElement;
use super::{Atom, Typed};

impl Typed<'_> {
    /// Paths of all lists and maps in a value that setting a part of replaces as a whole.
    pub fn atomics(self, value: &Value) -> Vec<String> {
        let mut found = Vec::new();
        collect(self, value, "", &mut found);
        found
    }
}

fn collect(typed: Typed<'_>, value: &Value, path: &str, found: &mut Vec<String>) {
    match (typed.atom(), value) {
        (Atom::Map(map) | Atom::Any(map, _), Value::Object(members)) => {
            if map.atomic {
                found.push(path.to_owned());
            }
            for (name, member) in members.iter() {
                if let Some(typed) = map.field(name) {
                    collect(typed, member, &format!("{path}{}", PathElement::field(name)), found);
                }
            }
        }
        (Atom::List(list) | Atom::Any(_, list), Value::Array(items)) => {
            if list.kind.is_atomic() {
                found.push(path.to_owned());
            }
            for (i, item) in items.iter().enumerate() {
                collect(list.item, item, &format!("{path}[{i}]"), found);
            }
        }
        _ => {}
    }
}
