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
