//! JSON in and out, with Go's words.
//!
//! Contract: [`parse`] accepts what `sigs.k8s.io/json` accepts and words its syntax errors the same; keys are case
//! sensitive, the last of two equal keys wins ([`parse_typed`] merges maps) and is reported with its path. Depth and
//! therefore stack are bounded; the caller bounds the bytes. The writer escapes as Go's encoder does (`<`, `>`, `&`, U+2028, U+2029 too).
//!
//! A serde_json front was rejected: its error texts are part of no contract, clients of kube-apiserver see Go's.

use crate::field::quote;
use crate::value::{Object, Value};

mod skip;

/// Nesting deeper than this is refused, or left out by [`parse_typed`] (Go allows 10,000; no stack here is that deep).
pub const MAX_DEPTH: usize = 1000;

/// What is nested deeper than this Go refuses as well.
pub const GO_MAX_DEPTH: usize = 10_000;

/// No more duplicate keys than this are reported.
pub const MAX_DUPLICATES: usize = 100;

/// The text of no more numbers than this is remembered.
pub const MAX_NUMBERS: usize = 100;

/// Why a text is no JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// Go's text.
    pub message: String,
    /// Bytes read before the error.
    pub offset: usize,
}

/// A document and the keys that stood twice in one map.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The document.
    pub value: Value,
    /// At most [`MAX_DUPLICATES`].
    pub duplicates: Vec<Duplicate>,
    /// Numbers whose value does not say how they were written, at most [`MAX_NUMBERS`].
    pub numbers: Vec<OddNumber>,
    /// What was nested deeper than [`MAX_DEPTH`] was left out: `null` stands for it.
    pub cut: bool,
}

/// A number that [`to_string`] would write differently: `1.0`, `1e2`, `9223372036854775808`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OddNumber {
    /// Such as `spec.replicas`.
    pub path: String,
    /// As it was written.
    pub text: String,
}

/// A key that stood more than once in its map; the last one won, in the place of the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// Such as `spec.containers[0].name`.
    pub path: String,
    /// Where the path of its map ends.
    parent: usize,
    /// How many different keys of its map had been read when it stood for the second time.
    pub before: usize,
}

impl Duplicate {
    /// The path of its map, empty for the document itself.
    pub fn parent(&self) -> &str {
        &self.path[..self.parent]
    }

    /// The key itself.
    pub fn key(&self) -> &str {
        let key = &self.path[self.parent..];
        if self.parent == 0 {
            key
        } else {
            key.strip_prefix('.').unwrap_or(key)
        }
    }
}

/// Reads one document and nothing after it.
pub fn parse(bytes: &[u8]) -> Result<Parsed, SyntaxError> {
    read(bytes, false)
}

/// The same for a document that will be decoded into structs: of two maps under one key both count, and what is nested
/// too deep is left out, since no struct is that deep. Whoever keeps free-form parts must look at [`Parsed::cut`].
pub fn parse_typed(bytes: &[u8]) -> Result<Parsed, SyntaxError> {
    read(bytes, true)
}

/// How deep a value is nested: 0 for a scalar.
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.iter().map(|(_, member)| depth(member)).max().unwrap_or(0),
        _ => 0,
    }
}

fn read(bytes: &[u8], typed: bool) -> Result<Parsed, SyntaxError> {
    let mut p = Parser {
        typed,
        cut: false,
        bytes,
        at: 0,
        depth: 0,
        path: Vec::new(),
        duplicates: Vec::new(),
        numbers: Vec::new(),
    };
    let value = p.value()?;
    p.space();
    if p.at < bytes.len() {
        return Err(p.unexpected("after top-level value"));
    }
    Ok(Parsed {
        value,
        duplicates: p.duplicates,
        numbers: p.numbers,
        cut: p.cut,
    })
}

/// Puts the members of one map into another; maps in both are merged.
fn merge(into: &mut Object, from: Object) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(first)), Value::Object(second)) => merge(first, second),
            (_, value) => drop(into.insert(key, value)),
        }
    }
}

/// Reads one document, not caring about duplicate keys.
pub fn from_slice(bytes: &[u8]) -> Result<Value, SyntaxError> {
    parse(bytes).map(|p| p.value)
}

enum Step {
    Key(usize, usize),
    Index(usize),
}

struct Parser<'a> {
    bytes: &'a [u8],
    typed: bool,
    cut: bool,
    at: usize,
    depth: usize,
    path: Vec<Step>,
    duplicates: Vec<Duplicate>,
    numbers: Vec<OddNumber>,
}

type Result1<T> = Result<T, SyntaxError>;

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn error(&self, message: impl Into<String>) -> SyntaxError {
        SyntaxError {
            message: message.into(),
            offset: self.at,
        }
    }

    /// The error for the byte at hand, or for the text having ended. Go ends a text as if a space followed, so that
    /// what cannot contain one is told of the space.
    fn unexpected(&self, context: &str) -> SyntaxError {
        let spaceless = ["literal", "numeric literal", "escape"]
            .iter()
            .any(|word| context.contains(word))
            && context != "in string literal";
        match self.peek() {
            None if spaceless => self.error(format!("invalid character ' ' {context}")),
            None => self.error("unexpected end of JSON input"),
            Some(c) => {
                let shown = match c {
                    b'\'' => r"'\''".to_owned(),
                    b'"' => "'\"'".to_owned(),
                    c => {
                        let quoted = quote(&char::from(c).to_string());
                        format!("'{}'", &quoted[1..quoted.len() - 1])
                    }
                };
                self.error(format!("invalid character {shown} {context}"))
            }
        }
    }

    fn value(&mut self) -> Result1<Value> {
        self.space();
        match self.peek() {
            Some(b'{') => self.nested(Self::map),
            Some(b'[') => self.nested(Self::list),
            Some(b'"') => self.string().map(Value::String),
            Some(b't') => self.literal("true", Value::Bool(true)),
            Some(b'f') => self.literal("false", Value::Bool(false)),
            Some(b'n') => self.literal("null", Value::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result1<Value>) -> Result1<Value> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            if !self.typed {
                return Err(self.unexpected("exceeded max depth"));
            }
            self.depth -= 1;
            self.cut = true;
            return self.skip();
        }
        self.at += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn map(&mut self) -> Result1<Value> {
        let mut map = Object::new();
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(map));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("looking for beginning of object key string"));
            }
            let start = self.at + 1;
            let key = self.string()?;
            let end = self.at - 1;
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.unexpected("after object key"));
            }
            self.at += 1;
            self.path.push(Step::Key(start, end));
            let value = self.value()?;
            if map.contains_key(&key) {
                self.duplicate(map.len());
            }
            self.path.pop();
            match (map.get_mut(&key), value) {
                (Some(Value::Object(first)), Value::Object(second)) if self.typed => merge(first, second),
                (_, value) => drop(map.insert(key, value)),
            }
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Object(map));
                }
                _ => return Err(self.unexpected("after object key:value pair")),
            }
        }
    }

    fn list(&mut self) -> Result1<Value> {
        let mut items = Vec::new();
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::Array(items));
        }
        loop {
            self.path.push(Step::Index(items.len()));
            items.push(self.value()?);
            self.path.pop();
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::Array(items));
                }
                _ => return Err(self.unexpected("after array element")),
            }
        }
    }

    /// The path of the value at hand, and where that of its parent ends.
    fn path(&self) -> (String, usize) {
        let mut path = String::new();
        let mut parent = 0;
        for step in &self.path {
            parent = path.len();
            match step {
                Step::Key(start, end) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(&String::from_utf8_lossy(&self.bytes[*start..*end]));
                }
                Step::Index(i) => path.push_str(&format!("[{i}]")),
            }
        }
        (path, parent)
    }

    fn duplicate(&mut self, before: usize) {
        if self.duplicates.len() >= MAX_DUPLICATES {
            return;
        }
        let (path, parent) = self.path();
        if !self.duplicates.iter().any(|d| d.path == path) {
            self.duplicates.push(Duplicate { path, parent, before });
        }
    }

    fn literal(&mut self, word: &'static str, value: Value) -> Result1<Value> {
        for (i, want) in word.bytes().enumerate() {
            if self.peek() != Some(want) {
                debug_assert!(i > 0);
                return Err(self.unexpected(&format!("in literal {word} (expecting '{}')", char::from(want))));
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn digits(&mut self, context: &str) -> Result1<()> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.unexpected(context));
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result1<Value> {
        let start = self.at;
        let mut whole = true;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.peek() == Some(b'.') {
            whole = false;
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            whole = false;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        let text = std::str::from_utf8(&self.bytes[start..self.at]).unwrap_or_default();
        if whole && let Ok(i) = text.parse::<i64>() {
            return Ok(Value::Int(i));
        }
        match text.parse::<f64>() {
            Ok(f) if f.is_finite() => {
                if self.numbers.len() < MAX_NUMBERS && encode_float(f) != text {
                    let (path, _) = self.path();
                    self.numbers.push(OddNumber {
                        path,
                        text: text.to_owned(),
                    });
                }
                Ok(Value::Float(f))
            }
            _ => Err(self.error(format!(
                "json: cannot unmarshal number {text} into Go value of type float64"
            ))),
        }
    }

    fn string(&mut self) -> Result1<String> {
        self.at += 1;
        let mut out: Vec<u8> = Vec::new();
        loop {
            let rest = &self.bytes[self.at..];
            let plain = rest
                .iter()
                .position(|&b| b == b'"' || b == b'\\' || b < 0x20)
                .unwrap_or(rest.len());
            out.extend_from_slice(&rest[..plain]);
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(match String::from_utf8(out) {
                        Ok(s) => s,
                        Err(e) => String::from_utf8_lossy(e.as_bytes()).into_owned(),
                    });
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape(&mut out)?;
                }
                _ => return Err(self.unexpected("in string literal")),
            }
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result1<()> {
        let plain = match self.peek() {
            Some(c @ (b'"' | b'\\' | b'/')) => c,
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                self.at += 1;
                let high = self.hex4()?;
                let mut c = char::from_u32(high);
                if (0xd800..0xdc00).contains(&high) && self.bytes[self.at..].starts_with(b"\\u") {
                    let back = self.at;
                    self.at += 2;
                    let low = self.hex4()?;
                    if (0xdc00..0xe000).contains(&low) {
                        c = char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
                    } else {
                        self.at = back;
                    }
                }
                let mut buffer = [0; 4];
                out.extend_from_slice(c.unwrap_or('\u{fffd}').encode_utf8(&mut buffer).as_bytes());
                return Ok(());
            }
            _ => return Err(self.unexpected("in string escape code")),
        };
        self.at += 1;
        out.push(plain);
        Ok(())
    }

    fn hex4(&mut self) -> Result1<u32> {
        let mut n = 0;
        for _ in 0..4 {
            match self.peek().and_then(|b| char::from(b).to_digit(16)) {
                Some(d) => n = n * 16 + d,
                None => return Err(self.unexpected("in \\u hexadecimal character escape")),
            }
            self.at += 1;
        }
        Ok(n)
    }
}

/// Writes a value without spaces.
pub fn to_vec(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    write(&mut out, value);
    out
}

/// Writes a value without spaces, as text.
pub fn to_string(value: &Value) -> String {
    String::from_utf8(to_vec(value)).unwrap_or_default()
}

/// Appends a value without spaces.
pub fn write(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(i) => out.extend_from_slice(itoa::Buffer::new().format(*i).as_bytes()),
        Value::Float(f) => out.extend_from_slice(encode_float(*f).as_bytes()),
        Value::String(s) => write_string(out, s),
        Value::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write(out, item);
            }
            out.push(b']');
        }
        Value::Object(map) => {
            out.push(b'{');
            for (i, (key, member)) in map.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_string(out, key);
                out.push(b':');
                write(out, member);
            }
            out.push(b'}');
        }
    }
}

/// Appends a text with quotes and Go's escapes.
pub fn write_string(out: &mut Vec<u8>, s: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let bytes = s.as_bytes();
    let mut start = 0;
    for (i, &b) in bytes.iter().enumerate() {
        let separator = b == 0xe2 && bytes.get(i + 1) == Some(&0x80) && matches!(bytes.get(i + 2), Some(0xa8 | 0xa9));
        if b >= 0x20 && !matches!(b, b'"' | b'\\' | b'<' | b'>' | b'&') && !separator {
            continue;
        }
        if i < start {
            continue;
        }
        out.extend_from_slice(&bytes[start..i]);
        start = i + 1;
        match b {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', b]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            8 => out.extend_from_slice(b"\\b"),
            12 => out.extend_from_slice(b"\\f"),
            0xe2 => {
                out.extend_from_slice(b"\\u202");
                out.push(HEX[usize::from(bytes[i + 2] & 15)]);
                start = i + 3;
            }
            b => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[HEX[usize::from(b >> 4)], HEX[usize::from(b & 15)]]);
            }
        }
    }
    out.extend_from_slice(&bytes[start..]);
    out.push(b'"');
}

/// A float as Go's JSON encoder writes it.
fn encode_float(f: f64) -> String {
    let text = format_float(f);
    // e-09 is written e-9
    match text.rsplit_once("e-0") {
        Some((mantissa, digit)) if f != 0.0 => format!("{mantissa}e-{digit}"),
        _ => text,
    }
}

/// A float as Go's `%v` writes it (`strconv.FormatFloat(f, 'g', -1, 64)`): `1e+06`, `0.5`, `1.5`.
pub fn general_float(f: f64) -> String {
    general(f == 0.0 || f.is_nan(), f.to_string(), format!("{f:e}"))
}

/// As [`general_float`], with the fewest digits that tell single-precision numbers apart.
pub fn general_float32(f: f32) -> String {
    general(f == 0.0 || f.is_nan(), f.to_string(), format!("{f:e}"))
}

fn general(zero: bool, positional: String, scientific: String) -> String {
    match scientific.split_once('e') {
        Some((mantissa, exponent)) if !zero => {
            let exponent: i32 = exponent.parse().unwrap_or(0);
            if (-4..6).contains(&exponent) {
                return positional;
            }
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.abs())
        }
        _ => match positional.as_str() {
            "inf" => "+Inf".to_owned(),
            "-inf" => "-Inf".to_owned(),
            _ => positional,
        },
    }
}

/// A float with the exponent bounds of Go's JSON encoder.
fn format_float(f: f64) -> String {
    let size = f.abs();
    if f == 0.0 || (1e-6..1e21).contains(&size) {
        return format!("{f}");
    }
    let text = format!("{f:e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let (sign, digits) = match exponent.strip_prefix('-') {
                Some(d) => ('-', d),
                None => ('+', exponent),
            };
            format!("{mantissa}e{sign}{digits:0>2}")
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_maps_under_one_key_the_last_wins_or_both_count() {
        let text = br#"{"a":{"b":{"c":1},"d":2},"a":{"b":{"e":3}},"f":1,"f":2}"#;
        let read = |parsed: Parsed| to_string(&parsed.value);
        assert_eq!(read(parse(text).unwrap()), r#"{"a":{"b":{"e":3}},"f":2}"#);
        assert_eq!(
            read(parse_typed(text).unwrap()),
            r#"{"a":{"b":{"c":1,"e":3},"d":2},"f":2}"#
        );
    }

    #[test]
    fn syntax_errors_are_worded_as_in_go() {
        for (text, want) in [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("{a", "invalid character 'a' looking for beginning of object key string"),
            ("{\"a\" 1", "invalid character '1' after object key"),
            ("{\"a\":1 2", "invalid character '2' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("tru!", "invalid character '!' in literal true (expecting 'e')"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            ("\"\n\"", "invalid character '\\n' in string literal"),
            ("-x", "invalid character 'x' in numeric literal"),
            ("'", "invalid character '\\'' looking for beginning of value"),
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap_err().message, want, "{text}");
        }
        assert_eq!(
            parse("[".repeat(MAX_DEPTH + 1).as_bytes()).unwrap_err().message,
            "invalid character '[' exceeded max depth"
        );
    }

    #[test]
    fn duplicate_keys_are_reported_with_their_path() {
        let p = parse(br#"{"spec":{"c":[{"n":1,"n":2}]},"a":1,"a":2}"#).unwrap();
        let paths: Vec<_> = p
            .duplicates
            .iter()
            .map(|d| (d.path.as_str(), d.parent(), d.before))
            .collect();
        assert_eq!(paths, [("spec.c[0].n", "spec.c[0]", 1), ("a", "", 2)]);
        assert_eq!(p.value.get("a"), Some(&Value::Int(2)));
    }

    #[test]
    fn numbers_keep_their_kind() {
        let v = from_slice(b"[1,-0,1.0,1e3,9223372036854775808,0.0000001,1e21]").unwrap();
        assert_eq!(to_string(&v), "[1,0,1,1000,9223372036854776000,1e-7,1e+21]");
        assert!(matches!(v.as_array().unwrap()[2], Value::Float(_)));
    }

    #[test]
    fn text_is_escaped_as_in_go() {
        let v = from_slice("\"<a>&\\u2028é\\ud83d\\ude00\\u0001\\\"\"".as_bytes()).unwrap();
        assert_eq!(to_string(&v), "\"\\u003ca\\u003e\\u0026\\u2028é😀\\u0001\\\"\"");
    }
}
