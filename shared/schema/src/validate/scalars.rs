//! Constraints on single values: `enum`, texts, numbers.

use triptych_object::field::ErrorKind;
use triptych_object::{Value, json};

use super::found::{Found, Problem, invalid};
use crate::types::Validation;

/// swag's idea of a float that is an integer: within 53 bits, and off by less than a billionth.
pub(super) fn is_json_integer(f: f64) -> bool {
    const MAX: f64 = 9_007_199_254_740_991.0;
    if !f.is_finite() || f.abs() > MAX {
        return false;
    }
    let whole = f.trunc();
    let difference = (f - whole).abs();
    difference == 0.0 || (whole != 0.0 && difference / (f.abs() + whole.abs()) < 1e-9)
}

pub(super) fn check_enum(v: &Validation, value: &Value, path: &str, found: &mut Found) {
    // A null in the enum is never equal to anything, as in Go.
    let allowed = |e: &Value| {
        !e.is_null()
            && (e == value
                || matches!((e, value), (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_))
                    if e.as_f64() == value.as_f64()))
    };
    if v.enum_values.is_empty() || (!value.is_null() && v.enum_values.iter().any(allowed)) {
        return;
    }
    let names: Vec<String> = v
        .enum_values
        .iter()
        .map(|e| match e {
            Value::String(s) => s.clone(),
            other => json::to_string(other),
        })
        .collect();
    let message = format!("{path} in body should be one of [{}]", names.join(" "));
    found.push(Problem::Enum {
        name: path.to_owned(),
        value: value.clone(),
        allowed: names,
        message,
    });
}

/// Reports the first thing wrong with a text.
pub(super) fn check_string(v: &Validation, text: &str, path: &str, found: &mut Found) {
    let length = text.chars().count() as i64;
    if let Some(max) = v.max_length.filter(|max| length > *max) {
        let message = format!("{path} in body should be at most {max} chars long");
        found.push(Problem::TooLong {
            name: path.to_owned(),
            max,
            message,
        });
    } else if let Some(min) = v.min_length.filter(|min| length < *min) {
        found.push(invalid(
            path,
            text,
            format!("{path} in body should be at least {min} chars long"),
        ));
    } else if let Some(pattern) = &v.pattern {
        match pattern.regex() {
            Some(regex) if regex.is_match(text) => {}
            Some(_) => {
                found.push(invalid(
                    path,
                    text,
                    format!("{path} in body should match '{}'", pattern.source),
                ));
            }
            None => {
                let source = &pattern.source;
                let message = format!("{path} in body should match '{source}, but pattern is invalid'");
                found.push(invalid(path, text, message));
            }
        }
    }
}

/// A bound as Go compares and prints it beside that value.
fn bound(value: &Value, limit: f64) -> (f64, String) {
    match value {
        Value::Int(_) => (limit.trunc(), (limit as i64).to_string()),
        _ => (limit, json::general_float(limit)),
    }
}

pub(super) fn check_number(names: &[&str], v: &Validation, value: &Value, path: &str, found: &mut Found) {
    let type_name = match names {
        ["integer"] => "integer",
        ["number"] => "number",
        _ => "",
    };
    let format = v.format.as_deref().unwrap_or("");
    let in_range = |number: &Value, what: &str, found: &mut Found| {
        let fits = match (type_name, number) {
            ("integer", Value::Int(i)) => format != "int32" || i32::try_from(*i).is_ok(),
            ("integer", Value::Float(f)) => {
                f.fract() == 0.0 && f.abs() < 9.3e18 && (format != "int32" || f.abs() < 2.2e9)
            }
            ("number", number) if format == "float" => (number.as_f64().unwrap_or(0.0) as f32).is_finite(),
            _ => true,
        };
        if !fits {
            let format = if format.is_empty() {
                "(default format)".to_owned()
            } else {
                format!("with format {format}")
            };
            found.push(Problem::Plain(format!(
                "{what} value must be of type {type_name} {format} in {path}"
            )));
        }
        fits
    };
    let number = value.as_f64().unwrap_or(0.0);
    let compare = |limit: f64| match value {
        Value::Int(i) => i.cmp(&(limit as i64)),
        _ => number.partial_cmp(&limit).unwrap_or(std::cmp::Ordering::Equal),
    };
    in_range(value, "Checked", found);
    if let Some(factor) = v.multiple_of {
        in_range(&Value::Float(factor), "MultipleOf", found);
        let (whole, shown) = bound(value, factor);
        let fits = match value {
            _ if whole <= 0.0 => {
                let text = format!("factor MultipleOf declared for {path} must be positive: {shown}");
                found.push(Problem::Field {
                    name: path.to_owned(),
                    kind: ErrorKind::Invalid,
                    value: Value::Float(whole),
                    message: text,
                });
                true
            }
            Value::Int(i) => i % (whole as i64) == 0,
            _ if factor < 1.0 => is_json_integer(1.0 / factor * number),
            _ => is_json_integer(number / factor),
        };
        if !fits {
            found.push(invalid(
                path,
                value.clone(),
                format!("{path} in body should be a multiple of {shown}"),
            ));
        }
    }
    use std::cmp::Ordering::{Equal, Greater, Less};
    if let Some(min) = v.minimum {
        in_range(&Value::Float(min), "Minimum boundary", found);
        let order = compare(min);
        if order == Less || (v.exclusive_minimum && order == Equal) {
            let words = if v.exclusive_minimum {
                "greater than"
            } else {
                "greater than or equal to"
            };
            let message = format!("{path} in body should be {words} {}", bound(value, min).1);
            found.push(invalid(path, value.clone(), message));
        }
    }
    if let Some(max) = v.maximum {
        in_range(&Value::Float(max), "Maximum boundary", found);
        let order = compare(max);
        if order == Greater || (v.exclusive_maximum && order == Equal) {
            let words = if v.exclusive_maximum {
                "less than"
            } else {
                "less than or equal to"
            };
            let message = format!("{path} in body should be {words} {}", bound(value, max).1);
            found.push(invalid(path, value.clone(), message));
        }
    }
}
