//! The seam of authorization: may this user do that?
//!
//! Contract: modes are asked in order until one allows or denies; if none does, the request is refused. Reasons go into
//! the 403, reviews and the audit log; the reason of an allowed request is only put into words when somebody reads it.

use std::fmt;
use std::sync::Arc;

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

/// Why a request is allowed; [`fmt::Display`] gives kube-apiserver's text, which may be empty.
#[derive(Clone)]
pub struct Reason(Inner);

#[derive(Clone)]
enum Inner {
    Text(&'static str),
    Lazy(Arc<dyn Fn(&mut fmt::Formatter<'_>) -> fmt::Result + Send + Sync>),
}

impl Reason {
    /// No reason worth a word.
    pub const NONE: Reason = Reason(Inner::Text(""));

    /// A fixed text.
    pub const fn text(text: &'static str) -> Reason {
        Reason(Inner::Text(text))
    }

    /// A text made when it is read.
    pub fn lazy(write: impl Fn(&mut fmt::Formatter<'_>) -> fmt::Result + Send + Sync + 'static) -> Reason {
        Reason(Inner::Lazy(Arc::new(write)))
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Reason {
        Reason::lazy(move |f| f.write_str(&text))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Inner::Text(text) => f.write_str(text),
            Inner::Lazy(write) => write(f),
        }
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_string(), f)
    }
}

impl PartialEq for Reason {
    /// Equal texts.
    fn eq(&self, other: &Reason) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Reason {}

/// An authorizer's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Yes, and why.
    Allow(Reason),
    /// No, whatever others say, and why.
    Deny(String),
    /// Ask the next; why it could not say yes, and what went wrong while looking (empty if nothing).
    NoOpinion {
        /// Goes into the 403.
        reason: String,
        /// `evaluationError` of a review.
        error: String,
    },
    /// Nobody can tell yet, because what decides has never been synced: 503 with Retry-After.
    Unavailable(String),
}

impl Decision {
    /// Ask the next, without a reason.
    pub const PASS: Decision = Decision::NoOpinion {
        reason: String::new(),
        error: String::new(),
    };

    /// Ask the next, because of this.
    pub fn pass(reason: impl Into<String>) -> Decision {
        Decision::NoOpinion {
            reason: reason.into(),
            error: String::new(),
        }
    }

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
