//! Texts: positions and parts by code point, case, splitting, joining, replacing.

use super::standard::texts;
use super::{MAX_RESULT, format, too_long};
use crate::error::EvalError;
use crate::value::{Found, List, Value};

/// Calls a function if it is one of these.
pub fn call<'a>(function: &str, args: &[Value<'a>]) -> Option<Found<'a>> {
    if let ("join", [Value::List(list), rest @ ..]) = (function, args) {
        return match rest {
            [] => Some(join(list, "")),
            [Value::String(separator)] => Some(join(list, separator)),
            _ => None,
        };
    }
    if let ("strings.quote", [Value::String(text)]) = (function, args) {
        return Some(Ok(Value::string(quote(text))));
    }
    if let ("jsonpatch.escapeKey", [Value::String(text)]) = (function, args) {
        return Some(Ok(Value::string(text.replace('~', "~0").replace('/', "~1"))));
    }
    let (Value::String(text), rest) = args.split_first()? else {
        return None;
    };
    let text: &str = text;
    Some(match (function, rest) {
        ("charAt", [Value::Int(i)]) => char_at(text, *i),
        ("indexOf", [Value::String(part)]) => index_of(text, part, 0),
        ("indexOf", [Value::String(part), Value::Int(offset)]) => index_of(text, part, *offset),
        ("lastIndexOf", [Value::String(part)]) => {
            let length = text.chars().count() as i64;
            match part.is_empty() {
                true => Ok(Value::Int(length)),
                false if text.len() < part.len() => Ok(Value::Int(-1)),
                false => last_index_of(text, part, length - 1),
            }
        }
        ("lastIndexOf", [Value::String(part), Value::Int(offset)]) => last_index_of(text, part, *offset),
        ("lowerAscii", []) => Ok(Value::string(text.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Value::string(text.to_ascii_uppercase())),
        ("trim", []) => Ok(Value::string(text.trim_matches(is_space))),
        ("replace", [Value::String(old), Value::String(new)]) => replace(text, old, new, -1),
        ("replace", [Value::String(old), Value::String(new), Value::Int(n)]) => replace(text, old, new, *n),
        ("split", [Value::String(separator)]) => split(text, separator, -1),
        ("split", [Value::String(separator), Value::Int(n)]) => split(text, separator, *n),
        ("substring", [Value::Int(start)]) => {
            let length = text.chars().count() as i64;
            match (0..=length).contains(start) {
                true => Ok(Value::string(part(text, *start, length))),
                false => Err(out_of_range(*start)),
            }
        }
        ("substring", [Value::Int(start), Value::Int(end)]) => substring(text, *start, *end),
        ("format", [Value::List(args)]) => format::format(text, args).map(Value::string),
        _ => return None,
    })
}

/// White space as Go's `strings.TrimSpace` knows it.
fn is_space(c: char) -> bool {
    c.is_whitespace()
}

fn out_of_range(index: i64) -> EvalError {
    EvalError::new(format!("index out of range: {index}"))
}

fn char_at<'a>(text: &str, index: i64) -> Found<'a> {
    let Ok(at) = usize::try_from(index) else {
        return Err(out_of_range(index));
    };
    match text.chars().nth(at) {
        Some(c) => Ok(Value::string(c.to_string())),
        None if text.chars().count() == at => Ok(Value::string("")),
        None => Err(out_of_range(index)),
    }
}

/// The part between two positions in code points.
fn part(text: &str, start: i64, end: i64) -> String {
    text.chars().skip(start as usize).take((end - start) as usize).collect()
}

fn substring<'a>(text: &str, start: i64, end: i64) -> Found<'a> {
    if start > end {
        return Err(EvalError::new(format!(
            "invalid substring range. start: {start}, end: {end}"
        )));
    }
    let range = 0..=text.chars().count() as i64;
    for index in [start, end] {
        if !range.contains(&index) {
            return Err(out_of_range(index));
        }
    }
    Ok(Value::string(part(text, start, end)))
}

/// Where a code point begins, in bytes.
fn byte_of(text: &str, index: usize) -> Option<usize> {
    text.char_indices().nth(index).map(|(at, _)| at)
}

fn index_of<'a>(text: &str, part: &str, offset: i64) -> Found<'a> {
    if part.is_empty() {
        return Ok(Value::Int(offset));
    }
    let Ok(from) = usize::try_from(offset) else {
        return Err(out_of_range(offset));
    };
    let found = byte_of(text, from).and_then(|start| text[start..].find(part).map(|at| start + at));
    Ok(Value::Int(found.map_or(-1, |at| text[..at].chars().count() as i64)))
}

fn last_index_of<'a>(text: &str, part: &str, offset: i64) -> Found<'a> {
    if part.is_empty() {
        return Ok(Value::Int(offset));
    }
    let Ok(last) = usize::try_from(offset) else {
        return Err(out_of_range(offset));
    };
    // The last place at which it may begin.
    let Some(start) = byte_of(text, last) else {
        return Ok(Value::Int(-1));
    };
    // What begins there or before ends no later than this.
    let end = text.floor_char_boundary(start + part.len());
    let found = text[..end].rfind(part);
    Ok(Value::Int(found.map_or(-1, |at| text[..at].chars().count() as i64)))
}

fn replace<'a>(text: &str, old: &str, new: &str, limit: i64) -> Found<'a> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let count = match old.is_empty() {
        true => text.chars().count() + 1,
        false => text.matches(old).count(),
    };
    let growth = count.min(limit).saturating_mul(new.len());
    if growth.saturating_add(text.len()) > MAX_RESULT {
        return Err(too_long());
    }
    Ok(Value::string(text.replacen(old, new, limit)))
}

fn split<'a>(text: &str, separator: &str, limit: i64) -> Found<'a> {
    if limit == 0 {
        return Ok(Value::list(Vec::new()));
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if !separator.is_empty() {
        return Ok(texts(text.splitn(limit, separator).map(str::to_owned)));
    }
    // By code point, the last part whatever is left.
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if parts.len() + 1 >= limit {
            break;
        }
        parts.push(c.to_string());
        rest = &rest[c.len_utf8()..];
    }
    if !rest.is_empty() {
        parts.push(rest.to_owned());
    }
    Ok(texts(parts))
}

fn join<'a>(list: &List<'a>, separator: &str) -> Found<'a> {
    let mut out = String::new();
    for (i, item) in list.iter().enumerate() {
        if i > 0 {
            out.push_str(separator);
        }
        match item? {
            Value::String(text) => out.push_str(&text),
            other => return Err(EvalError::new(format!("join: invalid input: {other}"))),
        }
        if out.len() > MAX_RESULT {
            return Err(too_long());
        }
    }
    Ok(Value::string(out))
}

/// cel-go's `strings.quote`, which unlike Go's own leaves alone what has no escape of a letter.
fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
