//! Names and other texts of this group, and lists within limits.

use std::collections::HashSet;

use triptych_object::{Value, json, names};

use crate::validation::volume_sources::csi_driver_name;
use crate::validation::{Cursor, names as rules};

const MAX_POOL_NAME: usize = 253;
const MAX_IDENTIFIER: usize = 32;
/// Effects of taints.
pub const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

/// True if a list is within its limit; otherwise that alone is reported.
pub fn within(list: Cursor<'_>, max: usize) -> bool {
    if list.len() > max {
        list.too_many(max);
    }
    list.len() <= max
}

/// Reports items whose key stands twice.
pub fn unique<'a>(list: Cursor<'a>, key: impl Fn(Cursor<'a>) -> &'a str) {
    let mut seen = HashSet::new();
    for item in list.items() {
        if !seen.insert(key(item)) {
            item.duplicate(key(item));
        }
    }
}

/// The name of a driver.
pub fn driver(c: Cursor<'_>) {
    csi_driver_name(c);
}

/// The name of a pool: subdomains with slashes between them.
pub fn pool(c: Cursor<'_>) {
    if c.is_empty() {
        return c.required("");
    }
    if c.len() > MAX_POOL_NAME {
        c.too_long(MAX_POOL_NAME);
    }
    for part in c.str().split('/') {
        for message in names::dns1123_subdomain(part) {
            c.invalid(part, message);
        }
    }
}

/// The name of a device class that is referred to.
pub fn device_class(c: Cursor<'_>) {
    if c.is_empty() {
        c.required("");
    } else {
        rules::subdomain(c);
    }
}

/// A C identifier, or one with the domain of a driver. Errors stand at `c`.
pub fn qualified(c: Cursor<'_>, name: &str) {
    let parts: Vec<&str> = name.split('/').collect();
    match parts.as_slice() {
        [id] => identifier(c, id),
        [domain, id] => {
            if domain.is_empty() {
                c.invalid("", "the domain must not be empty");
            } else {
                domain_name(c, domain);
            }
            if id.is_empty() {
                c.invalid("", "the name must not be empty");
            } else {
                identifier(c, id);
            }
        }
        // kube-apiserver does not look at more
        _ => {}
    }
}

fn domain_name(c: Cursor<'_>, domain: &str) {
    if domain.len() > names::DNS1123_LABEL_MAX {
        c.too_long(names::DNS1123_LABEL_MAX);
    }
    for message in names::dns1123_subdomain(&domain.to_lowercase()) {
        c.invalid(domain, message);
    }
}

fn identifier(c: Cursor<'_>, id: &str) {
    if id.len() > MAX_IDENTIFIER {
        c.too_long(MAX_IDENTIFIER);
    }
    for message in names::c_identifier(id) {
        c.invalid(id, message);
    }
}

/// A qualified name that must have a domain.
pub fn fully_qualified(c: Cursor<'_>) {
    qualified(c, c.str());
    if !c.str().contains('/') {
        c.invalid(
            c.str(),
            "a fully qualified name must be a domain and a name separated by a slash",
        );
    }
}

/// Any JSON object of at most `max` bytes.
pub fn raw_object(c: Cursor<'_>, max: usize) {
    let Some(value) = c.value() else {
        return c.required("");
    };
    if json::to_vec(value).len() > max {
        c.too_long(max);
    } else if value.as_object().is_none() {
        c.invalid("<value omitted>", "must be a valid JSON object");
    }
}

/// A uid in its normal form.
pub fn uid(c: Cursor<'_>) {
    let text = c.str();
    if let Some(wrong) = no_uuid(text) {
        c.invalid(text, format!("error validating uid: {wrong}"));
    } else if text.len() != 36 || text != text.to_lowercase() {
        c.invalid(text, "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters");
    }
}

/// Why a text is none of the forms of a UUID.
fn no_uuid(text: &str) -> Option<String> {
    const MALFORMED: &str = "invalid UUID format";
    let dashed = match text.len() {
        36 => text,
        45 => match text.get(..9) {
            Some(prefix) if prefix.eq_ignore_ascii_case("urn:uuid:") => &text[9..],
            prefix => {
                let prefix = triptych_object::field::quote(prefix.unwrap_or(""));
                return Some(format!("invalid urn prefix: {prefix}"));
            }
        },
        38 => match text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) {
            Some(inner) => inner,
            None => return Some("invalid bracketed UUID format".into()),
        },
        32 => {
            let hex = text.bytes().all(|b| b.is_ascii_hexdigit());
            return (!hex).then(|| MALFORMED.into());
        }
        length => return Some(format!("invalid UUID length: {length}")),
    };
    let fits = dashed.bytes().enumerate().all(|(i, b)| match i {
        8 | 13 | 18 | 23 => b == b'-',
        _ => b.is_ascii_hexdigit(),
    });
    (!fits).then(|| MALFORMED.into())
}

/// A label value.
pub fn label_value(c: Cursor<'_>) {
    c.invalid_text(names::label_value(c.str()));
}

/// A taint of a device.
pub fn taint(taint: Cursor<'_>) {
    rules::qualified(taint.field("key"));
    if !taint.field("value").is_empty() {
        label_value(taint.field("value"));
    }
    rules::required_one_of(taint.field("effect"), &EFFECTS);
}

/// A toleration of taints of devices.
pub fn toleration(toleration: Cursor<'_>) {
    let [key, operator, value, effect] = ["key", "operator", "value", "effect"].map(|member| toleration.field(member));
    if !key.is_empty() {
        rules::qualified(key);
    }
    match operator.str() {
        "Exists" if !value.is_empty() => value.invalid(value.str(), "must be empty for operator `Exists`"),
        "Exists" => {}
        "Equal" => label_value(value),
        _ => rules::required_one_of(operator, &["Equal", "Exists"]),
    }
    if !effect.is_empty() {
        rules::one_of(effect, &EFFECTS);
    }
}

/// What must happen to a device before, or prevents, its use.
pub fn binding_conditions(device: Cursor<'_>) {
    const MAX: usize = 4;
    let (wanted, failures) = (
        device.field("bindingConditions"),
        device.field("bindingFailureConditions"),
    );
    for list in [wanted, failures] {
        if within(list, MAX) {
            list.items().for_each(rules::qualified);
        }
    }
    unique(wanted, Cursor::str);
    let awaited: HashSet<&str> = wanted.items().map(Cursor::str).collect();
    let mut seen = HashSet::new();
    for failure in failures.items() {
        if !seen.insert(failure.str()) {
            failure.duplicate(failure.str());
        }
        if awaited.contains(failure.str()) {
            failure.invalid(
                failure.str(),
                "bindingFailureConditions must not overlap with bindingConditions",
            );
        }
    }
    for (list, other, detail) in [
        (
            wanted,
            failures,
            "bindingConditions are required to use bindingFailureConditions",
        ),
        (
            failures,
            wanted,
            "bindingFailureConditions are required to use bindingConditions",
        ),
    ] {
        if list.is_empty() && !other.is_empty() {
            list.invalid(Value::Null, detail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_four_forms() {
        let uuid = "01234567-89ab-cdef-0123-456789abcdef";
        for good in [
            uuid,
            &format!("urn:uuid:{uuid}"),
            &format!("{{{uuid}}}"),
            &uuid.replace('-', ""),
        ] {
            assert_eq!(no_uuid(good), None, "{good}");
        }
        assert_eq!(no_uuid("x").as_deref(), Some("invalid UUID length: 1"));
        assert!(no_uuid(&uuid.replace('a', "x")).is_some());
    }
}
