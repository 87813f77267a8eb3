//! A CRD's structural schema as the OpenAPI documents show it.

use triptych_object::{Object, Value};

use crate::openapi::definition::{Dialect, text};

/// What a schema says of the value itself.
const PLAIN: [&str; 29] = [
    "description",
    "type",
    "nullable",
    "format",
    "title",
    "default",
    "example",
    "externalDocs",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "enum",
    "maxProperties",
    "minProperties",
    "required",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
];
const JUNCTORS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

fn plain(schema: &Value) -> Object {
    let mut out = Object::new();
    for name in PLAIN {
        // any value but null is a default or an example
        let said = |v: &&Value| meaningful(v) || matches!(name, "default" | "example") && !v.is_null();
        if let Some(value) = schema.get(name).filter(said) {
            out.insert(name, value.clone());
        }
    }
    if let Some(rules) = schema.get("x-kubernetes-validations").filter(|v| meaningful(v)) {
        out.insert("x-kubernetes-validations", rules.clone());
    }
    out
}

/// What Go does not write: false, nothing, empty text and lists.
fn meaningful(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(s) => !s.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => true,
    }
}

pub(super) fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool) == Some(true)
}

/// A structural schema as it is published.
pub(super) fn structural(schema: &Value, dialect: Dialect) -> Value {
    let v2 = dialect == Dialect::V2;
    let mut out = plain(schema);
    let nullable = flag(schema, "nullable");
    let preserves = flag(schema, "x-kubernetes-preserve-unknown-fields");
    let children = !(v2 && (nullable || preserves));
    if children && let Some(items) = schema.get("items").filter(|i| i.as_object().is_some()) {
        out.insert("items", structural(items, dialect));
    }
    if children && let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let mut sorted: Object = properties
            .iter()
            .map(|(n, p)| (n.to_owned(), structural(p, dialect)))
            .collect();
        sorted.sort();
        if !sorted.is_empty() {
            out.insert("properties", Value::Object(sorted));
        }
    }
    match schema.get("additionalProperties") {
        Some(values @ Value::Object(_)) => drop(out.insert("additionalProperties", structural(values, dialect))),
        Some(allowed @ Value::Bool(_)) => drop(out.insert("additionalProperties", allowed.clone())),
        _ => {}
    }
    if v2 {
        simplify(&mut out, schema, children);
    } else {
        for name in JUNCTORS {
            if let Some(list) = schema.get(name).and_then(Value::as_array).filter(|l| !l.is_empty()) {
                out.insert(name, Value::Array(list.iter().map(nested).collect()));
            }
        }
        if let Some(not) = schema.get("not").filter(|n| n.as_object().is_some()) {
            out.insert("not", nested(not));
        }
        if flag(schema, "x-kubernetes-int-or-string") {
            unfold(&mut out);
        }
    }
    Value::Object(out)
}

/// What kubectl's parser of v2 cannot read goes: nothing with `nullable` has a type, nothing that keeps unknown fields
/// has known ones, arrays have items or no type.
fn simplify(out: &mut Object, schema: &Value, children: bool) {
    out.remove("default");
    let nullable = out.remove("nullable").is_some();
    let is_type = |out: &Object, name: &str| out.get("type").and_then(Value::as_str) == Some(name);
    let headless = is_type(out, "array") && !out.contains_key("items");
    let opaque = is_type(out, "object") && flag(schema, "x-kubernetes-preserve-unknown-fields");
    if nullable || headless || opaque {
        out.remove("type");
    }
    let nullable = |s: Option<&Value>| s.is_some_and(|s| flag(s, "nullable"));
    if let Some(Value::Array(required)) = out.get_mut("required") {
        if nullable(schema.get("additionalProperties")) {
            required.clear();
        } else if children {
            required.retain(|name| !nullable(schema.at(&["properties", name.as_str().unwrap_or_default()])));
        }
        if required.is_empty() {
            out.remove("required");
        }
    }
}

/// A schema below `allOf`, `anyOf`, `oneOf`, `not`.
fn nested(schema: &Value) -> Value {
    let mut out = plain(schema);
    if let Some(items) = schema.get("items").filter(|i| i.as_object().is_some()) {
        out.insert("items", nested(items));
    }
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let mut sorted: Object = properties.iter().map(|(n, p)| (n.to_owned(), nested(p))).collect();
        sorted.sort();
        out.insert("properties", Value::Object(sorted));
    }
    for name in JUNCTORS {
        if let Some(list) = schema.get(name).and_then(Value::as_array).filter(|l| !l.is_empty()) {
            out.insert(name, Value::Array(list.iter().map(nested).collect()));
        }
    }
    if let Some(not) = schema.get("not").filter(|n| n.as_object().is_some()) {
        out.insert("not", nested(not));
    }
    Value::Object(out)
}

/// Says in plain schema what `x-kubernetes-int-or-string` says, unless the CRD does already.
fn unfold(out: &mut Object) {
    let either = ["integer", "string"].map(|t| Value::from([("type", text(t))]));
    let either = Value::Array(either.into());
    let said = out.get("anyOf") == Some(&either);
    let said_in_all = out
        .get("allOf")
        .and_then(|all| all.as_array()?.first()?.get("anyOf"))
        .is_some_and(|any| *any == either);
    if said || said_in_all {
        return;
    }
    if !out.contains_key("anyOf") {
        out.insert("anyOf", either);
        return;
    }
    let mut all = vec![Value::from([("anyOf", either)])];
    if let Some(Value::Array(others)) = out.remove("allOf") {
        all.extend(others);
    }
    out.insert("allOf", Value::Array(all));
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_object::json;

    fn published(schema: &str, dialect: Dialect) -> Value {
        structural(&json::from_slice(schema.as_bytes()).unwrap(), dialect)
    }

    #[test]
    fn v2_hides_what_old_clients_cannot_read() {
        let schema = r#"{"type":"object","required":["a","b"],"properties":{"a":{"type":"string","nullable":true,"default":"x"},"b":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"c":{"type":"string"}}},"l":{"type":"array","items":{"type":"integer"},"anyOf":[{"minItems":1}]}}}"#;
        assert_eq!(
            json::to_string(&published(schema, Dialect::V2)),
            r#"{"type":"object","required":["b"],"properties":{"a":{},"b":{"x-kubernetes-preserve-unknown-fields":true},"l":{"type":"array","items":{"type":"integer"}}}}"#
        );
    }

    #[test]
    fn an_int_or_string_is_unfolded_in_v3_once() {
        let either = r#"{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]}"#;
        assert_eq!(
            json::to_string(&published(r#"{"x-kubernetes-int-or-string":true}"#, Dialect::V3)),
            either
        );
        assert_eq!(json::to_string(&published(either, Dialect::V3)), either);
    }

    #[test]
    fn a_default_is_shown_even_when_it_is_false_or_empty() {
        let schema = r#"{"type":"boolean","nullable":false,"default":false}"#;
        let shown = json::to_string(&published(schema, Dialect::V3));
        assert_eq!(shown, r#"{"type":"boolean","default":false}"#);
        assert_eq!(
            json::to_string(&published(schema, Dialect::V2)),
            r#"{"type":"boolean"}"#
        );
    }
}
