//! Text: borrowed from a document, or shared.

use std::ops::Deref;
use std::sync::Arc;

/// A text.
#[derive(Clone, Debug)]
pub enum Text<'a> {
    /// A part of a document or expression.
    Borrowed(&'a str),
    /// Made while evaluating.
    Shared(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Shared(text) => text,
        }
    }
}
