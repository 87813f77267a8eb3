//! ReplicaSet.

use jiff::Timestamp;
use triptych_object::Value;
use triptych_object::field::ErrorList;
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::{Context, Strategy};

use super::workload::{self, TEMPLATE};
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
        let selector = printing::label_selector(set.at(&["spec", "selector"]));
        Some(workload::replica_cells(set, selector, now))
    }
}

impl Strategy for Status {
    fn default(&self, set: &mut Value) {
        ReplicaSets.default(set);
    }

    fn validate_update(&self, _cx: &Context, new: &Value, _old: &Value, errors: &mut ErrorList) {
        check(new, errors, |c| {
            workload::replica_counts(c.field("status"));
            rules::nonnegative(c.field("status").field("terminatingReplicas"));
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
