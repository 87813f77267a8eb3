//! kube-openapi's schema validator.
//!
//! `anyOf` and `oneOf` report the alternative that matched best, so the matches are counted as there.

use std::collections::HashSet;

use triptych_object::field::{ErrorList, quote};
use triptych_object::{Value, json};

use super::formats;
use super::found::{Found, Problem, invalid, wrong_type};
use super::scalars::{check_enum, check_number, check_string, is_json_integer};
use crate::types::{ListKind, Name, NestedValidation, Schema, Shape, Type, TypeId, Validation};

/// Entry point; see [`super::value`].
pub(super) fn validate(
    schema: &Schema,
    root: TypeId,
    value: &Value,
    old: Option<&Value>,
    prefix: Option<&str>,
) -> ErrorList {
    let mut found = Found::default();
    let old = old.map(|old| Old {
        value: old,
        whole: prefix.is_none(),
    });
    Validator { schema }.node(Node::Type(schema.get(root)), value, "", old, &mut found);
    let mut seen = HashSet::new();
    let unique = found
        .problems
        .into_iter()
        .filter(|p| seen.insert(p.message().to_owned()));
    unique.map(|p| p.field_error(prefix)).collect()
}

/// The stored value that corresponds to the one at hand.
#[derive(Clone, Copy)]
struct Old<'a> {
    value: &'a Value,
    /// It is the object as a whole, whose `kind` and `apiVersion` are never excused.
    whole: bool,
}

/// A schema: a type, or what stands under `allOf` and the like.
#[derive(Clone, Copy)]
enum Node<'s> {
    Type(&'s Type),
    Nested(&'s NestedValidation),
}

static UNCONSTRAINED: std::sync::LazyLock<Validation> = std::sync::LazyLock::new(Validation::default);

impl<'s> Node<'s> {
    /// The names of `type`; none if it says nothing.
    fn type_names(self) -> &'static [&'static str] {
        let one = |name: &str| -> &'static [&'static str] {
            match name {
                "boolean" => &["boolean"],
                "integer" => &["integer"],
                "number" => &["number"],
                "string" => &["string"],
                "array" => &["array"],
                "object" => &["object"],
                _ => &[],
            }
        };
        match self {
            Node::Nested(n) => one(n.type_name.as_deref().unwrap_or("")),
            Node::Type(ty) => match &ty.shape {
                Shape::Bool => &["boolean"],
                Shape::Int { .. } => &["integer"],
                Shape::Float { .. } => &["number"],
                Shape::String | Shape::Bytes => &["string"],
                Shape::IntOrString => &["integer", "string"],
                Shape::Struct(s) if s.untyped => &[],
                Shape::Struct(_) | Shape::Map(_) => &["object"],
                Shape::List(_) => &["array"],
                _ => &[],
            },
        }
    }

    fn nullable(self) -> bool {
        matches!(self, Node::Type(ty) if ty.nullable)
    }

    fn validation(self) -> &'s Validation {
        match self {
            Node::Type(ty) => ty.validation.as_deref().unwrap_or(&UNCONSTRAINED),
            Node::Nested(n) => &n.validation,
        }
    }

    fn property(self, schema: &'s Schema, key: &str) -> Option<Node<'s>> {
        match self {
            Node::Type(ty) => match &ty.shape {
                Shape::Struct(s) => s.field(key).map(|f| Node::Type(schema.get(f.ty))),
                _ => None,
            },
            Node::Nested(n) => n
                .properties
                .iter()
                .find(|(k, _)| k == key)
                .map(|(_, n)| Node::Nested(n)),
        }
    }

    fn additional(self, schema: &'s Schema) -> Option<Node<'s>> {
        match self {
            Node::Type(ty) => ty.as_map().map(|m| Node::Type(schema.get(m.value))),
            Node::Nested(n) => n.additional_properties.as_deref().map(Node::Nested),
        }
    }

    fn items(self, schema: &'s Schema) -> Option<Node<'s>> {
        match self {
            Node::Type(ty) => ty.as_list().map(|l| Node::Type(schema.get(l.item))),
            Node::Nested(n) => n.items.as_deref().map(Node::Nested),
        }
    }

    fn list_keys(self) -> Option<&'s [Name]> {
        match self {
            Node::Type(ty) => match &ty.as_list()?.kind {
                ListKind::Map(keys) => Some(keys),
                _ => None,
            },
            Node::Nested(_) => None,
        }
    }
}

/// kube-openapi's name of a value's type, and the format it has by nature.
fn nature(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::Int(_) => ("integer", "int64"),
        Value::Float(_) => ("number", "float64"),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    }
}

struct Validator<'s> {
    schema: &'s Schema,
}

impl<'s> Validator<'s> {
    /// Validates a value; what did not change since `old` is not held against it.
    fn node(&self, node: Node<'s>, value: &Value, path: &str, old: Option<Old<'_>>, found: &mut Found) {
        let mut own = Found::default();
        self.strictly(node, value, path, old, &mut own);
        if !own.is_valid()
            && let Some(old) = old
            && self.unchanged(node, value, old.value)
        {
            own.problems.clear();
        }
        found.merge(own);
    }

    fn strictly(&self, node: Node<'s>, value: &Value, path: &str, old: Option<Old<'_>>, found: &mut Found) {
        let v = node.validation();
        if value.is_null() {
            if self.check_type(node, value, path, found) {
                found.matches += 1;
            }
            check_enum(v, value, path, found);
            return;
        }
        if !node.type_names().is_empty() || v.format.is_some() {
            if self.check_type(node, value, path, found) {
                found.matches += 1;
            }
            found.matches += 1;
        }
        self.combinators(v, value, path, old, found);
        found.matches += 1;
        match value {
            Value::String(text) => {
                check_string(v, text, path, found);
                found.matches += 1;
                if let Some(format) = v.format.as_deref()
                    && let Some(fits) = formats::check(format, text)
                {
                    found.matches += 1;
                    if !fits {
                        found.push(wrong_type(path, format, text));
                    }
                }
            }
            Value::Int(_) | Value::Float(_) => {
                check_number(node.type_names(), v, value, path, found);
                found.matches += 2;
            }
            Value::Array(items) => {
                self.items(node, items, path, old, found);
                found.matches += 2;
            }
            _ => {}
        }
        check_enum(v, value, path, found);
        found.matches += 1;
        if let Value::Object(_) = value {
            self.object(node, value, path, old, found);
            found.matches += 1;
        }
        found.matches += 1;
    }

    /// Whether the value has the right type; reports it if not.
    fn check_type(&self, node: Node<'s>, value: &Value, path: &str, found: &mut Found) -> bool {
        let names = node.type_names();
        let has = |name: &str| names.contains(&name);
        if value.is_null() {
            if !names.is_empty() && !node.nullable() {
                found.push(wrong_type(path, &names.join(","), "null"));
                return false;
            }
            return true;
        }
        let (name, natural) = nature(value);
        let format = node.validation().format.as_deref().unwrap_or("");
        let float_integer = matches!(value, Value::Float(f) if is_json_integer(*f)) && has("integer");
        let integer_float = name == "integer" && has("number");
        let textual = matches!(value, Value::String(_) | Value::Array(_));
        let fits = has(name) || float_integer || integer_float;
        if !format.is_empty() && !textual && !fits && format != natural {
            found.push(wrong_type(path, format, natural));
            return false;
        }
        if !format.is_empty() && textual && !has("number") && !has("integer") {
            return true;
        }
        if !fits && !names.is_empty() {
            found.push(wrong_type(path, &names.join(","), name));
            return false;
        }
        // With a format and no type nothing fits, as there.
        if !fits {
            found.push(wrong_type(path, "", name));
            return false;
        }
        true
    }

    fn alternatives(
        &self,
        nodes: &'s [NestedValidation],
        value: &Value,
        path: &str,
        old: Option<Old<'_>>,
    ) -> impl Iterator<Item = Found> {
        nodes.iter().map(move |n| {
            let mut found = Found::default();
            self.strictly(Node::Nested(n), value, path, old, &mut found);
            found
        })
    }

    fn combinators(&self, v: &'s Validation, value: &Value, path: &str, old: Option<Old<'_>>, found: &mut Found) {
        let better = |best: &Option<Found>, new: &Found| best.as_ref().is_none_or(|b| new.matches > b.matches);
        if !v.any_of.is_empty() {
            let mut best: Option<Found> = None;
            let mut success = None;
            for result in self.alternatives(&v.any_of, value, path, old) {
                if result.is_valid() {
                    success = Some(result);
                    break;
                }
                if better(&best, &result) {
                    best = Some(result);
                }
            }
            if success.is_none() {
                let text = format!("{} must validate at least one schema (anyOf)", quote(path));
                found.push(Problem::Plain(text));
            }
            found.merge(success.or(best).unwrap_or_default());
        }
        if !v.one_of.is_empty() {
            let (mut best, mut success, mut valid): (Option<Found>, Option<Found>, usize) = (None, None, 0);
            for result in self.alternatives(&v.one_of, value, path, old) {
                if result.is_valid() {
                    valid += 1;
                    best = None;
                    success = success.or(Some(result));
                } else if valid == 0 && better(&best, &result) {
                    best = Some(result);
                }
            }
            if valid == 1 {
                found.merge(success.unwrap_or_default());
            } else {
                let detail = match valid {
                    0 => "Found none valid".to_owned(),
                    n => format!("Found {n} valid alternatives"),
                };
                let text = format!(
                    "{} must validate one and only one schema (oneOf). {detail}",
                    quote(path)
                );
                found.push(Problem::Plain(text));
                found.merge(best.unwrap_or_default());
            }
        }
        if !v.all_of.is_empty() {
            let mut valid = 0;
            for result in self.alternatives(&v.all_of, value, path, old) {
                valid += usize::from(result.is_valid());
                found.merge(result);
            }
            if valid != v.all_of.len() {
                let detail = if valid == 0 { ". None validated" } else { "" };
                let text = format!("{} must validate all the schemas (allOf){detail}", quote(path));
                found.push(Problem::Plain(text));
            }
        }
        if let Some(not) = &v.not {
            let mut result = Found::default();
            self.strictly(Node::Nested(not), value, path, old, &mut result);
            if result.is_valid() {
                let text = format!("{} must not validate the schema (not)", quote(path));
                found.push(Problem::Plain(text));
            }
        }
        found.matches += 1;
    }

    fn items(&self, node: Node<'s>, items: &[Value], path: &str, old: Option<Old<'_>>, found: &mut Found) {
        let v = node.validation();
        if let Some(item_node) = node.items(self.schema) {
            for (i, item) in items.iter().enumerate() {
                let old = old.and_then(|old| corresponding(node, item, old.value));
                self.node(item_node, item, &format!("{path}[{i}]"), old, found);
            }
        }
        let size = items.len() as i64;
        if let Some(min) = v.min_items.filter(|min| size < *min) {
            found.push(invalid(
                path,
                size,
                format!("{path} in body should have at least {min} items"),
            ));
        }
        if let Some(max) = v.max_items.filter(|max| size > *max) {
            let message = format!("{path} in body should have at most {max} items");
            found.push(Problem::TooMany {
                name: path.to_owned(),
                actual: size,
                max,
                message,
            });
        }
        if v.unique_items {
            let mut seen = HashSet::new();
            if !items.iter().all(|item| seen.insert(json::to_string(item))) {
                found.push(invalid(
                    path,
                    "",
                    format!("{path} in body shouldn't contain duplicates"),
                ));
            }
        }
    }

    fn object(&self, node: Node<'s>, value: &Value, path: &str, old: Option<Old<'_>>, found: &mut Found) {
        let Value::Object(map) = value else { return };
        let v = node.validation();
        let size = map.len() as i64;
        if let Some(min) = v.min_properties.filter(|min| size < *min) {
            found.push(invalid(
                path,
                size,
                format!("{path} in body should have at least {min} properties"),
            ));
        }
        if let Some(max) = v.max_properties.filter(|max| size > *max) {
            let message = format!("{path} in body should have at most {max} properties");
            found.push(Problem::TooMany {
                name: path.to_owned(),
                actual: size,
                max,
                message,
            });
        }
        let additional = node.additional(self.schema);
        for (key, member) in map.iter() {
            let property = node.property(self.schema, key);
            let Some(member_node) = property.or(additional) else {
                continue;
            };
            let member_path = if path.is_empty() && property.is_some() {
                key.to_owned()
            } else {
                format!("{path}.{key}")
            };
            let old = old.filter(|old| !(old.whole && matches!(key, "kind" | "apiVersion")));
            let old = old
                .and_then(|old| old.value.get(key))
                .map(|value| Old { value, whole: false });
            self.node(member_node, member, &member_path, old, found);
        }
        for key in &v.required {
            if !map.contains_key(key) {
                let name = format!("{path}.{key}");
                let message = format!("{name} in body is required");
                found.push(Problem::Required { name, message });
            }
        }
    }

    /// Whether the value equals the stored one as far as they correspond.
    fn unchanged(&self, node: Node<'s>, new: &Value, old: &Value) -> bool {
        match (new, old) {
            (Value::Array(new), Value::Array(old)) => {
                new.len() == old.len()
                    && match (node.list_keys(), node.items(self.schema)) {
                        (Some(keys), Some(item_node)) => new.iter().all(|item| {
                            old.iter()
                                .find(|o| same_key(keys, item, o))
                                .is_some_and(|o| self.unchanged(item_node, item, o))
                        }),
                        _ => new == old,
                    }
            }
            (Value::Object(new), Value::Object(old)) => {
                new.len() == old.len()
                    && new.iter().all(|(key, member)| {
                        let member_node = node.property(self.schema, key).or_else(|| node.additional(self.schema));
                        match (member_node, old.get(key)) {
                            (Some(member_node), Some(old)) => self.unchanged(member_node, member, old),
                            // What the schema does not describe does not correspond.
                            _ => false,
                        }
                    })
            }
            (new, old) => new == old,
        }
    }
}

fn same_key(keys: &[Name], a: &Value, b: &Value) -> bool {
    keys.iter().all(|k| a.get(k) == b.get(k))
}

/// The stored item with the same keys, in an associative list.
fn corresponding<'a>(node: Node<'_>, item: &Value, old: &'a Value) -> Option<Old<'a>> {
    let keys = node.list_keys()?;
    let value = old.as_array()?.iter().find(|o| same_key(keys, item, o))?;
    Some(Old { value, whole: false })
}
