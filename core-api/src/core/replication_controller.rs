//! ReplicationController.

use jiff::Timestamp;
use triptych_object::field::{Error, ErrorKind, ErrorList, quote};
use triptych_object::value::Object;
use triptych_object::{Value, meta};
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::{Context, Strategy};

use crate::apps::workload::{self, TEMPLATE};
use crate::validation::label_selector::map_matches;
use crate::validation::pod_options::PodOptions;
use crate::validation::pod_template::{always_restarts, matches_selector, pod_template};
use crate::validation::{Cursor, check, names as rules};
use crate::{defaults, printing};

/// The strategy of `replicationcontrollers`.
pub struct ReplicationControllers;

/// The strategy of `replicationcontrollers/status`.
pub struct Status;

impl Strategy for ReplicationControllers {
    fn default(&self, controller: &mut Value) {
        defaults::pod_template(controller.at_mut(&TEMPLATE));
        let Some(labels) = controller.at(&["spec", "template", "metadata", "labels"]).cloned() else {
            return;
        };
        for path in [&["spec", "selector"], &["metadata", "labels"]] {
            let have = controller.at(path).and_then(Value::as_object);
            if have.is_none_or(Object::is_empty) {
                controller.set_at(path, labels.clone());
            }
        }
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |c| spec(c.field("spec"), &PodOptions::new(false)));
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |c| {
            spec(c.field("spec"), &workload::options(Some(old), &TEMPLATE));
            not_convertible(c, old);
        });
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }

    fn warnings(&self, _cx: &Context, new: &Value, old: Option<&Value>) -> Vec<String> {
        let Some(old) = old else {
            let name = workload::name_warning(new).into_iter();
            return name.chain(workload::template_warnings(new, None, &TEMPLATE)).collect();
        };
        if meta::generation(old) == meta::generation(new) {
            return Vec::new();
        }
        // kube-apiserver looks at the template that was
        workload::template_warnings(old, None, &TEMPLATE)
    }

    fn cells(&self, controller: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let selector = printing::labels(controller.at(&["spec", "selector"]));
        Some(workload::replica_cells(controller, selector, now))
    }
}

impl Strategy for Status {
    fn default(&self, controller: &mut Value) {
        ReplicationControllers.default(controller);
    }

    fn validate_update(&self, _cx: &Context, new: &Value, _old: &Value, errors: &mut ErrorList) {
        check(new, errors, |c| workload::replica_counts(c.field("status")));
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }
}

fn spec(c: Cursor<'_>, options: &PodOptions) {
    let (selector, replicas, template) = (c.field("selector"), c.field("replicas"), c.field("template"));
    rules::nonnegative(c.field("minReadySeconds"));
    if selector.is_empty() {
        selector.required("");
    }
    if replicas.exists() {
        rules::nonnegative(replicas);
    } else {
        replicas.required("");
    }
    if !template.exists() {
        template.required("");
        return;
    }
    let labels = template
        .field("metadata")
        .field("labels")
        .value()
        .and_then(Value::as_object);
    matches_selector(template, map_matches(selector.value(), labels));
    pod_template(template, options);
    always_restarts(template, "ReplicationController");
}

/// Selectors that another version could not express stay as they are.
fn not_convertible(c: Cursor<'_>, old: &Value) {
    const PREFIX: &str = "non-convertible.kubernetes.io";
    let annotations = old.at(&["metadata", "annotations"]).and_then(Value::as_object);
    for (key, value) in annotations.into_iter().flat_map(Object::iter) {
        let Some((domain, field)) = key.split_once('/').filter(|(_, field)| !field.contains('/')) else {
            continue;
        };
        if !domain.starts_with(PREFIX) {
            continue;
        }
        let selector = c.field("spec").field("selector");
        if !field.contains("selector") {
            c.push(Error {
                kind: ErrorKind::NotFound,
                field: field.to_owned(),
                shown: Some(quote(value.as_str().unwrap_or(""))),
                detail: "unknown non-convertible field".into(),
            });
        } else if selector.value() != old.at(&["spec", "selector"]) {
            selector.invalid(selector.shown(), "cannot update non-convertible selector");
        }
    }
}
