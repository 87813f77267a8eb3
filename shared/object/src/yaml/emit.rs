//! YAML out: the text that `sigs.k8s.io/yaml` marshals.
//!
//! Contract: byte for byte go-yaml v2's emitter for what JSON can hold: block style, two spaces, lists not indented
//! below their key, keys in its "natural" order, text folded after 80 columns, plain where that reads back as the same
//! text, else quoted. libyaml's state (`whitespace`, `indention`) is kept under its own names, since its rules for
//! breaking lines are stated in it.

use std::cmp::Ordering;

use super::resolve::{Resolved, untagged};
use crate::value::{Object, Value};

const INDENT: i32 = 2;
const WIDTH: usize = 80;

/// Writes a value as one document.
pub fn to_string(value: &Value) -> String {
    let mut e = Emitter {
        out: String::with_capacity(1024),
        column: 0,
        indent: -1,
        whitespace: true,
        indention: true,
    };
    e.node(value, false);
    e.write_indent();
    e.out
}

#[derive(Clone, Copy, PartialEq)]
enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Literal,
}

struct Emitter {
    out: String,
    column: usize,
    indent: i32,
    /// The last character was a space or an indicator that counts as one.
    whitespace: bool,
    /// Nothing but indentation and `-`, `?`, `:` stands on the line so far.
    indention: bool,
}

impl Emitter {
    fn put(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
    }

    fn put_break(&mut self) {
        self.out.push('\n');
        self.column = 0;
    }

    fn write_indent(&mut self) {
        let indent = usize::try_from(self.indent).unwrap_or(0);
        if !self.indention || self.column > indent || (self.column == indent && !self.whitespace) {
            self.put_break();
        }
        while self.column < indent {
            self.put(' ');
        }
        self.whitespace = true;
        self.indention = true;
    }

    fn indicator(&mut self, text: &str, need_whitespace: bool, is_whitespace: bool, is_indention: bool) {
        if need_whitespace && !self.whitespace {
            self.put(' ');
        }
        self.out.push_str(text);
        self.column += text.len();
        self.whitespace = is_whitespace;
        self.indention = self.indention && is_indention;
    }

    /// `in_mapping`: the node is a key or value of a mapping.
    fn node(&mut self, value: &Value, in_mapping: bool) {
        match value {
            Value::Null => self.scalar("null", Style::Plain, false),
            Value::Bool(true) => self.scalar("true", Style::Plain, false),
            Value::Bool(false) => self.scalar("false", Style::Plain, false),
            Value::Int(i) => self.scalar(itoa::Buffer::new().format(*i), Style::Plain, false),
            Value::Float(f) => self.scalar(&float_text(*f), Style::Plain, false),
            Value::String(s) => self.scalar(s, wanted_style(s), false),
            Value::Array(items) if items.is_empty() => self.empty("[", "]"),
            Value::Array(items) => {
                let outer = self.indent;
                self.increase_indent(in_mapping && !self.indention);
                for item in items {
                    self.write_indent();
                    self.indicator("-", true, false, true);
                    self.node(item, false);
                }
                self.indent = outer;
            }
            Value::Object(map) if map.is_empty() => self.empty("{", "}"),
            Value::Object(map) => self.mapping(map),
        }
    }

    fn empty(&mut self, open: &str, close: &str) {
        self.indicator(open, true, true, false);
        self.indicator(close, false, false, false);
    }

    fn increase_indent(&mut self, indentless: bool) {
        if self.indent < 0 {
            self.indent = 0;
        } else if !indentless {
            self.indent += INDENT;
        }
    }

    fn mapping(&mut self, map: &Object) {
        let outer = self.indent;
        self.increase_indent(false);
        let mut members: Vec<(&str, &Value)> = map.iter().collect();
        members.sort_by(|a, b| natural_order(a.0, b.0));
        for (key, value) in members {
            self.write_indent();
            if key.len() <= 128 && !key.chars().any(is_break) {
                self.scalar(key, wanted_style(key), true);
                self.indicator(":", false, false, false);
            } else {
                self.indicator("?", true, false, true);
                self.scalar(key, wanted_style(key), false);
                self.write_indent();
                self.indicator(":", true, false, true);
            }
            self.node(value, true);
        }
        self.indent = outer;
    }

    fn scalar(&mut self, text: &str, wanted: Style, simple_key: bool) {
        let style = select_style(text, wanted, simple_key);
        let outer = self.indent;
        self.indent = if outer < 0 { INDENT } else { outer + INDENT };
        match style {
            Style::Plain => self.plain(text, !simple_key),
            Style::SingleQuoted => self.single_quoted(text, !simple_key),
            Style::DoubleQuoted => self.double_quoted(text, !simple_key),
            Style::Literal => self.literal(text),
        }
        self.indent = outer;
    }

    /// A space inside text that may be folded here; true if it was turned into a line break.
    fn fold(&mut self, may_break: bool) -> bool {
        if may_break && self.column > WIDTH {
            self.write_indent();
            return true;
        }
        self.put(' ');
        false
    }

    fn plain(&mut self, text: &str, allow_breaks: bool) {
        if !self.whitespace {
            self.put(' ');
        }
        let mut spaces = false;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            if c == ' ' {
                self.fold(allow_breaks && !spaces && chars.peek() != Some(&' '));
                spaces = true;
            } else {
                self.put(c);
                self.indention = false;
                spaces = false;
            }
        }
        self.whitespace = false;
        self.indention = false;
    }

    fn single_quoted(&mut self, text: &str, allow_breaks: bool) {
        self.indicator("'", true, false, false);
        let (mut spaces, mut breaks, mut first) = (false, false, true);
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            if c == ' ' {
                let inner = !first && chars.peek().is_some_and(|c| *c != ' ');
                self.fold(allow_breaks && !spaces && inner);
                spaces = true;
            } else if is_break(c) {
                if !breaks && c == '\n' {
                    self.put_break();
                }
                self.write_break(c);
                self.indention = true;
                breaks = true;
            } else {
                if breaks {
                    self.write_indent();
                }
                if c == '\'' {
                    self.put('\'');
                }
                self.put(c);
                self.indention = false;
                spaces = false;
                breaks = false;
            }
            first = false;
        }
        self.indicator("'", false, false, false);
        self.whitespace = false;
        self.indention = false;
    }

    fn double_quoted(&mut self, text: &str, allow_breaks: bool) {
        self.indicator("\"", true, false, false);
        // libyaml looks for the byte order mark at the text's beginning only, so such a text is escaped throughout.
        let marked = text.starts_with('\u{feff}');
        let (mut spaces, mut first) = (false, true);
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            if marked || !is_printable(c) || is_break(c) || matches!(c, '"' | '\\') {
                self.escaped(c);
                spaces = false;
            } else if c == ' ' {
                let inner = !first && chars.peek().is_some();
                let next_is_space = chars.peek() == Some(&' ');
                if self.fold(allow_breaks && !spaces && inner) && next_is_space {
                    self.put('\\');
                }
                spaces = true;
            } else {
                self.put(c);
                spaces = false;
            }
            first = false;
        }
        self.indicator("\"", false, false, false);
        self.whitespace = false;
        self.indention = false;
    }

    fn escaped(&mut self, c: char) {
        self.put('\\');
        let short = match c {
            '\0' => '0',
            '\u{7}' => 'a',
            '\u{8}' => 'b',
            '\t' => 't',
            '\n' => 'n',
            '\u{b}' => 'v',
            '\u{c}' => 'f',
            '\r' => 'r',
            '\u{1b}' => 'e',
            '"' | '\\' => c,
            '\u{85}' => 'N',
            '\u{a0}' => '_',
            '\u{2028}' => 'L',
            '\u{2029}' => 'P',
            c => {
                let code = match c as u32 {
                    n @ 0..=0xff => format!("x{n:02X}"),
                    n @ 0..=0xffff => format!("u{n:04X}"),
                    n => format!("U{n:08X}"),
                };
                self.out.push_str(&code);
                self.column += code.len();
                return;
            }
        };
        self.put(short);
    }

    fn literal(&mut self, text: &str) {
        self.indicator("|", true, false, false);
        if text.starts_with(|c| c == ' ' || is_break(c)) {
            self.indicator("2", false, false, false);
        }
        let mut backwards = text.chars().rev();
        match (backwards.next().is_some_and(is_break), backwards.next()) {
            (false, _) => self.indicator("-", false, false, false),
            (true, None) => self.indicator("+", false, false, false),
            (true, Some(c)) if is_break(c) => self.indicator("+", false, false, false),
            _ => {}
        }
        self.put_break();
        self.indention = true;
        self.whitespace = true;
        let mut breaks = true;
        for c in text.chars() {
            if is_break(c) {
                self.write_break(c);
                self.indention = true;
                breaks = true;
            } else {
                if breaks {
                    self.write_indent();
                }
                self.put(c);
                self.indention = false;
                breaks = false;
            }
        }
    }

    fn write_break(&mut self, c: char) {
        self.out.push(c);
        self.column = 0;
    }
}

fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}') && c != '\u{feff}'
}

/// What go-yaml asks of its emitter for a text.
fn wanted_style(text: &str) -> Style {
    if text.contains('\n') {
        Style::Literal
    } else if untagged(text, true) == Resolved::Text && !is_base60(text) {
        Style::Plain
    } else {
        Style::DoubleQuoted
    }
}

/// `^[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?$`: numbers to base 60, which YAML 1.1 has.
fn is_base60(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (text, fraction) = match text.split_once('.') {
        Some((t, f)) => (t, f),
        None => (text, ""),
    };
    let digit = |b: u8| b.is_ascii_digit();
    let digits = |s: &str| s.bytes().all(|b| digit(b) || b == b'_');
    let mut parts = text.split(':');
    let first = parts.next().unwrap_or("");
    let mut more = 0;
    let fits = parts.all(|p| {
        more += 1;
        match p.as_bytes() {
            [d] => digit(*d),
            [t, d] => (b'0'..=b'5').contains(t) && digit(*d),
            _ => false,
        }
    });
    fits && more > 0 && first.starts_with(|c: char| c.is_ascii_digit()) && digits(first) && digits(fraction)
}

/// libyaml's analysis of a text, and the style it leaves of the one wanted.
fn select_style(text: &str, wanted: Style, simple_key: bool) -> Style {
    let a = Analysis::of(text);
    let mut style = wanted;
    if simple_key && a.multiline {
        style = Style::DoubleQuoted;
    }
    if style == Style::Plain && (!a.plain_allowed || (text.is_empty() && simple_key)) {
        style = Style::SingleQuoted;
    }
    if style == Style::SingleQuoted && !a.single_quoted_allowed {
        style = Style::DoubleQuoted;
    }
    if style == Style::Literal && (!a.block_allowed || simple_key) {
        style = Style::DoubleQuoted;
    }
    style
}

struct Analysis {
    multiline: bool,
    plain_allowed: bool,
    single_quoted_allowed: bool,
    block_allowed: bool,
}

impl Analysis {
    fn of(text: &str) -> Analysis {
        if text.is_empty() {
            return Analysis {
                multiline: false,
                plain_allowed: true,
                single_quoted_allowed: true,
                block_allowed: false,
            };
        }
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let (mut line_breaks, mut special) = (false, false);
        let (mut break_space, mut space_break) = (false, false);
        let (mut previous_space, mut previous_break) = (false, false);
        let mut preceded_by_whitespace = true;
        let mut chars = text.chars().peekable();
        let mut first = true;
        while let Some(c) = chars.next() {
            let followed_by_whitespace = chars.peek().is_none_or(|c| matches!(c, ' ' | '\t'));
            indicators |= match c {
                '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`'
                    if first =>
                {
                    true
                }
                '?' | '-' if first => followed_by_whitespace,
                ':' => followed_by_whitespace,
                '#' => preceded_by_whitespace,
                _ => false,
            };
            special |= !is_printable(c);
            if c == ' ' {
                break_space |= previous_break;
                (previous_space, previous_break) = (true, false);
            } else if is_break(c) {
                line_breaks = true;
                space_break |= previous_space;
                (previous_space, previous_break) = (false, true);
            } else {
                (previous_space, previous_break) = (false, false);
            }
            preceded_by_whitespace = matches!(c, ' ' | '\t' | '\0') || is_break(c);
            first = false;
        }
        let edge = |c: Option<char>| c.is_some_and(|c| c == ' ' || is_break(c));
        let edges = edge(text.chars().next()) || edge(text.chars().next_back());
        let hard = space_break || special;
        Analysis {
            multiline: line_breaks,
            plain_allowed: !(edges || break_space || hard || line_breaks || indicators),
            single_quoted_allowed: !(break_space || hard),
            block_allowed: !(text.ends_with(' ') || hard),
        }
    }
}

/// go-yaml's order of keys: digits as numbers, letters after everything else.
fn natural_order(a: &str, b: &str) -> Ordering {
    let (ar, br): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let digit = |c: Option<&char>| c.is_some_and(char::is_ascii_digit);
    for i in 0..ar.len().min(br.len()) {
        if ar[i] == br[i] {
            continue;
        }
        let (al, bl) = (ar[i].is_alphabetic(), br[i].is_alphabetic());
        if al && bl {
            return ar[i].cmp(&br[i]);
        }
        if al || bl {
            return if bl { Ordering::Less } else { Ordering::Greater };
        }
        let (mut an, mut bn) = (0i64, 0i64);
        if ar[i] == '0' || br[i] == '0' {
            let before = ar[..i].iter().rev().take_while(|c| digit(Some(c)));
            if before.clone().any(|c| *c != '0') {
                (an, bn) = (1, 1);
            }
        }
        let (mut ai, mut bi) = (i, i);
        while digit(ar.get(ai)) {
            an = an.wrapping_mul(10).wrapping_add(i64::from(ar[ai] as u32) - 48);
            ai += 1;
        }
        while digit(br.get(bi)) {
            bn = bn.wrapping_mul(10).wrapping_add(i64::from(br[bi] as u32) - 48);
            bi += 1;
        }
        return an.cmp(&bn).then(ai.cmp(&bi)).then(ar[i].cmp(&br[i]));
    }
    ar.len().cmp(&br.len())
}

/// A float read back from JSON: an integer if JSON writes it like one that fits 64 bits.
fn float_text(f: f64) -> String {
    let json = crate::json::to_string(&Value::Float(f));
    if json.parse::<i64>().is_ok() || json.parse::<u64>().is_ok() {
        json
    } else {
        crate::json::general_float(f)
    }
}
