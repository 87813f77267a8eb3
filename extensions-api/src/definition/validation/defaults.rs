//! Defaults in a schema: each must be what its own schema allows, and no more.

use std::sync::Arc;

use triptych_object::Value;
use triptych_object::field::{Error, ErrorList};
use triptych_schema::custom::coerce_embedded;
use triptych_schema::prune::prune;
use triptych_schema::structural::Structural;
use triptych_schema::types::{Schema, TypeId};
use triptych_schema::validate;

use super::schema_walk::{any, child, flag, given, map};
use crate::custom::strategy::embedded_metadata;
use crate::rules::{BUDGET, Validator};

/// Whether a schema has defaults at all.
pub fn has_defaults(schema: &Value) -> bool {
    any(schema, &|s| given(s, "default").is_some())
}

/// Whether a schema has defaults with members that it does not know.
pub fn has_unpruned(schema: &Value, base: &Arc<Schema>) -> bool {
    any(schema, &|s| {
        given(s, "default").is_some_and(|default| is_pruned(s, default, base).is_none())
    })
}

/// A member by which a default is looked at as a part of an object.
const PART: &str = "default";

/// A schema of an object with a member of this schema.
fn surrounding(schema: &Value, base: &Arc<Schema>) -> Structural {
    let properties = Value::from([(PART, schema.clone())]);
    let whole = Value::from([("type", "object".into()), ("properties", properties)]);
    Structural::import(base.clone(), &whole)
}

/// The type of that member.
fn part(types: &Structural) -> Option<TypeId> {
    let fields = types.schema.get(types.root).as_struct()?;
    fields.field(PART).map(|field| field.ty)
}

/// The schema of such an object, if nothing of the default in it had to be pruned.
fn is_pruned(schema: &Value, default: &Value, base: &Arc<Schema>) -> Option<Structural> {
    let around = surrounding(schema, base);
    let object = Value::from([(PART, default.clone())]);
    let mut pruned = object.clone();
    prune(&around.schema, around.root, &mut pruned);
    (pruned == object).then_some(around)
}

struct Walk<'a> {
    base: &'a Arc<Schema>,
    must_be_pruned: bool,
    errors: ErrorList,
    /// What is left of the budget for rules; negative once it was spent.
    left: i64,
}

/// Where a node stands: the embedded (or whole) object around it, and the way to it from there.
#[derive(Clone)]
struct Around<'s> {
    object: &'s Value,
    way: Vec<Step<'s>>,
    in_meta: bool,
}

#[derive(Clone, Copy)]
enum Step<'s> {
    Member(&'s str),
    Item,
}

/// Checks all defaults of a structural schema.
pub fn check(schema: &Value, path: &str, base: &Arc<Schema>, must_be_pruned: bool) -> ErrorList {
    let mut walk = Walk {
        base,
        must_be_pruned,
        errors: ErrorList::new(),
        left: BUDGET,
    };
    let around = Around {
        object: schema,
        way: Vec::new(),
        in_meta: false,
    };
    walk.node(schema, path, &around, true);
    walk.errors
}

impl Walk<'_> {
    fn node<'s>(&mut self, s: &'s Value, path: &str, around: &Around<'s>, root: bool) {
        let embedded = root || flag(s, "x-kubernetes-embedded-resource");
        let here = if embedded {
            Around {
                object: s,
                way: Vec::new(),
                in_meta: false,
            }
        } else {
            around.clone()
        };
        if let Some(default) = given(s, "default") {
            let at = format!("{path}.default");
            if here.in_meta {
                self.in_meta(s, default, &at, &here);
            } else {
                self.elsewhere(s, default, &at, embedded);
            }
        }
        let step = |step: Step<'s>, in_meta: bool| {
            let mut next = here.clone();
            next.way.push(step);
            next.in_meta = in_meta;
            next
        };
        // none may stand below additionalProperties
        if let Some(items) = child(s, "items") {
            self.node(items, &format!("{path}.items"), &step(Step::Item, here.in_meta), false);
        }
        for (name, property) in map(s, "properties") {
            let meta = embedded && matches!(name, "metadata" | "apiVersion" | "kind");
            let next = step(Step::Member(name), here.in_meta || meta);
            self.node(property, &format!("{path}.properties[{name}]"), &next, false);
        }
    }

    fn elsewhere(&mut self, s: &Value, default: &Value, at: &str, whole: bool) {
        let pruned = is_pruned(s, default, self.base);
        if self.must_be_pruned && pruned.is_none() {
            let why = "must not have unknown fields";
            self.errors.push(Error::invalid(at, default.clone(), why));
        }
        let types = pruned.unwrap_or_else(|| surrounding(s, self.base));
        let Some(ty) = part(&types) else { return };
        if let Err(error) = coerce_embedded(&types.schema, ty, &mut default.clone(), at, false) {
            self.errors.push(error);
            return;
        }
        let embedded = validate::embedded(&types.schema, ty, default, at, &embedded_metadata);
        if !embedded.is_empty() {
            self.errors.append(embedded);
            return;
        }
        self.value(s, &types, ty, default, at, whole);
    }

    /// What the schema says of a default, and if it says nothing, what its rules say.
    fn value(&mut self, s: &Value, types: &Structural, ty: TypeId, default: &Value, at: &str, whole: bool) {
        let found = validate::value(&types.schema, ty, default, None, Some(at));
        if !found.is_empty() {
            self.errors.append(found);
            return;
        }
        let Some(rules) = Validator::new(s, whole).filter(|_| self.left >= 0) else {
            return;
        };
        let before = self.errors.len();
        let mut run = |old: Option<&Value>| rules.validate(default, old, false, Some(at), self.left, &mut self.errors);
        // As an object that stays as it is, and as one that comes new.
        let mut left = run(Some(default));
        if self.errors.len() == before {
            let mut run =
                |old: Option<&Value>| rules.validate(default, old, false, Some(at), self.left, &mut self.errors);
            left = left.min(run(None));
        }
        self.left = left;
    }

    /// A default of `apiVersion`, `kind` or `metadata` of an object: the object it results in must have valid ones.
    fn in_meta(&mut self, s: &Value, default: &Value, at: &str, around: &Around<'_>) {
        let mut object = default.clone();
        for step in around.way.iter().rev() {
            object = match step {
                Step::Member(name) => Value::from([(*name, object)]),
                Step::Item => Value::Array(vec![object]),
            };
        }
        for (name, value) in [("apiVersion", "validation/v1"), ("kind", "Validation")] {
            if object.get(name).is_none() {
                object.set_at(&[name], value.into());
            }
        }
        let types = Structural::import(self.base.clone(), around.object);
        let mut coerced = object.clone();
        let problem = match coerce_embedded(&types.schema, types.root, &mut coerced, "", true) {
            Err(error) => Some(error.to_string()),
            Ok(()) => {
                let errors = validate::resource(&types.schema, types.root, &coerced, "", &embedded_metadata);
                (!errors.is_empty()).then(|| errors.aggregate())
            }
        };
        if let Some(why) = problem {
            let detail = format!("must result in valid metadata: {why}");
            self.errors.push(Error::invalid(at, default.clone(), detail));
            return;
        }
        let types = surrounding(s, self.base);
        if let Some(ty) = part(&types) {
            self.value(s, &types, ty, default, at, around.way.is_empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_object::json;

    fn found(properties: &str) -> Vec<String> {
        let base = Arc::new(crate::schema::load().unwrap().schema);
        let schema = format!(r#"{{"type":"object","properties":{properties}}}"#);
        let schema = json::from_slice(schema.as_bytes()).unwrap();
        check(&schema, "s", &base, true)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    const EMBEDDED: &str = r#""type":"object","x-kubernetes-embedded-resource":true"#;

    #[test]
    fn malformed_metadata_of_an_embedded_default_is_told_where_it_stands() {
        let wrong = |default: &str| found(&format!(r#"{{"e":{{{EMBEDDED},"default":{default}}}}}"#));
        assert_eq!(
            wrong(r#"{"apiVersion":42,"kind":"A"}"#),
            ["s.properties[e].default.apiVersion: Invalid value: 42: must be a string"]
        );
        assert_eq!(
            wrong(r#"{"apiVersion":"v1","kind":"A","metadata":42}"#),
            [
                "s.properties[e].default.metadata: Invalid value: 42: json: cannot unmarshal number into Go value of type v1.ObjectMeta"
            ]
        );
        assert_eq!(
            wrong(r#"{"kind":"A"}"#),
            ["s.properties[e].default.apiVersion: Required value"]
        );
    }

    #[test]
    fn defaults_within_metadata_must_make_a_valid_object() {
        let inside = |properties: &str| found(&format!(r#"{{"e":{{{EMBEDDED},"properties":{properties}}}}}"#));
        let errors = inside(r#"{"kind":{"type":"string","default":"%"}}"#);
        let expected = r#"s.properties[e].properties[kind].default: Invalid value: "%": must result in valid metadata: kind: Invalid value: "%": may have mixed case, but should otherwise match: a DNS-1035 label"#;
        assert!(errors.len() == 1 && errors[0].starts_with(expected), "{errors:?}");
        assert!(inside(r#"{"kind":{"type":"string","default":"Some"}}"#).is_empty());
        let errors =
            inside(r#"{"metadata":{"type":"object","properties":{"name":{"type":"string","default":"a/b"}}}}"#);
        let expected = r#"s.properties[e].properties[metadata].properties[name].default: Invalid value: "a/b": must result in valid metadata: metadata.name: Invalid value: "a/b": "#;
        assert!(errors.len() == 1 && errors[0].starts_with(expected), "{errors:?}");
    }

    #[test]
    fn defaults_hold_what_their_schema_and_its_rules_allow() {
        assert_eq!(
            found(r#"{"a":{"type":"object","properties":{"b":{"type":"string"}},"default":{"c":1}}}"#),
            [r#"s.properties[a].default: Invalid value: {"c":1}: must not have unknown fields"#]
        );
        assert_eq!(
            found(r#"{"a":{"type":"integer","default":1,"x-kubernetes-validations":[{"rule":"self > 1"}]}}"#),
            ["s.properties[a].default: Invalid value: 1: failed rule: self > 1"]
        );
    }
}
