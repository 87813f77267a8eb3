//! Names: a CRD gets those that no other CRD of its group has (condition NamesAccepted).

use std::collections::HashSet;

use triptych_object::Value;
use triptych_object::field::{aggregate, quote};

use super::Surroundings;
use crate::definition::conditions::{self, Condition};
use crate::definition::summary::Names;

/// Accepts what is free; does nothing where all names are accepted already.
pub fn step(crd: &mut Value, around: &Surroundings<'_>) {
    let wanted = Names::read(crd.at(&["spec", "names"]));
    let have = Names::read(crd.at(&["status", "acceptedNames"]));
    if wanted == have {
        return;
    }
    let (accepted, condition) = decide(&wanted, &have, around);
    if accepted == have && condition.is_in(crd) {
        return;
    }
    let holds = condition.status == "True";
    crd.set_at(&["status", "acceptedNames"], accepted.to_value());
    condition.set(crd, around.now);
    if conditions::is_true(crd, "Established") {
        return;
    }
    let established = if holds {
        Condition::new(
            "Established",
            false,
            "Installing",
            "the initial names have been accepted",
        )
    } else if conditions::find(crd, "Established").is_some() {
        return;
    } else {
        Condition::new("Established", false, "NotAccepted", "not all names are accepted")
    };
    established.set(crd, around.now);
}

fn decide(wanted: &Names, have: &Names, around: &Surroundings<'_>) -> (Names, Condition) {
    let mut resources: HashSet<&str> = HashSet::new();
    let mut kinds: HashSet<&str> = HashSet::new();
    for other in &around.others {
        let names = &other.accepted;
        resources.extend([names.plural.as_str(), names.singular.as_str()]);
        resources.extend(names.short_names.iter().map(String::as_str));
        kinds.extend([names.kind.as_str(), names.list_kind.as_str()]);
    }
    // the CRD's own accepted names count as taken too; only an unchanged name is its own
    resources.extend([have.plural.as_str(), have.singular.as_str()]);
    resources.extend(have.short_names.iter().map(String::as_str));
    kinds.extend([have.kind.as_str(), have.list_kind.as_str()]);
    let free = |name: &str, own: &str, taken: &HashSet<&str>| -> Result<(), String> {
        if name == own || !taken.contains(name) {
            return Ok(());
        }
        Err(format!("{} is already in use", quote(name)))
    };
    let mut accepted = have.clone();
    let mut refused: Option<(&str, String)> = None;
    match free(&wanted.plural, &have.plural, &resources) {
        Ok(()) => accepted.plural = wanted.plural.clone(),
        Err(why) => refused = Some(("PluralConflict", why)),
    }
    match free(&wanted.singular, &have.singular, &resources) {
        Ok(()) => accepted.singular = wanted.singular.clone(),
        Err(why) => refused = Some(("SingularConflict", why)),
    }
    if wanted.short_names != have.short_names {
        let new = wanted
            .short_names
            .iter()
            .filter(|name| !have.short_names.contains(name));
        let taken: Vec<String> = new.filter_map(|name| free(name, "", &resources).err()).collect();
        if taken.is_empty() {
            accepted.short_names = wanted.short_names.clone();
        } else {
            refused = Some(("ShortNamesConflict", aggregate(taken)));
        }
    }
    match free(&wanted.kind, &have.kind, &kinds) {
        Ok(()) => accepted.kind = wanted.kind.clone(),
        Err(why) => refused = Some(("KindConflict", why)),
    }
    match free(&wanted.list_kind, &have.list_kind, &kinds) {
        Ok(()) => accepted.list_kind = wanted.list_kind.clone(),
        Err(why) => refused = Some(("ListKindConflict", why)),
    }
    accepted.categories = wanted.categories.clone();
    let condition = match refused {
        None => Condition::new("NamesAccepted", true, "NoConflicts", "no conflicts found"),
        Some((reason, why)) => Condition::new("NamesAccepted", false, reason, why),
    };
    (accepted, condition)
}
