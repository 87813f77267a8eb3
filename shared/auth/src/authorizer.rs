//! The seam of authorization: may this user do that?
//!
//! Contract: modes are asked in order until one allows or denies; if none does, the request is refused. `reason` goes
//! into the 403 and the audit log.

use futures_util::future::BoxFuture;
use triptych_object::{RequestInfo, UserInfo};

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// Who.
    pub user: &'a UserInfo,
    /// What: verb, resource or path. Reviews build one of their own.
    pub request: &'a RequestInfo,
}

/// An authorizer's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Yes, and why.
    Allow(String),
    /// No, whatever others say, and why.
    Deny(String),
    /// Ask the next; why it could not say yes, and what went wrong while looking (empty if nothing).
    NoOpinion {
        /// Goes into the 403.
        reason: String,
        /// `evaluationError` of a review.
        error: String,
    },
}

impl Decision {
    /// True for [`Decision::Allow`].
    pub fn is_allowed(&self) -> bool {
        matches!(self, Decision::Allow(_))
    }
}

/// Decides whether a request may go on.
pub trait Authorizer: Send + Sync + 'static {
    /// Decides; waits only where a negative must be confirmed at the source.
    fn authorize<'a>(&'a self, attributes: Attributes<'a>) -> BoxFuture<'a, Decision>;
}
