//! Equality and order.
//!
//! Contract: numbers of different types are compared by what they are worth; lists of a schema's sets and maps without regard to
//! order; what cannot be equal is unequal. Depth is that of the values, which the size of documents and the cost of expressions bound.

use std::cmp::Ordering;

use triptych_object as object;

use super::{Found, List, Map, Value};
use crate::declared::ListKind;
use crate::error::EvalError;

/// Whether two values are equal.
pub fn equal<'a>(a: &Value<'a>, b: &Value<'a>) -> Result<bool, EvalError> {
    Ok(match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::String(a), Value::String(b)) => **a == **b,
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
        (Value::Type(a), Value::Type(b)) => a.name() == b.name(),
        (Value::List(a), Value::List(b)) => lists(a, b)?,
        (Value::Map(a), Value::Map(b)) => maps(a, b)?,
        (Value::Optional(a), Value::Optional(b)) => match (a, b) {
            (None, None) => true,
            (Some(a), Some(b)) => equal(a, b)?,
            _ => false,
        },
        (Value::Struct(a), Value::Struct(b)) => {
            if a.name != b.name || a.fields.len() != b.fields.len() {
                return Ok(false);
            }
            for (name, value) in &a.fields {
                match b.get(name) {
                    Some(other) if equal(value, other)? => {}
                    _ => return Ok(false),
                }
            }
            true
        }
        (Value::Extension(a), Value::Extension(b)) => a.equals(b),
        (Value::Preserved(a), Value::Preserved(b)) => a == b,
        (Value::Preserved(document), other) | (other, Value::Preserved(document)) => {
            equal(&Value::of(document), other)?
        }
        _ => numbers(a, b) == Some(Ordering::Equal),
    })
}

/// Whether values of this kind have an order.
pub fn is_comparable(value: &Value<'_>) -> bool {
    matches!(
        value,
        Value::Bool(_)
            | Value::Bytes(_)
            | Value::Double(_)
            | Value::Duration(_)
            | Value::Int(_)
            | Value::String(_)
            | Value::Timestamp(_)
            | Value::Uint(_)
    )
}

/// The order of two values; an error if they have none.
pub fn compare<'a>(a: &Value<'a>, b: &Value<'a>) -> Result<Ordering, EvalError> {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Ok(a.cmp(b)),
        (Value::String(a), Value::String(b)) => Ok((**a).cmp(&**b)),
        (Value::Bytes(a), Value::Bytes(b)) => Ok(a.cmp(b)),
        (Value::Duration(a), Value::Duration(b)) => Ok(a.cmp(b)),
        (Value::Timestamp(a), Value::Timestamp(b)) => Ok(a.cmp(b)),
        (Value::Double(d), other) | (other, Value::Double(d)) if is_number(other) && d.is_nan() => {
            Err(EvalError::new("NaN values cannot be ordered"))
        }
        _ => numbers(a, b).ok_or_else(EvalError::no_such_overload),
    }
}

fn is_number(value: &Value<'_>) -> bool {
    matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_))
}

fn numbers(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Uint(a), Value::Uint(b)) => Some(a.cmp(b)),
        (Value::Int(a), Value::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Value::Uint(a), Value::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Double(a), Value::Int(b)) => float_to_integer(*a, i128::from(*b)),
        (Value::Double(a), Value::Uint(b)) => float_to_integer(*a, i128::from(*b)),
        (Value::Int(_) | Value::Uint(_), Value::Double(_)) => numbers(b, a).map(Ordering::reverse),
        _ => None,
    }
}

/// Compares without the loss that converting the integer would bring beyond its range.
fn float_to_integer(float: f64, integer: i128) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    if float >= 1.9e19 {
        return Some(Ordering::Greater);
    }
    if float <= -9.3e18 {
        return Some(Ordering::Less);
    }
    float.partial_cmp(&(integer as f64))
}

fn lists<'a>(a: &List<'a>, b: &List<'a>) -> Result<bool, EvalError> {
    if a.len() != b.len() {
        return Ok(false);
    }
    match a.kind {
        ListKind::Plain => {
            for (a, b) in a.iter().zip(b.iter()) {
                if !equal(&a?, &b?)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        ListKind::Set => {
            let own = Keyed::of(a, |v| Some(scalar(v)))?;
            for item in b.iter() {
                if own.find(&scalar(&item?)).is_none() {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        ListKind::Map(keys) => {
            let own = Keyed::of(a, |v| composite(v, keys))?;
            for item in b.iter() {
                let item = item?;
                let Some(same) = composite(&item, keys).and_then(|k| own.find(&k)) else {
                    return Ok(false);
                };
                if !equal(same, &item)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }
}

/// Items by what tells them apart.
struct Keyed<'a> {
    items: std::collections::HashMap<String, Value<'a>>,
}

impl<'a> Keyed<'a> {
    fn of(list: &List<'a>, key: impl Fn(&Value<'a>) -> Option<String>) -> Result<Keyed<'a>, EvalError> {
        let mut items = std::collections::HashMap::new();
        for item in list.iter() {
            let item = item?;
            if let Some(key) = key(&item) {
                items.insert(key, item);
            }
        }
        Ok(Keyed { items })
    }

    fn find(&self, key: &str) -> Option<&Value<'a>> {
        self.items.get(key)
    }
}

fn scalar(value: &Value<'_>) -> String {
    format!("{}\0{value}", value.type_name())
}

fn composite(value: &Value<'_>, keys: &[String]) -> Option<String> {
    let Value::Map(map) = value else { return None };
    let mut all = String::new();
    for key in keys {
        match map.member(key) {
            Some(Ok(value)) => all.push_str(&scalar(&value)),
            _ => all.push('-'),
        }
        all.push('\0');
    }
    Some(all)
}

/// `a + b` of lists: of sets what is missing, of maps items replaced by those with their keys.
pub(crate) fn concat<'a>(a: List<'a>, b: &List<'a>) -> Result<List<'a>, EvalError> {
    let kind = a.kind;
    let mut items = a.into_items()?;
    match kind {
        ListKind::Plain => {
            for item in b.iter() {
                items.push(item?);
            }
        }
        ListKind::Set | ListKind::Map(_) => {
            let key = |value: &Value<'a>| match kind {
                ListKind::Map(keys) => composite(value, keys),
                _ => Some(scalar(value)),
            };
            let mut places: std::collections::HashMap<String, usize> = std::collections::HashMap::new();
            for (i, item) in items.iter().enumerate() {
                places.extend(key(item).map(|k| (k, i)));
            }
            for item in b.iter() {
                let item = item?;
                let k = key(&item);
                match k.as_ref().and_then(|k| places.get(k)) {
                    Some(place) if matches!(kind, ListKind::Map(_)) => items[*place] = item,
                    Some(_) => {}
                    None => {
                        places.extend(k.map(|k| (k, items.len())));
                        items.push(item);
                    }
                }
            }
        }
    }
    Ok(List::new(items).with_kind(kind))
}

fn maps<'a>(a: &Map<'a>, b: &Map<'a>) -> Result<bool, EvalError> {
    if a.len() != b.len() {
        return Ok(false);
    }
    // Members that cannot be seen still make a difference.
    if let (Map::View(x, Some(_)), Map::View(y, Some(_))) = (a, b)
        && hidden(x, a) | hidden(y, b)
    {
        return Ok(x == y);
    }
    for key in a.keys() {
        let same = match (a.get(&key), b.get(&key)) {
            (Some(a), Some(b)) => equal(&found(a)?, &found(b)?)?,
            (None, None) => true,
            _ => false,
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}

fn hidden(members: &object::Object, map: &Map<'_>) -> bool {
    map.keys().len() != members.len()
}

fn found(value: Found<'_>) -> Result<Value<'_>, EvalError> {
    value
}
