//! A request as the registry sees it: authenticated, authorized, its body read.
//!
//! Contract: `server` bounds the body (3 MiB by default) and the time; everything here is plain data, so that verbs are
//! tested without a socket.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::HeaderMap;
use triptych_object::{RequestInfo, UserInfo};

use crate::body::Body;

/// One request to a resource this tier serves.
#[derive(Clone, Debug)]
pub struct Request {
    /// Verb, resource, namespace, name.
    pub info: RequestInfo,
    /// HTTP method (HEAD is answered as GET without body by `server`).
    pub method: http::Method,
    /// Query as sent.
    pub query: String,
    /// Headers as sent (`Accept`, `Content-Type`, `User-Agent` matter).
    pub headers: HeaderMap,
    /// The whole body; empty for reads.
    pub body: Bytes,
    /// The effective user, after impersonation.
    pub user: Arc<UserInfo>,
    /// When the answer must have begun.
    pub deadline: Instant,
}

/// What the registry answers; failures are already `Status` documents in the negotiated form.
pub type Response = http::Response<Body>;

/// Who answers a request that passed the handler chain: a resource's endpoint, or a path such as `/version`.
pub trait Handler: Send + Sync + 'static {
    /// Answers; the chain ends the wait at `request.deadline`, except for watches.
    fn handle(&self, request: Request) -> BoxFuture<'_, Response>;
}
