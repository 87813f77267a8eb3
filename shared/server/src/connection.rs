//! What is remembered about one client connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use rustls_pki_types::CertificateDer;
use tokio::sync::Notify;
use triptych_auth::authenticator::ConnectionIdentity;
use triptych_object::UserInfo;

use crate::headers::RemoteUser;

/// A client connection; shared by its requests.
pub struct Connection {
    /// Address of the peer.
    pub peer: SocketAddr,
    /// The client's certificate chain, leaf first.
    pub certificates: Vec<CertificateDer<'static>>,
    /// What `auth` found out about the certificates.
    pub identity: ConnectionIdentity,
    /// HTTP/2, where a connection is shared and therefore guarded more.
    pub http2: bool,
    active: AtomicUsize,
    // of these, the ones that end only when somebody wants it
    long_running: AtomicUsize,
    last_use: Mutex<Instant>,
    closing: AtomicBool,
    close: Notify,
    remote_user: Mutex<Option<(Arc<UserInfo>, Arc<RemoteUser>)>>,
}

impl Connection {
    /// A connection just established.
    pub fn new(peer: SocketAddr, certificates: Vec<CertificateDer<'static>>, http2: bool) -> Connection {
        Connection {
            peer,
            certificates,
            identity: ConnectionIdentity::default(),
            http2,
            active: AtomicUsize::new(0),
            long_running: AtomicUsize::new(0),
            last_use: Mutex::new(Instant::now()),
            closing: AtomicBool::new(false),
            close: Notify::new(),
            remote_user: Mutex::new(None),
        }
    }

    /// Ends the connection after the requests in flight: GOAWAY, or no keep-alive.
    pub fn close_gracefully(&self) {
        if !self.closing.swap(true, Ordering::Relaxed) {
            self.close.notify_one();
        }
    }

    /// Completes when [`Connection::close_gracefully`] was called.
    pub(crate) async fn close_requested(&self) {
        self.close.notified().await;
    }

    /// Counts a request for as long as the answer lives.
    pub(crate) fn begin(self: &Arc<Self>) -> InUse {
        self.active.fetch_add(1, Ordering::Relaxed);
        InUse {
            connection: Arc::clone(self),
            long_running: false,
        }
    }

    /// True if nothing is in flight that ends by itself.
    pub(crate) fn only_long_running(&self) -> bool {
        self.active.load(Ordering::Relaxed) == self.long_running.load(Ordering::Relaxed)
    }

    /// How long no request was in flight.
    pub(crate) fn idle(&self) -> std::time::Duration {
        if self.active.load(Ordering::Relaxed) > 0 {
            return std::time::Duration::ZERO;
        }
        self.last_use.lock().elapsed()
    }

    /// The forwarding headers of `user`, made once per connection and user.
    pub(crate) fn remote_user(&self, user: &Arc<UserInfo>) -> Option<Arc<RemoteUser>> {
        let mut cached = self.remote_user.lock();
        if let Some((known, headers)) = &*cached
            && (Arc::ptr_eq(known, user) || known == user)
        {
            return Some(Arc::clone(headers));
        }
        let headers = Arc::new(RemoteUser::new(user)?);
        *cached = Some((Arc::clone(user), Arc::clone(&headers)));
        Some(headers)
    }
}

/// A request in flight on a connection.
pub(crate) struct InUse {
    connection: Arc<Connection>,
    long_running: bool,
}

impl InUse {
    /// It is a watch or a stream.
    pub(crate) fn mark_long_running(&mut self) {
        if !std::mem::replace(&mut self.long_running, true) {
            self.connection.long_running.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        if self.long_running {
            self.connection.long_running.fetch_sub(1, Ordering::Relaxed);
        }
        if self.connection.active.fetch_sub(1, Ordering::Relaxed) == 1 {
            *self.connection.last_use.lock() = Instant::now();
        }
    }
}
