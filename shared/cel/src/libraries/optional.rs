//! Optional values.

use std::sync::Arc;

use crate::error::EvalError;
use crate::value::{Found, Value};

/// Calls a function if it is one of these.
pub fn call<'a>(function: &str, args: &[Value<'a>]) -> Option<Found<'a>> {
    Some(Ok(match (function, args) {
        ("optional.of", [value]) => Value::optional(Some(value.clone())),
        ("optional.ofNonZeroValue", [value]) => Value::optional(Some(value.clone()).filter(|v| !v.is_zero())),
        ("optional.none", []) => Value::Optional(None),
        ("value", [Value::Optional(Some(value))]) => Arc::unwrap_or_clone(value.clone()),
        ("value", [Value::Optional(None)]) => return Some(Err(EvalError::new("optional.none() dereference"))),
        ("hasValue", [Value::Optional(value)]) => Value::Bool(value.is_some()),
        ("first", [Value::List(list)]) => return Some(list.get(0).transpose().map(Value::optional)),
        ("last", [Value::List(list)]) => {
            let last = list.len().checked_sub(1).and_then(|i| list.get(i));
            return Some(last.transpose().map(Value::optional));
        }
        ("optional.unwrap" | "unwrapOpt", [Value::List(list)]) => {
            let mut values = Vec::new();
            for item in list.iter() {
                match item {
                    Ok(Value::Optional(value)) => values.extend(value.as_deref().cloned()),
                    Ok(other) => return Some(Err(EvalError::new(format!("value {other} is not optional")))),
                    Err(e) => return Some(Err(e)),
                }
            }
            Value::list(values)
        }
        _ => return None,
    }))
}
