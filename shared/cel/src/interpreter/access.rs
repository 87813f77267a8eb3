//! Members, indexes, and whether they are there.

use std::sync::Arc;

use super::Interpreter;
use crate::ast::{Expr, ExprKind};
use crate::cost;
use crate::error::EvalError;
use crate::value::{Found, Text, Value};

impl<'a> Interpreter<'_, 'a> {
    pub(super) fn select(&mut self, operand: &'a Expr, field: &'a Arc<str>, test: bool) -> Found<'a> {
        if let ExprKind::Ident(name) = &operand.kind
            && !self.scopes.iter().any(|(n, _)| n == name)
            && let Some(found) = self.activation.member(name, field)
        {
            self.spend(if test { 1 } else { 2 * cost::SELECT_AND_IDENT })?;
            return if test { found.map(|_| Value::Bool(true)) } else { found };
        }
        let value = self.operand(operand)?;
        let key = Value::String(Text::Borrowed(field));
        if test {
            let value = match value {
                Value::Optional(None) => return Ok(Value::Bool(false)),
                Value::Optional(Some(inner)) => (*inner).clone(),
                other => other,
            };
            return Ok(Value::Bool(lookup(&value, &key, true)?.is_some()));
        }
        self.take(value, &key, false)
    }

    /// What a member or item is taken of; what is no attribute itself costs as one.
    fn operand(&mut self, expr: &'a Expr) -> Found<'a> {
        let value = self.eval(expr)?;
        if !super::is_attribute(expr) {
            self.spend(cost::SELECT_AND_IDENT)?;
        }
        Ok(value)
    }

    pub(super) fn optional_select(&mut self, operand: &'a Expr, field: &'a Expr) -> Found<'a> {
        let value = self.operand(operand)?;
        let key = self.eval(field)?;
        self.take(value, &key, true)
    }

    pub(super) fn index(&mut self, operand: &'a Expr, index: &'a Expr, optional: bool) -> Found<'a> {
        let value = self.operand(operand)?;
        let key = self.inner(index)?;
        self.take(value, &key, optional)
    }

    /// A member or item; of an optional, or asked for optionally, an optional. That there is none costs nothing then.
    fn take(&mut self, value: Value<'a>, key: &Value<'a>, optional: bool) -> Found<'a> {
        let (value, wrap) = match value {
            Value::Optional(None) => return Ok(Value::Optional(None)),
            Value::Optional(Some(inner)) => ((*inner).clone(), true),
            other => (other, optional),
        };
        if wrap {
            let found = lookup(&value, key, true)?;
            if found.is_some() {
                self.spend(cost::SELECT_AND_IDENT)?;
            }
            return Ok(match found {
                // An optional in an optional is one.
                Some(Value::Optional(inner)) => Value::Optional(inner),
                found => Value::optional(found),
            });
        }
        self.spend(cost::SELECT_AND_IDENT)?;
        match lookup(&value, key, false)? {
            Some(found) => Ok(found),
            None if matches!(value, Value::List(_)) => Err(EvalError::new(format!("index out of bounds: {key}"))),
            None => Err(EvalError::new(format!("no such key: {key}"))),
        }
    }
}

/// What is there, if it is; `presence` asks gently.
fn lookup<'a>(value: &Value<'a>, key: &Value<'a>, presence: bool) -> Result<Option<Value<'a>>, EvalError> {
    match value {
        Value::Map(map) => map.find(key),
        Value::List(list) => {
            let index = position(key)?;
            usize::try_from(index).ok().and_then(|i| list.get(i)).transpose()
        }
        Value::Struct(s) => Ok(key.as_str().and_then(|name| s.get(name)).cloned()),
        Value::Preserved(_) if !presence => Err(EvalError::no_such_overload()),
        _ => Ok(None),
    }
}

fn position(key: &Value<'_>) -> Result<i64, EvalError> {
    let unsupported = || EvalError::new(format!("unsupported index value {key} in list"));
    match key {
        Value::Int(i) => Ok(*i),
        Value::Uint(u) => i64::try_from(*u).map_err(|_| unsupported()),
        Value::Double(d) if d.fract() == 0.0 && d.abs() < 9.2e18 => Ok(*d as i64),
        Value::Double(_) => Err(unsupported()),
        other => Err(EvalError::new(format!(
            "unsupported index type '{}' in list",
            other.type_name()
        ))),
    }
}
