//! IP addresses and ranges in fields that are older than the canonical form (KEP-4858), and where endpoints may lie.

use std::net::IpAddr;

use triptych_object::names;

use super::Cursor;

/// An address in an old field; what stood there before the update is accepted as it is.
pub fn legacy_ip(cursor: Cursor<'_>, old: &[&str]) -> bool {
    let messages = names::ip_for_legacy_field(cursor.str(), true, old);
    let fine = messages.is_empty();
    cursor.invalid_text(messages);
    fine
}

/// A range in an old field; what stood there before the update is accepted as it is.
pub fn legacy_cidr(cursor: Cursor<'_>, value: &str, old: &[&str]) {
    for message in names::cidr_for_legacy_field(value, true, old) {
        cursor.invalid(value, message);
    }
}

/// An address that traffic may be sent to (`ValidateEndpointIP`).
pub fn endpoint_ip(cursor: Cursor<'_>) {
    let text = cursor.str();
    let Some(address) = names::parse_ip(text) else {
        cursor.invalid(text, "must be a valid IP address");
        return;
    };
    if address.is_unspecified() {
        cursor.invalid(text, format!("may not be unspecified ({text})"));
    }
    if address.is_loopback() {
        cursor.invalid(text, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    let (link_local, link_local_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (v6.is_unicast_link_local(), v6.segments()[0] & 0xff0f == 0xff02),
    };
    if link_local {
        cursor.invalid(text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if link_local_multicast {
        cursor.invalid(
            text,
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
        );
    }
}

/// True if the text is an IPv6 address.
pub fn is_ipv6(text: &str) -> bool {
    names::parse_ip(text).is_some_and(|a| a.is_ipv6())
}

/// `IPv4`, `IPv6` or, for what is no address, `unknown`.
pub fn family(text: &str) -> &'static str {
    match names::parse_ip(text) {
        Some(IpAddr::V4(_)) => "IPv4",
        Some(IpAddr::V6(_)) => "IPv6",
        None => "unknown",
    }
}
