//! One rule: its expression, and the one of its message, compiled for the type of the node it stands at.

use std::sync::Arc;

use triptych_cel::{Declared, Environment, Issues, Program, Type};
use triptych_object::Value;

use crate::definition::validation::field_path;

/// A rule as it is written.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    /// The expression.
    pub rule: String,
    /// What is said when it does not hold.
    pub message: String,
    /// An expression of what is said.
    pub message_expression: String,
    /// The kind of error.
    pub reason: Option<String>,
    /// The field that is said to be wrong, from here.
    pub field_path: String,
    /// Whether `oldSelf` is an optional, so that the rule is also looked at where there was nothing.
    pub optional_old_self: Option<bool>,
}

impl Rule {
    /// Reads an item of `x-kubernetes-validations`.
    pub fn read(item: &Value) -> Rule {
        let text = |name: &str| item.str_at(&[name]).to_owned();
        Rule {
            rule: text("rule"),
            message: text("message"),
            message_expression: text("messageExpression"),
            reason: item.get("reason").and_then(Value::as_str).map(str::to_owned),
            field_path: text("fieldPath"),
            optional_old_self: item.get("optionalOldSelf").and_then(Value::as_bool),
        }
    }

    /// All rules of a node.
    pub fn all(schema: &Value) -> Vec<Rule> {
        let items = schema.array_at(&["x-kubernetes-validations"]);
        items.iter().map(Rule::read).collect()
    }

    /// The old object is an optional.
    pub fn is_optional(&self) -> bool {
        self.optional_old_self == Some(true)
    }

    /// What errors call the rule.
    pub fn shown(&self) -> &str {
        match self.message.is_empty() {
            true => self.rule.trim(),
            false => self.message.trim(),
        }
    }
}

/// A rule that was compiled, or could not be.
#[derive(Debug, Default)]
pub struct Compiled {
    /// The expression; `None` if there is none or it is wrong.
    pub program: Option<Program>,
    /// What is wrong with it.
    pub error: Option<String>,
    /// It looks at the old object.
    pub uses_old_self: bool,
    /// What one evaluation may cost at most.
    pub max_cost: u64,
    /// The expression of the message.
    pub message: Option<Program>,
    /// What is wrong with that.
    pub message_error: Option<String>,
    /// What it may cost at most.
    pub message_cost: u64,
    /// The path of the field that is said to be wrong, in normal form.
    pub field_path: String,
}

fn refused(prefix: &str, issues: &Issues) -> String {
    format!("{prefix}compilation failed: {issues}")
}

/// Compiles the rules of a node of type `ty`; its sizes are those that `declared` says.
pub fn compile(schema: &Value, rules: &[Rule], declared: &Arc<Declared>, ty: &Type) -> Vec<Compiled> {
    let environment = Environment::new().variable("self", ty.clone());
    let plain = environment.clone().variable("oldSelf", ty.clone());
    let optional = environment.variable("oldSelf", Type::optional(ty.clone()));
    rules
        .iter()
        .map(|rule| {
            let environment = if rule.is_optional() { &optional } else { &plain };
            one(schema, rule, environment, declared)
        })
        .collect()
}

fn one(schema: &Value, rule: &Rule, environment: &Environment, declared: &Declared) -> Compiled {
    let mut compiled = Compiled::default();
    if rule.rule.trim().is_empty() {
        return compiled;
    }
    match environment.compile(&rule.rule) {
        Err(issues) => compiled.error = Some(refused("", &issues)),
        Ok(program) if *program.output_type() != Type::Bool => {
            compiled.error = Some("cel expression must evaluate to a bool".to_owned());
        }
        Ok(program) => {
            compiled.uses_old_self = program.references("oldSelf");
            if let Some(why) = program.instantiation_error() {
                compiled.error = Some(format!("program instantiation failed: {why}"));
            } else {
                compiled.max_cost = program.estimate(declared).max;
                compiled.program = Some(program);
            }
        }
    }
    if compiled.program.is_none() {
        return compiled;
    }
    if !rule.message_expression.is_empty() {
        message(rule, environment, declared, &mut compiled);
        if compiled.message_error.is_some() {
            return compiled;
        }
    }
    if !rule.field_path.is_empty()
        && let Ok((path, _)) = field_path::follow(&rule.field_path, schema, true)
    {
        compiled.field_path = path;
    }
    compiled
}

fn message(rule: &Rule, environment: &Environment, declared: &Declared, compiled: &mut Compiled) {
    match environment.compile(&rule.message_expression) {
        Err(issues) => compiled.message_error = Some(refused("messageExpression ", &issues)),
        Ok(program) if *program.output_type() != Type::String => {
            compiled.message_error = Some("messageExpression must evaluate to a string".to_owned());
        }
        Ok(program) => match program.instantiation_error() {
            Some(why) => compiled.message_error = Some(format!("messageExpression instantiation failed: {why}")),
            None => {
                compiled.message_cost = program.estimate(declared).max;
                compiled.message = Some(program);
            }
        },
    }
}
