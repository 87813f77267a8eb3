//! Evaluation of a checked tree.
//!
//! Contract: values, errors and costs as cel-go's interpreter with Kubernetes' options. `&&`, `||` and folds absorb errors as there;
//! running out of budget is absorbed by nothing. Recursion is that of the tree, which the parser bounds.

mod access;
mod fold;
mod operators;

pub(crate) use operators::add;

use std::collections::HashMap;
use std::sync::Arc;

use regex::Regex;

use crate::ast::{Entry, Expr, ExprKind, FieldInit, Literal};
use crate::cost;
use crate::error::EvalError;
use crate::libraries::{self, Context};
use crate::program::{Activation, Budget, Program};
use crate::value::{Built, Map};
use crate::value::{Found, Struct, Text, Value, equal};

/// An evaluation under way.
pub(crate) struct Interpreter<'e, 'a> {
    program: &'a Program,
    activation: &'e dyn Activation<'a>,
    budget: &'e mut Budget,
    /// Variables of folds, innermost last; an accumulator may hold an error.
    scopes: Vec<(Arc<str>, Found<'a>)>,
    /// Patterns computed while evaluating.
    patterns: HashMap<String, Regex>,
}

impl<'e, 'a> Interpreter<'e, 'a> {
    pub fn new(program: &'a Program, activation: &'e dyn Activation<'a>, budget: &'e mut Budget) -> Self {
        Interpreter {
            program,
            activation,
            budget,
            scopes: Vec::new(),
            patterns: HashMap::new(),
        }
    }

    pub fn run(mut self) -> Found<'a> {
        self.eval(&self.program.checked.root)
    }

    fn spend(&mut self, cost: u64) -> Result<(), EvalError> {
        self.budget.spend(cost)
    }

    fn eval(&mut self, expr: &'a Expr) -> Found<'a> {
        match &expr.kind {
            ExprKind::Unspecified => Err(EvalError::new("unspecified expression")),
            ExprKind::Literal(literal) => Ok(constant(literal)),
            ExprKind::Ident(name) => self.ident(name),
            ExprKind::Select { operand, field, test } => self.select(operand, field, *test),
            ExprKind::Call { function, target, args } => self.call(expr, function, target.as_deref(), args),
            ExprKind::List { items, optional } => self.list(items, optional),
            ExprKind::Map(entries) => self.map(entries),
            ExprKind::Struct { name, fields } => self.structure(name, fields),
            ExprKind::Comprehension(fold) => self.fold(fold),
        }
    }

    fn ident(&mut self, name: &Arc<str>) -> Found<'a> {
        if let Some((_, value)) = self.scopes.iter().rev().find(|(n, _)| n == name) {
            let value = value.clone();
            self.spend(cost::SELECT_AND_IDENT)?;
            return value;
        }
        if let Some(value) = self.activation.variable(name) {
            self.spend(cost::SELECT_AND_IDENT)?;
            return value;
        }
        match crate::environment::builtin(name) {
            Some(ty) => Ok(Value::Type(ty)),
            None => Err(EvalError::new(format!("no such attribute(s): {name}"))),
        }
    }

    /// Evaluates what another attribute takes in: what is read first costs nothing of its own there.
    fn inner(&mut self, expr: &'a Expr) -> Found<'a> {
        let outcome = self.eval(expr);
        if is_attribute(expr) {
            self.budget.spent = self.budget.spent.saturating_sub(cost::SELECT_AND_IDENT);
        }
        outcome
    }

    fn call(&mut self, expr: &'a Expr, function: &Arc<str>, target: Option<&'a Expr>, args: &'a [Expr]) -> Found<'a> {
        match (&**function, args) {
            ("_&&_", [a, b]) => return self.logical(a, b, false),
            ("_||_", [a, b]) => return self.logical(a, b, true),
            ("_?_:_", [condition, yes, no]) => {
                return match self.eval(condition)? {
                    Value::Bool(true) => self.inner(yes),
                    Value::Bool(false) => self.inner(no),
                    _ => Err(EvalError::no_such_overload()),
                };
            }
            ("@not_strictly_false", [arg]) => {
                let outcome = self.eval(arg);
                self.spend(1)?;
                return Ok(Value::Bool(match outcome {
                    Ok(Value::Bool(b)) => b,
                    Err(e) if e.is_over_budget() => return Err(e),
                    _ => true,
                }));
            }
            ("_[_]", [operand, index]) => return self.index(operand, index, false),
            ("_[?_]", [operand, index]) => return self.index(operand, index, true),
            ("_?._", [operand, field]) => return self.optional_select(operand, field),
            ("@in", [item, list]) if self.is_constant_list(list) => return self.member_of_constants(item, list),
            ("or" | "orValue", [other]) => {
                if let Some(target) = target {
                    return self.or(function, target, other);
                }
            }
            _ => {}
        }
        if let Some(value) = self.program.constants.get(&expr.id) {
            return Ok(value.clone());
        }
        let (values, wrong) = self.arguments(function, target, args)?;
        let overloads = self.program.checked.overloads(expr.id);
        let overload = match overloads {
            [one] => one,
            _ => "",
        };
        if let Some(wrong) = wrong {
            self.spend(cost::Before::of(function, overload, &values).cost(None))?;
            return Err(wrong);
        }
        self.apply(function, overload, values)
    }

    /// The values of arguments. Of one or two all are evaluated, the first error comes back beside them; of more none after an error.
    fn arguments(
        &mut self,
        function: &str,
        target: Option<&'a Expr>,
        args: &'a [Expr],
    ) -> Result<(Vec<Value<'a>>, Option<EvalError>), EvalError> {
        let count = args.len() + usize::from(target.is_some());
        let mut values = Vec::with_capacity(count);
        let mut wrong: Option<EvalError> = None;
        // An accumulator that is added to is taken, not copied, so that collecting is not quadratic.
        let taken = match args.first().map(|a| &a.kind) {
            Some(ExprKind::Ident(name)) if matches!(function, "_+_" | "cel.@mapInsert") => self.accumulator(name),
            _ => None,
        };
        for (i, arg) in target.into_iter().chain(args).enumerate() {
            let outcome = match taken {
                Some(_) if i == 0 => self.spend(cost::SELECT_AND_IDENT).map(|()| Value::Null),
                _ => self.eval(arg),
            };
            match outcome {
                Ok(value) => values.push(value),
                Err(e) if e.is_over_budget() || count > 2 => return Err(e),
                Err(e) => {
                    values.push(Value::Null);
                    wrong = wrong.or(Some(e));
                }
            }
        }
        if let (Some(at), None) = (taken, &wrong) {
            values[0] = std::mem::replace(&mut self.scopes[at].1, Ok(Value::Null))?;
        }
        Ok((values, wrong))
    }

    fn apply(&mut self, function: &str, overload: &str, values: Vec<Value<'a>>) -> Found<'a> {
        // Sizes are taken before, the values may be used up.
        let before = cost::Before::of(function, overload, &values);
        let mut context = Context {
            patterns: &self.program.patterns,
            made: &mut self.patterns,
            left: self.budget.limit.saturating_sub(self.budget.spent),
            overload,
        };
        let outcome = match operators::apply(function, values) {
            operators::Applied::Yes(outcome) => outcome,
            operators::Applied::No(values) => libraries::call(function, &mut context, &values),
        };
        self.spend(before.cost(outcome.as_ref().ok()))?;
        outcome
    }

    fn logical(&mut self, a: &'a Expr, b: &'a Expr, decisive: bool) -> Found<'a> {
        let mut wrong = None;
        for term in [a, b] {
            match self.eval(term) {
                Ok(Value::Bool(b)) if b == decisive => return Ok(Value::Bool(b)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => wrong = wrong.or(Some(EvalError::no_such_overload())),
                Err(e) if e.is_over_budget() => return Err(e),
                Err(e) => wrong = wrong.or(Some(e)),
            }
        }
        match wrong {
            Some(e) => Err(e),
            None => Ok(Value::Bool(!decisive)),
        }
    }

    fn or(&mut self, function: &str, target: &'a Expr, other: &'a Expr) -> Found<'a> {
        match self.eval(target)? {
            Value::Optional(Some(value)) if function == "orValue" => Ok((*value).clone()),
            Value::Optional(Some(value)) => Ok(Value::Optional(Some(value))),
            Value::Optional(None) => self.eval(other),
            _ => Err(EvalError::no_such_overload()),
        }
    }

    fn is_constant(&self, expr: &Expr) -> bool {
        is_constant(expr, &|id| self.program.constants.contains_key(&id))
    }

    /// What upstream makes a set of, in which items are looked up at no cost.
    fn is_constant_list(&self, expr: &Expr) -> bool {
        let plain = |item: &Expr| match &item.kind {
            ExprKind::Literal(literal) => !matches!(literal, Literal::Bytes(_) | Literal::Null),
            _ => matches!(
                self.program.constants.get(&item.id),
                Some(Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::String(_))
            ),
        };
        match &expr.kind {
            ExprKind::List { items, optional } => items.iter().all(plain) && !optional.contains(&true),
            _ => false,
        }
    }

    fn member_of_constants(&mut self, item: &'a Expr, list: &'a Expr) -> Found<'a> {
        let ExprKind::List { items, .. } = &list.kind else {
            return Ok(Value::Bool(false));
        };
        if items.is_empty() {
            return Ok(Value::Bool(false));
        }
        let value = self.eval(item)?;
        for item in items {
            if equal(&self.eval(item)?, &value)? {
                return Ok(Value::Bool(true));
            }
        }
        Ok(Value::Bool(false))
    }

    fn list(&mut self, items: &'a [Expr], optional: &[bool]) -> Found<'a> {
        let mut values = Vec::with_capacity(items.len());
        let mut constants = true;
        for (item, optional) in items.iter().zip(optional) {
            constants &= self.is_constant(item);
            match (self.eval(item)?, optional) {
                (value, false) => values.push(value),
                (Value::Optional(inner), true) => values.extend(inner.as_deref().cloned()),
                (other, true) => {
                    return Err(EvalError::new(format!(
                        "cannot initialize optional list element from non-optional value {other}"
                    )));
                }
            }
        }
        if !constants {
            self.spend(cost::LIST_CREATE)?;
        }
        Ok(Value::list(values))
    }

    fn map(&mut self, entries: &'a [Entry]) -> Found<'a> {
        let mut built = Built::default();
        let mut constants = true;
        for entry in entries {
            constants &= self.is_constant(&entry.key) && self.is_constant(&entry.value);
            let key = self.eval(&entry.key)?;
            let value = match (self.eval(&entry.value)?, entry.optional) {
                (value, false) => value,
                (Value::Optional(None), true) => continue,
                (Value::Optional(Some(inner)), true) => (*inner).clone(),
                (other, true) => return Err(not_optional(&key, &other)),
            };
            if !built.insert(key.clone(), value)? {
                return Err(EvalError::new(format!("Failed with repeated key {key}")));
            }
        }
        if !constants {
            self.spend(cost::MAP_CREATE)?;
        }
        Ok(Value::Map(Map::new(built)))
    }

    fn structure(&mut self, name: &Arc<str>, fields: &'a [FieldInit]) -> Found<'a> {
        let mut made = Vec::with_capacity(fields.len());
        for field in fields {
            let value = match (self.eval(&field.value)?, field.optional) {
                (value, false) => value,
                (Value::Optional(None), true) => continue,
                (Value::Optional(Some(inner)), true) => (*inner).clone(),
                (other, true) => return Err(not_optional(&Value::string(field.name.clone()), &other)),
            };
            made.push((field.name.clone(), value));
        }
        self.spend(cost::STRUCT_CREATE)?;
        Ok(Value::Struct(Arc::new(Struct {
            name: name.clone(),
            fields: made,
        })))
    }
}

fn not_optional(key: &Value<'_>, value: &Value<'_>) -> EvalError {
    EvalError::new(format!(
        "cannot initialize optional entry '{key}' from non-optional value {value}"
    ))
}

pub(crate) fn constant(literal: &Literal) -> Value<'_> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(b) => Value::Bool(*b),
        Literal::Int(i) => Value::Int(*i),
        Literal::Uint(u) => Value::Uint(*u),
        Literal::Double(d) => Value::Double(*d),
        Literal::String(text) => Value::String(Text::Borrowed(text)),
        Literal::Bytes(bytes) => Value::Bytes(bytes.clone()),
    }
}

/// What upstream folds into a constant before evaluation, which then costs nothing; `folded` knows the calls among them.
pub(crate) fn is_constant(expr: &Expr, folded: &dyn Fn(usize) -> bool) -> bool {
    match &expr.kind {
        ExprKind::Literal(_) => true,
        ExprKind::Call { .. } => folded(expr.id),
        ExprKind::List { items, .. } => items.iter().all(|i| is_constant(i, folded)),
        ExprKind::Map(entries) => entries
            .iter()
            .all(|e| is_constant(&e.key, folded) && is_constant(&e.value, folded)),
        _ => false,
    }
}

/// A name, or members and items of something.
fn is_attribute(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Ident(_) => true,
        ExprKind::Select { test, .. } => !test,
        ExprKind::Call { function, .. } => matches!(&**function, "_[_]" | "_[?_]" | "_?._"),
        _ => false,
    }
}
