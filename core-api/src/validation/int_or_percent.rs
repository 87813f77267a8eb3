//! Numbers that may be percentages (`maxUnavailable: 25%`).

use triptych_object::{Value, names};

use super::Cursor;

/// Not negative, or a percentage. `c` must exist.
pub fn positive(c: Cursor<'_>) {
    match c.value() {
        Some(Value::String(text)) => c.invalid_text(names::percent(text)),
        _ => super::names::nonnegative(c),
    }
}

/// A percentage of at most 100.
pub fn at_most_all(c: Cursor<'_>) {
    if percentage(c.value()).is_some_and(|percent| percent > 100) {
        c.invalid(c.shown(), "must not be greater than 100%");
    }
}

/// The number before the `%`, if it is a percentage; as large as can be if it does not fit.
fn percentage(value: Option<&Value>) -> Option<i64> {
    let text = value
        .and_then(Value::as_str)
        .filter(|text| names::percent(text).is_empty())?;
    Some(text.trim_end_matches('%').parse().unwrap_or(i64::MAX))
}

/// The number, or that of the percentage; 0 for what is neither.
pub fn amount(value: Option<&Value>) -> i64 {
    match value {
        Some(Value::String(text)) => percentage(value).unwrap_or_else(|| text.parse().unwrap_or(0)),
        other => other.and_then(Value::as_i64).unwrap_or(0),
    }
}
