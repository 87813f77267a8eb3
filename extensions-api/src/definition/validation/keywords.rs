//! What a CRD's schema may say, keyword by keyword (`ValidateCustomResourceDefinitionOpenAPISchema`).
//!
//! Contract: these are the checks that hold for structural and other schemas alike. Rules in `x-kubernetes-validations`
//! are checked for their form; [`Expressions`] compiles those of structural schemas in which nothing else is wrong.

use triptych_object::Value;
use triptych_object::field::{Error, ErrorList};

use super::expressions::{Expressions, Scope};
use super::schema_walk::{any, child, flag, given, list, map, text};
use super::{Options, field_path, go_form, structural};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

/// Whether a schema names a type that does not exist.
pub fn has_unknown_types(schema: &Value) -> bool {
    any(schema, &|s| {
        !text(s, "type").is_empty() && !TYPES.contains(&text(s, "type"))
    })
}

/// Whether a schema uses what only structural schemas may use.
pub fn has_extensions(schema: &Value) -> bool {
    any(schema, &|s| {
        flag(s, "x-kubernetes-embedded-resource")
            || given(s, "x-kubernetes-preserve-unknown-fields").is_some()
            || flag(s, "x-kubernetes-int-or-string")
            || !list(s, "x-kubernetes-list-map-keys").is_empty()
            || given(s, "x-kubernetes-list-type").is_some()
            || !list(s, "x-kubernetes-validations").is_empty()
    })
}

/// Whether a schema has sets whose items are not atomic.
pub fn has_granular_sets(schema: &Value) -> bool {
    any(schema, &|s| {
        let Some(items) = child(s, "items").filter(|_| text(s, "x-kubernetes-list-type") == "set") else {
            return false;
        };
        match text(items, "type") {
            "array" => given(items, "x-kubernetes-list-type").is_some_and(|t| t.as_str() != Some("atomic")),
            "object" => text(items, "x-kubernetes-map-type") != "atomic",
            _ => false,
        }
    })
}

/// Whether a schema has sets or associative lists whose items or keys may be missing.
pub fn has_loose_lists(schema: &Value) -> bool {
    any(schema, &|s| {
        let mut errors = ErrorList::new();
        keys_are_there(s, "", &mut errors);
        !errors.is_empty()
    })
}

#[derive(Clone)]
struct Place {
    path: String,
    root: bool,
    /// Why no default may be given; `None`: it may.
    no_defaults: Option<String>,
    /// Inside `apiVersion`, `kind` or `metadata` of an object.
    in_meta: bool,
    /// What rules need to know; `None` where there may be none.
    scope: Option<Scope>,
    /// The path of what is around, when old and new values in it cannot be told to be the same.
    uncorrelatable: Option<String>,
}

/// Checks a whole schema; rules are compiled if there is somewhere to tell of them.
pub fn check(
    schema: &Value,
    path: &str,
    options: &Options,
    expressions: Option<&mut Expressions>,
    errors: &mut ErrorList,
) {
    let mut none = Expressions::default();
    let place = Place {
        path: path.to_owned(),
        root: true,
        no_defaults: None,
        in_meta: false,
        scope: expressions.is_some().then(|| Scope::root(schema)),
        uncorrelatable: None,
    };
    let mut walk = Walk {
        options,
        expressions: expressions.unwrap_or(&mut none),
        errors,
    };
    walk.node(schema, &place);
}

fn at(place: &Place, member: &str) -> String {
    format!("{}.{member}", place.path)
}

/// A place further down, in which rules are not compiled.
fn below(place: &Place, path: String) -> Place {
    Place {
        path,
        root: false,
        scope: None,
        ..place.clone()
    }
}

struct Walk<'a> {
    options: &'a Options,
    expressions: &'a mut Expressions,
    errors: &'a mut ErrorList,
}

impl Walk<'_> {
    fn node(&mut self, s: &Value, place: &Place) {
        let before = self.errors.len();
        standard(s, place, self.options, self.errors);
        if flag(s, "uniqueItems") {
            let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.errors.push(Error::forbidden(at(place, "uniqueItems"), why));
        }
        self.additional_properties(s, place);
        self.properties(s, place);
        if let Some(not) = child(s, "not") {
            self.node(not, &below(place, at(place, "not")));
        }
        for name in ["allOf", "oneOf", "anyOf"] {
            for (i, clause) in list(s, name).iter().enumerate() {
                self.node(clause, &below(place, format!("{}.{name}[{i}]", place.path)));
            }
        }
        for (name, definition) in map(s, "definitions") {
            self.node(definition, &below(place, format!("{}.definitions[{name}]", place.path)));
        }
        self.items(s, place);
        for (name, dependency) in map(s, "dependencies").filter(|(_, d)| d.as_object().is_some()) {
            self.node(
                dependency,
                &below(place, format!("{}.dependencies[{name}]", place.path)),
            );
        }
        extensions(s, place, self.options, self.errors);
        rules(s, place, self.errors);
        // Rules of a schema in which something else is wrong would be told of what only follows from that.
        if let Some(scope) = &place.scope
            && self.errors.len() == before
            && !list(s, "x-kubernetes-validations").is_empty()
        {
            let uncorrelatable = place.uncorrelatable.as_deref();
            self.expressions.node(s, &place.path, scope, uncorrelatable);
        }
    }

    fn properties(&mut self, s: &Value, place: &Place) {
        let correlatable = matches!(text(s, "x-kubernetes-map-type"), "" | "granular" | "atomic");
        for (name, property) in map(s, "properties") {
            let mut inside = below(place, format!("{}.properties[{name}]", place.path));
            inside.scope = place.scope.as_ref().map(|scope| scope.property(s, name, property));
            if !correlatable {
                inside.uncorrelatable.get_or_insert_with(|| place.path.clone());
            }
            let is_meta = matches!(name, "metadata" | "kind" | "apiVersion");
            if is_meta && (place.root || flag(s, "x-kubernetes-embedded-resource")) {
                inside.in_meta = true;
                if place.root {
                    inside.no_defaults = Some(format!("in top-level {name}"));
                }
            }
            self.node(property, &inside);
        }
    }

    fn items(&mut self, s: &Value, place: &Place) {
        let within = |path: String, items: &Value| {
            let mut inside = below(place, path);
            inside.scope = place.scope.as_ref().map(|scope| scope.element(s, items));
            if text(s, "x-kubernetes-list-type") != "map" {
                inside.uncorrelatable.get_or_insert_with(|| place.path.clone());
            }
            inside
        };
        if let Some(items) = child(s, "items") {
            self.node(items, &within(at(place, "items"), items));
        }
        for (i, item) in list(s, "items").iter().enumerate() {
            self.node(item, &within(format!("{}.items[{i}]", place.path), item));
        }
    }

    fn additional_properties(&mut self, s: &Value, place: &Place) {
        let Some(additional) = given(s, "additionalProperties") else {
            return;
        };
        if map(s, "properties").next().is_some() && *additional != Value::Bool(true) {
            let why = "additionalProperties and properties are mutual exclusive";
            self.errors
                .push(Error::forbidden(at(place, "additionalProperties"), why));
        }
        if let Some(values) = child(s, "additionalProperties") {
            let mut inside = below(place, at(place, "additionalProperties"));
            inside.scope = place.scope.as_ref().map(|scope| scope.element(s, values));
            if place.in_meta {
                inside.no_defaults = Some("inside additionalProperties applying to object metadata".to_owned());
            }
            self.node(values, &inside);
        }
    }
}

/// What OpenAPI v3 in CRDs leaves out.
fn standard(s: &Value, place: &Place, options: &Options, errors: &mut ErrorList) {
    let kind = text(s, "type");
    if options.valid_types && !kind.is_empty() && !TYPES.contains(&kind) {
        errors.push(Error::not_supported(at(place, "type"), kind, &TYPES));
    }
    if let Some(reason) = place.no_defaults.as_ref().filter(|_| given(s, "default").is_some()) {
        errors.push(Error::forbidden(
            at(place, "default"),
            format!("must not be set {reason}"),
        ));
    }
    let filled = |name: &str| match given(s, name) {
        Some(Value::Object(map)) => !map.is_empty(),
        other => other.is_some(),
    };
    for (wrong, name) in [
        (!text(s, "id").is_empty(), "id"),
        (given(s, "additionalItems").is_some(), "additionalItems"),
        (filled("patternProperties"), "patternProperties"),
        (filled("definitions"), "definitions"),
        (given(s, "dependencies").is_some(), "dependencies"),
        (given(s, "$ref").is_some(), "$ref"),
    ] {
        if wrong {
            errors.push(Error::forbidden(at(place, name), format!("{name} is not supported")));
        }
    }
    if kind == "null" {
        let why = "type cannot be set to null, use nullable as an alternative";
        errors.push(Error::forbidden(at(place, "type"), why));
    }
    if !list(s, "items").is_empty() {
        let why = "items must be a schema object and not an array";
        errors.push(Error::forbidden(at(place, "items"), why));
    }
    if place.in_meta && flag(s, "x-kubernetes-embedded-resource") {
        let why = "must not be used inside of resource meta";
        errors.push(Error::forbidden(at(place, "x-kubernetes-embedded-resource"), why));
    }
}

fn extensions(s: &Value, place: &Place, options: &Options, errors: &mut ErrorList) {
    let kind = text(s, "type");
    let preserves = "x-kubernetes-preserve-unknown-fields";
    if given(s, preserves).and_then(Value::as_bool) == Some(false) {
        errors.push(Error::invalid(at(place, preserves), false, "must be true or undefined"));
    }
    let must_be = |wanted: &str, by: &str, errors: &mut ErrorList| {
        let why = format!("must be {wanted} if {by} is specified");
        errors.push(match kind {
            "" => Error::required(at(place, "type"), why),
            kind => Error::invalid(at(place, "type"), kind, why),
        });
    };
    let map_type = given(s, "x-kubernetes-map-type").and_then(Value::as_str);
    if let Some(map_type) = map_type {
        if kind != "object" {
            must_be("object", "x-kubernetes-map-type", errors);
        }
        if !matches!(map_type, "atomic" | "granular") {
            let supported = ["atomic", "granular"];
            errors.push(Error::not_supported(
                at(place, "x-kubernetes-map-type"),
                map_type,
                &supported,
            ));
        }
    }
    let list_type = given(s, "x-kubernetes-list-type").and_then(Value::as_str);
    if let Some(list_type) = list_type {
        if kind != "array" {
            must_be("array", "x-kubernetes-list-type", errors);
        } else if options.atomic_sets && list_type == "set" {
            set_items(s, place, errors);
        }
        if !matches!(list_type, "atomic" | "set" | "map") {
            let supported = ["atomic", "set", "map"];
            errors.push(Error::not_supported(
                at(place, "x-kubernetes-list-type"),
                list_type,
                &supported,
            ));
        }
    }
    if !list(s, "x-kubernetes-list-map-keys").is_empty() && list_type != Some("map") {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(match list_type {
            None => Error::required(at(place, "x-kubernetes-list-type"), why),
            Some(other) => Error::invalid(at(place, "x-kubernetes-list-type"), other, why),
        });
    }
    if list_type == Some("map") {
        associative_list(s, place, errors);
    }
    if options.map_list_keys {
        keys_are_there(s, &place.path, errors);
    }
}

fn set_items(s: &Value, place: &Place, errors: &mut ErrorList) {
    let Some(items) = child(s, "items") else { return };
    let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let list_type = given(items, "x-kubernetes-list-type").cloned();
    let (wrong, member) = match text(items, "type") {
        "array" => (
            list_type.as_ref().is_some_and(|t| t.as_str() != Some("atomic")),
            "items.x-kubernetes-list-type",
        ),
        "object" => (
            text(items, "x-kubernetes-map-type") != "atomic",
            "items.x-kubernetes-map-type",
        ),
        _ => return,
    };
    if wrong {
        // kube-apiserver shows the list type in both cases
        errors.push(Error::invalid(at(place, member), list_type.unwrap_or(Value::Null), why));
    }
}

fn associative_list(s: &Value, place: &Place, errors: &mut ErrorList) {
    let keys = list(s, "x-kubernetes-list-map-keys");
    let at_keys = at(place, "x-kubernetes-list-map-keys");
    if keys.is_empty() {
        let why = "must not be empty if x-kubernetes-list-type is map";
        errors.push(Error::required(at_keys.clone(), why));
    }
    let Some(given_items) = given(s, "items") else {
        let why = "must have a schema if x-kubernetes-list-type is map";
        errors.push(Error::required(at(place, "items"), why));
        return;
    };
    let Some(items) = child(s, "items") else {
        let why = "must only have a single schema if x-kubernetes-list-type is map";
        errors.push(Error::invalid(
            at(place, "items"),
            go_form::schema_or_array(given_items),
            why,
        ));
        return;
    };
    let kind = text(items, "type");
    if kind != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(Error::invalid(at(place, "items.type"), kind, why));
        return;
    }
    for (i, key) in keys.iter().enumerate() {
        let name = key.as_str().unwrap_or("");
        match items.at(&["properties", name]) {
            Some(property) if matches!(text(property, "type"), "array" | "object") => {
                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(Error::invalid(
                    at(place, &format!("items.properties[{name}].type")),
                    kind,
                    why,
                ));
            }
            Some(_) => {}
            None => {
                let why = "entries must all be names of item properties";
                errors.push(Error::invalid(at_keys.clone(), keys.to_vec(), why));
            }
        }
        if keys[..i].contains(key) {
            let why = "must not contain duplicate entries";
            errors.push(Error::invalid(at_keys.clone(), keys.to_vec(), why));
        }
    }
}

/// Items of sets and associative lists are not null, keys are always there.
fn keys_are_there(s: &Value, path: &str, errors: &mut ErrorList) {
    let list_type = text(s, "x-kubernetes-list-type");
    let Some(items) = child(s, "items").filter(|_| matches!(list_type, "set" | "map")) else {
        return;
    };
    if flag(items, "nullable") {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(Error::forbidden(format!("{path}.items.nullable"), why));
    }
    if list_type != "map" {
        return;
    }
    for key in list(s, "x-kubernetes-list-map-keys") {
        let name = key.as_str().unwrap_or("");
        let Some(property) = items.at(&["properties", name]) else {
            continue;
        };
        let at = format!("{path}.items.properties[{name}]");
        if !list(items, "required").contains(key) && given(property, "default").is_none() {
            let why =
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(Error::required(format!("{at}.default"), why));
        }
        if flag(property, "nullable") {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(Error::forbidden(format!("{at}.nullable"), why));
        }
    }
}

fn rules(s: &Value, place: &Place, errors: &mut ErrorList) {
    let breaks = |text: &str| text.contains(['\n', '\r']);
    for (i, rule) in list(s, "x-kubernetes-validations").iter().enumerate() {
        let at = |member: &str| format!("{}.x-kubernetes-validations[{i}].{member}", place.path);
        let (message, expression, path) = (
            rule.str_at(&["message"]),
            rule.str_at(&["messageExpression"]),
            rule.str_at(&["fieldPath"]),
        );
        let trimmed = rule.str_at(&["rule"]).trim();
        if trimmed.is_empty() {
            errors.push(Error::required(at("rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            errors.push(Error::invalid(at("message"), message, "must be non-empty if specified"));
        } else if breaks(message.trim()) {
            errors.push(Error::invalid(at("message"), message, "must not contain line breaks"));
        } else if breaks(trimmed) && message.trim().is_empty() {
            let why = "message must be specified if rule contains line breaks";
            errors.push(Error::required(at("message"), why));
        }
        if !expression.is_empty() && expression.trim().is_empty() {
            let why = "messageExpression must be non-empty if specified";
            errors.push(Error::required(at("messageExpression"), why));
        }
        let reason = rule.get("reason").and_then(Value::as_str);
        if let Some(reason) = reason.filter(|r| !REASONS.contains(r)) {
            errors.push(Error::not_supported(at("reason"), reason, &REASONS));
        }
        if path.is_empty() {
            continue;
        }
        if path.trim().is_empty() {
            errors.push(Error::invalid(at("fieldPath"), path, "must be non-empty if specified"));
        }
        if breaks(path) {
            errors.push(Error::invalid(at("fieldPath"), path, "must not contain line breaks"));
        }
        if structural::convertible(s).is_ok() && field_path::follow(path, s, true).is_err() {
            errors.push(Error::invalid(at("fieldPath"), path, "must be a valid path"));
        }
    }
}
