//! ValidatingAdmissionWebhook: webhooks that may refuse the write, all asked at once.

use futures_util::future::{BoxFuture, join_all};
use triptych_object::{Gvr, StatusResult, Value};
use triptych_registry::admission::{Attributes, Operation, Warnings};

use super::configuration::Webhook;
use super::{Failure, Webhooks, ask, ignored, is_out_of_time, out_of_time, review, uncalled, warn};
use crate::chain::Plugin;
use crate::matching::{Invocation, is_exempt};

/// The plugin.
pub struct ValidatingAdmissionWebhook(pub Webhooks);

impl Plugin for ValidatingAdmissionWebhook {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionWebhook"
    }

    fn concerns(&self, _operation: Operation, _resource: &Gvr) -> bool {
        !self.0.none()
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        old: Option<&'a Value>,
        warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        Box::pin(async move {
            if is_exempt(attributes.kind) {
                return Ok(());
            }
            let configurations = self.0.all(attributes, object).await?;
            let mut wanted: Vec<(&Webhook, Invocation)> = Vec::new();
            for webhook in configurations.iter().flat_map(|webhooks| webhooks.iter()) {
                let shown = self.0.wanted(webhook, attributes, object, old).await?;
                wanted.extend(shown.map(|shown| (webhook, shown)));
            }
            if !wanted.is_empty() && is_out_of_time(attributes) {
                return Err(out_of_time());
            }
            let calls = wanted.iter().map(|(webhook, shown)| async move {
                let mut own = Warnings::new();
                let outcome = call(webhook, attributes, shown, object, old, &mut own).await;
                (outcome, own)
            });
            let mut first = Ok(());
            for (outcome, mut own) in join_all(calls).await {
                warnings.append(&mut own);
                first = first.and(outcome);
            }
            first
        })
    }
}

async fn call(
    webhook: &Webhook,
    attributes: &Attributes<'_>,
    shown: &Invocation,
    object: Option<&Value>,
    old: Option<&Value>,
    warnings: &mut Warnings,
) -> StatusResult<()> {
    match ask(webhook, attributes, shown, object, old, false).await {
        Ok(mut verdict) => {
            warn(warnings, &mut verdict);
            if verdict.allowed {
                Ok(())
            } else {
                Err(review::refusal(&webhook.name, verdict.status.as_ref()))
            }
        }
        Err(Failure::Refused(status)) => Err(status),
        Err(Failure::Call(why)) if webhook.fails_closed => Err(uncalled(webhook, &why)),
        Err(Failure::Call(why)) => {
            ignored(webhook, &why);
            Ok(())
        }
    }
}
