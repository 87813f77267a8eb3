//! PodDisruptionBudget.

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{Value, meta};
use triptych_registry::age::age;
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::{Context, Strategy};

use crate::apps::workload::{number, selector_is_valid};
use crate::validation::conditions::conditions;
use crate::validation::label_selector::{Lenience, label_selector};
use crate::validation::{Cursor, check, int_or_percent, names as rules};

/// The strategy of `poddisruptionbudgets`.
pub struct DisruptionBudgets;

/// The strategy of `poddisruptionbudgets/status`.
pub struct Status;

impl Strategy for DisruptionBudgets {
    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |c| spec(c.field("spec"), Lenience::default()));
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        let invalid_values = !selector_is_valid(old.at(&["spec", "selector"]));
        check(new, errors, |c| spec(c.field("spec"), Lenience { invalid_values }));
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::None
    }

    fn meta_checks_on_create(&self) -> bool {
        false
    }

    fn standard_finalizers(&self) -> bool {
        false
    }

    fn cells(&self, budget: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let limit = |member| match budget.at(&["spec", member]) {
            None => "N/A".into(),
            Some(Value::Int(n)) => n.to_string().into(),
            Some(other) => other.clone(),
        };
        Some(vec![
            meta::name(budget).into(),
            limit("minAvailable"),
            limit("maxUnavailable"),
            Value::Int(number(budget, &["status", "disruptionsAllowed"])),
            age(budget, now).into(),
        ])
    }
}

impl Strategy for Status {
    fn validate_update(&self, cx: &Context, new: &Value, _old: &Value, errors: &mut ErrorList) {
        check(new, errors, |c| {
            let status = c.field("status");
            conditions(status.field("conditions"));
            if cx.version == "v1beta1" {
                return;
            }
            for count in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
                rules::nonnegative(status.field(count));
            }
        });
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::None
    }

    fn standard_finalizers(&self) -> bool {
        false
    }
}

fn spec(c: Cursor<'_>, lenience: Lenience) {
    let (available, unavailable) = (c.field("minAvailable"), c.field("maxUnavailable"));
    if available.exists() && unavailable.exists() {
        c.invalid(c.go_struct(), "minAvailable and maxUnavailable cannot be both set");
    }
    for c in [available, unavailable].into_iter().filter(|c| c.exists()) {
        int_or_percent::positive(c);
        int_or_percent::at_most_all(c);
    }
    label_selector(c.field("selector"), lenience);
    rules::optional_one_of(
        c.field("unhealthyPodEvictionPolicy"),
        &["AlwaysAllow", "IfHealthyBudget"],
    );
}
