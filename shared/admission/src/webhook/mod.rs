//! Admission webhooks: servers that users register to change or refuse writes.
//!
//! - [`configuration`]: what they registered;
//! - [`review`]: the question and its answer;
//! - [`mutating`], [`validating`]: the two plugins.
//!
//! Contract: a webhook that cannot be asked refuses the request unless its failure policy is Ignore; texts are
//! kube-apiserver's. Webhooks never see webhook configurations and admission policies.

pub mod configuration;
pub mod mutating;
pub mod review;
pub mod services;
#[cfg(test)]
mod tests;
pub mod validating;

use std::sync::Arc;
use std::time::{Duration, Instant};

use triptych_auth::Authorizer;
use triptych_client::hook::Calls;
use triptych_object::{Status, StatusResult, Value, field, json};
use triptych_registry::admission::{Attributes, Warnings};
use triptych_storage::{Source, View};

use self::configuration::Webhook;
use self::review::{Question, Unusable, Verdict};
use crate::expression::checks::Checks;
use crate::expression::conditions::{self, Outcome};
use crate::expression::evaluate::Input;
use crate::matching::{Invocation, Namespaces};

/// So many calls of a tier are under way at most.
pub const MAX_CALLS: usize = 1_000;
/// How webhooks are told who calls.
pub const AGENT: &str = "kube-apiserver-admission";
/// Requests wait so long for configurations that are not known yet.
const UNTIL_READY: Duration = Duration::from_secs(10);
const READY_POLL: Duration = Duration::from_millis(10);

/// What both plugins need.
pub struct Webhooks {
    configurations: View<Vec<Webhook>>,
    namespaces: Namespaces,
    authorizer: Arc<dyn Authorizer>,
}

/// Why a webhook's answer does not let a request go on.
enum Failure {
    /// It could not be asked; the failure policy decides.
    Call(String),
    /// It refused, or its wish cannot be fulfilled.
    Refused(Box<Status>),
}

impl Webhooks {
    /// Of the configurations in `source`.
    pub fn new(
        source: Arc<dyn Source>,
        calls: Arc<Calls>,
        namespaces: Namespaces,
        authorizer: Arc<dyn Authorizer>,
    ) -> Webhooks {
        let configurations = View::new(source, move |object| {
            let configuration = json::from_slice(object.bytes()).ok()?;
            Some(configuration::webhooks(&configuration, &calls))
        });
        Webhooks {
            configurations,
            namespaces,
            authorizer,
        }
    }

    /// True if there is none at all.
    fn none(&self) -> bool {
        self.configurations.load().is_some_and(|known| known.is_empty())
    }

    /// All configurations, by name.
    async fn all(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> StatusResult<Vec<Arc<Vec<Webhook>>>> {
        let deadline = attributes.deadline.min(Instant::now() + UNTIL_READY);
        loop {
            if let Some(known) = self.configurations.load() {
                return Ok(known.iter().map(|(_, webhooks)| webhooks.clone()).collect());
            }
            if Instant::now() >= deadline {
                return Err(crate::chain::forbidden(
                    attributes,
                    object,
                    "not yet ready to handle request",
                ));
            }
            // the first fill is rare enough to be polled for
            tokio::time::sleep(READY_POLL).await;
        }
    }

    /// As what a webhook is to be shown the request; `None` if not at all.
    async fn wanted(
        &self,
        webhook: &Webhook,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> StatusResult<Option<Invocation>> {
        let found = webhook.criteria.find(attributes, object, old, &self.namespaces).await?;
        let Some(shown) = found else {
            return Ok(None);
        };
        if webhook.conditions.is_empty() {
            return Ok(Some(shown));
        }
        let object = versioned(attributes, &shown, object)?;
        let old = versioned(attributes, &shown, old)?;
        let request = Value::Object(review::told_to_expressions(attributes, &shown));
        let checks = Checks::new(&*self.authorizer, attributes);
        let input = Input {
            object: object.as_ref(),
            old: old.as_ref(),
            params: None,
            request: &request,
            namespace: None,
            authorizer: Some((&checks.own, &checks.resource)),
        };
        let outcome = checks
            .settle(|| conditions::check(&webhook.conditions, input, &[]))
            .await;
        match outcome {
            Outcome::Match => Ok(Some(shown)),
            Outcome::Error(why) if webhook.fails_closed => {
                let resource = attributes.resource;
                let resource = triptych_object::GroupResource::new(resource.group.as_str(), resource.resource.as_str());
                Err(Status::forbidden(&resource, attributes.name, why))
            }
            Outcome::NoMatch | Outcome::Error(_) => Ok(None),
        }
    }
}

/// The object in the version that a webhook is shown.
pub(crate) fn versioned(
    attributes: &Attributes<'_>,
    shown: &Invocation,
    object: Option<&Value>,
) -> StatusResult<Option<Value>> {
    let Some(object) = object else {
        return Ok(None);
    };
    if shown.kind == *attributes.kind {
        return Ok(Some(object.clone()));
    }
    let version = shown.kind.group_version().to_string();
    let converted = attributes.model.convert(object, &version).map_err(Status::internal)?;
    Ok(Some(converted))
}

/// Asks a webhook.
async fn ask(
    webhook: &Webhook,
    attributes: &Attributes<'_>,
    shown: &Invocation,
    object: Option<&Value>,
    old: Option<&Value>,
    mutating: bool,
) -> Result<Verdict, Failure> {
    if attributes.dry_run && !webhook.dry_run {
        let name = field::quote(&webhook.name);
        let why = format!("admission webhook {name} does not support dry run");
        return Err(Failure::Refused(Status::bad_request(why)));
    }
    let object = versioned(attributes, shown, object).map_err(Failure::Refused)?;
    let old = versioned(attributes, shown, old).map_err(Failure::Refused)?;
    let question = Question::new(&webhook.review_versions, attributes, shown, object, old)
        .map_err(|why| Failure::Call(format!("could not create admission objects: {why}")))?;
    let left = attributes.deadline.saturating_duration_since(Instant::now());
    let time = webhook.timeout.min(left);
    if time == Duration::ZERO {
        return Err(Failure::Refused(out_of_time()));
    }
    let answer = webhook.hook.post(&question.document, time).await;
    let answer = answer.map_err(|why| Failure::Call(format!("failed to call webhook: {why}")))?;
    question.answer(&answer, mutating).map_err(|unusable| {
        Failure::Call(match unusable {
            Unusable::Undecodable(why) => format!("failed to call webhook: {why}"),
            Unusable::Invalid(why) => format!("received invalid webhook response: {why}"),
            Unusable::Unsupported(why) => why,
        })
    })
}

/// The refusal of a webhook that could not be asked.
fn uncalled(webhook: &Webhook, why: &str) -> Box<Status> {
    let name = field::quote(&webhook.name);
    Status::internal(format!("failed calling webhook {name}: {why}"))
}

fn ignored(webhook: &Webhook, why: &str) {
    tracing::info!(
        webhook = webhook.name,
        why,
        "a webhook could not be called, and may be ignored"
    );
}

fn out_of_time() -> Box<Status> {
    Status::timeout("request did not complete within requested timeout", 0)
}

fn is_out_of_time(attributes: &Attributes<'_>) -> bool {
    Instant::now() >= attributes.deadline
}

fn warn(warnings: &mut Warnings, verdict: &mut Verdict) {
    warnings.append(&mut verdict.warnings);
}
