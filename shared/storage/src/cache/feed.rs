//! Keeps a board in step with the store: list, then watch; watch again where it broke off; list again only when the store
//! no longer remembers, or went back in time.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;

use super::board::{Board, CacheState, Update};
use super::object::{Decoder, Object};
use crate::error::Error;
use crate::metrics::{Count, ResourceMetrics};
use crate::store::{Batch, Change, Entry, Range, Revision, Store};

/// Entries read at once while filling; bounds what a fill holds besides the cache itself.
const PAGE: usize = 500;
const FIRST_RETRY: Duration = Duration::from_millis(10);
const LAST_RETRY: Duration = Duration::from_secs(1);

pub(crate) struct Feed {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) board: Arc<Board>,
    pub(crate) decoder: Arc<dyn Decoder>,
    pub(crate) prefix: Arc<str>,
}

/// Why following the store ended.
enum Lost {
    /// Try again from where it was.
    Touch(Error),
    /// The store does not remember what came after.
    History,
}

impl Feed {
    /// Runs until it is dropped.
    pub(crate) async fn run(self) {
        let mut retry = Retry::default();
        loop {
            let mut revision = loop {
                match self.fill().await {
                    Ok(revision) => break revision,
                    Err(error) => retry.wait(&self.prefix, "filling", &error).await,
                }
            };
            retry = Retry::default();
            loop {
                let lost = self.follow(&mut revision, &mut retry).await;
                self.board.set_control(None);
                self.board.set_state(CacheState::Lagging);
                match lost {
                    Lost::History => break,
                    Lost::Touch(error) => {
                        retry.wait(&self.prefix, "following", &error).await;
                    }
                }
            }
        }
    }

    /// Lists everything at one revision and publishes it.
    async fn fill(&self) -> Result<Revision, Error> {
        let mut objects = Vec::new();
        let (mut from, mut at): (Option<String>, _) = (None, None);
        let revision = loop {
            let range = Range {
                prefix: &self.prefix,
                from: from.as_deref(),
                limit: PAGE,
                at,
            };
            let page = self.store.range(range).await?;
            objects.extend(page.entries.iter().map(|entry| self.ingest(entry)));
            match page.entries.last() {
                Some(last) if page.remaining > 0 => {
                    from = Some(format!("{}\0", last.key));
                    at = Some(page.revision);
                }
                _ => break page.revision,
            }
        };
        self.board.reset(objects, revision);
        Ok(revision)
    }

    async fn follow(&self, revision: &mut Revision, retry: &mut Retry) -> Lost {
        match self.store.current_revision().await {
            // The store was restored from a backup: what is cached may never have happened.
            Ok(current) if current < *revision => return Lost::History,
            Ok(_) => {}
            Err(error) => return Lost::Touch(error),
        }
        let mut watch = match self.store.watch(&self.prefix, *revision).await {
            Ok(watch) => watch,
            Err(Error::Compacted { .. }) => return Lost::History,
            Err(error) => return Lost::Touch(error),
        };
        self.board.set_control(Some(watch.control.clone()));
        self.board.set_state(CacheState::Ready);
        loop {
            match watch.batches.next().await {
                Some(Ok(Batch::Changes(changes))) => {
                    *retry = Retry::default();
                    if let Some(metrics) = self.board.metrics() {
                        metrics.count(Count::StoreEvents, changes.len() as u64);
                    }
                    *revision = changes.last().map_or(*revision, Change::revision).max(*revision);
                    self.board
                        .apply(changes.into_iter().map(|change| self.update(change)).collect());
                }
                Some(Ok(Batch::Progress(at))) => {
                    *retry = Retry::default();
                    if let Some(metrics) = self.board.metrics() {
                        metrics.count(Count::Bookmarks, 1);
                    }
                    *revision = at.max(*revision);
                    self.board.set_progress(at);
                }
                Some(Ok(Batch::Compacted(_)) | Err(Error::Compacted { .. })) => return Lost::History,
                Some(Err(error)) => return Lost::Touch(error),
                None => return Lost::Touch(Error::Unavailable("the watch ended".into())),
            }
        }
    }

    fn update(&self, change: Change) -> Update {
        match change {
            Change::Put(entry) => Update::Put(self.ingest(&entry)),
            Change::Delete { key, revision } => Update::Delete(key, revision),
        }
    }

    fn ingest(&self, entry: &Entry) -> Arc<Object> {
        ingest(entry, &*self.decoder, self.board.metrics())
    }
}

pub(crate) fn ingest(entry: &Entry, decoder: &dyn Decoder, metrics: Option<&ResourceMetrics>) -> Arc<Object> {
    let object = Object::ingest(entry, decoder);
    if let Some(problem) = object.broken() {
        tracing::info!(key = &*entry.key, problem, "a stored value cannot be decoded");
        if let Some(metrics) = metrics {
            metrics.decode_error();
        }
    }
    Arc::new(object)
}

/// Waits longer from failure to failure, and says so once.
#[derive(Default)]
struct Retry {
    failures: u32,
}

impl Retry {
    async fn wait(&mut self, prefix: &str, doing: &str, error: &Error) {
        if self.failures == 0 {
            tracing::info!(prefix, %error, "{doing} the cache failed, trying again");
        }
        let longest = FIRST_RETRY.saturating_mul(1 << self.failures.min(10)).min(LAST_RETRY);
        self.failures += 1;
        // Many caches lose touch at the same time; they shall not come back at the same time.
        tokio::time::sleep(longest.mul_f64(0.5 + 0.5 * rand::random::<f64>())).await;
    }
}
