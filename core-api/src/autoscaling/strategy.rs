//! HorizontalPodAutoscaler in both versions. All rules are about the v2 form, whatever version was sent.

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::value::Object;
use triptych_object::{Value, meta};
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::{Context, Strategy};

use super::cells;
use super::convert::{BEHAVIOR, CONDITIONS, CURRENT_METRICS, METRICS, ROUND_TRIP, to_v1, to_v2};
use super::metrics::{self, Options};
use crate::validation::{check, names as rules};

/// The strategy of autoscaling/v2.
pub struct V2;
/// The strategy of autoscaling/v2's status.
pub struct V2Status;
/// The strategy of autoscaling/v1.
pub struct V1;
/// The strategy of autoscaling/v1's status.
pub struct V1Status;

fn spec(new: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let options = Options::of(new, old);
    check(new, errors, |c| metrics::spec(c.field("spec"), &options));
}

fn status(new: &Value, errors: &mut ErrorList) {
    check(new, errors, |c| {
        for member in ["currentReplicas", "desiredReplicas"] {
            rules::nonnegative(c.field("status").field(member));
        }
    });
}

/// Fills in a behavior's rules, each member on its own.
fn default_behavior(behavior: &mut Value) {
    let policy = |kind: &str, value: i64| {
        Value::from([
            ("type", kind.into()),
            ("value", Value::Int(value)),
            ("periodSeconds", Value::Int(15)),
        ])
    };
    let up: Object = [
        ("stabilizationWindowSeconds", Value::Int(0)),
        ("selectPolicy", "Max".into()),
        (
            "policies",
            Value::Array(vec![policy("Pods", 4), policy("Percent", 100)]),
        ),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    let down: Object = [
        ("selectPolicy", "Max".into()),
        ("policies", Value::Array(vec![policy("Percent", 100)])),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    for (member, defaults) in [("scaleUp", up), ("scaleDown", down)] {
        for (name, value) in defaults {
            if behavior.at(&[member, &name]).is_none() {
                behavior.set_at(&[member, &name], value);
            }
        }
    }
}

impl Strategy for V2 {
    fn default(&self, autoscaler: &mut Value) {
        if let Some(behavior) = autoscaler.at_mut(&["spec", "behavior"]) {
            default_behavior(behavior);
        }
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        spec(new, None, errors);
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        spec(new, Some(old), errors);
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }

    fn cells(&self, autoscaler: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(cells::cells(autoscaler, now))
    }
}

impl Strategy for V2Status {
    fn default(&self, autoscaler: &mut Value) {
        V2.default(autoscaler);
    }

    fn validate_update(&self, _cx: &Context, new: &Value, _old: &Value, errors: &mut ErrorList) {
        status(new, errors);
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }
}

fn keep_annotations(new: &mut Value, old: Option<&Value>, keys: &[&str]) {
    for key in keys {
        match old.and_then(|old| meta::annotation(old, key)) {
            Some(text) => meta::set_annotation(new, key, text),
            None => meta::remove_annotation(new, key),
        }
    }
}

impl Strategy for V1 {
    /// What decoding into the internal form and encoding again does: annotations are rewritten, a metric is found.
    fn default(&self, autoscaler: &mut Value) {
        *autoscaler = to_v1(&to_v2(autoscaler));
    }

    fn prepare_create(&self, _cx: &Context, new: &mut Value) {
        keep_annotations(new, None, &[CURRENT_METRICS, CONDITIONS]);
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        spec(&to_v2(new), None, errors);
    }

    fn prepare_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        keep_annotations(new, Some(old), &[CURRENT_METRICS, CONDITIONS]);
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        spec(&to_v2(new), Some(&to_v2(old)), errors);
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }

    fn internal_annotations(&self) -> &'static [&'static str] {
        &ROUND_TRIP
    }

    fn cells(&self, autoscaler: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(cells::cells(&to_v2(autoscaler), now))
    }
}

impl Strategy for V1Status {
    fn default(&self, autoscaler: &mut Value) {
        V1.default(autoscaler);
    }

    fn prepare_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        keep_annotations(new, Some(old), &[METRICS, BEHAVIOR]);
    }

    fn validate_update(&self, _cx: &Context, new: &Value, _old: &Value, errors: &mut ErrorList) {
        status(&to_v2(new), errors);
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }
}
