//! What is said of a text that is not of the language, as ANTLR's parser says it.

use crate::lexer::{Kind, Token};
use crate::source::{Issues, Source};

/// Finds the syntax errors of a text that could not be parsed.
pub fn explain(source: &Source, tokens: &[Token], issues: &mut Issues) {
    let last = tokens.iter().find(|t| t.kind == Kind::Eof);
    let location = source.location(last.map_or(0, |t| t.start));
    issues.push(
        location,
        format!("Syntax error: mismatched input '{}'", Kind::Eof.display()),
    );
}
