//! The watch cache: one resource in memory, from which reads and watches are answered.
//!
//! ```text
//! Store ──list, watch──▶ feed ──batches──▶ board ──snapshots──▶ reads (no lock)
//!                     (ingests once)         └────events──────▶ bounded queue per watcher
//! ```
//!
//! - `Cache` is the handle; the last one dropped ends the feed and all watches.
//! - A writer answers from the bytes it stored (`Cache::ingest`) and does not touch the cache; whoever reads afterwards
//!   with `consistent` sees the write, because the store's revision is what is waited for. Letting writers apply their own
//!   results was rejected: two sources of order for one board.
//! - Keys are those of the store, relative to it: `/pods/default/web-0`.

mod board;
mod event;
mod feed;
mod history;
mod layout;
mod map;
mod object;
mod reads;
mod recall;
mod scan;
mod snapshot;
mod source;
mod watcher;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

pub use board::{Board, CacheState, Update};
pub use event::{Event, EventKind, Transition};
pub use object::{Decoder, FieldPath, InvalidObject, JsonDecoder, Labels, Object};
pub use reads::{FRESH_WAIT, ObjectPage, ReadError};
pub use scan::Span;
pub use snapshot::{Mark, Snapshot};
pub use source::{Derived, Source, View};
pub use watcher::{Interest, Scope, Start, WatchEnd, WatchError, Watcher};

use crate::metered::Metered;
use crate::metrics::{Metrics, ResourceMetrics};
use crate::store::{Entry, Store};

/// Decides whether an object is among those somebody asked for; called on the dispatcher, so it must be quick.
pub type Filter = Arc<dyn Fn(&Object) -> bool + Send + Sync>;

/// What a cache has to know of its resource.
#[derive(Clone)]
pub struct CacheConfig {
    /// API group; empty for the core group.
    pub group: Box<str>,
    /// Plural name.
    pub resource: Box<str>,
    /// All keys of the resource start with this; ends with a slash: `/pods/`.
    pub prefix: Arc<str>,
    /// How stored values are read.
    pub decoder: Arc<dyn Decoder>,
    /// Numbers of the selectable fields to index.
    pub indexes: Vec<usize>,
}

/// The watch cache of one resource.
pub struct Cache {
    board: Arc<Board>,
    store: Arc<dyn Store>,
    decoder: Arc<dyn Decoder>,
    prefix: Arc<str>,
    hopeless: recall::Hopeless,
    feed: tokio::task::AbortHandle,
}

impl Cache {
    /// Begins to fill; runs on the current tokio runtime. The store's requests are counted for this resource.
    pub fn start(store: &Arc<dyn Store>, config: CacheConfig, metrics: &Metrics) -> Arc<Self> {
        let CacheConfig {
            group,
            resource,
            prefix,
            decoder,
            indexes,
        } = config;
        let store: Arc<dyn Store> = Arc::new(Metered::new(store.clone(), metrics, &group, &resource));
        let board = Arc::new(Board::with_metrics(
            &indexes,
            Some(ResourceMetrics::new(metrics, &group, &resource)),
        ));
        let feed = feed::Feed {
            store: store.clone(),
            board: board.clone(),
            decoder: decoder.clone(),
            prefix: prefix.clone(),
        };
        let feed = tokio::spawn(feed.run()).abort_handle();
        Arc::new(Self {
            board,
            store,
            decoder,
            prefix,
            hopeless: recall::Hopeless::default(),
            feed,
        })
    }

    /// The store as used for this resource: writes go there.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// What all keys of the resource start with.
    pub fn prefix(&self) -> &Arc<str> {
        &self.prefix
    }

    /// Whether it can be read.
    pub fn state(&self) -> CacheState {
        self.board.state()
    }

    /// Resolves when it was filled for the first time.
    pub async fn filled(&self) {
        loop {
            let advanced = self.board.advanced();
            tokio::pin!(advanced);
            advanced.as_mut().enable();
            if self.state() != CacheState::Filling {
                return;
            }
            advanced.await;
        }
    }

    /// The state as far as it is known.
    pub fn snapshot(&self) -> Result<Snapshot, ReadError> {
        self.board.snapshot().ok_or(ReadError::Filling)
    }

    /// One object as far as it is known. It may be broken.
    pub fn get(&self, key: &str) -> Result<Option<Arc<Object>>, ReadError> {
        Ok(self.snapshot()?.get(key).cloned())
    }

    /// The state at exactly this revision from memory; `None`: read it from the store (`read_range`).
    pub fn at(&self, revision: crate::Revision) -> Option<Snapshot> {
        self.board.at(revision)
    }

    /// Begins a watch; gives the state it continues from as well.
    pub fn watch(&self, start: Start, interest: Interest) -> Result<(Snapshot, Watcher), WatchError> {
        self.board.watch(start, interest)
    }

    /// The cached form of an entry: what a writer answers with after its write, and the current state in a conflict.
    pub fn ingest(&self, entry: &Entry) -> Arc<Object> {
        feed::ingest(entry, &*self.decoder, self.board.metrics())
    }

    /// Ends the feed and all watches, for a resource that is no longer served in this form; reads see the last state.
    pub fn close(&self) {
        self.feed.abort();
        self.board.close();
    }

    /// Counts a LIST answered from here: by which index (empty: none), objects looked at and returned.
    pub fn count_list(&self, index: &str, fetched: usize, returned: usize) {
        if let Some(metrics) = self.board.metrics() {
            metrics.listed(index, fetched, returned);
        }
    }
}

impl Source for Cache {
    fn board(&self) -> &Arc<Board> {
        &self.board
    }

    fn consistent<'a>(&'a self, wait: Duration) -> BoxFuture<'a, Result<Snapshot, ReadError>> {
        Box::pin(Cache::consistent(self, wait))
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests;
