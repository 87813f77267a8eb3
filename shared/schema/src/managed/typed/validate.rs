//! Does a value fit its type?

use std::collections::BTreeSet;

use triptych_object::Value;

use super::super::element::PathElement;
use super::{Atom, ListAtom, MapAtom, Place, Problems, Typed, scalar_problem, wrapped};
use crate::types::Shape;

impl Typed<'_> {
    /// Checks a value. `duplicates`: lists whose items should differ may nevertheless have equal ones.
    pub fn validate(self, value: &Value, duplicates: bool) -> Result<(), Problems> {
        // Sets of fields are large, and any map is one.
        if let Place::Known { ty, .. } = self.at
            && matches!((&ty.shape, value), (Shape::FieldsV1, Value::Object(_)))
        {
            return Ok(());
        }
        match self.atom().deduce(Some(value)) {
            Atom::Map(map) | Atom::Any(map, _) => validate_map(&map, value, duplicates),
            Atom::List(list) => validate_list(&list, value, duplicates),
            Atom::Scalar(kind) => scalar_problem(kind, Some(value), "").map_or(Ok(()), Err),
        }
    }
}

fn validate_map(map: &MapAtom<'_>, value: &Value, duplicates: bool) -> Result<(), Problems> {
    let members = match value {
        Value::Null => return Ok(()),
        Value::Object(members) => members,
        odd => return Err(Problems::of(format!("expected map, got {}", wrapped(odd)))),
    };
    let mut problems = Problems::default();
    for (name, member) in members.iter() {
        let Some(typed) = map.member(name) else {
            problems.add_below(&PathElement::field(name), Problems::of("field not declared in schema"));
            break;
        };
        if let Err(below) = typed.validate(member, duplicates) {
            problems.add_below(&PathElement::field(name), below);
        }
    }
    problems.into_result()
}

fn validate_list(list: &ListAtom<'_>, value: &Value, duplicates: bool) -> Result<(), Problems> {
    let items = match value {
        Value::Null => return Ok(()),
        Value::Array(items) => items,
        odd => return Err(Problems::of(format!("expected list, got {}", wrapped(odd)))),
    };
    let mut problems = Problems::default();
    let mut seen = BTreeSet::new();
    let atomic = list.kind.is_atomic();
    for (i, item) in items.iter().enumerate() {
        if !atomic && let Err(text) = list.check(item) {
            problems.add(Problems::of(format!("element {i}: {text}")));
            break;
        }
        let element = || {
            if atomic {
                Ok(PathElement::Index(i as i64))
            } else {
                list.element(item)
            }
        };
        if !duplicates
            && !atomic
            && let Ok(element) = element()
            && let Some(again) = seen.replace(element)
        {
            problems.add(Problems::of(format!("duplicate entries for key {again}")));
        }
        if let Err(below) = list.item.validate(item, duplicates)
            && let Ok(element) = element()
        {
            problems.add_below(&element, below);
        }
    }
    problems.into_result()
}
