//! CEL rules in a CRD's schema: whether they compile, and whether they may cost too much.
//!
//! Contract: as `ValidateCustomResourceDefinitionOpenAPISchema` does it with a `CELSchemaContext`: what a rule may cost is multiplied by how many values its
//! node may have in one object; errors are kept apart from those of the schema, which come first.

use std::sync::Arc;

use triptych_cel::Declared;
use triptych_object::Value;
use triptych_object::field::{Error, ErrorList};

use super::go_form;
use super::schema_walk::{given, text};
use crate::rules::{Compiled, Rule, compile};

/// What the rules at one node may cost.
const RULE_LIMIT: u64 = 10_000_000;
/// What all rules of a schema may cost together.
const SCHEMA_LIMIT: u64 = 100_000_000;
/// So many of the most expensive rules are named.
const NAMED: usize = 4;

/// What is known of a node when its rules are looked at.
#[derive(Clone)]
pub struct Scope {
    declared: Arc<Declared>,
    /// How many values the node may have in one object; `None` if nothing bounds them.
    cardinality: Option<u64>,
}

impl Scope {
    /// At the root of a schema.
    pub fn root(schema: &Value) -> Scope {
        Scope {
            declared: Declared::read(schema, true),
            cardinality: Some(1),
        }
    }

    /// What the types around do not know of is looked at on its own.
    fn below(&self, parent: &Value, schema: &Value, declared: Option<&Arc<Declared>>) -> Scope {
        let bound = |name: &str| given(parent, name).and_then(Value::as_i64).map(|n| n.max(0) as u64);
        let elements = match text(parent, "type") {
            "object" if given(parent, "additionalProperties").is_some() => bound("maxProperties"),
            "array" => bound("maxItems"),
            _ => Some(1),
        };
        let product = self.cardinality.zip(elements).map(|(a, b)| a.saturating_mul(b));
        Scope {
            declared: declared.cloned().unwrap_or_else(|| Declared::read(schema, false)),
            cardinality: product,
        }
    }

    /// At a property of a node.
    pub fn property(&self, parent: &Value, name: &str, schema: &Value) -> Scope {
        self.below(parent, schema, self.declared.member(name))
    }

    /// At the items or values of a node.
    pub fn element(&self, parent: &Value, schema: &Value) -> Scope {
        self.below(parent, schema, self.declared.element())
    }
}

/// What was found of a schema's rules.
#[derive(Default)]
pub struct Expressions {
    errors: Vec<Error>,
    total: u64,
    most_expensive: Vec<(String, u64)>,
    /// The schema was accepted before: single rules may cost what they do.
    unchanged: bool,
}

fn too_expensive(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        f if f > 100.0 => "more than 100x".to_owned(),
        f if f < 1.5 => format!("{f:.6}x"),
        f => format!("{f:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

impl Expressions {
    /// Nothing found yet; `unchanged` if the schema was accepted before.
    pub fn new(unchanged: bool) -> Expressions {
        Expressions {
            unchanged,
            ..Expressions::default()
        }
    }

    fn push(&mut self, error: Error) {
        if self.errors.len() < ErrorList::LIMIT {
            self.errors.push(error);
        }
    }

    fn observe(&mut self, path: String, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost >= SCHEMA_LIMIT / 100 {
            self.most_expensive.push((path, cost));
            self.most_expensive.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            self.most_expensive.truncate(NAMED);
        }
    }

    /// Looks at the rules of a node; `uncorrelatable` is the path within which old and new values cannot be told to be the same.
    pub fn node(&mut self, schema: &Value, path: &str, scope: &Scope, uncorrelatable: Option<&str>) {
        let path = format!("{path}.x-kubernetes-validations");
        let declared = &scope.declared;
        let Some(ty) = declared.cel_type() else {
            let why = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
            self.push(Error::internal(path, why));
            return;
        };
        let rules = Rule::all(schema);
        let items = schema.array_at(&["x-kubernetes-validations"]);
        let count = scope.cardinality.unwrap_or_else(|| declared.max_cardinality());
        let compiled = compile(schema, &rules, declared, ty);
        for (i, ((rule, item), compiled)) in rules.iter().zip(items).zip(&compiled).enumerate() {
            let at = |member: &str| format!("{path}[{i}].{member}");
            let cost = compiled.max_cost.saturating_mul(count);
            self.cost("estimated rule cost", at("rule"), cost);
            if let Some(why) = &compiled.error {
                self.push(Error::invalid(at("rule"), go_form::rule(item), why.as_str()));
            }
            self.message(item, at("messageExpression"), compiled);
            if let (true, Some(within)) = (compiled.uses_old_self, uncorrelatable) {
                let why = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {within}");
                self.push(Error::invalid(at("rule"), rule.rule.as_str(), why));
            }
            if let (false, Some(optional)) = (compiled.uses_old_self, rule.optional_old_self) {
                let why = "may not be set if oldSelf is not used in rule";
                self.push(Error::invalid(at("optionalOldSelf"), optional, why));
            }
        }
    }

    fn message(&mut self, item: &Value, at: String, compiled: &Compiled) {
        if let Some(why) = &compiled.message_error {
            self.push(Error::invalid(at, go_form::rule(item), why.as_str()));
        } else if compiled.message.is_some() {
            self.cost("estimated messageExpression cost", at, compiled.message_cost);
        }
    }

    fn cost(&mut self, what: &str, at: String, cost: u64) {
        if !self.unchanged && cost > RULE_LIMIT {
            let why = too_expensive(what, cost, RULE_LIMIT);
            self.push(Error::forbidden(at.clone(), why));
        }
        self.observe(at, cost);
    }

    /// Reports what was found, and whether all rules together may cost too much.
    pub fn finish(self, path: &str, errors: &mut ErrorList) {
        for error in self.errors {
            errors.push(error);
        }
        if self.total > SCHEMA_LIMIT {
            for (path, _) in self.most_expensive {
                let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
                errors.push(Error::forbidden(path, why));
            }
            let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
            errors.push(Error::forbidden(path, too_expensive(what, self.total, SCHEMA_LIMIT)));
        }
    }
}
