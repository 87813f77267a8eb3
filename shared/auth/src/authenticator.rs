//! The seam of authentication: whose request is this?
//!
//! Contract: authenticators are asked in the fixed order of DESIGN §3: front-proxy headers (only over an allowed
//! front-proxy certificate; such a connection is never tried as x509), x509, bearer tokens, anonymous. Credentials that
//! were presented and found bad end the request with 401; absent ones leave it to the next.

use std::sync::Arc;

use http::HeaderMap;
use rustls_pki_types::CertificateDer;
use triptych_object::UserInfo;

/// What a connection and a request present.
pub struct Credentials<'a> {
    /// The client's certificate chain, leaf first; possession was proven in the handshake, trust was not.
    pub certificates: &'a [CertificateDer<'static>],
    /// Verdicts on these certificates, kept with the connection.
    pub connection: &'a ConnectionIdentity,
    /// The request's headers.
    pub headers: &'a HeaderMap,
    /// Address of the peer.
    pub peer: std::net::SocketAddr,
}

/// What was found out about a connection's certificates, once per connection and CA generation.
#[derive(Debug, Default)]
pub struct ConnectionIdentity {
    pub(crate) cached: parking_lot::Mutex<Option<CachedIdentity>>,
}

#[derive(Clone, Debug)]
pub(crate) struct CachedIdentity {
    pub(crate) generation: u64,
    /// In seconds since 1970: then something in the chain expires.
    pub(crate) valid_until: i64,
    pub(crate) verdict: CertificateVerdict,
}

/// Whose certificate a connection showed.
#[derive(Clone, Debug)]
pub enum CertificateVerdict {
    /// An allowed front proxy: its headers name the user.
    FrontProxy,
    /// A client of the client CA.
    Client(Arc<UserInfo>),
    /// No certificate.
    None,
    /// A certificate that no CA vouches for, or a name that is not allowed; with the reason for the log.
    Untrusted(String),
}

/// The outcome of authentication.
#[derive(Clone, Debug)]
pub enum Identity {
    /// Known (or anonymous, where allowed).
    User(Arc<UserInfo>),
    /// Bad or missing credentials: 401. The reason goes to the log, never to the client.
    Unauthorized(String),
    /// Cannot tell yet, because what decides has never been synced: 503 with Retry-After.
    Unavailable(String),
}

/// Finds out who asks.
pub trait Authenticator: Send + Sync + 'static {
    /// Decides from the connection and headers; waits only for token review.
    fn authenticate<'a>(&'a self, credentials: Credentials<'a>) -> futures_util::future::BoxFuture<'a, Identity>;
}
