//! ReplicaSet.

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{Value, meta};
use triptych_registry::age::age;
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::{Context, Strategy};

use super::workload::{self, TEMPLATE, number};
use crate::validation::pod_options::PodOptions;
use crate::validation::{Cursor, check, names as rules};
use crate::{defaults, printing};

/// The strategy of `replicasets`.
pub struct ReplicaSets;

/// The strategy of `replicasets/status`.
pub struct Status;

impl Strategy for ReplicaSets {
    fn default(&self, set: &mut Value) {
        defaults::pod_template(set.at_mut(&TEMPLATE));
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |c| spec(c.field("spec"), &PodOptions::new(false)));
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |c| {
            spec(c.field("spec"), &workload::options(Some(old), &TEMPLATE));
            workload::immutable_selector(c, old);
        });
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }

    fn warnings(&self, _cx: &Context, new: &Value, old: Option<&Value>) -> Vec<String> {
        let name = old.is_none().then(|| workload::name_warning(new)).flatten();
        name.into_iter()
            .chain(workload::template_warnings(new, old, &TEMPLATE))
            .collect()
    }

    fn cells(&self, set: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let [names, images] = workload::container_cells(set.at(&TEMPLATE));
        Some(vec![
            meta::name(set).into(),
            Value::Int(number(set, &["spec", "replicas"])),
            Value::Int(number(set, &["status", "replicas"])),
            Value::Int(number(set, &["status", "readyReplicas"])),
            age(set, now).into(),
            names,
            images,
            printing::label_selector(set.at(&["spec", "selector"])).into(),
        ])
    }
}

impl Strategy for Status {
    fn default(&self, set: &mut Value) {
        ReplicaSets.default(set);
    }

    fn validate_update(&self, _cx: &Context, new: &Value, _old: &Value, errors: &mut ErrorList) {
        const COUNTS: [&str; 6] = [
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
            "terminatingReplicas",
        ];
        check(new, errors, |c| {
            let bounded = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
            workload::counts(c.field("status"), &COUNTS, &bounded, "readyReplicas");
        });
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }
}

fn spec(c: Cursor<'_>, options: &PodOptions) {
    rules::nonnegative(c.field("replicas"));
    rules::nonnegative(c.field("minReadySeconds"));
    workload::required_selector(c, "deployment");
    if workload::usable_selector(c, "invalid label selector") {
        workload::replica_set_template(c, options);
    }
}
