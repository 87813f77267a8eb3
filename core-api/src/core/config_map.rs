//! ConfigMap: its keys, its size, and what `immutable` freezes.

use jiff::Timestamp;
use triptych_object::field::{Error, ErrorList};
use triptych_object::{Value, meta, names};
use triptych_registry::age::age;
use triptych_registry::strategy::{Context, Strategy};

use crate::validation::bytes::decoded_len;
use crate::validation::{Cursor, check};

/// All values together, in bytes.
pub const MAX_BYTES: usize = 1024 * 1024;

/// The strategy of `configmaps`.
pub struct ConfigMaps;

impl Strategy for ConfigMaps {
    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, content);
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |map| {
            frozen(map, old, &["data", "binaryData"]);
            content(map);
        });
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let count = |member: &str| object.get(member).and_then(Value::as_object).map_or(0, |o| o.len());
        let count = count("data") + count("binaryData");
        Some(vec![
            meta::name(object).into(),
            Value::Int(count as i64),
            age(object, now).into(),
        ])
    }
}

/// What an object that was made immutable may not change; secrets have the same rule.
pub fn frozen(object: Cursor<'_>, old: &Value, members: &[&'static str]) {
    const DETAIL: &str = "field is immutable when `immutable` is set";
    if old.get("immutable").and_then(Value::as_bool) != Some(true) {
        return;
    }
    if !object.is_true_of("immutable") {
        object.field("immutable").forbidden(DETAIL);
    }
    for member in members {
        let content = object.field(member);
        if content.value() != old.get(member) {
            content.forbidden(DETAIL);
        }
    }
}

fn content(map: Cursor<'_>) {
    let mut total = 0;
    let binary = map.field("binaryData");
    for (key, entry) in map.field("data").entries() {
        check_key(entry, key);
        if binary.value().is_some_and(|b| b.get(key).is_some()) {
            entry.invalid(key, "duplicate of key present in binaryData");
        }
        total += entry.str().len();
    }
    for (key, entry) in binary.entries() {
        check_key(entry, key);
        total += decoded_len(entry.str());
    }
    if total > MAX_BYTES {
        map.push(Error::too_long("[]", MAX_BYTES));
    }
}

/// A key of a ConfigMap or Secret.
pub fn check_key(entry: Cursor<'_>, key: &str) {
    for message in names::config_map_key(key) {
        entry.invalid(key, message);
    }
}
