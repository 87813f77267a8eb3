//! Scalars: literal and folded blocks, quoted text, plain text.

use super::{Scanner, Token};
use crate::yaml::Error;
use crate::yaml::cursor::{Mark, is_blank, is_blankz, is_break, is_breakz};

/// White space within a quoted or plain scalar, to be folded when more text follows.
#[derive(Default)]
struct Gap {
    /// Spaces before the first line break.
    spaces: String,
    /// Whether there was a line break (or an escaped one).
    lines: bool,
    first_break: String,
    more_breaks: String,
}

impl Gap {
    /// Appends what the gap stands for: a line break alone is a space, further ones are kept.
    fn fold_into(&mut self, text: &mut String) {
        if !self.lines {
            text.push_str(&self.spaces);
        } else if self.first_break.starts_with('\n') {
            text.push_str(if self.more_breaks.is_empty() {
                " "
            } else {
                &self.more_breaks
            });
        } else {
            text.push_str(&self.first_break);
            text.push_str(&self.more_breaks);
        }
        *self = Gap::default();
    }
}

enum Chomp {
    Strip,
    Clip,
    Keep,
}

impl Scanner<'_> {
    /// Reads one blank or line break into the gap.
    fn read_gap(&mut self, gap: &mut Gap) {
        if is_blank(self.cursor.peek(0)) {
            match gap.lines {
                true => self.cursor.skip(1),
                false => self.cursor.read(&mut gap.spaces),
            }
        } else if gap.lines {
            self.cursor.read_line(&mut gap.more_breaks);
        } else {
            gap.spaces.clear();
            gap.lines = true;
            self.cursor.read_line(&mut gap.first_break);
        }
    }

    pub(super) fn scan_plain_scalar(&mut self) -> Result<(), Error> {
        let mark = self.cursor.mark();
        let indent = self.indent + 1;
        let in_flow = self.flow_level > 0;
        let mut text = String::new();
        let mut gap = Gap::default();
        loop {
            if self.cursor.mark().column == 0 && self.cursor.at_document_indicator() {
                break;
            }
            let c = self.cursor.peek(0);
            if c == '#' {
                break;
            }
            let before = self.cursor.mark().index;
            loop {
                let c = self.cursor.peek(0);
                let ends = (c == ':' && is_blankz(self.cursor.peek(1)))
                    || (in_flow && matches!(c, ',' | '?' | '[' | ']' | '{' | '}'));
                if is_blankz(c) || ends {
                    break;
                }
                if self.cursor.mark().index == before {
                    gap.fold_into(&mut text);
                }
                self.cursor.read(&mut text);
            }
            let c = self.cursor.peek(0);
            if !(is_blank(c) || is_break(c)) {
                break;
            }
            while is_blank(self.cursor.peek(0)) || is_break(self.cursor.peek(0)) {
                if gap.lines && self.cursor.mark().column < indent && self.cursor.peek(0) == '\t' {
                    return Err(self.error(mark, "found a tab character that violates indentation"));
                }
                self.read_gap(&mut gap);
            }
            if !in_flow && self.cursor.mark().column < indent {
                break;
            }
        }
        if gap.lines {
            self.simple_key_allowed = true;
        }
        self.push(
            Token::Scalar {
                value: text,
                plain: true,
            },
            mark,
        );
        Ok(())
    }

    pub(super) fn scan_quoted_scalar(&mut self, quote: char) -> Result<(), Error> {
        let mark = self.cursor.mark();
        self.cursor.skip(1);
        let mut text = String::new();
        loop {
            if self.cursor.mark().column == 0 && self.cursor.at_document_indicator() {
                return Err(self.error(mark, "found unexpected document indicator"));
            }
            if self.cursor.peek(0) == '\0' {
                return Err(self.error(mark, "found unexpected end of stream"));
            }
            let mut gap = Gap::default();
            while !is_blankz(self.cursor.peek(0)) {
                match (self.cursor.peek(0), self.cursor.peek(1)) {
                    ('\'', '\'') if quote == '\'' => {
                        text.push('\'');
                        self.cursor.skip(2);
                    }
                    (c, _) if c == quote => break,
                    ('\\', next) if quote == '"' && is_break(next) => {
                        self.cursor.skip(1);
                        self.cursor.skip_line();
                        gap.lines = true;
                        break;
                    }
                    ('\\', next) if quote == '"' => self.scan_escape(next, &mut text, mark)?,
                    _ => self.cursor.read(&mut text),
                }
            }
            if self.cursor.peek(0) == quote {
                break;
            }
            while is_blank(self.cursor.peek(0)) || is_break(self.cursor.peek(0)) {
                self.read_gap(&mut gap);
            }
            gap.fold_into(&mut text);
        }
        self.cursor.skip(1);
        self.push(
            Token::Scalar {
                value: text,
                plain: false,
            },
            mark,
        );
        Ok(())
    }

    fn scan_escape(&mut self, code: char, text: &mut String, mark: Mark) -> Result<(), Error> {
        let digits = match code {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => 0,
        };
        if digits == 0 {
            text.push(match code {
                '0' => '\0',
                'a' => '\u{7}',
                'b' => '\u{8}',
                't' | '\t' => '\t',
                'n' => '\n',
                'v' => '\u{b}',
                'f' => '\u{c}',
                'r' => '\r',
                'e' => '\u{1b}',
                ' ' | '"' | '\'' | '\\' => code,
                'N' => '\u{85}',
                '_' => '\u{a0}',
                'L' => '\u{2028}',
                'P' => '\u{2029}',
                _ => return Err(self.error(mark, "found unknown escape character")),
            });
            self.cursor.skip(2);
            return Ok(());
        }
        self.cursor.skip(2);
        let mut value = 0u32;
        for n in 0..digits {
            let Some(digit) = self.cursor.peek(n).to_digit(16) else {
                return Err(self.error(mark, "did not find expected hexdecimal number"));
            };
            value = value.wrapping_shl(4) | digit;
        }
        let Some(c) = char::from_u32(value) else {
            return Err(self.error(mark, "found invalid Unicode character escape code"));
        };
        text.push(c);
        self.cursor.skip(digits);
        Ok(())
    }

    /// The indicators after `|` or `>`: how the end is chomped and how deep the text is indented (0: as it turns out).
    fn scan_block_header(&mut self, mark: Mark) -> Result<(Chomp, i64), Error> {
        let (mut chomp, mut increment) = (Chomp::Clip, 0);
        let (mut chomp_given, mut digit_given) = (false, false);
        loop {
            let c = self.cursor.peek(0);
            match c {
                '+' | '-' if !chomp_given => {
                    chomp = if c == '+' { Chomp::Keep } else { Chomp::Strip };
                    chomp_given = true;
                }
                '0' if !digit_given => {
                    return Err(self.error(mark, "found an indentation indicator equal to 0"));
                }
                '1'..='9' if !digit_given => {
                    increment = i64::from(c as u32 - '0' as u32);
                    digit_given = true;
                }
                _ => break,
            }
            self.cursor.skip(1);
        }
        self.cursor.skip_while(is_blank);
        if self.cursor.peek(0) == '#' {
            self.cursor.skip_while(|c| !is_breakz(c));
        }
        if !is_breakz(self.cursor.peek(0)) {
            return Err(self.error(mark, "did not find expected comment or line break"));
        }
        self.cursor.skip_line();
        Ok((chomp, increment))
    }

    pub(super) fn scan_block_scalar(&mut self, literal: bool) -> Result<(), Error> {
        let mark = self.cursor.mark();
        self.cursor.skip(1);
        let (chomp, increment) = self.scan_block_header(mark)?;
        let mut indent = if increment > 0 {
            self.indent.max(0) + increment
        } else {
            0
        };
        let (mut text, mut last_break, mut more_breaks) = (String::new(), String::new(), String::new());
        self.scan_block_breaks(&mut indent, &mut more_breaks, mark)?;
        let mut leading_blank = false;
        while self.cursor.mark().column == indent && self.cursor.peek(0) != '\0' {
            let blank = is_blank(self.cursor.peek(0));
            if !literal && !leading_blank && !blank && last_break.starts_with('\n') {
                if more_breaks.is_empty() {
                    text.push(' ');
                }
            } else {
                text.push_str(&last_break);
            }
            last_break.clear();
            text.push_str(&more_breaks);
            more_breaks.clear();
            leading_blank = blank;
            text.push_str(self.cursor.skip_while(|c| !is_breakz(c)));
            self.cursor.read_line(&mut last_break);
            self.scan_block_breaks(&mut indent, &mut more_breaks, mark)?;
        }
        if !matches!(chomp, Chomp::Strip) {
            text.push_str(&last_break);
        }
        if matches!(chomp, Chomp::Keep) {
            text.push_str(&more_breaks);
        }
        self.push(
            Token::Scalar {
                value: text,
                plain: false,
            },
            mark,
        );
        Ok(())
    }

    /// Skips indentation and empty lines; finds out the indentation if that is not known.
    fn scan_block_breaks(&mut self, indent: &mut i64, breaks: &mut String, mark: Mark) -> Result<(), Error> {
        let mut deepest = 0;
        loop {
            while (*indent == 0 || self.cursor.mark().column < *indent) && self.cursor.peek(0) == ' ' {
                self.cursor.skip(1);
            }
            let column = self.cursor.mark().column;
            deepest = deepest.max(column);
            if (*indent == 0 || column < *indent) && self.cursor.peek(0) == '\t' {
                return Err(self.error(mark, "found a tab character where an indentation space is expected"));
            }
            if !is_break(self.cursor.peek(0)) {
                break;
            }
            self.cursor.read_line(breaks);
        }
        if *indent == 0 {
            *indent = deepest.max(self.indent + 1).max(1);
        }
        Ok(())
    }
}
