//! Resources whose objects this tier could store but does not act on yet: creating one is refused unless
//! `--allow-unenforced` names it, so that nobody believes himself protected by an object that does nothing.

use futures_util::future::BoxFuture;
use triptych_admission::Plugin;
use triptych_admission::chain::forbidden;
use triptych_object::{Gvr, StatusResult, Value};
use triptych_registry::admission::{Attributes, Operation, Warnings};

/// What `--allow-unenforced` may name here.
pub const UNENFORCED: &[&str] = &[
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
];

/// Refuses what is neither enforced nor allowed.
pub struct Unenforced {
    /// What the flag allows.
    pub allowed: std::collections::BTreeSet<String>,
}

impl Plugin for Unenforced {
    fn name(&self) -> &'static str {
        "Unenforced"
    }

    fn concerns(&self, operation: Operation, resource: &Gvr) -> bool {
        operation == Operation::Create
            && UNENFORCED.contains(&resource.resource.as_str())
            && !self.allowed.contains(&resource.resource)
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
        _old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        let resource = &attributes.resource.resource;
        let why = format!(
            "this server does not act on {resource} yet; start core-api with --allow-unenforced={resource} to store them all the same"
        );
        let refusal = forbidden(attributes, object.as_deref(), why);
        Box::pin(std::future::ready(Err(refusal)))
    }
}
