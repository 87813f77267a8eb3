//! `admissionregistration.k8s.io`: webhooks and policies that admit requests, and what policies are bound to.
//!
//! Expressions are not compiled here.

mod binding;
mod matching;
mod policy;
mod rules;
mod webhook_configuration;

use triptych_object::{Value, meta};

use crate::kinds::Kinds;

const GROUP: &str = "admissionregistration.k8s.io";
/// Names that configuration from files will have.
const STATIC_SUFFIX: &str = ".static.k8s.io";

/// Gives the kinds of this group their strategies.
pub fn register(kinds: &mut Kinds) {
    use policy::Does::{Mutates, Validates};
    let webhooks = webhook_configuration::WebhookConfigurations;
    kinds.strategy(GROUP, "mutatingwebhookconfigurations", webhooks);
    kinds.strategy(GROUP, "validatingwebhookconfigurations", webhooks);
    kinds.strategy(GROUP, "mutatingadmissionpolicies", policy::Policies(Mutates));
    kinds.strategy(GROUP, "validatingadmissionpolicies", policy::Policies(Validates));
    kinds.subresource(GROUP, "validatingadmissionpolicies", "status", policy::Status);
    kinds.strategy(GROUP, "mutatingadmissionpolicybindings", binding::Bindings(Mutates));
    kinds.strategy(GROUP, "validatingadmissionpolicybindings", binding::Bindings(Validates));
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
