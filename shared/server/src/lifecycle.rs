//! The phases of a tier's life, from starting to stopped, seen by everybody who acts on them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// Where a tier is in its life; it only goes forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Hooks run, caches fill.
    Starting,
    /// Every cache was filled once.
    CachesSynced,
    /// Ready was announced.
    Serving,
    /// Not ready any more, but serving until balancers have noticed.
    ShuttingDown,
    /// New work is refused, what is in flight ends.
    Draining,
    /// Nothing is in flight.
    Stopped,
}

/// A tier's phase; clones see the same.
#[derive(Clone)]
pub struct Lifecycle(Arc<watch::Sender<Phase>>);

impl Default for Lifecycle {
    fn default() -> Self {
        Lifecycle(Arc::new(watch::Sender::new(Phase::Starting)))
    }
}

impl Lifecycle {
    /// The phase now.
    pub fn phase(&self) -> Phase {
        *self.0.borrow()
    }

    /// Goes on to `phase`; going back is ignored.
    pub fn advance(&self, phase: Phase) {
        let moved = self.0.send_if_modified(|now| {
            let later = phase > *now;
            if later {
                *now = phase;
            }
            later
        });
        if moved {
            tracing::info!(?phase, "lifecycle");
        }
    }

    /// Completes when `phase` is reached.
    pub async fn reached(&self, phase: Phase) {
        // the sender lives in self: it cannot be gone
        let _ = self.0.subscribe().wait_for(|now| *now >= phase).await;
    }
}

/// The wish to stop.
#[derive(Clone)]
pub struct Shutdown(Arc<watch::Sender<bool>>);

impl Default for Shutdown {
    fn default() -> Self {
        Shutdown(Arc::new(watch::Sender::new(false)))
    }
}

impl Shutdown {
    /// Stops on SIGTERM or SIGINT; a second one ends the process at once with exit code 1.
    pub fn on_signals() -> std::io::Result<Shutdown> {
        use tokio::signal::unix::{SignalKind, signal};
        let shutdown = Shutdown::default();
        let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let trigger = shutdown.clone();
        tokio::spawn(async move {
            tokio::select! { _ = term.recv() => {} _ = int.recv() => {} }
            tracing::info!("received a signal, shutting down");
            trigger.trigger();
            tokio::select! { _ = term.recv() => {} _ = int.recv() => {} }
            tracing::info!("received a second signal, exiting at once");
            std::process::exit(1);
        });
        Ok(shutdown)
    }

    /// Asks to stop.
    pub fn trigger(&self) {
        self.0.send_replace(true);
    }

    /// Completes when stopping was asked for.
    pub async fn requested(&self) {
        let _ = self.0.subscribe().wait_for(|asked| *asked).await;
    }
}

/// How a tier stops.
#[derive(Clone, Copy, Debug)]
pub struct ShutdownTimes {
    /// Serving goes on for so long after the signal (`--shutdown-delay-duration`).
    pub delay: Duration,
    /// Watches end at random points of this time (`--shutdown-watch-termination-grace-period`).
    pub watches: Duration,
    /// Other requests may take so long to end (`--request-timeout`).
    pub requests: Duration,
}
