//! Evaluating the expressions of one webhook or policy on one request.
//!
//! Contract: variables of a policy are evaluated when they are first used, once for each group of expressions; what they
//! cost counts. An expression that fails is told apart from a budget that is spent, which ends the group.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use triptych_cel::libraries::authorization::Step;
use triptych_cel::value::{Built, Found, Map};
use triptych_cel::{Activation, Budget, EvalError, Program, Value as Cel};
use triptych_object::Value;
use triptych_object::field::quote;

/// What the expressions of a policy and one of its bindings may cost together, by group.
pub const POLICY_BUDGET: u64 = 10_000_000;
/// What all match conditions may cost together.
pub const CONDITIONS_BUDGET: u64 = 2_500_000;

/// A compiled expression with its text, or why it does not compile.
pub struct Compiled {
    /// As the user wrote it.
    pub text: String,
    /// The outcome of compiling.
    pub program: Result<Program, String>,
}

/// A named expression that others may use.
pub struct Variable {
    /// Its name.
    pub name: String,
    /// What it is worth.
    pub expression: Compiled,
}

/// What expressions see of a request.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The object, absent when it is deleted.
    pub object: Option<&'a Value>,
    /// The object before.
    pub old: Option<&'a Value>,
    /// The parameter, if there is one.
    pub params: Option<&'a Value>,
    /// The request.
    pub request: &'a Value,
    /// Its namespace.
    pub namespace: Option<&'a Value>,
    /// The authorizer, and what the request is to.
    pub authorizer: Option<(&'a Step, &'a Step)>,
}

/// Why evaluating has to stop: the budget is spent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exhausted;

impl std::fmt::Display for Exhausted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("validation failed due to running out of cost budget, no further validation rules will be run")
    }
}

/// One group of expressions being evaluated.
pub struct Evaluation<'a> {
    input: Input<'a>,
    variables: &'a [Variable],
    known: RefCell<HashMap<&'a str, Found<'a>>>,
    /// What variables have cost since it was last looked at.
    cost: Cell<u64>,
}

impl<'a> Evaluation<'a> {
    /// Of a request, with the variables of a policy.
    pub fn new(input: Input<'a>, variables: &'a [Variable]) -> Evaluation<'a> {
        Evaluation {
            input,
            variables,
            known: RefCell::default(),
            cost: Cell::new(0),
        }
    }

    /// The value of an expression, or why there is none; `left` is what the group may still cost.
    pub fn run(&self, expression: &'a Compiled, left: &mut u64) -> Result<Result<Cel<'a>, String>, Exhausted> {
        let program = match &expression.program {
            Ok(program) => program,
            Err(why) => return Ok(Err(format!("compilation error: {why}"))),
        };
        let mut budget = Budget::default();
        let outcome = program.evaluate(self, &mut budget);
        let cost = budget.spent.saturating_add(self.cost.take());
        *left = left.checked_sub(cost).ok_or(Exhausted)?;
        Ok(outcome.map_err(|why| format!("expression '{}' resulted in error: {why}", expression.text)))
    }

    fn composed(&self, name: &str) -> Option<Found<'a>> {
        let variable = self.variables.iter().find(|variable| variable.name == name)?;
        if let Some(known) = self.known.borrow().get(name) {
            return Some(known.clone());
        }
        let found = match &variable.expression.program {
            Ok(program) => {
                let mut budget = Budget::default();
                let outcome = program.evaluate(self, &mut budget);
                self.cost.set(self.cost.get().saturating_add(budget.spent));
                outcome.map_err(|why| {
                    EvalError::new(format!("composited variable {} fails to evaluate: {why}", quote(name)))
                })
            }
            Err(why) => Err(EvalError::new(format!(
                "composited variable {} fails to compile: {why}",
                quote(name)
            ))),
        };
        self.known.borrow_mut().insert(&variable.name, found.clone());
        Some(found)
    }

    /// All variables that have a value, for expressions that treat them as a map.
    fn all(&self) -> Found<'a> {
        let mut built = Built::default();
        for variable in self.variables {
            if let Some(Ok(value)) = self.composed(&variable.name) {
                built.insert(Cel::string(variable.name.as_str()), value)?;
            }
        }
        Ok(Cel::Map(Map::new(built)))
    }
}

fn shown<'a>(value: Option<&'a Value>) -> Found<'a> {
    Ok(value.map_or(Cel::Null, Cel::of))
}

impl<'a> Activation<'a> for Evaluation<'a> {
    fn variable(&self, name: &str) -> Option<Found<'a>> {
        Some(match name {
            "object" => shown(self.input.object),
            "oldObject" => shown(self.input.old),
            "params" => shown(self.input.params),
            "request" => shown(Some(self.input.request)),
            "namespaceObject" => shown(self.input.namespace),
            "authorizer" => Ok(self.input.authorizer?.0.clone().value()),
            "authorizer.requestResource" => Ok(self.input.authorizer?.1.clone().value()),
            "variables" => self.all(),
            _ => return None,
        })
    }

    fn member(&self, variable: &str, member: &str) -> Option<Found<'a>> {
        match variable {
            "variables" => self.composed(member),
            _ => None,
        }
    }
}
