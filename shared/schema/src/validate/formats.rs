//! The string formats of go-openapi's strfmt that CRDs may use.

use std::sync::LazyLock;

use regex::Regex;
use triptych_object::{duration, names};

use crate::decode::parse_time;

/// Whether the text has the format; none if there is no such format (then nothing is checked).
pub fn check(format: &str, text: &str) -> Option<bool> {
    let normal = format.replace('-', "");
    Some(match normal.as_str() {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
        "uri" => is_request_uri(text),
        "email" => is_email(text),
        "hostname" => is_hostname(text),
        "ipv4" => text.contains('.') && names::parse_ip(text).is_some(),
        "ipv6" => text.contains(':') && text.parse::<std::net::Ipv6Addr>().is_ok(),
        "cidr" => names::parse_cidr(text).is_some(),
        "mac" => is_mac(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some('3')),
        "uuid4" => is_uuid(text, Some('4')),
        "uuid5" => is_uuid(text, Some('5')),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_credit_card(text),
        "ssn" => text.len() == 11 && matches(&SSN, text),
        "hexcolor" => {
            let digits = text.strip_prefix('#').unwrap_or(text);
            matches!(digits.len(), 3 | 6) && digits.bytes().all(|b| b.is_ascii_hexdigit())
        }
        "rgbcolor" => matches(&RGB_COLOR, text),
        "byte" => matches(&BASE64, text),
        "password" => true,
        "date" => is_date(text),
        "duration" => is_duration(text),
        "datetime" => is_date_time(text),
        "k8sshortname" => text.len() <= 63 && names::dns1123_label(text).is_empty(),
        "k8slongname" => text.len() <= 253 && names::dns1123_subdomain(text).is_empty(),
        _ => return None,
    })
}

/// Expressions written here; one that did not compile would match nothing.
type Lazy = LazyLock<Option<Regex>>;

fn matches(regex: &Lazy, text: &str) -> bool {
    regex.as_ref().is_some_and(|r| r.is_match(text))
}

static SSN: Lazy = LazyLock::new(|| Regex::new(r"^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$").ok());
static RGB_COLOR: Lazy = LazyLock::new(|| {
    const PART: &str = r"[\t\n\f\r ]*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*";
    Regex::new(&format!(r"^rgb\({PART},{PART},{PART}\)$")).ok()
});
static BASE64: Lazy = LazyLock::new(|| {
    Regex::new(r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$").ok()
});
static HOSTNAME: Lazy = LazyLock::new(|| {
    Regex::new(concat!(
        r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)",
        r"|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$"
    ))
    .ok()
});
static TIME_OF_DAY: Lazy =
    LazyLock::new(|| Regex::new(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$").ok());
static DURATION_PART: Lazy = LazyLock::new(|| Regex::new(r"([0-9]+)[\t\n\f\r ]*([A-Za-zµ]+)").ok());
static CREDIT_CARD: Lazy = LazyLock::new(|| {
    Regex::new(r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$").ok()
});

fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && text.split('.').all(|part| part.len() <= 63) && matches(&HOSTNAME, text)
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    let mut parts = text.split('-');
    let plain: String = text.replace('-', "");
    // Dashes may be left out, but stand nowhere else.
    let placed = {
        let mut at = 0;
        let mut fits = true;
        for part in parts.by_ref() {
            at += part.len();
            fits &= matches!(at, 8 | 12 | 16 | 20 | 32);
        }
        fits && !text.ends_with('-') && !text.contains("--")
    };
    if !placed || plain.len() != 32 || !plain.bytes().all(|b| b.is_ascii_hexdigit()) {
        return false;
    }
    let digits: Vec<char> = plain.to_ascii_lowercase().chars().collect();
    let variant = || matches!(digits.get(16), Some('8' | '9' | 'a' | 'b'));
    match version {
        None => true,
        Some('3') => digits.get(12) == Some(&'3'),
        Some(version) => digits.get(12) == Some(&version) && variant(),
    }
}

fn without_separators(text: &str) -> String {
    text.chars()
        .filter(|c| !matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0c' | '-'))
        .collect()
}

fn is_isbn10(text: &str) -> bool {
    let text = without_separators(text);
    let b = text.as_bytes();
    if b.len() != 10 || !b[..9].iter().all(u8::is_ascii_digit) || !(b[9].is_ascii_digit() || b[9] == b'X') {
        return false;
    }
    let digit = |b: u8| if b == b'X' { 10 } else { u32::from(b - b'0') };
    b.iter()
        .enumerate()
        .map(|(i, b)| (i as u32 + 1) * digit(*b))
        .sum::<u32>()
        % 11
        == 0
}

fn is_isbn13(text: &str) -> bool {
    let text = without_separators(text);
    let b = text.as_bytes();
    if b.len() != 13 || !b.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let sum: u32 = b[..12]
        .iter()
        .enumerate()
        .map(|(i, b)| u32::from(b - b'0') * if i % 2 == 0 { 1 } else { 3 })
        .sum();
    (10 - sum % 10) % 10 == u32::from(b[12] - b'0')
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    if !matches(&CREDIT_CARD, &digits) {
        return false;
    }
    let sum: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(i, b)| match (i % 2, u32::from(b - b'0')) {
            (0, d) => d,
            (_, d) if d * 2 >= 10 => d * 2 % 10 + 1,
            (_, d) => d * 2,
        })
        .sum();
    sum.is_multiple_of(10)
}

/// Six, eight or twenty bytes, in pairs of digits by `:` or `-`, or in fours by `.`.
fn is_mac(text: &str) -> bool {
    let hex = |s: &str, n: usize| s.len() == n && s.bytes().all(|b| b.is_ascii_hexdigit());
    let by = |separator: char, digits: usize, counts: [usize; 3]| {
        let parts: Vec<&str> = text.split(separator).collect();
        counts.contains(&parts.len()) && parts.iter().all(|p| hex(p, digits))
    };
    by(':', 2, [6, 8, 20]) || by('-', 2, [6, 8, 20]) || by('.', 4, [3, 4, 10])
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && parse_time(&format!("{text}T00:00:00Z")).is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    if text.len() < 4 || !is_date(date) {
        return false;
    }
    let Some(m) = TIME_OF_DAY.as_ref().and_then(|r| r.captures(time)) else {
        return false;
    };
    &m[1] <= "23" && &m[2] <= "59" && &m[3] <= "59"
}

/// Go's durations, or counts of units in words.
fn is_duration(text: &str) -> bool {
    if duration::parse(text).is_ok() {
        return true;
    }
    const UNITS: [&[&str]; 8] = [
        &["ns", "nano"],
        &["us", "µs", "micro"],
        &["ms", "milli"],
        &["s", "sec"],
        &["m", "min"],
        &["h", "hr", "hour"],
        &["d", "day"],
        &["w", "wk", "week"],
    ];
    let Some(regex) = DURATION_PART.as_ref() else {
        return false;
    };
    let mut found = false;
    for part in regex.captures_iter(text) {
        if part[1].parse::<i64>().is_err() {
            return false;
        }
        let unit = part[2].to_lowercase();
        found |= UNITS.iter().any(|variants| {
            variants.iter().any(|v| v.eq_ignore_ascii_case(&unit))
                || variants.last().is_some_and(|v| unit.starts_with(v))
        });
    }
    found
}

/// Go's `net/mail.ParseAddress`, for addresses without comments: `a@b` or `Name <a@b>`.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match text.strip_suffix('>').and_then(|t| t.rsplit_once('<')) {
        Some((name, address)) => {
            let name = name.trim();
            let quoted = name.len() >= 2 && name.starts_with('"') && name.ends_with('"');
            let words = name
                .split(' ')
                .all(|w| w.is_empty() || w.chars().all(|c| is_atom(c) || c == '.'));
            if !(name.is_empty() || quoted || words) {
                return false;
            }
            address.trim()
        }
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else {
        return false;
    };
    let dotted = |s: &str| !s.is_empty() && s.split('.').all(|a| !a.is_empty() && a.chars().all(is_atom));
    let quoted_local = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let literal = domain.strip_prefix('[').and_then(|d| d.strip_suffix(']'));
    let domain_fits = match literal {
        Some(ip) => ip
            .strip_prefix("IPv6:")
            .unwrap_or(ip)
            .parse::<std::net::IpAddr>()
            .is_ok(),
        None => dotted(domain),
    };
    (dotted(local) || quoted_local) && domain_fits
}

fn is_atom(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || !c.is_ascii()
}

/// Go's `url.ParseRequestURI`: absolute, or a path.
fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|b| b < 0x20 || b == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let scheme_end = text.find(':').filter(|end| {
        let scheme = &text[..*end];
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    });
    let rest = match scheme_end {
        Some(end) => &text[end + 1..],
        None if text.starts_with('/') => text,
        None => return false,
    };
    // Something follows the scheme that is no path: opaque.
    let (path, _query) = rest.split_once('?').unwrap_or((rest, ""));
    if scheme_end.is_some() && !path.starts_with('/') {
        return true;
    }
    let path = match (scheme_end, path.strip_prefix("//")) {
        (Some(_), Some(authority)) => {
            let (host, path) = authority.split_once('/').map_or((authority, ""), |(h, p)| (h, p));
            let host = host.rsplit_once('@').map_or(host, |(_, h)| h);
            if !is_host(host) {
                return false;
            }
            path
        }
        _ => path,
    };
    escapes_fit(path)
}

fn escapes_fit(text: &str) -> bool {
    let b = text.as_bytes();
    let hex = |i: usize| b.get(i).is_some_and(u8::is_ascii_hexdigit);
    b.iter()
        .enumerate()
        .all(|(i, c)| *c != b'%' || (hex(i + 1) && hex(i + 2)))
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((ip, port)) if ip.split('%').next().is_some_and(|ip| ip.contains(':')) => ("", port),
            _ => return false,
        },
        None => host.rfind(':').map_or((host, ""), |at| host.split_at(at)),
    };
    let port_fits = port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit()));
    let allowed = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:%<>\"".contains(c);
    port_fits && name.chars().all(allowed)
}
