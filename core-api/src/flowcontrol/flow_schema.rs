//! FlowSchema: which requests belong to a flow, and at which priority level they are served.

use jiff::Timestamp;
use triptych_object::field::{Error, ErrorList};
use triptych_object::{Value, meta, names};
use triptych_registry::age::age;
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::strategy::{Context, Strategy};

use super::{conditions, has_wildcard, policy};
use crate::apps::workload::number;
use crate::validation::{Cursor, check, names as rules};

const MAX_PRECEDENCE: i64 = 10_000;
const VERBS: [&str; 9] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "proxy",
    "update",
    "watch",
];

/// The strategy of `flowschemas`.
pub struct FlowSchemas;

/// The strategy of `flowschemas/status`.
pub struct Status;

impl Strategy for FlowSchemas {
    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |schema| {
            let given = schema.field("spec");
            spec(given, meta::name(new));
            if let Some(fixed) = policy::mandatory_schema(meta::name(new))
                && given.value() != fixed.get("spec")
            {
                let detail = format!("spec of '{}' must equal the fixed value", meta::name(new));
                given.invalid(given.go_struct(), detail);
            }
            conditions(schema.field("status"));
        });
    }

    fn validate_update(&self, cx: &Context, new: &Value, _old: &Value, errors: &mut ErrorList) {
        self.validate_create(cx, new, errors);
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Whole
    }

    fn cells(&self, schema: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let mut found = schema.array_at(&["status", "conditions"]).iter();
        let dangling = found.find(|c| c.str_at(&["type"]) == "Dangling");
        let method = schema.at(&["spec", "distinguisherMethod"]);
        Some(vec![
            meta::name(schema).into(),
            schema.str_at(&["spec", "priorityLevelConfiguration", "name"]).into(),
            Value::Int(number(schema, &["spec", "matchingPrecedence"])),
            method.map_or("<none>", |m| m.str_at(&["type"])).into(),
            age(schema, now).into(),
            dangling.map_or("?", |c| c.str_at(&["status"])).into(),
        ])
    }
}

impl Strategy for Status {
    fn validate_update(&self, _cx: &Context, new: &Value, _old: &Value, errors: &mut ErrorList) {
        check(new, errors, |schema| conditions(schema.field("status")));
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::None
    }

    fn standard_finalizers(&self) -> bool {
        false
    }
}

fn spec(spec: Cursor<'_>, name: &str) {
    let precedence = spec.field("matchingPrecedence");
    let value = precedence.int();
    if value <= 0 {
        precedence.invalid(value, "must be a positive value");
    }
    if value > MAX_PRECEDENCE {
        precedence.invalid(value, format!("must not be greater than {MAX_PRECEDENCE}"));
    }
    if value == 1 && name != "exempt" {
        precedence.invalid(value, "only the schema named 'exempt' may have matchingPrecedence 1");
    }
    if let Some(method) = spec.given("distinguisherMethod") {
        const METHODS: [&str; 2] = ["ByNamespace", "ByUser"];
        let kind = method.field("type");
        if !METHODS.contains(&kind.str()) {
            // kube-apiserver shows the whole method
            method.push(Error::not_supported(kind.path(), method.go_struct(), &METHODS));
        }
    }
    let level = spec.field("priorityLevelConfiguration").field("name");
    if level.is_empty() {
        level.required("must reference a priority level");
    } else {
        rules::subdomain(level);
    }
    spec.field("rules").items().for_each(rule);
}

fn rule(rule: Cursor<'_>) {
    let subjects = rule.field("subjects");
    if subjects.is_empty() {
        subjects.required("subjects must contain at least one value");
    }
    subjects.items().for_each(subject);
    let (resources, others) = (rule.field("resourceRules"), rule.field("nonResourceRules"));
    if resources.is_empty() && others.is_empty() {
        rule.required("at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    resources.items().for_each(resource_rule);
    others.items().for_each(non_resource_rule);
}

fn subject(subject: Cursor<'_>) {
    // in the order in which kube-apiserver forbids them
    const MEMBERS: [(&str, &str); 3] = [
        ("serviceAccount", "ServiceAccount"),
        ("user", "User"),
        ("group", "Group"),
    ];
    let kind = subject.field("kind");
    let Some((member, _)) = MEMBERS.iter().find(|(_, k)| *k == kind.str()) else {
        return kind.not_supported(&["Group", "ServiceAccount", "User"]);
    };
    match subject.given(member) {
        None => {
            let detail = format!("{member} is required when subject kind is '{}'", kind.str());
            subject.field(member).required(detail);
        }
        Some(given) if *member == "serviceAccount" => service_account(given),
        Some(given) => rules::required(given.field("name")),
    }
    for (other, its_kind) in MEMBERS.iter().filter(|(other, _)| other != member) {
        if subject.has(other) {
            let detail = format!("{other} is forbidden when subject kind is not '{its_kind}'");
            subject.field(other).forbidden(detail);
        }
    }
}

fn service_account(account: Cursor<'_>) {
    let (name, namespace) = (account.field("name"), account.field("namespace"));
    match name.str() {
        "" => name.required(""),
        "*" => {}
        _ => rules::subdomain(name),
    }
    if namespace.is_empty() {
        namespace.required("must specify namespace for service account");
    } else {
        rules::label(namespace);
    }
}

fn verbs(verbs: Cursor<'_>) {
    let known = |v: Cursor<'_>| VERBS.contains(&v.str());
    if verbs.is_empty() {
        verbs.required("verbs must contain at least one value");
    } else if has_wildcard(verbs) {
        alone(verbs, "verbs");
    } else if !verbs.items().all(known) {
        verbs.push(Error::not_supported(verbs.path(), verbs.shown(), &VERBS));
    }
}

/// `*` makes the others superfluous.
fn alone(list: Cursor<'_>, others: &str) {
    if list.len() > 1 && has_wildcard(list) {
        let detail = format!("if '*' is present, must not specify other {others}");
        list.invalid(list.shown(), detail);
    }
}

fn resource_rule(rule: Cursor<'_>) {
    verbs(rule.field("verbs"));
    for (member, required, others) in [
        (
            "apiGroups",
            "resource rules must supply at least one api group",
            "api groups",
        ),
        (
            "resources",
            "resource rules must supply at least one resource",
            "resources",
        ),
    ] {
        let list = rule.field(member);
        if list.is_empty() {
            list.required(required);
        }
        alone(list, others);
    }
    let namespaces = rule.field("namespaces");
    if namespaces.is_empty() && !rule.is_true_of("clusterScope") {
        namespaces.required("resource rules that are not cluster scoped must supply at least one namespace");
    } else if has_wildcard(namespaces) {
        alone(namespaces, "namespaces");
    } else {
        for namespace in namespaces.items() {
            for message in names::dns1123_label(namespace.str()) {
                let detail = format!("each member of this list must be '*' or a DNS-1123 label; {message}");
                namespace.invalid(namespace.str(), detail);
            }
        }
    }
}

fn non_resource_rule(rule: Cursor<'_>) {
    verbs(rule.field("verbs"));
    let urls = rule.field("nonResourceURLs");
    if urls.is_empty() {
        urls.required("nonResourceURLs must contain at least one value");
    } else if has_wildcard(urls) {
        alone(urls, "non-resource URLs");
    } else {
        for url in urls.items() {
            if let Some(wrong) = path(url.str()) {
                url.invalid(url.str(), wrong);
            }
        }
    }
}

fn path(path: &str) -> Option<&'static str> {
    if path.is_empty() {
        return Some("must not be empty");
    }
    if path == "/" {
        return None;
    }
    if !path.starts_with('/') {
        return Some("must start with slash");
    }
    if path.contains(' ') {
        return Some("must not contain white-space");
    }
    if path.contains("//") {
        return Some("must not contain double slash");
    }
    let wildcards = path.matches('*').count();
    (wildcards > 1 || wildcards == 1 && !path.ends_with("/*")).then_some("wildcard can only do suffix matching")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_may_end_with_a_wildcard() {
        for good in ["/", "/healthz", "/api/*"] {
            assert_eq!(path(good), None, "{good}");
        }
        for bad in ["", "x", "/a b", "/a//b", "/a*", "/*/b", "/*/*"] {
            assert!(path(bad).is_some(), "{bad}");
        }
    }
}
