//! Backends to run the suite over; each owns what it started.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use triptych_storage::embedded::EmbeddedOptions;
use triptych_storage::{Batch, Change, Embedded, Expect, Prefixed, Revision, Store, Watch, Write, WriteError};

pub struct Backend {
    pub store: Arc<dyn Store>,
    _folder: tempfile::TempDir,
}

impl Backend {
    pub fn embedded() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(Embedded::open(folder.path(), EmbeddedOptions::default()).unwrap());
        Self { store, _folder: folder }
    }

    pub fn prefixed() -> Self {
        let Self { store, _folder } = Self::embedded();
        Self {
            store: Arc::new(Prefixed::new(store, "/registry")),
            _folder,
        }
    }
}

/// Nothing in the suite takes as long as this unless it hangs.
const PATIENCE: Duration = Duration::from_secs(20);

pub async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("the store did not answer in time")
}

pub async fn put(store: &Arc<dyn Store>, key: &str, expect: Expect, value: &str) -> Result<Revision, WriteError> {
    let put = Some(value.to_owned().into());
    in_time(store.write(Write {
        key,
        expect,
        put,
        ttl: None,
    }))
    .await
}

pub async fn create(store: &Arc<dyn Store>, key: &str, value: &str) -> Revision {
    put(store, key, Expect::Absent, value).await.unwrap()
}

pub async fn update(store: &Arc<dyn Store>, key: &str, revision: Revision, value: &str) -> Revision {
    put(store, key, Expect::Revision(revision), value).await.unwrap()
}

pub async fn delete(store: &Arc<dyn Store>, key: &str, revision: Revision) -> Revision {
    in_time(store.write(Write {
        key,
        expect: Expect::Revision(revision),
        put: None,
        ttl: None,
    }))
    .await
    .unwrap()
}

/// Reads a watch until it has given so many changes.
pub async fn changes(watch: &mut Watch, count: usize) -> Vec<Change> {
    let mut all = Vec::new();
    while all.len() < count {
        match in_time(watch.batches.next()).await.expect("the watch ended").unwrap() {
            Batch::Changes(changes) => all.extend(changes),
            Batch::Progress(_) => {}
            Batch::Compacted(revision) => panic!("compacted at {revision}"),
        }
    }
    all
}

/// `key=value` or `-key`, with the revision.
pub fn told(changes: &[Change]) -> Vec<(String, Revision)> {
    let text = |change: &Change| match change {
        Change::Put(entry) => format!("{}={}", entry.key, String::from_utf8_lossy(&entry.value)),
        Change::Delete { key, .. } => format!("-{key}"),
    };
    changes.iter().map(|change| (text(change), change.revision())).collect()
}
