//! Confirms a negative: brings what is known up to its source, but not for every question anew.
//!
//! Contract: whoever asks gets an answer that began after the question. At most one refresh runs and one waits, whatever
//! number of questions is asked, and two never begin closer together than the interval: a storm of refused requests costs
//! the source a few looks a second.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, Shared};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Brings a mirror up to its source.
pub trait Refresh: Send + Sync + 'static {
    /// Done when everything the source held at the call is known here, or when the source cannot be reached.
    fn refresh(&self) -> BoxFuture<'_, ()>;
}

type Turn = Shared<BoxFuture<'static, ()>>;

/// Lets many share the refreshes of another.
pub struct Coalesced {
    shared: Arc<Inner>,
}

struct Inner {
    refresh: Box<dyn Refresh>,
    interval: Duration,
    /// One runs at a time.
    turn: Semaphore,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// The one that has not begun.
    next: Option<Turn>,
    began: Option<Instant>,
}

impl Coalesced {
    /// Two refreshes begin at least `interval` apart.
    pub fn new(refresh: Box<dyn Refresh>, interval: Duration) -> Coalesced {
        Coalesced {
            shared: Arc::new(Inner {
                refresh,
                interval,
                turn: Semaphore::new(1),
                waiting: Mutex::default(),
            }),
        }
    }
}

impl Inner {
    async fn take_turn(self: Arc<Inner>) {
        // The semaphore is never closed; if it were, refreshing without a turn would still be right.
        let _turn = self.turn.acquire().await.ok();
        let earliest = self.waiting.lock().began.map(|began| began + self.interval);
        if let Some(earliest) = earliest {
            tokio::time::sleep_until(earliest).await;
        }
        {
            let mut waiting = self.waiting.lock();
            waiting.next = None;
            waiting.began = Some(Instant::now());
        }
        self.refresh.refresh().await;
    }
}

impl Refresh for Coalesced {
    fn refresh(&self) -> BoxFuture<'_, ()> {
        let mut waiting = self.shared.waiting.lock();
        let turn = waiting
            .next
            .get_or_insert_with(|| self.shared.clone().take_turn().boxed().shared());
        turn.clone().boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Slow(Arc<AtomicUsize>);

    impl Refresh for Slow {
        fn refresh(&self) -> BoxFuture<'_, ()> {
            async {
                self.0.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            .boxed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn many_questions_share_one_refresh_and_late_ones_the_next() {
        let count = Arc::new(AtomicUsize::new(0));
        let refresh = Arc::new(Coalesced::new(Box::new(Slow(count.clone())), Duration::from_millis(50)));
        let ask = |_| {
            let refresh = refresh.clone();
            tokio::spawn(async move { refresh.refresh().await })
        };
        let mut asked: Vec<_> = (0..100).map(ask).collect();
        tokio::time::sleep(Duration::from_millis(10)).await;
        // The first refresh runs: what these ask may not be in it.
        asked.extend((0..100).map(ask));
        for task in asked {
            assert!(task.await.is_ok());
        }
        assert_eq!(count.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn refreshes_keep_their_distance() {
        let count = Arc::new(AtomicUsize::new(0));
        let refresh = Coalesced::new(Box::new(Slow(count.clone())), Duration::from_secs(1));
        let begin = Instant::now();
        for _ in 0..3 {
            refresh.refresh().await;
        }
        assert_eq!(count.load(Ordering::Relaxed), 3);
        assert!(begin.elapsed() >= Duration::from_secs(2));
    }
}
