//! Pod: defaults, what the server decides on create, what an update may change, and its subresources that store it.

mod binding;
mod cells;
mod change;
mod eviction;
mod qos;
mod resize;
mod spread;
pub mod status;
mod update;

use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::value::Object;
use triptych_object::{Value, meta, names, time};
use triptych_registry::{Context as Request, Strategy};

use crate::context::Context;
use crate::defaults;
use crate::kinds::Kinds;
use crate::loopback::Loopback;
use crate::validation::container::untrimmed_image;
use crate::validation::pod_annotations::{self, APP_ARMOR};
use crate::validation::pod_options::PodOptions;
use crate::validation::pod_spec::{aggregate, pod_spec};
use crate::validation::{Cursor, check, pod_warnings, resource_names, resources};

/// The strategy of `pods`.
pub struct Pods;

/// The strategy of `pods/ephemeralcontainers`.
pub struct EphemeralContainers;

/// Registers pods and their subresources that store them.
pub fn register(kinds: &mut Kinds) {
    kinds.strategy("", "pods", Pods);
    kinds.subresource("", "pods", "status", status::Status);
    kinds.subresource("", "pods", "ephemeralcontainers", EphemeralContainers);
    kinds.subresource("", "pods", "resize", resize::Resize);
    kinds.action("", "pods", "binding", binding::Bindings);
}

/// Registers what needs the tier's other endpoints: eviction, and binding by way of `bindings`. They answer 503 until
/// `loopback` is set.
pub fn register_late(kinds: &mut Kinds, context: &Context, loopback: &Arc<OnceLock<Loopback>>) {
    let evictions = eviction::Evictions::new(context.clone(), loopback.clone());
    kinds.action("", "pods", "eviction", evictions);
    kinds.action("", "bindings", "", binding::Unnamed::new(loopback.clone()));
}

impl Strategy for Pods {
    fn default(&self, pod: &mut Value) {
        drop_old_annotations(pod);
        sync_ips(pod);
        if let Some(status) = pod.get_mut("status") {
            defaults::pod_status(status);
        }
        let Some(spec) = pod.get_mut("spec") else { return };
        if spec
            .get("terminationGracePeriodSeconds")
            .and_then(Value::as_i64)
            .is_some_and(|s| s < 0)
        {
            spec.set_at(&["terminationGracePeriodSeconds"], Value::Int(1));
        }
        defaults::pod_spec(spec);
        default_requests(spec);
        default_pod_resources(spec);
        if spec.get("enableServiceLinks").is_none() {
            spec.set_at(&["enableServiceLinks"], Value::Bool(true));
        }
        if spec.get("hostNetwork").and_then(Value::as_bool) == Some(true) {
            default_host_ports(spec);
        }
    }

    fn prepare_create(&self, cx: &Request, new: &mut Value) {
        let class = qos::class(new.get("spec").unwrap_or(&Value::Null));
        new.set_at(
            &["status"],
            Value::from([("phase", "Pending".into()), ("qosClass", class.into())]),
        );
        if !new.array_at(&["spec", "schedulingGates"]).is_empty() {
            let message = "Scheduling is blocked due to non-empty scheduling gates";
            let now = time::rfc3339(cx.now);
            status::set_condition(new, &now, "PodScheduled", "False", "SchedulingGated", message);
        }
        spread::merge_label_keys(new);
        app_armor_fields(new);
    }

    fn validate_create(&self, _cx: &Request, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |pod| {
            let spec = pod.field("spec");
            whole(pod, &PodOptions::new(true));
            if !spec.field("ephemeralContainers").is_empty() {
                spec.field("ephemeralContainers").forbidden("cannot be set on create");
            }
            if !spec.str_of("nodeName").is_empty() && !spec.field("schedulingGates").is_empty() {
                let detail = "cannot be set until all schedulingGates have been cleared";
                spec.field("nodeName").forbidden(detail);
            }
            pod_annotations::agree_with_fields(pod.field("metadata").field("annotations"), spec);
        });
    }

    fn validate_update(&self, _cx: &Request, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |pod| {
            let options = PodOptions::updating(true, Some(old));
            whole(pod, &options);
            update::update(pod, old, &options);
        });
    }

    fn warnings(&self, _cx: &Request, new: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some() {
            return Vec::new();
        }
        let mut warnings = app_armor_warnings(new);
        let messages = names::dns1123_label(meta::name(new));
        if !messages.is_empty() {
            warnings.push(format!(
                "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [{}]",
                messages.join(" ")
            ));
        }
        warnings.extend(pod_warnings::pod(new));
        warnings
    }

    fn grace_period(&self, pod: &Value, requested: Option<i64>) -> Option<i64> {
        let own = || {
            pod.at(&["spec", "terminationGracePeriodSeconds"])
                .and_then(Value::as_i64)
                .unwrap_or(0)
        };
        let unassigned = pod.str_at(&["spec", "nodeName"]).is_empty();
        if unassigned || matches!(pod.str_at(&["status", "phase"]), "Failed" | "Succeeded") {
            return Some(0);
        }
        Some(match requested.unwrap_or_else(own) {
            negative if negative < 0 => 1,
            period => period,
        })
    }

    fn cells(&self, pod: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(cells::cells(pod, now))
    }

    fn row_conditions(&self, pod: &Value) -> Option<Value> {
        cells::row_conditions(pod)
    }
}

impl Strategy for EphemeralContainers {
    fn shows_tables(&self) -> bool {
        false
    }

    fn default(&self, pod: &mut Value) {
        Pods.default(pod);
    }

    fn validate_update(&self, _cx: &Request, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |pod| {
            let options = PodOptions::updating(true, Some(old));
            whole(pod, &options);
            update::ephemeral_containers(pod, old, &options);
        });
    }
}

/// What holds of every pod, whether new or changed.
fn whole(pod: Cursor<'_>, options: &PodOptions) {
    let (metadata, spec) = (pod.field("metadata"), pod.field("spec"));
    pod_annotations::annotations(metadata.field("annotations"), spec, options);
    pod_spec(spec, Some(metadata), options);
    if spec.str_of("serviceAccountName").is_empty() {
        for volume in spec.field("volumes").items() {
            for source in volume.field("projected").field("sources").items() {
                if let Some(token) = source.given("serviceAccountToken") {
                    token.forbidden("must not be specified when serviceAccountName is not set");
                }
            }
        }
    }
    for list in ["containers", "initContainers"] {
        spec.field(list).items().for_each(untrimmed_image);
    }
}

/// Annotations in which init containers were stored before Kubernetes 1.8.
fn drop_old_annotations(pod: &mut Value) {
    const OLD: [&str; 4] = [
        "pod.beta.kubernetes.io/init-containers",
        "pod.alpha.kubernetes.io/init-containers",
        "pod.beta.kubernetes.io/init-container-statuses",
        "pod.alpha.kubernetes.io/init-container-statuses",
    ];
    OLD.iter().for_each(|key| meta::remove_annotation(pod, key));
}

/// `podIP` is the first of `podIPs`; where they differ, `podIP` counts.
fn sync_ips(pod: &mut Value) {
    let first = pod
        .array_at(&["status", "podIPs"])
        .first()
        .map(|ip| ip.str_at(&["ip"]).to_owned());
    let own = pod.str_at(&["status", "podIP"]).to_owned();
    match first {
        Some(first) if own.is_empty() => pod.set_at(&["status", "podIP"], first.into()),
        Some(first) if first == own => {}
        None if own.is_empty() => {}
        _ => {
            let ips = Value::Array(vec![Value::from([("ip", own.into())])]);
            pod.set_at(&["status", "podIPs"], ips);
        }
    }
}

/// A container that limits a resource requests as much of it unless it says otherwise.
fn default_requests(spec: &mut Value) {
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for resources in containers.into_iter().flatten().filter_map(|c| c.get_mut("resources")) {
            let limits = resources.get("limits").cloned();
            let missing = limits
                .as_ref()
                .and_then(Value::as_object)
                .into_iter()
                .flat_map(Object::iter);
            add_missing(resources, "requests", missing);
        }
    }
}

fn add_missing<'a>(resources: &mut Value, list: &str, wanted: impl Iterator<Item = (&'a str, &'a Value)>) {
    let mut added = false;
    for (name, value) in wanted {
        if resources.at(&[list, name]).is_none() {
            resources.set_at(&[list, name], value.clone());
            added = true;
        }
    }
    if added && let Some(map) = resources.get_mut(list).and_then(Value::as_object_mut) {
        map.sort();
    }
}

/// Resources of the pod as a whole follow from those of its containers.
fn default_pod_resources(spec: &mut Value) {
    let filled = |list: &str| {
        spec.at(&["resources", list])
            .and_then(Value::as_object)
            .is_some_and(|l| !l.is_empty())
    };
    if !filled("limits") && !filled("requests") {
        return;
    }
    let owned = |list: &str, keep: fn(&str) -> bool| -> Vec<(String, Value)> {
        let sums = aggregate(spec, list).into_iter().filter(|(name, _)| keep(name));
        sums.map(|(name, sum)| (name.to_owned(), sum.to_string().into()))
            .collect()
    };
    let mut limits = owned("limits", resource_names::is_huge_pages);
    limits.retain(|(name, _)| spec.at(&["resources", "requests", name]).is_none());
    let requests = owned("requests", |name| {
        resources::is_pod_level(name) && resource_names::is_overcommit_allowed(name)
    });
    let Some(own) = spec.get_mut("resources") else { return };
    add_missing(own, "limits", limits.iter().map(|(name, value)| (name.as_str(), value)));
    let Some(limits) = own
        .get("limits")
        .and_then(Value::as_object)
        .filter(|l| !l.is_empty())
        .cloned()
    else {
        return;
    };
    add_missing(
        own,
        "requests",
        requests.iter().map(|(name, value)| (name.as_str(), value)),
    );
    add_missing(
        own,
        "requests",
        limits.iter().filter(|(name, _)| resources::is_pod_level(name)),
    );
}

fn default_host_ports(spec: &mut Value) {
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        let ports = containers
            .into_iter()
            .flatten()
            .filter_map(|c| c.get_mut("ports")?.as_array_mut());
        for port in ports.flatten() {
            if let (None, Some(own)) = (port.get("hostPort"), port.get("containerPort").cloned()) {
                port.set_at(&["hostPort"], own);
            }
        }
    }
}

/// AppArmor annotations become the field that replaced them, unless the pod's own profile says the same.
fn app_armor_fields(pod: &mut Value) {
    if pod.str_at(&["spec", "os", "name"]) == "windows" {
        return;
    }
    let Some(annotations) = pod.at(&["metadata", "annotations"]).cloned() else {
        return;
    };
    let pod_profile = pod.at(&["spec", "securityContext", "appArmorProfile"]).cloned();
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let containers = pod.at_mut(&["spec", list]).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let key = format!("{APP_ARMOR}{}", container.str_at(&["name"]));
            let Some(annotation) = annotations.get(&key).and_then(Value::as_str) else {
                continue;
            };
            let path = ["securityContext", "appArmorProfile"];
            let profile = pod_annotations::profile_of_annotation(annotation);
            if container.at(&path).is_none()
                && profile != pod_profile
                && let Some(profile) = profile
            {
                container.set_at(&path, profile);
            }
        }
    }
}

/// A container's AppArmor annotation earns a warning unless its field, as sent, already said it. What the client sent
/// is what its entry in `managedFields` owns: the object itself was completed by [`app_armor_fields`].
fn app_armor_warnings(pod: &Value) -> Vec<String> {
    if pod.str_at(&["spec", "os", "name"]) == "windows" {
        return Vec::new();
    }
    let pod_profile = pod.at(&["spec", "securityContext", "appArmorProfile"]);
    let mut warnings = Vec::new();
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in pod.array_at(&["spec", list]) {
            let name = container.str_at(&["name"]);
            let key = format!("{APP_ARMOR}{name}");
            let Some(annotation) = meta::annotation(pod, &key) else {
                continue;
            };
            let item = format!("k:{{\"name\":{}}}", triptych_object::json::to_string(&name.into()));
            let (list, path) = (format!("f:{list}"), ["f:securityContext", "f:appArmorProfile"]);
            let sent = pod.array_at(&["metadata", "managedFields"]).iter().any(|entry| {
                entry
                    .at(&["fieldsV1", "f:spec", &list, &item, path[0], path[1]])
                    .is_some()
            });
            let profile = pod_annotations::profile_of_annotation(annotation);
            if !sent && (profile.is_none() || profile.as_ref() != pod_profile) {
                let why = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
                warnings.push(format!("metadata.annotations[{key}]: {why}"));
            }
        }
    }
    warnings
}

#[cfg(test)]
mod tests;
