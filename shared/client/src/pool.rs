//! The balanced pool of connections to all addresses of another server.
//!
//! Contract: each request goes to the less loaded of two random addresses that are not ejected; an address that cannot
//! be connected to, or whose connection ended before it answered, is ejected for a time that doubles from 100 ms to 5 s.
//! Watches and long answers have connections of their own. A connection is joined by another when 80 % of its places are taken, up to
//! [`MAX_CONNECTIONS`] of a class per address; beyond that requests are refused, not queued. A request is sent again only
//! if nothing of it was sent, or if it is safe, has no body and was not answered; at most [`ATTEMPTS`] times.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderMap, Method, Response, Uri};
use hyper_util::rt::TokioIo;
use parking_lot::{Mutex, RwLock};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::address::Address;
use crate::body::{Incoming, Outgoing, Pump};
use crate::connection::Connection;
use crate::fair::Fair;
use crate::metrics::TargetMetrics;
use crate::tls::Connector;

/// Connections of one class to one address.
pub const MAX_CONNECTIONS: usize = 64;
/// How often a request is tried.
pub const ATTEMPTS: usize = 3;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const RESOLVE_INTERVAL: Duration = Duration::from_secs(30);
const EJECT_FIRST: Duration = Duration::from_millis(100);
const EJECT_MOST: Duration = Duration::from_secs(5);

/// What kind of request it is, so that one kind does not wait for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Answered soon and shortly.
    Request,
    /// Answered with much: the small answers of others shall not queue behind it.
    Bulk,
    /// Open for minutes.
    Watch,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No address can be reached; nothing was sent.
    #[error("no {target} can be reached")]
    Unavailable {
        /// The server's name.
        target: String,
        /// The last failure.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// All places on all connections are taken; nothing was sent.
    #[error("too many requests to {target} are in flight")]
    Busy {
        /// The server's name.
        target: String,
    },
    /// The request was sent and the connection ended before an answer; it may have been carried out.
    #[error("{target} went away before it answered")]
    Unanswered {
        /// The server's name.
        target: String,
        /// What happened.
        #[source]
        source: h2::Error,
    },
    /// The request's own body broke off while it was passed on.
    #[error("error reading the request body: {0}")]
    Body(hyper::Error),
    /// The other side does not speak HTTP/2.
    #[error("{target} broke HTTP")]
    Http1 {
        /// The server's name.
        target: String,
        /// What happened.
        #[source]
        source: hyper::Error,
    },
}

impl Error {
    /// True if the request certainly had no effect.
    pub fn nothing_sent(&self) -> bool {
        matches!(self, Error::Unavailable { .. } | Error::Busy { .. })
    }
}

/// A request's first part.
#[derive(Clone, Debug)]
pub struct Head {
    /// Method.
    pub method: Method,
    /// Path and query.
    pub target: PathAndQuery,
    /// Headers, without connection-specific ones.
    pub headers: HeaderMap,
}

/// Connections to all addresses of one server.
pub struct Pool {
    name: String,
    addresses: Vec<Address>,
    connector: Arc<Connector>,
    targets: ArcSwap<Vec<Arc<Target>>>,
    resolving: tokio::sync::Mutex<()>,
    seed: AtomicU64,
    metrics: Arc<TargetMetrics>,
}

struct Target {
    address: Address,
    socket: SocketAddr,
    requests: Connections,
    bulk: Connections,
    watches: Connections,
    in_flight: Arc<AtomicUsize>,
    failures: AtomicU32,
    ejected_until: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Connections {
    open: RwLock<Vec<Arc<Connection>>>,
    dialing: tokio::sync::Mutex<()>,
    failed_at: Mutex<Option<Instant>>,
    growing: std::sync::atomic::AtomicBool,
}

/// A request's place on a connection.
pub struct InFlight(pub(crate) Arc<Connection>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.leave();
    }
}

enum Dialed {
    Http2(Arc<Connection>),
    Http1(Box<TlsStream<Fair<TcpStream>>>),
}

type Cause = Box<dyn std::error::Error + Send + Sync>;

impl Pool {
    /// A pool to the server `name` at `addresses`; connects when first used. [`Pool::follow`] is to be run beside it.
    pub fn new(
        name: &str,
        addresses: Vec<Address>,
        connector: Arc<Connector>,
        metrics: Arc<TargetMetrics>,
    ) -> Arc<Pool> {
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), name);
        Arc::new(Pool {
            name: name.to_owned(),
            addresses,
            connector,
            targets: ArcSwap::from_pointee(Vec::new()),
            resolving: tokio::sync::Mutex::new(()),
            seed: AtomicU64::new(seed | 1),
            metrics,
        })
    }

    /// The server's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Resolves names again from time to time, for ever; to be run in a task.
    pub async fn follow(self: Arc<Self>) {
        loop {
            self.resolve().await;
            tokio::time::sleep(RESOLVE_INTERVAL).await;
        }
    }

    /// Sends a request and waits for the head of its answer.
    pub async fn send(&self, class: Class, head: Head, mut body: Outgoing) -> Result<Response<Incoming>, Error> {
        let started = Instant::now();
        let result = self.attempts(class, head, &mut body).await;
        self.metrics.answered(started, result.is_ok());
        result
    }

    async fn attempts(&self, class: Class, head: Head, body: &mut Outgoing) -> Result<Response<Incoming>, Error> {
        let bodiless = body.is_empty();
        let safe = bodiless && matches!(head.method, Method::GET | Method::HEAD | Method::OPTIONS);
        let mut attempt = 1;
        loop {
            let (target, dialed) = self.acquire(class).await?;
            let again = attempt < ATTEMPTS;
            let outcome = match dialed {
                Dialed::Http1(io) => {
                    let body = std::mem::replace(body, Outgoing::Empty);
                    return Box::pin(self.send_http1(&target, *io, head, body)).await;
                }
                Dialed::Http2(connection) => send_http2(&target, connection, &head, body).await,
            };
            match &outcome {
                Ok(_) => target.recovered(),
                // also who connects and then says nothing; not who ends this one request
                Err(Failed::NotSent(e) | Failed::Refused(e) | Failed::Unanswered(e)) if e.is_io() || e.is_go_away() => {
                    self.metrics.ejected();
                    target.failed();
                }
                Err(_) => {}
            }
            match outcome {
                Ok(response) => return Ok(response),
                Err(Failed::NotSent(_)) if again => {}
                Err(Failed::Refused(_)) if again && bodiless => {}
                Err(Failed::Unanswered(_)) if again && safe => {}
                Err(Failed::NotSent(source) | Failed::Refused(source)) => {
                    return Err(self.unavailable(Some(source.into())));
                }
                Err(Failed::Body(source)) => return Err(Error::Body(source)),
                Err(Failed::Unanswered(source)) => {
                    return Err(Error::Unanswered {
                        target: self.name.clone(),
                        source,
                    });
                }
            }
            self.metrics.retried();
            attempt += 1;
        }
    }

    /// Sends a request that asks for an upgrade, on an HTTP/1.1 connection of its own. After 101 the connection is the
    /// caller's, by `hyper::upgrade::on` of the answer.
    pub async fn upgrade(&self, head: Head) -> Result<Response<hyper::body::Incoming>, Error> {
        let mut last: Option<Cause> = None;
        for _ in 0..ATTEMPTS {
            let target = self.choose().await?;
            let config = self.connector.config_for(&[b"http/1.1"]);
            match tokio::time::timeout(CONNECT_TIMEOUT, tls(&target, config)).await {
                Ok(Ok(io)) => {
                    target.recovered();
                    return self.exchange_http1(&target, io, head, Outgoing::Empty).await;
                }
                Ok(Err(e)) => last = Some(e.into()),
                Err(_) => last = Some("connecting took too long".into()),
            }
            target.failed();
        }
        Err(self.unavailable(last))
    }

    async fn send_http1(
        &self,
        target: &Target,
        io: TlsStream<Fair<TcpStream>>,
        head: Head,
        body: Outgoing,
    ) -> Result<Response<Incoming>, Error> {
        let response = self.exchange_http1(target, io, head, body).await?;
        Ok(response.map(Incoming::http1))
    }

    async fn exchange_http1(
        &self,
        target: &Target,
        io: TlsStream<Fair<TcpStream>>,
        head: Head,
        body: Outgoing,
    ) -> Result<Response<hyper::body::Incoming>, Error> {
        let broke = |source| Error::Http1 {
            target: self.name.clone(),
            source,
        };
        let (mut send, connection) = hyper::client::conn::http1::handshake(TokioIo::new(io))
            .await
            .map_err(broke)?;
        // ends with the answer's body, or when an upgraded connection is taken out of it
        tokio::spawn(async move { connection.with_upgrades().await });
        let mut request = http::Request::new(body);
        *request.method_mut() = head.method;
        *request.uri_mut() = head.target.into();
        *request.headers_mut() = head.headers;
        if let Ok(host) = http::HeaderValue::from_str(target.address.authority.as_str()) {
            request.headers_mut().insert(http::header::HOST, host);
        }
        send.send_request(request).await.map_err(broke)
    }

    /// A connection with a free place to the better of two addresses.
    async fn acquire(&self, class: Class) -> Result<(Arc<Target>, Dialed), Error> {
        let mut last: Option<Cause> = None;
        let tries = self.targets.load().len().clamp(1, 4) + 1;
        let mut busy = false;
        for _ in 0..tries {
            let target = match self.choose().await {
                Ok(target) => target,
                Err(e) if last.is_none() => return Err(e),
                Err(_) => break,
            };
            match self.connection(&target, class).await {
                Ok(Some(dialed)) => return Ok((target, dialed)),
                Ok(None) => busy = true,
                Err(e) => {
                    self.metrics.ejected();
                    target.failed();
                    last = Some(e);
                }
            }
        }
        if busy {
            return Err(Error::Busy {
                target: self.name.clone(),
            });
        }
        Err(self.unavailable(last))
    }

    async fn choose(&self) -> Result<Arc<Target>, Error> {
        if self.targets.load().is_empty() {
            Box::pin(self.resolve()).await;
        }
        let targets = self.targets.load();
        if let [only] = targets.as_slice() {
            return Ok(Arc::clone(only));
        }
        let now = Instant::now();
        let usable: Vec<&Arc<Target>> = targets.iter().filter(|t| !t.ejected(now)).collect();
        // with everything ejected, trying is all that is left
        let candidates = if usable.is_empty() {
            targets.iter().collect()
        } else {
            usable
        };
        let (Some(a), Some(b)) = (self.pick(&candidates), self.pick(&candidates)) else {
            return Err(self.unavailable(None));
        };
        let better = if a.in_flight.load(Ordering::Relaxed) <= b.in_flight.load(Ordering::Relaxed) {
            a
        } else {
            b
        };
        Ok(Arc::clone(better))
    }

    fn pick<'a>(&self, from: &[&'a Arc<Target>]) -> Option<&'a Arc<Target>> {
        // xorshift: quality does not matter here, cost does
        let mut x = self.seed.load(Ordering::Relaxed);
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.seed.store(x, Ordering::Relaxed);
        from.get((x % from.len().max(1) as u64) as usize).copied()
    }

    /// A connection of the class with a free place; `None` if all places are taken.
    async fn connection(&self, target: &Arc<Target>, class: Class) -> Result<Option<Dialed>, Cause> {
        let connections = target.connections(class);
        if let Some(connection) = connections.free() {
            if connections.wants_more() {
                self.grow(target, class);
            }
            return Ok(Some(Dialed::Http2(connection)));
        }
        // rare and large: kept out of the future of every request
        Box::pin(self.dial(target, class)).await
    }

    /// A new connection, one dialed at a time.
    async fn dial(&self, target: &Arc<Target>, class: Class) -> Result<Option<Dialed>, Cause> {
        let connections = target.connections(class);
        let since = Instant::now();
        let _one_at_a_time = connections.dialing.lock().await;
        if let Some(connection) = connections.free() {
            return Ok(Some(Dialed::Http2(connection)));
        }
        if connections.failed_at.lock().is_some_and(|t| t > since) {
            // who dialed while this request waited has just found out
            return Err("the address could not be reached".into());
        }
        if connections.open.read().len() >= MAX_CONNECTIONS {
            return Ok(None);
        }
        let outcome = open(target, class, self.connector.config(), Arc::clone(&self.metrics)).await;
        if outcome.is_err() {
            *connections.failed_at.lock() = Some(Instant::now());
        }
        outcome.map(Some)
    }

    /// Opens another connection beside the request that found the others nearly full.
    fn grow(&self, target: &Arc<Target>, class: Class) {
        let connections = target.connections(class);
        if connections.growing.swap(true, Ordering::Relaxed) {
            return;
        }
        let (target, config, metrics) = (Arc::clone(target), self.connector.config(), Arc::clone(&self.metrics));
        tokio::spawn(async move {
            let outcome = open(&target, class, config, metrics).await;
            target.connections(class).growing.store(false, Ordering::Relaxed);
            if let Err(error) = outcome {
                tracing::debug!(error = &*error as &dyn std::error::Error, "no further connection");
            }
        });
    }

    async fn resolve(&self) {
        let Ok(_one_at_a_time) = self.resolving.try_lock() else {
            // somebody else resolves: wait for the outcome
            let _done = self.resolving.lock().await;
            return;
        };
        let known = self.targets.load_full();
        let mut targets = Vec::new();
        for address in &self.addresses {
            let sockets = match address.resolve().await {
                Ok(sockets) => sockets,
                Err(error) => {
                    tracing::info!(server = self.name, authority = %address.authority, %error, "cannot resolve");
                    known
                        .iter()
                        .filter(|t| t.address == *address)
                        .map(|t| t.socket)
                        .collect()
                }
            };
            for socket in sockets {
                let same = known.iter().find(|t| t.address == *address && t.socket == socket);
                targets.push(same.map_or_else(|| Arc::new(Target::new(address.clone(), socket)), Arc::clone));
            }
        }
        self.targets.store(Arc::new(targets));
    }

    fn unavailable(&self, source: Option<Cause>) -> Error {
        Error::Unavailable {
            target: self.name.clone(),
            source,
        }
    }
}

impl Target {
    fn new(address: Address, socket: SocketAddr) -> Target {
        Target {
            address,
            socket,
            requests: Connections::default(),
            bulk: Connections::default(),
            watches: Connections::default(),
            in_flight: Arc::default(),
            failures: AtomicU32::new(0),
            ejected_until: Mutex::new(None),
        }
    }

    fn connections(&self, class: Class) -> &Connections {
        match class {
            Class::Request => &self.requests,
            Class::Bulk => &self.bulk,
            Class::Watch => &self.watches,
        }
    }

    fn ejected(&self, now: Instant) -> bool {
        self.failures.load(Ordering::Relaxed) > 0 && self.ejected_until.lock().is_some_and(|t| t > now)
    }

    fn failed(&self) {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).min(10);
        let pause = (EJECT_FIRST * 2u32.pow(failures)).min(EJECT_MOST);
        *self.ejected_until.lock() = Some(Instant::now() + pause);
    }

    fn recovered(&self) {
        if self.failures.load(Ordering::Relaxed) > 0 {
            self.failures.store(0, Ordering::Relaxed);
            *self.ejected_until.lock() = None;
        }
    }
}

impl Connections {
    /// The least used connection with a free place.
    fn free(&self) -> Option<Arc<Connection>> {
        let open = self.open.read();
        let usable = open.iter().filter(|c| !c.is_closed() && c.in_flight() < c.limit());
        usable.min_by_key(|c| c.in_flight()).cloned()
    }

    /// True if every connection has 80 % of its places taken and another may be opened.
    fn wants_more(&self) -> bool {
        let open = self.open.read();
        open.len() < MAX_CONNECTIONS && open.iter().all(|c| c.in_flight() * 5 >= c.limit() * 4)
    }
}

async fn open(
    target: &Arc<Target>,
    class: Class,
    config: Arc<rustls::ClientConfig>,
    metrics: Arc<TargetMetrics>,
) -> Result<Dialed, Cause> {
    let io = tokio::time::timeout(CONNECT_TIMEOUT, tls(target, config))
        .await
        .map_err(|_| "connecting took too long")??;
    if io.get_ref().1.alpn_protocol() != Some(b"h2") {
        return Ok(Dialed::Http1(Box::new(io)));
    }
    let (weak, closing) = (Arc::downgrade(target), Arc::clone(&metrics));
    let connection = Connection::start(io, Arc::clone(&target.in_flight), move || {
        closing.connections.dec();
        if let Some(target) = weak.upgrade() {
            target.connections(class).open.write().retain(|c| !c.is_closed());
        }
    })
    .await?;
    metrics.connections.inc();
    let mut open = target.connections(class).open.write();
    // one may have ended before it was listed
    open.retain(|c| !c.is_closed());
    open.push(Arc::clone(&connection));
    drop(open);
    Ok(Dialed::Http2(connection))
}

async fn tls(target: &Target, config: Arc<rustls::ClientConfig>) -> std::io::Result<TlsStream<Fair<TcpStream>>> {
    let tcp = TcpStream::connect(target.socket).await?;
    tcp.set_nodelay(true)?;
    TlsConnector::from(config)
        .connect(target.address.server_name.clone(), Fair::new(tcp))
        .await
}

enum Failed {
    /// Nothing of it was sent.
    NotSent(h2::Error),
    /// The peer says that it did not look at it; the body may be partly gone.
    Refused(h2::Error),
    /// Nobody knows what became of it.
    Unanswered(h2::Error),
    /// There is no more of its body.
    Body(hyper::Error),
}

async fn send_http2(
    target: &Arc<Target>,
    connection: Arc<Connection>,
    head: &Head,
    body: &mut Outgoing,
) -> Result<Response<Incoming>, Failed> {
    let in_flight = connection.enter();
    let mut sender = match connection.sender().ready().await {
        Ok(sender) => sender,
        Err(e) => {
            connection.retire();
            return Err(Failed::NotSent(e));
        }
    };
    let mut request = http::Request::new(());
    *request.method_mut() = head.method.clone();
    *request.version_mut() = http::Version::HTTP_2;
    let mut uri = http::uri::Parts::default();
    uri.scheme = Some(Scheme::HTTPS);
    uri.authority = Some(target.address.authority.clone());
    uri.path_and_query = Some(head.target.clone());
    if let Ok(uri) = Uri::from_parts(uri) {
        *request.uri_mut() = uri;
    }
    *request.headers_mut() = head.headers.clone();
    let without_body = body.is_empty();
    let (mut response, stream) = match sender.send_request(request, without_body) {
        Ok(sent) => sent,
        Err(e) => {
            if e.is_io() || e.is_go_away() {
                connection.retire();
            }
            return Err(Failed::NotSent(e));
        }
    };
    if without_body {
        let response = response.await.map_err(|e| unanswered(e, &connection))?;
        return Ok(response.map(|stream| Incoming::http2(stream, None, in_flight)));
    }
    let mut pump = Pump::new(std::mem::replace(body, Outgoing::Empty), stream);
    let mut pumped = false;
    let answer = std::future::poll_fn(|cx| {
        if !pumped && std::pin::Pin::new(&mut pump).poll(cx).is_ready() {
            pumped = true;
        }
        std::pin::Pin::new(&mut response).poll(cx)
    })
    .await;
    let response = match answer {
        Ok(response) => response,
        Err(error) => {
            return Err(pump
                .broken()
                .map_or_else(|| unanswered(error, &connection), Failed::Body));
        }
    };
    let upload = (!pumped).then(|| pump.spawn());
    Ok(response.map(|stream| Incoming::http2(stream, upload, in_flight)))
}

/// What an error in place of an answer means.
fn unanswered(error: h2::Error, connection: &Connection) -> Failed {
    if error.is_go_away() || error.is_io() {
        connection.retire();
    }
    let reason = error.reason();
    let leaving = error.is_go_away() && error.is_remote() && reason == Some(h2::Reason::NO_ERROR);
    if leaving || reason == Some(h2::Reason::REFUSED_STREAM) {
        return Failed::Refused(error);
    }
    Failed::Unanswered(error)
}
