//! Tolerations and the effects of taints.

use triptych_object::field::Error;
use triptych_object::names;

use super::{Cursor, names as rules};

/// Effects a taint can have.
pub const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// A list of tolerations. `comparisons`: `Lt` and `Gt` may be used (TaintTolerationComparisonOperators).
pub fn tolerations(c: Cursor<'_>, comparisons: bool) {
    c.items().for_each(|t| toleration(t, comparisons));
}

fn toleration(c: Cursor<'_>, comparisons: bool) {
    let (key, operator, effect) = (c.field("key"), c.field("operator"), c.field("effect"));
    if !key.str().is_empty() {
        rules::qualified(key);
    }
    if key.str().is_empty() && operator.str() != "Exists" {
        operator.invalid(
            operator.str(),
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
        );
    }
    if c.has("tolerationSeconds") && effect.str() != "NoExecute" {
        effect.invalid(
            effect.str(),
            "effect must be 'NoExecute' when `tolerationSeconds` is set",
        );
    }
    let value = c.field("value");
    match operator.str() {
        "Equal" | "" => {
            let messages = names::label_value(value.str());
            if !messages.is_empty() {
                operator.invalid(value.str(), messages.join(";"));
            }
        }
        "Exists" => {
            if !value.str().is_empty() {
                operator.invalid(value.str(), "value must be empty when `operator` is 'Exists'");
            }
        }
        "Lt" | "Gt" if !comparisons => operator.not_supported(&["Equal", "Exists", "Lt", "Gt"]),
        "Lt" | "Gt" => {
            value.invalid_text(names::decimal_integer(value.str()));
            if let Err(message) = parse_int(value.str()) {
                value.invalid(value.str(), message);
            }
        }
        _ => operator.not_supported(&["Equal", "Exists"]),
    }
    if !effect.str().is_empty() {
        rules::one_of(effect, &EFFECTS);
    }
}

/// Reads a 64-bit integer; an error has the text of Go's `strconv.ParseInt`.
fn parse_int(text: &str) -> Result<i64, String> {
    text.parse::<i64>().map_err(|e| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        let why = match e.kind() {
            PosOverflow | NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        format!(
            "strconv.ParseInt: parsing {}: {why}",
            triptych_object::field::quote(text)
        )
    })
}

/// A taint's effect, which must be given.
pub fn required_effect(c: Cursor<'_>) {
    if c.str().is_empty() {
        c.required("");
    } else if !EFFECTS.contains(&c.str()) {
        c.push(Error::not_supported(c.path(), c.str(), &EFFECTS));
    }
}
