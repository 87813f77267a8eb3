//! A compiled expression.

use std::collections::HashMap;
use std::sync::Arc;

use regex::Regex;
use triptych_schema::go_regex;

use crate::ast::{Expr, ExprKind, Literal};
use crate::checker::{Checked, Reference};
use crate::cost::{self, Estimate, Sizes};
use crate::error::EvalError;
use crate::interpreter::Interpreter;
use crate::types::Type;
use crate::value::{Built, Found, Map, Value};

/// A compiled expression; may be evaluated any number of times, by any number of threads.
#[derive(Debug)]
pub struct Program {
    pub(crate) checked: Checked,
    /// Patterns written as literals.
    pub(crate) patterns: HashMap<Arc<str>, Regex>,
    /// Conversions of literals, by id.
    pub(crate) constants: HashMap<usize, Value<'static>>,
    wrong_constant: Option<String>,
}

/// What the variables of an expression are worth.
pub trait Activation<'a> {
    /// The value of a variable.
    fn variable(&self, name: &str) -> Option<Found<'a>>;

    /// The value of a variable's member, for variables whose members are computed when asked for.
    fn member(&self, variable: &str, member: &str) -> Option<Found<'a>> {
        let _ = (variable, member);
        None
    }
}

impl<'a, const N: usize> Activation<'a> for [(&str, Value<'a>); N] {
    fn variable(&self, name: &str) -> Option<Found<'a>> {
        self.iter()
            .find(|(n, _)| *n == name)
            .map(|(_, value)| Ok(value.clone()))
    }
}

impl<'a> Activation<'a> for HashMap<&str, Value<'a>> {
    fn variable(&self, name: &str) -> Option<Found<'a>> {
        self.get(name).cloned().map(Ok)
    }
}

/// How much an evaluation may cost, and has cost.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Beyond this an evaluation is ended.
    pub limit: u64,
    /// What has been spent.
    pub spent: u64,
}

impl Budget {
    /// What one expression may cost: `PerCallLimit`.
    pub const PER_CALL: u64 = 1_000_000;

    /// Nothing spent yet, so much allowed.
    pub fn new(limit: u64) -> Budget {
        Budget { limit, spent: 0 }
    }

    /// Spends; an error beyond the limit.
    pub(crate) fn spend(&mut self, cost: u64) -> Result<(), EvalError> {
        self.spent = self.spent.saturating_add(cost);
        if self.spent > self.limit {
            return Err(EvalError::over_budget());
        }
        Ok(())
    }
}

impl Default for Budget {
    fn default() -> Self {
        Budget::new(Budget::PER_CALL)
    }
}

impl Program {
    pub(crate) fn new(checked: Checked) -> Program {
        let mut program = Program {
            patterns: HashMap::new(),
            constants: HashMap::new(),
            wrong_constant: None,
            checked,
        };
        let mut constants = HashMap::new();
        let folded = fold_constants(&program.checked.root, &mut constants);
        program.wrong_constant = folded.err().map(|e| e.to_string());
        program.constants = constants;
        let mut patterns = Vec::new();
        collect_patterns(&program.checked.root, &mut patterns);
        for pattern in patterns {
            match go_regex::compile(&pattern) {
                Ok(regex) => drop(program.patterns.insert(pattern, regex)),
                Err(e) => program.wrong_constant = Some(e),
            }
        }
        program
    }

    /// What cannot be known before the program is made: cel-go's "program instantiation failed".
    pub fn instantiation_error(&self) -> Option<&str> {
        self.wrong_constant.as_deref()
    }

    /// The type of its value.
    pub fn output_type(&self) -> &Type {
        self.checked.type_of(&self.checked.root)
    }

    /// Whether it refers to a variable of this name.
    pub fn references(&self, name: &str) -> bool {
        self.checked
            .references
            .iter()
            .any(|r| matches!(r, Some(Reference::Ident(n)) if &**n == name))
    }

    /// What an evaluation costs at least and at most, when what it reads is as large as `sizes` says.
    pub fn estimate(&self, sizes: &dyn Sizes) -> Estimate {
        cost::estimate(&self.checked, sizes)
    }

    /// Evaluates; stops when the budget is spent.
    pub fn evaluate<'a>(&'a self, activation: &dyn Activation<'a>, budget: &mut Budget) -> Found<'a> {
        Interpreter::new(self, activation, budget).run()
    }
}

/// How much stack a tree needs to be evaluated, in units of a call; a fold needs more.
pub(crate) fn weight(expr: &Expr) -> usize {
    let own = match &expr.kind {
        ExprKind::Comprehension(_) => 4,
        _ => 1,
    };
    let mut below = 0;
    crate::walk::children(expr, &mut |child| below = below.max(weight(child)));
    own + below
}

/// Converts literals before evaluation, as upstream's planner does.
fn fold_constants(expr: &Expr, constants: &mut HashMap<usize, Value<'static>>) -> Result<(), EvalError> {
    let mut outcome = Ok(());
    crate::walk::children(expr, &mut |child| {
        if outcome.is_ok() {
            outcome = fold_constants(child, constants);
        }
    });
    outcome?;
    let ExprKind::Call {
        function,
        target: None,
        args,
    } = &expr.kind
    else {
        return Ok(());
    };
    let converts = matches!(
        &**function,
        "bool" | "bytes" | "double" | "dyn" | "duration" | "int" | "string" | "timestamp" | "type" | "uint"
    );
    let ([arg], true) = (args.as_slice(), converts) else {
        return Ok(());
    };
    let Some(value) = constant_value(arg, constants)? else {
        return Ok(());
    };
    constants.insert(expr.id, crate::libraries::convert(function, value)?);
    Ok(())
}

/// The value of a literal, or of a list or map of such.
fn constant_value(
    expr: &Expr,
    constants: &HashMap<usize, Value<'static>>,
) -> Result<Option<Value<'static>>, EvalError> {
    Ok(Some(match &expr.kind {
        ExprKind::Literal(literal) => match literal {
            Literal::String(text) => Value::string(text.clone()),
            Literal::Bytes(bytes) => Value::Bytes(bytes.clone()),
            Literal::Null => Value::Null,
            Literal::Bool(b) => Value::Bool(*b),
            Literal::Int(i) => Value::Int(*i),
            Literal::Uint(u) => Value::Uint(*u),
            Literal::Double(d) => Value::Double(*d),
        },
        ExprKind::List { items, optional } if !optional.contains(&true) => {
            let mut values = Vec::with_capacity(items.len());
            for item in items {
                let Some(value) = constant_value(item, constants)? else {
                    return Ok(None);
                };
                values.push(value);
            }
            Value::list(values)
        }
        ExprKind::Map(entries) if entries.iter().all(|e| !e.optional) => {
            let mut built = Built::default();
            for entry in entries {
                let key = constant_value(&entry.key, constants)?;
                let (Some(key), Some(value)) = (key, constant_value(&entry.value, constants)?) else {
                    return Ok(None);
                };
                built.insert(key, value)?;
            }
            Value::Map(Map::new(built))
        }
        _ => return Ok(constants.get(&expr.id).cloned()),
    }))
}

/// Patterns of `matches`, `find` and `findAll` that are literals.
fn collect_patterns(expr: &Expr, found: &mut Vec<Arc<str>>) {
    if let ExprKind::Call { function, target, args } = &expr.kind
        && matches!(&**function, "matches" | "find" | "findAll")
    {
        let pattern = if target.is_some() { args.first() } else { args.get(1) };
        if let Some(ExprKind::Literal(Literal::String(text))) = pattern.map(|p| &p.kind) {
            found.push(text.clone());
        }
    }
    crate::walk::children(expr, &mut |child| collect_patterns(child, found));
}
