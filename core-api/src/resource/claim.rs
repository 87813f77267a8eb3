//! ResourceClaim: devices that a pod wants, and has once they are allocated.

use jiff::Timestamp;
use triptych_object::field::{Error, ErrorList};
use triptych_object::{Value, meta};
use triptych_registry::age::age;
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::strategy::{Context, Strategy};

use super::requests::{admin_request, device_claim};
use super::{allocation, defaults};
use crate::validation::check;

const ADMIN_LABEL: &str = "resource.kubernetes.io/admin-access";

/// Says which namespaces may have access to devices as administrators.
#[derive(Clone)]
pub struct Namespaces(pub crate::context::Context);

impl Namespaces {
    /// Reports at `path` if a namespace may not.
    pub fn check_admin_access(&self, namespace: &str, path: String, errors: &mut ErrorList) {
        if !self.permits_admin_access(namespace) {
            let detail =
                format!("admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace");
            errors.push(Error::forbidden(path, detail));
        }
    }

    fn permits_admin_access(&self, namespace: &str) -> bool {
        let found = self.0.collection("", "namespaces").and_then(|collection| {
            let key = collection.key("", namespace).ok()?;
            collection.cache.get(&key).ok().flatten()
        });
        found
            .filter(|object| object.broken().is_none())
            .and_then(|object| triptych_object::json::from_slice(object.bytes()).ok())
            .is_some_and(|object| meta::label(&object, ADMIN_LABEL) == Some("true"))
    }
}

/// The strategy of `resourceclaims`.
pub struct Claims(pub Namespaces);

/// The strategy of `resourceclaims/status`.
pub struct Status(pub Namespaces);

impl Strategy for Claims {
    fn default(&self, claim: &mut Value) {
        defaults::requests(claim.at_mut(&["spec", "devices"]));
    }

    fn validate_create(&self, cx: &Context, new: &Value, errors: &mut ErrorList) {
        if let Some(i) = admin_request(new.at(&["spec", "devices"])) {
            let path = format!("spec.devices.requests[{i}].adminAccess");
            self.0.check_admin_access(&cx.namespace, path, errors);
        }
        check(new, errors, |claim| device_claim(claim.field("spec").field("devices")));
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |claim| {
            let spec = claim.field("spec");
            if spec.value() != old.get("spec") {
                spec.invalid(spec.go_struct(), "field is immutable");
            }
        });
    }

    fn cells(&self, claim: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let deleting = meta::deletion_timestamp(claim).is_some();
        let allocated = claim.at(&["status", "allocation"]).is_some();
        let mut states = Vec::new();
        if deleting {
            states.push("deleted");
        }
        if !allocated && !deleting {
            states.push("pending");
        }
        if allocated {
            states.push("allocated");
            if !claim.array_at(&["status", "reservedFor"]).is_empty() {
                states.push("reserved");
            }
        }
        Some(vec![
            meta::name(claim).into(),
            states.join(",").into(),
            age(claim, now).into(),
        ])
    }
}

impl Strategy for Status {
    fn default(&self, claim: &mut Value) {
        defaults::requests(claim.at_mut(&["spec", "devices"]));
    }

    fn prepare_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        allocation::drop_deallocated(new, old);
    }

    fn validate_update(&self, cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        if allocation::admin_result(old).is_none()
            && let Some(i) = allocation::admin_result(new)
        {
            let path = format!("status.allocation.devices.results[{i}].adminAccess");
            self.0.check_admin_access(&cx.namespace, path, errors);
        }
        check(new, errors, |claim| allocation::status(claim, old));
    }

    fn shows_tables(&self) -> bool {
        false
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }
}
