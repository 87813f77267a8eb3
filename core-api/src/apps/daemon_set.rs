//! DaemonSet. The generation of its template is kept in an annotation.

use jiff::Timestamp;
use triptych_object::field::{Error, ErrorList};
use triptych_object::{Value, meta};
use triptych_registry::age::age;
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::{Context, Strategy};

use super::workload::{self, TEMPLATE, number};
use crate::validation::label_selector::{self, Lenience, label_selector};
use crate::validation::pod_options::PodOptions;
use crate::validation::pod_template::{always_restarts, matches_selector, pod_template, selects_template};
use crate::validation::{Cursor, check, int_or_percent, names as rules};
use crate::{defaults, printing};

/// Holds what was `spec.templateGeneration` before apps/v1.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// The strategy of `daemonsets`.
pub struct DaemonSets;

/// The strategy of `daemonsets/status`.
pub struct Status;

fn template_generation(set: &Value) -> i64 {
    meta::annotation(set, TEMPLATE_GENERATION)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

fn set_template_generation(set: &mut Value, generation: i64) {
    meta::set_annotation(set, TEMPLATE_GENERATION, &generation.to_string());
}

impl Strategy for DaemonSets {
    fn default(&self, set: &mut Value) {
        defaults::pod_template(set.at_mut(&TEMPLATE));
        set_template_generation(set, template_generation(set));
        if set.str_at(&["spec", "updateStrategy", "type"]) != "RollingUpdate" {
            return;
        }
        for (member, number) in [("maxUnavailable", 1), ("maxSurge", 0)] {
            let path = ["spec", "updateStrategy", "rollingUpdate", member];
            if set.at(&path).is_none() {
                set.set_at(&path, Value::Int(number));
            }
        }
    }

    fn prepare_create(&self, _cx: &Context, new: &mut Value) {
        let generation = template_generation(new).max(1);
        set_template_generation(new, generation);
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |c| {
            spec(c.field("spec"), &PodOptions::new(false), Lenience::default())
        });
    }

    fn prepare_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        let changed = new.at(&TEMPLATE) != old.at(&TEMPLATE);
        set_template_generation(new, template_generation(old) + i64::from(changed));
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |c| {
            let options = workload::options(Some(old), &TEMPLATE);
            let invalid_values = options.affinity.selector_values || has_invalid_values(old);
            workload::immutable_selector(c, old);
            spec(c.field("spec"), &options, Lenience { invalid_values });
        });
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }

    fn warnings(&self, _cx: &Context, new: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some_and(|old| template_generation(old) == template_generation(new)) {
            return Vec::new();
        }
        workload::template_warnings(new, None, &TEMPLATE)
    }

    fn internal_annotations(&self) -> &'static [&'static str] {
        &[TEMPLATE_GENERATION]
    }

    fn cells(&self, set: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let mut cells: Vec<Value> = vec![meta::name(set).into()];
        let counts = [
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberReady",
            "updatedNumberScheduled",
            "numberAvailable",
        ];
        cells.extend(counts.map(|count| Value::Int(number(set, &["status", count]))));
        cells.push(printing::labels(set.at(&["spec", "template", "spec", "nodeSelector"])).into());
        cells.push(age(set, now).into());
        cells.extend(workload::container_cells(set.at(&TEMPLATE)));
        cells.push(printing::label_selector(set.at(&["spec", "selector"])).into());
        Some(cells)
    }
}

impl Strategy for Status {
    fn default(&self, set: &mut Value) {
        DaemonSets.default(set);
    }

    fn prepare_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        set_template_generation(new, template_generation(old));
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        const COUNTS: [&str; 9] = [
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ];
        check(new, errors, |c| {
            let status = c.field("status");
            COUNTS.iter().for_each(|count| rules::nonnegative(status.field(count)));
            workload::collision_count(status, old);
        });
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }
}

fn has_invalid_values(old: &Value) -> bool {
    let expressions = old.array_at(&["spec", "selector", "matchExpressions"]).iter();
    let mut values = expressions
        .flat_map(|e| e.array_at(&["values"]))
        .filter_map(Value::as_str);
    values.any(|value| !triptych_object::names::label_value(value).is_empty())
}

fn spec(c: Cursor<'_>, options: &PodOptions, lenience: Lenience) {
    let (selector, template) = (c.field("selector"), c.field("template"));
    label_selector(selector, lenience);
    if workload::selector_is_valid(selector.value()) {
        matches_selector(template, selects_template(selector.value(), template.value()));
    }
    if label_selector::is_empty(selector.value()) {
        selector.invalid(selector.shown(), "empty selector is invalid for daemonset");
    }
    pod_template(template, options);
    always_restarts(template, "DaemonSet");
    rules::nonnegative(c.field("minReadySeconds"));
    update_strategy(c.field("updateStrategy"));
    rules::nonnegative(c.field("revisionHistoryLimit"));
}

fn update_strategy(c: Cursor<'_>) {
    let rolling = c.field("rollingUpdate");
    match c.str_of("type") {
        "OnDelete" => {}
        "RollingUpdate" if !rolling.exists() => rolling.required(""),
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
            for c in [unavailable, surge] {
                int_or_percent::positive(c);
                int_or_percent::at_most_all(c);
            }
            let some = |c: Cursor<'_>| int_or_percent::amount(c.value()) != 0;
            match (some(unavailable), some(surge)) {
                (true, true) => surge.invalid(surge.shown(), "may not be set when maxUnavailable is non-zero"),
                (false, false) => unavailable.required("cannot be 0 when maxSurge is 0"),
                _ => {}
            }
        }
        _ => c.push(Error::not_supported(
            c.path(),
            c.go_struct(),
            &["RollingUpdate", "OnDelete"],
        )),
    }
}
