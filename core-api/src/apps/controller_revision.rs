//! ControllerRevision.

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{Value, meta};
use triptych_registry::age::age;
use triptych_registry::{Context, Strategy};

use super::workload::{immutable, number};
use crate::validation::{check, names as rules};

/// The strategy of `controllerrevisions`.
pub struct ControllerRevisions;

impl Strategy for ControllerRevisions {
    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |c| {
            rules::nonnegative(c.field("revision"));
            match c.field("data").value() {
                None => c.field("data").required("data is mandatory"),
                Some(Value::Object(_)) => {}
                Some(_) => c.field("data").required("data must be a valid JSON object"),
            }
        });
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |c| {
            rules::nonnegative(c.field("revision"));
            immutable(c.field("data"), old.get("data"));
        });
    }

    fn cells(&self, revision: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let owners = revision.array_at(&["metadata", "ownerReferences"]).iter();
        let mut controllers = owners.filter(|o| o.get("controller").and_then(Value::as_bool) == Some(true));
        let controller = controllers.next().map_or("<none>".to_owned(), |owner| {
            let gvk = meta::gvk(owner);
            let kind = gvk.kind.to_lowercase();
            let group = if gvk.group.is_empty() {
                String::new()
            } else {
                format!(".{}", gvk.group)
            };
            format!("{kind}{group}/{}", owner.str_at(&["name"]))
        });
        Some(vec![
            meta::name(revision).into(),
            controller.into(),
            Value::Int(number(revision, &["revision"])),
            age(revision, now).into(),
        ])
    }
}
