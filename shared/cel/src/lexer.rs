//! From text to tokens, as the lexer that ANTLR makes of CEL's grammar does it.
//!
//! Contract: never fails; what is no token is reported with ANTLR's text and skipped. A token's kind has the number and the
//! display name that ANTLR gives it, because syntax errors list the kinds that were expected in that order.

use crate::source::{Issues, Source};

/// What a token is; the order is that of ANTLR's token numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The end of the text.
    Eof,
    /// `==`
    Equals,
    /// `!=`
    NotEquals,
    /// `in`
    In,
    /// `<`
    Less,
    /// `<=`
    LessEquals,
    /// `>=`
    GreaterEquals,
    /// `>`
    Greater,
    /// `&&`
    And,
    /// `||`
    Or,
    /// `[`
    LeftBracket,
    /// `]`
    RightBracket,
    /// `{`
    LeftBrace,
    /// `}`
    RightBrace,
    /// `(`
    LeftParen,
    /// `)`
    RightParen,
    /// `.`
    Dot,
    /// `,`
    Comma,
    /// `-`
    Minus,
    /// `!`
    Exclamation,
    /// `?`
    Question,
    /// `:`
    Colon,
    /// `+`
    Plus,
    /// `*`
    Star,
    /// `/`
    Slash,
    /// `%`
    Percent,
    /// `true`
    True,
    /// `false`
    False,
    /// `null`
    Null,
    /// A number with fraction or exponent.
    Float,
    /// An integer.
    Int,
    /// An integer followed by `u`.
    Uint,
    /// A quoted text.
    String,
    /// A quoted text after `b`.
    Bytes,
    /// A name.
    Identifier,
    /// A name between backquotes.
    EscapedIdentifier,
}

impl Kind {
    /// The name in lists of what was expected.
    pub fn display(self) -> &'static str {
        use Kind::*;
        match self {
            Eof => "<EOF>",
            Equals => "'=='",
            NotEquals => "'!='",
            In => "'in'",
            Less => "'<'",
            LessEquals => "'<='",
            GreaterEquals => "'>='",
            Greater => "'>'",
            And => "'&&'",
            Or => "'||'",
            LeftBracket => "'['",
            RightBracket => "']'",
            LeftBrace => "'{'",
            RightBrace => "'}'",
            LeftParen => "'('",
            RightParen => "')'",
            Dot => "'.'",
            Comma => "','",
            Minus => "'-'",
            Exclamation => "'!'",
            Question => "'?'",
            Colon => "':'",
            Plus => "'+'",
            Star => "'*'",
            Slash => "'/'",
            Percent => "'%'",
            True => "'true'",
            False => "'false'",
            Null => "'null'",
            Float => "NUM_FLOAT",
            Int => "NUM_INT",
            Uint => "NUM_UINT",
            String => "STRING",
            Bytes => "BYTES",
            Identifier => "IDENTIFIER",
            EscapedIdentifier => "ESC_IDENTIFIER",
        }
    }
}

/// A piece of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Where it begins, in code points.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
}

/// All tokens of a text, the last one [`Kind::Eof`].
pub fn tokens(source: &Source, issues: &mut Issues) -> Vec<Token> {
    let mut lexer = Lexer {
        chars: source.chars(),
        tokens: Vec::new(),
    };
    let mut at = 0;
    while at < lexer.chars.len() {
        at = match lexer.token(at) {
            Ok(end) => end,
            Err(stuck) => {
                let text = source.slice(at, stuck + 1);
                issues.push(
                    source.location(at),
                    format!("Syntax error: token recognition error at: '{text}'"),
                );
                (stuck + 1).min(lexer.chars.len())
            }
        };
    }
    lexer.push(Kind::Eof, at, at);
    lexer.tokens
}

/// The text between two places without what is no token.
pub fn recognized(source: &Source, from: usize, to: usize) -> String {
    let mut lexer = Lexer {
        chars: source.chars(),
        tokens: Vec::new(),
    };
    let (mut text, mut at) = (String::new(), from);
    while at < to {
        at = match lexer.token(at) {
            Ok(end) => {
                text.push_str(&source.slice(at, end.min(to)));
                end
            }
            Err(stuck) => stuck + 1,
        };
    }
    text
}

struct Lexer<'a> {
    chars: &'a [char],
    tokens: Vec<Token>,
}

impl Lexer<'_> {
    fn push(&mut self, kind: Kind, start: usize, end: usize) {
        self.tokens.push(Token { kind, start, end });
    }

    fn peek(&self, at: usize) -> char {
        self.chars.get(at).copied().unwrap_or('\0')
    }

    fn while_true(&self, at: usize, is: impl Fn(char) -> bool) -> usize {
        let rest = &self.chars[at.min(self.chars.len())..];
        at + rest.iter().position(|c| !is(*c)).unwrap_or(rest.len())
    }

    /// Reads one token or skips space; the error is where no token could go on.
    fn token(&mut self, at: usize) -> Result<usize, usize> {
        let c = self.peek(at);
        let end = match c {
            '\t' | ' ' | '\r' | '\n' | '\u{c}' => return Ok(at + 1),
            '/' if self.peek(at + 1) == '/' => return Ok(self.while_true(at, |c| c != '\n')),
            '0'..='9' => return Ok(self.number(at)),
            '.' if self.peek(at + 1).is_ascii_digit() => return Ok(self.number(at)),
            '"' | '\'' => {
                let end = self.text(at, false)?;
                self.push(Kind::String, at, end);
                return Ok(end);
            }
            '`' => {
                let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' ');
                let end = self.while_true(at + 1, inside);
                if end == at + 1 || self.peek(end) != '`' {
                    return Err(end);
                }
                self.push(Kind::EscapedIdentifier, at, end + 1);
                return Ok(end + 1);
            }
            c if c.is_ascii_alphabetic() || c == '_' => return Ok(self.word(at)),
            _ => at + 1,
        };
        let two = self.peek(end);
        let (kind, length) = match (c, two) {
            ('=', '=') => (Kind::Equals, 2),
            ('!', '=') => (Kind::NotEquals, 2),
            ('<', '=') => (Kind::LessEquals, 2),
            ('>', '=') => (Kind::GreaterEquals, 2),
            ('&', '&') => (Kind::And, 2),
            ('|', '|') => (Kind::Or, 2),
            ('=' | '&' | '|', _) => return Err(end),
            ('<', _) => (Kind::Less, 1),
            ('>', _) => (Kind::Greater, 1),
            ('[', _) => (Kind::LeftBracket, 1),
            (']', _) => (Kind::RightBracket, 1),
            ('{', _) => (Kind::LeftBrace, 1),
            ('}', _) => (Kind::RightBrace, 1),
            ('(', _) => (Kind::LeftParen, 1),
            (')', _) => (Kind::RightParen, 1),
            ('.', _) => (Kind::Dot, 1),
            (',', _) => (Kind::Comma, 1),
            ('-', _) => (Kind::Minus, 1),
            ('!', _) => (Kind::Exclamation, 1),
            ('?', _) => (Kind::Question, 1),
            (':', _) => (Kind::Colon, 1),
            ('+', _) => (Kind::Plus, 1),
            ('*', _) => (Kind::Star, 1),
            ('/', _) => (Kind::Slash, 1),
            ('%', _) => (Kind::Percent, 1),
            _ => return Err(at),
        };
        self.push(kind, at, at + length);
        Ok(at + length)
    }

    fn word(&mut self, at: usize) -> usize {
        let quote = |at: usize| matches!(self.peek(at), '"' | '\'');
        let (bytes, raw) = match (self.peek(at).to_ascii_lowercase(), self.peek(at + 1)) {
            ('b', 'r' | 'R') if quote(at + 2) => (true, true),
            ('b', _) if quote(at + 1) => (true, false),
            ('r', _) if quote(at + 1) => (false, true),
            _ => (false, false),
        };
        if bytes || raw {
            let kind = if bytes { Kind::Bytes } else { Kind::String };
            if let Ok(end) = self.text(at + usize::from(bytes) + usize::from(raw), raw) {
                self.push(kind, at, end);
                return end;
            }
        }
        let end = self.while_true(at, |c| c.is_ascii_alphanumeric() || c == '_');
        let kind = match self.chars[at..end] {
            ['i', 'n'] => Kind::In,
            ['t', 'r', 'u', 'e'] => Kind::True,
            ['f', 'a', 'l', 's', 'e'] => Kind::False,
            ['n', 'u', 'l', 'l'] => Kind::Null,
            _ => Kind::Identifier,
        };
        self.push(kind, at, end);
        end
    }

    fn number(&mut self, at: usize) -> usize {
        let digit = |c: char| c.is_ascii_digit();
        if self.peek(at) == '0' && self.peek(at + 1) == 'x' {
            let end = self.while_true(at + 2, |c| c.is_ascii_hexdigit());
            if end > at + 2 {
                return self.integer(at, end);
            }
        }
        let whole = self.while_true(at, digit);
        let mut end = whole;
        if self.peek(end) == '.' && digit(self.peek(end + 1)) {
            end = self.while_true(end + 1, digit);
        }
        if matches!(self.peek(end), 'e' | 'E') {
            let sign = usize::from(matches!(self.peek(end + 1), '+' | '-'));
            if digit(self.peek(end + 1 + sign)) {
                end = self.while_true(end + 1 + sign, digit);
            }
        }
        if end > whole {
            self.push(Kind::Float, at, end);
            return end;
        }
        self.integer(at, end)
    }

    fn integer(&mut self, at: usize, end: usize) -> usize {
        let (kind, end) = match self.peek(end) {
            'u' | 'U' => (Kind::Uint, end + 1),
            _ => (Kind::Int, end),
        };
        self.push(kind, at, end);
        end
    }

    /// The end of a quoted text that begins with its quote at `at`.
    fn text(&self, at: usize, raw: bool) -> Result<usize, usize> {
        let quote = self.peek(at);
        let triple = self.peek(at + 1) == quote && self.peek(at + 2) == quote;
        if triple && let Ok(end) = self.body(at + 3, quote, true, raw) {
            return Ok(end);
        }
        self.body(at + 1, quote, false, raw)
    }

    fn body(&self, mut at: usize, quote: char, triple: bool, raw: bool) -> Result<usize, usize> {
        while let Some(&c) = self.chars.get(at) {
            if c == quote {
                if !triple {
                    return Ok(at + 1);
                }
                if self.peek(at + 1) == quote && self.peek(at + 2) == quote {
                    return Ok(at + 3);
                }
            }
            match c {
                '\\' if !raw => at = self.escape(at)?,
                '\n' | '\r' if !triple => return Err(at),
                _ => at += 1,
            }
        }
        Err(at)
    }

    fn escape(&self, at: usize) -> Result<usize, usize> {
        let all =
            |from: usize, count: usize, is: fn(char) -> bool| match (from..from + count).find(|i| !is(self.peek(*i))) {
                Some(wrong) => Err(wrong),
                None => Ok(from + count),
            };
        let hex = |c: char| c.is_ascii_hexdigit();
        let octal = |c: char| matches!(c, '0'..='7');
        match self.peek(at + 1) {
            'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`' => Ok(at + 2),
            'x' | 'X' => all(at + 2, 2, hex),
            'u' => all(at + 2, 4, hex),
            'U' => all(at + 2, 8, hex),
            '0'..='3' => all(at + 2, 2, octal),
            _ => Err(at + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> (Vec<Kind>, Vec<String>) {
        let source = Source::new(text);
        let mut issues = Issues::new(source.clone());
        let kinds = tokens(&source, &mut issues).iter().map(|t| t.kind).collect();
        (kinds, issues.list().iter().map(|i| i.message.clone()).collect())
    }

    #[test]
    fn tokens_are_as_long_as_they_can_be() {
        use Kind::*;
        let (found, issues) = kinds(r#"1.5e3 .5 0x1Fu 12 r"\" b'a' """a"b""" in inn `a-b` // c"#);
        assert_eq!(issues, Vec::<std::string::String>::new());
        assert_eq!(
            found,
            [
                Float,
                Float,
                Uint,
                Int,
                String,
                Bytes,
                String,
                In,
                Identifier,
                EscapedIdentifier,
                Eof
            ]
        );
    }

    #[test]
    fn what_is_no_token_is_reported_and_skipped() {
        let error = |text: &str| kinds(text).1.join("|");
        let said = |text: &str| format!("Syntax error: token recognition error at: '{text}'");
        assert_eq!(error("a # b"), said("#"));
        assert_eq!(error("a & b"), said("& "));
        assert_eq!(error("'abc"), said("'abc"));
        assert_eq!(error(r#""\q""#), format!("{}|{}", said(r#""\q"#), said("\"")));
    }
}
