//! The text of an expression, places in it, and what is said of it when it does not compile.
//!
//! Contract: [`Issues`] displays as cel-go's `Issues.String()` does, sorted by place, with the source line and a caret.
//! Places count code points, lines from 1, columns from 0.

use std::fmt;
use std::sync::Arc;

/// More issues than this are counted only.
const MAX_REPORTED: usize = 100;
/// A longer line is not quoted.
const MAX_SNIPPET: usize = 16384;

/// An expression's text by code points.
#[derive(Clone, Debug)]
pub struct Source {
    chars: Arc<[char]>,
}

/// A place in a source: line from 1, column from 0; `-1` in both is nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// From 1.
    pub line: i64,
    /// From 0, in code points.
    pub column: i64,
}

impl Location {
    /// No place in particular.
    pub const NONE: Location = Location { line: -1, column: -1 };
}

impl Source {
    /// Takes the text apart.
    pub fn new(text: &str) -> Source {
        Source {
            chars: text.chars().collect(),
        }
    }

    /// Its code points.
    pub fn chars(&self) -> &[char] {
        &self.chars
    }

    /// The text between two offsets.
    pub fn slice(&self, start: usize, end: usize) -> String {
        let end = end.min(self.chars.len());
        self.chars[start.min(end)..end].iter().collect()
    }

    /// Line and column of an offset.
    pub fn location(&self, offset: usize) -> Location {
        let before = &self.chars[..offset.min(self.chars.len())];
        let line = before.iter().filter(|c| **c == '\n').count();
        let start = before.iter().rposition(|c| *c == '\n').map_or(0, |i| i + 1);
        Location {
            line: line as i64 + 1,
            column: (offset - start) as i64,
        }
    }

    fn line(&self, number: i64) -> Option<String> {
        if number < 1 || self.chars.is_empty() {
            return None;
        }
        let line = self.chars.split(|c| *c == '\n').nth(number as usize - 1)?;
        Some(line.iter().collect())
    }
}

/// Something wrong with an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Where.
    pub location: Location,
    /// What.
    pub message: String,
}

/// All that is wrong with an expression.
#[derive(Clone, Debug)]
pub struct Issues {
    source: Source,
    list: Vec<Issue>,
    more: usize,
}

impl Issues {
    /// None yet.
    pub fn new(source: Source) -> Issues {
        Issues {
            source,
            list: Vec::new(),
            more: 0,
        }
    }

    /// Adds one; beyond a hundred they are only counted.
    pub fn push(&mut self, location: Location, message: impl Into<String>) {
        if self.list.len() < MAX_REPORTED {
            let message = message.into();
            self.list.push(Issue { location, message });
        } else {
            self.more += 1;
        }
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// What was found, in the order it was found.
    pub fn list(&self) -> &[Issue] {
        &self.list
    }

    /// The text they are about.
    pub fn source(&self) -> &Source {
        &self.source
    }

    fn write(&self, issue: &Issue, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Location { line, column } = issue.location;
        write!(f, "ERROR: <input>:{line}:{}: {}", column + 1, issue.message)?;
        let Some(snippet) = self.source.line(line).filter(|s| s.len() <= MAX_SNIPPET) else {
            return Ok(());
        };
        write!(f, "\n | {}\n | ", snippet.replace('\t', " "))?;
        let wide = |c: Option<char>| c.is_some_and(|c| c.len_utf8() > 1);
        let mut chars = snippet.chars();
        for _ in 0..column {
            let Some(c) = chars.next() else { break };
            f.write_str(if wide(Some(c)) { "\u{ff0e}" } else { "." })?;
        }
        f.write_str(if wide(chars.next()) { "\u{ff3e}" } else { "^" })
    }
}

impl fmt::Display for Issues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted: Vec<&Issue> = self.list.iter().collect();
        sorted.sort_by_key(|issue| issue.location);
        for (i, issue) in sorted.into_iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            self.write(issue, f)?;
        }
        if self.more > 0 {
            write!(f, "\n{} more errors were truncated", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for Issues {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issues_are_sorted_and_point_at_their_place() {
        let mut issues = Issues::new(Source::new("a +\n\té b"));
        issues.push(Location { line: 2, column: 3 }, "second");
        issues.push(Location { line: 1, column: 0 }, "first");
        issues.push(Location::NONE, "nowhere");
        assert_eq!(
            issues.to_string(),
            "ERROR: <input>:-1:0: nowhere\nERROR: <input>:1:1: first\n | a +\n | ^\nERROR: <input>:2:4: second\n |  é b\n | .\u{ff0e}.^"
        );
    }

    #[test]
    fn places_are_found_by_offset() {
        let source = Source::new("ab\nc");
        assert_eq!(source.location(3), Location { line: 2, column: 0 });
        assert_eq!(source.location(4), Location { line: 2, column: 1 });
    }
}
