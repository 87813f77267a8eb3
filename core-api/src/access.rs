//! Who asks and what they may, for the groups of the API that speak of it: reviews, tokens, roles.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use triptych_auth::authentication::issuer::TokenIssuer;
use triptych_auth::authentication::service_account::CoreObjects;
use triptych_auth::authentication::token::TokenAuthenticator;
use triptych_auth::authorization::Authorization;
use triptych_auth::authorization::confirm::{Coalesced, Refresh};
use triptych_auth::authorization::escalation::EscalationCheck;
use triptych_auth::authorization::follow::BringUp;
use triptych_auth::authorization::index::{RbacIndex, RbacKind};
use triptych_auth::authorization::rbac::Rbac;
use triptych_object::Value;
use triptych_registry::catalogue::Collections;
use triptych_storage::Source;

use crate::rbac::policy::GROUP;

/// What the assembly made of the authentication and authorization flags.
#[derive(Clone)]
pub struct Access {
    /// Roles and bindings.
    pub index: Arc<RbacIndex>,
    /// What users may.
    pub authorization: Arc<Authorization>,
    /// Judges bearer tokens; `None` if no kind of token is configured.
    pub tokens: Option<Arc<dyn TokenAuthenticator>>,
    /// Audiences of this API server.
    pub audiences: Vec<String>,
    /// Issues service account tokens; `None` without a signing key.
    pub issuer: Option<Arc<TokenIssuer>>,
    /// Objects that tokens are bound to.
    pub objects: Arc<dyn CoreObjects>,
}

/// A refusal waits at most this long for the caches that it was made from.
const CONFIRM: Duration = Duration::from_secs(1);
/// Refusals do so together, at most this often.
const CONFIRM_EVERY: Duration = Duration::from_millis(10);

/// Brings these sources up to their store before a refusal counts.
pub fn confirm(sources: Vec<Arc<dyn Source>>) -> Arc<dyn Refresh> {
    let bring_up = BringUp { sources, wait: CONFIRM };
    Arc::new(Coalesced::new(Box::new(bring_up), CONFIRM_EVERY))
}

/// RBAC over this tier's roles and bindings. Without all four resources nobody has a role.
pub fn rbac(collections: &Collections) -> (Arc<RbacIndex>, Rbac) {
    let find = |kind: RbacKind| collections.get(GROUP, kind.resource()).map(|c| c.cache.clone());
    let [Some(roles), Some(bindings), Some(cluster_roles), Some(cluster_bindings)] = RbacKind::ALL.map(find) else {
        let index = Arc::new(RbacIndex::new());
        RbacKind::ALL.into_iter().for_each(|kind| index.replace(kind, []));
        return (index.clone(), Rbac::new(index));
    };
    let sources: [Arc<dyn Source>; 4] = [roles, bindings, cluster_roles, cluster_bindings];
    let index = Arc::new(RbacIndex::following(sources.clone()));
    let rbac = Rbac::confirmed(index.clone(), confirm(sources.to_vec()));
    (index, rbac)
}

impl Access {
    /// The check that writes of roles and bindings pass.
    pub fn escalation_check(&self) -> EscalationCheck {
        EscalationCheck::new(self.index.clone(), self.authorization.clone())
    }
}

impl Default for Access {
    /// Nobody is known and nobody may anything.
    fn default() -> Access {
        Access {
            index: Arc::default(),
            authorization: Arc::new(Authorization::new(Vec::new())),
            tokens: None,
            audiences: Vec::new(),
            issuer: None,
            objects: Arc::new(Nothing),
        }
    }
}

/// A tier without objects.
struct Nothing;

impl CoreObjects for Nothing {
    fn get<'a>(
        &'a self,
        _resource: &'static str,
        _namespace: &'a str,
        _name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Value>, String>> {
        std::future::ready(Ok(None)).boxed()
    }
}
