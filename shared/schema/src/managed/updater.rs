//! Who owns what after a write: structured-merge-diff's updater.
//!
//! Contract: the sets, the pruned object and the conflicts are those of upstream's `merge.Updater`. Sets borrow from the
//! objects they were compared from, so those must outlive the [`Managed`] that is worked on.

use std::borrow::Cow;
use std::collections::BTreeMap;

use triptych_object::Value;

use super::Kind;
use super::element::PathElement;
use super::entries::{Entry, Managed, Manager};
use super::set::FieldSet;
use super::typed::{Comparison, Typed};

/// A field that someone else owns with another value.
#[derive(Clone, Debug)]
pub struct Conflict<'a> {
    /// Who.
    pub manager: Manager<'a>,
    /// Which field.
    pub path: Vec<PathElement<'a>>,
}

/// Why an apply fails.
#[derive(Debug)]
pub enum Failure<'a> {
    /// Fields of others would change.
    Conflicts(Vec<Conflict<'a>>),
    /// Anything else: answered 500 with this text.
    Other(String),
}

impl From<String> for Failure<'_> {
    fn from(text: String) -> Self {
        Failure::Other(text)
    }
}

/// Why an object is not to be had in a version.
pub enum NoVersion {
    /// The version is not served (any more); what is recorded in it is dropped.
    Unknown,
    /// Conversion failed.
    Failed(String),
}

/// An object in some version, with its type.
struct Versioned<'v> {
    value: Cow<'v, Value>,
    typed: Typed<'v>,
}

fn in_version<'v>(kind: &'v dyn Kind, object: &'v Value, api_version: &str) -> Result<Versioned<'v>, NoVersion> {
    let typed = kind.typed(api_version).ok_or(NoVersion::Unknown)?;
    if object.str_at(&["apiVersion"]) == api_version {
        return Ok(Versioned {
            value: Cow::Borrowed(object),
            typed,
        });
    }
    let converted = kind.convert(object, api_version).map_err(NoVersion::Failed)?;
    typed
        .validate(&converted, false)
        .map_err(|problems| NoVersion::Failed(problems.to_string()))?;
    Ok(Versioned {
        value: Cow::Owned(converted),
        typed,
    })
}

/// Sets recorded when a type was not yet atomic now own the whole value; sets of unknown versions are dropped.
pub fn reconcile(kind: &dyn Kind, managed: &mut Managed<'_>) {
    managed.entries.retain_mut(|entry| {
        let Some(typed) = kind.typed(&entry.api_version) else {
            return false;
        };
        if let Some(set) = typed.reconciled(&entry.set) {
            entry.set = set;
        }
        true
    });
}

/// Takes from everyone but `writer` what changes between `old` and `new`; returns what the comparison at `api_version`
/// found. Unless forced, that is a conflict.
fn yield_fields<'a>(
    kind: &'a dyn Kind,
    (old, new): (&'a Value, &'a Value),
    api_version: &str,
    managed: &mut Managed<'a>,
    writer: Option<&Manager<'_>>,
    force: bool,
) -> Result<Comparison<'a>, Failure<'a>> {
    let typed = kind
        .typed(api_version)
        .ok_or_else(|| format!("no corresponding type for {api_version}"))?;
    let here = typed
        .compare(old, new)
        .map_err(|problems| format!("failed to compare objects: {problems}"))?
        .filtered(kind.reset(api_version));
    // What others recorded in other versions is compared in those; the comparisons are owned by `elsewhere`.
    let mut elsewhere: BTreeMap<String, (Versioned<'_>, Versioned<'_>)> = BTreeMap::new();
    let mut gone = Vec::new();
    for entry in &managed.entries {
        let version = &*entry.api_version;
        if version == api_version || elsewhere.contains_key(version) || Some(&entry.manager) == writer {
            continue;
        }
        let both = in_version(kind, old, version)
            .map_err(|e| (e, "old"))
            .and_then(|old| Ok((old, in_version(kind, new, version).map_err(|e| (e, "new"))?)));
        match both {
            Ok(both) => {
                elsewhere.insert(version.to_owned(), both);
            }
            Err((NoVersion::Unknown, _)) => gone.push(version.to_owned()),
            Err((NoVersion::Failed(text), which)) => {
                return Err(Failure::Other(format!("failed to convert {which} object: {text}")));
            }
        }
    }
    let mut comparisons = BTreeMap::new();
    for (version, (old, new)) in &elsewhere {
        let comparison = old
            .typed
            .compare(&old.value, &new.value)
            .map_err(|problems| format!("failed to compare objects: {problems}"))?
            .filtered(kind.reset(version));
        comparisons.insert(version.as_str(), comparison);
    }
    managed
        .entries
        .retain(|entry| Some(&entry.manager) == writer || !gone.iter().any(|v| *v == entry.api_version));
    let mut conflicts = Vec::new();
    for entry in &mut managed.entries {
        if Some(&entry.manager) == writer {
            continue;
        }
        let comparison = if entry.api_version == api_version {
            Some(&here)
        } else {
            comparisons.get(&*entry.api_version)
        };
        let Some(comparison) = comparison else { continue };
        let changed = entry
            .set
            .intersection(&comparison.modified)
            .union(entry.set.intersection(&comparison.added));
        if !changed.is_empty() {
            if !force {
                changed.paths(&mut |path| {
                    conflicts.push(Conflict {
                        manager: entry.manager.clone(),
                        path: path.to_vec(),
                    });
                });
                continue;
            }
            entry.set = std::mem::take(&mut entry.set).difference(&changed);
        }
        if !comparison.removed.is_empty() {
            entry.set = std::mem::take(&mut entry.set).difference(&comparison.removed);
        }
    }
    if !conflicts.is_empty() {
        conflicts.sort_by_cached_key(|conflict| conflict.manager.sort_key());
        return Err(Failure::Conflicts(conflicts));
    }
    managed.entries.retain(|entry| !entry.set.is_empty());
    Ok(here)
}

/// Heeds a write that is no apply: `managed` keeps what others still own; returns what the writer now owns by it.
pub fn update<'a>(
    kind: &'a dyn Kind,
    live: &'a Value,
    new: &'a Value,
    api_version: &str,
    managed: &mut Managed<'a>,
) -> Result<FieldSet<'a>, String> {
    reconcile(kind, managed);
    match yield_fields(kind, (live, new), api_version, managed, None, true) {
        Ok(changes) => Ok(changes.modified.union(changes.added)),
        Err(Failure::Other(text)) => Err(text),
        Err(Failure::Conflicts(_)) => Err("conflicts although forced".into()),
    }
}

/// The first half of an apply: merges `config` into `live` and removes what the applier gave up. Leaves the applier's
/// new set in `managed`.
pub fn merge_and_prune<'a>(
    kind: &'a dyn Kind,
    live: &'a Value,
    config: &'a Value,
    api_version: &'a str,
    managed: &mut Managed<'a>,
    applier: &Manager<'a>,
) -> Result<Value, String> {
    reconcile(kind, managed);
    let typed = kind
        .typed(api_version)
        .ok_or_else(|| format!("no corresponding type for {api_version}"))?;
    let merged = typed
        .merge(live, config)
        .map_err(|problems| format!("failed to merge config: {problems}"))?;
    let set = typed.field_set(config);
    let set = match kind.reset(api_version) {
        Some(filter) => filter.apply(set),
        None => set,
    };
    let last = managed.take(applier);
    let time = last.as_ref().and_then(|last| last.time.clone());
    managed.put(Entry {
        manager: applier.clone(),
        api_version: Cow::Borrowed(api_version),
        set,
        time,
    });
    match last {
        Some(last) if !last.set.is_empty() => {
            prune(kind, merged, managed, &last, api_version).map_err(|text| format!("failed to prune fields: {text}"))
        }
        _ => Ok(merged),
    }
}

/// The second half: conflicts with others, or (forced) taking their fields.
pub fn take_over<'a>(
    kind: &'a dyn Kind,
    live: &'a Value,
    new: &'a Value,
    api_version: &str,
    managed: &mut Managed<'a>,
    applier: &Manager<'_>,
    force: bool,
) -> Result<(), Failure<'a>> {
    yield_fields(kind, (live, new), api_version, managed, Some(applier), force).map(drop)
}

/// Removes from `merged` what only the applier's last configuration had.
fn prune(
    kind: &dyn Kind,
    merged: Value,
    managed: &Managed<'_>,
    last: &Entry<'_>,
    api_version: &str,
) -> Result<Value, String> {
    let pruned = {
        let at_last = match in_version(kind, &merged, &last.api_version) {
            Ok(versioned) => versioned,
            Err(NoVersion::Unknown) => return Ok(merged),
            Err(NoVersion::Failed(text)) => {
                return Err(format!(
                    "failed to convert merged object to last applied version: {text}"
                ));
            }
        };
        let typed = at_last.typed;
        let pruned = typed.without(&at_last.value, &typed.with_named_fields(&last.set));
        let pruned = add_back_owned(kind, &at_last.value, pruned, &last.api_version, managed)
            .map_err(|text| format!("failed add back owned items: {text}"))?;
        add_back_dangling(kind, &at_last, pruned, last)
            .map_err(|text| format!("failed add back dangling items: {text}"))?
    };
    match in_version(kind, &pruned, api_version) {
        Ok(Versioned {
            value: Cow::Owned(value),
            ..
        }) => Ok(value),
        Ok(_) => Ok(pruned),
        Err(NoVersion::Unknown) => Err(format!("no corresponding type for {api_version}")),
        Err(NoVersion::Failed(text)) => Err(text),
    }
}

/// What was pruned but is owned by anyone comes back, the last applied version first.
fn add_back_owned(
    kind: &dyn Kind,
    merged: &Value,
    mut pruned: Value,
    version: &str,
    managed: &Managed<'_>,
) -> Result<Value, String> {
    let mut owned: BTreeMap<&str, Vec<FieldSet<'_>>> = BTreeMap::new();
    for entry in &managed.entries {
        owned.entry(&entry.api_version).or_default().push(entry.set.clone());
    }
    let mut order: Vec<&str> = owned.keys().copied().collect();
    order.sort_by_key(|v| *v != version);
    for version in order {
        let set = FieldSet::union_all(owned.remove(version).unwrap_or_default());
        let convert = |object: &Value, which: &str| match in_version(kind, object, version) {
            Ok(versioned) => Ok(Some(versioned.value.into_owned())),
            Err(NoVersion::Unknown) => Ok(None),
            Err(NoVersion::Failed(text)) => {
                Err(format!("failed to convert {which} object at version {version}: {text}"))
            }
        };
        let Some(typed) = kind.typed(version) else { continue };
        let Some(all) = convert(merged, "merged")? else {
            continue;
        };
        let Some(kept) = convert(&pruned, "pruned")? else {
            continue;
        };
        let there = typed.with_named_fields(&typed.field_set(&all));
        let stay = typed
            .with_named_fields(&typed.field_set(&kept))
            .union(typed.with_named_fields(&set));
        pruned = typed.without(&all, &there.difference(&stay));
    }
    Ok(pruned)
}

/// What was pruned without having been in the last configuration (it hung below something that was) comes back.
fn add_back_dangling(
    kind: &dyn Kind,
    merged: &Versioned<'_>,
    pruned: Value,
    last: &Entry<'_>,
) -> Result<Value, String> {
    let at_last = match in_version(kind, &pruned, &last.api_version) {
        Ok(versioned) => versioned.value,
        Err(NoVersion::Unknown) => return Ok(merged.value.clone().into_owned()),
        Err(NoVersion::Failed(text)) => {
            return Err(format!(
                "failed to convert pruned object to last applied version: {text}"
            ));
        }
    };
    let typed = merged.typed;
    let pruned_set = typed.with_named_fields(&typed.field_set(&at_last));
    let merged_set = typed.with_named_fields(&typed.field_set(&merged.value));
    let last_set = typed.with_named_fields(&last.set);
    Ok(typed.without(
        &merged.value,
        &merged_set.difference(&pruned_set).intersection(&last_set),
    ))
}
