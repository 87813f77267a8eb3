//! Removing fields that nobody owns any more.

use triptych_object::Value;
use triptych_object::value::Object;

use super::super::element::PathElement;
use super::super::set::{FieldSet, Node};
use super::{Atom, Typed};

impl Typed<'_> {
    /// The value without the fields of `set`. What becomes empty stays, empty; atomic values below a path go as a whole.
    pub fn without(self, value: &Value, set: &FieldSet<'_>) -> Value {
        if set.is_empty() {
            value.clone()
        } else {
            remove(Some(self), value, set)
        }
    }
}

fn remove(typed: Option<Typed<'_>>, value: &Value, set: &FieldSet<'_>) -> Value {
    let Some(typed) = typed else { return Value::Null };
    match (typed.atom().deduce(Some(value)), value) {
        (Atom::Map(map) | Atom::Any(map, _), Value::Object(members)) if !map.atomic && !members.is_empty() => {
            let mut out = Object::with_capacity(members.len());
            let mut touched = false;
            for (name, member) in members.iter() {
                let node = set.get(&PathElement::field(name));
                let Some(kept) = keep(node, member, map.member(name), &mut touched) else {
                    continue;
                };
                out.insert(name, kept);
            }
            if touched || !out.is_empty() {
                Value::Object(out)
            } else {
                Value::Null
            }
        }
        (Atom::List(list), Value::Array(items)) if !list.kind.is_atomic() && !items.is_empty() => {
            let mut out = Vec::with_capacity(items.len());
            let mut touched = false;
            for item in items {
                let element = list.element(item).ok();
                let node = element.as_ref().and_then(|element| set.get(element));
                out.extend(keep(node, item, Some(list.item), &mut touched));
            }
            if touched || !out.is_empty() {
                Value::Array(out)
            } else {
                Value::Null
            }
        }
        (Atom::Scalar(_), scalar) => scalar.clone(),
        _ => Value::Null,
    }
}

/// What stays of a member or item; `None` if it goes.
fn keep(node: Option<&Node<'_>>, value: &Value, typed: Option<Typed<'_>>, touched: &mut bool) -> Option<Value> {
    match node {
        None => Some(value.clone()),
        Some(node) if node.member => None,
        Some(node) => {
            *touched = true;
            Some(match (remove(typed, value, &node.children), value) {
                (Value::Null, Value::Object(_)) => Value::object(),
                (Value::Null, Value::Array(_)) => Value::Array(Vec::new()),
                (kept, _) => kept,
            })
        }
    }
}
