//! Go's regular expressions (RE2 syntax) on the `regex` crate.
//!
//! Contract: a pattern that Go compiles means the same here; what Go refuses is refused with its text. The differences that
//! patterns in CRDs and CEL rules run into are translated: `\d`, `\w`, `\s` and `\b` are ASCII in Go; in a class `[`,
//! `&&` and `--` are plain characters; `{` that begins no repetition is itself; `\Q…\E` quotes.

mod refusal;

use regex::{Regex, RegexBuilder};

/// Compiles a pattern; the error is Go's.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    if let Some(refusal) = refusal::refusal(pattern) {
        return Err(refusal);
    }
    // Go allows larger programs than the crate's default.
    RegexBuilder::new(&translate(pattern))
        .size_limit(32 << 20)
        .dfa_size_limit(1 << 20)
        .build()
        .map_err(|e| match e {
            regex::Error::CompiledTooBig(_) => format!("error parsing regexp: expression too large: `{pattern}`"),
            _ => format!(
                "error parsing regexp: invalid character class range: `{}`",
                unicode_class(pattern)
            ),
        })
}

/// The first Unicode class of a pattern: what the crate refuses beyond Go's grammar are their names.
fn unicode_class(pattern: &str) -> &str {
    let start = pattern.find("\\p").or_else(|| pattern.find("\\P")).unwrap_or(0);
    let class = &pattern[start..];
    let end = match class.get(2..3) {
        Some("{") => class.find('}').map_or(class.len(), |i| i + 1),
        _ => class.char_indices().nth(3).map_or(class.len(), |(i, _)| i),
    };
    &class[..end]
}

fn translate(pattern: &str) -> String {
    let chars: Vec<char> = pattern.chars().collect();
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut i = 0;
    while let Some(&c) = chars.get(i) {
        match c {
            '\\' => i += escape(&chars[i..], false, &mut out),
            '[' => i += class(&chars[i..], &mut out),
            '{' if !is_repetition(&chars[i..]) => {
                out.push_str("\\{");
                i += 1;
            }
            c => {
                out.push(c);
                i += 1;
            }
        }
    }
    out
}

/// Translates what begins with a backslash; gives how many characters that was.
fn escape(chars: &[char], in_class: bool, out: &mut String) -> usize {
    let Some(&c) = chars.get(1) else {
        out.push('\\');
        return 1;
    };
    let ascii = match (c, in_class) {
        ('d', false) => "[0-9]",
        ('D', false) => "[^0-9]",
        ('w', false) => "[0-9A-Za-z_]",
        ('W', false) => "[^0-9A-Za-z_]",
        ('s', false) => "[\\t\\n\\f\\r ]",
        ('S', false) => "[^\\t\\n\\f\\r ]",
        ('b', false) => "(?-u:\\b)",
        ('d', true) => "0-9",
        ('w', true) => "0-9A-Za-z_",
        ('s', true) => "\\t\\n\\f\\r ",
        ('D', true) => "[^0-9]",
        ('W', true) => "[^0-9A-Za-z_]",
        ('S', true) => "[^\\t\\n\\f\\r ]",
        ('Q', false) => return quoted(chars, out),
        _ => "",
    };
    if ascii.is_empty() {
        // The crate reads \< and \> as word boundaries.
        if !matches!(c, '<' | '>') {
            out.push('\\');
        }
        out.push(c);
    } else {
        out.push_str(ascii);
    }
    2
}

fn quoted(chars: &[char], out: &mut String) -> usize {
    let rest = &chars[2..];
    let end = rest.windows(2).position(|w| w == ['\\', 'E']);
    let text: String = rest[..end.unwrap_or(rest.len())].iter().collect();
    out.push_str(&regex::escape(&text));
    end.map_or(chars.len(), |end| end + 4)
}

fn class(chars: &[char], out: &mut String) -> usize {
    out.push('[');
    let mut i = 1;
    if chars.get(i) == Some(&'^') {
        out.push('^');
        i += 1;
    }
    let first = i;
    while let Some(&c) = chars.get(i) {
        if c == ']' && i > first {
            out.push(']');
            return i + 1;
        }
        if c == '['
            && chars.get(i + 1) == Some(&':')
            && let Some(end) = chars[i..].windows(2).position(|w| w == [':', ']'])
        {
            out.extend(&chars[i..i + end + 2]);
            i += end + 2;
            continue;
        }
        i += class_char(&chars[i..], out);
        // A range, unless the dash is the last thing.
        if chars.get(i) == Some(&'-') && chars.get(i + 1).is_some_and(|c| *c != ']') {
            out.push('-');
            i += 1 + class_char(&chars[i + 1..], out);
        }
    }
    i
}

/// Translates one character of a class; gives how many characters that was.
fn class_char(chars: &[char], out: &mut String) -> usize {
    match chars {
        ['\\', ..] => escape(chars, true, out),
        [c @ ('[' | ']' | '&' | '~' | '-' | '^'), ..] => {
            out.extend(['\\', *c]);
            1
        }
        [c, ..] => {
            out.push(*c);
            1
        }
        [] => 0,
    }
}

/// `{n}`, `{n,}` or `{n,m}`.
fn is_repetition(chars: &[char]) -> bool {
    let Some(end) = chars.iter().position(|c| *c == '}') else {
        return false;
    };
    let inside: String = chars[1..end].iter().collect();
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    match inside.split_once(',') {
        Some((low, high)) => !low.is_empty() && digits(low) && digits(high),
        None => !inside.is_empty() && digits(&inside),
    }
}

#[cfg(test)]
mod tests {
    use super::compile;

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        for (pattern, yes, no) in [
            (r"^\d+$", "12", "٣"),
            (r"^[\w-]+$", "a-b_1", "é"),
            (r"^[^[]$", "a", "["),
            (r"^[[a]+$", "[a", "b"),
            (r"^[a&&b]+$", "a&b", "c"),
            (r"^a{,2}$", "a{,2}", "aa"),
            (r"^a{2}$", "aa", "a"),
            (r"^\Qa.b\E$", "a.b", "axb"),
            (r"^\/a\-b$", "/a-b", "a"),
            (r"^[[:alpha:]]+$", "ab", "1"),
            (r"^[]a]+$", "]a", "b"),
            (r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "a-b", "-a"),
            (r"^(?i)abc$", "ABC", "abd"),
            (r"^[^\s]+$", "ab", "a b"),
            (r"^[+--]+$", "+,-", "a"),
        ] {
            let regex = compile(pattern).unwrap();
            assert!(regex.is_match(yes), "{pattern} {yes}");
            assert!(!regex.is_match(no), "{pattern} {no}");
        }
    }
}
