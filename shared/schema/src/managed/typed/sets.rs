//! The field set of a value, and what a type says about a field set.

use triptych_object::Value;

use super::super::element::PathElement;
use super::super::set::{FieldSet, Node};
use super::{Atom, ListAtom, MapAtom, Place, Typed};

impl<'s> Typed<'s> {
    /// Every field that stands in `value`: what applying it makes one own.
    pub fn field_set<'v>(self, value: &'v Value) -> FieldSet<'v>
    where
        's: 'v,
    {
        self.fields(value).1
    }

    /// Whether the value's own path belongs to its set, and the paths below.
    fn fields<'v>(self, value: &'v Value) -> (bool, FieldSet<'v>)
    where
        's: 'v,
    {
        match self.atom().deduce(Some(value)) {
            Atom::Scalar(_) => (true, FieldSet::new()),
            Atom::Map(map) | Atom::Any(map, _) => match value {
                _ if map.atomic => (true, FieldSet::new()),
                Value::Object(members) => {
                    let mut set = FieldSet::new();
                    for (name, member) in members.iter() {
                        let declared = map.field(name);
                        let Some(typed) = declared.or_else(|| map.other()) else {
                            continue;
                        };
                        let (own, below) = typed.fields(member);
                        let empty = member.is_null() || member.as_object().is_some_and(|map| map.is_empty());
                        set.push(PathElement::field(name), own || empty || declared.is_none(), below);
                    }
                    set.sort();
                    (false, set)
                }
                _ => (false, FieldSet::new()),
            },
            Atom::List(list) => match value {
                _ if list.kind.is_atomic() => (true, FieldSet::new()),
                Value::Array(items) => (false, item_fields(&list, items)),
                _ => (false, FieldSet::new()),
            },
        }
    }

    /// The set with every declared field on the way to its paths as a member, too.
    pub fn with_named_fields<'a>(self, set: &FieldSet<'a>) -> FieldSet<'a> {
        with_named(Some(self), set)
    }

    /// The set as it is after types turned atomic: who owned a part owns the whole. `None` if nothing changes.
    pub fn reconciled<'a>(self, set: &FieldSet<'a>) -> Option<FieldSet<'a>> {
        match self.reconcile(set, false) {
            Reconciled::Children(set) => Some(set),
            _ => None,
        }
    }

    fn reconcile<'a>(self, set: &FieldSet<'a>, owned_whole: bool) -> Reconciled<'a> {
        let member = |node: &Node<'a>| node.member && node.children.is_empty();
        match self.atom() {
            Atom::Scalar(_) => Reconciled::Same,
            Atom::Map(map) | Atom::Any(map, _) => {
                if map.is_deduced() || matches!(self.at, Place::Deduced) {
                    return Reconciled::Same;
                }
                if map.atomic {
                    return if owned_whole || set.is_empty() {
                        Reconciled::Same
                    } else {
                        Reconciled::Whole
                    };
                }
                replace_nodes(set, |node| match &node.element {
                    PathElement::Field(name) => match map.member(name) {
                        Some(typed) => typed.reconcile(&node.children, member(node)),
                        None => Reconciled::Same,
                    },
                    _ => match map.other() {
                        Some(typed) => typed.reconcile(&node.children, member(node)),
                        None => Reconciled::Same,
                    },
                })
            }
            Atom::List(list) => {
                if list.kind.is_atomic() {
                    return if owned_whole {
                        Reconciled::Same
                    } else {
                        Reconciled::Whole
                    };
                }
                replace_nodes(set, |node| list.item.reconcile(&node.children, member(node)))
            }
        }
    }
}

enum Reconciled<'a> {
    Same,
    /// Own the value as a whole instead of what is below it.
    Whole,
    /// Own these below it.
    Children(FieldSet<'a>),
}

fn replace_nodes<'a>(set: &FieldSet<'a>, reconcile: impl Fn(&Node<'a>) -> Reconciled<'a>) -> Reconciled<'a> {
    let mut out: Option<FieldSet<'a>> = None;
    for (i, node) in set.nodes().iter().enumerate() {
        let change = reconcile(node);
        if out.is_none() && matches!(change, Reconciled::Same) {
            continue;
        }
        let out = out.get_or_insert_with(|| {
            let mut before = FieldSet::new();
            for node in &set.nodes()[..i] {
                before.push(node.element.clone(), node.member, node.children.clone());
            }
            before
        });
        match change {
            Reconciled::Same => out.push(node.element.clone(), node.member, node.children.clone()),
            Reconciled::Whole => out.push(node.element.clone(), true, FieldSet::new()),
            Reconciled::Children(children) => out.push(node.element.clone(), node.member, children),
        }
    }
    out.map_or(Reconciled::Same, Reconciled::Children)
}

fn with_named<'a>(typed: Option<Typed<'_>>, set: &FieldSet<'a>) -> FieldSet<'a> {
    let atom = typed.map(Typed::atom);
    let map: Option<MapAtom<'_>> = atom.and_then(Atom::as_map);
    let list: Option<ListAtom<'_>> = atom.and_then(Atom::as_list);
    let mut out = FieldSet::new();
    for node in set.nodes() {
        let below = match &node.element {
            PathElement::Field(name) => map.and_then(|map| map.member(name)),
            PathElement::Key(_) => list.map(|list| list.item),
            _ => None,
        };
        let named = match &node.element {
            PathElement::Field(name) => map.is_some_and(|map| map.field(name).is_some()),
            _ => false,
        };
        out.push(
            node.element.clone(),
            node.member || named,
            with_named(below, &node.children),
        );
    }
    out
}

/// Items by element, sorted; equal ones share an entry.
pub(super) fn grouped<'v, 's: 'v>(
    list: &ListAtom<'s>,
    items: &'v [Value],
) -> Result<Vec<(PathElement<'v>, Vec<&'v Value>)>, String> {
    let mut all = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        let element = list.element(item).map_err(|text| format!("element {i}: {text}"))?;
        all.push((element, item));
    }
    if !all.is_sorted_by(|a, b| a.0 < b.0) {
        all.sort_by(|a, b| a.0.cmp(&b.0));
    }
    let mut groups: Vec<(PathElement<'v>, Vec<&'v Value>)> = Vec::with_capacity(all.len());
    for (element, item) in all {
        match groups.last_mut() {
            Some((last, group)) if *last == element => group.push(item),
            _ => groups.push((element, vec![item])),
        }
    }
    Ok(groups)
}

fn item_fields<'v, 's: 'v>(list: &ListAtom<'s>, items: &'v [Value]) -> FieldSet<'v> {
    let mut set = FieldSet::new();
    for (element, group) in grouped(list, items).unwrap_or_default() {
        match group.as_slice() {
            [one] => {
                let (_, below) = list.item.fields(one);
                set.push(element, true, below);
            }
            // Equal items are owned together, as one atomic thing.
            _ => set.push(element, true, FieldSet::new()),
        }
    }
    set
}
