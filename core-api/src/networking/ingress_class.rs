//! IngressClass: which controller serves the ingresses of a class.

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{Value, meta, names};
use triptych_registry::age::age;
use triptych_registry::strategy::{Context, Strategy};

use super::ingress::required_segment;
use crate::validation::{Cursor, check};

const MAX_CONTROLLER_BYTES: usize = 250;

/// The strategy of `ingressclasses`.
pub struct IngressClasses;

impl Strategy for IngressClasses {
    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |class| spec(class.field("spec")));
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |class| {
            let controller = class.field("spec").field("controller");
            if controller.str() != old.str_at(&["spec", "controller"]) {
                controller.invalid(controller.str(), "field is immutable");
            }
            spec(class.field("spec"));
        });
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let mut name = meta::name(object).to_owned();
        if meta::annotation(object, "ingressclass.kubernetes.io/is-default-class") == Some("true") {
            name.push_str(" (default)");
        }
        let parameters = object.at(&["spec", "parameters"]).map(|parameters| {
            let group = parameters.get("apiGroup").and_then(Value::as_str);
            let group = group.map(|g| format!(".{g}")).unwrap_or_default();
            format!(
                "{}{group}/{}",
                parameters.str_at(&["kind"]),
                parameters.str_at(&["name"])
            )
        });
        Some(vec![
            name.into(),
            object.str_at(&["spec", "controller"]).into(),
            parameters.unwrap_or_else(|| "<none>".to_owned()).into(),
            age(object, now).into(),
        ])
    }
}

fn spec(spec: Cursor<'_>) {
    let controller = spec.field("controller");
    if controller.len() > MAX_CONTROLLER_BYTES {
        controller.too_long(MAX_CONTROLLER_BYTES);
    }
    domain_prefixed_path(controller);
    if let Some(given) = spec.given("parameters") {
        parameters(given);
    }
}

/// `acme.io/foo`.
fn domain_prefixed_path(value: Cursor<'_>) {
    if value.is_empty() {
        value.required("");
        return;
    }
    match value.str().split_once('/') {
        Some((host, path)) if !host.is_empty() && !path.is_empty() => {
            for message in names::dns1123_subdomain(host) {
                value.invalid(host, message);
            }
            for message in names::http_path(path) {
                value.invalid(path, message);
            }
        }
        _ => value.invalid(value.str(), "must be a domain-prefixed path (such as \"acme.io/foo\")"),
    }
}

fn parameters(parameters: Cursor<'_>) {
    if let Some(group) = parameters.given("apiGroup") {
        group.invalid_text(names::dns1123_subdomain(group.str()));
    }
    for member in ["kind", "name"] {
        required_segment(parameters.field(member));
    }
    let Some(scope) = parameters.given("scope") else {
        parameters.field("scope").required("");
        return;
    };
    let namespace = parameters.given("namespace");
    match (scope.str(), namespace) {
        ("Namespace", None) => parameters
            .field("namespace")
            .required("`parameters.scope` is set to 'Namespace'"),
        ("Namespace", Some(namespace)) => namespace.invalid_text(names::dns1123_label(namespace.str())),
        ("Cluster", None) => {}
        ("Cluster", Some(namespace)) => namespace.forbidden("`parameters.scope` is set to 'Cluster'"),
        _ => scope.not_supported(&["Cluster", "Namespace"]),
    }
}
