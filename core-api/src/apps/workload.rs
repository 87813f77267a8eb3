//! What the controllers of pods have in common, those of the core group and of batch included: their template and
//! selector, the counts in their status, their cells, their warnings.

use jiff::Timestamp;
use triptych_object::{Value, meta, names};
use triptych_registry::age::age;

use crate::validation::label_selector::{self, Lenience, label_selector};
use crate::validation::pod_options::PodOptions;
use crate::validation::pod_template::{always_restarts, matches_selector, pod_template, selects_template};
use crate::validation::{Cursor, names as rules, pod_warnings};

/// Where a workload's pod template is.
pub const TEMPLATE: [&str; 2] = ["spec", "template"];

/// Options for a template at `path` that may replace one.
pub fn options(old: Option<&Value>, path: &[&str]) -> PodOptions {
    PodOptions::updating(false, old.and_then(|o| o.at(path)))
}

/// `spec.selector`: required, and not of everything. `what` is the kind in the error.
pub fn required_selector(spec: Cursor<'_>, what: &str) {
    let selector = spec.field("selector");
    if !selector.exists() {
        selector.required("");
        return;
    }
    label_selector(selector, Lenience::default());
    if label_selector::is_empty(selector.value()) {
        selector.invalid(selector.shown(), format!("empty selector is invalid for {what}"));
    }
}

/// Whether a selector can be one; if not, `detail` is reported and the template not looked at.
pub fn usable_selector(spec: Cursor<'_>, detail: &str) -> bool {
    let selector = spec.field("selector");
    let usable = selector_is_valid(selector.value());
    if !usable {
        selector.invalid(selector.shown(), detail);
    }
    usable
}

/// Whether `metav1.LabelSelectorAsSelector` takes it.
pub fn selector_is_valid(selector: Option<&Value>) -> bool {
    let Some(selector) = selector else { return true };
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let labels_valid = labels.is_none_or(|l| {
        l.iter().all(|(key, value)| {
            names::qualified_name(key).is_empty() && names::label_value(value.as_str().unwrap_or("")).is_empty()
        })
    });
    labels_valid
        && selector.array_at(&["matchExpressions"]).iter().all(|requirement| {
            let values = requirement.array_at(&["values"]);
            let operands = match requirement.str_at(&["operator"]) {
                "In" | "NotIn" => !values.is_empty(),
                "Exists" | "DoesNotExist" => values.is_empty(),
                _ => false,
            };
            let valid = |value: &Value| names::label_value(value.as_str().unwrap_or("")).is_empty();
            operands && names::qualified_name(requirement.str_at(&["key"])).is_empty() && values.iter().all(valid)
        })
}

/// The template of a ReplicaSet or Deployment.
pub fn replica_set_template(spec: Cursor<'_>, options: &PodOptions) {
    let template = spec.field("template");
    template_matches(spec, template);
    pod_template(template, options);
    always_restarts(template, "ReplicaSet");
}

/// The selector, unless it selects nothing or everything, must match the template's labels.
pub fn template_matches(spec: Cursor<'_>, template: Cursor<'_>) {
    let selector = spec.field("selector");
    let everything = label_selector::is_empty(selector.value());
    matches_selector(
        template,
        everything || selects_template(selector.value(), template.value()),
    );
}

/// `spec.selector` may not change.
pub fn immutable_selector(c: Cursor<'_>, old: &Value) {
    immutable(c.field("spec").field("selector"), old.at(&["spec", "selector"]));
}

/// `field is immutable`, showing the new value as it stands in the document.
pub fn immutable(c: Cursor<'_>, old: Option<&Value>) {
    if c.value() != old {
        c.invalid(c.shown(), "field is immutable");
    }
}

/// Counts in a status: none negative, those in `bounded` at most `replicas`, available ones ready. `ready` is what the
/// last error calls them.
pub fn counts(status: Cursor<'_>, all: &[&'static str], bounded: &[&'static str], ready: &str) {
    all.iter().for_each(|name| rules::nonnegative(status.field(name)));
    let count = |name: &'static str| status.field(name).int();
    for name in bounded {
        if count(name) > count("replicas") {
            status
                .field(name)
                .invalid(count(name), "cannot be greater than status.replicas");
        }
    }
    if count("availableReplicas") > count("readyReplicas") {
        let detail = format!("cannot be greater than {ready}");
        status
            .field("availableReplicas")
            .invalid(count("availableReplicas"), detail);
    }
}

/// `status.collisionCount` only grows.
pub fn collision_count(status: Cursor<'_>, old: &Value) {
    let (now, before) = (status.field("collisionCount"), old.at(&["status", "collisionCount"]));
    if let Some(before) = before.and_then(Value::as_i64)
        && now.i64().is_none_or(|now| now < before)
    {
        now.invalid(now.int(), "cannot be decremented");
    }
}

/// A name that is no DNS label makes pods whose hostnames differ from their names.
pub fn name_warning(object: &Value) -> Option<String> {
    let messages = names::dns1123_label(meta::name(object));
    (!messages.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [{}]",
            messages.join(" ")
        )
    })
}

/// Warnings about the template of a new object, or of one whose specification changed.
pub fn template_warnings(new: &Value, old: Option<&Value>, path: &[&str]) -> Vec<String> {
    if old.is_some_and(|old| meta::generation(old) == meta::generation(new)) {
        return Vec::new();
    }
    pod_warnings::template(new.at(path), &path.join("."))
}

/// Names and images of a template's containers.
pub fn container_cells(template: Option<&Value>) -> [Value; 2] {
    let containers = template.map_or(&[][..], |t| t.array_at(&["spec", "containers"]));
    ["name", "image"].map(|member| {
        let texts: Vec<&str> = containers.iter().map(|c| c.str_at(&[member])).collect();
        texts.join(",").into()
    })
}

/// What a table shows of a ReplicaSet or ReplicationController; `selector` as its kind writes it.
pub fn replica_cells(set: &Value, selector: String, now: Timestamp) -> Vec<Value> {
    let [names, images] = container_cells(set.at(&TEMPLATE));
    vec![
        meta::name(set).into(),
        Value::Int(number(set, &["spec", "replicas"])),
        Value::Int(number(set, &["status", "replicas"])),
        Value::Int(number(set, &["status", "readyReplicas"])),
        age(set, now).into(),
        names,
        images,
        selector.into(),
    ]
}

/// Counts in the status of a ReplicaSet or ReplicationController.
pub fn replica_counts(status: Cursor<'_>) {
    const ALL: [&str; 5] = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
    ];
    let bounded = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    counts(status, &ALL, &bounded, "readyReplicas");
}

/// A number of the document, 0 if absent.
pub fn number(object: &Value, path: &[&str]) -> i64 {
    object.at(path).and_then(Value::as_i64).unwrap_or(0)
}
