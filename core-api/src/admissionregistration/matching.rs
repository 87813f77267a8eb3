//! What webhooks and policies match besides rules: match conditions, match resources, parameters.

use std::collections::HashSet;

use triptych_admission::expression::compile::{Compiler, Returns, Uses};
use triptych_cel::Program;
use triptych_object::{Value, names};

use super::rules::named_rule;
use crate::validation::label_selector::{Lenience, label_selector};
use crate::validation::{Cursor, names as rules};

/// Values of `failurePolicy`.
pub const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];
/// Values of `matchPolicy`.
pub const MATCH_POLICIES: [&str; 2] = ["Equivalent", "Exact"];
/// Values of `reinvocationPolicy`.
pub const REINVOCATION_POLICIES: [&str; 2] = ["IfNeeded", "Never"];
const MUTATING_OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];
const MAX_CONDITIONS: usize = 64;

/// Match conditions, which may use parameters if there can be some.
pub fn match_conditions(conditions: Cursor<'_>, params: bool) {
    let compiler = Compiler::default();
    let uses = Uses {
        params,
        authorizer: true,
        patches: false,
    };
    if conditions.len() > MAX_CONDITIONS {
        conditions.too_many(MAX_CONDITIONS);
    }
    let mut seen = HashSet::new();
    for condition in conditions.items() {
        let (name, expression) = (condition.field("name"), condition.field("expression"));
        match expression.str().trim() {
            "" => expression.required(""),
            text => compiles(expression, text, compiler.compile(text, uses, Returns::Bool)),
        }
        if name.is_empty() {
            name.required("");
            continue;
        }
        rules::qualified(name);
        if !seen.insert(name.str()) {
            name.duplicate(name.str());
        }
    }
}

/// Tells what is wrong with an expression, shown as `text`.
pub fn compiles(expression: Cursor<'_>, text: &str, compiled: Result<Program, String>) {
    if let Err(why) = compiled {
        expression.invalid(text, why);
    }
}

/// A MatchResources, which may be absent. A policy that mutates cannot match every operation.
pub fn match_resources(c: Cursor<'_>, mutates: bool) {
    if !c.exists() {
        return;
    }
    rules::required_one_of(c.field("matchPolicy"), &MATCH_POLICIES);
    for member in ["namespaceSelector", "objectSelector"] {
        match c.given(member) {
            Some(selector) => label_selector(selector, Lenience::default()),
            None => c.field(member).required(""),
        }
    }
    let included = c.field("resourceRules");
    included.items().for_each(named_rule);
    c.field("excludeResourceRules").items().for_each(named_rule);
    if mutates {
        for operation in included.items().flat_map(|rule| rule.field("operations").items()) {
            let place = included.alias("operations");
            rules::one_of(operation.reported_at(place), &MUTATING_OPERATIONS);
        }
    }
}

/// The kind of a policy's parameters.
pub fn param_kind(c: Cursor<'_>) {
    let (version, kind) = (c.field("apiVersion"), c.field("kind"));
    match version.str() {
        "" => version.required(""),
        text if text.matches('/').count() > 1 => {
            version.invalid(text, format!("unexpected GroupVersion string: {text}"));
        }
        text => {
            let (group, name) = text.split_once('/').unwrap_or(("", text));
            let wrong = names::dns1123_subdomain(group);
            if !group.is_empty() && !wrong.is_empty() {
                version.invalid(group, wrong.join(","));
            }
            let wrong = names::dns1035_label(name);
            if name.is_empty() {
                version.invalid(text, "version must be specified");
            } else if !wrong.is_empty() {
                version.invalid(name, wrong.join(","));
            }
        }
    }
    if kind.is_empty() {
        return kind.required("");
    }
    let wrong = names::dns1035_label(&kind.str().to_lowercase());
    if !wrong.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
        kind.invalid(kind.str(), detail);
    }
}

/// The parameters that a binding names, which may be absent.
pub fn param_ref(c: Cursor<'_>) {
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    if !c.exists() {
        return;
    }
    let (name, selector) = (c.field("name"), c.given("selector"));
    if !name.is_empty() {
        name.invalid_text(names::path_segment_name(name.str()));
        if selector.is_some() {
            name.forbidden(EXCLUSIVE);
        }
    }
    if let Some(selector) = selector {
        label_selector(selector, Lenience::default());
        if !name.is_empty() {
            selector.forbidden(EXCLUSIVE);
        }
    } else if name.is_empty() {
        c.required("one of name or selector must be specified");
    }
    // in the order in which Go names them
    rules::required_one_of(c.field("parameterNotFoundAction"), &["Deny", "Allow"]);
}

/// Parameters as a table shows them.
pub fn shown_param_ref(reference: Option<&Value>) -> String {
    let Some(reference) = reference else {
        return "<unset>".into();
    };
    let (namespace, name) = (reference.str_at(&["namespace"]), reference.str_at(&["name"]));
    match (namespace, name, reference.get("selector")) {
        (_, "", Some(selector)) => go_selector(selector),
        (_, "", None) => "<unset>".into(),
        ("", name, _) => format!("*/{name}"),
        (namespace, name, _) => format!("{namespace}/{name}"),
    }
}

/// A label selector as Go prints the struct.
fn go_selector(selector: &Value) -> String {
    let mut labels: Vec<(&str, &str)> = selector
        .get("matchLabels")
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(|l| l.iter())
        .map(|(key, value)| (key, value.as_str().unwrap_or("")))
        .collect();
    labels.sort_unstable();
    let labels: String = labels.iter().map(|(key, value)| format!("{key}: {value},")).collect();
    let requirements: String = selector
        .array_at(&["matchExpressions"])
        .iter()
        .map(|r| {
            let values: Vec<&str> = r.array_at(&["values"]).iter().filter_map(Value::as_str).collect();
            format!(
                "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
                r.str_at(&["key"]),
                r.str_at(&["operator"]),
                values.join(" ")
            )
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{requirements}}},}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_object::json;

    #[test]
    fn selectors_show_as_go_structs() {
        let reference = json::from_slice(
            br#"{"selector":{"matchLabels":{"b":"2","a":"1"},"matchExpressions":[{"key":"k","operator":"In","values":["x","y"]}]}}"#,
        )
        .unwrap();
        assert_eq!(
            shown_param_ref(Some(&reference)),
            "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},},}"
        );
        assert_eq!(shown_param_ref(Some(&Value::from([("name", "n".into())]))), "*/n");
    }
}
