//! Splits JSON text into the members of its objects without building a tree: how documents of several tiers are merged
//! and turned into protobuf piece by piece.
//!
//! Contract: trusts nothing. Text that is no object, or not JSON as far as it is looked at, gives an error; nesting is
//! counted, not recursed into.

/// The text is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no JSON object at byte {0}")]
pub struct NoObject(pub usize);

/// The members of an object in document order: name and value, both as text; the name without quotes, escapes kept.
pub fn members(text: &[u8]) -> Result<Vec<(&str, &[u8])>, NoObject> {
    let mut at = skip_space(text, 0);
    let mut out = Vec::new();
    if text.get(at) != Some(&b'{') {
        return Err(NoObject(at));
    }
    at = skip_space(text, at + 1);
    if text.get(at) == Some(&b'}') {
        return Ok(out);
    }
    loop {
        let end = string_end(text, at)?;
        let name = std::str::from_utf8(&text[at + 1..end - 1]).map_err(|_| NoObject(at))?;
        at = skip_space(text, end);
        if text.get(at) != Some(&b':') {
            return Err(NoObject(at));
        }
        let start = skip_space(text, at + 1);
        let end = value_end(text, start)?;
        out.push((name, &text[start..end]));
        at = skip_space(text, end);
        match text.get(at) {
            Some(b',') => at = skip_space(text, at + 1),
            Some(b'}') => return Ok(out),
            _ => return Err(NoObject(at)),
        }
    }
}

/// The value of one member.
pub fn member<'a>(text: &'a [u8], name: &str) -> Result<Option<&'a [u8]>, NoObject> {
    Ok(members(text)?
        .into_iter()
        .find(|(n, _)| *n == name)
        .map(|(_, value)| value))
}

/// The items of an array, as text.
pub fn items(text: &[u8]) -> Result<Vec<&[u8]>, NoObject> {
    let mut at = skip_space(text, 0);
    let mut out = Vec::new();
    if text.get(at) != Some(&b'[') {
        return Err(NoObject(at));
    }
    at = skip_space(text, at + 1);
    if text.get(at) == Some(&b']') {
        return Ok(out);
    }
    loop {
        let end = value_end(text, at)?;
        out.push(&text[at..end]);
        at = skip_space(text, end);
        match text.get(at) {
            Some(b',') => at = skip_space(text, at + 1),
            Some(b']') => return Ok(out),
            _ => return Err(NoObject(at)),
        }
    }
}

fn skip_space(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
    }
    at
}

/// Where the string that starts at `at` ends, its closing quote included.
fn string_end(text: &[u8], at: usize) -> Result<usize, NoObject> {
    if text.get(at) != Some(&b'"') {
        return Err(NoObject(at));
    }
    let mut i = at + 1;
    loop {
        match text.get(i) {
            Some(b'"') => return Ok(i + 1),
            Some(b'\\') => i += 2,
            Some(_) => i += 1,
            None => return Err(NoObject(at)),
        }
    }
}

fn value_end(text: &[u8], at: usize) -> Result<usize, NoObject> {
    let mut depth = 0usize;
    let mut i = at;
    loop {
        match text.get(i) {
            Some(b'"') => i = string_end(text, i)?,
            Some(b'{' | b'[') => {
                depth += 1;
                i += 1;
            }
            Some(b'}' | b']' | b',') if depth == 0 => break,
            Some(b'}' | b']') => {
                depth -= 1;
                i += 1;
            }
            Some(b' ' | b'\t' | b'\n' | b'\r') if depth == 0 => break,
            Some(_) => {
                i += 1;
                continue;
            }
            None => break,
        }
        if depth == 0 {
            break;
        }
    }
    if i == at || depth > 0 {
        return Err(NoObject(at));
    }
    Ok(i)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_as_text_in_order() {
        let text = br#" { "b" : {"x":[1,"}"]} , "a":"q\"uote", "n": 12,"t":true,"e":[] } "#;
        let found: Vec<(&str, &str)> = members(text)
            .unwrap()
            .into_iter()
            .map(|(n, v)| (n, std::str::from_utf8(v).unwrap()))
            .collect();
        assert_eq!(
            found,
            [
                ("b", r#"{"x":[1,"}"]}"#),
                ("a", r#""q\"uote""#),
                ("n", "12"),
                ("t", "true"),
                ("e", "[]")
            ]
        );
        assert_eq!(members(b"{}").unwrap(), []);
    }

    #[test]
    fn broken_text_is_an_error() {
        for text in [
            &b"[]"[..],
            b"",
            b"{",
            b"{\"a\"",
            b"{\"a\":",
            b"{\"a\":[1}",
            b"{\"a\":\"",
            b"{\"a\":1 2}",
            b"{a:1}",
        ] {
            assert!(members(text).is_err(), "{}", String::from_utf8_lossy(text));
        }
    }
}
