//! Match conditions: expressions that must all hold for a webhook or policy to be asked.

use triptych_cel::Value as Cel;
use triptych_object::field;

use super::compile::{Compiler, Returns, Uses};
use super::evaluate::{CONDITIONS_BUDGET, Compiled, Evaluation, Input, Variable};

/// What conditions say of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All hold.
    Match,
    /// One does not hold.
    NoMatch,
    /// None is false, but some cannot be told.
    Error(String),
}

/// Compiles `matchConditions`.
pub fn compile<'t>(compiler: &Compiler, texts: impl Iterator<Item = &'t str>, params: bool) -> Vec<Compiled> {
    let uses = Uses {
        params,
        authorizer: true,
        patches: false,
    };
    let compiled = texts.map(|text| Compiled {
        text: text.to_owned(),
        program: compiler.compile(text, uses, Returns::Bool),
    });
    compiled.collect()
}

/// Evaluates conditions. Whatever else fails, one that is false decides.
pub fn check<'a>(conditions: &'a [Compiled], input: Input<'a>, variables: &'a [Variable]) -> Outcome {
    let evaluation = Evaluation::new(input, variables);
    let mut left = CONDITIONS_BUDGET;
    let mut errors: Vec<String> = Vec::new();
    let mut failed = false;
    for condition in conditions {
        match evaluation.run(condition, &mut left) {
            Ok(Ok(Cel::Bool(false))) => failed = true,
            Ok(Ok(_)) => {}
            Ok(Err(why)) => errors.push(why),
            Err(exhausted) => return Outcome::Error(exhausted.to_string()),
        }
    }
    match (failed, errors.is_empty()) {
        (true, _) => Outcome::NoMatch,
        (false, true) => Outcome::Match,
        (false, false) => Outcome::Error(field::aggregate(errors)),
    }
}
