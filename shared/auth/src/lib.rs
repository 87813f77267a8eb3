//! Who asks and what they may: authenticators, authorizers, impersonation.
//!
//! Both return decisions, not errors: an authenticator that cannot tell leaves the request to the next one, an
//! authorizer without opinion likewise, and nothing here ever fails open.

pub mod authentication;
pub mod authenticator;
pub mod authorization;
pub mod authorizer;
pub mod forbidden;
pub mod impersonation;
pub mod options;

pub use authenticator::{Authenticator, Identity};
pub use authorizer::{Attributes, Authorizer, Decision, Reason};

/// An error with all its causes, for the log.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(e) = cause {
        text.push_str(": ");
        text.push_str(&e.to_string());
        cause = e.source();
    }
    text
}
