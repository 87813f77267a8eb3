//! Who asks and what they may, for the groups of the API that speak of it: reviews, tokens, roles.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use triptych_auth::authentication::issuer::TokenIssuer;
use triptych_auth::authentication::service_account::CoreObjects;
use triptych_auth::authentication::token::TokenAuthenticator;
use triptych_auth::authorization::Authorization;
use triptych_auth::authorization::escalation::EscalationCheck;
use triptych_auth::authorization::index::RbacIndex;
use triptych_object::Value;

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
