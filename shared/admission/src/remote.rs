//! The plugins that follow what core-api holds, for the other tiers.

use std::sync::Arc;

use triptych_auth::Authorizer;
use triptych_client::hook::{Calls, Services};
use triptych_client::{Api, Mirror, MirrorConfig};

use crate::chain::Plugin;
use crate::matching::Namespaces;
use crate::mirrored::Mirrored;
use crate::policy::Policies;
use crate::policy::mutating::MutatingAdmissionPolicy;
use crate::policy::params::{Params, RemoteParams};
use crate::policy::validating::ValidatingAdmissionPolicy;
use crate::webhook::mutating::MutatingAdmissionWebhook;
use crate::webhook::services::ClusterServices;
use crate::webhook::validating::ValidatingAdmissionWebhook;
use crate::webhook::{MAX_CALLS, Webhooks};

const GROUP: &str = "admissionregistration.k8s.io";

/// Copies of what core-api holds.
pub struct Remote {
    /// Namespaces, whole.
    pub namespaces: Arc<Mirror>,
    services: Arc<Mirror>,
    mutating: Arc<Mirror>,
    validating: Arc<Mirror>,
    /// Mutating policies, their bindings, validating policies, their bindings.
    policies: [Arc<Mirror>; 4],
    params: Arc<dyn Params>,
}

impl Remote {
    /// Begins to mirror; runs on the current tokio runtime.
    pub fn start(core_api: &Api) -> Remote {
        let mirror = |group: &str, kind: &str, resource: &str, namespaced: bool| {
            Mirror::start(
                core_api.clone(),
                MirrorConfig::new(group, "v1", kind, resource, namespaced),
            )
        };
        Remote {
            namespaces: mirror("", "Namespace", "namespaces", false),
            services: mirror("", "Service", "services", true),
            mutating: mirror(
                GROUP,
                "MutatingWebhookConfiguration",
                "mutatingwebhookconfigurations",
                false,
            ),
            validating: mirror(
                GROUP,
                "ValidatingWebhookConfiguration",
                "validatingwebhookconfigurations",
                false,
            ),
            policies: [
                ("MutatingAdmissionPolicy", "mutatingadmissionpolicies"),
                ("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"),
                ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
                ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
            ]
            .map(|(kind, resource)| mirror(GROUP, kind, resource, false)),
            params: Arc::new(RemoteParams::new(core_api.clone())),
        }
    }

    /// All of them.
    pub fn mirrors(&self) -> Vec<Arc<Mirror>> {
        let own = [&self.namespaces, &self.services, &self.mutating, &self.validating];
        own.into_iter().chain(&self.policies).cloned().collect()
    }

    /// Where Services lead.
    pub fn cluster_services(&self) -> Arc<dyn Services> {
        Arc::new(ClusterServices(Mirrored::new(self.services.clone())))
    }

    /// The plugins.
    pub fn plugins(&self, authorizer: &Arc<dyn Authorizer>) -> Vec<Box<dyn Plugin>> {
        let calls = Calls::new(self.cluster_services(), MAX_CALLS, crate::webhook::AGENT);
        let namespaces: Namespaces = Mirrored::new(self.namespaces.clone());
        let webhooks =
            |source: &Arc<Mirror>| Webhooks::new(source.clone(), calls.clone(), namespaces.clone(), authorizer.clone());
        let policies = |policies: &Arc<Mirror>, bindings: &Arc<Mirror>| {
            let (namespaces, params) = (namespaces.clone(), self.params.clone());
            Policies::new(
                policies.clone(),
                bindings.clone(),
                namespaces,
                params,
                authorizer.clone(),
            )
        };
        let [mutating, mutating_bindings, validating, validating_bindings] = &self.policies;
        vec![
            Box::new(MutatingAdmissionPolicy(policies(mutating, mutating_bindings))),
            Box::new(MutatingAdmissionWebhook(webhooks(&self.mutating))),
            Box::new(ValidatingAdmissionPolicy(policies(validating, validating_bindings))),
            Box::new(ValidatingAdmissionWebhook(webhooks(&self.validating))),
        ]
    }
}
