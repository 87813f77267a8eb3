//! REST semantics over a watch cache: verbs, strategies, actions, tables, content negotiation.
//!
//! A tier registers [`Endpoint`]s; `server` finds one for a request that passed authentication and authorization and
//! calls [`Endpoint::handle`]. What a resource can do is data on its [`Endpoint`], never discovered.

pub mod admission;
pub mod age;
pub mod body;
pub mod discovery;
pub mod negotiate;
pub mod object_meta;
pub mod options;
pub mod request;
pub mod strategy;

pub use admission::Admission;
pub use body::Body;
pub use request::{Handler, Request, Response};
pub use strategy::{Context, Reservation, Strategy};
