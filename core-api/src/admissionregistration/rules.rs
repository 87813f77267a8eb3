//! Rules that say which requests a webhook or policy is asked about.

use std::collections::HashSet;

use triptych_object::names;

use crate::validation::{Cursor, names as rules};

/// Values of operations.
const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

fn has(list: Cursor<'_>, wanted: &str) -> bool {
    list.items().any(|item| item.str() == wanted)
}

/// `*` must be alone.
fn alone(list: Cursor<'_>, others: &str) {
    if list.len() > 1 && has(list, "*") {
        let detail = format!("if '*' is present, must not specify other {others}");
        list.invalid(list.shown(), detail);
    }
}

/// A RuleWithOperations.
pub fn rule(rule: Cursor<'_>) {
    let operations = rule.field("operations");
    if operations.is_empty() {
        operations.required("");
    }
    alone(operations, "operations");
    operations.items().for_each(|o| rules::one_of(o, &OPERATIONS));

    let (groups, versions) = (rule.field("apiGroups"), rule.field("apiVersions"));
    if groups.is_empty() {
        groups.required("");
    }
    alone(groups, "API groups");
    if versions.is_empty() {
        versions.required("");
    }
    alone(versions, "API versions");
    versions.items().for_each(rules::required);
    resources(rule.field("resources"));
    rules::optional_one_of(rule.field("scope"), &["*", "Cluster", "Namespaced"]);
}

fn resources(list: Cursor<'_>) {
    if list.is_empty() {
        list.required("");
    }
    let (mut all_of, mut in_all): (HashSet<&str>, HashSet<&str>) = Default::default();
    let mut last_without_subresource = "*";
    for item in list.items() {
        let text = item.str();
        let Some((resource, subresource)) = text.split_once('/') else {
            match text {
                "" => item.required(""),
                // only the last one counts, as in kube-apiserver
                _ => last_without_subresource = text,
            }
            continue;
        };
        if all_of.contains(resource) {
            item.invalid(text, format!("if '{resource}/*' is present, must not specify {text}"));
        }
        if in_all.contains(subresource) {
            item.invalid(
                text,
                format!("if '*/{subresource}' is present, must not specify {text}"),
            );
        }
        if subresource == "*" {
            all_of.insert(resource);
        }
        if resource == "*" {
            in_all.insert(subresource);
        }
    }
    if list.len() > 1 && has(list, "*/*") {
        list.invalid(list.shown(), "if '*/*' is present, must not specify other resources");
    }
    if has(list, "*") && last_without_subresource != "*" {
        list.invalid(
            list.shown(),
            "if '*' is present, must not specify other resources without subresources",
        );
    }
}

/// A NamedRuleWithOperations.
pub fn named_rule(named: Cursor<'_>) {
    let mut seen = HashSet::new();
    for name in named.field("resourceNames").items() {
        name.invalid_text(names::path_segment_name(name.str()));
        if !seen.insert(name.str()) {
            name.duplicate(name.str());
        }
    }
    rule(named);
}
