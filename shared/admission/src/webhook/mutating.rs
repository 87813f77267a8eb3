//! MutatingAdmissionWebhook: webhooks that may change the object, one after another.

use futures_util::future::BoxFuture;
use triptych_object::{Gvr, Status, StatusResult, Value, field};
use triptych_registry::admission::{Attributes, Operation, Warnings};
use triptych_schema::patch::Reading;
use triptych_schema::patch::json_patch::JsonPatch;

use super::configuration::Webhook;
use super::{Failure, Webhooks, ask, ignored, is_out_of_time, out_of_time, review, uncalled, versioned, warn};
use crate::chain::Plugin;
use crate::matching::{Invocation, is_exempt};
use crate::rounds::Rounds;

const NAME: &str = "MutatingAdmissionWebhook";

/// The plugin.
pub struct MutatingAdmissionWebhook(pub Webhooks);

impl Plugin for MutatingAdmissionWebhook {
    fn name(&self) -> &'static str {
        NAME
    }

    fn concerns(&self, _operation: Operation, _resource: &Gvr) -> bool {
        !self.0.none()
    }

    fn mutate_in_round<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        mut object: Option<&'a mut Value>,
        old: Option<&'a Value>,
        warnings: &'a mut Warnings,
        rounds: &'a mut Rounds,
    ) -> BoxFuture<'a, StatusResult<()>> {
        Box::pin(async move {
            if is_exempt(attributes.kind) {
                return Ok(());
            }
            if rounds.is_second() {
                rounds.memory(NAME).begin_second(object.as_deref());
            }
            let outcome = self
                .dispatch(attributes, object.as_deref_mut(), old, warnings, rounds)
                .await;
            rounds.memory(NAME).end(object.as_deref());
            outcome
        })
    }
}

impl MutatingAdmissionWebhook {
    async fn dispatch(
        &self,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Value>,
        old: Option<&Value>,
        warnings: &mut Warnings,
        rounds: &mut Rounds,
    ) -> StatusResult<()> {
        let configurations = self.0.all(attributes, object.as_deref()).await?;
        for webhook in configurations.iter().flat_map(|webhooks| webhooks.iter()) {
            let shown = self.0.wanted(webhook, attributes, object.as_deref(), old).await?;
            let Some(shown) = shown else {
                continue;
            };
            if rounds.is_second() && !rounds.memory(NAME).runs_again(&webhook.uid) {
                continue;
            }
            let outcome = call(webhook, attributes, &shown, object.as_deref_mut(), old, warnings).await;
            if let Ok(true) = outcome {
                rounds.memory(NAME).changed();
                rounds.want_second();
            }
            if webhook.again {
                rounds.memory(NAME).invoked(&webhook.uid);
            }
            match outcome {
                Ok(_) => {}
                Err(Failure::Refused(status)) => return Err(status),
                Err(Failure::Call(why)) if webhook.fails_closed => return Err(uncalled(webhook, &why)),
                Err(Failure::Call(why)) => {
                    ignored(webhook, &why);
                    if is_out_of_time(attributes) {
                        return Err(out_of_time());
                    }
                }
            }
        }
        Ok(())
    }
}

/// Asks a webhook and does what it wants; true if the object is another afterwards.
async fn call(
    webhook: &Webhook,
    attributes: &Attributes<'_>,
    shown: &Invocation,
    object: Option<&mut Value>,
    old: Option<&Value>,
    warnings: &mut Warnings,
) -> Result<bool, Failure> {
    let mut verdict = ask(webhook, attributes, shown, object.as_deref(), old, true).await?;
    warn(warnings, &mut verdict);
    if !verdict.allowed {
        return Err(Failure::Refused(review::refusal(
            &webhook.name,
            verdict.status.as_ref(),
        )));
    }
    if verdict.patch.is_empty() {
        return Ok(false);
    }
    let patch = JsonPatch::decode(&verdict.patch, Reading::Lenient).map_err(|status| {
        Failure::Call(format!(
            "received undecodable patch in webhook response: {}",
            status.message
        ))
    })?;
    if patch.is_empty() {
        return Ok(false);
    }
    let Some(object) = object else {
        let name = field::quote(&webhook.name);
        return Err(Failure::Refused(Status::internal(format!(
            "admission webhook {name} attempted to modify the object, which is not supported for this operation"
        ))));
    };
    apply(&patch, attributes, shown, object).map_err(Failure::Refused)
}

/// Applies a patch to the object in the version that was shown; true if the object is another afterwards.
fn apply(patch: &JsonPatch, attributes: &Attributes<'_>, shown: &Invocation, object: &mut Value) -> StatusResult<bool> {
    let mut patched = versioned(attributes, shown, Some(object))?.unwrap_or_default();
    patch
        .try_apply(&mut patched)
        .map_err(|unfit| Status::internal(unfit.text))?;
    if shown.kind != *attributes.kind {
        let version = attributes.kind.group_version().to_string();
        patched = attributes.model.convert(&patched, &version).map_err(Status::internal)?;
    }
    // what the schema does not know is dropped without a word
    attributes.model.reread(&mut patched).map_err(Status::internal)?;
    let changed = patched != *object;
    *object = patched;
    Ok(changed)
}
