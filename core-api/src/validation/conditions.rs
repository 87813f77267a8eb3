//! Conditions of meta/v1.

use std::collections::HashSet;
use std::sync::LazyLock;

use regex::Regex;

use super::{Cursor, names as rules};

const REASON: &str = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?";
static REASON_PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(&format!("^{REASON}$")).ok());

/// A list of metav1.Condition.
pub fn conditions(c: Cursor<'_>) {
    let mut seen = HashSet::new();
    for condition in c.items() {
        let kind = condition.field("type");
        if !seen.insert(kind.str()) {
            kind.duplicate(kind.str());
        }
        rules::qualified(kind);
        rules::one_of(condition.field("status"), &["False", "True", "Unknown"]);
        let generation = condition.field("observedGeneration");
        if generation.int() < 0 {
            generation.invalid(generation.int(), "must be greater than or equal to zero");
        }
        if !condition.has("lastTransitionTime") {
            condition.field("lastTransitionTime").required("");
        }
        reason(condition.field("reason"));
        let message = condition.field("message");
        if message.str().len() > 32 * 1024 {
            message.too_long(32 * 1024);
        }
    }
}

fn reason(c: Cursor<'_>) {
    if c.str().is_empty() {
        return c.required("");
    }
    if !REASON_PATTERN.as_ref().is_some_and(|p| p.is_match(c.str())) {
        let message = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'";
        let examples = ["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"];
        c.invalid(
            c.str(),
            triptych_object::names::regex_message(message, REASON, &examples),
        );
    }
    if c.str().len() > 1024 {
        c.too_long(1024);
    }
}
