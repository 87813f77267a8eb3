//! IPAddress: an address that something (a service) holds; its name is the address.

use jiff::Timestamp;
use triptych_object::field::{Error, ErrorList};
use triptych_object::{Value, meta, names};
use triptych_registry::age::age;
use triptych_registry::strategy::{Context, Strategy};

use super::ingress::required_segment;
use crate::validation::{Cursor, check};

/// The strategy of `ipaddresses`.
pub struct IpAddresses;

impl Strategy for IpAddresses {
    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, whole);
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |address| {
            whole(address);
            let parent = address.field("spec").field("parentRef");
            if parent.value() != old.at(&["spec", "parentRef"]) {
                parent.invalid(parent.go_struct(), "field is immutable");
            }
        });
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let parent = object.at(&["spec", "parentRef"]).map(|parent| {
            let text = |member: &str| parent.str_at(&[member]);
            let mut shown = text("resource").to_lowercase();
            if !text("group").is_empty() {
                shown = format!("{shown}.{}", text("group").to_lowercase());
            }
            if !text("namespace").is_empty() {
                shown = format!("{shown}/{}", text("namespace"));
            }
            format!("{shown}/{}", text("name"))
        });
        Some(vec![
            meta::name(object).into(),
            parent.unwrap_or_else(|| "<none>".to_owned()).into(),
            age(object, now).into(),
        ])
    }
}

fn whole(address: Cursor<'_>) {
    let name = meta::name(address.root());
    if !name.is_empty() {
        for message in names::ip(name) {
            address.push(Error::invalid("metadata.name", name, message));
        }
    }
    let spec = address.field("spec");
    let Some(parent) = spec.given("parentRef") else {
        spec.field("parentRef").required("");
        return;
    };
    let (group, namespace) = (parent.field("group"), parent.field("namespace"));
    if !group.is_empty() {
        group.invalid_text(names::dns1123_subdomain(group.str()));
    }
    required_segment(parent.field("resource"));
    required_segment(parent.field("name"));
    if !namespace.is_empty() {
        namespace.invalid_text(names::path_segment_name(namespace.str()));
    }
}
