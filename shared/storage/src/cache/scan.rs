//! A shallow look into JSON text: walks the members of an object and skips over values without building anything.
//!
//! Stored values were written by an API server, so this checks only what it needs to stay in bounds: text that is not
//! JSON in places nobody looks at goes unnoticed, text that breaks off is an error.

use std::borrow::Cow;

/// A byte range within one object's text. Half the size of `Range<usize>`: millions of these are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Self {
        // Values are at most MAX_VALUE_BYTES; larger ones are refused before they get here.
        Self {
            start: start as u32,
            end: end as u32,
        }
    }

    /// The bytes of `text` this span covers.
    pub fn of<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        text.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    /// Whether nothing is covered.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub(crate) fn shifted(self, after: usize, by: i64) -> Self {
        let shift = |at: u32| {
            if at as usize > after {
                (i64::from(at) + by) as u32
            } else {
                at
            }
        };
        Self {
            start: shift(self.start),
            end: shift(self.end),
        }
    }
}

/// The text is not what it should be; where it went wrong.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("not a JSON object: unexpected input at byte {0}")]
pub(crate) struct ScanError(pub usize);

/// One `"name":value` of an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member {
    /// From the quote that opens the name.
    pub start: usize,
    /// The name between its quotes, escapes as written.
    pub name: Span,
    /// The value, quotes and brackets included.
    pub value: Span,
}

/// A member whose value was not looked at yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Name {
    /// From the quote that opens the name.
    pub start: usize,
    /// The name between its quotes, escapes as written.
    pub name: Span,
    /// Where the value begins.
    pub value: usize,
}

/// Walks the members of the object that starts at or after `at`.
pub(crate) struct Members<'a> {
    text: &'a [u8],
    at: usize,
    done: bool,
}

impl<'a> Members<'a> {
    pub(crate) fn new(text: &'a [u8], at: usize) -> Result<Self, ScanError> {
        let open = skip_space(text, at);
        if text.get(open) != Some(&b'{') {
            return Err(ScanError(open));
        }
        let first = skip_space(text, open + 1);
        Ok(Self {
            text,
            at: first,
            done: text.get(first) == Some(&b'}'),
        })
    }

    /// The next member, its value skipped.
    pub(crate) fn next(&mut self) -> Result<Option<Member>, ScanError> {
        let Some(Name { start, name, value }) = self.next_name()? else {
            return Ok(None);
        };
        let end = skip_value(self.text, value)?;
        self.resume(end)?;
        Ok(Some(Member {
            start,
            name,
            value: Span::new(value, end),
        }))
    }

    /// The next member up to its value; the caller finds the value's end and says so with `resume`.
    pub(crate) fn next_name(&mut self) -> Result<Option<Name>, ScanError> {
        if self.done {
            return Ok(None);
        }
        let start = skip_space(self.text, self.at);
        if self.text.get(start) != Some(&b'"') {
            return Err(ScanError(start));
        }
        let name_end = skip_string(self.text, start)?;
        let colon = skip_space(self.text, name_end);
        if self.text.get(colon) != Some(&b':') {
            return Err(ScanError(colon));
        }
        let value = skip_space(self.text, colon + 1);
        Ok(Some(Name {
            start,
            name: Span::new(start + 1, name_end - 1),
            value,
        }))
    }

    /// Goes on after a value; gives the position after the comma, or of the closing brace.
    pub(crate) fn resume(&mut self, value_end: usize) -> Result<usize, ScanError> {
        let after = skip_space(self.text, value_end);
        self.done = match self.text.get(after) {
            Some(b',') => false,
            Some(b'}') => true,
            _ => return Err(ScanError(after)),
        };
        self.at = if self.done { after } else { after + 1 };
        Ok(self.at)
    }

    /// The position after the closing brace, once there are no more members.
    pub(crate) fn end(&self) -> usize {
        self.at + 1
    }
}

fn skip_space(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\n' | b'\t' | b'\r')) {
        at += 1;
    }
    at
}

/// `at` is the opening quote; gives the position after the closing one.
fn skip_string(text: &[u8], at: usize) -> Result<usize, ScanError> {
    /// Most strings are short, and for those a plain loop beats the search.
    const SHORT: usize = 16;
    let mut from = at + 1;
    loop {
        let rest = text.get(from..).ok_or(ScanError(from))?;
        let near = rest.iter().take(SHORT).position(|byte| matches!(byte, b'"' | b'\\'));
        let found = near.or_else(|| Some(SHORT + memchr::memchr2(b'"', b'\\', rest.get(SHORT..)?)?));
        let hit = from + found.ok_or(ScanError(text.len()))?;
        if text[hit] == b'"' {
            return Ok(hit + 1);
        }
        from = hit + 2;
    }
}

/// Gives the position after the value that begins at `at`.
pub(crate) fn skip_value(text: &[u8], at: usize) -> Result<usize, ScanError> {
    match text.get(at) {
        Some(b'"') => skip_string(text, at),
        Some(b'{' | b'[') => skip_nested(text, at),
        Some(_) => {
            let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\t' | b'\r');
            match text[at..].iter().position(ends) {
                Some(0) => Err(ScanError(at)),
                Some(length) => Ok(at + length),
                None => Err(ScanError(text.len())),
            }
        }
        None => Err(ScanError(at)),
    }
}

fn skip_nested(text: &[u8], mut at: usize) -> Result<usize, ScanError> {
    let mut depth = 0usize;
    loop {
        let rest = text.get(at..).ok_or(ScanError(at))?;
        let structural = |byte: &u8| STRUCTURAL[usize::from(*byte)];
        at += rest.iter().position(structural).ok_or(ScanError(text.len()))?;
        match text[at] {
            b'"' => at = skip_string(text, at)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            _ => {
                depth -= 1;
                at += 1;
                if depth == 0 {
                    return Ok(at);
                }
            }
        }
    }
}

/// The bytes that matter while skipping objects and arrays.
static STRUCTURAL: [bool; 256] = {
    let mut table = [false; 256];
    let mut index = 0;
    let bytes = b"\"{}[]";
    while index < bytes.len() {
        table[bytes[index] as usize] = true;
        index += 1;
    }
    table
};

/// A scalar's text as field selectors see it: strings without quotes (escapes still in), numbers and booleans as
/// written; nothing for null, objects and arrays.
pub(crate) fn scalar(text: &[u8], value: Span) -> Option<Span> {
    match value.of(text) {
        [b'"', .., b'"'] => Some(Span {
            start: value.start + 1,
            end: value.end - 1,
        }),
        [b'{' | b'[', ..] | b"null" | [] => None,
        _ => Some(value),
    }
}

/// Text of a JSON string with its escapes resolved; borrowed when there are none.
pub(crate) fn unescape(raw: &[u8]) -> Cow<'_, str> {
    let raw = match std::str::from_utf8(raw) {
        Ok(raw) => raw,
        Err(_) => return String::from_utf8_lossy(raw),
    };
    if memchr::memchr(b'\\', raw.as_bytes()).is_none() {
        return Cow::Borrowed(raw);
    }
    let mut out = String::with_capacity(raw.len());
    let mut chars = raw.chars();
    let mut high: Option<u32> = None;
    while let Some(c) = chars.next() {
        let unit = if c != '\\' {
            Err(c)
        } else {
            match chars.next() {
                Some('b') => Err('\u{8}'),
                Some('f') => Err('\u{c}'),
                Some('n') => Err('\n'),
                Some('r') => Err('\r'),
                Some('t') => Err('\t'),
                Some('u') => Ok(chars
                    .by_ref()
                    .take(4)
                    .fold(0, |unit, c| unit << 4 | c.to_digit(16).unwrap_or(0))),
                Some(other) => Err(other),
                None => break,
            }
        };
        match (high.take(), unit) {
            (Some(first), Ok(unit @ 0xDC00..=0xDFFF)) => {
                let code = 0x10000 + ((first - 0xD800) << 10) + (unit - 0xDC00);
                out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                continue;
            }
            (Some(_), _) => out.push(char::REPLACEMENT_CHARACTER),
            (None, _) => {}
        }
        match unit {
            Ok(unit @ 0xD800..=0xDBFF) => high = Some(unit),
            Ok(unit) => out.push(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)),
            Err(c) => out.push(c),
        }
    }
    if high.is_some() {
        out.push(char::REPLACEMENT_CHARACTER);
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(text: &str) -> Result<Vec<(String, String)>, ScanError> {
        let mut members = Members::new(text.as_bytes(), 0)?;
        let mut out = Vec::new();
        while let Some(member) = members.next()? {
            let text = text.as_bytes();
            out.push((
                unescape(member.name.of(text)).into_owned(),
                unescape(member.value.of(text)).into_owned(),
            ));
        }
        Ok(out)
    }

    #[test]
    fn members_are_found_and_their_values_skipped() {
        let found = walk(r#" { "a" : {"x":"}\"]"} , "b":[1,{"c":"["}],"d":-1.5e3 } "#).unwrap();
        let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "b", "d"]);
        assert_eq!(found[2].1, "-1.5e3");
        assert!(walk("{}").unwrap().is_empty());
    }

    #[test]
    fn text_that_breaks_off_is_an_error_and_never_a_panic() {
        let whole = r#"{"a":{"x":"}\"]"},"b":[1,{"c":"["}],"d":"\u00e9"}"#;
        for end in 0..whole.len() {
            assert!(walk(&whole[..end]).is_err(), "{}", &whole[..end]);
        }
        for text in [
            "",
            "null",
            "[]",
            "{1:2}",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1 2}",
            "{,}",
            "{\"a\":1,}",
        ] {
            assert!(walk(text).is_err(), "{text}");
        }
    }

    #[test]
    fn escapes_are_resolved_surrogate_pairs_included() {
        assert_eq!(unescape(br#"a\"\\\/\n\u00e9\ud83d\ude00"#), "a\"\\/\né😀");
        assert_eq!(unescape(br"\ud83dx"), "\u{fffd}x");
        assert!(matches!(unescape(b"plain"), Cow::Borrowed("plain")));
    }
}
