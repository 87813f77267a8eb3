//! Patterns: `matches`, `find`, `findAll`, in time linear in the text.

use super::Context;
use super::standard::texts;
use crate::error::EvalError;
use crate::value::{Found, Value};

/// Calls a function if it is one of these.
pub fn call<'a>(function: &str, context: &mut Context<'_>, args: &[Value<'a>]) -> Option<Found<'a>> {
    let (text, pattern, limit) = match (function, args) {
        ("matches" | "find" | "findAll", [Value::String(text), Value::String(pattern)]) => (text, pattern, -1),
        ("findAll", [Value::String(text), Value::String(pattern), Value::Int(limit)]) => (text, pattern, *limit),
        ("matches", [Value::String(_), _]) => return Some(Err(EvalError::no_such_overload())),
        ("matches", [_, _]) => return Some(Err(EvalError::new("no such overload: matches"))),
        _ => return None,
    };
    let regex = match context.pattern(pattern) {
        Ok(regex) => regex,
        Err(message) if function == "matches" => return Some(Err(EvalError::new(message))),
        Err(message) => return Some(Err(EvalError::new(format!("Illegal regex: {message}")))),
    };
    Some(Ok(match function {
        "matches" => Value::Bool(regex.is_match(text)),
        "find" => Value::string(regex.find(text).map_or("", |m| m.as_str())),
        _ => {
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            texts(regex.find_iter(text).take(limit).map(|m| m.as_str().to_owned()))
        }
    }))
}
