//! Arithmetic, order, membership: the operators that are functions of their values.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::error::EvalError;
use crate::value::{Found, Map, Value, compare, equal, is_comparable};

/// What became of a call.
pub enum Applied<'a> {
    /// It was an operator.
    Yes(Found<'a>),
    /// It was not.
    No(Vec<Value<'a>>),
}

/// Applies an operator.
pub fn apply<'a>(function: &str, values: Vec<Value<'a>>) -> Applied<'a> {
    let mut values = values;
    let binary = matches!(
        function,
        "_+_"
            | "_-_"
            | "_*_"
            | "_/_"
            | "_%_"
            | "_==_"
            | "_!=_"
            | "_<_"
            | "_<=_"
            | "_>_"
            | "_>=_"
            | "@in"
            | "cel.@mapInsert"
    );
    if binary && values.len() >= 2 {
        let rest = values.split_off(1);
        let Some(a) = values.pop() else {
            return Applied::No(rest);
        };
        return Applied::Yes(two(function, a, rest));
    }
    match (function, values.as_slice()) {
        ("!_", [Value::Bool(b)]) => Applied::Yes(Ok(Value::Bool(!b))),
        ("!_", [_]) => Applied::Yes(Err(EvalError::no_such_overload())),
        ("-_", [value]) => Applied::Yes(negate(value)),
        _ => Applied::No(values),
    }
}

fn two<'a>(function: &str, a: Value<'a>, mut rest: Vec<Value<'a>>) -> Found<'a> {
    if function == "cel.@mapInsert" {
        return insert(a, rest);
    }
    let Some(b) = rest.pop() else {
        return Err(EvalError::no_such_overload());
    };
    match function {
        "_+_" => add(a, &b),
        "_-_" | "_*_" | "_/_" | "_%_" => arithmetic(function, &a, &b),
        "_==_" => equal(&a, &b).map(Value::Bool),
        "_!=_" => equal(&a, &b).map(|same| Value::Bool(!same)),
        "@in" => contains(&a, &b).map(Value::Bool),
        _ => order(function, &a, &b),
    }
}

fn unsupported(function: &str, supported: bool) -> EvalError {
    match supported {
        true => EvalError::no_such_overload(),
        false => EvalError::new(format!("no such overload: {function}")),
    }
}

fn order<'a>(function: &str, a: &Value<'a>, b: &Value<'a>) -> Found<'a> {
    if !is_comparable(a) {
        return Err(unsupported(function, false));
    }
    let order = compare(a, b)?;
    Ok(Value::Bool(match function {
        "_<_" => order == Ordering::Less,
        "_<=_" => order != Ordering::Greater,
        "_>_" => order == Ordering::Greater,
        _ => order != Ordering::Less,
    }))
}

/// Whether an item is in a list, or a key in a map.
pub fn contains<'a>(item: &Value<'a>, container: &Value<'a>) -> Result<bool, EvalError> {
    match container {
        Value::List(list) => {
            for other in list.iter() {
                if equal(&other?, item)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Map(map) => Ok(map.find(item)?.is_some()),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn overflow() -> EvalError {
    EvalError::new("integer overflow")
}

fn unsigned_overflow() -> EvalError {
    EvalError::new("unsigned integer overflow")
}

/// `a + b`; a list that nobody else has is added to in place.
pub fn add<'a>(a: Value<'a>, b: &Value<'a>) -> Found<'a> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.checked_add(*b).map(Value::Int).ok_or_else(overflow),
        (Value::Uint(a), Value::Uint(b)) => a.checked_add(*b).map(Value::Uint).ok_or_else(unsigned_overflow),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a + b)),
        (Value::String(a), Value::String(b)) => Ok(Value::string(format!("{}{}", &*a, &**b))),
        (Value::Bytes(a), Value::Bytes(b)) => Ok(Value::Bytes(a.iter().chain(b.iter()).copied().collect())),
        (Value::List(a), Value::List(b)) => crate::value::concat(a, b).map(Value::List),
        (Value::Duration(a), Value::Duration(b)) => a.plus(*b).map(Value::Duration),
        (Value::Duration(a), Value::Timestamp(b)) => b.plus(a).map(Value::Timestamp),
        (Value::Timestamp(a), Value::Duration(b)) => a.plus(*b).map(Value::Timestamp),
        (a, _) => {
            let adds = matches!(
                a,
                Value::Int(_)
                    | Value::Uint(_)
                    | Value::Double(_)
                    | Value::String(_)
                    | Value::Bytes(_)
                    | Value::List(_)
                    | Value::Duration(_)
                    | Value::Timestamp(_)
            );
            Err(unsupported("_+_", adds))
        }
    }
}

fn arithmetic<'a>(function: &str, a: &Value<'a>, b: &Value<'a>) -> Found<'a> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => integers(function, *a, *b).map(Value::Int),
        (Value::Uint(a), Value::Uint(b)) => unsigned(function, *a, *b).map(Value::Uint),
        (Value::Double(a), Value::Double(b)) if function != "_%_" => Ok(Value::Double(match function {
            "_-_" => a - b,
            "_*_" => a * b,
            _ => a / b,
        })),
        (Value::Duration(a), Value::Duration(b)) if function == "_-_" => a.minus(*b).map(Value::Duration),
        (Value::Timestamp(a), Value::Duration(b)) if function == "_-_" => a.minus(*b).map(Value::Timestamp),
        (Value::Timestamp(a), Value::Timestamp(b)) if function == "_-_" => a.since(b).map(Value::Duration),
        (a, _) => {
            let known = match a {
                Value::Int(_) | Value::Uint(_) => true,
                Value::Double(_) => function != "_%_",
                Value::Duration(_) | Value::Timestamp(_) => function == "_-_",
                _ => false,
            };
            Err(unsupported(function, known))
        }
    }
}

fn integers(function: &str, a: i64, b: i64) -> Result<i64, EvalError> {
    match function {
        "_-_" => a.checked_sub(b).ok_or_else(overflow),
        "_*_" => a.checked_mul(b).ok_or_else(overflow),
        "_/_" if b == 0 => Err(EvalError::new("division by zero")),
        "_/_" => a.checked_div(b).ok_or_else(overflow),
        _ if b == 0 => Err(EvalError::new("modulus by zero")),
        _ => a.checked_rem(b).ok_or_else(overflow),
    }
}

fn unsigned(function: &str, a: u64, b: u64) -> Result<u64, EvalError> {
    match function {
        "_-_" => a.checked_sub(b).ok_or_else(unsigned_overflow),
        "_*_" => a.checked_mul(b).ok_or_else(unsigned_overflow),
        "_/_" => a.checked_div(b).ok_or_else(|| EvalError::new("division by zero")),
        _ => a.checked_rem(b).ok_or_else(|| EvalError::new("modulus by zero")),
    }
}

fn negate<'a>(value: &Value<'a>) -> Found<'a> {
    match value {
        Value::Int(i) => i.checked_neg().map(Value::Int).ok_or_else(overflow),
        Value::Double(d) => Ok(Value::Double(-d)),
        Value::Duration(span) => span.negated().map(Value::Duration),
        Value::Bool(_) => Err(EvalError::no_such_overload()),
        _ => Err(unsupported("-_", false)),
    }
}

/// Adds members to a map that a fold collects.
fn insert<'a>(map: Value<'a>, mut rest: Vec<Value<'a>>) -> Found<'a> {
    let Value::Map(map) = map else {
        return Err(EvalError::no_such_overload());
    };
    let mut built = map.into_built()?;
    let mut put = |key: Value<'a>, value: Value<'a>| match built.insert(key.clone(), value)? {
        true => Ok(()),
        false => Err(EvalError::new(format!("insert failed: key {key} already exists"))),
    };
    match (rest.pop(), rest.pop()) {
        (Some(value), Some(key)) => put(key, value)?,
        (Some(Value::Map(update)), None) => {
            for key in update.key_values() {
                if let Some(value) = update.find(&key)? {
                    put(key, value)?;
                }
            }
        }
        _ => return Err(EvalError::no_such_overload()),
    }
    Ok(Value::Map(Map::Built(Arc::new(built))))
}
