//! The shape in which kube-apiserver validates and stores CRDs: what all versions have in common stands once.
//!
//! Contract: [`hoisted`] does to `spec` what the conversion from v1 to the internal version (and v1beta1, which has the
//! same shape) does: schema, subresources, columns and selectable fields that are the same in every version move from
//! `spec.versions` to `spec`, `spec.version` is the first one's name, a webhook's settings move up into `conversion`.
//! Member names inside stay those of v1. Error paths and the stored form depend on it.

use triptych_object::{Object, Value};

/// What moves: the member of a version, and the member of `spec` it becomes.
const SHARED: [(&str, &str); 4] = [
    ("subresources", "subresources"),
    ("schema", "validation"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

/// `spec` of v1 in the internal shape, members in v1beta1's order.
pub fn hoisted(spec: &Value) -> Value {
    let mut out = Object::new();
    let take = |name: &str| spec.get(name).cloned().filter(|v| !v.is_null());
    let mut versions: Vec<Value> = spec.array_at(&["versions"]).to_vec();
    let mut shared: Vec<(&str, Value)> = Vec::new();
    let first = versions.first().cloned().unwrap_or_default();
    for (member, name) in SHARED {
        let common = given(&first, member).cloned();
        if versions.iter().all(|v| given(v, member) == common.as_ref()) {
            for version in &mut versions {
                version.remove_at(&[member]);
            }
            shared.extend(common.map(|value| (name, value)));
        }
    }
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            out.insert(name, value);
        }
    };
    let common = |name: &str| shared.iter().find(|(n, _)| *n == name).map(|(_, v)| v.clone());
    put("group", take("group"));
    put(
        "version",
        Some(first.str_at(&["name"]).to_owned())
            .filter(|v| !v.is_empty())
            .map(Value::from),
    );
    put("names", take("names"));
    put("scope", take("scope"));
    put("validation", common("validation"));
    put("subresources", common("subresources"));
    put(
        "versions",
        spec.get("versions").map(|given| {
            if given.is_null() {
                Value::Null
            } else {
                Value::Array(versions)
            }
        }),
    );
    put("additionalPrinterColumns", common("additionalPrinterColumns"));
    put("selectableFields", common("selectableFields"));
    put("conversion", take("conversion").map(raised));
    let preserves = spec
        .get("preserveUnknownFields")
        .and_then(Value::as_bool)
        .unwrap_or(false);
    put("preserveUnknownFields", Some(Value::Bool(preserves)));
    Value::Object(out)
}

/// A member that is there; an empty list counts as absent, as Go's semantic equality has it.
fn given<'v>(version: &'v Value, member: &str) -> Option<&'v Value> {
    version.get(member).filter(|value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        _ => true,
    })
}

/// `conversion` with its webhook's settings in it.
fn raised(conversion: Value) -> Value {
    let mut out = Object::new();
    out.insert(
        "strategy",
        conversion.get("strategy").cloned().unwrap_or_else(|| "".into()),
    );
    if let Some(client) = conversion.at(&["webhook", "clientConfig"]).filter(|c| !c.is_null()) {
        out.insert("webhookClientConfig", client.clone());
    }
    if let Some(versions) = conversion
        .at(&["webhook", "conversionReviewVersions"])
        .filter(|v| !v.is_null())
    {
        out.insert("conversionReviewVersions", versions.clone());
    }
    Value::Object(out)
}

/// The way back: `spec` of v1 of the internal shape.
pub fn lowered(spec: &Value) -> Value {
    let mut out = Object::new();
    for name in ["group", "names", "scope"] {
        if let Some(value) = spec.get(name) {
            out.insert(name, value.clone());
        }
    }
    let mut versions = spec.array_at(&["versions"]).to_vec();
    if versions.is_empty() && !spec.str_at(&["version"]).is_empty() {
        versions.push(Value::from([
            ("name", spec.str_at(&["version"]).into()),
            ("served", Value::Bool(true)),
            ("storage", Value::Bool(true)),
        ]));
    }
    for version in &mut versions {
        for (member, name) in SHARED {
            if let Some(value) = given(spec, name) {
                version.set_at(&[member], value.clone());
            }
        }
        *version = ordered(version);
    }
    out.insert("versions", Value::Array(versions));
    if let Some(conversion) = spec.get("conversion") {
        out.insert("conversion", sunk(conversion));
    }
    if spec.get("preserveUnknownFields").and_then(Value::as_bool) == Some(true) {
        out.insert("preserveUnknownFields", Value::Bool(true));
    }
    Value::Object(out)
}

/// A version's members in the order of the type.
fn ordered(version: &Value) -> Value {
    const ORDER: [&str; 9] = [
        "name",
        "served",
        "storage",
        "deprecated",
        "deprecationWarning",
        "schema",
        "subresources",
        "additionalPrinterColumns",
        "selectableFields",
    ];
    let mut out = Object::new();
    for name in ORDER {
        if let Some(value) = version.get(name) {
            out.insert(name, value.clone());
        }
    }
    Value::Object(out)
}

fn sunk(conversion: &Value) -> Value {
    let mut out = Object::new();
    out.insert(
        "strategy",
        conversion.get("strategy").cloned().unwrap_or_else(|| "".into()),
    );
    let client = conversion.get("webhookClientConfig").filter(|c| !c.is_null());
    let versions = conversion.get("conversionReviewVersions").filter(|v| !v.is_null());
    if client.is_some() || versions.is_some() {
        let mut webhook = Object::new();
        if let Some(client) = client {
            webhook.insert("clientConfig", client.clone());
        }
        webhook.insert("conversionReviewVersions", versions.cloned().unwrap_or(Value::Null));
        out.insert("webhook", Value::Object(webhook));
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_object::json;

    #[test]
    fn what_all_versions_have_in_common_stands_once_and_comes_back() {
        let text = r#"{"group":"a.b","names":{"plural":"x"},"scope":"Cluster","versions":[
            {"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}},"additionalPrinterColumns":[{"name":"A"}]},
            {"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}}],
            "conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"url":"https://x"},"conversionReviewVersions":["v1"]}}}"#;
        let spec = json::from_slice(text.as_bytes()).unwrap();
        let internal = hoisted(&spec);
        assert_eq!(internal.str_at(&["validation", "openAPIV3Schema", "type"]), "object");
        assert_eq!(internal.str_at(&["version"]), "v1");
        assert!(internal.array_at(&["versions"])[0].get("schema").is_none());
        assert!(internal.get("additionalPrinterColumns").is_none());
        assert_eq!(
            internal.str_at(&["conversion", "webhookClientConfig", "url"]),
            "https://x"
        );
        assert_eq!(lowered(&internal), spec);
    }
}
