//! Every kind of this tier that has code of its own.

use std::sync::{Arc, OnceLock};

pub use triptych_registry::kinds::Kinds;

use crate::access::Access;
use crate::context::Context;
use crate::loopback::Loopback;

/// Field labels and indexes: what must be known before any collection is opened.
pub fn fields() -> Kinds {
    let mut kinds = Kinds::new();
    kinds.field("", "pods", "spec.host", &["spec.nodeName"]);
    kinds.index("", "pods", "spec.nodeName");
    kinds.index("", "pods", "spec.host");
    kinds.field("batch", "jobs", "status.successful", &["status.succeeded"]);
    kinds.field("", "events", "source", &["source.component", "reportingComponent"]);
    kinds.field("", "events", "regarding.apiVersion", &["involvedObject.apiVersion"]);
    kinds.field("", "events", "regarding.fieldPath", &["involvedObject.fieldPath"]);
    kinds.field("", "events", "regarding.kind", &["involvedObject.kind"]);
    kinds.field("", "events", "regarding.name", &["involvedObject.name"]);
    kinds.field("", "events", "regarding.namespace", &["involvedObject.namespace"]);
    kinds.field(
        "",
        "events",
        "regarding.resourceVersion",
        &["involvedObject.resourceVersion"],
    );
    kinds.field("", "events", "regarding.uid", &["involvedObject.uid"]);
    kinds.field("", "events", "reportingController", &["reportingComponent"]);
    kinds
}

/// Registers all code, group by group; `access` answers reviews and guards roles, and `loopback` is set when there are
/// endpoints.
pub fn all(access: &Access, context: &Context, loopback: &Arc<OnceLock<Loopback>>) -> Kinds {
    let mut kinds = Kinds::new();
    crate::authentication::register(&mut kinds, access);
    crate::authorization::register(&mut kinds, access);
    crate::admissionregistration::register(&mut kinds, access, context);
    crate::apps::register(&mut kinds);
    crate::autoscaling::register(&mut kinds);
    crate::batch::register(&mut kinds);
    crate::certificates::register(&mut kinds);
    crate::coordination::register(&mut kinds);
    crate::core::register(&mut kinds, context);
    crate::rbac::register(&mut kinds, &access.escalation_check());
    crate::discovery::register(&mut kinds);
    crate::events::register(&mut kinds);
    crate::flowcontrol::register(&mut kinds);
    crate::networking::register(&mut kinds);
    crate::node::register(&mut kinds);
    crate::policy::register(&mut kinds);
    crate::resource::register(&mut kinds, context);
    crate::scheduling::register(&mut kinds);
    crate::storage::register(&mut kinds);
    crate::core::pod::register_late(&mut kinds, context, loopback);
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_registered_is_in_the_schema_texts() {
        let table = crate::schema::load().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(
            all(&Access::default(), &Context::default(), &Arc::default()).unknown(&table),
            Vec::<String>::new()
        );
    }
}
