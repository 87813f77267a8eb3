//! What storage classes and volume attributes classes share: the driver's name and its parameters.

use triptych_object::{Value, names};

use crate::validation::Cursor;

const MAX_COUNT: usize = 512;
const MAX_BYTES: usize = 256 * 1024;

/// The name of a provisioner or driver: a qualified name of any case.
pub fn driver_name(c: Cursor<'_>) {
    if c.is_empty() {
        return c.required("");
    }
    let lower = c.str().to_lowercase();
    for message in names::qualified_name(&lower) {
        c.invalid(lower.as_str(), message);
    }
}

/// Parameters of the driver's own, within limits.
pub fn parameters(c: Cursor<'_>) {
    if c.len() > MAX_COUNT {
        return c.too_long(MAX_COUNT);
    }
    for (key, _) in c.entries() {
        if key.is_empty() {
            c.invalid(key, "field can not be empty.");
        }
    }
    if bytes(c) > MAX_BYTES {
        c.too_long(MAX_BYTES);
    }
}

/// How many bytes the keys and values of a map have.
pub fn bytes(map: Cursor<'_>) -> usize {
    let length = |value: Option<&Value>| value.and_then(Value::as_str).map_or(0, str::len);
    map.entries()
        .map(|(key, value)| key.len() + length(value.value()))
        .sum()
}
