//! `ip(…)` and `cidr(…)`.
//!
//! Contract: addresses as Go's `net/netip` reads and writes them; zones and IPv4 inside IPv6 are refused.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use triptych_object::duration::quote;

use super::Extension;
use crate::error::EvalError;
use crate::value::{Found, Value};

/// An address and how many of its bits are the network's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// The address.
    pub address: IpAddr,
    /// Bits.
    pub bits: u8,
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0);
            Ipv4Addr::from_bits(ip.to_bits() & mask).into()
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0);
            Ipv6Addr::from_bits(ip.to_bits() & mask).into()
        }
    }
}

impl Cidr {
    fn contains(&self, ip: IpAddr) -> bool {
        self.address.is_ipv4() == ip.is_ipv4() && masked(self.address, self.bits) == masked(ip, self.bits)
    }

    fn contains_cidr(&self, other: &Cidr) -> bool {
        self.bits <= other.bits && self.contains(other.address)
    }
}

fn parse_ip(text: &str) -> Result<IpAddr, String> {
    let refuse = |why: String| {
        Err(format!(
            "IP Address {} parse error during conversion from string: ParseAddr({}): {why}",
            quote(text),
            quote(text)
        ))
    };
    if let Some((before, zone)) = text.split_once('%') {
        return match before.parse::<Ipv6Addr>() {
            Ok(_) if zone.is_empty() => refuse("zone must be a non-empty string".to_owned()),
            Ok(_) => Err(format!("IP address {} with zone value is not allowed", quote(text))),
            Err(_) => refuse(why_not(text)),
        };
    }
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {} is not allowed", quote(text)))
        }
        Ok(ip) => Ok(ip),
        Err(_) => refuse(why_not(text)),
    }
}

/// Go's reason why a text is no address.
fn why_not(text: &str) -> String {
    let first = text.chars().find(|c| matches!(c, '.' | ':' | '%'));
    match first {
        None => "unable to parse IP".to_owned(),
        Some('.') => why_not_ipv4(text),
        Some('%') => "missing IPv6 address".to_owned(),
        _ => why_not_ipv6(text),
    }
}

fn why_not_ipv4(text: &str) -> String {
    let (mut fields, mut value, mut digits) = (0, 0u32, 0);
    for (i, c) in text.char_indices() {
        match c {
            '0'..='9' => {
                if digits == 1 && value == 0 {
                    return "IPv4 field has octet with leading zero".to_owned();
                }
                value = value * 10 + (c as u32 - '0' as u32);
                digits += 1;
                if value > 255 {
                    return "IPv4 field has value >255".to_owned();
                }
            }
            '.' => {
                if i == 0 || i == text.len() - 1 || text.as_bytes().get(i - 1) == Some(&b'.') {
                    return format!("IPv4 field must have at least one digit (at {})", quote(&text[i..]));
                }
                if fields == 3 {
                    return "IPv4 address too long".to_owned();
                }
                fields += 1;
                (value, digits) = (0, 0);
            }
            _ => return format!("unexpected character (at {})", quote(&text[i..])),
        }
    }
    "IPv4 address too short".to_owned()
}

/// Goes through the groups as Go does; the first thing in its way is the reason.
fn why_not_ipv6(text: &str) -> String {
    let address = text.split_once('%').map_or(text, |(address, _)| address);
    let at = |why: &str, rest: &str| format!("{why} (at {})", quote(rest));
    let (mut rest, mut bytes, mut ellipsis) = (address, 0, None);
    if let Some(after) = rest.strip_prefix("::") {
        (rest, ellipsis) = (after, Some(0));
    }
    while bytes < 16 {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        match digits {
            0 => return at("each colon-separated field must have at least one digit", rest),
            5.. => return at("each group must have 4 or less digits", rest),
            _ => {}
        }
        let after = &rest[digits..];
        if after.starts_with('.') {
            if ellipsis.is_none() && bytes != 12 {
                return at(
                    "embedded IPv4 address must replace the final 2 fields of the address",
                    rest,
                );
            }
            return match bytes > 12 {
                true => at(
                    "too many hex fields to fit an embedded IPv4 at the end of the address",
                    rest,
                ),
                false => why_not_ipv4(rest),
            };
        }
        bytes += 2;
        rest = after;
        if rest.is_empty() {
            break;
        }
        let Some(next) = rest.strip_prefix(':') else {
            return at("unexpected character, want colon", rest);
        };
        if next.is_empty() {
            return at("colon must be followed by more characters", rest);
        }
        rest = next;
        if let Some(after) = rest.strip_prefix(':') {
            if ellipsis.is_some() {
                return at("multiple :: in address", rest);
            }
            (rest, ellipsis) = (after, Some(bytes));
            if rest.is_empty() {
                break;
            }
        }
    }
    match ellipsis {
        _ if !rest.is_empty() => at("trailing garbage after address", rest),
        None => "address string too short".to_owned(),
        Some(_) => "the :: must expand to at least one field of zeros".to_owned(),
    }
}

fn parse_cidr(text: &str) -> Result<Cidr, String> {
    let refuse = |why: String| {
        Err(format!(
            "network address parse error during conversion from string: netip.ParsePrefix({}): {why}",
            quote(text)
        ))
    };
    let Some((address, bits)) = text.rsplit_once('/') else {
        return refuse("no '/'".to_owned());
    };
    if address.contains('%') {
        return refuse("IPv6 zones cannot be present in a prefix".to_owned());
    }
    let Ok(address) = address.parse::<IpAddr>() else {
        return refuse(format!("ParseAddr({}): {}", quote(address), why_not(address)));
    };
    let digits = bits.bytes().all(|b| b.is_ascii_digit()) && !bits.is_empty();
    let leading = bits.len() > 1 && !matches!(bits.as_bytes()[0], b'1'..=b'9');
    let max = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits.parse::<i64>() {
        Ok(n) if digits && !leading => match u8::try_from(n) {
            Ok(n) if n <= max => n,
            _ => return refuse("prefix length out of range".to_owned()),
        },
        _ => return refuse(format!("bad bits after slash: {}", quote(bits))),
    };
    if matches!(address, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some()) {
        return Err(format!("IPv4-mapped IPv6 address {} is not allowed", quote(text)));
    }
    Ok(Cidr { address, bits })
}

fn string_to_cidr(text: &str) -> Result<Cidr, EvalError> {
    parse_cidr(text).map_err(|e| {
        EvalError::new(format!(
            "network address parse error during conversion from string: {e}"
        ))
    })
}

/// Calls a function if it is one of these.
pub fn call<'a>(function: &str, args: &[Value<'a>]) -> Option<Found<'a>> {
    let ip = |ip: IpAddr| Value::Extension(Extension::Ip(ip));
    let cidr = |cidr: Cidr| Value::Extension(Extension::Cidr(cidr));
    Some(match (function, args) {
        ("ip", [Value::String(text)]) => parse_ip(text).map(ip).map_err(EvalError::new),
        ("isIP", [Value::String(text)]) => Ok(Value::Bool(parse_ip(text).is_ok())),
        ("ip.isCanonical", [Value::String(text)]) => parse_ip(text)
            .map(|ip| Value::Bool(ip.to_string() == **text))
            .map_err(EvalError::new),
        ("cidr", [Value::String(text)]) => string_to_cidr(text).map(cidr),
        ("isCIDR", [Value::String(text)]) => Ok(Value::Bool(parse_cidr(text).is_ok())),
        (_, [Value::Extension(Extension::Ip(own))]) => of_ip(function, *own)?,
        (_, [Value::Extension(Extension::Cidr(own)), rest @ ..]) => of_cidr(function, own, rest)?,
        _ => return None,
    })
}

fn of_ip<'a>(function: &str, own: IpAddr) -> Option<Found<'a>> {
    let multicast = |own: IpAddr| match own {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    };
    let unicast = |own: IpAddr| match own {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.segments()[0] & 0xffc0 == 0xfe80,
    };
    Some(Ok(match function {
        "string" => Value::string(own.to_string()),
        "family" => Value::Int(if own.is_ipv4() { 4 } else { 6 }),
        "isUnspecified" => Value::Bool(own.is_unspecified()),
        "isLoopback" => Value::Bool(own.is_loopback()),
        "isLinkLocalMulticast" => Value::Bool(multicast(own)),
        "isLinkLocalUnicast" => Value::Bool(unicast(own)),
        "isGlobalUnicast" => {
            let broadcast = own == IpAddr::V4(Ipv4Addr::BROADCAST);
            Value::Bool(
                !broadcast && !own.is_unspecified() && !own.is_loopback() && !own.is_multicast() && !unicast(own),
            )
        }
        _ => return None,
    }))
}

fn of_cidr<'a>(function: &str, own: &Cidr, rest: &[Value<'a>]) -> Option<Found<'a>> {
    Some(Ok(match (function, rest) {
        ("string", []) => Value::string(own.to_string()),
        ("ip", []) => Value::Extension(Extension::Ip(own.address)),
        ("prefixLength", []) => Value::Int(own.bits.into()),
        ("masked", []) => Value::Extension(Extension::Cidr(Cidr {
            address: masked(own.address, own.bits),
            bits: own.bits,
        })),
        ("containsIP", [Value::Extension(Extension::Ip(ip))]) => Value::Bool(own.contains(*ip)),
        ("containsIP", [Value::String(text)]) => match parse_ip(text) {
            Ok(ip) => Value::Bool(own.contains(ip)),
            // The error of the address is lost upstream too.
            Err(_) => return Some(Err(EvalError::no_such_overload())),
        },
        ("containsCIDR", [Value::Extension(Extension::Cidr(other))]) => Value::Bool(own.contains_cidr(other)),
        ("containsCIDR", [Value::String(text)]) => match string_to_cidr(text) {
            Ok(other) => Value::Bool(own.contains_cidr(&other)),
            Err(e) => return Some(Err(e)),
        },
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::why_not;

    #[test]
    fn texts_that_are_no_addresses_are_refused_in_go_s_words() {
        for (text, why) in [
            ("x", "unable to parse IP"),
            ("%eth0", "missing IPv6 address"),
            ("1.2.3", "IPv4 address too short"),
            ("1.2.3.4.5", "IPv4 address too long"),
            ("1.2.3.256", "IPv4 field has value >255"),
            ("1.2.03.4", "IPv4 field has octet with leading zero"),
            ("1..3.4", "IPv4 field must have at least one digit (at \".3.4\")"),
            ("1.2.3.a", "unexpected character (at \"a\")"),
            (
                "a:::b",
                "each colon-separated field must have at least one digit (at \":b\")",
            ),
            ("a::b::c", "multiple :: in address (at \":c\")"),
            ("12345::", "each group must have 4 or less digits (at \"12345::\")"),
            ("1:2", "address string too short"),
            ("1:2:", "colon must be followed by more characters (at \":\")"),
            (
                "1:g::",
                "each colon-separated field must have at least one digit (at \"g::\")",
            ),
            ("1g::", "unexpected character, want colon (at \"g::\")"),
            ("1:2:3:4:5:6:7:8:9", "trailing garbage after address (at \"9\")"),
            ("1:2:3:4:5:6:7:8::", "the :: must expand to at least one field of zeros"),
            (
                "1:1.2.3.4",
                "embedded IPv4 address must replace the final 2 fields of the address (at \"1.2.3.4\")",
            ),
            (
                "::1:2:3:4:5:6:7:1.2.3.4",
                "too many hex fields to fit an embedded IPv4 at the end of the address (at \"1.2.3.4\")",
            ),
            ("::1.2.3", "IPv4 address too short"),
        ] {
            assert_eq!(why_not(text), why, "{text}");
        }
    }
}
