//! Deployment.

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{Value, meta};
use triptych_registry::age::age;
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::{Context, Strategy};

use super::workload::{self, TEMPLATE, number};
use crate::validation::pod_options::PodOptions;
use crate::validation::{Cursor, check, int_or_percent, names as rules};
use crate::{defaults, printing};

/// The strategy of `deployments`.
pub struct Deployments;

/// The strategy of `deployments/status`.
pub struct Status;

impl Strategy for Deployments {
    fn default(&self, deployment: &mut Value) {
        defaults::pod_template(deployment.at_mut(&TEMPLATE));
        let strategy = ["spec", "strategy"];
        if deployment.at(&["spec", "strategy", "type"]).and_then(Value::as_str) != Some("RollingUpdate") {
            return;
        }
        for member in ["maxUnavailable", "maxSurge"] {
            let path = [strategy[0], strategy[1], "rollingUpdate", member];
            if deployment.at(&path).is_none() {
                deployment.set_at(&path, "25%".into());
            }
        }
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

    fn cells(&self, deployment: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let status = |member| number(deployment, &["status", member]);
        let ready = format!(
            "{}/{}",
            status("readyReplicas"),
            number(deployment, &["spec", "replicas"])
        );
        let [names, images] = workload::container_cells(deployment.at(&TEMPLATE));
        Some(vec![
            meta::name(deployment).into(),
            ready.into(),
            Value::Int(status("updatedReplicas")),
            Value::Int(status("availableReplicas")),
            age(deployment, now).into(),
            names,
            images,
            printing::deployment_selector(deployment.at(&["spec", "selector"])).into(),
        ])
    }
}

impl Strategy for Status {
    fn default(&self, deployment: &mut Value) {
        Deployments.default(deployment);
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        const COUNTS: [&str; 8] = [
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ];
        check(new, errors, |c| {
            let status = c.field("status");
            let bounded = ["updatedReplicas", "readyReplicas", "availableReplicas"];
            workload::counts(status, &COUNTS, &bounded, "readyReplicas");
            workload::collision_count(status, old);
        });
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }
}

fn spec(c: Cursor<'_>, options: &PodOptions) {
    rules::nonnegative(c.field("replicas"));
    workload::required_selector(c, "deployment");
    if workload::usable_selector(c, "invalid label selector") {
        workload::replica_set_template(c, options);
    }
    strategy(c.field("strategy"));
    let min_ready = c.field("minReadySeconds");
    rules::nonnegative(min_ready);
    rules::nonnegative(c.field("revisionHistoryLimit"));
    if let Some(deadline) = c.given("progressDeadlineSeconds") {
        rules::nonnegative(deadline);
        if deadline.int() <= min_ready.int() {
            deadline.invalid(deadline.int(), "must be greater than minReadySeconds");
        }
    }
}

fn strategy(c: Cursor<'_>) {
    const TYPES: [&str; 2] = ["Recreate", "RollingUpdate"];
    let rolling = c.field("rollingUpdate");
    match c.str_of("type") {
        "Recreate" => {
            if rolling.exists() {
                rolling.forbidden("may not be specified when strategy `type` is 'Recreate'");
            }
        }
        "RollingUpdate" if !rolling.exists() => rolling.required("this should be defaulted and never be nil"),
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
            int_or_percent::positive(unavailable);
            int_or_percent::positive(surge);
            if int_or_percent::amount(unavailable.value()) == 0 && int_or_percent::amount(surge.value()) == 0 {
                unavailable.invalid(unavailable.shown(), "may not be 0 when `maxSurge` is 0");
            }
            int_or_percent::at_most_all(unavailable);
        }
        _ => c.push(triptych_object::field::Error::not_supported(
            c.path(),
            c.go_struct(),
            &TYPES,
        )),
    }
}
