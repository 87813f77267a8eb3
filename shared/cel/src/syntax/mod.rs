//! What is said of a text that is not of the language, as the parser that ANTLR makes of CEL's grammar says it.
//!
//! Contract: only texts that [`crate::parser`] could not parse come here. [`grammar`] is the grammar as ANTLR's state machine, [`predict`] ANTLR's choice
//! between alternatives, [`recover`] its default error strategy; together they find where that parser would stop, what it says, and how it goes on.
//! Work is bounded by upstream's limits on recoveries and depth.

mod grammar;
mod predict;
mod recover;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use crate::lexer::{Kind, Token};
use crate::source::{Issues, Location, Source};
use grammar::Grammar;
use recover::Parser;

/// The grammar never changes: it is built once.
static GRAMMAR: LazyLock<Grammar> = LazyLock::new(Grammar::new);

/// Brackets nested more deeply than this need more stack than callers may have.
const SHALLOW: usize = 30;
const STACK: usize = 64 << 20;

/// Finds the syntax errors of a text that could not be parsed.
pub fn explain(source: &Source, tokens: &[Token], issues: &mut Issues) {
    let before = issues.list().len();
    let found = if depth(tokens) <= SHALLOW {
        errors(source, tokens)
    } else {
        // The depth is bounded, but by more than the stack of a task.
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(STACK);
            let running = thread.spawn_scoped(scope, || errors(source, tokens));
            running.ok().and_then(|handle| handle.join().ok()).unwrap_or_default()
        })
    };
    for (location, message) in found {
        issues.push(location, message);
    }
    if issues.list().len() == before {
        let last = tokens.iter().rev().find(|t| t.kind == Kind::Eof);
        let location = source.location(last.map_or(0, |t| t.start));
        issues.push(location, "Syntax error: mismatched input '<EOF>'");
    }
}

fn depth(tokens: &[Token]) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    for token in tokens {
        match token.kind {
            Kind::LeftParen | Kind::LeftBracket | Kind::LeftBrace | Kind::Question => depth += 1,
            Kind::RightParen | Kind::RightBracket | Kind::RightBrace => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

fn errors(source: &Source, tokens: &[Token]) -> Vec<(Location, String)> {
    Parser::new(&GRAMMAR, source, tokens).run()
}
