//! Why an evaluation failed.

use std::fmt;

/// Why an evaluation failed; displays as cel-go's error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvalError {
    message: String,
    /// The expression cost more than it may; nothing absorbs this.
    over_budget: bool,
}

impl EvalError {
    /// An error with this text.
    pub fn new(message: impl Into<String>) -> EvalError {
        EvalError {
            message: message.into(),
            over_budget: false,
        }
    }

    /// What arguments get that no overload takes.
    pub fn no_such_overload() -> EvalError {
        EvalError::new("no such overload")
    }

    /// The expression cost more than it may.
    pub fn over_budget() -> EvalError {
        EvalError {
            message: "operation cancelled: actual cost limit exceeded".to_owned(),
            over_budget: true,
        }
    }

    /// Whether the expression cost more than it may.
    pub fn is_over_budget(&self) -> bool {
        self.over_budget
    }
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for EvalError {}
