//! IP addresses and CIDR ranges as the Kubernetes API takes them.
//!
//! Contract: old fields accept what Go accepted before 1.17 (leading zeros, IPv4-mapped IPv6) unless told to be strict;
//! new fields demand the canonical form (KEP-4858). Messages are those of `util/validation/ip.go`, without the field.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::field::quote;

/// An address as written: IPv4-mapped IPv6 is told apart from IPv4 only by `mapped`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parsed {
    address: IpAddr,
    mapped: bool,
}

/// The address, leading zeros of its parts ignored; IPv4-mapped IPv6 becomes IPv4, as in Go's `net.IP`.
pub fn parse_ip(text: &str) -> Option<IpAddr> {
    parse(text).map(|p| p.address)
}

fn parse(text: &str) -> Option<Parsed> {
    let separator = text.chars().find(|c| matches!(c, '.' | ':'))?;
    if separator == '.' {
        return parse_v4(text).map(|a| Parsed {
            address: IpAddr::V4(a),
            mapped: false,
        });
    }
    let v6 = parse_v6(text)?;
    Some(match v6.to_ipv4_mapped() {
        Some(v4) => Parsed {
            address: IpAddr::V4(v4),
            mapped: true,
        },
        None => Parsed {
            address: IpAddr::V6(v6),
            mapped: false,
        },
    })
}

fn parse_v4(text: &str) -> Option<Ipv4Addr> {
    without_leading_zeros(text)?.parse().ok()
}

fn parse_v6(text: &str) -> Option<Ipv6Addr> {
    without_leading_zeros(text)?.parse().ok()
}

/// Drops leading zeros of every part; none if the text is longer than any sensible address.
fn without_leading_zeros(text: &str) -> Option<String> {
    if text.len() > 200 {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let mut part = String::new();
    for c in text.chars().chain(['/']) {
        if c.is_ascii_hexdigit() {
            part.push(c);
            continue;
        }
        let stripped = part.trim_start_matches('0');
        out.push_str(if stripped.is_empty() && !part.is_empty() {
            "0"
        } else {
            stripped
        });
        part.clear();
        out.push(c);
    }
    out.pop();
    Some(out)
}

/// True if the text has no illegal leading zeros, that is, Go's `netip` takes it too.
fn modern(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

fn ip_messages(value: &str, strict: bool) -> (Option<IpAddr>, Vec<String>) {
    let Some(parsed) = parse(value) else {
        return (
            None,
            vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()],
        );
    };
    let mut errors = Vec::new();
    if strict {
        if !modern(value) {
            errors.push("must not have leading 0s".to_owned());
        } else if parsed.mapped {
            errors.push("must not be an IPv4-mapped IPv6 address".to_owned());
        }
    }
    (Some(parsed.address), errors)
}

/// An address in a field from before KEP-4858; `strict` as the gate StrictIPCIDRValidation says, `old` are values that
/// were stored already.
pub fn ip_for_legacy_field<S: AsRef<str>>(value: &str, strict: bool, old: &[S]) -> Vec<String> {
    if old.iter().any(|o| o.as_ref() == value) {
        Vec::new()
    } else {
        ip_messages(value, strict).1
    }
}

/// An address in canonical form.
pub fn ip(value: &str) -> Vec<String> {
    let (address, mut errors) = ip_messages(value, true);
    if let (Some(address), true) = (address, errors.is_empty())
        && address.to_string() != value
    {
        errors.push(format!("must be in canonical form ({})", quote(&address.to_string())));
    }
    errors
}

/// Warnings about an address that is accepted but not canonical; `path` is its field.
pub fn ip_warnings(path: &str, value: &str) -> Vec<String> {
    let Some(parsed) = parse(value) else { return Vec::new() };
    let canonical = parsed.address.to_string();
    if !modern(value) || parsed.mapped {
        return vec![format!(
            "{path}: non-standard IP address {} is invalid: use {}",
            quote(value),
            quote(&canonical)
        )];
    }
    if parsed.address.is_ipv6() && canonical != value {
        return vec![format!(
            "{path}: IPv6 address {} should be in RFC 5952 canonical format ({})",
            quote(value),
            quote(&canonical)
        )];
    }
    Vec::new()
}

/// A range as written.
#[derive(Clone, Copy, Debug)]
struct Range {
    /// The address before the slash as 128 bits (IPv4 in its mapped form) and whether it was written as IPv4.
    bits: u128,
    v4: bool,
    /// Prefix length as written.
    length: u8,
}

const MAPPED: u128 = 0xffff_0000_0000;

fn address_of(bits: u128) -> IpAddr {
    let v6 = Ipv6Addr::from(bits);
    v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
}

impl Range {
    fn parse(text: &str) -> Option<Range> {
        let (address, length) = text.split_once('/')?;
        let (bits, v4) = match parse_v4(address) {
            Some(v4) => (MAPPED | u128::from(u32::from(v4)), true),
            None => (u128::from(parse_v6(address)?), false),
        };
        if length.is_empty() || !length.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let length: u32 = without_leading_zeros(length)?.parse().ok()?;
        let length = u8::try_from(length).ok().filter(|l| *l <= if v4 { 32 } else { 128 })?;
        Some(Range { bits, v4, length })
    }

    fn network(&self) -> u128 {
        let kept = u32::from(self.length) + if self.v4 { 96 } else { 0 };
        match kept {
            0 => 0,
            kept => self.bits & (u128::MAX << (128 - kept)),
        }
    }

    fn mapped(&self) -> bool {
        !self.v4 && self.bits >> 32 == 0xffff
    }

    fn has_leading_zeros(&self, text: &str) -> bool {
        let (address, length) = text.split_once('/').unwrap_or((text, ""));
        !modern(address) || (length.len() > 1 && length.starts_with('0'))
    }

    /// Go's `IPNet.String`, with the address before masking if `whole`.
    fn display(&self, whole: bool) -> String {
        let address = address_of(if whole { self.bits } else { self.network() });
        let length = if address.is_ipv4() && !self.v4 {
            self.length.saturating_sub(96)
        } else {
            self.length
        };
        format!("{address}/{length}")
    }

    fn messages(&self, text: &str) -> Vec<String> {
        let message = if self.has_leading_zeros(text) {
            "must not have leading 0s in IP or prefix length"
        } else if self.mapped() {
            "must not have an IPv4-mapped IPv6 address"
        } else if self.bits != self.network() {
            "must not have bits set beyond the prefix length"
        } else {
            return Vec::new();
        };
        vec![message.to_owned()]
    }
}

/// The first address and prefix length of a range, leading zeros ignored.
pub fn parse_cidr(text: &str) -> Option<(IpAddr, u8)> {
    let range = Range::parse(text)?;
    Some((address_of(range.network()), range.length))
}

fn not_a_range() -> Vec<String> {
    vec!["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)".to_owned()]
}

/// A range in a field from before KEP-4858; see [`ip_for_legacy_field`].
pub fn cidr_for_legacy_field<S: AsRef<str>>(value: &str, strict: bool, old: &[S]) -> Vec<String> {
    if old.iter().any(|o| o.as_ref() == value) {
        return Vec::new();
    }
    match Range::parse(value) {
        None => not_a_range(),
        Some(range) if strict => range.messages(value),
        Some(_) => Vec::new(),
    }
}

/// A range in canonical form.
pub fn cidr(value: &str) -> Vec<String> {
    let Some(range) = Range::parse(value) else {
        return not_a_range();
    };
    let mut errors = range.messages(value);
    let canonical = range.display(false);
    if errors.is_empty() && canonical != value {
        errors.push(format!("must be in canonical form ({})", quote(&canonical)));
    }
    errors
}

/// Warnings about a range that is accepted but not canonical; `path` is its field.
pub fn cidr_warnings(path: &str, value: &str) -> Vec<String> {
    let Some(range) = Range::parse(value) else {
        return Vec::new();
    };
    let canonical = range.display(false);
    let mut warnings = Vec::new();
    if range.bits != range.network() {
        let single = format!("{}/{}", address_of(range.bits), if range.v4 { 32 } else { 128 });
        warnings.push(format!(
            "{path}: CIDR value {} is ambiguous in this context (should be {} or {}?)",
            quote(value),
            quote(&canonical),
            quote(&single)
        ));
    }
    if range.has_leading_zeros(value) || range.mapped() {
        warnings.push(format!(
            "{path}: non-standard CIDR value {} is invalid: use {}",
            quote(value),
            quote(&canonical)
        ));
    }
    if warnings.is_empty() && !range.v4 && canonical != value {
        warnings.push(format!(
            "{path}: IPv6 CIDR value {} should be in RFC 5952 canonical format ({})",
            quote(value),
            quote(&canonical)
        ));
    }
    warnings
}

/// An address with its network's prefix length, canonical.
pub fn interface_address(value: &str) -> Vec<String> {
    let Some(range) = Range::parse(value) else {
        return vec!["must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)".to_owned()];
    };
    let canonical = range.display(true);
    if canonical == value {
        Vec::new()
    } else {
        vec![format!("must be in canonical form ({})", quote(&canonical))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [&str; 0] = [];

    #[test]
    fn old_fields_take_what_go_once_took() {
        for value in ["10.0.0.1", "010.000.0.01", "::ffff:1.2.3.4", "2001:0db8::1", "::"] {
            assert_eq!(ip_for_legacy_field(value, false, &NONE), NONE, "{value}");
        }
        for value in ["", "1.2.3", "1.2.3.4.5", "1:2", "fe80::1%eth0", "a", "1.2.3.256"] {
            assert_eq!(
                ip_for_legacy_field(value, false, &NONE),
                ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"],
                "{value}"
            );
        }
        assert_eq!(ip_for_legacy_field("bad", true, &["bad"]), NONE);
    }

    #[test]
    fn new_fields_want_the_canonical_form() {
        assert_eq!(ip("10.0.0.1"), NONE);
        assert_eq!(ip("010.0.0.1"), ["must not have leading 0s"]);
        assert_eq!(ip("::ffff:1.2.3.4"), ["must not be an IPv4-mapped IPv6 address"]);
        assert_eq!(ip("2001:db8:0::1"), [r#"must be in canonical form ("2001:db8::1")"#]);
        assert_eq!(cidr("10.0.0.0/8"), NONE);
        assert_eq!(cidr("10.0.0.1/8"), ["must not have bits set beyond the prefix length"]);
        assert_eq!(cidr("10.0.0.0/08"), ["must not have leading 0s in IP or prefix length"]);
        assert_eq!(
            cidr("10.0.0.0/33"),
            ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]
        );
        assert_eq!(
            cidr("::ffff:1.2.3.0/120"),
            ["must not have an IPv4-mapped IPv6 address"]
        );
        assert_eq!(interface_address("10.0.0.7/24"), NONE);
        assert_eq!(
            interface_address("::ffff:192.168.0.1/120"),
            [r#"must be in canonical form ("192.168.0.1/24")"#]
        );
    }

    #[test]
    fn what_is_accepted_but_odd_is_warned_about() {
        assert_eq!(
            ip_warnings("spec.ip", "010.0.0.1"),
            [r#"spec.ip: non-standard IP address "010.0.0.1" is invalid: use "10.0.0.1""#]
        );
        assert_eq!(
            cidr_warnings("c", "10.0.0.1/8"),
            [r#"c: CIDR value "10.0.0.1/8" is ambiguous in this context (should be "10.0.0.0/8" or "10.0.0.1/32"?)"#]
        );
        assert_eq!(ip_warnings("i", "1.2.3.4"), NONE);
    }
}
