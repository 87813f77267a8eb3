//! Node selectors, affinity to nodes and pods, and the label keys that affinity and topology spread add to selectors.

use std::collections::HashMap;

use triptych_object::{Value, names};

use super::label_selector::{Lenience, label_selector};
use super::{Cursor, names as rules};

/// What stored objects may have that new ones may not.
#[derive(Clone, Copy, Debug, Default)]
pub struct AffinityLenience {
    /// Values of pod selectors that are no label values.
    pub selector_values: bool,
    /// Values in the required node affinity that are no label values.
    pub node_values: bool,
}

/// A NodeSelector: at least one term.
pub fn node_selector(c: Cursor<'_>, invalid_values: bool) {
    let terms = c.field("nodeSelectorTerms");
    if terms.is_empty() {
        terms.required("must have at least one node selector term");
        return;
    }
    terms.items().for_each(|term| node_selector_term(term, invalid_values));
}

/// A NodeSelectorTerm.
pub fn node_selector_term(c: Cursor<'_>, invalid_values: bool) {
    for requirement in c.field("matchExpressions").items() {
        node_selector_requirement(requirement, invalid_values);
    }
    for requirement in c.field("matchFields").items() {
        node_field_requirement(requirement);
    }
}

fn node_selector_requirement(c: Cursor<'_>, invalid_values: bool) {
    let (operator, values) = (c.field("operator"), c.field("values"));
    match operator.str() {
        "In" | "NotIn" => {
            if values.is_empty() {
                values.required("must be specified when `operator` is 'In' or 'NotIn'");
            }
        }
        "Exists" | "DoesNotExist" => {
            if !values.is_empty() {
                values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
        }
        "Gt" | "Lt" => {
            if values.len() != 1 {
                values.required("must be specified single value when `operator` is 'Lt' or 'Gt'");
            }
        }
        other => operator.invalid(other, "not a valid selector operator"),
    }
    rules::qualified(c.field("key"));
    if !invalid_values {
        for value in values.items() {
            value.invalid_text(names::label_value(value.str()));
        }
    }
}

fn node_field_requirement(c: Cursor<'_>) {
    let (operator, values, key) = (c.field("operator"), c.field("values"), c.field("key"));
    match operator.str() {
        "In" | "NotIn" => {
            if values.len() != 1 {
                values.required("must be only one value when `operator` is 'In' or 'NotIn' for node field selector");
            }
        }
        other => operator.invalid(other, "not a valid selector operator"),
    }
    if key.str() == "metadata.name" {
        values.items().for_each(rules::subdomain);
    } else {
        key.invalid(key.str(), "not a valid field selector key");
    }
}

/// A pod's Affinity, which may be absent.
pub fn affinity(c: Cursor<'_>, lenience: AffinityLenience) {
    if let Some(node) = c.given("nodeAffinity") {
        if let Some(required) = node.given("requiredDuringSchedulingIgnoredDuringExecution") {
            node_selector(required, lenience.node_values);
        }
        for term in node.field("preferredDuringSchedulingIgnoredDuringExecution").items() {
            weight(term);
            node_selector_term(term.field("preference"), true);
        }
    }
    for pods in ["podAffinity", "podAntiAffinity"] {
        let pods = c.field(pods);
        if !pods.exists() {
            continue;
        }
        for term in pods.field("requiredDuringSchedulingIgnoredDuringExecution").items() {
            pod_affinity_term(term, lenience);
        }
        for term in pods.field("preferredDuringSchedulingIgnoredDuringExecution").items() {
            weight(term);
            pod_affinity_term(term.field("podAffinityTerm"), lenience);
        }
    }
}

fn weight(c: Cursor<'_>) {
    let weight = c.field("weight");
    if !(1..=100).contains(&weight.int()) {
        weight.invalid(weight.int(), "must be in the range 1-100");
    }
}

fn pod_affinity_term(c: Cursor<'_>, lenience: AffinityLenience) {
    let lenience = Lenience {
        invalid_values: lenience.selector_values,
    };
    label_selector(c.field("labelSelector"), lenience);
    label_selector(c.field("namespaceSelector"), lenience);
    for namespace in c.field("namespaces").items() {
        for message in names::dns1123_label(namespace.str()) {
            c.alias("namespace").invalid(namespace.str(), message);
        }
    }
    match_label_keys(c, c.field("matchLabelKeys"), Some(c.field("mismatchLabelKeys")));
    let topology_key = c.field("topologyKey");
    if topology_key.str().is_empty() {
        topology_key.required("can not be empty");
    }
    rules::qualified(topology_key);
}

/// `matchLabelKeys` and `mismatchLabelKeys` of the term or constraint `c`, which the server merges into `labelSelector`.
pub fn match_label_keys(c: Cursor<'_>, matching: Cursor<'_>, mismatching: Option<Cursor<'_>>) {
    let selector = c.field("labelSelector");
    label_keys(matching, selector);
    if let Some(mismatching) = mismatching {
        label_keys(mismatching, selector);
    }
    if selector.exists() {
        let positions: HashMap<&str, usize> = matching.items().map(|k| k.str()).zip(0..).collect();
        let mut seen: Vec<&str> = selector_keys(selector, "matchLabels");
        for expression in selector.field("matchExpressions").items() {
            let key = expression.str_of("key");
            if let Some(position) = positions.get(key)
                && seen.contains(&key)
            {
                c.index(*position)
                    .invalid(key, "exists in both matchLabelKeys and labelSelector");
            }
            seen.push(key);
        }
    }
    let others: Vec<&str> = mismatching
        .into_iter()
        .flat_map(|m| m.items().map(|k| k.str()))
        .collect();
    for key in matching.items() {
        if others.contains(&key.str()) {
            key.invalid(key.str(), "exists in both matchLabelKeys and mismatchLabelKeys");
        }
    }
}

/// The rule on `matchLabelKeys` before the server merged them into the selector.
pub fn unmerged_match_label_keys(c: Cursor<'_>) {
    let (keys, selector) = (c.field("matchLabelKeys"), c.field("labelSelector"));
    if keys.is_empty() {
        return;
    }
    if !selector.exists() {
        keys.forbidden("must not be specified when labelSelector is not set");
    }
    let mut selected = selector_keys(selector, "matchLabels");
    selected.extend(selector.field("matchExpressions").items().map(|e| e.str_of("key")));
    for key in keys.items() {
        rules::qualified(key);
        if selected.contains(&key.str()) {
            key.invalid(key.str(), "exists in both matchLabelKeys and labelSelector");
        }
    }
}

fn selector_keys<'a>(selector: Cursor<'a>, member: &'a str) -> Vec<&'a str> {
    selector
        .field(member)
        .value()
        .and_then(Value::as_object)
        .map(|labels| labels.keys().collect())
        .unwrap_or_default()
}

fn label_keys(keys: Cursor<'_>, selector: Cursor<'_>) {
    if keys.is_empty() {
        return;
    }
    if !selector.exists() {
        keys.forbidden("must not be specified when labelSelector is not set");
        return;
    }
    keys.items().for_each(rules::qualified);
}
