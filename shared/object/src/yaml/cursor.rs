//! A place in the text of a YAML stream, and the classes of characters that libyaml tells apart.

/// Where a token begins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    /// Characters before it.
    pub index: usize,
    /// From 0.
    pub line: u64,
    /// From 0, in characters.
    pub column: i64,
}

/// `\0` stands for the end of the text.
pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

pub(super) fn is_breakz(c: char) -> bool {
    c == '\0' || is_break(c)
}

pub(super) fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

pub(super) fn is_blankz(c: char) -> bool {
    is_blank(c) || is_breakz(c)
}

/// Letters, digits, `_` and `-`.
pub(super) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

pub(super) struct Cursor<'a> {
    rest: &'a str,
    mark: Mark,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str) -> Cursor<'a> {
        Cursor {
            rest: text,
            mark: Mark::default(),
        }
    }

    pub fn mark(&self) -> Mark {
        self.mark
    }

    /// The n-th character ahead, `\0` beyond the end.
    pub fn peek(&self, n: usize) -> char {
        self.rest.chars().nth(n).unwrap_or('\0')
    }

    /// Moves over characters of a line.
    pub fn skip(&mut self, n: usize) {
        for _ in 0..n {
            let mut chars = self.rest.chars();
            if chars.next().is_none() {
                return;
            }
            self.rest = chars.as_str();
            self.mark.index += 1;
            self.mark.column += 1;
        }
    }

    /// Moves over characters of a line as long as they are wanted; returns them.
    pub fn skip_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !wanted(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        let count = taken.chars().count();
        self.rest = rest;
        self.mark.index += count;
        self.mark.column += count as i64;
        taken
    }

    /// Copies one character of a line.
    pub fn read(&mut self, into: &mut String) {
        into.push(self.peek(0));
        self.skip(1);
    }

    pub fn take_word(&mut self) -> String {
        self.skip_while(is_word).to_owned()
    }

    /// Moves over a line break, if there is one.
    pub fn skip_line(&mut self) {
        let c = self.peek(0);
        if !is_break(c) {
            return;
        }
        let width = if self.rest.starts_with("\r\n") { 2 } else { c.len_utf8() };
        self.rest = &self.rest[width..];
        self.mark.index += if c == '\r' && width == 2 { 2 } else { 1 };
        self.mark.column = 0;
        self.mark.line += 1;
    }

    /// Copies a line break: as `\n`, but for Unicode's own.
    pub fn read_line(&mut self, into: &mut String) {
        let c = self.peek(0);
        if is_break(c) {
            into.push(if matches!(c, '\u{2028}' | '\u{2029}') { c } else { '\n' });
            self.skip_line();
        }
    }

    /// The end of the text counts as the beginning of a line.
    pub fn end_line(&mut self) {
        if self.mark.column != 0 {
            self.mark.column = 0;
            self.mark.line += 1;
        }
    }

    /// `---` or `...`, and then a blank.
    pub fn at_document_indicator(&self) -> bool {
        (self.rest.starts_with("---") || self.rest.starts_with("...")) && is_blankz(self.peek(3))
    }
}
