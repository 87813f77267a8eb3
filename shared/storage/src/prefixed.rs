//! A store seen from below a prefix: callers' keys stay short, the store's keys are kube-apiserver's (`/registry/…`).

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;

use crate::error::{Error, WriteError};
use crate::store::{Batch, Change, Entry, Page, ProgressSupport, Range, Revision, Store, Watch, Write};

/// Adds a prefix to every key on the way in and removes it on the way out.
pub struct Prefixed {
    inner: Arc<dyn Store>,
    prefix: Arc<str>,
}

impl Prefixed {
    /// `prefix` is put before keys as it is, without a separator.
    pub fn new(inner: Arc<dyn Store>, prefix: impl Into<Arc<str>>) -> Self {
        Self {
            inner,
            prefix: prefix.into(),
        }
    }

    fn outer(&self, key: &str) -> String {
        [&self.prefix, key].concat()
    }
}

fn strip(prefix: &str, key: &str) -> Arc<str> {
    Arc::from(key.strip_prefix(prefix).unwrap_or(key))
}

fn strip_entry(prefix: &str, entry: Entry) -> Entry {
    Entry {
        key: strip(prefix, &entry.key),
        ..entry
    }
}

fn strip_change(prefix: &str, change: Change) -> Change {
    match change {
        Change::Put(entry) => Change::Put(strip_entry(prefix, entry)),
        Change::Delete { key, revision } => Change::Delete {
            key: strip(prefix, &key),
            revision,
        },
    }
}

impl Store for Prefixed {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(Option<Entry>, Revision), Error>> {
        Box::pin(async move {
            let (entry, revision) = self.inner.get(&self.outer(key)).await?;
            Ok((entry.map(|entry| strip_entry(&self.prefix, entry)), revision))
        })
    }

    fn range<'a>(&'a self, range: Range<'a>) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move {
            let prefix = self.outer(range.prefix);
            let from = range.from.map(|from| self.outer(from));
            let page = self
                .inner
                .range(Range {
                    prefix: &prefix,
                    from: from.as_deref(),
                    ..range
                })
                .await?;
            let entries = page
                .entries
                .into_iter()
                .map(|entry| strip_entry(&self.prefix, entry))
                .collect();
            Ok(Page { entries, ..page })
        })
    }

    fn write<'a>(&'a self, write: Write<'a>) -> BoxFuture<'a, Result<Revision, WriteError>> {
        Box::pin(async move {
            let key = self.outer(write.key);
            match self.inner.write(Write { key: &key, ..write }).await {
                Err(WriteError::Conflict(mut conflict)) => {
                    conflict.current = conflict.current.map(|entry| strip_entry(&self.prefix, entry));
                    Err(WriteError::Conflict(conflict))
                }
                other => other,
            }
        })
    }

    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<Watch, Error>> {
        Box::pin(async move {
            let watch = self.inner.watch(&self.outer(prefix), after).await?;
            let prefix = self.prefix.clone();
            let batches = watch.batches.map(move |batch| {
                batch.map(|batch| match batch {
                    Batch::Changes(changes) => Batch::Changes(
                        changes
                            .into_iter()
                            .map(|change| strip_change(&prefix, change))
                            .collect(),
                    ),
                    other => other,
                })
            });
            Ok(Watch {
                batches: batches.boxed(),
                control: watch.control,
            })
        })
    }

    fn current_revision(&self) -> BoxFuture<'_, Result<Revision, Error>> {
        self.inner.current_revision()
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), Error>> {
        self.inner.compact(revision)
    }

    fn progress(&self) -> ProgressSupport {
        self.inner.progress()
    }

    fn size(&self) -> BoxFuture<'_, Result<u64, Error>> {
        self.inner.size()
    }
}
