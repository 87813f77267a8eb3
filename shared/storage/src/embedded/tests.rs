//! A disk that fails for a while.

use std::fs::OpenOptions;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::StreamExt;
use redb::StorageBackend;
use redb::backends::FileBackend;

use super::*;
use crate::store::{Batch, Expect};

#[derive(Debug)]
struct Disk {
    file: FileBackend,
    full: Arc<AtomicBool>,
}

impl Disk {
    fn check(&self) -> io::Result<()> {
        if self.full.load(Ordering::SeqCst) {
            Err(io::ErrorKind::StorageFull.into())
        } else {
            Ok(())
        }
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check().and_then(|()| self.file.set_len(len))
    }
    fn sync_data(&self) -> io::Result<()> {
        self.check().and_then(|()| self.file.sync_data())
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check().and_then(|()| self.file.write(offset, data))
    }
    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}

#[tokio::test]
async fn a_full_disk_fails_writes_and_nothing_else_and_is_got_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    let full = Arc::new(AtomicBool::new(false));
    let open = {
        let (path, full) = (path.clone(), full.clone());
        move || {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .unwrap();
            let disk = Disk {
                file: FileBackend::new(file).unwrap(),
                full: full.clone(),
            };
            Database::builder().create_with_backend(disk).map_err(failed)
        }
    };
    let store = Embedded::open_with(open, path, EmbeddedOptions::default()).unwrap();
    let write = |key: &'static str| {
        let put = Some(Bytes::from_static(b"1"));
        store.write(Write {
            key,
            expect: Expect::Absent,
            put,
            ttl: None,
        })
    };
    let first = write("/a").await.unwrap();
    let mut watch = store.watch("/", first).await.unwrap();
    full.store(true, Ordering::SeqCst);
    for key in ["/b", "/c"] {
        let error = write(key).await.unwrap_err();
        assert!(
            matches!(error, WriteError::Store(Error::NoSpace | Error::Unavailable(_))),
            "{error}"
        );
    }
    full.store(false, Ordering::SeqCst);
    let last = tokio::time::timeout(Duration::from_secs(20), async {
        loop {
            match write("/d").await {
                Ok(revision) => break revision,
                Err(WriteError::Store(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
                Err(WriteError::Conflict(_)) => panic!("a write that failed later happened"),
            }
        }
    })
    .await
    .unwrap();
    let page = store
        .range(Range {
            prefix: "/",
            ..Range::default()
        })
        .await
        .unwrap();
    let mut keys: Vec<_> = page
        .entries
        .iter()
        .map(|entry| (entry.key.to_string(), entry.revision))
        .collect();
    assert_eq!(
        (keys.remove(0), keys.pop()),
        (("/a".into(), first), Some(("/d".into(), last)))
    );
    // Whatever became of the failed writes, watches agree with reads.
    let mut seen = Vec::new();
    while seen.last() != Some(&("/d".to_owned(), last)) {
        let batch = tokio::time::timeout(Duration::from_secs(5), watch.batches.next())
            .await
            .unwrap();
        if let Some(Ok(Batch::Changes(changes))) = batch {
            seen.extend(
                changes
                    .iter()
                    .map(|change| (change.key().to_string(), change.revision())),
            );
        }
    }
    seen.pop();
    assert_eq!(seen, keys);
}
