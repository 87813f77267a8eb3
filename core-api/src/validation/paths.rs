//! File paths inside volumes and images.

use super::Cursor;

/// Does not climb out with `..`.
pub fn no_backsteps(c: Cursor<'_>) {
    if c.str().split('/').any(|part| part == "..") {
        c.invalid(c.str(), "must not contain '..'");
    }
}

/// Relative, and does not climb out.
pub fn local_descending(c: Cursor<'_>) {
    if c.str().starts_with('/') {
        c.invalid(c.str(), "must be a relative path");
    }
    no_backsteps(c);
}

/// As [`local_descending`], and not a name that the volume writer keeps for itself.
pub fn local_non_reserved(c: Cursor<'_>) {
    local_descending(c);
    if c.str().starts_with("..") && !c.str().starts_with("../") {
        c.invalid(c.str(), "must not start with '..'");
    }
}

/// Whether [`local_non_reserved`] finds nothing.
pub fn is_local_non_reserved(path: &str) -> bool {
    let reserved = path.starts_with("..") && !path.starts_with("../");
    !path.starts_with('/') && !reserved && path.split('/').all(|part| part != "..")
}

/// Permission bits, if given.
pub fn file_mode(c: Cursor<'_>) {
    if c.i64().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        c.invalid(c.int(), "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

/// `items` of a ConfigMap or Secret volume: one key's path.
pub fn key_to_path(c: Cursor<'_>) {
    super::names::required(c.field("key"));
    let path = c.field("path");
    if path.str().is_empty() {
        path.required("");
    }
    local_non_reserved(path);
    file_mode(c.field("mode"));
}

/// Whether [`local_descending`] finds nothing.
pub fn is_local_descending(path: &str) -> bool {
    !path.starts_with('/') && path.split('/').all(|part| part != "..")
}
