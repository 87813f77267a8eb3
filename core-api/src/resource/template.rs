//! ResourceClaimTemplate: what claims are made from, one for each pod.

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{Value, meta};
use triptych_registry::age::age;
use triptych_registry::strategy::{Context, Strategy};

use super::claim::Namespaces;
use super::defaults;
use super::requests::{admin_request, device_claim};
use crate::validation::volume_claim::template_metadata;
use crate::validation::{Cursor, check};

/// The strategy of `resourceclaimtemplates`.
pub struct Templates(pub Namespaces);

impl Strategy for Templates {
    fn default(&self, template: &mut Value) {
        defaults::requests(template.at_mut(&["spec", "spec", "devices"]));
    }

    fn validate_create(&self, cx: &Context, new: &Value, errors: &mut ErrorList) {
        if let Some(i) = admin_request(new.at(&["spec", "spec", "devices"])) {
            // kube-apiserver names the field as if this were a claim
            let path = format!("spec.devices.requests[{i}].adminAccess");
            self.0.check_admin_access(&cx.namespace, path, errors);
        }
        check(new, errors, whole);
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        // what cannot change is not looked at again
        check(new, errors, |template| {
            let spec = template.field("spec");
            if spec.value() != old.get("spec") {
                spec.invalid(spec.go_struct(), "field is immutable");
            }
        });
    }

    fn cells(&self, template: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(vec![meta::name(template).into(), age(template, now).into()])
    }
}

fn whole(template: Cursor<'_>) {
    template_metadata(template.field("spec").field("metadata"));
    device_claim(template.field("spec").field("spec").field("devices"));
}
