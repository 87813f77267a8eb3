//! Webhook configurations, read once per change.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use triptych_client::hook::{Calls, Hook, Target};
use triptych_object::{Value, meta};

use crate::expression::compile::Compiler;
use crate::expression::conditions;
use crate::expression::evaluate::Compiled;
use crate::matching::Criteria;

/// How long a webhook that says nothing of it may take.
const DEFAULT_TIMEOUT: u64 = 10;

/// One webhook of a configuration.
pub struct Webhook {
    /// Its name within the configuration.
    pub name: String,
    /// Its identity: configuration, name and number among those of the same name.
    pub uid: String,
    /// What it wants to see.
    pub criteria: Criteria,
    /// Expressions that must hold for it to be called.
    pub conditions: Vec<Compiled>,
    /// A call that fails refuses the request.
    pub fails_closed: bool,
    /// It may be called on dry runs.
    pub dry_run: bool,
    /// It wants to see what was changed after it (mutating webhooks).
    pub again: bool,
    /// Versions of AdmissionReview it understands, the preferred one first.
    pub review_versions: Vec<String>,
    /// How long a call may take.
    pub timeout: Duration,
    /// How it is called.
    pub hook: Hook,
}

/// All webhooks of a configuration.
pub fn webhooks(configuration: &Value, calls: &Arc<Calls>) -> Vec<Webhook> {
    let name = meta::name(configuration);
    let mut seen: Vec<&str> = Vec::new();
    let webhooks = configuration.array_at(&["webhooks"]).iter().map(|webhook| {
        let own = webhook.str_at(&["name"]);
        let number = seen.iter().filter(|known| **known == own).count();
        seen.push(own);
        read(webhook, format!("{name}/{own}/{number}"), calls)
    });
    webhooks.collect()
}

fn read(webhook: &Value, uid: String, calls: &Arc<Calls>) -> Webhook {
    let conditions = webhook.array_at(&["matchConditions"]).iter();
    let versions = webhook.array_at(&["admissionReviewVersions"]).iter();
    let seconds = webhook.get("timeoutSeconds").and_then(Value::as_i64);
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let client = webhook.get("clientConfig").unwrap_or(&Value::Null);
    // an unreadable bundle was refused when the configuration was written
    let ca_bundle = STANDARD.decode(client.str_at(&["caBundle"])).unwrap_or_default();
    Webhook {
        name: webhook.str_at(&["name"]).to_owned(),
        uid,
        criteria: Criteria::of_webhook(webhook),
        conditions: conditions::compile(
            &Compiler::default(),
            conditions.map(|c| c.str_at(&["expression"])),
            false,
        ),
        fails_closed: webhook.str_at(&["failurePolicy"]) != "Ignore",
        dry_run: matches!(webhook.str_at(&["sideEffects"]), "None" | "NoneOnDryRun"),
        again: webhook.str_at(&["reinvocationPolicy"]) == "IfNeeded",
        review_versions: versions.filter_map(Value::as_str).map(str::to_owned).collect(),
        timeout: Duration::from_secs(seconds.unwrap_or(DEFAULT_TIMEOUT)),
        hook: Hook::new(calls, target(client), &ca_bundle),
    }
}

fn target(client: &Value) -> Target {
    let Some(service) = client.get("service").filter(|service| !service.is_null()) else {
        return Target::Url(client.str_at(&["url"]).to_owned());
    };
    let port = service.get("port").and_then(Value::as_i64);
    Target::Service {
        namespace: service.str_at(&["namespace"]).to_owned(),
        name: service.str_at(&["name"]).to_owned(),
        port: port.and_then(|port| u16::try_from(port).ok()).unwrap_or(443),
        path: service.str_at(&["path"]).to_owned(),
    }
}
