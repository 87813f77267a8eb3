//! Reads that must be fresh: waiting until the cache knows what the reader may not miss.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Cache;
use super::board::CacheState;
use super::object::Object;
use super::snapshot::Snapshot;
use crate::error::Error;
use crate::store::{ProgressSupport, Range, Revision};

/// How often progress is asked for again while somebody waits.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// How long kube-apiserver lets a read wait for its cache.
pub const FRESH_WAIT: Duration = Duration::from_secs(3);

/// Why the cache cannot answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    /// It was never complete yet: lists and watches answer 429, a GET reads the store.
    #[error("storage is (re)initializing")]
    Filling,
    /// It did not reach the revision in time.
    #[error("Too large resource version: {wanted}, current: {current}")]
    TooNew {
        /// The revision to be reached.
        wanted: Revision,
        /// The revision reached.
        current: Revision,
    },
    /// This store's progress cannot be trusted; read the store.
    #[error("the store's watch progress is not reliable")]
    Unreliable,
    /// The store could not be asked for its revision.
    #[error(transparent)]
    Store(#[from] Error),
}

/// Objects read from the store.
#[derive(Debug, Clone)]
pub struct ObjectPage {
    /// In key order. They may be broken.
    pub objects: Vec<Arc<Object>>,
    /// How many follow.
    pub remaining: u64,
    /// The revision read.
    pub revision: Revision,
}

impl Cache {
    /// A state at least as new as `revision`, waited for.
    pub async fn at_least(&self, revision: Revision, wait: Duration) -> Result<Snapshot, ReadError> {
        let snapshot = self.board.snapshot().ok_or(ReadError::Filling)?;
        if snapshot.revision() >= revision {
            return Ok(snapshot);
        }
        let started = Instant::now();
        let result = self.reach(revision, started + wait).await;
        if let Some(metrics) = self.board.metrics() {
            metrics.waited(started.elapsed());
        }
        result
    }

    /// A state that shows everything committed before the call. When this fails with anything but `Filling`, the store
    /// itself has to be read (`read_range`), which kube-apiserver does as well.
    pub async fn consistent(&self, wait: Duration) -> Result<Snapshot, ReadError> {
        if self.store.progress() == ProgressSupport::Unreliable {
            return Err(ReadError::Unreliable);
        }
        if self.state() == CacheState::Filling {
            return Err(ReadError::Filling);
        }
        let deadline = Instant::now() + wait;
        let wanted = match self.board.needed() {
            Some(revision) => Ok(revision),
            None => match tokio::time::timeout(wait, self.store.current_revision()).await {
                Ok(revision) => revision,
                Err(_) => Err(Error::Timeout),
            },
        };
        let result = match wanted {
            Ok(wanted) => {
                self.at_least(wanted, deadline.saturating_duration_since(Instant::now()))
                    .await
            }
            Err(error) => Err(error.into()),
        };
        if let Some(metrics) = self.board.metrics() {
            metrics.consistent_read(result.is_ok(), result.is_err());
        }
        result
    }

    async fn reach(&self, wanted: Revision, deadline: Instant) -> Result<Snapshot, ReadError> {
        loop {
            let advanced = self.board.advanced();
            tokio::pin!(advanced);
            advanced.as_mut().enable();
            let snapshot = self.board.snapshot().ok_or(ReadError::Filling)?;
            if snapshot.revision() >= wanted {
                return Ok(snapshot);
            }
            let now = Instant::now();
            if now >= deadline {
                return Err(ReadError::TooNew {
                    wanted,
                    current: snapshot.revision(),
                });
            }
            self.board.request_progress();
            // Another change may wake this up without having brought it closer: then progress is asked for again.
            let _ = tokio::time::timeout(ASK_EVERY.min(deadline - now), advanced).await;
        }
    }

    /// One object from the store itself, and the store's revision.
    pub async fn read(&self, key: &str) -> Result<(Option<Arc<Object>>, Revision), Error> {
        let (entry, revision) = self.store.get(key).await?;
        Ok((entry.map(|entry| self.ingest(&entry)), revision))
    }

    /// Objects from the store itself: exact revisions that memory no longer tells, and reads it cannot answer.
    pub async fn read_range(&self, range: Range<'_>) -> Result<ObjectPage, Error> {
        let page = self.store.range(range).await?;
        let objects = page.entries.iter().map(|entry| self.ingest(entry)).collect();
        Ok(ObjectPage {
            objects,
            remaining: page.remaining,
            revision: page.revision,
        })
    }
}
