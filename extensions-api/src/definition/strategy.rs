//! The strategy of CRDs: defaults, status kept from clients, stored versions, deletion that waits for the objects.

use std::sync::Arc;

use jiff::Timestamp;
use triptych_object::field::{ErrorList, quote};
use triptych_object::{Value, meta, time};
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::strategy::{Context, Strategy};
use triptych_schema::types::Schema;

use super::conditions::Condition;
use super::{CLEANUP_FINALIZER, validation, warnings};

/// `customresourcedefinitions`, and their status.
pub struct Definitions {
    /// The types that schemas of CRDs stand on.
    pub base: Arc<Schema>,
}

/// The version in which objects are to be stored.
fn storage_version(crd: &Value) -> Option<&str> {
    let versions = crd.array_at(&["spec", "versions"]).iter();
    let mut stored = versions.filter(|v| v.get("storage").and_then(Value::as_bool) == Some(true));
    stored.next().map(|v| v.str_at(&["name"]))
}

/// Notes the version in which objects will be stored from now on.
fn note_stored_version(crd: &mut Value) {
    let path = ["status", "storedVersions"];
    let Some(version) = storage_version(crd).map(str::to_owned) else {
        return;
    };
    let mut stored = crd.array_at(&path).to_vec();
    if !stored.iter().any(|v| v.as_str() == Some(&version)) {
        stored.push(version.into());
        crd.set_at(&path, Value::Array(stored));
    }
}

impl Strategy for Definitions {
    /// Of the status there are none.
    fn shows_tables(&self) -> bool {
        false
    }

    fn default(&self, crd: &mut Value) {
        let kind = crd.str_at(&["spec", "names", "kind"]).to_owned();
        if !kind.is_empty() {
            if crd.str_at(&["spec", "names", "singular"]).is_empty() {
                crd.set_at(&["spec", "names", "singular"], kind.to_lowercase().into());
            }
            if crd.str_at(&["spec", "names", "listKind"]).is_empty() {
                crd.set_at(&["spec", "names", "listKind"], format!("{kind}List").into());
            }
        }
        if crd.array_at(&["status", "storedVersions"]).is_empty()
            && let Some(version) = storage_version(crd).map(str::to_owned)
        {
            crd.set_at(&["status", "storedVersions"], Value::from(vec![version]));
        }
    }

    fn prepare_create(&self, _cx: &Context, crd: &mut Value) {
        let names = Value::from([("plural", "".into()), ("kind", "".into())]);
        let status = Value::from([
            ("conditions", Value::Null),
            ("acceptedNames", names),
            ("storedVersions", Value::Null),
        ]);
        crd.set_at(&["status"], status);
        note_stored_version(crd);
    }

    fn prepare_update(&self, cx: &Context, crd: &mut Value, _old: &Value) {
        if cx.subresource.is_empty() {
            note_stored_version(crd);
        }
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }

    fn standard_finalizers(&self) -> bool {
        false
    }

    fn mark_deleting(&self, crd: &mut Value, now: Timestamp) -> bool {
        // once marked, it is deleted as any other kind
        if meta::deletion_timestamp(crd).is_some() {
            return false;
        }
        meta::set_text(crd, "deletionTimestamp", time::rfc3339(now));
        let mut finalizers: Vec<String> = meta::finalizers(crd).map(str::to_owned).collect();
        if !finalizers.iter().any(|f| f == CLEANUP_FINALIZER) {
            finalizers.push(CLEANUP_FINALIZER.to_owned());
        }
        meta::set_finalizers(crd, finalizers);
        let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
        Condition::new("Terminating", true, "InstanceDeletionPending", message).set(crd, now);
        true
    }

    fn precondition_failed(&self, what: &str, wanted: &str, have: &str) -> Option<String> {
        Some(format!(
            "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {have}"
        ))
    }

    fn cells(&self, crd: &Value, _now: Timestamp) -> Option<Vec<Value>> {
        Some(vec![
            meta::name(crd).into(),
            meta::text(crd, "creationTimestamp").into(),
        ])
    }

    fn validate_create(&self, _cx: &Context, crd: &Value, errors: &mut ErrorList) {
        validation::create(crd, &self.base, errors);
    }

    fn validate_update(&self, cx: &Context, crd: &Value, old: &Value, errors: &mut ErrorList) {
        if cx.subresource.is_empty() {
            validation::update(crd, old, &self.base, errors);
        } else {
            validation::status(crd, errors);
        }
    }

    fn warnings(&self, cx: &Context, crd: &Value, old: Option<&Value>) -> Vec<String> {
        if !cx.subresource.is_empty() {
            return Vec::new();
        }
        let known = old.map(warnings::unrecognized_formats).unwrap_or_default();
        let found = warnings::unrecognized_formats(crd).into_iter();
        let new = found.filter(|format| !known.contains(format));
        new.map(|format| format!("unrecognized format {}", quote(&format)))
            .collect()
    }
}
