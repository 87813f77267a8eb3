//! What makes a schema structural (KEP-1101), in the words of apiextensions-apiserver's `schema.ValidateStructural`.
//!
//! Contract: [`convertible`] must hold before [`check`] is asked. Errors come sorted by their text.

use triptych_object::Value;
use triptych_object::field::{Error, ErrorList};
use triptych_schema::go_regex;

use super::schema_walk::{child, flag, given, list, map, text};

/// Why a schema cannot even be looked at as a structural one.
pub fn convertible(schema: &Value) -> Result<(), String> {
    let unsupported = |name: &str| Err(format!("OpenAPIV3Schema '{name}' is not supported"));
    if !text(schema, "id").is_empty() {
        return unsupported("id");
    }
    if !text(schema, "$schema").is_empty() {
        return unsupported("schema");
    }
    if !text(schema, "$ref").is_empty() {
        return unsupported("$ref");
    }
    for name in ["patternProperties", "dependencies", "additionalItems", "definitions"] {
        if given(schema, name).is_some_and(|v| v.as_object().is_none_or(|m| !m.is_empty())) {
            return unsupported(name);
        }
    }
    if given(schema, "x-kubernetes-preserve-unknown-fields").and_then(Value::as_bool) == Some(false) {
        return Err("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined".to_owned());
    }
    for name in ["not", "additionalProperties"] {
        child(schema, name).map_or(Ok(()), convertible)?;
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        list(schema, name).iter().try_for_each(convertible)?;
    }
    if !list(schema, "items").is_empty() {
        return Err("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    child(schema, "items").map_or(Ok(()), convertible)?;
    map(schema, "properties").try_for_each(|(_, property)| convertible(property))
}

/// Everything that keeps a schema from being structural.
pub fn check(schema: &Value, path: &str) -> ErrorList {
    let mut checker = Checker { errors: Vec::new() };
    checker.invariants(schema, Level::Root, path);
    checker.complete(schema, schema, path, path);
    let mut errors = checker.errors;
    errors.sort_by_cached_key(ToString::to_string);
    errors.into_iter().collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

struct Checker {
    errors: Vec<Error>,
}

fn key(path: &str, of: &str, key: &str) -> String {
    format!("{path}.{of}[{key}]")
}

impl Checker {
    fn push(&mut self, error: Error) {
        if self.errors.len() < ErrorList::LIMIT {
            self.errors.push(error);
        }
    }

    fn forbid(&mut self, path: String, why: &str) {
        self.push(Error::forbidden(path, why));
    }

    fn invariants(&mut self, s: &Value, level: Level, path: &str) {
        let kind = text(s, "type");
        let items = child(s, "items");
        if kind == "array" && items.is_none() {
            self.push(Error::required(format!("{path}.items"), "must be specified"));
        }
        if let Some(items) = items {
            self.invariants(items, Level::Item, &format!("{path}.items"));
        }
        for (name, property) in map(s, "properties") {
            self.invariants(property, Level::Field, &key(path, "properties", name));
        }
        let additional = given(s, "additionalProperties");
        if additional.is_some() {
            let path = format!("{path}.additionalProperties");
            if level == Level::Root {
                self.forbid(path.clone(), "must not be used at the root");
            }
            if let Some(values) = child(s, "additionalProperties") {
                self.invariants(values, Level::Field, &path);
            }
        }
        self.extensions(s, path);
        self.value_validation(s, is_int_or_string(list(s, "anyOf")), is_int_or_string_all_of(s), path);
        self.type_given(s, level, path);
        if level == Level::Root && !kind.is_empty() && kind != "object" {
            self.push(Error::invalid(
                format!("{path}.type"),
                kind,
                "must be object at the root",
            ));
        }
        self.metadata(s, level, path);
        let embedded = flag(s, "x-kubernetes-embedded-resource");
        let preserves = flag(s, "x-kubernetes-preserve-unknown-fields");
        if embedded && !preserves && map(s, "properties").next().is_none() {
            let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
            self.push(Error::required(format!("{path}.properties"), why));
        }
    }

    fn extensions(&mut self, s: &Value, path: &str) {
        if !flag(s, "x-kubernetes-int-or-string") {
            return;
        }
        for name in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
            if flag(s, name) {
                let why = "must be false if x-kubernetes-int-or-string is true";
                self.push(Error::invalid(format!("{path}.{name}"), true, why));
            }
        }
    }

    fn type_given(&mut self, s: &Value, level: Level, path: &str) {
        let kind = text(s, "type");
        let embedded = flag(s, "x-kubernetes-embedded-resource");
        let at = format!("{path}.type");
        if embedded && kind != "object" {
            let why = "must be object if x-kubernetes-embedded-resource is true";
            self.push(match kind {
                "" => Error::required(at, why),
                kind => Error::invalid(at, kind, why),
            });
        } else if kind.is_empty()
            && !flag(s, "x-kubernetes-int-or-string")
            && !flag(s, "x-kubernetes-preserve-unknown-fields")
        {
            let why = match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            };
            self.push(Error::required(at, why));
        }
        if embedded && given(s, "additionalProperties").is_some() {
            let why = "must not be used if x-kubernetes-embedded-resource is set";
            self.forbid(format!("{path}.additionalProperties"), why);
        }
    }

    fn metadata(&mut self, s: &Value, level: Level, path: &str) {
        let whole = level == Level::Root || flag(s, "x-kubernetes-embedded-resource");
        let property = |name: &str| s.at(&["properties", name]);
        for name in ["kind", "apiVersion"] {
            let found = property(name).filter(|p| whole && text(p, "type") != "string");
            if let Some(found) = found {
                let at = format!("{}.type", key(path, "properties", name));
                self.push(Error::invalid(at, text(found, "type"), "must be string"));
            }
        }
        let Some(metadata) = property("metadata") else { return };
        let at = key(path, "properties", "metadata");
        if whole && text(metadata, "type") != "object" {
            self.push(Error::invalid(
                format!("{at}.type"),
                text(metadata, "type"),
                "must be object",
            ));
        }
        if level == Level::Root && !says_only_names(metadata) {
            let why =
                "must not specify anything other than name and generateName, but metadata is implicitly specified";
            self.forbid(at, why);
        }
    }

    fn value_validation(&mut self, v: &Value, skip_any_of: bool, skip_first_all_of: bool, path: &str) {
        if !skip_any_of {
            for (i, s) in list(v, "anyOf").iter().enumerate() {
                self.nested(s, false, &format!("{path}.anyOf[{i}]"));
            }
        }
        for (i, s) in list(v, "allOf").iter().enumerate() {
            self.nested(s, skip_first_all_of && i == 0, &format!("{path}.allOf[{i}]"));
        }
        for (i, s) in list(v, "oneOf").iter().enumerate() {
            self.nested(s, false, &format!("{path}.oneOf[{i}]"));
        }
        if let Some(not) = child(v, "not") {
            self.nested(not, false, &format!("{path}.not"));
        }
        let pattern = text(v, "pattern");
        if !pattern.is_empty()
            && let Err(why) = go_regex::compile(pattern)
        {
            let detail = format!("must be a valid regular expression, but isn't: {why}");
            self.push(Error::invalid(format!("{path}.pattern"), pattern, detail));
        }
    }

    fn nested(&mut self, v: &Value, skip_any_of: bool, path: &str) {
        self.value_validation(v, skip_any_of, false, path);
        if let Some(items) = child(v, "items") {
            self.nested(items, false, &format!("{path}.items"));
        }
        for (name, property) in map(v, "properties") {
            self.nested(property, false, &key(path, "properties", name));
        }
        let additional = match given(v, "additionalProperties") {
            Some(Value::Bool(allowed)) => *allowed,
            given => given.is_some(),
        };
        let there = |name: &str| given(v, name).is_some();
        for (wrong, name, why) in [
            (!text(v, "type").is_empty(), "type", "must be empty to be structural"),
            (additional, "additionalProperties", "must be undefined to be structural"),
            (there("default"), "default", "must be undefined to be structural"),
            (!text(v, "title").is_empty(), "title", "must be empty to be structural"),
            (
                !text(v, "description").is_empty(),
                "description",
                "must be empty to be structural",
            ),
            (flag(v, "nullable"), "nullable", "must be false to be structural"),
            (
                flag(v, "x-kubernetes-preserve-unknown-fields"),
                "x-kubernetes-preserve-unknown-fields",
                "must be false to be structural",
            ),
            (
                flag(v, "x-kubernetes-embedded-resource"),
                "x-kubernetes-embedded-resource",
                "must be false to be structural",
            ),
            (
                flag(v, "x-kubernetes-int-or-string"),
                "x-kubernetes-int-or-string",
                "must be false to be structural",
            ),
            (
                !list(v, "x-kubernetes-list-map-keys").is_empty(),
                "x-kubernetes-list-map-keys",
                "must be empty to be structural",
            ),
            (
                there("x-kubernetes-list-type"),
                "x-kubernetes-list-type",
                "must be undefined to be structural",
            ),
            (
                there("x-kubernetes-map-type"),
                "x-kubernetes-map-type",
                "must be undefined to be structural",
            ),
            (
                !list(v, "x-kubernetes-validations").is_empty(),
                "x-kubernetes-validations",
                "must be empty to be structural",
            ),
        ] {
            if wrong {
                self.forbid(format!("{path}.{name}"), why);
            }
        }
        if v.at(&["properties", "metadata"]).is_some() {
            self.forbid(
                key(path, "properties", "metadata"),
                "must not be specified in a nested context",
            );
        }
    }

    /// Every place that nested validation speaks of must be declared: `s` is the structural node there.
    fn complete(&mut self, v: &Value, s: &Value, s_path: &str, v_path: &str) {
        if let Some(not) = child(v, "not") {
            self.complete_nested(not, Some(s), s_path, &format!("{v_path}.not"));
        }
        for name in ["allOf", "anyOf", "oneOf"] {
            for (i, clause) in list(v, name).iter().enumerate() {
                self.complete_nested(clause, Some(s), s_path, &format!("{v_path}.{name}[{i}]"));
            }
        }
    }

    fn complete_nested(&mut self, v: &Value, s: Option<&Value>, s_path: &str, v_path: &str) {
        let Some(s) = s else {
            self.push(Error::required(s_path, format!("because it is defined in {v_path}")));
            return;
        };
        self.complete(v, s, s_path, v_path);
        if let Some(items) = child(v, "items") {
            let (s_path, v_path) = (format!("{s_path}.items"), format!("{v_path}.items"));
            self.complete_nested(items, child(s, "items"), &s_path, &v_path);
        }
        for (name, property) in map(v, "properties") {
            let (s_path, v_path) = (key(s_path, "properties", name), key(v_path, "properties", name));
            self.complete_nested(property, s.at(&["properties", name]), &s_path, &v_path);
        }
    }
}

/// Metadata at the root may be an object with constraints on `name` and `generateName`, no more.
fn says_only_names(metadata: &Value) -> bool {
    let properties: Vec<&str> = map(metadata, "properties").map(|(name, _)| name).collect();
    let only_names = !properties.is_empty() && properties.iter().all(|p| matches!(*p, "name" | "generateName"));
    let members = metadata.as_object().into_iter().flat_map(|m| m.keys());
    members.into_iter().all(|member| match member {
        "type" | "default" => true,
        "properties" => only_names || properties.is_empty(),
        _ => false,
    })
}

/// `anyOf: [{type: integer}, {type: string}]`, which int-or-string fields may say.
fn is_int_or_string(any_of: &[Value]) -> bool {
    let only = |s: &Value, kind: &str| s.as_object().is_some_and(|m| m.len() == 1) && text(s, "type") == kind;
    matches!(any_of, [a, b] if only(a, "integer") && only(b, "string"))
}

fn is_int_or_string_all_of(s: &Value) -> bool {
    list(s, "allOf")
        .first()
        .is_some_and(|first| is_int_or_string(list(first, "anyOf")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_object::json;

    fn errors(schema: &str) -> String {
        check(&json::from_slice(schema.as_bytes()).unwrap(), "s").aggregate()
    }

    #[test]
    fn structural_schemas_pass() {
        for schema in [
            r#"{"type":"object","properties":{"metadata":{"type":"object","properties":{"name":{"type":"string"}}}}}"#,
            r#"{"type":"object","properties":{"a":{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]}}}"#,
            r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true}"#,
        ] {
            assert_eq!(errors(schema), "", "{schema}");
        }
    }

    #[test]
    fn others_are_told_what_is_wrong() {
        for (schema, want) in [
            (r#"{}"#, "s.type: Required value: must not be empty at the root"),
            (
                r#"{"type":"object","properties":{"a":{}}}"#,
                "s.properties[a].type: Required value: must not be empty for specified object fields",
            ),
            (
                r#"{"type":"object","anyOf":[{"properties":{"a":{"minimum":1}}}]}"#,
                "s.properties[a]: Required value: because it is defined in s.anyOf[0].properties[a]",
            ),
            (
                r#"{"type":"object","allOf":[{"type":"object"}]}"#,
                "s.allOf[0].type: Forbidden: must be empty to be structural",
            ),
            (
                r#"{"type":"object","properties":{"metadata":{"type":"object","description":"x"}}}"#,
                "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
            ),
        ] {
            assert_eq!(errors(schema), want, "{schema}");
        }
    }
}
