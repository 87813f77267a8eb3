//! What a quoted literal says.
//!
//! Contract: takes the literal with quotes and, for texts, its `r`; the lexer has checked its form, so errors are few and carry
//! cel-go's texts.

/// The text that a string literal says.
pub fn text(literal: &str) -> Result<String, String> {
    let units = units(literal, false)?;
    Ok(units
        .into_iter()
        .map(|u| match u {
            Unit::Char(c) => c,
            Unit::Byte(b) => b as char,
        })
        .collect())
}

/// The bytes that a bytes literal says, its `b` removed.
pub fn bytes(literal: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    for unit in units(literal, true)? {
        match unit {
            Unit::Byte(b) => out.push(b),
            Unit::Char(c) => out.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Ok(out)
}

enum Unit {
    Char(char),
    Byte(u8),
}

const UNABLE: &str = "unable to unescape string";

fn units(literal: &str, bytes: bool) -> Result<Vec<Unit>, String> {
    let literal = literal.replace("\r\n", "\n").replace('\r', "\n");
    let (raw, quoted) = match literal.strip_prefix(['r', 'R']) {
        Some(rest) => (true, rest),
        None => (false, literal.as_str()),
    };
    let inside = ["\"\"\"", "'''", "\"", "'"]
        .iter()
        .find_map(|quote| quoted.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)));
    let inside = inside.ok_or(UNABLE)?;
    let mut chars = inside.chars();
    let mut out = Vec::with_capacity(inside.len());
    while let Some(c) = chars.next() {
        let unit = match c {
            '\\' if !raw => escape(&mut chars, bytes)?,
            c => Unit::Char(c),
        };
        out.push(unit);
    }
    Ok(out)
}

fn escape(chars: &mut std::str::Chars<'_>, bytes: bool) -> Result<Unit, String> {
    let number = |chars: &mut std::str::Chars<'_>, first: u32, count: usize, radix: u32| {
        let mut value = first;
        for _ in 0..count {
            let digit = chars.next().and_then(|c| c.to_digit(radix)).ok_or(UNABLE)?;
            value = value.checked_mul(radix).ok_or(UNABLE)? + digit;
        }
        Ok::<u32, String>(value)
    };
    let c = chars.next().ok_or(UNABLE)?;
    let value = match c {
        'a' => return Ok(Unit::Char('\u{7}')),
        'b' => return Ok(Unit::Char('\u{8}')),
        'f' => return Ok(Unit::Char('\u{c}')),
        'n' => return Ok(Unit::Char('\n')),
        'r' => return Ok(Unit::Char('\r')),
        't' => return Ok(Unit::Char('\t')),
        'v' => return Ok(Unit::Char('\u{b}')),
        '\\' | '\'' | '"' | '`' | '?' => return Ok(Unit::Char(c)),
        'u' | 'U' if bytes => return Err(UNABLE.to_owned()),
        'x' | 'X' => number(chars, 0, 2, 16)?,
        'u' => number(chars, 0, 4, 16)?,
        'U' => number(chars, 0, 8, 16)?,
        '0'..='3' => number(chars, c as u32 - '0' as u32, 2, 8)?,
        _ => return Err(UNABLE.to_owned()),
    };
    if bytes {
        return Ok(Unit::Byte(value as u8));
    }
    char::from_u32(value)
        .map(Unit::Char)
        .ok_or_else(|| "invalid unicode code point".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone() {
        assert_eq!(text(r#""a\n\x41\u00e9\101""#), Ok("a\nA\u{e9}A".to_owned()));
        assert_eq!(text(r#"r'\n'"#), Ok("\\n".to_owned()));
        assert_eq!(text("'''it's'''"), Ok("it's".to_owned()));
        assert_eq!(bytes(r#"'\xff\377é'"#), Ok(vec![0xff, 0xff, 0xc3, 0xa9]));
        assert_eq!(text(r#""\ud800""#), Err("invalid unicode code point".to_owned()));
    }
}
