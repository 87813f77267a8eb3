//! Match conditions: expressions that must hold for a webhook to be called.

use futures_util::future::BoxFuture;
use triptych_object::Value;
use triptych_registry::admission::Attributes;

use crate::matching::Invocation;

/// What conditions say of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All hold.
    Match,
    /// One does not hold.
    NoMatch,
    /// None is false, but some cannot be told.
    Error(String),
}

/// Evaluates conditions.
pub trait Conditions: Send + Sync + 'static {
    /// Conditions with their names, of a request as it is shown.
    fn check<'a>(
        &'a self,
        conditions: &'a [(String, String)],
        attributes: &'a Attributes<'a>,
        shown: &'a Invocation,
        object: Option<&'a Value>,
        old: Option<&'a Value>,
    ) -> BoxFuture<'a, Outcome>;
}

/// Cannot tell.
pub struct Unevaluated;

impl Conditions for Unevaluated {
    fn check<'a>(
        &'a self,
        _conditions: &'a [(String, String)],
        _attributes: &'a Attributes<'a>,
        _shown: &'a Invocation,
        _object: Option<&'a Value>,
        _old: Option<&'a Value>,
    ) -> BoxFuture<'a, Outcome> {
        let why = "match conditions are not evaluated by this server".to_owned();
        Box::pin(std::future::ready(Outcome::Error(why)))
    }
}
