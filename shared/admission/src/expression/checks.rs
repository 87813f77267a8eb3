//! What expressions ask of `authorizer`.
//!
//! Contract: a check that is not decided yet is noted and fails; its evaluation has to be repeated once it is decided.
//! Every repetition knows more, so that the last one meets no undecided check: what it came to is exact.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use triptych_auth::{Attributes as Question, Authorizer, Decision as Verdict};
use triptych_cel::EvalError;
use triptych_cel::libraries::authorization::{self, Check, Decision, Step, Target};
use triptych_object::{RequestInfo, UserInfo};
use triptych_registry::admission::Attributes;

/// So many checks are decided for the expressions of one request.
const MAX_CHECKS: usize = 1_000;

/// The checks of one request.
#[derive(Default)]
struct Asked {
    decided: Mutex<HashMap<Check, Decision>>,
    open: Mutex<Vec<Check>>,
}

impl authorization::Authorizer for Asked {
    fn authorize(&self, check: &Check) -> Result<Decision, EvalError> {
        if let Some(decision) = self.decided.lock().get(check) {
            return Ok(decision.clone());
        }
        let mut open = self.open.lock();
        if !open.contains(check) {
            open.push(check.clone());
        }
        Err(EvalError::new("this check is not decided yet"))
    }
}

/// Asks an authorizer what the expressions of one request want to know.
pub struct Checks<'r> {
    authorizer: &'r dyn Authorizer,
    user: &'r UserInfo,
    asked: Arc<Asked>,
    /// The variable `authorizer`.
    pub own: Step,
    /// The variable `authorizer.requestResource`.
    pub resource: Step,
}

impl<'r> Checks<'r> {
    /// For a request.
    pub fn new(authorizer: &'r dyn Authorizer, attributes: &Attributes<'r>) -> Checks<'r> {
        let asked = Arc::new(Asked::default());
        let target = Target::Resource {
            group: attributes.resource.group.clone(),
            resource: attributes.resource.resource.clone(),
            subresource: attributes.subresource.to_owned(),
            namespace: attributes.namespace.to_owned(),
            name: attributes.name.to_owned(),
            field_selector: String::new(),
            label_selector: String::new(),
        };
        Checks {
            authorizer,
            user: attributes.user,
            own: Step::authorizer(asked.clone()),
            resource: Step::resource(asked.clone(), target),
            asked,
        }
    }

    /// Evaluates until everything that is asked is decided.
    pub async fn settle<T>(&self, mut evaluate: impl FnMut() -> T) -> T {
        loop {
            let outcome = evaluate();
            let open = std::mem::take(&mut *self.asked.open.lock());
            let known = self.asked.decided.lock().len();
            if open.is_empty() || known >= MAX_CHECKS {
                return outcome;
            }
            for check in open {
                let decision = self.decide(&check).await;
                self.asked.decided.lock().insert(check, decision);
            }
        }
    }

    async fn decide(&self, check: &Check) -> Decision {
        let account = check.service_account.as_ref().map(|(namespace, name)| {
            let groups = [
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
            ];
            UserInfo::new(format!("system:serviceaccount:{namespace}:{name}"), groups)
        });
        let request = request(check);
        let question = Question {
            user: account.as_ref().unwrap_or(self.user),
            request: &request,
        };
        match self.authorizer.authorize(question).await {
            Verdict::Allow(reason) => Decision {
                allowed: true,
                reason: reason.to_string(),
                error: None,
            },
            Verdict::Deny(reason) => Decision {
                reason,
                ..Decision::default()
            },
            Verdict::NoOpinion { reason, error } => Decision {
                allowed: false,
                reason,
                error: Some(error).filter(|error| !error.is_empty()),
            },
            Verdict::Unavailable(why) => Decision {
                error: Some(why),
                ..Decision::default()
            },
        }
    }
}

fn request(check: &Check) -> RequestInfo {
    let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    match &check.target {
        Target::Path(path) => RequestInfo {
            path: path.clone(),
            verb: check.verb.clone(),
            ..RequestInfo::default()
        },
        Target::Resource {
            group,
            resource,
            subresource,
            namespace,
            name,
            field_selector,
            label_selector,
        } => RequestInfo {
            is_resource: true,
            verb: check.verb.clone(),
            group: group.clone(),
            version: "*".to_owned(),
            resource: resource.clone(),
            subresource: subresource.clone(),
            namespace: namespace.clone(),
            name: name.clone(),
            field_selector: given(field_selector),
            label_selector: given(label_selector),
            ..RequestInfo::default()
        },
    }
}
