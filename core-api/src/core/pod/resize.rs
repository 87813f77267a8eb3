//! `pods/resize`: cpu and memory of a running pod (KEP-1287, KEP-5419).

use triptych_object::field::{Error, ErrorList};
use triptych_object::{Value, meta};
use triptych_registry::{Context, Strategy};

use super::qos;
use crate::validation::pod_annotations::MIRROR;
use crate::validation::pod_options::PodOptions;
use crate::validation::{Cursor, check};

/// The strategy of `pods/resize`.
pub struct Resize;

impl Strategy for Resize {
    fn shows_tables(&self) -> bool {
        false
    }

    fn default(&self, pod: &mut Value) {
        super::Pods.default(pod);
    }

    fn prepare_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        const LISTS: [&str; 2] = ["containers", "initContainers"];
        let same = |list: &&str| new.array_at(&["spec", list]).len() == old.array_at(&["spec", list]).len();
        if !LISTS.iter().all(same) {
            return;
        }
        for list in LISTS {
            if let Some(merged) = merge(new.array_at(&["spec", list]), old.array_at(&["spec", list])) {
                new.set_at(&["spec", list], Value::Array(merged));
            }
        }
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        let refused = refuse(old);
        if let Some(detail) = refused {
            // nothing else is reported
            *errors = std::iter::once(Error::forbidden("[]", detail)).collect();
            return;
        }
        check(new, errors, |pod| {
            super::whole(pod, &PodOptions::updating(true, Some(old)));
            resize(pod, old);
        });
    }
}

fn refuse(old: &Value) -> Option<&'static str> {
    if meta::annotation(old, MIRROR).is_some() {
        return Some("static pods cannot be resized");
    }
    (old.str_at(&["spec", "os", "name"]) == "windows").then_some("windows pods cannot be resized")
}

/// The old containers with the new ones' resources; `None` if they are other containers or there are none.
fn merge(new: &[Value], old: &[Value]) -> Option<Vec<Value>> {
    if new.is_empty()
        || new
            .iter()
            .zip(old)
            .any(|(n, o)| n.str_at(&["name"]) != o.str_at(&["name"]))
    {
        return None;
    }
    let merged = old.iter().zip(new).map(|(old, new)| {
        let mut container = old.clone();
        for member in ["resources", "resizePolicy"] {
            set(&mut container, new, member);
        }
        container
    });
    Some(merged.collect())
}

fn set(to: &mut Value, from: &Value, member: &str) {
    match from.get(member) {
        Some(value) => to.set_at(&[member], value.clone()),
        None => drop(to.remove_at(&[member])),
    }
}

fn is_sidecar(container: &Value) -> bool {
    container.str_at(&["restartPolicy"]) == "Always"
}

fn resize(pod: Cursor<'_>, old: &Value) {
    const IMMUTABLE: &str = "only cpu and memory resources are mutable";
    let null = Value::Null;
    let (spec, old_spec) = (pod.field("spec"), old.get("spec").unwrap_or(&null));
    let Some(new_spec) = spec.value() else { return };
    let before = pod.found();
    let class = match old.str_at(&["status", "qosClass"]) {
        "" => qos::class(old_spec),
        class => class,
    };
    if class != qos::class(new_spec) {
        let shown = pod.field("status").str_of("qosClass");
        spec.invalid(shown, "Pod QOS Class may not change as a result of resizing");
    }
    let running = old
        .array_at(&["status", "containerStatuses"])
        .iter()
        .find(|s| s.at(&["state", "running"]).is_some());
    if running.is_some_and(|s| s.get("resources").is_none()) {
        spec.forbidden("Pod running on node without support for resize");
    }
    let mut munged = new_spec.clone();
    if has_resources(old_spec) || has_resources(new_spec) {
        pod_level(spec, &mut munged, old_spec);
    }
    if !old
        .array_at(&["status", "nodeAllocatableResourceClaimStatuses"])
        .is_empty()
    {
        spec.forbidden("pods with node allocatable resource claims cannot be resized");
    }
    if !same_containers(spec, old_spec) {
        return;
    }
    for list in ["initContainers", "containers"] {
        for (container, old) in spec.field(list).items().zip(old_spec.array_at(&[list])) {
            let resources = container.field("resources");
            removed(
                resources,
                old.get("resources"),
                ["resource requests", "resource limits"],
            );
        }
    }
    for list in ["containers", "initContainers"] {
        let init = list == "initContainers";
        let containers = munged.get_mut(list).and_then(Value::as_array_mut);
        for (i, (container, old)) in containers
            .into_iter()
            .flatten()
            .zip(old_spec.array_at(&[list]))
            .enumerate()
        {
            let modified = container != old;
            keep_compute(container, old);
            let place = if init { spec.field(list).index(i) } else { spec };
            if container != old {
                place.forbidden(if init {
                    "only cpu and memory resources for init or sidecar containers are mutable"
                } else {
                    IMMUTABLE
                });
            }
            let policies = container.array_at(&["resizePolicy"]);
            if init && modified && !is_sidecar(old) {
                for _ in policies
                    .iter()
                    .filter(|p| p.str_at(&["restartPolicy"]) == "RestartContainer")
                {
                    place.forbidden(
                        "non-sidecar init containers with a resize policy of RestartContainer cannot be resized",
                    );
                }
            }
        }
    }
    if pod.found() == before && munged != *old_spec {
        spec.forbidden(IMMUTABLE);
    }
}

fn has_resources(spec: &Value) -> bool {
    ["requests", "limits"].iter().any(|list| {
        spec.at(&["resources", list])
            .and_then(Value::as_object)
            .is_some_and(|l| !l.is_empty())
    })
}

fn pod_level(spec: Cursor<'_>, munged: &mut Value, old: &Value) {
    let resources = spec.field("resources");
    if old.get("resources").is_some() {
        if !resources.exists() {
            resources.forbidden("pod-level resources cannot be removed");
            return;
        }
        removed(
            resources,
            old.get("resources"),
            ["pod-level resource requests", "pod-level resource limits"],
        );
    }
    keep_compute(munged, old);
    if munged.get("resources") != old.get("resources") {
        spec.forbidden("only cpu and memory resources are mutable at pod-level");
    }
}

/// Gives an object its old cpu and memory back, to see what else changed.
fn keep_compute(new: &mut Value, old: &Value) {
    let Some(resources) = new.get_mut("resources") else {
        return;
    };
    for list in ["requests", "limits"] {
        for name in ["cpu", "memory"] {
            match old.at(&["resources", list, name]) {
                Some(value) => resources.set_at(&[list, name], value.clone()),
                None => drop(resources.remove_at(&[list, name])),
            }
        }
        if resources
            .get(list)
            .and_then(Value::as_object)
            .is_some_and(|l| l.is_empty())
        {
            resources.remove_at(&[list]);
        }
    }
    if old.get("resources").is_none() && resources.as_object().is_some_and(|r| r.is_empty()) {
        new.remove_at(&["resources"]);
    }
}

fn same_containers(spec: Cursor<'_>, old: &Value) -> bool {
    let before = spec.found();
    for (list, added, renamed) in [
        (
            "containers",
            "containers may not be added or removed on resize",
            "containers may not be renamed or reordered on resize",
        ),
        (
            "initContainers",
            "initContainers may not be added or removed on resize",
            "initContainers may not be renamed or reordered on resize",
        ),
    ] {
        let now = spec.field(list);
        if now.len() != old.array_at(&[list]).len() {
            now.forbidden(added);
            continue;
        }
        for (container, old) in now.items().zip(old.array_at(&[list])) {
            if container.str_of("name") != old.str_at(&["name"]) {
                container.field("name").forbidden(renamed);
            }
        }
    }
    spec.found() == before
}

fn removed(c: Cursor<'_>, old: Option<&Value>, what: [&str; 2]) {
    for (list, what) in ["requests", "limits"].into_iter().zip(what) {
        let now = c.field(list);
        let before = old.and_then(|o| o.get(list)).and_then(Value::as_object);
        let gone = before.is_some_and(|b| b.keys().any(|name| now.value().is_none_or(|n| n.get(name).is_none())));
        if gone {
            now.forbidden(format!("{what} cannot be removed"));
        }
    }
}
