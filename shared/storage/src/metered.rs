//! A store that counts and times the requests of one resource.

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::BoxFuture;

use crate::error::{Error, WriteError};
use crate::metrics::Metrics;
use crate::store::{Entry, Expect, Page, ProgressSupport, Range, Revision, Store, Watch, Write};

/// Records every request under the resource's group and name.
pub struct Metered {
    inner: Arc<dyn Store>,
    metrics: Metrics,
    group: Box<str>,
    resource: Box<str>,
}

impl Metered {
    /// `inner` as used for one resource.
    pub fn new(inner: Arc<dyn Store>, metrics: &Metrics, group: &str, resource: &str) -> Self {
        Self {
            inner,
            metrics: metrics.clone(),
            group: group.into(),
            resource: resource.into(),
        }
    }

    fn record(&self, operation: &str, started: Instant, failed: bool) {
        self.metrics
            .request(operation, &self.group, &self.resource, started, failed);
    }
}

impl Store for Metered {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(Option<Entry>, Revision), Error>> {
        Box::pin(async move {
            let started = Instant::now();
            let result = self.inner.get(key).await;
            self.record("get", started, result.is_err());
            result
        })
    }

    fn range<'a>(&'a self, range: Range<'a>) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move {
            let started = Instant::now();
            let result = self.inner.range(range).await;
            self.record("list", started, result.is_err());
            result
        })
    }

    fn write<'a>(&'a self, write: Write<'a>) -> BoxFuture<'a, Result<Revision, WriteError>> {
        Box::pin(async move {
            let operation = match (&write.put, write.expect) {
                (None, _) => "delete",
                (_, Expect::Absent) => "create",
                (_, Expect::Revision(_)) => "update",
            };
            let started = Instant::now();
            let result = self.inner.write(write).await;
            self.record(operation, started, matches!(result, Err(WriteError::Store(_))));
            result
        })
    }

    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<Watch, Error>> {
        self.inner.watch(prefix, after)
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
