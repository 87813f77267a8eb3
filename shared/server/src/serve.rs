//! Accepting connections and speaking HTTP on them.
//!
//! Contract: what a client can make the server hold is bounded: time for a handshake and for a request's head, bytes of a
//! head and of unread bodies, streams per connection, connections; a peer that takes nothing for two minutes is dropped.
//! When the tier drains, the listener closes and every connection ends after its requests in flight.

use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls_pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use triptych_client::fair::Fair;

use crate::chain::Chain;
use crate::connection::Connection;
use crate::lifecycle::Phase;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Also how long an HTTP/1.1 connection may be idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(90);
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
const IDLE_CHECK: Duration = Duration::from_secs(30);
const WRITE_STALL: Duration = Duration::from_secs(120);
/// How long a client has to read that its watch has ended.
const END_UNREAD: Duration = Duration::from_secs(1);
const MAX_CONNECTIONS: usize = 20_000;
/// Bytes of a request's head; more is 431. HTTP/1.1 keeps them in one buffer, HTTP/2 counts what they decode to.
const MAX_HEAD_HTTP1: usize = 64 * 1024;
const MAX_HEAD_HTTP2: u32 = 96 * 1024;
const MAX_HEADERS: usize = 1_000;
/// Unread bytes of one body; the connection's window is this for every stream, so that bodies which have to wait do not
/// hold up others that a front tier sends on the same connection.
const STREAM_WINDOW: u32 = 64 * 1024;
const SEND_BUFFER: usize = 128 * 1024;

/// How HTTP/2 is spoken.
#[derive(Clone, Copy, Debug)]
pub struct Http2 {
    /// Streams per connection (`--http2-max-streams-per-connection`).
    pub max_streams: u32,
}

/// Serves connections of `listener` until the tier drains.
pub(crate) async fn serve(listener: TcpListener, tls: TlsAcceptor, chain: Arc<Chain>, http2: Http2) {
    let server = Arc::new(Server::new(tls, Arc::clone(&chain), http2));
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let draining = chain.lifecycle().reached(Phase::Draining);
    let mut draining = pin!(draining);
    loop {
        let accepted = tokio::select! {
            () = &mut draining => return,
            accepted = accept(&listener, &places) => accepted,
        };
        let Some((tcp, peer, place)) = accepted else { continue };
        let server = Arc::clone(&server);
        chain.tasks().spawn("connection", async move {
            server.connection(tcp, peer).await;
            drop(place);
        });
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((tcp, peer)) => Some((tcp, peer, place)),
        Err(error) => {
            // out of file descriptors, mostly: those in use have to end first
            tracing::info!(%error, "cannot accept a connection");
            tokio::time::sleep(Duration::from_millis(20)).await;
            None
        }
    }
}

/// Small answers leave at once, and a peer that vanished is noticed even where nothing is sent to it.
fn socket_options(tcp: &TcpStream) -> std::io::Result<()> {
    use rustix::net::sockopt;
    tcp.set_nodelay(true)?;
    sockopt::set_socket_keepalive(tcp, true)?;
    sockopt::set_tcp_keepidle(tcp, Duration::from_secs(30))?;
    sockopt::set_tcp_keepintvl(tcp, Duration::from_secs(15))?;
    sockopt::set_tcp_keepcnt(tcp, 4)?;
    Ok(())
}

struct Server {
    tls: TlsAcceptor,
    chain: Arc<Chain>,
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
}

type Io = TokioIo<TlsStream<Guarded>>;

impl Server {
    fn new(tls: TlsAcceptor, chain: Arc<Chain>, settings: Http2) -> Server {
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(MAX_HEAD_HTTP1)
            .max_headers(MAX_HEADERS)
            .half_close(false);
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .max_concurrent_streams(settings.max_streams)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(STREAM_WINDOW.saturating_mul(settings.max_streams.clamp(1, 1000)))
            .max_frame_size(64 * 1024)
            .max_header_list_size(MAX_HEAD_HTTP2)
            .max_send_buf_size(SEND_BUFFER)
            .keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(15));
        Server {
            tls,
            chain,
            http1,
            http2,
        }
    }

    async fn connection(&self, tcp: TcpStream, peer: SocketAddr) {
        if let Err(error) = socket_options(&tcp) {
            tracing::debug!(%peer, %error, "socket options");
        }
        let handshake = self.tls.accept(Guarded::new(tcp));
        let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return self.handshake_failed(peer, &error.to_string()),
            Err(_) => return self.handshake_failed(peer, "timed out"),
        };
        let (_, tls) = stream.get_ref();
        let http2 = tls.alpn_protocol() == Some(b"h2");
        let certificates: Vec<CertificateDer<'static>> = tls.peer_certificates().unwrap_or_default().to_vec();
        let connection = Arc::new(Connection::new(peer, certificates, http2));
        let metrics = self.chain.metrics();
        metrics.connections.inc();
        let io = TokioIo::new(stream);
        let outcome = if http2 {
            self.http2(io, &connection).await
        } else {
            self.http1(io, &connection).await
        };
        metrics.connections.dec();
        if let Err(error) = outcome {
            tracing::debug!(%peer, error = &error as &dyn std::error::Error, "connection ended");
        }
    }

    fn handshake_failed(&self, peer: SocketAddr, why: &str) {
        self.chain.metrics().tls_handshake_errors.inc();
        tracing::info!(%peer, why, "TLS handshake error");
    }

    async fn http1(&self, io: Io, connection: &Arc<Connection>) -> hyper::Result<()> {
        let service = service_fn(|request| self.chain.serve(connection, request));
        let mut serving = pin!(self.http1.serve_connection(io, service).with_upgrades());
        let mut ending = pin!(self.ending(connection));
        tokio::select! {
            outcome = &mut serving => return outcome,
            () = &mut ending => {}
        }
        serving.as_mut().graceful_shutdown();
        tokio::select! {
            outcome = serving => outcome,
            () = self.stalled(connection) => Ok(()),
        }
    }

    async fn http2(&self, io: Io, connection: &Arc<Connection>) -> hyper::Result<()> {
        let chain = Arc::clone(&self.chain);
        let shared = Arc::clone(connection);
        let service = service_fn(move |request| {
            let (chain, connection) = (Arc::clone(&chain), Arc::clone(&shared));
            async move { chain.serve(&connection, request).await }
        });
        let mut serving = pin!(self.http2.serve_connection(io, service));
        let mut ending = pin!(self.ending(connection));
        tokio::select! {
            outcome = &mut serving => return outcome,
            () = &mut ending => {}
        }
        serving.as_mut().graceful_shutdown();
        tokio::select! {
            outcome = serving => outcome,
            () = self.stalled(connection) => Ok(()),
        }
    }

    /// Completes when the tier drains and only watches are left whose clients do not even read that they have ended.
    async fn stalled(&self, connection: &Connection) {
        self.chain.lifecycle().reached(Phase::Draining).await;
        tokio::time::sleep(self.chain.watch_grace() + END_UNREAD).await;
        while !connection.only_long_running() {
            tokio::time::sleep(END_UNREAD).await;
        }
    }

    /// Completes when the connection is to end after what is in flight.
    async fn ending(&self, connection: &Connection) {
        let idle = async {
            while connection.idle() < IDLE_TIMEOUT {
                tokio::time::sleep(IDLE_CHECK).await;
            }
        };
        tokio::select! {
            () = self.chain.lifecycle().reached(Phase::Draining) => {}
            () = connection.close_requested() => {}
            () = idle, if connection.http2 => {}
        }
    }
}

/// A socket whose peer must take something from time to time.
struct Guarded {
    tcp: Fair<TcpStream>,
    // armed while a write waits
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Guarded {
    fn new(tcp: TcpStream) -> Guarded {
        Guarded {
            tcp: Fair::new(tcp),
            stalled: None,
        }
    }

    fn watch<T>(&mut self, cx: &mut Context<'_>, written: Poll<std::io::Result<T>>) -> Poll<std::io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let timer = self
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + WRITE_STALL)));
        if timer.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(std::io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }
}

impl AsyncRead for Guarded {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().tcp).poll_read(cx, buf)
    }
}

impl AsyncWrite for Guarded {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.tcp).poll_write(cx, buf);
        this.watch(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.tcp).poll_write_vectored(cx, bufs);
        this.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().tcp).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().tcp).poll_shutdown(cx)
    }
}
