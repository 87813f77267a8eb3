//! The RBAC authorizer.
//!
//! Contract: reasons are kube-apiserver's (`RBAC: allowed by …`). A negative can be confirmed before it counts: what the
//! index follows is brought up to its source once, and the question asked again. Whoever has just been granted something
//! is then not refused for a moment longer, neither here nor in a tier that only mirrors roles.

use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use triptych_object::{UserInfo, field};

use super::confirm::Refresh;
use super::index::{RbacIndex, Source};
use super::resolver::{RuleResolver, UserRules};
use crate::authorizer::{Attributes, Authorizer, Decision, Reason};

/// Authorizes by roles and bindings.
pub struct Rbac {
    index: Arc<RbacIndex>,
    confirm: Option<Arc<dyn Refresh>>,
}

impl Rbac {
    /// Over an index whose negatives count as they are.
    pub fn new(index: Arc<RbacIndex>) -> Rbac {
        Rbac { index, confirm: None }
    }

    /// Over an index that may lag behind; `refresh` brings it up to its source.
    pub fn confirmed(index: Arc<RbacIndex>, refresh: Arc<dyn Refresh>) -> Rbac {
        Rbac {
            index,
            confirm: Some(refresh),
        }
    }

    /// The answer from what is known now.
    fn decide(&self, attributes: Attributes<'_>) -> Decision {
        let Attributes { user, request } = attributes;
        let mut errors = Vec::new();
        let mut source = None;
        self.index.visit(user, &request.namespace, |step| {
            match step {
                Ok((binding, rule)) if rule.allows(request) => {
                    source = Some(Source::new(binding, user));
                    return ControlFlow::Break(());
                }
                Ok(_) => {}
                Err(why) => errors.push(why),
            }
            ControlFlow::Continue(())
        });
        match source {
            Some(source) => Decision::Allow(Reason::lazy(move |f| write!(f, "RBAC: allowed by {source}"))),
            None if !self.index.is_synced() => {
                Decision::Unavailable("roles and role bindings are not known yet".to_owned())
            }
            None if errors.is_empty() => Decision::PASS,
            None => Decision::pass(format!("RBAC: {}", field::aggregate(errors))),
        }
    }
}

impl Authorizer for Rbac {
    fn authorize<'a>(&'a self, attributes: Attributes<'a>) -> BoxFuture<'a, Decision> {
        let decision = self.decide(attributes);
        match &self.confirm {
            Some(confirm) if matches!(decision, Decision::NoOpinion { .. }) => async move {
                confirm.refresh().await;
                self.decide(attributes)
            }
            .boxed(),
            _ => std::future::ready(decision).boxed(),
        }
    }
}

impl RuleResolver for Rbac {
    fn rules_for(&self, user: &UserInfo, namespace: &str) -> UserRules {
        let (rules, errors) = self.index.rules_for(user, namespace);
        UserRules {
            rules,
            incomplete: false,
            errors,
        }
    }
}

#[cfg(test)]
#[path = "rbac_tests.rs"]
mod tests;
