//! What an update of a pod may change: almost nothing.

use std::collections::HashMap;

use triptych_object::field::Error;
use triptych_object::{Value, names};

use crate::unified_diff;
use crate::validation::pod_annotations::{self, MIRROR};
use crate::validation::pod_options::PodOptions;
use crate::validation::{Cursor, go_struct, names as rules, tolerations};

const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Checks the change from `old`.
pub fn update(pod: Cursor<'_>, old: &Value, options: &PodOptions) {
    let null = Value::Null;
    let (spec, old_spec) = (pod.field("spec"), old.get("spec").unwrap_or(&null));
    annotations(pod, old, options);
    for list in ["containers", "initContainers"] {
        if !containers(spec.field(list), old_spec.array_at(&[list]).len()) {
            return;
        }
    }
    if !active_deadline(spec.field("activeDeadlineSeconds"), old_spec) {
        return;
    }
    added_tolerations(spec.field("tolerations"), old_spec, options);
    deleted_gates(spec.field("schedulingGates"), old_spec);
    let Some(new_spec) = spec.value() else { return };
    if new_spec == old_spec {
        return;
    }
    let mut munged = new_spec.clone();
    for list in ["containers", "initContainers"] {
        let new = munged.get_mut(list).and_then(Value::as_array_mut);
        for (container, old) in new.into_iter().flatten().zip(old_spec.array_at(&[list])) {
            keep(container, old, "image");
        }
    }
    for member in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        keep(&mut munged, old_spec, member);
    }
    let grace = |spec: &Value| spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64);
    if grace(old_spec).is_some_and(|s| s < 0) && grace(&munged) == Some(1) {
        keep(&mut munged, old_spec, "terminationGracePeriodSeconds");
    }
    if !old_spec.array_at(&["schedulingGates"]).is_empty() {
        gated(spec, &mut munged, old_spec);
    }
    if munged != *old_spec {
        let diff = diff(old_spec, &munged, "io.k8s.api.core.v1.PodSpec");
        spec.forbidden(format!(
            "pod updates may not change fields other than {UPDATABLE}\n{diff}"
        ));
    }
}

fn diff(old: &Value, new: &Value, type_name: &str) -> String {
    let show = |value: &Value| {
        let schema = crate::schema::types();
        let ty = schema.and_then(|s| s.named(type_name).map(|ty| (s, ty)));
        ty.map_or_else(
            || value.clone(),
            |(schema, ty)| go_struct::of_type(schema, ty, Some(value)),
        )
    };
    unified_diff::of_values(&show(old), &show(new))
}

fn keep(new: &mut Value, old: &Value, member: &str) {
    match old.get(member) {
        Some(value) => new.set_at(&[member], value.clone()),
        None => drop(new.remove_at(&[member])),
    }
}

/// Annotations must stay what they are where they matter, and valid.
fn annotations(pod: Cursor<'_>, old: &Value, options: &PodOptions) {
    let annotations = pod.field("metadata").field("annotations");
    pod_annotations::unchanged(annotations, old.at(&["metadata", "annotations"]));
    pod_annotations::annotations(annotations, pod.field("spec"), options);
}

/// False if the rest of the update need not be looked at.
fn containers(c: Cursor<'_>, before: usize) -> bool {
    if c.len() != before {
        c.forbidden("pod updates may not add or remove containers");
        return false;
    }
    for container in c.items() {
        rules::required(container.field("image"));
        crate::validation::container::untrimmed_image(container);
    }
    true
}

fn active_deadline(c: Cursor<'_>, old: &Value) -> bool {
    let before = old.get("activeDeadlineSeconds").and_then(Value::as_i64);
    match (c.i64(), before) {
        (Some(now), _) if !(0..=i64::from(i32::MAX)).contains(&now) => {
            c.invalid(now, names::inclusive_range_message(0, i64::from(i32::MAX)));
            false
        }
        (Some(now), Some(before)) if before < now => {
            c.invalid(now, "must be less than or equal to previous value");
            false
        }
        (None, Some(_)) => {
            c.invalid(Value::Null, "must not update from a positive integer to nil value");
            true
        }
        _ => true,
    }
}

fn added_tolerations(c: Cursor<'_>, old: &Value, options: &PodOptions) {
    let same = |a: &Value, b: &Value| {
        ["key", "operator", "value", "effect"]
            .iter()
            .all(|member| a.str_at(&[member]) == b.str_at(&[member]))
    };
    for before in old.array_at(&["tolerations"]) {
        if !c.items().any(|now| now.value().is_some_and(|now| same(now, before))) {
            c.forbidden("existing toleration can not be modified except its tolerationSeconds");
            return;
        }
    }
    tolerations::tolerations(c, options.toleration_comparisons);
}

fn deleted_gates(c: Cursor<'_>, old: &Value) {
    let before: Vec<&str> = old
        .array_at(&["schedulingGates"])
        .iter()
        .map(|g| g.str_at(&["name"]))
        .collect();
    let added: HashMap<&str, Cursor<'_>> = c.items().map(|g| (g.str_of("name"), g)).collect();
    for (name, gate) in added.into_iter().filter(|(name, _)| !before.contains(name)) {
        let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
        gate.field("name").forbidden(detail);
    }
}

/// A gated pod's node selector and node affinity may become narrower (KEP-3838).
fn gated(spec: Cursor<'_>, munged: &mut Value, old: &Value) {
    let selector = spec.field("nodeSelector");
    if selector.value() != old.get("nodeSelector") {
        let before = old.get("nodeSelector").and_then(Value::as_object);
        let kept = before.is_none_or(|b| {
            b.iter()
                .all(|(k, v)| selector.value().and_then(|s| s.get(k)) == Some(v))
        });
        if !kept {
            let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            selector.invalid(selector.shown(), detail);
        }
        keep(munged, old, "nodeSelector");
    }
    let affinity = spec.field("affinity").field("nodeAffinity");
    let before = old.at(&["affinity", "nodeAffinity"]);
    if affinity.value() == before {
        return;
    }
    node_affinity(affinity, before);
    match before {
        Some(before) => munged.set_at(&["affinity", "nodeAffinity"], before.clone()),
        None => {
            munged.remove_at(&["affinity", "nodeAffinity"]);
            let empty = munged
                .get("affinity")
                .and_then(Value::as_object)
                .is_some_and(|a| a.is_empty());
            if empty && old.get("affinity").is_none() {
                munged.remove_at(&["affinity"]);
            }
        }
    }
}

fn node_affinity(c: Cursor<'_>, old: Option<&Value>) {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let Some(old) = old.filter(|old| old.get(REQUIRED).is_some()) else {
        return;
    };
    let terms = c.field(REQUIRED).field("nodeSelectorTerms");
    let before = old.array_at(&[REQUIRED, "nodeSelectorTerms"]);
    if !before.is_empty() && before.len() != terms.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        terms.invalid(terms.go_struct(), detail);
        return;
    }
    for (term, before) in terms.items().zip(before) {
        let lists = ["matchExpressions", "matchFields"];
        let now = |list| term.value().map_or(&[][..], |t| t.array_at(&[list]));
        let was_empty = lists.iter().all(|list| before.array_at(&[list]).is_empty());
        let grew_from_nothing = was_empty && lists.iter().any(|list| !now(list).is_empty());
        let kept = lists.iter().all(|list| now(list).starts_with(before.array_at(&[list])));
        if grew_from_nothing || !kept {
            term.invalid(
                term.go_struct(),
                "only additions are allowed (no mutations or deletions)",
            );
        }
    }
}

/// Ephemeral containers may be added, not changed or removed.
pub fn ephemeral_containers(pod: Cursor<'_>, old: &Value, options: &PodOptions) {
    annotations(pod, old, options);
    if old.at(&["metadata", "annotations", MIRROR]).is_some() {
        pod.push(Error::forbidden("", "static pods do not support ephemeral containers"));
        return;
    }
    let list = pod.field("spec").field("ephemeralContainers");
    for before in old.array_at(&["spec", "ephemeralContainers"]) {
        let name = before.str_at(&["name"]);
        let quoted = triptych_object::field::quote(name);
        match list.items().find(|c| c.str_of("name") == name).and_then(|c| c.value()) {
            None => list.forbidden(format!("existing ephemeral containers {quoted} may not be removed\n")),
            Some(now) if now != before => {
                let diff = diff(before, now, "io.k8s.api.core.v1.EphemeralContainer");
                list.forbidden(format!(
                    "existing ephemeral containers {quoted} may not be changed\n{diff}"
                ));
            }
            Some(_) => {}
        }
    }
}
