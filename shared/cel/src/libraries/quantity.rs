//! `quantity(…)`.

use std::sync::Arc;

use triptych_object::Quantity;
use triptych_object::quantity::Format;

use super::Extension;
use crate::error::EvalError;
use crate::value::{Found, Value};

fn made<'a>(quantity: Quantity) -> Value<'a> {
    Value::Extension(Extension::Quantity(Arc::new(quantity)))
}

/// Calls a function if it is one of these.
pub fn call<'a>(function: &str, args: &[Value<'a>]) -> Option<Found<'a>> {
    match (function, args) {
        ("quantity", [Value::String(text)]) => {
            let parsed = text.parse::<Quantity>();
            return Some(parsed.map(made).map_err(|e| EvalError::new(e.to_string())));
        }
        ("isQuantity", [Value::String(text)]) => {
            return Some(Ok(Value::Bool(text.parse::<Quantity>().is_ok())));
        }
        _ => {}
    }
    let (Value::Extension(Extension::Quantity(own)), rest) = args.split_first()? else {
        return None;
    };
    Some(Ok(match (function, rest) {
        ("sign", []) => Value::Int(own.sign().into()),
        ("asApproximateFloat", []) => Value::Double(own.as_f64()),
        ("isInteger", []) => Value::Bool(own.as_i64().is_some()),
        ("asInteger", []) => match own.as_i64() {
            Some(i) => Value::Int(i),
            None => return Some(Err(EvalError::new("cannot convert value to integer"))),
        },
        ("isGreaterThan", [Value::Extension(Extension::Quantity(other))]) => Value::Bool((**own).cmp(&**other).is_gt()),
        ("isLessThan", [Value::Extension(Extension::Quantity(other))]) => Value::Bool((**own).cmp(&**other).is_lt()),
        ("compareTo", [Value::Extension(Extension::Quantity(other))]) => Value::Int((**own).cmp(&**other) as i64),
        ("add" | "sub", [other]) => {
            let other = match other {
                Value::Extension(Extension::Quantity(other)) => (**other).clone(),
                Value::Int(i) => Quantity::new(*i, Format::DecimalExponent),
                _ => return None,
            };
            let mut result = (**own).clone();
            match function {
                "add" => result.add(&other),
                _ => result.sub(&other),
            }
            made(result)
        }
        _ => return None,
    }))
}
