//! Namespace: its phase, and the finalizers in `spec` that the namespace controller removes through `finalize` when it
//! is empty.
//!
//! Contract: a delete only marks a namespace (phase `Terminating`); it goes when both `spec.finalizers` and
//! `metadata.finalizers` are empty, whichever update empties them.

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{Value, meta, names, time};
use triptych_registry::age::age;
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::strategy::{Context, Strategy};

use crate::validation::{Cursor, check};

const FINALIZERS: [&str; 2] = ["spec", "finalizers"];
const KUBERNETES: &str = "kubernetes";
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The strategy of `namespaces`.
pub struct Namespaces;

/// The strategy of `namespaces/status`.
pub struct Status;

/// The strategy of `namespaces/finalize`.
pub struct Finalize;

fn set_name_label(namespace: &mut Value) {
    let name = meta::name(namespace).to_owned();
    if !name.is_empty() {
        meta::set_label(namespace, NAME_LABEL, &name);
    }
}

fn held_by_finalizers(namespace: &Value) -> bool {
    !namespace.array_at(&FINALIZERS).is_empty()
}

impl Strategy for Namespaces {
    fn default(&self, object: &mut Value) {
        set_name_label(object);
    }

    fn prepare_create(&self, _cx: &Context, new: &mut Value) {
        new.set_at(&["status"], Value::from([("phase", "Active".into())]));
        let mut finalizers = new.array_at(&FINALIZERS).to_vec();
        if !finalizers.iter().any(|f| f.as_str() == Some(KUBERNETES)) {
            finalizers.push(KUBERNETES.into());
            new.set_at(&FINALIZERS, finalizers.into());
        }
        // a generated name is known only now
        set_name_label(new);
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |namespace| {
            let finalizers = namespace.field("spec").field("finalizers");
            for item in finalizers.items() {
                finalizer(finalizers, item.str());
            }
        });
    }

    fn prepare_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        match old.at(&FINALIZERS) {
            Some(finalizers) => new.set_at(&FINALIZERS, finalizers.clone()),
            None => drop(new.remove_at(&FINALIZERS)),
        }
    }

    fn validate_update(&self, cx: &Context, new: &Value, _old: &Value, errors: &mut ErrorList) {
        self.validate_create(cx, new, errors);
    }

    fn holds_deletion(&self, object: &Value) -> bool {
        held_by_finalizers(object)
    }

    fn mark_deleting(&self, object: &mut Value, now: Timestamp) -> bool {
        if meta::deletion_timestamp(object).is_none() {
            meta::set_text(object, "deletionTimestamp", time::rfc3339(now));
        }
        object.set_at(&["status", "phase"], "Terminating".into());
        true
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(vec![
            meta::name(object).into(),
            object.str_at(&["status", "phase"]).into(),
            age(object, now).into(),
        ])
    }
}

impl Strategy for Status {
    fn validate_update(&self, _cx: &Context, new: &Value, _old: &Value, errors: &mut ErrorList) {
        let deleting = meta::deletion_timestamp(new).is_some();
        let phase = new.str_at(&["status", "phase"]);
        let detail = match (deleting, phase) {
            (false, "Active") | (true, "Terminating") => return,
            (false, _) => "may only be 'Active' if `deletionTimestamp` is empty",
            (true, _) => "may only be 'Terminating' if `deletionTimestamp` is not empty",
        };
        errors.push(triptych_object::field::Error::invalid("status.Phase", phase, detail));
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }

    fn holds_deletion(&self, object: &Value) -> bool {
        held_by_finalizers(object)
    }
}

impl Strategy for Finalize {
    fn shows_tables(&self) -> bool {
        false
    }

    fn validate_update(&self, _cx: &Context, new: &Value, _old: &Value, errors: &mut ErrorList) {
        check(new, errors, |namespace| {
            for item in namespace.field("spec").field("finalizers").items() {
                finalizer(item, item.str());
            }
        });
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }

    fn holds_deletion(&self, object: &Value) -> bool {
        held_by_finalizers(object)
    }
}

/// A finalizer of a namespace: a qualified name, and without a domain a standard one.
fn finalizer(at: Cursor<'_>, name: &str) {
    for message in names::qualified_name(name) {
        at.invalid(name, message);
    }
    if !name.contains('/') && !matches!(name, KUBERNETES | "orphan" | "foregroundDeletion") {
        at.invalid(
            name,
            "name is neither a standard finalizer name nor is it fully qualified",
        );
    }
}
