//! Names inside objects: each rule reports what is wrong with the text at the cursor.

use triptych_object::names;

use super::Cursor;

/// A DNS-1123 label.
pub fn label(c: Cursor<'_>) {
    c.invalid_text(names::dns1123_label(c.str()));
}

/// A DNS-1123 subdomain: what most objects are called.
pub fn subdomain(c: Cursor<'_>) {
    c.invalid_text(names::dns1123_subdomain(c.str()));
}

/// A qualified name, such as a label key.
pub fn qualified(c: Cursor<'_>) {
    c.invalid_text(names::qualified_name(c.str()));
}

/// A required member that must be a DNS-1123 label.
pub fn required_label(c: Cursor<'_>) {
    if c.str().is_empty() {
        c.required("");
    } else {
        label(c);
    }
}

/// A member that must not be empty.
pub fn required(c: Cursor<'_>) {
    if c.str().is_empty() {
        c.required("");
    }
}

/// An optional member that must be a subdomain when it is not empty.
pub fn optional_subdomain(c: Cursor<'_>) {
    if !c.str().is_empty() {
        subdomain(c);
    }
}

/// A number that must not be negative; absent is 0.
pub fn nonnegative(c: Cursor<'_>) {
    if c.int() < 0 {
        c.invalid(c.int(), "must be greater than or equal to 0");
    }
}

/// A number that must be positive; absent is 0.
pub fn positive(c: Cursor<'_>) {
    if c.int() <= 0 {
        c.invalid(c.int(), "must be greater than zero");
    }
}

/// One of a closed set of values; an empty text is not.
pub fn one_of(c: Cursor<'_>, supported: &[&str]) {
    if !supported.contains(&c.str()) {
        c.not_supported(supported);
    }
}

/// One of a closed set of values, and required.
pub fn required_one_of(c: Cursor<'_>, supported: &[&str]) {
    if c.str().is_empty() {
        c.required("");
    } else {
        one_of(c, supported);
    }
}

/// One of a closed set of values, if given at all.
pub fn optional_one_of(c: Cursor<'_>, supported: &[&str]) {
    if c.exists() {
        one_of(c, supported);
    }
}

/// A key with a domain (`acme.io/foo`).
pub fn domain_prefixed_key(c: Cursor<'_>, key: &str) {
    if key.is_empty() {
        c.required("");
        return;
    }
    let messages = names::qualified_name(key);
    let malformed = !messages.is_empty();
    for message in messages {
        c.invalid(key, message);
    }
    if !malformed && !key.contains('/') {
        c.invalid(key, "must be a domain-prefixed key (such as \"acme.io/foo\")");
    }
}

/// The name of a certificate signer: `example.com/signer-name`.
pub fn signer_name(c: Cursor<'_>) {
    let name = c.str();
    if name.is_empty() {
        c.required("");
        return;
    }
    let Some((domain, path)) = name.split_once('/').filter(|(_, path)| !path.contains('/')) else {
        c.invalid(
            name,
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        );
        return;
    };
    if domain.len() > names::DNS1123_SUBDOMAIN_MAX {
        c.too_long(names::DNS1123_SUBDOMAIN_MAX);
    }
    first_bad_part(c, domain, names::dns1123_label);
    if !domain.contains('.') {
        c.invalid(
            domain,
            "should be a domain with at least two segments separated by dots",
        );
    }
    first_bad_part(c, path, names::dns1123_subdomain);
    let longest = 2 * names::DNS1123_SUBDOMAIN_MAX + names::DNS1123_LABEL_MAX + 2;
    if name.len() > longest {
        c.too_long(longest);
    }
}

/// What is wrong with the first part between dots that is wrong.
fn first_bad_part(c: Cursor<'_>, text: &str, rule: fn(&str) -> Vec<String>) {
    let bad = text
        .split('.')
        .map(|part| (part, rule(part)))
        .find(|(_, found)| !found.is_empty());
    if let Some((part, messages)) = bad {
        let part = triptych_object::field::quote(part);
        for message in messages {
            c.invalid(text, format!("validating label {part}: {message}"));
        }
    }
}
