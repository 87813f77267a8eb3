//! What changed between two values of a type.

use triptych_object::Value;
use triptych_object::value::Object;

use super::super::element::PathElement;
use super::super::set::{FieldSet, Filter};
use super::sets::grouped;
use super::{Atom, ListAtom, MapAtom, Problems, Typed, equal, scalar_problem};

/// The fields in which two values differ.
#[derive(Clone, Debug, Default)]
pub struct Comparison<'v> {
    /// Only in the second.
    pub added: FieldSet<'v>,
    /// In both, but different.
    pub modified: FieldSet<'v>,
    /// Only in the first.
    pub removed: FieldSet<'v>,
}

impl<'v> Comparison<'v> {
    /// What of it counts.
    pub fn filtered(self, filter: Option<&Filter>) -> Comparison<'v> {
        match filter {
            None => self,
            Some(filter) => Comparison {
                added: filter.apply(self.added),
                modified: filter.apply(self.modified),
                removed: filter.apply(self.removed),
            },
        }
    }

    fn push(&mut self, element: PathElement<'v>, mark: Mark, below: Comparison<'v>) {
        let Comparison {
            added,
            modified,
            removed,
        } = below;
        if mark.added || !added.is_empty() {
            self.added.push(element.clone(), mark.added, added);
        }
        if mark.modified || !modified.is_empty() {
            self.modified.push(element.clone(), mark.modified, modified);
        }
        if mark.removed || !removed.is_empty() {
            self.removed.push(element, mark.removed, removed);
        }
    }

    fn sort(&mut self) {
        self.added.sort();
        self.modified.sort();
        self.removed.sort();
    }
}

/// What happened to the value itself.
#[derive(Clone, Copy, Default)]
struct Mark {
    added: bool,
    modified: bool,
    removed: bool,
}

type Side<'v> = Option<&'v Value>;

impl<'s> Typed<'s> {
    /// Compares two values of this type.
    pub fn compare<'v>(self, old: &'v Value, new: &'v Value) -> Result<Comparison<'v>, Problems>
    where
        's: 'v,
    {
        let mut out = Comparison::default();
        compare(self, Some(old), Some(new), &mut out)?;
        Ok(out)
    }
}

fn compare<'v, 's: 'v>(
    typed: Typed<'s>,
    old: Side<'v>,
    new: Side<'v>,
    below: &mut Comparison<'v>,
) -> Result<Mark, Problems> {
    let atom = typed.atom();
    let mut mark = Mark {
        added: old.is_none(),
        modified: false,
        removed: new.is_none(),
    };
    match (old, new) {
        (Some(_), None) => mark.modified = compare_as(atom.deduce(old), old, new, below)?,
        (None, _) => mark.modified = compare_as(atom.deduce(new), old, new, below)?,
        (Some(_), Some(_)) => {
            let (as_old, as_new) = (atom.deduce(old), atom.deduce(new));
            if as_old.same_kind(&as_new) {
                mark.modified = compare_as(as_new, old, new, below)?;
            } else {
                let mut from_old = Comparison::default();
                mark.modified = compare_as(as_old, old, new, &mut from_old)?;
                mark.modified |= compare_as(as_new, old, new, below)?;
                for (all, more) in [
                    (&mut below.added, from_old.added),
                    (&mut below.modified, from_old.modified),
                    (&mut below.removed, from_old.removed),
                ] {
                    *all = std::mem::take(all).union(more);
                }
            }
        }
    }
    Ok(mark)
}

/// Fills `below`; true if the value is a leaf that was modified.
fn compare_as<'v, 's: 'v>(
    atom: Atom<'s>,
    old: Side<'v>,
    new: Side<'v>,
    below: &mut Comparison<'v>,
) -> Result<bool, Problems> {
    match atom {
        Atom::Map(map) | Atom::Any(map, _) => {
            let (o, n) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
            let nothing_inside = o.is_none_or(Object::is_empty) && n.is_none_or(Object::is_empty);
            if map.atomic || nothing_inside {
                return Ok(leaf_modified(old, new));
            }
            compare_members(&map, o, n, below)?;
            Ok(false)
        }
        Atom::List(list) => {
            let items = |side: Side<'v>| side.and_then(Value::as_array).unwrap_or_default();
            let (o, n) = (items(old), items(new));
            if list.kind.is_atomic() || (o.is_empty() && n.is_empty()) {
                return Ok(leaf_modified(old, new));
            }
            compare_items(&list, o, n, below)?;
            Ok(false)
        }
        Atom::Scalar(kind) => match (scalar_problem(kind, old, "lhs: "), scalar_problem(kind, new, "rhs: ")) {
            (Some(mut problems), Some(more)) => {
                problems.add(more);
                Err(problems)
            }
            _ => Ok(leaf_modified(old, new)),
        },
    }
}

fn leaf_modified(old: Side<'_>, new: Side<'_>) -> bool {
    matches!((old, new), (Some(old), Some(new)) if !equal(old, new))
}

fn compare_members<'v, 's: 'v>(
    map: &MapAtom<'s>,
    old: Option<&'v Object>,
    new: Option<&'v Object>,
    out: &mut Comparison<'v>,
) -> Result<(), Problems> {
    let mut problems = Problems::default();
    let mut one = |name: &'v str, old: Side<'v>, new: Side<'v>| {
        let Some(typed) = map.member(name) else {
            problems.add_below(
                &PathElement::field(name),
                Problems::of("schema error: invalid atom: inlined"),
            );
            return;
        };
        let mut below = Comparison::default();
        match compare(typed, old, new, &mut below) {
            Ok(mark) => out.push(PathElement::field(name), mark, below),
            Err(found) => problems.add_below(&PathElement::field(name), found),
        }
    };
    if let Some(new) = new {
        for (name, value) in new.iter() {
            one(name, old.and_then(|old| old.get(name)), Some(value));
        }
    }
    if let Some(old) = old {
        for (name, value) in old.iter() {
            if new.is_none_or(|new| !new.contains_key(name)) {
                one(name, Some(value), None);
            }
        }
    }
    out.sort();
    problems.into_result()
}

fn compare_items<'v, 's: 'v>(
    list: &ListAtom<'s>,
    old: &'v [Value],
    new: &'v [Value],
    out: &mut Comparison<'v>,
) -> Result<(), Problems> {
    // Most lists do not change, and telling items apart costs more than seeing that.
    if old.len() == new.len() && old.iter().zip(new).all(|(o, n)| equal(o, n)) {
        return Ok(());
    }
    let mut old = grouped(list, old).map_err(Problems::of)?.into_iter().peekable();
    let mut new = grouped(list, new).map_err(Problems::of)?.into_iter().peekable();
    let mut problems = Problems::default();
    loop {
        let order = match (old.peek(), new.peek()) {
            (Some(o), Some(n)) => o.0.cmp(&n.0),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => break,
        };
        let o = if order.is_le() { old.next() } else { None };
        let n = if order.is_ge() { new.next() } else { None };
        let (element, o, n) = match (o, n) {
            (Some((element, o)), Some((_, n))) => (element, o, n),
            (Some((element, o)), None) => (element, o, Vec::new()),
            (None, Some((element, n))) => (element, Vec::new(), n),
            (None, None) => break,
        };
        if let Err(found) = compare_group(list, &element, &o, &n, out) {
            problems.add_below(&element, found);
        }
    }
    problems.into_result()
}

/// Compares the items of one element; several equal items on a side are one thing that was added, modified or removed.
fn compare_group<'v, 's: 'v>(
    list: &ListAtom<'s>,
    element: &PathElement<'v>,
    old: &[&'v Value],
    new: &[&'v Value],
    out: &mut Comparison<'v>,
) -> Result<(), Problems> {
    let mut below = Comparison::default();
    let mut mark = Mark::default();
    match (old, new) {
        (_, _) if old.len() <= 1 && new.len() <= 1 => {
            mark = compare(list.item, old.first().copied(), new.first().copied(), &mut below)?;
        }
        (old, new) if old.len() >= 2 && new.len() >= 2 => {
            mark.modified = old.len() != new.len() || !old.iter().zip(new).all(|(a, b)| equal(a, b));
        }
        (_, new) if old.len() >= 2 => {
            if let Some(new) = new.first() {
                mark = compare(list.item, None, Some(new), &mut below)?;
            }
            mark.removed = true;
        }
        (old, _) => {
            if let Some(old) = old.first() {
                mark = compare(list.item, Some(old), None, &mut below)?;
            }
            mark.added = true;
        }
    }
    out.push(element.clone(), mark, below);
    Ok(())
}
