//! `admissionregistration.k8s.io`: webhooks and policies that admit requests, and what policies are bound to.

mod binding;
mod matching;
mod param_access;
mod policy;
mod rules;
mod webhook_configuration;

use triptych_object::{Value, meta};

use self::param_access::ParamAccess;
use crate::access::Access;
use crate::context::Context;
use crate::kinds::Kinds;

const GROUP: &str = "admissionregistration.k8s.io";
/// Names that configuration from files will have.
const STATIC_SUFFIX: &str = ".static.k8s.io";

/// Gives the kinds of this group their strategies.
pub fn register(kinds: &mut Kinds, access: &Access, context: &Context) {
    use policy::Does::{Mutates, Validates};
    let params = ParamAccess::new(access.authorization.clone(), context.clone());
    let webhooks = webhook_configuration::WebhookConfigurations;
    kinds.strategy(GROUP, "mutatingwebhookconfigurations", webhooks);
    kinds.strategy(GROUP, "validatingwebhookconfigurations", webhooks);
    kinds.strategy(
        GROUP,
        "mutatingadmissionpolicies",
        policy::Policies(Mutates, params.clone()),
    );
    kinds.strategy(
        GROUP,
        "validatingadmissionpolicies",
        policy::Policies(Validates, params.clone()),
    );
    kinds.subresource(GROUP, "validatingadmissionpolicies", "status", policy::Status);
    kinds.strategy(
        GROUP,
        "mutatingadmissionpolicybindings",
        binding::Bindings(Mutates, params.clone()),
    );
    kinds.strategy(
        GROUP,
        "validatingadmissionpolicybindings",
        binding::Bindings(Validates, params),
    );
}

/// The warning about a reserved name.
fn warn_of_static_name(object: &Value) -> Vec<String> {
    if meta::name(object).ends_with(STATIC_SUFFIX) {
        return vec![format!(
            "metadata.name: names ending with \"{STATIC_SUFFIX}\" are reserved for static manifest-based configurations and cannot be managed via the API"
        )];
    }
    Vec::new()
}
