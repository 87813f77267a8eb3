//! All rules of a schema, and their evaluation on an object.
//!
//! Contract: errors, their order along the document, and what ends evaluation are those of apiextensions' `cel.Validator`. All rules together may cost
//! [`BUDGET`] per object, each evaluation [`Budget::PER_CALL`].

use std::collections::HashMap;
use std::sync::Arc;

use triptych_cel::{Activation, Budget, Declared, EvalError, Program, Value as Cel};
use triptych_object::Value;
use triptych_object::field::{Error, ErrorKind, ErrorList};

use super::compile::{Compiled, Rule, compile};
use super::correlate::{Correlated, Keyed, Ratchet};

/// What the rules of one object may cost together.
pub const BUDGET: i64 = 10_000_000;
/// Bytes of a computed message.
const MAX_MESSAGE: usize = 5 * 1024;

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The rules of a schema.
pub struct Validator {
    schema: Arc<Value>,
    root: Option<Node>,
}

/// The rules at and below a node.
struct Node {
    declared: Arc<Declared>,
    rules: Vec<(Rule, Compiled)>,
    items: Option<Box<Node>>,
    values: Option<Box<Node>>,
    members: HashMap<String, Node>,
}

impl Validator {
    /// Compiles the rules of a schema; `None` if there are none. `whole` if the schema is that of a whole object.
    pub fn new(schema: &Value, whole: bool) -> Option<Validator> {
        if !has_rules(schema) {
            return None;
        }
        let declared = Declared::read(schema, whole);
        Some(Validator {
            root: node(schema, &declared),
            schema: Arc::new(schema.clone()),
        })
    }

    /// Evaluates on an object, against the old one on update; what is left of the budget is what comes back, negative if it was spent.
    pub fn validate(
        &self,
        new: &Value,
        old: Option<&Value>,
        ratcheting: bool,
        path: Option<&str>,
        budget: i64,
        errors: &mut ErrorList,
    ) -> i64 {
        let Some(root) = &self.root else { return budget };
        let ratchet = match old {
            Some(old) if ratcheting => Ratchet::new(Correlated::new(new, old, &self.schema)),
            _ => Ratchet::default(),
        };
        let mut run = Run { left: budget, errors };
        run.node(root, &self.schema, path, new, old, &ratchet);
        run.left
    }
}

fn has_rules(schema: &Value) -> bool {
    let below = |name: &str| {
        let inner = schema.get(name).filter(|s| s.as_object().is_some());
        inner.is_some_and(has_rules)
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    !schema.array_at(&["x-kubernetes-validations"]).is_empty()
        || below("items")
        || below("additionalProperties")
        || properties.is_some_and(|p| p.values().any(has_rules))
}

fn node(schema: &Value, declared: &Arc<Declared>) -> Option<Node> {
    if !has_rules(schema) {
        return None;
    }
    let rules = Rule::all(schema);
    let compiled = match declared.cel_type() {
        Some(ty) => compile(schema, &rules, declared, ty),
        None => rules
            .iter()
            .map(|_| Compiled {
                error: Some("failed to convert to declType for CEL validation rules".to_owned()),
                ..Compiled::default()
            })
            .collect(),
    };
    let inner = |name: &str| schema.get(name).filter(|s| s.as_object().is_some());
    let below = |name: &str| node(inner(name)?, declared.element()?).map(Box::new);
    let properties = schema.get("properties").and_then(Value::as_object);
    let members = properties
        .into_iter()
        .flat_map(|p| p.iter())
        .filter_map(|(name, schema)| {
            let member = declared.member(name)?;
            // What has no type has no rules either.
            member.cel_type()?;
            Some((name.to_owned(), node(schema, member)?))
        });
    Some(Node {
        rules: rules.into_iter().zip(compiled).collect(),
        items: below("items"),
        values: below("additionalProperties"),
        members: members.collect(),
        declared: declared.clone(),
    })
}

/// An evaluation under way.
struct Run<'r> {
    /// What is left of the budget; negative once it was spent.
    left: i64,
    errors: &'r mut ErrorList,
}

/// `self` and `oldSelf`.
struct Variables<'a> {
    node: &'a Declared,
    new: &'a Value,
    old: Option<&'a Value>,
    optional: bool,
}

impl<'a> Activation<'a> for Variables<'a> {
    fn variable(&self, name: &str) -> Option<Result<Cel<'a>, EvalError>> {
        match name {
            "self" => Some(self.node.view(self.new)),
            "oldSelf" if self.optional => Some(match self.old {
                Some(old) => self.node.view(old).map(|old| Cel::optional(Some(old))),
                None => Ok(Cel::optional(None)),
            }),
            "oldSelf" => self.old.map(|old| self.node.view(old)),
            _ => None,
        }
    }
}

fn child_path(path: Option<&str>, name: &str) -> String {
    match path {
        Some(path) if name.starts_with('[') => format!("{path}{name}"),
        Some(path) => format!("{path}.{name}"),
        None => name.to_owned(),
    }
}

impl Run<'_> {
    fn node(
        &mut self,
        node: &Node,
        schema: &Value,
        path: Option<&str>,
        new: &Value,
        old: Option<&Value>,
        ratchet: &Ratchet<'_>,
    ) {
        if new.is_null() {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        self.rules(node, schema, path, new, old, ratchet);
        if self.left < 0 {
            return;
        }
        match new {
            Value::Array(items) => self.items(node, schema, path, items, old, ratchet),
            Value::Object(_) => self.members(node, schema, path, new, old, ratchet),
            _ => {}
        }
    }

    fn items(
        &mut self,
        node: &Node,
        schema: &Value,
        path: Option<&str>,
        items: &[Value],
        old: Option<&Value>,
        ratchet: &Ratchet<'_>,
    ) {
        let (Some(inner), Some(inner_schema)) = (&node.items, schema.get("items")) else {
            return;
        };
        let before = old.and_then(Value::as_array).unwrap_or(&[]);
        let keyed = Keyed::of(schema, before);
        for (i, item) in items.iter().enumerate() {
            let path = child_path(path, &format!("[{i}]"));
            let old = keyed.as_ref().and_then(|k| k.get(item));
            self.node(inner, inner_schema, Some(&path), item, old, &ratchet.item(i));
            if self.left < 0 {
                return;
            }
        }
    }

    fn members(
        &mut self,
        node: &Node,
        schema: &Value,
        path: Option<&str>,
        new: &Value,
        old: Option<&Value>,
        ratchet: &Ratchet<'_>,
    ) {
        let map_type = schema.str_at(&["x-kubernetes-map-type"]);
        let correlatable = matches!(map_type, "" | "granular" | "atomic");
        let members = || new.as_object().into_iter().flat_map(|m| m.iter());
        let before = |name: &str| old.filter(|_| correlatable).and_then(|old| old.get(name));
        let value_schema = schema.get("additionalProperties");
        let values = members().filter_map(|(name, value)| {
            Some((name, value, node.values.as_deref()?, value_schema?, format!("[{name}]")))
        });
        let properties = members().filter_map(|(name, value)| {
            let inner = node.members.get(name)?;
            Some((name, value, inner, schema.at(&["properties", name])?, name.to_owned()))
        });
        for (name, value, inner, inner_schema, step) in values.chain(properties) {
            let path = child_path(path, &step);
            let ratchet = ratchet.member(name);
            self.node(inner, inner_schema, Some(&path), value, before(name), &ratchet);
            if self.left < 0 {
                return;
            }
        }
    }

    fn rules(
        &mut self,
        node: &Node,
        schema: &Value,
        path: Option<&str>,
        new: &Value,
        old: Option<&Value>,
        ratchet: &Ratchet<'_>,
    ) {
        let kind = schema.str_at(&["type"]);
        let at = path.unwrap_or("<nil>");
        let wrong = |detail: String| Error::invalid(at, kind, detail);
        if !node.rules.is_empty() && self.left <= 0 {
            self.errors.push(wrong(OUT_OF_BUDGET.to_owned()));
            self.left = -1;
            return;
        }
        for (rule, compiled) in &node.rules {
            if let Some(why) = &compiled.error {
                self.errors.push(wrong(format!("rule compile error: {why}")));
                continue;
            }
            let Some(program) = &compiled.program else { continue };
            if compiled.uses_old_self && old.is_none() && !rule.is_optional() {
                continue;
            }
            let variables = |optional: bool| Variables {
                node: &node.declared,
                new,
                old,
                optional,
            };
            let mut budget = Budget::default();
            let outcome = program.evaluate(&variables(rule.is_optional()), &mut budget);
            let cost = i64::try_from(budget.spent).unwrap_or(i64::MAX);
            if cost > self.left {
                self.errors.push(wrong(OUT_OF_BUDGET.to_owned()));
                self.left = -1;
                return;
            }
            self.left -= cost;
            match outcome {
                Ok(Cel::Bool(true)) => continue,
                Ok(_) => {}
                Err(e) => {
                    let shown = rule.shown();
                    let text = e.to_string();
                    if e.is_over_budget() {
                        self.errors.push(wrong(format!(
                            "'{text}': no further validation rules will be run due to call cost exceeds limit for rule: {shown}"
                        )));
                        self.left = -1;
                        return;
                    }
                    self.errors.push(wrong(match text.starts_with("no such overload") {
                        true => format!(
                            "'{text}': call arguments did not match a supported operator, function or macro signature for rule: {shown}"
                        ),
                        false => format!("{text} evaluating rule: {shown}"),
                    }));
                    continue;
                }
            }
            let tolerated = !compiled.uses_old_self && ratchet.tolerates();
            let at = match compiled.field_path.as_str() {
                "" => at.to_owned(),
                below => child_path(path, below),
            };
            let detail = match &compiled.message {
                Some(message) => match self.message(message, rule, &variables(false)) {
                    Ok(text) => text,
                    Err(detail) => {
                        let error = Error::invalid(at, kind, detail);
                        self.report(error, tolerated);
                        self.left = -1;
                        return;
                    }
                },
                None => None,
            };
            let detail = detail.unwrap_or_else(|| match rule.message.is_empty() {
                true => format!("failed rule: {}", rule.shown()),
                false => rule.message.trim().to_owned(),
            });
            let error = failed(&at, rule, kind, new, detail);
            self.report(error, tolerated);
        }
    }

    fn report(&mut self, error: Error, tolerated: bool) {
        match tolerated {
            true => self.errors.tolerate(error),
            false => self.errors.push(error),
        }
    }

    /// The computed message, `None` if it is of no use; an error if it ends evaluation.
    fn message(&mut self, program: &Program, rule: &Rule, variables: &Variables<'_>) -> Result<Option<String>, String> {
        let mut budget = Budget::default();
        let outcome = program.evaluate(variables, &mut budget);
        let cost = i64::try_from(budget.spent).unwrap_or(i64::MAX);
        if cost > self.left {
            let why = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";
            return Err(why.to_owned());
        }
        self.left -= cost;
        let value = match outcome {
            Ok(value) => value,
            Err(e) if e.is_over_budget() => {
                return Err(format!(
                    "no further validation rules will be run due to call cost exceeds limit for messageExpression: {}",
                    triptych_object::field::quote(&rule.message_expression)
                ));
            }
            Err(_) => return Ok(None),
        };
        let text = value.as_str().unwrap_or_default().trim();
        let usable = !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
        Ok(usable.then(|| text.to_owned()))
    }
}

/// The error of a rule that does not hold; objects and lists are not shown.
fn failed(at: &str, rule: &Rule, kind: &str, value: &Value, detail: String) -> Error {
    let error_kind = match rule.reason.as_deref() {
        Some("FieldValueForbidden") => ErrorKind::Forbidden,
        Some("FieldValueRequired") => ErrorKind::Required,
        Some("FieldValueDuplicate") => ErrorKind::Duplicate,
        _ => ErrorKind::Invalid,
    };
    let detail = if error_kind == ErrorKind::Duplicate {
        String::new()
    } else {
        detail
    };
    let mut error = Error::new(error_kind, at, value, detail);
    if matches!(kind, "object" | "array") {
        error.shown = None;
    }
    error
}
