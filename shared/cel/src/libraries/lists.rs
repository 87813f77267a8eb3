//! Lists and sets.

use std::cmp::Ordering;

use super::{Context, MAX_RESULT, too_long};
use crate::error::EvalError;
use crate::time::Span;
use crate::value::{Found, List, Value, compare, equal, is_comparable};

/// Calls a function if it is one of these.
pub fn call<'a>(function: &str, context: &Context<'_>, args: &[Value<'a>]) -> Option<Found<'a>> {
    if let ("lists.range", [Value::Int(n)]) = (function, args) {
        return Some(range(*n, context.left));
    }
    let (Value::List(list), rest) = args.split_first()? else {
        return None;
    };
    Some(match (function, rest) {
        ("slice", [Value::Int(start), Value::Int(end)]) => slice(list, *start, *end),
        ("flatten", []) => flatten(list, 1).map(Value::list),
        ("flatten", [Value::Int(depth)]) if *depth < 0 => Err(EvalError::new("level must be non-negative")),
        ("flatten", [Value::Int(depth)]) => flatten(list, *depth).map(Value::list),
        ("sort", []) => sort(list, list),
        ("@sortByAssociatedKeys", [Value::List(keys)]) => sort(list, keys),
        ("reverse", []) => all(list).map(|mut items| {
            items.reverse();
            Value::list(items)
        }),
        ("distinct", []) => distinct(list),
        ("isSorted", []) => is_sorted(list),
        ("sum", []) => sum(list, context.overload),
        ("min", []) => extreme(list, "min", Ordering::Greater),
        ("max", []) => extreme(list, "max", Ordering::Less),
        ("indexOf", [item]) => position(list, item, false),
        ("lastIndexOf", [item]) => position(list, item, true),
        ("sets.contains", [Value::List(other)]) => has_all(list, other).map(Value::Bool),
        ("sets.equivalent", [Value::List(other)]) => {
            has_all(list, other).and_then(|all| Ok(Value::Bool(all && has_all(other, list)?)))
        }
        ("sets.intersects", [Value::List(other)]) => intersects(list, other).map(Value::Bool),
        _ => return None,
    })
}

fn all<'a>(list: &List<'a>) -> Result<Vec<Value<'a>>, EvalError> {
    list.iter().collect()
}

fn range<'a>(n: i64, left: u64) -> Found<'a> {
    // Each item costs one: more than can be paid for is not made first.
    if u64::try_from(n).is_ok_and(|n| n > left) {
        return Err(EvalError::over_budget());
    }
    Ok(Value::list((0..n.max(0)).map(Value::Int).collect()))
}

fn slice<'a>(list: &List<'a>, start: i64, end: i64) -> Found<'a> {
    let length = list.len();
    let refuse = |why: String| Err(EvalError::new(format!("cannot slice({start}, {end}), {why}")));
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        return refuse("negative indexes not supported".to_owned());
    };
    if from > to {
        return refuse("start index must be less than or equal to end index".to_owned());
    }
    if length < to {
        return refuse(format!("list is length {length}"));
    }
    let mut items = Vec::with_capacity(to - from);
    for i in from..to {
        items.extend(list.get(i).transpose()?);
    }
    Ok(Value::list(items))
}

fn flatten<'a>(list: &List<'a>, depth: i64) -> Result<Vec<Value<'a>>, EvalError> {
    // What is still to be gone through, innermost last: lists may be nested as deeply as documents.
    let mut stack = vec![(list.clone(), 0usize, depth)];
    let mut out = Vec::new();
    while let Some((list, at, depth)) = stack.pop() {
        let Some(item) = list.get(at).transpose()? else {
            continue;
        };
        stack.push((list, at + 1, depth));
        match item {
            Value::List(inner) if depth > 0 => stack.push((inner, 0, depth - 1)),
            other => out.push(other),
        }
        if out.len() > MAX_RESULT {
            return Err(too_long());
        }
    }
    Ok(out)
}

fn sort<'a>(list: &List<'a>, keys: &List<'a>) -> Found<'a> {
    if list.len() != keys.len() {
        return Err(EvalError::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} elements respectively",
            list.len(),
            keys.len()
        )));
    }
    let mut pairs: Vec<(Value<'a>, Value<'a>)> = all(keys)?.into_iter().zip(all(list)?).collect();
    let Some((first, _)) = pairs.first() else {
        return Ok(Value::List(list.clone()));
    };
    if !is_comparable(first) {
        return Err(EvalError::new("list elements must be comparable"));
    }
    let kind = std::mem::discriminant(first);
    if pairs.iter().any(|(key, _)| std::mem::discriminant(key) != kind) {
        return Err(EvalError::new("list elements must have the same type"));
    }
    pairs.sort_by(|a, b| compare(&a.0, &b.0).unwrap_or(Ordering::Equal));
    Ok(Value::list(pairs.into_iter().map(|(_, item)| item).collect()))
}

fn distinct<'a>(list: &List<'a>) -> Found<'a> {
    let mut unique: Vec<Value<'a>> = Vec::new();
    for item in list.iter() {
        let item = item?;
        if !unique.iter().any(|other| equal(&item, other) == Ok(true)) {
            unique.push(item);
        }
    }
    Ok(Value::list(unique))
}

fn is_sorted<'a>(list: &List<'a>) -> Found<'a> {
    let mut before: Option<Value<'a>> = None;
    for item in list.iter() {
        let item = item?;
        if let Some(before) = &before
            && compare(before, &item) == Ok(Ordering::Greater)
        {
            return Ok(Value::Bool(false));
        }
        before = Some(item);
    }
    Ok(Value::Bool(true))
}

fn sum<'a>(list: &List<'a>, overload: &str) -> Found<'a> {
    let mut total: Option<Value<'a>> = None;
    for item in list.iter() {
        let item = item?;
        total = Some(match total {
            Some(total) => crate::interpreter::add(total, &item)?,
            None => item,
        });
    }
    Ok(total.unwrap_or(match overload {
        "list_uint_sum_uint" => Value::Uint(0),
        "list_double_sum_double" => Value::Double(0.0),
        "list_duration_sum_duration" => Value::Duration(Span::of_nanos(0)),
        _ => Value::Int(0),
    }))
}

fn extreme<'a>(list: &List<'a>, name: &str, replaced_when: Ordering) -> Found<'a> {
    let mut best: Option<Value<'a>> = None;
    for item in list.iter() {
        let item = item?;
        best = Some(match best {
            Some(best) if compare(&best, &item)? != replaced_when => best,
            _ => item,
        });
    }
    best.ok_or_else(|| EvalError::new(format!("{name} called on empty list")))
}

fn position<'a>(list: &List<'a>, item: &Value<'a>, last: bool) -> Found<'a> {
    let same = |i: &usize| matches!(list.get(*i), Some(Ok(other)) if equal(&other, item) == Ok(true));
    let found = match last {
        false => (0..list.len()).find(same),
        true => (0..list.len()).rev().find(same),
    };
    Ok(Value::Int(found.map_or(-1, |i| i as i64)))
}

fn has<'a>(list: &List<'a>, item: &Value<'a>) -> Result<bool, EvalError> {
    for other in list.iter() {
        if equal(&other?, item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has_all<'a>(list: &List<'a>, items: &List<'a>) -> Result<bool, EvalError> {
    for item in items.iter() {
        if !has(list, &item?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn intersects<'a>(a: &List<'a>, b: &List<'a>) -> Result<bool, EvalError> {
    for item in a.iter() {
        if has(b, &item?)? {
            return Ok(true);
        }
    }
    Ok(false)
}
