//! Decides what a user may do: privileged identities first, then `--authorization-mode` in order.
//!
//! Contract: the first that allows or denies decides; without any the request is refused, with all reasons. Nothing here
//! fails open: what cannot be told is unavailable, and that is the answer unless another one allows.

pub mod confirm;
pub mod escalation;
pub mod follow;
pub mod index;
pub mod mirrored;
pub mod node;
pub mod node_graph;
pub mod privileged;
pub mod rbac;
pub mod resolver;
pub mod rules;

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use triptych_object::{RequestInfo, Status, StatusResult, UserInfo};
use triptych_registry::Permit;

use crate::authorizer::{Attributes, Authorizer, Decision};
use crate::forbidden::forbidden;
use resolver::{RuleResolver, UserRules};

/// An authorizer that can also tell its rules.
pub trait Mode: Authorizer + RuleResolver {}

impl<T: Authorizer + RuleResolver> Mode for T {}

/// Several authorizers, asked in order.
pub struct Authorization {
    modes: Vec<Arc<dyn Mode>>,
}

/// For what a request implies besides itself.
impl Permit for Authorization {
    fn permit<'a>(&'a self, user: &'a UserInfo, request: &'a RequestInfo) -> BoxFuture<'a, StatusResult<()>> {
        Box::pin(async move {
            match self.authorize(Attributes { user, request }).await {
                Decision::Allow(_) => Ok(()),
                Decision::Deny(reason) => Err(forbidden(user, request, &reason.to_string())),
                Decision::NoOpinion { reason, .. } => Err(forbidden(user, request, &reason)),
                Decision::Unavailable(why) => Err(Status::service_unavailable(why, 1)),
            }
        })
    }
}

impl Authorization {
    /// In the order they are to be asked; privileged identities should come first.
    pub fn new(modes: Vec<Arc<dyn Mode>>) -> Authorization {
        Authorization { modes }
    }

    /// Asks the modes from `first` on.
    async fn ask(&self, first: usize, attributes: Attributes<'_>, mut heard: Heard) -> Decision {
        for mode in &self.modes[first..] {
            if let Some(decision) = heard.hear(mode.authorize(attributes).await) {
                return decision;
            }
        }
        heard.verdict()
    }
}

/// What those said that did not decide.
#[derive(Default)]
struct Heard {
    reasons: Vec<String>,
    errors: Vec<String>,
    unavailable: Option<String>,
}

impl Heard {
    /// The decision, if this is one.
    fn hear(&mut self, decision: Decision) -> Option<Decision> {
        match decision {
            Decision::Allow(_) | Decision::Deny(_) => return Some(decision),
            Decision::NoOpinion { reason, error } => {
                self.reasons.extend(Some(reason).filter(|r| !r.is_empty()));
                self.errors.extend(Some(error).filter(|e| !e.is_empty()));
            }
            Decision::Unavailable(why) => self.unavailable = Some(why),
        }
        None
    }

    fn verdict(self) -> Decision {
        match self.unavailable {
            Some(why) => Decision::Unavailable(why),
            None => Decision::NoOpinion {
                reason: self.reasons.join("\n"),
                error: triptych_object::field::aggregate(self.errors),
            },
        }
    }
}

impl Authorizer for Authorization {
    fn authorize<'a>(&'a self, attributes: Attributes<'a>) -> BoxFuture<'a, Decision> {
        // Nearly every answer is there at once: ask without waiting as long as that goes.
        let mut heard = Heard::default();
        for (i, mode) in self.modes.iter().enumerate() {
            let mut answer = mode.authorize(attributes);
            match (&mut answer).now_or_never() {
                Some(decision) => {
                    if let Some(decision) = heard.hear(decision) {
                        return std::future::ready(decision).boxed();
                    }
                }
                None => {
                    return async move {
                        if let Some(decision) = heard.hear(answer.await) {
                            return decision;
                        }
                        self.ask(i + 1, attributes, heard).await
                    }
                    .boxed();
                }
            }
        }
        std::future::ready(heard.verdict()).boxed()
    }
}

impl RuleResolver for Authorization {
    fn rules_for(&self, user: &UserInfo, namespace: &str) -> UserRules {
        let mut all = UserRules::default();
        for mode in &self.modes {
            all.add(mode.rules_for(user, namespace));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use triptych_object::RequestInfo;

    use super::*;
    use crate::authorizer::Reason;

    struct Says(Decision, bool);

    impl Authorizer for Says {
        fn authorize<'a>(&'a self, _: Attributes<'a>) -> BoxFuture<'a, Decision> {
            async {
                if self.1 {
                    tokio::task::yield_now().await;
                }
                self.0.clone()
            }
            .boxed()
        }
    }

    impl RuleResolver for Says {
        fn rules_for(&self, _: &UserInfo, _: &str) -> UserRules {
            UserRules::default()
        }
    }

    #[tokio::test]
    async fn the_first_decision_counts_and_reasons_add_up() {
        let allow = || Decision::Allow(Reason::text("yes"));
        let deny = || Decision::Deny("no".to_owned());
        let away = || Decision::Unavailable("away".to_owned());
        let pass = |reason: &str, error: &str| Decision::NoOpinion {
            reason: reason.to_owned(),
            error: error.to_owned(),
        };
        for (says, want) in [
            (vec![], Decision::PASS),
            (vec![Decision::PASS, allow(), deny()], allow()),
            (vec![deny(), allow()], deny()),
            (vec![pass("a", ""), pass("", ""), pass("b", "e")], pass("a\nb", "e")),
            (vec![pass("", "e"), pass("", "f"), pass("", "e")], pass("", "[e, f]")),
            (vec![away(), allow()], allow()),
            (vec![away(), pass("a", "")], away()),
        ] {
            for waits in [false, true] {
                let modes = says.iter().map(|s| Arc::new(Says(s.clone(), waits)) as Arc<dyn Mode>);
                let authorization = Authorization::new(modes.collect());
                let (user, request) = (UserInfo::anonymous(), RequestInfo::default());
                let attributes = Attributes {
                    user: &user,
                    request: &request,
                };
                assert_eq!(authorization.authorize(attributes).await, want, "{says:?}");
            }
        }
    }
}
