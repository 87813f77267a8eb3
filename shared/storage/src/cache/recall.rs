//! Reaches back beyond what a cache has seen itself: a process that was just started remembers nothing from before its fill,
//! but the store does, and whoever watched its predecessor shall be able to go on where he was.
//!
//! kube-apiserver answers such a watch 410 after a restart. Every reflector then lists again, all at once, and none of them
//! learns what came and went meanwhile; here it costs one read of the store's history for all who ask. Only what follows
//! directly before the cache's own memory is recalled: never once that memory has begun to forget.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};

use super::Cache;
use super::event::Transition;
use super::object::Object;
use crate::error::Error;
use crate::store::{Batch, Change, Range, Revision};

/// More than this is not read: listing again is then cheaper for everybody.
const MOST_CHANGES: usize = 5_000;
const MOST_BYTES: usize = 16 << 20;
/// The store is given so long.
const PATIENCE: Duration = Duration::from_secs(5);
/// The store is asked so often how far the watch is, while it says nothing.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// Past values read at once.
const READS: usize = 8;

/// Where recalling was tried in vain: nothing at or before this revision can be had.
pub(super) type Hopeless = tokio::sync::Mutex<Revision>;

impl Cache {
    /// Tries to learn from the store what happened after `wanted`. True when a watch can begin there now.
    pub async fn recall(&self, wanted: Revision) -> bool {
        let mut hopeless = self.hopeless.lock().await;
        let Some((floor, epoch)) = self.board.recallable() else {
            return false;
        };
        if floor <= wanted || wanted <= *hopeless {
            return floor <= wanted;
        }
        match tokio::time::timeout(PATIENCE, self.past(wanted, floor)).await {
            Ok(Ok(Some(transitions))) => self.board.remember(transitions, wanted, floor, epoch),
            Ok(Err(error)) => {
                tracing::info!(prefix = &*self.prefix, %error, "the past cannot be read");
                false
            }
            Ok(Ok(None)) | Err(_) => {
                *hopeless = wanted;
                false
            }
        }
    }

    /// What happened after one revision, up to and including another; `None` when it is forgotten or too much.
    async fn past(&self, after: Revision, until: Revision) -> Result<Option<Vec<Arc<Transition>>>, Error> {
        let changes = match self.changes(after, until).await {
            Ok(Some(changes)) => changes,
            Ok(None) | Err(Error::Compacted { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let keys: BTreeSet<Arc<str>> = changes.iter().map(|change| change.key().clone()).collect();
        let before = stream::iter(keys.into_iter().map(|key| self.value_at(key, after)))
            .buffer_unordered(READS)
            .try_collect::<Vec<Option<_>>>();
        let before = match before.await {
            Ok(before) => before,
            Err(Error::Compacted { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut objects: HashMap<Arc<str>, Arc<Object>> = before
            .into_iter()
            .flatten()
            .map(|object| (object.key().clone(), object))
            .collect();
        let transition = |change: Change| {
            let (key, revision, object) = match change {
                Change::Put(entry) => (entry.key.clone(), entry.revision, Some(self.shared(&entry))),
                Change::Delete { key, revision } => (key, revision, None),
            };
            let previous = match &object {
                Some(object) => objects.insert(key.clone(), object.clone()),
                None => objects.remove(&key),
            };
            (object.is_some() || previous.is_some()).then(|| Arc::new(Transition::new(revision, key, object, previous)))
        };
        Ok(Some(changes.into_iter().filter_map(transition).collect()))
    }

    async fn changes(&self, after: Revision, until: Revision) -> Result<Option<Vec<Change>>, Error> {
        let mut watch = self.store.watch(&self.prefix, after).await?;
        let (mut changes, mut bytes, mut reached) = (Vec::new(), 0, after);
        while reached < until {
            watch.control.request_progress();
            match tokio::time::timeout(ASK_EVERY, watch.batches.next()).await {
                Err(_) => {}
                Ok(Some(Ok(Batch::Changes(batch)))) => {
                    for change in batch {
                        reached = change.revision();
                        if reached <= until {
                            bytes += match &change {
                                Change::Put(entry) => entry.value.len(),
                                Change::Delete { .. } => 0,
                            };
                            changes.push(change);
                        }
                    }
                    if changes.len() > MOST_CHANGES || bytes > MOST_BYTES {
                        return Ok(None);
                    }
                }
                Ok(Some(Ok(Batch::Progress(at)))) => reached = reached.max(at),
                Ok(Some(Ok(Batch::Compacted(_)))) => return Ok(None),
                Ok(Some(Err(error))) => return Err(error),
                Ok(None) => return Err(Error::Unavailable("the watch ended".into())),
            }
        }
        Ok(Some(changes))
    }

    async fn value_at(&self, key: Arc<str>, at: Revision) -> Result<Option<Arc<Object>>, Error> {
        let range = Range {
            prefix: &key,
            from: None,
            limit: 1,
            at: Some(at),
        };
        let page = self.store.range(range).await?;
        Ok(page
            .entries
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| self.ingest(entry)))
    }

    /// The object of an entry: the very one that the present state holds, where it still does.
    fn shared(&self, entry: &crate::store::Entry) -> Arc<Object> {
        let present = self
            .board
            .snapshot()
            .and_then(|snapshot| snapshot.get(&entry.key).cloned());
        match present {
            Some(object) if object.revision() == entry.revision => object,
            _ => self.ingest(entry),
        }
    }
}
