//! Who asks and what they may: authenticators, authorizers, impersonation.
//!
//! Both return decisions, not errors: an authenticator that cannot tell leaves the request to the next one, an
//! authorizer without opinion likewise, and nothing here ever fails open.

pub mod authenticator;
pub mod authorizer;

pub use authenticator::{Authenticator, Identity};
pub use authorizer::{Attributes, Authorizer, Decision, Reason};
