//! What Go's `regexp/syntax` refuses, with its text.
//!
//! Contract: walks a pattern as Go's parser does; `None` says that Go accepts its form. Names of Unicode classes are not checked here.

/// Repetitions of more are refused.
const MAX_REPEAT: u32 = 1000;
/// Groups nested more deeply are refused.
const MAX_DEPTH: usize = 1000;

const CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];

/// Go's error for a pattern, if it has one.
pub fn refusal(pattern: &str) -> Option<String> {
    Walk {
        whole: pattern,
        rest: pattern,
        depth: 0,
    }
    .run()
    .err()
}

fn error(what: &str, culprit: &str) -> String {
    format!("error parsing regexp: {what}: `{culprit}`")
}

type Outcome<T> = Result<T, String>;

struct Walk<'p> {
    whole: &'p str,
    rest: &'p str,
    depth: usize,
}

/// What a repetition operator would apply to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before<'p> {
    Nothing,
    Something,
    /// A repetition that begins here.
    Repetition(&'p str),
}

/// The part of `from` that was read when `rest` is left.
fn read<'p>(from: &'p str, rest: &str) -> &'p str {
    &from[..from.len() - rest.len()]
}

impl<'p> Walk<'p> {
    fn run(mut self) -> Outcome<()> {
        let mut before = Before::Nothing;
        while let Some(c) = self.rest.chars().next() {
            let start = self.rest;
            match c {
                '(' => {
                    let opened = self.open()?;
                    if opened {
                        self.depth += 1;
                        if self.depth > MAX_DEPTH {
                            return Err(error("expression nests too deeply", self.whole));
                        }
                        before = Before::Nothing;
                    }
                    continue;
                }
                '|' => {
                    self.rest = &start[1..];
                    before = Before::Nothing;
                    continue;
                }
                ')' => {
                    self.rest = &start[1..];
                    self.depth = self
                        .depth
                        .checked_sub(1)
                        .ok_or_else(|| error("unexpected )", self.whole))?;
                }
                '[' => self.class()?,
                '*' | '+' | '?' => {
                    self.rest = &start[1..];
                    before = self.repeated(start, before)?;
                    continue;
                }
                '{' => match self.counts() {
                    Some((low, high)) => {
                        let bad = low > MAX_REPEAT || high.is_some_and(|h| h > MAX_REPEAT || h < low);
                        if bad {
                            return Err(error("invalid repeat count", read(start, self.rest)));
                        }
                        before = self.repeated(start, before)?;
                        continue;
                    }
                    None => self.rest = &start[1..],
                },
                '\\' => self.escape()?,
                c => self.rest = &start[c.len_utf8()..],
            }
            before = Before::Something;
        }
        if self.depth > 0 {
            return Err(error("missing closing )", self.whole));
        }
        Ok(())
    }

    /// After a repetition operator that begins at `start`.
    fn repeated(&mut self, start: &'p str, before: Before<'p>) -> Outcome<Before<'p>> {
        self.rest = self.rest.strip_prefix('?').unwrap_or(self.rest);
        match before {
            Before::Repetition(first) => {
                let culprit = read(first, self.rest);
                Err(error("invalid nested repetition operator", culprit))
            }
            Before::Nothing => {
                let culprit = read(start, self.rest);
                Err(error("missing argument to repetition operator", culprit))
            }
            Before::Something => Ok(Before::Repetition(start)),
        }
    }

    /// `{n}`, `{n,}` or `{n,m}`; without it nothing is read. A count that does not fit is too large.
    fn counts(&mut self) -> Option<(u32, Option<u32>)> {
        let inside = self.rest.strip_prefix('{')?;
        let (inside, rest) = inside.split_once('}')?;
        let number = |text: &str| {
            let plain = !text.is_empty()
                && text.bytes().all(|b| b.is_ascii_digit())
                && (text.len() == 1 || !text.starts_with('0'));
            plain.then(|| text.parse().unwrap_or(u32::MAX))
        };
        let counts = match inside.split_once(',') {
            None => {
                let n = number(inside)?;
                (n, Some(n))
            }
            Some((low, "")) => (number(low)?, None),
            Some((low, high)) => (number(low)?, Some(number(high)?)),
        };
        self.rest = rest;
        Some(counts)
    }

    /// Reads the beginning of a group; false if it was flags only.
    fn open(&mut self) -> Outcome<bool> {
        let start = self.rest;
        let Some(inside) = start.strip_prefix("(?") else {
            self.rest = &start[1..];
            return Ok(true);
        };
        let named = inside.strip_prefix("P<").or_else(|| inside.strip_prefix('<'));
        if let Some(name) = named {
            let Some((name, rest)) = name.split_once('>') else {
                return Err(error("invalid named capture", start));
            };
            let valid = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if !valid {
                return Err(error("invalid named capture", read(start, rest)));
            }
            self.rest = rest;
            return Ok(true);
        }
        let (mut negative, mut seen) = (false, false);
        let mut rest = inside;
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            match c {
                'i' | 'm' | 's' | 'U' => seen = true,
                '-' if !negative => (negative, seen) = (true, false),
                ':' | ')' if !negative || seen => {
                    self.rest = rest;
                    return Ok(c == ':');
                }
                _ => return Err(error("invalid or unsupported Perl syntax", read(start, rest))),
            }
        }
        Err(error("missing closing )", self.whole))
    }

    fn escape(&mut self) -> Outcome<()> {
        let start = self.rest;
        let mut chars = start[1..].chars();
        let Some(c) = chars.next() else {
            return Err(error("trailing backslash at end of expression", ""));
        };
        match c {
            'Q' => {
                let quoted = &start[2..];
                self.rest = quoted.split_once("\\E").map_or("", |(_, rest)| rest);
                return Ok(());
            }
            'A' | 'b' | 'B' | 'z' | 'd' | 'D' | 's' | 'S' | 'w' | 'W' => {
                self.rest = chars.as_str();
                return Ok(());
            }
            'p' | 'P' => return self.unicode_class(),
            _ => {}
        }
        self.character().map(drop)
    }

    /// `\pL` or `\p{Greek}`.
    fn unicode_class(&mut self) -> Outcome<()> {
        let start = self.rest;
        let inside = &start[2..];
        self.rest = match inside.chars().next() {
            None => return Err(error("invalid character class range", start)),
            Some('{') => match inside.split_once('}') {
                Some((_, rest)) => rest,
                None => return Err(error("invalid character class range", start)),
            },
            Some(c) => &inside[c.len_utf8()..],
        };
        Ok(())
    }

    /// One character, or an escape that stands for one.
    fn character(&mut self) -> Outcome<char> {
        let start = self.rest;
        let mut chars = start.chars();
        let Some(first) = chars.next() else {
            return Err(error("missing closing ]", start));
        };
        if first != '\\' {
            self.rest = chars.as_str();
            return Ok(first);
        }
        let Some(c) = chars.next() else {
            return Err(error("trailing backslash at end of expression", ""));
        };
        let mut rest = chars.as_str();
        let octal = |c: Option<char>| c.and_then(|c| c.to_digit(8));
        let value = match c {
            '1'..='7' if octal(rest.chars().next()).is_none() => None,
            '0'..='7' => {
                let mut value = c as u32 - '0' as u32;
                for _ in 0..2 {
                    let Some(digit) = octal(rest.chars().next()) else { break };
                    value = value * 8 + digit;
                    rest = &rest[1..];
                }
                char::from_u32(value)
            }
            'x' => {
                let (digits, after) = match rest.strip_prefix('{') {
                    Some(inside) => inside.split_once('}').unwrap_or(("", rest)),
                    None => rest.split_at_checked(2).unwrap_or(("", rest)),
                };
                let value = u32::from_str_radix(digits, 16).ok().filter(|v| *v <= 0x10_ffff);
                rest = after;
                value.map(|v| char::from_u32(v).unwrap_or('\u{fffd}'))
            }
            'a' => Some('\u{7}'),
            'f' => Some('\u{c}'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\u{b}'),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(c),
            _ => None,
        };
        match value {
            Some(value) => {
                self.rest = rest;
                Ok(value)
            }
            None => Err(error("invalid escape sequence", read(start, chars.as_str()))),
        }
    }

    fn class(&mut self) -> Outcome<()> {
        let class = self.rest;
        let unclosed = || error("missing closing ]", class);
        self.rest = &class[1..];
        self.rest = self.rest.strip_prefix('^').unwrap_or(self.rest);
        let mut first = true;
        loop {
            if self.rest.is_empty() {
                return Err(unclosed());
            }
            if !first && let Some(rest) = self.rest.strip_prefix(']') {
                self.rest = rest;
                return Ok(());
            }
            first = false;
            if self.rest.starts_with("[:")
                && let Some(end) = self.rest[2..].find(":]")
            {
                let (name, after) = (&self.rest[2..2 + end], &self.rest[end + 4..]);
                if !CLASSES.contains(&name.strip_prefix('^').unwrap_or(name)) {
                    return Err(error("invalid character class range", read(self.rest, after)));
                }
                self.rest = after;
                continue;
            }
            let mut ahead = self.rest.chars();
            match (ahead.next(), ahead.next()) {
                (Some('\\'), Some('p' | 'P')) => {
                    self.unicode_class()?;
                    continue;
                }
                (Some('\\'), Some('d' | 'D' | 's' | 'S' | 'w' | 'W')) => {
                    self.rest = ahead.as_str();
                    continue;
                }
                _ => {}
            }
            let range = self.rest;
            let low = self.character()?;
            let is_range = self.rest.strip_prefix('-').filter(|after| !after.starts_with(']'));
            let Some(after) = is_range.filter(|_| self.rest.len() >= 2) else {
                continue;
            };
            self.rest = after;
            let high = self.character()?;
            if high < low {
                return Err(error("invalid character class range", read(range, self.rest)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::refusal;

    #[test]
    fn refusals_are_those_of_go() {
        for (pattern, want) in [
            ("a(b", "missing closing ): `a(b`"),
            ("a)b", "unexpected ): `a)b`"),
            ("x[a", "missing closing ]: `[a`"),
            ("x**", "invalid nested repetition operator: `**`"),
            ("x++", "invalid nested repetition operator: `++`"),
            ("x{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("(|+)", "missing argument to repetition operator: `+`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("a{3,2}", "invalid repeat count: `{3,2}`"),
            ("a\\", "trailing backslash at end of expression: ``"),
            ("\\y", "invalid escape sequence: `\\y`"),
            ("\\8", "invalid escape sequence: `\\8`"),
            ("[z-a]", "invalid character class range: `z-a`"),
            ("[[:nope:]]", "invalid character class range: `[:nope:]`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
            ("(?<n", "invalid named capture: `(?<n`"),
            ("(?P<a-b>x)", "invalid named capture: `(?P<a-b>`"),
        ] {
            assert_eq!(
                refusal(pattern),
                Some(format!("error parsing regexp: {want}")),
                "{pattern}"
            );
        }
    }

    #[test]
    fn what_go_accepts_is_accepted() {
        for pattern in [
            "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
            "a{,2}",
            "a{",
            "(?i)a|b",
            "(?i:a)",
            "(?P<n>a)(?<m>b)",
            "[]a]",
            "[^]a]",
            "[a-]",
            "[-a]",
            "[[:alpha:]_]",
            r"\Q*\E+",
            r"\d+?\.\x41\x{1F600}\012",
            r"[\d\-\]]",
            r"\pL\p{Greek}",
            "a|",
            "()",
            "x*?",
            "^*",
        ] {
            assert_eq!(refusal(pattern), None, "{pattern}");
        }
    }
}
