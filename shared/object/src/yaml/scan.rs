//! From characters to tokens: libyaml's scanner, whose rules and messages go-yaml's errors are.
//!
//! Contract: equal to the scanner of go-yaml v2 in what it accepts, in its messages and in the lines it blames. The
//! text ends in an endless row of NUL, which cannot occur in it. Simple keys (a key known to be one only when its `:`
//! appears) may delay a token; nothing is looked at twice but the innermost of them, so scanning is linear.

mod scalar;
mod tag;

use std::collections::VecDeque;

use super::Error;
use super::cursor::{Cursor, Mark, is_blank, is_blankz, is_break, is_breakz};

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    StreamStart,
    StreamEnd,
    Version { major: u8, minor: u8 },
    TagDirective { handle: String, prefix: String },
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(String),
    Anchor(String),
    Tag { handle: String, suffix: String },
    Scalar { value: String, plain: bool },
}

/// A token and the line it begins on, from 0.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    pub token: Token,
    pub line: u64,
}

/// Where a simple key may have begun.
#[derive(Clone, Copy, Debug, Default)]
struct SimpleKey {
    possible: bool,
    required: bool,
    token_number: usize,
    mark: Mark,
}

pub(super) struct Scanner<'a> {
    cursor: Cursor<'a>,
    tokens: VecDeque<Spot>,
    /// Tokens taken so far.
    taken: usize,
    started: bool,
    flow_level: usize,
    indent: i64,
    indents: Vec<i64>,
    simple_key_allowed: bool,
    /// One per flow level, and one for the block context; their token numbers ascend.
    simple_keys: Vec<SimpleKey>,
    max_depth: usize,
}

impl<'a> Scanner<'a> {
    /// Scans `text`, refusing more than `max_depth` levels of either kind.
    pub fn new(text: &'a str, max_depth: usize) -> Scanner<'a> {
        Scanner {
            cursor: Cursor::new(text),
            tokens: VecDeque::new(),
            taken: 0,
            started: false,
            flow_level: 0,
            indent: -1,
            indents: Vec::new(),
            simple_key_allowed: true,
            simple_keys: vec![SimpleKey::default()],
            max_depth,
        }
    }

    /// The next token, left in place. After the stream's end that stays the next one.
    pub fn peek(&mut self) -> Result<&Spot, Error> {
        while self.tokens.is_empty() || self.head_may_be_key()? {
            self.fetch()?;
        }
        // fetch() adds at least one token to an empty queue.
        self.tokens
            .front()
            .ok_or_else(|| Error::Yaml("unknown problem parsing YAML content".to_owned()))
    }

    /// Takes the next token, once it was looked at.
    pub fn skip(&mut self) {
        if self.tokens.front().is_some_and(|s| s.token != Token::StreamEnd) {
            self.tokens.pop_front();
            self.taken += 1;
        }
    }

    /// A scanner's error blames the line after the one the cursor is on, unless that is the first.
    fn error(&self, context: Mark, problem: &str) -> Error {
        let line = match self.cursor.mark().line {
            0 => context.line,
            line => line + 1,
        };
        located(line, problem)
    }

    fn push(&mut self, token: Token, mark: Mark) {
        self.tokens.push_back(Spot { token, line: mark.line });
    }

    /// Whether the token at the head might turn out to be a simple key.
    fn head_may_be_key(&mut self) -> Result<bool, Error> {
        let from = self.simple_keys.partition_point(|k| k.token_number < self.taken);
        for i in from..self.simple_keys.len() {
            if self.simple_keys[i].token_number > self.taken {
                break;
            }
            if self.still_possible(i)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A simple key ends on its line, within 1024 characters.
    fn still_possible(&mut self, i: usize) -> Result<bool, Error> {
        let key = self.simple_keys[i];
        let now = self.cursor.mark();
        if key.possible && (key.mark.line < now.line || key.mark.index + 1024 < now.index) {
            if key.required {
                return Err(self.error(key.mark, "could not find expected ':'"));
            }
            self.simple_keys[i].possible = false;
            return Ok(false);
        }
        Ok(key.possible)
    }

    fn save_simple_key(&mut self) -> Result<(), Error> {
        if !self.simple_key_allowed {
            return Ok(());
        }
        let mark = self.cursor.mark();
        let required = self.flow_level == 0 && self.indent == mark.column;
        let key = SimpleKey {
            possible: true,
            required,
            token_number: self.taken + self.tokens.len(),
            mark,
        };
        self.remove_simple_key()?;
        if let Some(last) = self.simple_keys.last_mut() {
            *last = key;
        }
        Ok(())
    }

    fn remove_simple_key(&mut self) -> Result<(), Error> {
        let Some(last) = self.simple_keys.last_mut() else {
            return Ok(());
        };
        let key = *last;
        last.possible = false;
        if key.possible && key.required {
            return Err(self.error(key.mark, "could not find expected ':'"));
        }
        Ok(())
    }

    fn too_deep(&self) -> Error {
        self.error(self.cursor.mark(), &format!("exceeded max depth of {}", self.max_depth))
    }

    /// Opens a block collection if the column is deeper than the current one; `at` is the token to insert before.
    fn roll_indent(&mut self, column: i64, at: Option<usize>, token: Token, mark: Mark) -> Result<(), Error> {
        if self.flow_level > 0 || self.indent >= column {
            return Ok(());
        }
        self.indents.push(self.indent);
        self.indent = column;
        if self.indents.len() > self.max_depth {
            return Err(self.too_deep());
        }
        let spot = Spot { token, line: mark.line };
        match at {
            Some(number) => self
                .tokens
                .insert(number.saturating_sub(self.taken).min(self.tokens.len()), spot),
            None => self.tokens.push_back(spot),
        }
        Ok(())
    }

    fn unroll_indent(&mut self, column: i64) {
        while self.flow_level == 0 && self.indent > column {
            self.push(Token::BlockEnd, self.cursor.mark());
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    fn fetch(&mut self) -> Result<(), Error> {
        if !self.started {
            self.started = true;
            self.push(Token::StreamStart, self.cursor.mark());
            return Ok(());
        }
        self.skip_to_token();
        let mark = self.cursor.mark();
        self.unroll_indent(mark.column);
        let (c, next) = (self.cursor.peek(0), self.cursor.peek(1));
        let in_flow = self.flow_level > 0;
        match c {
            '\0' => self.fetch_stream_end(),
            '%' if mark.column == 0 => self.fetch_directive(),
            '-' | '.' if mark.column == 0 && self.cursor.at_document_indicator() => {
                self.between_documents()?;
                self.cursor.skip(3);
                self.push(
                    if c == '-' {
                        Token::DocumentStart
                    } else {
                        Token::DocumentEnd
                    },
                    mark,
                );
                Ok(())
            }
            '[' => self.fetch_flow_start(Token::FlowSequenceStart),
            '{' => self.fetch_flow_start(Token::FlowMappingStart),
            ']' => self.fetch_flow_end(Token::FlowSequenceEnd),
            '}' => self.fetch_flow_end(Token::FlowMappingEnd),
            ',' => {
                self.remove_simple_key()?;
                self.simple_key_allowed = true;
                self.cursor.skip(1);
                self.push(Token::FlowEntry, mark);
                Ok(())
            }
            '-' if is_blankz(next) => self.fetch_block_entry(),
            '?' if in_flow || is_blankz(next) => self.fetch_key(),
            ':' if in_flow || is_blankz(next) => self.fetch_value(),
            '*' | '&' => {
                self.save_simple_key()?;
                self.simple_key_allowed = false;
                self.scan_anchor(c == '&')
            }
            '!' => {
                self.save_simple_key()?;
                self.simple_key_allowed = false;
                self.scan_tag()
            }
            '|' | '>' if !in_flow => {
                self.remove_simple_key()?;
                self.simple_key_allowed = true;
                self.scan_block_scalar(c == '|')
            }
            '\'' | '"' => {
                self.save_simple_key()?;
                self.simple_key_allowed = false;
                self.scan_quoted_scalar(c)
            }
            '-' if !is_blank(next) => self.fetch_plain(),
            '?' | ':' if !in_flow && !is_blankz(next) => self.fetch_plain(),
            '-' | '?' | ':' | '#' | '|' | '>' | '%' | '@' | '`' | ' ' | '\t' => {
                Err(self.error(mark, "found character that cannot start any token"))
            }
            _ => self.fetch_plain(),
        }
    }

    /// Skips blanks, comments and line breaks. Tabs separate tokens only where no simple key could begin.
    fn skip_to_token(&mut self) {
        loop {
            if self.cursor.mark().column == 0 && self.cursor.peek(0) == '\u{feff}' {
                self.cursor.skip(1);
            }
            loop {
                match self.cursor.peek(0) {
                    ' ' => self.cursor.skip(1),
                    '\t' if self.flow_level > 0 || !self.simple_key_allowed => self.cursor.skip(1),
                    _ => break,
                }
            }
            if self.cursor.peek(0) == '#' {
                self.cursor.skip_while(|c| !is_breakz(c));
            }
            if !is_break(self.cursor.peek(0)) {
                return;
            }
            self.cursor.skip_line();
            if self.flow_level == 0 {
                self.simple_key_allowed = true;
            }
        }
    }

    fn fetch_stream_end(&mut self) -> Result<(), Error> {
        self.cursor.end_line();
        self.between_documents()?;
        self.push(Token::StreamEnd, self.cursor.mark());
        Ok(())
    }

    fn between_documents(&mut self) -> Result<(), Error> {
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        Ok(())
    }

    fn fetch_flow_start(&mut self, token: Token) -> Result<(), Error> {
        self.save_simple_key()?;
        let mark = self.cursor.mark();
        let token_number = self.taken + self.tokens.len();
        self.simple_keys.push(SimpleKey {
            token_number,
            mark,
            ..SimpleKey::default()
        });
        self.flow_level += 1;
        if self.flow_level > self.max_depth {
            return Err(self.too_deep());
        }
        self.simple_key_allowed = true;
        self.cursor.skip(1);
        self.push(token, mark);
        Ok(())
    }

    fn fetch_flow_end(&mut self, token: Token) -> Result<(), Error> {
        self.remove_simple_key()?;
        if self.flow_level > 0 {
            self.flow_level -= 1;
            self.simple_keys.pop();
        }
        self.simple_key_allowed = false;
        let mark = self.cursor.mark();
        self.cursor.skip(1);
        self.push(token, mark);
        Ok(())
    }

    fn fetch_block_entry(&mut self) -> Result<(), Error> {
        let mark = self.cursor.mark();
        if self.flow_level == 0 {
            if !self.simple_key_allowed {
                return Err(self.error(mark, "block sequence entries are not allowed in this context"));
            }
            self.roll_indent(mark.column, None, Token::BlockSequenceStart, mark)?;
        }
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.cursor.skip(1);
        self.push(Token::BlockEntry, mark);
        Ok(())
    }

    fn fetch_key(&mut self) -> Result<(), Error> {
        let mark = self.cursor.mark();
        if self.flow_level == 0 {
            if !self.simple_key_allowed {
                return Err(self.error(mark, "mapping keys are not allowed in this context"));
            }
            self.roll_indent(mark.column, None, Token::BlockMappingStart, mark)?;
        }
        self.remove_simple_key()?;
        self.simple_key_allowed = self.flow_level == 0;
        self.cursor.skip(1);
        self.push(Token::Key, mark);
        Ok(())
    }

    fn fetch_value(&mut self) -> Result<(), Error> {
        let mark = self.cursor.mark();
        let innermost = self.simple_keys.len() - 1;
        if self.still_possible(innermost)? {
            let key = self.simple_keys[innermost];
            let at = key.token_number.saturating_sub(self.taken).min(self.tokens.len());
            self.tokens.insert(
                at,
                Spot {
                    token: Token::Key,
                    line: key.mark.line,
                },
            );
            let number = Some(key.token_number);
            self.roll_indent(key.mark.column, number, Token::BlockMappingStart, key.mark)?;
            self.simple_keys[innermost].possible = false;
            self.simple_key_allowed = false;
        } else {
            if self.flow_level == 0 {
                if !self.simple_key_allowed {
                    return Err(self.error(mark, "mapping values are not allowed in this context"));
                }
                self.roll_indent(mark.column, None, Token::BlockMappingStart, mark)?;
            }
            self.simple_key_allowed = self.flow_level == 0;
        }
        self.cursor.skip(1);
        self.push(Token::Value, mark);
        Ok(())
    }

    fn fetch_plain(&mut self) -> Result<(), Error> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        self.scan_plain_scalar()
    }

    fn scan_anchor(&mut self, anchor: bool) -> Result<(), Error> {
        let mark = self.cursor.mark();
        self.cursor.skip(1);
        let name = self.cursor.take_word();
        let after = self.cursor.peek(0);
        let ended = is_blankz(after) || matches!(after, '?' | ':' | ',' | ']' | '}' | '%' | '@' | '`');
        if name.is_empty() || !ended {
            return Err(self.error(mark, "did not find expected alphabetic or numeric character"));
        }
        self.push(
            if anchor {
                Token::Anchor(name)
            } else {
                Token::Alias(name)
            },
            mark,
        );
        Ok(())
    }
}

/// go-yaml's text: with the line, unless that is 0.
pub(super) fn located(line: u64, problem: &str) -> Error {
    Error::Yaml(if line == 0 {
        problem.to_owned()
    } else {
        format!("line {line}: {problem}")
    })
}
