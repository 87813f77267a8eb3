//! What a plain scalar means: go-yaml v2's reading of YAML 1.1.
//!
//! Contract: equal to `resolve.go` of go-yaml v2, numbers in other bases and explicit tags included. Timestamps are
//! recognised (they must be quoted when written) but stay text.

/// A scalar's meaning.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Resolved {
    Null,
    Bool(bool),
    Int(i64),
    /// Only what does not fit an `i64`.
    Uint(u64),
    Float(f64),
    Timestamp,
    Merge,
    /// `!!binary`: base64 text.
    Binary,
    Text,
}

pub(super) const TAG_PREFIX: &str = "tag:yaml.org,2002:";

impl Resolved {
    fn tag(&self) -> &'static str {
        match self {
            Resolved::Null => "null",
            Resolved::Bool(_) => "bool",
            Resolved::Int(_) | Resolved::Uint(_) => "int",
            Resolved::Float(_) => "float",
            Resolved::Timestamp => "timestamp",
            Resolved::Merge => "merge",
            Resolved::Binary => "binary",
            Resolved::Text => "str",
        }
    }
}

/// The meaning of a scalar with that tag (long form, empty for none), or why it has none.
pub(super) fn resolve(tag: &str, text: &str) -> Result<Resolved, String> {
    let wanted = match tag.strip_prefix(TAG_PREFIX) {
        None if tag.is_empty() => return Ok(untagged(text, true)),
        Some("str") => return Ok(Resolved::Text),
        Some("binary") => return Ok(Resolved::Binary),
        Some(short @ ("bool" | "int" | "float" | "null" | "timestamp")) => short,
        // A tag that means nothing here: the text as it is.
        _ => return Ok(Resolved::Text),
    };
    let resolved = untagged(text, wanted == "timestamp");
    match (wanted, resolved) {
        ("float", Resolved::Int(i)) => Ok(Resolved::Float(i as f64)),
        (wanted, resolved) if resolved.tag() == wanted => Ok(resolved),
        (wanted, resolved) => Err(format!("cannot decode !!{} `{text}` as a !!{wanted}", resolved.tag())),
    }
}

/// The meaning of a plain scalar without a tag.
pub(super) fn untagged(text: &str, timestamps: bool) -> Resolved {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Resolved::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Resolved::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Resolved::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Resolved::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Resolved::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Resolved::Float(f64::NEG_INFINITY),
        _ => {}
    }
    match text.as_bytes()[0] {
        b'.' => float(text).map_or(Resolved::Text, Resolved::Float),
        b'+' | b'-' | b'0'..=b'9' => {
            if timestamps && is_timestamp(text) {
                return Resolved::Timestamp;
            }
            let plain = text.replace('_', "");
            if let Some(i) = integer(&plain) {
                return i;
            }
            if is_yaml_float(&plain)
                && let Some(f) = float(&plain)
            {
                return Resolved::Float(f);
            }
            Resolved::Text
        }
        b'<' if text == "<<" => Resolved::Merge,
        _ => Resolved::Text,
    }
}

/// Go's `ParseFloat`, as far as texts that begin with a digit, a sign or a point can reach it.
fn float(text: &str) -> Option<f64> {
    let plain = |b: u8| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-');
    text.bytes()
        .all(plain)
        .then(|| text.parse().ok())
        .flatten()
        .filter(|f: &f64| f.is_finite())
}

/// `^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`
fn is_yaml_float(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((m, e)) => (m, Some(e)),
        None => (text, None),
    };
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let mantissa_fits = match mantissa.split_once('.') {
        Some(("", fraction)) => !fraction.is_empty() && digits(fraction),
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => !mantissa.is_empty() && digits(mantissa),
    };
    let exponent_fits = exponent.is_none_or(|e| {
        let e = e.strip_prefix(['-', '+']).unwrap_or(e);
        !e.is_empty() && digits(e)
    });
    mantissa_fits && exponent_fits
}

/// Go's `ParseInt(text, 0, 64)`, then `ParseUint`: prefixes `0x`, `0o`, `0b`, and a leading 0 for octal.
fn integer(text: &str) -> Option<Resolved> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("+", &text[1..]),
        _ => ("", text),
    };
    let lower = rest.get(..2).map(str::to_ascii_lowercase);
    let (radix, digits) = match lower.as_deref() {
        Some("0x") => (16, &rest[2..]),
        Some("0o") => (8, &rest[2..]),
        Some("0b") => (2, &rest[2..]),
        Some(_) if rest.starts_with('0') => (8, &rest[1..]),
        _ => (10, rest),
    };
    if digits.is_empty() || !digits.bytes().all(|b| char::from(b).is_digit(radix)) {
        return None;
    }
    let size = u128::from_str_radix(digits, radix).ok()?;
    let signed = if sign == "-" {
        -i128::try_from(size).ok()?
    } else {
        i128::try_from(size).ok()?
    };
    match i64::try_from(signed) {
        Ok(i) => Some(Resolved::Int(i)),
        Err(_) if sign.is_empty() => u64::try_from(size).ok().map(Resolved::Uint),
        Err(_) => None,
    }
}

/// Whether Go's time package reads the text by one of go-yaml's four layouts (a date; a date and time).
pub(super) fn is_timestamp(text: &str) -> bool {
    let b = text.as_bytes();
    if b.len() < 8 || b[..4].iter().any(|b| !b.is_ascii_digit()) || b[4] != b'-' {
        return false;
    }
    let year: u32 = text[..4].parse().unwrap_or(0);
    let mut rest = &b[5..];
    let Some(month) = number(&mut rest).filter(|m| (1..=12).contains(m)) else {
        return false;
    };
    if !eat(&mut rest, b"-") {
        return false;
    }
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if number(&mut rest).is_none_or(|d| d == 0 || d > days) {
        return false;
    }
    if rest.is_empty() {
        return true;
    }
    let zoned = rest[0] != b' ';
    if !eat(&mut rest, b"Tt ") || !clock(&mut rest) {
        return false;
    }
    match rest {
        [] => !zoned,
        b"Z" => zoned,
        [b'+' | b'-', h1, h2, b':', m1, m2] => zoned && [h1, h2, m1, m2].iter().all(|d| d.is_ascii_digit()),
        _ => false,
    }
}

fn clock(rest: &mut &[u8]) -> bool {
    for (limit, separator) in [(24, &b":"[..]), (60, b":"), (60, b"")] {
        if number(rest).is_none_or(|n| n >= limit) || !(separator.is_empty() || eat(rest, separator)) {
            return false;
        }
    }
    if let [b'.' | b',', b'0'..=b'9', ..] = rest {
        *rest = &rest[1..];
        while let [b'0'..=b'9', tail @ ..] = rest {
            *rest = tail;
        }
    }
    true
}

/// One or two digits.
fn number(rest: &mut &[u8]) -> Option<u32> {
    let digits = rest.iter().take(2).take_while(|b| b.is_ascii_digit()).count();
    let (own, tail) = rest.split_at(digits);
    *rest = tail;
    (digits > 0).then(|| own.iter().fold(0, |n, d| n * 10 + u32::from(d - b'0')))
}

fn eat(rest: &mut &[u8], any_of: &[u8]) -> bool {
    match rest {
        [b, tail @ ..] if any_of.contains(b) => {
            *rest = tail;
            true
        }
        _ => false,
    }
}
