//! Secret: `stringData`, keys and size, what each well-known type must hold, and what `immutable` freezes.

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{Value, json, meta};
use triptych_registry::age::age;
use triptych_registry::strategy::{Context, Strategy};

use super::config_map::{MAX_BYTES, check_key, frozen};
use super::key_pair;
use crate::validation::bytes::{decode, decoded_len, encode};
use crate::validation::{Cursor, check};

/// The strategy of `secrets`.
pub struct Secrets;

impl Strategy for Secrets {
    fn default(&self, secret: &mut Value) {
        let Some(Value::Object(texts)) = secret.remove_at(&["stringData"]) else {
            return;
        };
        for (key, text) in texts {
            let bytes = encode(text.as_str().unwrap_or("").as_bytes());
            secret.set_at(&["data", &key], bytes.into());
        }
        if let Some(data) = secret.get_mut("data").and_then(Value::as_object_mut) {
            data.sort();
        }
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, content);
    }

    fn prepare_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        if new.str_at(&["type"]).is_empty() {
            new.set_at(&["type"], old.str_at(&["type"]).into());
        }
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |secret| {
            let kind = secret.field("type");
            if kind.str() != old.str_at(&["type"]) {
                kind.invalid(kind.str(), "field is immutable");
            }
            frozen(secret, old, &["data"]);
            content(secret);
        });
    }

    fn warnings(&self, _cx: &Context, new: &Value, _old: Option<&Value>) -> Vec<String> {
        if new.str_at(&["type"]) != "kubernetes.io/tls" {
            return Vec::new();
        }
        let part = |key: &str| decode(new.str_at(&["data", key]));
        key_pair::check(&part("tls.crt"), &part("tls.key"))
            .err()
            .into_iter()
            .collect()
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let count = object.get("data").and_then(Value::as_object).map_or(0, |o| o.len());
        Some(vec![
            meta::name(object).into(),
            object.str_at(&["type"]).into(),
            Value::Int(count as i64),
            age(object, now).into(),
        ])
    }
}

fn content(secret: Cursor<'_>) {
    let data = secret.field("data");
    let mut total = 0;
    for (key, entry) in data.entries() {
        check_key(entry, key);
        total += decoded_len(entry.str());
    }
    if total > MAX_BYTES {
        data.too_long(MAX_BYTES);
    }
    let has = |key: &str| data.value().is_some_and(|d| d.get(key).is_some());
    match secret.str_of("type") {
        "kubernetes.io/service-account-token" => {
            let name = secret
                .field("metadata")
                .field("annotations")
                .key("kubernetes.io/service-account.name");
            if name.str().is_empty() {
                name.required("");
            }
        }
        "kubernetes.io/dockercfg" => json_object(data.key(".dockercfg")),
        "kubernetes.io/dockerconfigjson" => json_object(data.key(".dockerconfigjson")),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            data.key("username").required("");
            data.key("password").required("");
        }
        "kubernetes.io/ssh-auth" => {
            let key = data.key("ssh-privatekey");
            if key.str().is_empty() {
                key.required("");
            }
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"] {
                if !has(key) {
                    data.key(key).required("");
                }
            }
        }
        _ => {}
    }
}

/// The value of a key must be there and be a JSON object; its content is never shown.
fn json_object(entry: Cursor<'_>) {
    const REDACTED: &str = "<secret contents redacted>";
    if !entry.exists() {
        entry.required("");
        return;
    }
    let bytes = decode(entry.str());
    match json::from_slice(&bytes) {
        Ok(Value::Object(_) | Value::Null) => {}
        Ok(other) => entry.invalid(
            REDACTED,
            format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                other.type_name()
            ),
        ),
        Err(e) => entry.invalid(REDACTED, e.message),
    }
}
