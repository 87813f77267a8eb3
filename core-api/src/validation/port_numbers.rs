//! Port numbers, port names and protocols.

use triptych_object::{Value, names};

use super::Cursor;

/// `SCTP`, `TCP` or `UDP`.
pub fn protocol(cursor: Cursor<'_>) {
    match cursor.str() {
        "" => cursor.required(""),
        "TCP" | "UDP" | "SCTP" => {}
        _ => cursor.not_supported(&["SCTP", "TCP", "UDP"]),
    }
}

/// A number from 1 to 65535.
pub fn number(cursor: Cursor<'_>) {
    for message in names::port_num(cursor.int()) {
        cursor.invalid(cursor.int(), message);
    }
}

/// A port number or the name of one.
pub fn number_or_name(cursor: Cursor<'_>) {
    match cursor.value() {
        Some(Value::String(name)) => cursor.invalid_text(names::port_name(name)),
        _ => number(cursor),
    }
}
