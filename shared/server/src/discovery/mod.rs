//! Discovery and OpenAPI as a tier serves them: its own documents merged with those of the tiers behind it.
//!
//! Contract: a [`Publication`] answers `/api`, `/apis`, `/apis/<group>`, `/openapi/v2` and `/openapi/v3` from one immutable
//! merge, and `/api/v1`, `/apis/<group>/<version>` and `/openapi/v3/<document>` for what this tier serves itself; other
//! documents are forwarded unread to who has them. A tier that is down keeps its last good documents, is reported by
//! [`Publication::trouble`], and never blocks an answer.
//!
//! A tier learns of changes behind it by long polling ([`follow`]): it asks with `If-None-Match` and
//! `X-Triptych-Wait: <seconds>`, and is answered when the document changes. A group of a CRD is visible at the front door
//! one round trip after the CRD was established. (Polling was the alternative: either late, or a request all the time.)

mod answer;
mod content;
pub mod crds;
pub mod fetch;
pub mod follow;
mod kept;
pub mod merge;
mod openapi;
pub mod publication;
pub mod remote;
pub mod services;

pub use crds::Crds;
pub use merge::{Backing, Service};
pub use publication::{Own, OwnVersion, Publication, Published};
pub use services::Registered;

#[cfg(test)]
mod tests;
