//! Comparisons in filters, as Go's templates compare: only values of one basic kind.

use std::cmp::Ordering;

use triptych_object::Value;

use super::Operator;

/// Whether `left operator right` holds.
pub fn holds(left: &Value, operator: Operator, right: &Value) -> Result<bool, String> {
    let ordering = match (left, right) {
        (Value::Int(a), Value::Int(b)) => a.partial_cmp(b),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (Value::String(a), Value::String(b)) => a.partial_cmp(b),
        (Value::Bool(a), Value::Bool(b)) => match operator {
            Operator::Equal | Operator::NotEqual => a.partial_cmp(b),
            _ => return Err("invalid type for comparison".to_owned()),
        },
        (Value::Null | Value::Array(_) | Value::Object(_), _)
        | (_, Value::Null | Value::Array(_) | Value::Object(_)) => {
            return Err("invalid type for comparison".to_owned());
        }
        _ => return Err("incompatible types for comparison".to_owned()),
    };
    Ok(match operator {
        Operator::Equal => ordering == Some(Ordering::Equal),
        Operator::NotEqual => ordering != Some(Ordering::Equal),
        Operator::Less => ordering == Some(Ordering::Less),
        Operator::LessEqual => matches!(ordering, Some(Ordering::Less | Ordering::Equal)),
        Operator::Greater => ordering == Some(Ordering::Greater),
        Operator::GreaterEqual => matches!(ordering, Some(Ordering::Greater | Ordering::Equal)),
        Operator::Exists | Operator::Unknown => return Err("unrecognized filter operator".to_owned()),
    })
}
