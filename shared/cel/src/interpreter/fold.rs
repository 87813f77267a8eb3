//! Folds: what quantifiers, `map`, `filter` and the rest become.

use std::sync::Arc;

use super::Interpreter;
use crate::ast::{Comprehension, Expr, ExprKind};
use crate::error::EvalError;
use crate::value::{Found, Value};

impl<'a> Interpreter<'_, 'a> {
    /// Where the accumulator of the innermost fold is, if it has this name.
    pub(super) fn accumulator(&self, name: &Arc<str>) -> Option<usize> {
        let at = self.scopes.iter().rposition(|(n, _)| n == name)?;
        (&**name == crate::macros::ACCUMULATOR && self.scopes[at].1.is_ok()).then_some(at)
    }

    pub(super) fn fold(&mut self, fold: &'a Comprehension) -> Found<'a> {
        let range = if is_empty_list(&fold.range) {
            Value::list(Vec::new())
        } else {
            self.eval(&fold.range)?
        };
        let items = items(range, fold.second.is_some())?;
        let depth = self.scopes.len();
        let init = self.absorb(&fold.init)?;
        self.scopes.push((fold.accumulator.clone(), init));
        let outcome = self.turns(fold, items, depth);
        self.scopes.truncate(depth + 1);
        let outcome = outcome.and_then(|()| self.eval(&fold.result));
        self.scopes.truncate(depth);
        outcome
    }

    fn turns(&mut self, fold: &'a Comprehension, items: Items<'a>, depth: usize) -> Result<(), EvalError> {
        for i in 0..items.len() {
            // Even a turn that costs nothing takes time.
            self.scopes.truncate(depth + 1);
            let (first, second) = items.get(i);
            self.scopes.push((fold.variable.clone(), first));
            if let (Some(name), Some(second)) = (&fold.second, second) {
                self.scopes.push((name.clone(), second));
            }
            match self.absorb(&fold.condition)? {
                Ok(Value::Bool(true)) => {}
                Err(e) => {
                    self.scopes[depth].1 = Err(e);
                    return Ok(());
                }
                _ => return Ok(()),
            }
            let step = self.absorb(&fold.step)?;
            self.scopes[depth].1 = step;
        }
        Ok(())
    }

    /// Evaluates; an error becomes a value, but not that of a spent budget.
    fn absorb(&mut self, expr: &'a Expr) -> Result<Found<'a>, EvalError> {
        match self.eval(expr) {
            Err(e) if e.is_over_budget() => Err(e),
            outcome => Ok(outcome),
        }
    }
}

fn is_empty_list(expr: &Expr) -> bool {
    matches!(&expr.kind, ExprKind::List { items, .. } if items.is_empty())
}

/// What is gone through.
enum Items<'a> {
    List(crate::value::List<'a>, bool),
    Keys(Vec<Value<'a>>),
    Map(Vec<Value<'a>>, crate::value::Map<'a>),
}

fn items(range: Value<'_>, two: bool) -> Result<Items<'_>, EvalError> {
    Ok(match range {
        Value::List(list) => Items::List(list, two),
        Value::Map(map) if two => Items::Map(map.key_values(), map),
        Value::Map(map) => Items::Keys(map.key_values()),
        other => {
            let ty = go_type(&other);
            return Err(EvalError::new(match two {
                true => format!("unsupported comprehension range type: {ty}"),
                false => format!("got '{ty}', expected iterable type"),
            }));
        }
    })
}

impl<'a> Items<'a> {
    fn len(&self) -> usize {
        match self {
            Items::List(list, _) => list.len(),
            Items::Keys(keys) | Items::Map(keys, _) => keys.len(),
        }
    }

    fn get(&self, i: usize) -> (Found<'a>, Option<Found<'a>>) {
        let missing = || Err(EvalError::new("no such key"));
        match self {
            Items::List(list, false) => (list.get(i).unwrap_or_else(missing), None),
            Items::List(list, true) => (Ok(Value::Int(i as i64)), Some(list.get(i).unwrap_or_else(missing))),
            Items::Keys(keys) => (keys.get(i).cloned().map_or_else(missing, Ok), None),
            Items::Map(keys, map) => {
                let key = keys.get(i).cloned().unwrap_or(Value::Null);
                let value = map
                    .find(&key)
                    .and_then(|v| v.ok_or_else(|| EvalError::new("no such key")));
                (Ok(key), Some(value))
            }
        }
    }
}

/// The name of the Go type that holds such values.
fn go_type(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "types.Null",
        Value::Bool(_) => "types.Bool",
        Value::Int(_) => "types.Int",
        Value::Uint(_) => "types.Uint",
        Value::Double(_) => "types.Double",
        Value::String(_) => "types.String",
        Value::Bytes(_) => "types.Bytes",
        Value::Duration(_) => "types.Duration",
        Value::Timestamp(_) => "types.Timestamp",
        Value::Type(_) => "*types.Type",
        Value::Optional(_) => "*types.Optional",
        _ => "ref.Val",
    }
}
