//! `resource.Quantity`: fixed-point numbers with a unit, such as `100m`, `1.5Gi`, `1e3`.
//!
//! Contract: parsing, the three error texts, rounding up to nano, and the canonical form (including where Go keeps the
//! text as written) equal k8s.io/apimachinery/pkg/api/resource. Small numbers are an `i64` with a decimal exponent;
//! only what does not fit becomes a big integer. Exponents are never expanded into digits unless both sides of an
//! operation need it and the result stays small, so `1e999999999` costs nothing (in Go it can cost gigabytes).

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use num_bigint::{BigInt, BigUint, Sign};

/// How a quantity is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// `12e6`.
    DecimalExponent,
    /// `12Mi`.
    BinarySi,
    /// `12M`.
    #[default]
    DecimalSi,
}

/// Why a text is no quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The text as a whole is malformed.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The number before the suffix is malformed, or longer than any number needs to be.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// There is no such suffix.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// `value × 10^scale`.
#[derive(Clone, Debug)]
enum Amount {
    Small { value: i64, scale: i32 },
    Big { value: BigInt, scale: i32 },
}

/// A number and how to write it.
#[derive(Clone, Debug)]
pub struct Quantity {
    amount: Amount,
    format: Format,
    /// The text as written, where that already was canonical (or Go takes it for so).
    text: Option<Box<str>>,
}

const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The smallest step: 10⁻⁹.
const NANO: i32 = -9;
/// More digits than this are refused; expanding exponents stops here, too.
const MAX_DIGITS: usize = 4096;

/// Sign, number, digits before and after the point, suffix.
struct Parts<'a> {
    positive: bool,
    value: &'a str,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

fn digits_from(bytes: &[u8], start: usize) -> usize {
    start + bytes[start..].iter().take_while(|b| b.is_ascii_digit()).count()
}

fn split(text: &str) -> Result<Parts<'_>, ParseError> {
    let b = text.as_bytes();
    let end = b.len();
    let mut at = usize::from(matches!(b.first(), Some(b'+' | b'-')));
    let positive = b.first() != Some(&b'-');
    while at < end && b[at] == b'0' {
        at += 1;
    }
    if at >= end {
        return Ok(Parts {
            positive,
            value: "0",
            whole: "0",
            fraction: "",
            suffix: "",
        });
    }
    let digits = digits_from(b, at);
    let whole = if digits == at { "0" } else { &text[at..digits] };
    at = digits;
    let mut fraction = "";
    if at < end && b[at] == b'.' {
        let digits = digits_from(b, at + 1);
        fraction = &text[at + 1..digits];
        at = digits;
    }
    let suffix_start = at;
    while at < end && b"eEinumkKMGTP".contains(&b[at]) {
        at += 1;
    }
    if at < end && matches!(b[at], b'+' | b'-') {
        at += 1;
    }
    if digits_from(b, at) != end {
        return Err(ParseError::Format);
    }
    Ok(Parts {
        positive,
        value: &text[..suffix_start],
        whole,
        fraction,
        suffix: &text[suffix_start..],
    })
}

/// Base, exponent and format of a suffix.
fn interpret(suffix: &str) -> Option<(u8, i32, Format)> {
    let decimal = |e| Some((10, e, Format::DecimalSi));
    let binary = |e| Some((2, e, Format::BinarySi));
    match suffix {
        "" => decimal(0),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        s => {
            let exponent: i64 = s.strip_prefix(['e', 'E'])?.parse().ok()?;
            // Go narrows to 32 bits without looking.
            Some((10, exponent as i32, Format::DecimalExponent))
        }
    }
}

fn decimal_suffix(exponent: i32) -> Option<&'static str> {
    Some(match exponent {
        -9 => "n",
        -6 => "u",
        -3 => "m",
        0 => "",
        3 => "k",
        6 => "M",
        9 => "G",
        12 => "T",
        15 => "P",
        18 => "E",
        _ => return None,
    })
}

impl FromStr for Quantity {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Quantity, ParseError> {
        if text.is_empty() {
            return Err(ParseError::Format);
        }
        let parts = split(text)?;
        let (base, exponent, format) = interpret(parts.suffix).ok_or(ParseError::Suffix)?;
        if parts.whole.len() + parts.fraction.len() > MAX_DIGITS {
            return Err(ParseError::Numeric);
        }
        match small(text, &parts, exponent, format)? {
            Some(quantity) => Ok(quantity),
            None => big(&parts, base, exponent, format),
        }
    }
}

/// The fast path: what surely fits an `i64`. None if it may not.
fn small(text: &str, parts: &Parts, exponent: i32, format: Format) -> Result<Option<Quantity>, ParseError> {
    let (whole, fraction) = (parts.whole.len() as i32, parts.fraction.len() as i32);
    let mut scale = 0;
    let mut mantissa = 1i64;
    let precision = match format {
        Format::DecimalExponent | Format::DecimalSi => {
            scale = exponent;
            18 - (whole + fraction)
        }
        Format::BinarySi if fraction == 0 => {
            mantissa <<= exponent;
            15 - whole - (exponent * 3 / 10) - 1
        }
        Format::BinarySi => -1,
    };
    scale = scale.wrapping_sub(fraction);
    if precision < 0 || scale < NANO {
        return Ok(None);
    }
    let shifted = format!("{}{}", parts.whole, parts.fraction);
    let value: i64 = shifted.parse().map_err(|_| ParseError::Numeric)?;
    let Some(result) = value.checked_mul(mantissa) else {
        return Ok(None);
    };
    let as_written = match format {
        Format::BinarySi => exponent % 10 == 0 && value & 7 != 0,
        _ => scale % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0'),
    };
    let value = if parts.positive { result } else { -result };
    Ok(Some(Quantity {
        amount: Amount::Small { value, scale },
        format,
        text: as_written.then(|| text.into()),
    }))
}

fn big(parts: &Parts, base: u8, exponent: i32, mut format: Format) -> Result<Quantity, ParseError> {
    let digits: String = parts.value.chars().filter(char::is_ascii_digit).collect();
    let mut value = BigUint::from_str(&digits).map_err(|_| ParseError::Numeric)?;
    let mut scale = (parts.fraction.len() as i32).wrapping_neg();
    if base == 10 {
        scale = scale.wrapping_add(exponent);
    } else {
        value <<= exponent;
    }
    if value != BigUint::ZERO {
        (value, scale) = round_up(value, scale, NANO);
    }
    if format == Format::BinarySi {
        let max = BigUint::from(i64::MAX as u64);
        if compare(&value, scale, &max, 0) == Ordering::Greater {
            (value, scale) = (max, 0);
        }
        if value != BigUint::ZERO && compare(&value, scale, &BigUint::from(1u8), 0) == Ordering::Less {
            // Avoids rounding it away.
            format = Format::DecimalSi;
        }
    }
    let sign = if parts.positive { Sign::Plus } else { Sign::Minus };
    Ok(Quantity {
        amount: Amount::Big {
            value: BigInt::from_biguint(sign, value),
            scale,
        },
        format,
        text: None,
    })
}

fn power_of_ten(n: u32) -> BigUint {
    BigUint::from(10u8).pow(n)
}

/// Number of decimal digits, at least; exact enough to tell sizes apart.
fn digit_count(value: &BigUint) -> i64 {
    (value.bits() as f64 * std::f64::consts::LOG10_2) as i64 + 1
}

/// Brings `value × 10^scale` to at least `minimum`, rounding away from zero.
fn round_up(value: BigUint, scale: i32, minimum: i32) -> (BigUint, i32) {
    if scale >= minimum {
        return (value, scale);
    }
    let drop = i64::from(minimum) - i64::from(scale);
    if value == BigUint::ZERO {
        return (value, minimum);
    }
    if drop > digit_count(&value) + 1 {
        return (BigUint::from(1u8), minimum);
    }
    let divisor = power_of_ten(drop as u32);
    let (quotient, rest) = (&value / &divisor, &value % &divisor);
    let rounded = if rest == BigUint::ZERO {
        quotient
    } else {
        quotient + 1u8
    };
    (rounded, minimum)
}

fn compare(a: &BigUint, a_scale: i32, b: &BigUint, b_scale: i32) -> Ordering {
    match (*a == BigUint::ZERO, *b == BigUint::ZERO) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Less,
        (false, true) => return Ordering::Greater,
        _ => {}
    }
    let magnitude = |v: &BigUint, scale: i32| digit_count(v) + i64::from(scale);
    let (ma, mb) = (magnitude(a, a_scale), magnitude(b, b_scale));
    if (ma - mb).abs() > 2 {
        return ma.cmp(&mb);
    }
    // The magnitudes are close, so the scales differ by no more than the digits there are.
    match i64::from(a_scale) - i64::from(b_scale) {
        0 => a.cmp(b),
        up if up > 0 => (a * power_of_ten(up as u32)).cmp(b),
        down => a.cmp(&(b * power_of_ten(-down as u32))),
    }
}

/// Takes factors of ten out of `value`.
fn remove_tens(value: &BigUint) -> (BigUint, i32) {
    let digits = value.to_string();
    let stripped = digits.trim_end_matches('0');
    let times = (digits.len() - stripped.len()) as i32;
    (
        BigUint::from_str(stripped).unwrap_or_default(),
        if stripped.is_empty() { 0 } else { times },
    )
}

impl Quantity {
    /// An integer.
    pub fn new(value: i64, format: Format) -> Quantity {
        Quantity {
            amount: Amount::Small { value, scale: 0 },
            format,
            text: None,
        }
    }

    /// Thousandths.
    pub fn milli(value: i64, format: Format) -> Quantity {
        Quantity {
            amount: Amount::Small { value, scale: -3 },
            format,
            text: None,
        }
    }

    /// Zero, written `0`.
    pub fn zero() -> Quantity {
        Quantity::new(0, Format::DecimalSi)
    }

    /// How it is written.
    pub fn format(&self) -> Format {
        self.format
    }

    fn parts(&self) -> (Sign, BigUint, i32) {
        match &self.amount {
            Amount::Small { value, scale } => {
                let sign = match value.signum() {
                    1 => Sign::Plus,
                    -1 => Sign::Minus,
                    _ => Sign::NoSign,
                };
                (sign, BigUint::from(value.unsigned_abs()), *scale)
            }
            Amount::Big { value, scale } => (value.sign(), value.magnitude().clone(), *scale),
        }
    }

    /// -1, 0 or 1.
    pub fn sign(&self) -> i32 {
        match self.parts().0 {
            Sign::Minus => -1,
            Sign::NoSign => 0,
            Sign::Plus => 1,
        }
    }

    /// True for zero.
    pub fn is_zero(&self) -> bool {
        match &self.amount {
            Amount::Small { value, .. } => *value == 0,
            Amount::Big { value, .. } => value.sign() == Sign::NoSign,
        }
    }

    /// The integer this equals, if it was written small enough for Go's fast representation and has no fraction there.
    pub fn as_i64(&self) -> Option<i64> {
        match self.amount {
            Amount::Small { value, scale: 0 } => Some(value),
            Amount::Small { value, scale } if scale > 0 => 10i64
                .checked_pow(scale as u32)
                .and_then(|p| value.checked_mul(p))
                .or((value == 0).then_some(0)),
            _ => None,
        }
    }

    /// The value rounded up (away from zero) to an integer; the nearest `i64` if it does not fit.
    pub fn value(&self) -> i64 {
        self.scaled_value(0)
    }

    /// The value in thousandths, rounded up; the nearest `i64` if it does not fit.
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(-3)
    }

    /// `value ÷ 10^scale`, rounded up (away from zero); the nearest `i64` if it does not fit.
    pub fn scaled_value(&self, scale: i32) -> i64 {
        let (sign, magnitude, own) = self.parts();
        let limit = if sign == Sign::Minus { i64::MIN } else { i64::MAX };
        let (rounded, at) = round_up(magnitude, own, scale);
        let up = i64::from(at) - i64::from(scale);
        if rounded == BigUint::ZERO {
            return 0;
        }
        if up > 20 {
            return limit;
        }
        let Ok(size) = i64::try_from(rounded * power_of_ten(up as u32)) else {
            return limit;
        };
        if sign == Sign::Minus { -size } else { size }
    }

    /// The nearest float.
    pub fn as_f64(&self) -> f64 {
        let (sign, magnitude, scale) = self.parts();
        let size: f64 = format!("{magnitude}e{scale}").parse().unwrap_or(f64::INFINITY);
        if sign == Sign::Minus { -size } else { size }
    }

    /// Adds; a zero takes the other's format.
    pub fn add(&mut self, other: &Quantity) {
        self.combine(other, false);
    }

    /// Subtracts; a zero takes the other's format.
    pub fn sub(&mut self, other: &Quantity) {
        self.combine(other, true);
    }

    fn combine(&mut self, other: &Quantity, subtract: bool) {
        self.text = None;
        if self.is_zero() {
            self.format = other.format;
        }
        let signed = |q: &Quantity| {
            let (sign, magnitude, scale) = q.parts();
            (BigInt::from_biguint(sign, magnitude), scale)
        };
        let ((mut a, a_scale), (mut b, b_scale)) = (signed(self), signed(other));
        if subtract {
            b = -b;
        }
        if b.sign() == Sign::NoSign {
            return;
        }
        let scale = if a.sign() == Sign::NoSign {
            b_scale
        } else {
            a_scale.min(b_scale)
        };
        let raise = |v: BigInt, from: i32| -> BigInt {
            let by = i64::from(from) - i64::from(scale);
            // Beyond this nothing real is lost; the larger number stands for the sum.
            v * BigInt::from(power_of_ten(by.clamp(0, MAX_DIGITS as i64) as u32))
        };
        if a.sign() == Sign::NoSign {
            a = b;
        } else {
            a = raise(a, a_scale) + raise(b, b_scale);
        }
        self.amount = match i64::try_from(&a) {
            Ok(value) => Amount::Small { value, scale },
            Err(_) => Amount::Big { value: a, scale },
        };
    }

    /// Multiplies by an integer.
    pub fn multiply(&mut self, by: i64) {
        self.text = None;
        let (sign, magnitude, scale) = self.parts();
        let product = BigInt::from_biguint(sign, magnitude) * by;
        self.amount = match i64::try_from(&product) {
            Ok(value) => Amount::Small { value, scale },
            Err(_) => Amount::Big { value: product, scale },
        };
    }

    /// Changes the sign.
    pub fn negate(&mut self) {
        self.multiply(-1);
    }

    /// Rounds away from zero to a multiple of `10^scale`; false if that lost something.
    pub fn round_up(&mut self, scale: i32) -> bool {
        let (sign, magnitude, own) = self.parts();
        if own >= scale {
            return true;
        }
        self.text = None;
        let (rounded, at) = round_up(magnitude.clone(), own, scale);
        let exact = compare(&rounded, at, &magnitude, own) == Ordering::Equal;
        let value = BigInt::from_biguint(sign, rounded);
        self.amount = match i64::try_from(&value) {
            Ok(value) => Amount::Small { value, scale: at },
            Err(_) => Amount::Big { value, scale: at },
        };
        exact
    }

    /// The canonical form of what needs no big numbers; none if it might.
    fn canonical_small(&self) -> Option<String> {
        let Amount::Small { value, scale } = self.amount else {
            return None;
        };
        let (minus, mut amount) = (if value < 0 { "-" } else { "" }, value.unsigned_abs());
        if amount == 0 {
            return Some("0".to_owned());
        }
        if self.format == Format::BinarySi && scale == 0 && amount >= 1024 {
            let mut exponent = 0;
            while amount >= 1024 && amount % 1024 == 0 {
                amount /= 1024;
                exponent += 1;
            }
            return Some(format!("{minus}{amount}{}", BINARY_SUFFIXES.get(exponent)?));
        }
        if self.format == Format::BinarySi && scale != 0 {
            return None;
        }
        let mut exponent = i64::from(scale);
        while amount % 10 == 0 {
            amount /= 10;
            exponent += 1;
        }
        while exponent % 3 != 0 {
            amount = amount.checked_mul(10)?;
            exponent -= 1;
        }
        Some(written(minus, amount, exponent, self.format))
    }

    fn canonical(&self) -> String {
        if let Some(text) = self.canonical_small() {
            return text;
        }
        let (sign, magnitude, scale) = self.parts();
        if magnitude == BigUint::ZERO {
            return "0".to_owned();
        }
        let minus = if sign == Sign::Minus { "-" } else { "" };
        let mut format = self.format;
        if format == Format::BinarySi {
            let thousand = BigUint::from(1024u32);
            let small = compare(&magnitude, scale, &thousand, 0) == Ordering::Less;
            let (rounded, at) = round_up(magnitude.clone(), scale, 0);
            let exact = compare(&rounded, at, &magnitude, scale) == Ordering::Equal;
            if small || !exact || i64::from(at) + digit_count(&rounded) > MAX_DIGITS as i64 {
                format = Format::DecimalSi;
            } else {
                let mut amount = rounded * power_of_ten(at as u32);
                let mut exponent = 0;
                while amount >= thousand && &amount % &thousand == BigUint::ZERO {
                    amount /= &thousand;
                    exponent += 1;
                }
                let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
                    .get(exponent)
                    .copied()
                    .unwrap_or("");
                return format!("{minus}{amount}{suffix}");
            }
        }
        let (mut amount, times) = remove_tens(&magnitude);
        let mut exponent = i64::from(scale) + i64::from(times);
        while exponent % 3 != 0 {
            amount *= 10u8;
            exponent -= 1;
        }
        written(minus, amount, exponent, format)
    }
}

/// A number and its exponent, a multiple of three, in a decimal format.
fn written(minus: &str, amount: impl fmt::Display, exponent: i64, format: Format) -> String {
    match format {
        Format::DecimalExponent if exponent == 0 => format!("{minus}{amount}"),
        Format::DecimalExponent => format!("{minus}{amount}e{exponent}"),
        // Beyond the known suffixes Go writes none at all.
        _ => format!("{minus}{amount}{}", decimal_suffix(exponent as i32).unwrap_or("")),
    }
}

impl fmt::Display for Quantity {
    /// The canonical form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.write_str(text),
            None => f.write_str(&self.canonical()),
        }
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Quantity) -> Ordering {
        if let (Amount::Small { value: a, scale: s }, Amount::Small { value: b, scale: t }) =
            (&self.amount, &other.amount)
            && s == t
        {
            return a.cmp(b);
        }
        let ((a_sign, a, a_scale), (b_sign, b, b_scale)) = (self.parts(), other.parts());
        match a_sign.cmp(&b_sign) {
            Ordering::Equal if a_sign == Sign::Minus => compare(&b, b_scale, &a, a_scale),
            Ordering::Equal => compare(&a, a_scale, &b, b_scale),
            different => different,
        }
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Quantity) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    /// By value, however written.
    fn eq(&self, other: &Quantity) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

#[cfg(test)]
mod tests;
