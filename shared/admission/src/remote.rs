//! The plugins that follow what core-api holds, for the other tiers.

use std::sync::Arc;

use triptych_client::hook::Calls;
use triptych_client::{Api, Mirror, MirrorConfig};

use crate::chain::Plugin;
use crate::conditions::Unevaluated;
use crate::matching::Namespaces;
use crate::mirrored::Mirrored;
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
        }
    }

    /// All of them.
    pub fn mirrors(&self) -> [Arc<Mirror>; 4] {
        [&self.namespaces, &self.services, &self.mutating, &self.validating].map(Arc::clone)
    }

    /// The plugins.
    pub fn plugins(&self) -> Vec<Box<dyn Plugin>> {
        let services = ClusterServices(Mirrored::new(self.services.clone()));
        let calls = Calls::new(Arc::new(services), MAX_CALLS, crate::webhook::AGENT);
        let namespaces: Namespaces = Mirrored::new(self.namespaces.clone());
        let webhooks = |source: &Arc<Mirror>| {
            Webhooks::new(source.clone(), calls.clone(), namespaces.clone(), Arc::new(Unevaluated))
        };
        vec![
            Box::new(MutatingAdmissionWebhook(webhooks(&self.mutating))),
            Box::new(ValidatingAdmissionWebhook(webhooks(&self.validating))),
        ]
    }
}
