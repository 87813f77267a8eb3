//! CEL's own functions: sizes, types, conversions, tests of texts, parts of times.

use std::sync::Arc;

use super::no_overload;
use crate::error::EvalError;
use crate::number;
use crate::time::{Span, Timestamp};
use crate::types::Type;
use crate::value::{Found, Value};

/// Calls a function if it is one of these.
pub fn call<'a>(function: &str, args: &[Value<'a>]) -> Option<Found<'a>> {
    Some(match (function, args) {
        ("size", [value]) => match value {
            Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_) => {
                Ok(Value::Int(value.size().unwrap_or(0) as i64))
            }
            _ => Err(EvalError::new("no such overload: size")),
        },
        ("type", [value]) => Ok(Value::Type(value.type_of())),
        ("dyn", [value]) => Ok(value.clone()),
        ("bool" | "bytes" | "double" | "duration" | "int" | "string" | "timestamp" | "uint", [value]) => {
            convert(function, value)?
        }
        ("contains", [Value::String(text), Value::String(part)]) => Ok(Value::Bool(text.contains(&**part))),
        ("startsWith", [Value::String(text), Value::String(part)]) => Ok(Value::Bool(text.starts_with(&**part))),
        ("endsWith", [Value::String(text), Value::String(part)]) => Ok(Value::Bool(text.ends_with(&**part))),
        ("contains" | "startsWith" | "endsWith", [_, _]) => Err(EvalError::no_such_overload()),
        (name, [Value::Timestamp(point)]) if name.starts_with("get") => part_of_time(name, point, None)?,
        (name, [Value::Timestamp(point), Value::String(zone)]) if name.starts_with("get") => {
            part_of_time(name, point, Some(zone))?
        }
        (name, [Value::Duration(span)]) if name.starts_with("get") => part_of_span(name, *span)?,
        _ => return None,
    })
}

fn conversion_error(value: &Value<'_>, to: &str) -> EvalError {
    let to = match to {
        "duration" => Type::Duration.name().to_owned(),
        "timestamp" => Type::Timestamp.name().to_owned(),
        other => other.to_owned(),
    };
    EvalError::new(format!("type conversion error from '{}' to '{to}'", value.type_name()))
}

/// `None` for what another library converts.
fn convert<'a>(to: &str, value: &Value<'a>) -> Option<Found<'a>> {
    if matches!(value, Value::Extension(_)) {
        return None;
    }
    Some(match to {
        "bool" => to_bool(value),
        "bytes" => match value {
            Value::Bytes(_) => Ok(value.clone()),
            Value::String(text) => Ok(Value::Bytes(text.as_bytes().into())),
            _ => Err(no_overload(to, std::slice::from_ref(value))),
        },
        "double" => to_double(value),
        "int" => to_int(value),
        "uint" => to_uint(value),
        "string" => to_string(value),
        "duration" => match value {
            Value::Duration(_) => Ok(value.clone()),
            Value::Int(nanos) => Ok(Value::Duration(Span::of_nanos(*nanos))),
            Value::String(text) => Span::parse(text)
                .map(Value::Duration)
                .ok_or_else(|| conversion_error(value, to)),
            _ => Err(no_overload(to, std::slice::from_ref(value))),
        },
        _ => match value {
            Value::Timestamp(_) => Ok(value.clone()),
            Value::Int(seconds) => Timestamp::new(*seconds, 0).map(Value::Timestamp),
            Value::String(text) => match Timestamp::parse(text) {
                Ok(point) => Ok(Value::Timestamp(point)),
                Err(e) if e == "timestamp overflow" => Err(EvalError::new(e)),
                Err(_) => Err(conversion_error(value, to)),
            },
            _ => Err(no_overload(to, std::slice::from_ref(value))),
        },
    })
}

fn to_bool<'a>(value: &Value<'a>) -> Found<'a> {
    match value {
        Value::Bool(_) => Ok(value.clone()),
        Value::String(text) => match &**text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
            _ => Err(conversion_error(value, "bool")),
        },
        _ => Err(no_overload("bool", std::slice::from_ref(value))),
    }
}

fn to_double<'a>(value: &Value<'a>) -> Found<'a> {
    match value {
        Value::Double(_) => Ok(value.clone()),
        Value::Int(i) => Ok(Value::Double(*i as f64)),
        Value::Uint(u) => Ok(Value::Double(*u as f64)),
        Value::String(text) => match text.parse::<f64>() {
            // Go refuses what leaves the range; only the word may mean infinity.
            Ok(d) if d.is_finite() || text.bytes().all(|b| !b.is_ascii_digit()) => Ok(Value::Double(d)),
            _ => Err(conversion_error(value, "double")),
        },
        _ => Err(no_overload("double", std::slice::from_ref(value))),
    }
}

fn to_int<'a>(value: &Value<'a>) -> Found<'a> {
    let overflow = || EvalError::new("integer overflow");
    match value {
        Value::Int(_) => Ok(value.clone()),
        Value::Uint(u) => i64::try_from(*u).map(Value::Int).map_err(|_| overflow()),
        Value::Double(d) => {
            match d.is_finite() && *d > -9_223_372_036_854_775_808.0 && *d < 9_223_372_036_854_775_807.0 {
                true => Ok(Value::Int(*d as i64)),
                false => Err(overflow()),
            }
        }
        Value::Duration(span) => Ok(Value::Int(span.nanos())),
        Value::Timestamp(point) => Ok(Value::Int(point.seconds())),
        Value::String(text) => text
            .parse::<i64>()
            .map(Value::Int)
            .map_err(|_| conversion_error(value, "int")),
        _ => Err(no_overload("int", std::slice::from_ref(value))),
    }
}

fn to_uint<'a>(value: &Value<'a>) -> Found<'a> {
    let overflow = || EvalError::new("unsigned integer overflow");
    match value {
        Value::Uint(_) => Ok(value.clone()),
        Value::Int(i) => u64::try_from(*i).map(Value::Uint).map_err(|_| overflow()),
        Value::Double(d) => match *d >= 0.0 && *d < 18_446_744_073_709_551_615.0 {
            true => Ok(Value::Uint(*d as u64)),
            false => Err(overflow()),
        },
        Value::String(text) if !text.starts_with('+') => text
            .parse::<u64>()
            .map(Value::Uint)
            .map_err(|_| conversion_error(value, "uint")),
        Value::String(_) => Err(conversion_error(value, "uint")),
        _ => Err(no_overload("uint", std::slice::from_ref(value))),
    }
}

/// The text of a value, `None` if it has none.
pub fn text_of(value: &Value<'_>) -> Option<Result<String, EvalError>> {
    Some(Ok(match value {
        Value::String(text) => (**text).to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Int(i) => i.to_string(),
        Value::Uint(u) => u.to_string(),
        Value::Double(d) => number::shortest(*d),
        Value::Duration(span) => span.seconds_text(),
        Value::Timestamp(point) => point.to_string(),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => {
                return Some(Err(EvalError::new("invalid UTF-8 in bytes, cannot convert to string")));
            }
        },
        _ => return None,
    }))
}

fn to_string<'a>(value: &Value<'a>) -> Found<'a> {
    if let Value::String(_) = value {
        return Ok(value.clone());
    }
    match text_of(value) {
        Some(text) => text.map(Value::string),
        None => Err(no_overload("string", std::slice::from_ref(value))),
    }
}

fn part_of_time<'a>(function: &str, point: &Timestamp, zone: Option<&str>) -> Option<Found<'a>> {
    let part = |year: i64, time: jiff::civil::DateTime| -> Option<i64> {
        Some(match function {
            "getFullYear" => year,
            "getMonth" => i64::from(time.month()) - 1,
            "getDayOfYear" => i64::from(time.date().day_of_year()) - 1,
            "getDayOfMonth" => i64::from(time.day()) - 1,
            "getDate" => time.day().into(),
            "getDayOfWeek" => time.date().weekday().to_sunday_zero_offset().into(),
            "getHours" => time.hour().into(),
            "getMinutes" => time.minute().into(),
            "getSeconds" => time.second().into(),
            "getMilliseconds" => i64::from(time.subsec_nanosecond()) / 1_000_000,
            _ => return None,
        })
    };
    match point.in_zone(zone) {
        Ok((year, time)) => part(year, time).map(|n| Ok(Value::Int(n))),
        Err(e) => Some(Err(e)),
    }
}

fn part_of_span<'a>(function: &str, span: Span) -> Option<Found<'a>> {
    let unit = match function {
        "getHours" => 3_600_000_000_000,
        "getMinutes" => 60_000_000_000,
        "getSeconds" => 1_000_000_000,
        "getMilliseconds" => 1_000_000,
        _ => return None,
    };
    Some(Ok(Value::Int(span.nanos() / unit)))
}

/// A list of texts.
pub fn texts<'a>(items: impl IntoIterator<Item = String>) -> Value<'a> {
    Value::list(items.into_iter().map(|t| Value::string(Arc::<str>::from(t))).collect())
}
