//! REST semantics over a watch cache: verbs, strategies, actions, tables, content negotiation.
//!
//! A tier registers [`Endpoint`]s; `server` finds one for a request that passed authentication and authorization and
//! calls [`Endpoint::handle`]. What a resource can do is data on its [`Endpoint`], never discovered.

pub mod admission;
pub mod age;
pub mod body;
pub mod builtin;
pub mod catalogue;
pub mod collection;
pub mod continuation;
pub mod discovery;
pub mod endpoint;
pub mod kinds;
pub mod loopback;
pub mod model;
pub mod negotiate;
pub mod object_meta;
pub mod openapi;
pub mod options;
pub mod read;
pub mod request;
pub mod respond;
pub mod scale;
pub mod selection;
pub mod status_message;
pub mod strategy;
pub mod table;
pub mod watch;
pub mod write;

pub use admission::Admission;
pub use body::Body;
pub use endpoint::{Action, ActionContext, Answer, Backing, Endpoint, Permit, Responder, Services, Subhandler};
pub use kinds::Kinds;
pub use model::Model;
pub use request::{Handler, Request, Response};
pub use strategy::{Context, Reservation, Strategy};
