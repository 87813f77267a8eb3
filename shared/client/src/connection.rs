//! One HTTP/2 connection to another server: its task, its pings, its count of requests.
//!
//! Contract: a connection whose ping is not answered in time is dropped, which fails its requests at once; a peer that
//! is alive but slow only costs time. The connection's window is stream window × streams, so no answer that is not read
//! can stop another on the same connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::fair::Fair;
use crate::pool::InFlight;

/// How often a connection is pinged, and how long a pong may take.
const PING_INTERVAL: Duration = Duration::from_secs(2);
const PONG_TIMEOUT: Duration = Duration::from_secs(2);

/// What may be on its way to us per answer.
pub const STREAM_WINDOW: u32 = 256 * 1024;
/// Requests per connection, unless the peer permits fewer.
pub const MAX_STREAMS: usize = 200;
/// What the bookkeeping of small frames that are not read yet may cost before the connection is given up; what many
/// stalled watches of small events can reach must be far below.
const SMALL_FRAMES: usize = 128 * 1024 * 1024;
/// Bytes per answer kept for the socket.
const SEND_BUFFER: usize = 256 * 1024;

/// A connection that requests can be sent on.
pub struct Connection {
    send: SendRequest<Bytes>,
    in_flight: AtomicUsize,
    // all connections' requests to the same address, for balancing
    load: Arc<AtomicUsize>,
    closed: Arc<AtomicBool>,
    task: tokio::task::AbortHandle,
}

impl Connection {
    /// Speaks HTTP/2 on `io` and starts the connection's task.
    pub(crate) async fn start(
        io: TlsStream<Fair<TcpStream>>,
        load: Arc<AtomicUsize>,
        on_close: impl FnOnce() + Send + 'static,
    ) -> Result<Arc<Connection>, h2::Error> {
        let (send, mut driver) = h2::client::Builder::new()
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(STREAM_WINDOW * MAX_STREAMS as u32)
            .max_frame_size(64 * 1024)
            .max_header_list_size(1024 * 1024)
            .max_send_buffer_size(SEND_BUFFER)
            .data_frame_budget(SMALL_FRAMES)
            .enable_push(false)
            .handshake(io)
            .await?;
        let closed = Arc::new(AtomicBool::new(false));
        let pings = driver.ping_pong();
        let closed_by_task = Arc::clone(&closed);
        let task = tokio::spawn(async move {
            let outcome = tokio::select! {
                outcome = &mut driver => outcome.err().map(|e| e.to_string()),
                () = keep_alive(pings) => Some("a ping was not answered".to_owned()),
            };
            closed_by_task.store(true, Ordering::Release);
            drop(driver);
            if let Some(why) = outcome {
                tracing::debug!(why, "connection to another server ended");
            }
            on_close();
        });
        Ok(Arc::new(Connection {
            send,
            in_flight: AtomicUsize::new(0),
            load,
            closed,
            task: task.abort_handle(),
        }))
    }

    /// True if no request can be sent any more.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Sends no more requests here; those in flight go on.
    pub(crate) fn retire(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Requests that may be in flight at once.
    pub fn limit(&self) -> usize {
        self.send.current_max_send_streams().min(MAX_STREAMS)
    }

    /// Takes a place for a request.
    pub(crate) fn enter(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.load.fetch_add(1, Ordering::Relaxed);
        InFlight(Arc::clone(self))
    }

    /// Gives the place back.
    pub(crate) fn leave(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.load.fetch_sub(1, Ordering::Relaxed);
    }

    /// The handle that sends one request.
    pub(crate) fn sender(&self) -> SendRequest<Bytes> {
        self.send.clone()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // nobody can send on it and nothing is in flight: places hold the connection
        self.task.abort();
    }
}

/// Completes when the peer is gone.
async fn keep_alive(pings: Option<h2::PingPong>) {
    let Some(mut pings) = pings else {
        return std::future::pending().await;
    };
    let mut ticks = tokio::time::interval(PING_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let pong = tokio::time::timeout(PONG_TIMEOUT, pings.ping(h2::Ping::opaque())).await;
        match pong {
            Ok(Ok(_)) => {}
            // the connection's own task says what happened
            Ok(Err(_)) => return std::future::pending().await,
            Err(_) => return,
        }
    }
}
