//! RBAC in a tier that holds no roles: over mirrors of core-api's.

use std::sync::Arc;
use std::time::Duration;

use triptych_client::api::Api;
use triptych_client::mirror::{Mirror, MirrorConfig};
use triptych_storage::Source;

use super::follow::BringUp;
use super::index::RbacIndex;
use super::rbac::Rbac;

const GROUP: &str = "rbac.authorization.k8s.io";

/// A refusal waits at most this long to be confirmed.
const CONFIRM: Duration = Duration::from_secs(1);

/// RBAC over mirrors.
pub struct MirroredRbac {
    /// The authorizer; refusals are confirmed at the source.
    pub rbac: Arc<Rbac>,
    /// What it decides by.
    pub index: Arc<RbacIndex>,
    /// The copies of roles, role bindings, cluster roles and cluster role bindings.
    pub mirrors: [Arc<Mirror>; 4],
}

impl MirroredRbac {
    /// Begins to mirror; runs on the current tokio runtime.
    pub fn start(core_api: &Api) -> MirroredRbac {
        let mirrors = [
            ("Role", "roles", true),
            ("RoleBinding", "rolebindings", true),
            ("ClusterRole", "clusterroles", false),
            ("ClusterRoleBinding", "clusterrolebindings", false),
        ]
        .map(|(kind, resource, namespaced)| {
            Mirror::start(
                core_api.clone(),
                MirrorConfig::new(GROUP, "v1", kind, resource, namespaced),
            )
        });
        let sources = mirrors.each_ref().map(|m| m.clone() as Arc<dyn Source>);
        let index = Arc::new(RbacIndex::following(sources.clone()));
        let refresh = BringUp {
            sources: sources.to_vec(),
            wait: CONFIRM,
        };
        MirroredRbac {
            rbac: Arc::new(Rbac::confirmed(index.clone(), Arc::new(refresh))),
            index,
            mirrors,
        }
    }

    /// Resolves when all four were complete once.
    pub fn synced(&self) -> impl Future<Output = ()> + Send + 'static {
        let mirrors = self.mirrors.clone();
        async move {
            for mirror in &mirrors {
                mirror.synced().await;
            }
        }
    }
}
