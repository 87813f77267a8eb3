//! `format`: a text whose clauses, `%s` and its kin, are replaced by values.
//!
//! Contract: cel-go's first version of it, with numbers written as its English locale writes them. A literal text with a literal list is
//! also checked before evaluation, by the types of the items.

use triptych_object::duration::quote;

use super::standard::text_of;
use super::{MAX_RESULT, too_long};
use crate::error::EvalError;
use crate::types::Type;
use crate::value::{List, Value};

/// Digits after the point that anybody needs; Go allows as many.
const MAX_PRECISION: usize = 1000;
const DEFAULT_PRECISION: usize = 6;
/// Levels of lists in lists.
const MAX_DEPTH: usize = 250;

#[derive(Clone, Copy)]
enum Clause {
    Text,
    Decimal,
    Fixed(usize),
    Scientific(usize),
    Binary,
    Hex(bool),
    Octal,
}

/// A piece of a format.
enum Piece<'t> {
    Text(&'t str),
    Clause(Result<Clause, String>),
    /// The text ends with a percent sign.
    Cut,
}

/// Takes the next piece off a format.
fn piece(format: &str) -> Option<(Piece<'_>, &str)> {
    let percent = format.find('%');
    match percent {
        None if format.is_empty() => None,
        None => Some((Piece::Text(format), "")),
        Some(0) => {
            let rest = &format[1..];
            if let Some(after) = rest.strip_prefix('%') {
                return Some((Piece::Text("%"), after));
            }
            if rest.is_empty() {
                return Some((Piece::Cut, ""));
            }
            let (clause, rest) = clause(rest);
            Some((Piece::Clause(clause), rest))
        }
        Some(at) => Some((Piece::Text(&format[..at]), &format[at..])),
    }
}

fn clause(text: &str) -> (Result<Clause, String>, &str) {
    let refuse = |why: String| (Err(format!("could not parse formatting clause: {why}")), "");
    let (precision, rest) = match text.strip_prefix('.') {
        None => (None, text),
        Some(rest) => {
            let length = rest.bytes().take_while(u8::is_ascii_digit).count();
            if length == rest.len() {
                return refuse("error while parsing precision: could not find end of precision specifier".to_owned());
            }
            match rest[..length].parse::<usize>() {
                Ok(n) => (Some(n.min(MAX_PRECISION)), &rest[length..]),
                Err(_) => {
                    return refuse(format!(
                        "error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing {}: invalid syntax",
                        quote(&rest[..length])
                    ));
                }
            }
        }
    };
    let c = rest.chars().next().unwrap_or('\0');
    let digits = precision.unwrap_or(DEFAULT_PRECISION);
    let clause = match c {
        's' => Clause::Text,
        'd' => Clause::Decimal,
        'f' => Clause::Fixed(digits),
        'e' => Clause::Scientific(digits),
        'b' => Clause::Binary,
        'x' => Clause::Hex(false),
        'X' => Clause::Hex(true),
        'o' => Clause::Octal,
        other => return refuse(format!("unrecognized formatting clause \"{other}\"")),
    };
    (Ok(clause), &rest[1..])
}

/// Replaces the clauses of a text by the items of a list.
pub fn format(text: &str, args: &List<'_>) -> Result<String, EvalError> {
    let mut out = String::new();
    let (mut rest, mut next) = (text, 0);
    while let Some((piece, after)) = piece(rest) {
        rest = after;
        if let Piece::Text(text) = piece {
            out.push_str(text);
            continue;
        }
        let Some(value) = args.get(next) else {
            return Err(EvalError::new(format!("index {next} out of range")));
        };
        let Piece::Clause(clause) = piece else {
            return Err(EvalError::new("unexpected end of string"));
        };
        let value = value?;
        let written = write(clause.map_err(EvalError::new)?, &value);
        out.push_str(&written.map_err(|e| EvalError::new(format!("error during formatting: {e}")))?);
        next += 1;
        if out.len() > MAX_RESULT {
            return Err(too_long());
        }
    }
    Ok(out)
}

/// What is said of a value whose type a clause does not take.
fn refusal(clause: Clause, ty: &str) -> String {
    let what = match clause {
        Clause::Text => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
        }
        Clause::Decimal => "decimal clause can only be used on integers",
        Clause::Fixed(_) => "fixed-point clause can only be used on doubles",
        Clause::Scientific(_) => "scientific clause can only be used on doubles",
        Clause::Binary => "only integers and bools can be formatted as binary",
        Clause::Hex(_) => "only integers, byte buffers, and strings can be formatted as hex",
        Clause::Octal => "octal clause can only be used on integers",
    };
    format!("{what}, was given {ty}")
}

fn write(clause: Clause, value: &Value<'_>) -> Result<String, String> {
    let number = match value {
        Value::Double(d) => Some(*d),
        Value::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    };
    let hex = |bytes: &[u8], upper: bool| -> String {
        bytes
            .iter()
            .map(|b| if upper { format!("{b:02X}") } else { format!("{b:02x}") })
            .collect()
    };
    Ok(match (clause, value) {
        (Clause::Text, value) => plain(value, 0)?,
        (Clause::Decimal, Value::Int(i)) => i.to_string(),
        (Clause::Decimal, Value::Uint(u)) => u.to_string(),
        (Clause::Fixed(digits), _) if number.is_some() => fixed(number.unwrap_or_default(), digits),
        (Clause::Scientific(digits), _) if number.is_some() => scientific(number.unwrap_or_default(), digits),
        (Clause::Binary, Value::Int(i)) => signed(*i, |n| format!("{n:b}")),
        (Clause::Binary, Value::Uint(u)) => format!("{u:b}"),
        (Clause::Binary, Value::Bool(b)) => u8::from(*b).to_string(),
        (Clause::Hex(upper), Value::String(text)) => hex(text.as_bytes(), upper),
        (Clause::Hex(upper), Value::Bytes(bytes)) => hex(bytes, upper),
        (Clause::Hex(true), Value::Int(i)) => signed(*i, |n| format!("{n:X}")),
        (Clause::Hex(false), Value::Int(i)) => signed(*i, |n| format!("{n:x}")),
        (Clause::Hex(true), Value::Uint(u)) => format!("{u:X}"),
        (Clause::Hex(false), Value::Uint(u)) => format!("{u:x}"),
        (Clause::Octal, Value::Int(i)) => signed(*i, |n| format!("{n:o}")),
        (Clause::Octal, Value::Uint(u)) => format!("{u:o}"),
        (clause, value) => return Err(refusal(clause, &value.type_name())),
    })
}

fn signed(number: i64, digits: impl Fn(u64) -> String) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", digits(number.unsigned_abs()))
}

fn infinite(number: f64) -> Option<&'static str> {
    if number.is_nan() {
        return Some("NaN");
    }
    match number.is_infinite() {
        true if number > 0.0 => Some("∞"),
        true => Some("-∞"),
        false => None,
    }
}

/// With thousands apart, as in English.
fn fixed(number: f64, digits: usize) -> String {
    if let Some(text) = infinite(number) {
        return text.to_owned();
    }
    let text = format!("{number:.digits$}");
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.as_str()),
    };
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, format!(".{fraction}")),
        None => (text, String::new()),
    };
    let mut out = String::from(sign);
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(c);
    }
    out + &fraction
}

/// With the exponent raised, as in print.
fn scientific(number: f64, digits: usize) -> String {
    if let Some(text) = infinite(number) {
        return text.to_owned();
    }
    let text = format!("{number:.digits$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(rest) => ("⁻", rest),
        None => ("", exponent),
    };
    const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let raised: String = format!("{exponent:0>2}")
        .chars()
        .filter_map(|c| RAISED.get(c.to_digit(10)? as usize))
        .collect();
    format!("{mantissa}×10{sign}{raised}")
}

fn plain(value: &Value<'_>, depth: usize) -> Result<String, String> {
    match value {
        Value::Null => Ok("null".to_owned()),
        Value::Type(ty) => Ok(ty.name().to_owned()),
        Value::List(_) | Value::Map(_) => literal(value, depth),
        other => match text_of(other) {
            Some(text) => text.map_err(|e| format!("could not convert argument {} to string", quote(&e.to_string()))),
            None => Err(refusal(Clause::Text, &other.type_name())),
        },
    }
}

/// A value inside a list or map, as CEL writes it.
fn literal(value: &Value<'_>, depth: usize) -> Result<String, String> {
    if depth > MAX_DEPTH {
        return Err("value is nested too deeply".to_owned());
    }
    Ok(match value {
        Value::String(text) => quote(text),
        Value::Bytes(_) => format!("b{}", quote(&plain(value, depth)?)),
        // Always a literal: nothing of the language's way to write numbers.
        Value::Double(d) if d.is_nan() => quote("NaN"),
        Value::Double(d) if d.is_infinite() => quote(if *d > 0.0 { "+Inf" } else { "-Inf" }),
        Value::Double(d) => format!("{d:.DEFAULT_PRECISION$}"),
        Value::Timestamp(point) => format!("timestamp({})", quote(&point.to_string())),
        Value::Duration(span) => format!("duration({})", quote(&span.seconds_text())),
        Value::List(list) => {
            let mut items = Vec::with_capacity(list.len());
            for item in list.iter() {
                items.push(literal(&item.map_err(|e| e.to_string())?, depth + 1)?);
            }
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let mut members = Vec::with_capacity(map.len());
            for key in map.key_values() {
                if !matches!(key, Value::String(_) | Value::Bool(_) | Value::Int(_) | Value::Uint(_)) {
                    return Err(format!(
                        "no formatting function for map key of type {}",
                        key.type_name()
                    ));
                }
                let value = map.find(&key).map_err(|e| e.to_string())?;
                let value = value.ok_or_else(|| format!("could not find key: {}", quote(&key.to_string())))?;
                members.push((literal(&key, depth + 1)?, literal(&value, depth + 1)?));
            }
            members.sort_by(|a, b| a.0.cmp(&b.0));
            let members: Vec<String> = members.into_iter().map(|(k, v)| format!("{k}:{v}")).collect();
            format!("{{{}}}", members.join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Type(_) => plain(value, depth)?,
        other => return Err(format!("no formatting function for {}", other.type_name())),
    })
}

/// What is wrong with a literal format for items of these types; with the item's number if it is about one.
pub fn check_literal(text: &str, types: &[&Type]) -> Option<(Option<usize>, String)> {
    let (mut rest, mut next) = (text, 0);
    while let Some((piece, after)) = piece(rest) {
        rest = after;
        if let Piece::Text(_) = piece {
            continue;
        }
        let Piece::Clause(clause) = piece else {
            return Some((None, "unexpected end of string".to_owned()));
        };
        if next >= types.len() {
            return Some((None, format!("index {next} out of range")));
        }
        let clause = match clause {
            Ok(clause) => clause,
            Err(message) => return Some((None, message)),
        };
        let ty = types[next];
        if !takes(clause, ty) {
            let message = refusal(clause, ty.name());
            return Some((Some(next), format!("error during formatting: {message}")));
        }
        next += 1;
    }
    let given = types.len();
    (given > next).then(|| {
        let message = format!("too many arguments supplied to string.format (expected {next}, got {given})");
        (None, message)
    })
}

fn takes(clause: Clause, ty: &Type) -> bool {
    if *ty == Type::Dyn {
        return true;
    }
    match clause {
        Clause::Text => matches!(
            ty,
            Type::List(_)
                | Type::Map(_)
                | Type::Int
                | Type::Uint
                | Type::Double
                | Type::Bool
                | Type::String
                | Type::Timestamp
                | Type::Bytes
                | Type::Duration
                | Type::Type(_)
                | Type::Null
        ),
        Clause::Decimal | Clause::Octal => matches!(ty, Type::Int | Type::Uint),
        Clause::Fixed(_) | Clause::Scientific(_) => matches!(ty, Type::Double | Type::String),
        Clause::Binary => matches!(ty, Type::Int | Type::Uint | Type::Bool),
        Clause::Hex(_) => matches!(ty, Type::Int | Type::Uint | Type::String | Type::Bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formatted(text: &str, args: Vec<Value<'_>>) -> Result<String, String> {
        format(text, &List::new(args)).map_err(|e| e.to_string())
    }

    #[test]
    fn clauses_are_replaced() {
        let case = |text: &str, arg: Value<'_>, out: &str| {
            assert_eq!(formatted(text, vec![arg]).as_deref(), Ok(out));
        };
        case("%s%%", Value::string("a"), "a%");
        case("%.2f", Value::Double(1234.567), "1,234.57");
        case("%e", Value::Double(1052.032911275), "1.052033×10⁰³");
        case("%x", Value::Int(-255), "-ff");
        case("%X", Value::string("ab"), "6162");
        case("%b", Value::Bool(true), "1");
        case(
            "%s",
            Value::list(vec![Value::string("a"), Value::Double(1.5)]),
            "[\"a\", 1.500000]",
        );
    }

    #[test]
    fn what_cannot_be_formatted_is_refused() {
        assert_eq!(
            formatted("%d", vec![Value::string("a")]).unwrap_err(),
            "error during formatting: decimal clause can only be used on integers, was given string"
        );
        assert_eq!(formatted("%s", vec![]).unwrap_err(), "index 0 out of range");
        assert_eq!(
            formatted("%q", vec![Value::Null]).unwrap_err(),
            "could not parse formatting clause: unrecognized formatting clause \"q\""
        );
    }
}
