//! A store that shows custom resources in one version and keeps them in another, by way of a conversion webhook.
//!
//! Contract: it is a [`Store`] like any other, so that each version of such a CRD has a watch cache of its own and reads
//! never wait for the webhook. What is read is pruned and defaulted by the schema of the version it is stored in, then
//! converted, then pruned by the schema of the version wanted, as kube-apiserver's codec does it. A conversion that fails
//! fails the read or write with the webhook's text. A value that is no object of the kind passes as it is: the cache
//! counts it as broken.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use triptych_object::{Value, json};
use triptych_storage::{
    Batch, Change, Conflict, Entry, Error, Page, ProgressSupport, Range, Revision, Store, Watch, Write, WriteError,
};

use super::conversion::Converter;
use super::kind::CustomKind;
use super::model::sort_members;

/// One version of a custom resource over the store of another.
pub struct Converting {
    inner: Arc<dyn Store>,
    shown: Arc<Shown>,
}

/// How values are to look.
struct Shown {
    kind: Arc<CustomKind>,
    /// Number of the version shown.
    version: usize,
    /// Number of the version stored.
    stored: usize,
    converter: Arc<Converter>,
}

impl Converting {
    /// Objects of `kind` in `version`, kept in `inner` as `stored`.
    pub fn new(
        inner: Arc<dyn Store>,
        kind: Arc<CustomKind>,
        version: usize,
        stored: usize,
        converter: Arc<Converter>,
    ) -> Converting {
        let shown = Shown {
            kind,
            version,
            stored,
            converter,
        };
        Converting {
            inner,
            shown: Arc::new(shown),
        }
    }
}

impl Shown {
    fn api_version(&self, version: usize) -> &str {
        self.kind.versions.get(version).map_or("", |v| &v.api_version)
    }

    /// A stored value as an object of the version it is in; `None` if it is none of this kind.
    fn decoded(&self, value: &[u8]) -> Option<(usize, Value)> {
        let mut document = json::from_slice(value).ok()?;
        let version = self.kind.version_of(&document)?;
        self.kind.coerce(version, &mut document, true).ok()?;
        self.kind.default(version, &mut document);
        Some((version, document))
    }

    async fn show<'a>(&self, entries: impl Iterator<Item = &'a mut Entry>) -> Result<(), Error> {
        let (mut waiting, mut documents) = (Vec::new(), Vec::new());
        for entry in entries {
            match self.decoded(&entry.value) {
                Some((version, document)) if version == self.version => entry.value = json::to_vec(&document).into(),
                Some((_, document)) => {
                    waiting.push(entry);
                    documents.push(document);
                }
                None => {}
            }
        }
        if documents.is_empty() {
            return Ok(());
        }
        let converted = self.converter.convert(documents, self.api_version(self.version)).await;
        for (entry, mut document) in waiting.into_iter().zip(converted.map_err(Error::Other)?) {
            self.prune(self.version, &mut document)?;
            entry.value = json::to_vec(&document).into();
        }
        Ok(())
    }

    /// A written value in the version that is stored.
    async fn stored(&self, value: Bytes) -> Result<Bytes, Error> {
        if self.version == self.stored {
            return Ok(value);
        }
        let document = json::from_slice(&value).map_err(|e| Error::Other(e.message))?;
        let converted = self
            .converter
            .convert(vec![document], self.api_version(self.stored))
            .await;
        let mut converted = converted.map_err(Error::Other)?;
        let Some(mut document) = converted.pop() else {
            return Err(Error::Other("the conversion webhook returned nothing".to_owned()));
        };
        self.prune(self.stored, &mut document)?;
        sort_members(&mut document);
        Ok(json::to_vec(&document).into())
    }

    fn prune(&self, version: usize, document: &mut Value) -> Result<(), Error> {
        let pruned = self.kind.coerce(version, document, true);
        pruned.map(|_| ()).map_err(|e| Error::Other(e.0))
    }

    async fn batch(&self, mut batch: Batch) -> Result<Batch, Error> {
        if let Batch::Changes(changes) = &mut batch {
            let puts = changes.iter_mut().filter_map(|change| match change {
                Change::Put(entry) => Some(entry),
                Change::Delete { .. } => None,
            });
            self.show(puts).await?;
        }
        Ok(batch)
    }
}

impl Store for Converting {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(Option<Entry>, Revision), Error>> {
        Box::pin(async move {
            let (mut entry, revision) = self.inner.get(key).await?;
            self.shown.show(entry.iter_mut()).await?;
            Ok((entry, revision))
        })
    }

    fn range<'a>(&'a self, range: Range<'a>) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move {
            let mut page = self.inner.range(range).await?;
            self.shown.show(page.entries.iter_mut()).await?;
            Ok(page)
        })
    }

    fn write<'a>(&'a self, write: Write<'a>) -> BoxFuture<'a, Result<Revision, WriteError>> {
        Box::pin(async move {
            let put = match write.put {
                Some(value) => Some(self.shown.stored(value).await?),
                None => None,
            };
            match self.inner.write(Write { put, ..write }).await {
                Err(WriteError::Conflict(Conflict { mut current, revision })) => {
                    self.shown.show(current.iter_mut()).await?;
                    Err(WriteError::Conflict(Conflict { current, revision }))
                }
                outcome => outcome,
            }
        })
    }

    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<Watch, Error>> {
        Box::pin(async move {
            let Watch { batches, control } = self.inner.watch(prefix, after).await?;
            let shown = self.shown.clone();
            let batches = batches.then(move |batch| {
                let shown = shown.clone();
                async move { shown.batch(batch?).await }
            });
            Ok(Watch {
                batches: batches.boxed(),
                control,
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
