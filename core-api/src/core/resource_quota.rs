//! ResourceQuota: hard limits, and to which objects scopes confine them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use triptych_object::field::{Error, ErrorList};
use triptych_object::{Value, meta};
use triptych_registry::age::age;
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::strategy::{Context, Strategy};

use crate::defaults;
use crate::validation::{Cursor, check, resource_names};

/// The strategy of `resourcequotas`.
pub struct ResourceQuotas;

/// The strategy of `resourcequotas/status`.
pub struct Status;

impl Strategy for ResourceQuotas {
    fn default(&self, quota: &mut Value) {
        defaults::resource_lists(quota, &[&["spec", "hard"], &["status", "hard"], &["status", "used"]]);
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |quota| {
            spec(quota.field("spec"));
            usage(quota.field("status"));
        });
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |quota| {
            spec(quota.field("spec"));
            let scopes = |object: &Value| -> BTreeSet<String> {
                let scopes = object.array_at(&["spec", "scopes"]).iter();
                scopes.filter_map(Value::as_str).map(str::to_owned).collect()
            };
            if scopes(new) != scopes(old) {
                let at = quota.field("spec").field("scopes");
                at.invalid(at.shown(), "field is immutable");
            }
        });
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }

    fn warnings(&self, _cx: &Context, new: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some() {
            return Vec::new();
        }
        let hard = |name: &str| new.at(&["spec", "hard", name]).and_then(resource_names::of);
        let mut warnings = Vec::new();
        for resource in ["cpu", "memory", "storage", "ephemeral-storage"] {
            let mut request_name = format!("requests.{resource}");
            let mut request = hard(&request_name);
            if request.is_none() && matches!(resource, "cpu" | "memory") {
                request = hard(resource);
                request_name = resource.to_owned();
            }
            let limit_name = format!("limits.{resource}");
            if let (Some(request), Some(limit)) = (request, hard(&limit_name))
                && request > limit
            {
                warnings.push(format!(
                    "ResourceQuota {request_name} ({request}) should be less than {limit_name} ({limit})"
                ));
            }
        }
        warnings
    }

    fn cells(&self, quota: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let hard = quota.at(&["status", "hard"]).and_then(Value::as_object);
        let mut names: Vec<&str> = hard.map(|h| h.keys().collect()).unwrap_or_default();
        names.sort_unstable();
        let (mut requests, mut limits) = (Vec::new(), Vec::new());
        for name in names {
            let read = |member: &str| match quota.str_at(&["status", member, name]) {
                "" => "0",
                text => text,
            };
            let text = format!("{name}: {}/{}", read("used"), read("hard"));
            let column = if name.starts_with("limits.") {
                &mut limits
            } else {
                &mut requests
            };
            column.push(text);
        }
        Some(vec![
            meta::name(quota).into(),
            requests.join(", ").into(),
            limits.join(", ").into(),
            age(quota, now).into(),
        ])
    }
}

impl Strategy for Status {
    fn default(&self, quota: &mut Value) {
        ResourceQuotas.default(quota);
    }

    fn validate_update(&self, _cx: &Context, new: &Value, _old: &Value, errors: &mut ErrorList) {
        check(new, errors, |quota| {
            if meta::resource_version(new).is_empty() {
                quota.push(Error::required("resourceVersion", ""));
            }
            usage(quota.field("status"));
        });
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }
}

fn quantities(list: Cursor<'_>) {
    for (name, quantity) in list.entries() {
        resource_names::quota_name(quantity, name);
        resource_names::quantity_of(quantity, name);
    }
}

fn usage(status: Cursor<'_>) {
    quantities(status.field("hard"));
    quantities(status.field("used"));
}

fn spec(spec: Cursor<'_>) {
    quantities(spec.field("hard"));
    scopes(spec);
    scope_selector(spec);
}

/// Resources limited by this spec, in order.
fn limited(spec: Cursor<'_>) -> BTreeSet<&str> {
    spec.field("hard").entries().map(|(name, _)| name).collect()
}

fn is_standard_scope(scope: &str) -> bool {
    const SCOPES: [&str; 7] = [
        "Terminating",
        "NotTerminating",
        "BestEffort",
        "NotBestEffort",
        "PriorityClass",
        "VolumeAttributesClass",
        "CrossNamespacePodAffinity",
    ];
    SCOPES.contains(&scope)
}

/// Whether a scope has a meaning for a resource that quota knows.
fn applies(scope: &str, resource: &str) -> bool {
    const COMPUTE: [&str; 6] = [
        "cpu",
        "memory",
        "limits.cpu",
        "limits.memory",
        "requests.cpu",
        "requests.memory",
    ];
    match scope {
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => {
            resource == "pods" || COMPUTE.contains(&resource)
        }
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

fn unfit(scope: &str, limited: &BTreeSet<&str>) -> usize {
    let unfit = |r: &&&str| resource_names::is_standard_for_quota(r) && !applies(scope, r);
    limited.iter().filter(unfit).count()
}

const CONFLICTS: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["NotTerminating", "Terminating"]];

fn scopes(spec: Cursor<'_>) {
    let scopes = spec.field("scopes");
    let limited = limited(spec);
    let mut seen = BTreeSet::new();
    for item in scopes.items() {
        if !is_standard_scope(item.str()) {
            scopes.invalid(scopes.shown(), "unsupported scope");
        }
        for _ in 0..unfit(item.str(), &limited) {
            scopes.invalid(scopes.shown(), "unsupported scope applied to resource");
        }
        seen.insert(item.str());
    }
    for pair in CONFLICTS {
        if pair.iter().all(|s| seen.contains(s)) {
            scopes.invalid(scopes.shown(), "conflicting scopes");
        }
    }
}

fn scope_selector(spec: Cursor<'_>) {
    let Some(selector) = spec.given("scopeSelector") else {
        return;
    };
    // kube-apiserver reports all expressions at the list
    let list = selector.field("matchExpressions");
    let path = list.path();
    let limited = limited(spec);
    let mut seen = BTreeSet::new();
    for requirement in list.items() {
        let at = |member: &str| format!("{path}.{member}");
        let (scope, operator) = (requirement.str_of("scopeName"), requirement.str_of("operator"));
        if !is_standard_scope(scope) {
            list.push(Error::invalid(at("scopeName"), scope, "unsupported scope"));
        }
        for _ in 0..unfit(scope, &limited) {
            list.invalid(selector.go_struct(), "unsupported scope applied to resource");
        }
        let only_exists = matches!(
            scope,
            "BestEffort" | "NotBestEffort" | "Terminating" | "NotTerminating" | "CrossNamespacePodAffinity"
        );
        if only_exists && operator != "Exists" {
            list.push(Error::invalid(at("operator"), operator, "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"));
        }
        let values = requirement.field("values");
        match operator {
            "In" | "NotIn" if values.is_empty() => list.push(Error::required(
                at("values"),
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            )),
            "Exists" | "DoesNotExist" if !values.is_empty() => list.push(Error::invalid(
                at("values"),
                values.shown(),
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => list.push(Error::invalid(
                at("operator"),
                operator,
                "not a valid selector operator",
            )),
        }
        seen.insert(scope);
    }
    for pair in CONFLICTS {
        if pair.iter().all(|s| seen.contains(s)) {
            list.invalid(spec.field("scopes").shown(), "conflicting scopes");
        }
    }
}
