//! Webhook configurations, mutating and validating: they differ in one member.

use std::collections::HashSet;

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{Value, meta, names};
use triptych_registry::age::age;
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::strategy::{Context, Strategy};

use super::matching::{FAILURE_POLICIES, MATCH_POLICIES, REINVOCATION_POLICIES, match_conditions};
use super::{rules, warn_of_static_name};
use crate::apps::workload::selector_is_valid;
use crate::validation::label_selector::{Lenience, label_selector};
use crate::validation::{Cursor, check, names as texts, webhook_client};

const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const SIDE_EFFECTS: [&str; 4] = ["None", "NoneOnDryRun", "Some", "Unknown"];
const NO_SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
const SELECTORS: [&str; 2] = ["namespaceSelector", "objectSelector"];

/// The strategy of `mutatingwebhookconfigurations` and `validatingwebhookconfigurations`.
#[derive(Clone, Copy)]
pub struct WebhookConfigurations;

impl Strategy for WebhookConfigurations {
    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |c| webhooks(c.field("webhooks"), Tolerance::default()));
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        let tolerance = Tolerance::of(new.array_at(&["webhooks"]), old.array_at(&["webhooks"]));
        check(new, errors, |c| webhooks(c.field("webhooks"), tolerance));
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Whole
    }

    fn standard_finalizers(&self) -> bool {
        false
    }

    fn warnings(&self, _cx: &Context, new: &Value, _old: Option<&Value>) -> Vec<String> {
        warn_of_static_name(new)
    }

    fn cells(&self, configuration: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(vec![
            meta::name(configuration).into(),
            Value::Int(configuration.array_at(&["webhooks"]).len() as i64),
            age(configuration, now).into(),
        ])
    }
}

/// What is tolerated because it was stored before.
#[derive(Clone, Copy, Debug, Default)]
struct Tolerance {
    same_match_conditions: bool,
    side_effects: bool,
    unknown_review_versions: bool,
    duplicate_names: bool,
    invalid_selector_values: bool,
}

impl Tolerance {
    fn of(new: &[Value], old: &[Value]) -> Tolerance {
        let unknown_versions = |hook: &Value| {
            let versions = hook.array_at(&["admissionReviewVersions"]);
            let known = |v: &Value| v.as_str().is_some_and(|v| REVIEW_VERSIONS.contains(&v));
            !versions.is_empty() && !versions.iter().any(known)
        };
        let conditions = |hook: &'_ Value| hook.get("matchConditions").cloned();
        let names: HashSet<&str> = old.iter().map(|h| h.str_at(&["name"])).collect();
        Tolerance {
            same_match_conditions: new.len() == old.len()
                && new.iter().zip(old).all(|(n, o)| conditions(n) == conditions(o)),
            side_effects: old
                .iter()
                .any(|h| !NO_SIDE_EFFECTS.contains(&h.str_at(&["sideEffects"]))),
            unknown_review_versions: old.iter().any(unknown_versions),
            duplicate_names: names.len() < old.len(),
            invalid_selector_values: old
                .iter()
                .any(|h| SELECTORS.iter().any(|s| !selector_is_valid(h.get(s)))),
        }
    }
}

fn webhooks(hooks: Cursor<'_>, tolerance: Tolerance) {
    let mut seen = HashSet::new();
    for hook in hooks.items() {
        webhook(hook, tolerance);
        review_versions(hook.field("admissionReviewVersions"), tolerance);
        let name = hook.field("name");
        if !name.is_empty() && !seen.insert(name.str()) && !tolerance.duplicate_names {
            name.duplicate(name.str());
        }
    }
}

/// At least three segments.
fn fully_qualified(name: Cursor<'_>) {
    let wrong = names::dns1123_subdomain(name.str());
    if name.is_empty() {
        name.required("");
    } else if !wrong.is_empty() {
        name.invalid(name.str(), wrong.join(","));
    } else if name.str().split('.').count() < 3 {
        name.invalid(
            name.str(),
            "should be a domain with at least three segments separated by dots",
        );
    }
}

fn webhook(hook: Cursor<'_>, tolerance: Tolerance) {
    fully_qualified(hook.field("name"));
    hook.field("rules").items().for_each(rules::rule);
    texts::optional_one_of(hook.field("failurePolicy"), &FAILURE_POLICIES);
    texts::optional_one_of(hook.field("matchPolicy"), &MATCH_POLICIES);
    let allowed: &[&str] = if tolerance.side_effects {
        &SIDE_EFFECTS
    } else {
        &NO_SIDE_EFFECTS
    };
    let effects = hook.field("sideEffects");
    match effects.exists() {
        true => texts::one_of(effects, allowed),
        false => effects.required(format!("must specify one of {}", allowed.join(", "))),
    }
    if let Some(timeout) = hook.given("timeoutSeconds")
        && !(1..=30).contains(&timeout.int())
    {
        timeout.invalid(timeout.int(), "the timeout value must be between 1 and 30 seconds");
    }
    let invalid_values = tolerance.invalid_selector_values;
    for selector in SELECTORS {
        label_selector(hook.field(selector), Lenience { invalid_values });
    }
    if meta::gvk(hook.root()).kind == "MutatingWebhookConfiguration" {
        texts::optional_one_of(hook.field("reinvocationPolicy"), &REINVOCATION_POLICIES);
    }
    let client = hook.field("clientConfig");
    match (client.given("url"), client.given("service")) {
        (Some(url), None) => webhook_client::url(url),
        (None, Some(service)) => webhook_client::service(service),
        _ => client.required("exactly one of url or service is required"),
    }
    if !tolerance.same_match_conditions {
        match_conditions(hook.field("matchConditions"), false);
    }
}

fn review_versions(versions: Cursor<'_>, tolerance: Tolerance) {
    let accepted = REVIEW_VERSIONS.join(", ");
    if versions.is_empty() {
        return versions.required(format!("must specify one of {accepted}"));
    }
    let mut seen = HashSet::new();
    for version in versions.items() {
        if !seen.insert(version.str()) {
            version.invalid(version.str(), "duplicate version");
            continue;
        }
        version.invalid_text(names::dns1035_label(version.str()));
    }
    if !tolerance.unknown_review_versions && !REVIEW_VERSIONS.iter().any(|v| seen.contains(v)) {
        versions.invalid(versions.shown(), format!("must include at least one of {accepted}"));
    }
}
