//! Merging an applied configuration into the live object.

use std::collections::{BTreeMap, BTreeSet};

use triptych_object::Value;
use triptych_object::value::Object;

use super::super::element::PathElement;
use super::{Atom, ListAtom, MapAtom, Problems, Typed};

type Side<'v> = Option<&'v Value>;

impl Typed<'_> {
    /// Merges `config` into `live`: scalars and atomic values of `config` win, everything else is united.
    pub fn merge(self, live: &Value, config: &Value) -> Result<Value, Problems> {
        Ok(merge(self, Some(live), Some(config))?.unwrap_or_default())
    }
}

/// `None` if nothing is left of the value.
fn merge(typed: Typed<'_>, live: Side<'_>, config: Side<'_>) -> Result<Option<Value>, Problems> {
    let (live, config) = match (live, config) {
        (Some(live), Some(config)) => (live, config),
        (one, other) => return Ok(one.or(other).cloned()),
    };
    // Where both sides are of different kinds, only the configuration's matters.
    match typed.atom().deduce(Some(config)) {
        Atom::Map(map) | Atom::Any(map, _) => {
            let (l, c) = (live.as_object(), config.as_object());
            let nothing_inside = l.is_none_or(Object::is_empty) && c.is_none_or(Object::is_empty);
            if map.atomic || nothing_inside {
                Ok(Some(config.clone()))
            } else {
                merge_members(&map, l, c)
            }
        }
        Atom::List(list) => {
            let (l, c) = (
                live.as_array().unwrap_or_default(),
                config.as_array().unwrap_or_default(),
            );
            if list.kind.is_atomic() || (l.is_empty() && c.is_empty()) {
                Ok(Some(config.clone()))
            } else {
                merge_items(&list, l, c)
            }
        }
        Atom::Scalar(_) => Ok(Some(config.clone())),
    }
}

fn merge_members(map: &MapAtom<'_>, live: Option<&Object>, config: Option<&Object>) -> Result<Option<Value>, Problems> {
    let mut out = Object::with_capacity(live.map_or(0, Object::len).max(config.map_or(0, Object::len)));
    let mut problems = Problems::default();
    let members = live
        .into_iter()
        .flat_map(Object::iter)
        .map(|(name, value)| (name, Some(value), config.and_then(|config| config.get(name))));
    let added = config.into_iter().flat_map(Object::iter).filter_map(|(name, value)| {
        let known = live.is_some_and(|live| live.contains_key(name));
        (!known).then_some((name, None, Some(value)))
    });
    for (name, l, c) in members.chain(added) {
        let Some(typed) = map.member(name) else {
            problems.add_below(
                &PathElement::field(name),
                Problems::of("schema error: invalid atom: inlined"),
            );
            continue;
        };
        match merge(typed, l, c) {
            Ok(Some(value)) => {
                out.insert(name, value);
            }
            Ok(None) => {}
            Err(below) => problems.add_below(&PathElement::field(name), below),
        }
    }
    problems.into_result()?;
    Ok((!out.is_empty()).then_some(Value::Object(out)))
}

/// The items of a list with their elements, and where an element first stands.
struct Indexed<'v> {
    items: Vec<(PathElement<'v>, &'v Value)>,
    /// `None` for an element that stands more than once.
    found: BTreeMap<PathElement<'v>, Option<&'v Value>>,
}

fn indexed<'v, 's: 'v>(list: &ListAtom<'s>, items: &'v [Value], duplicates: bool) -> Result<Indexed<'v>, Problems> {
    let mut out = Indexed {
        items: Vec::with_capacity(items.len()),
        found: BTreeMap::new(),
    };
    let mut problems = Problems::default();
    for (i, item) in items.iter().enumerate() {
        let element = match list.element(item) {
            Ok(element) => element,
            Err(text) => {
                problems.add(Problems::of(format!("element {i}: {text}")));
                continue;
            }
        };
        let known = out.found.contains_key(&element);
        if known && !duplicates {
            problems.add(Problems::of(format!("duplicate entries for key {element}")));
            continue;
        }
        out.found.insert(element.clone(), (!known).then_some(item));
        out.items.push((element, item));
    }
    problems.into_result()?;
    Ok(out)
}

/// Unites two associative lists: the configuration's order holds among its items, live items keep their place between.
fn merge_items<'v, 's: 'v>(
    list: &ListAtom<'s>,
    live: &'v [Value],
    config: &'v [Value],
) -> Result<Option<Value>, Problems> {
    let config = indexed(list, config, false)?;
    let live = indexed(list, live, true)?;
    let mut out = Vec::with_capacity(live.items.len().max(config.items.len()));
    let mut shared = config
        .items
        .iter()
        .map(|(element, _)| element)
        .filter(|e| live.found.contains_key(e))
        .peekable();
    let mut merged: BTreeSet<&PathElement<'_>> = BTreeSet::new();
    let (mut l, mut c) = (0, 0);
    // A live item that stands several times merges with nothing; what the configuration says takes its place.
    let live_value = |element: &PathElement<'_>| match live.found.get(element) {
        Some(found) => Some(found.unwrap_or(&Value::Null)),
        None => None,
    };
    while l < live.items.len() || c < config.items.len() {
        let left = live.items.get(l);
        let right = config.items.get(c);
        if let (Some((element, _)), Some((other, value))) = (left, right) {
            if element == other {
                merged.insert(other);
                out.extend(merge(list.item, live_value(element), Some(value)).unwrap_or_default());
                l += 1;
                c += 1;
                shared.next();
                continue;
            }
            if config.found.contains_key(element) && shared.peek().is_some_and(|next| *next != element) {
                // Shared, but its turn comes later.
                l += 1;
                continue;
            }
        }
        if let Some((element, value)) = left {
            if !config.found.contains_key(element) {
                out.push((*value).clone());
                l += 1;
                continue;
            }
            if merged.contains(element) {
                l += 1;
            }
        }
        if let Some((element, value)) = right {
            merged.insert(element);
            out.extend(merge(list.item, live_value(element), Some(value)).unwrap_or_default());
            c += 1;
            if shared.peek() == Some(&element) {
                shared.next();
            }
        }
    }
    Ok((!out.is_empty()).then_some(Value::Array(out)))
}
