//! The embedded store: one durable file per tier, etcd's semantics without etcd.
//!
//! The file is a redb database (docs/decisions say why). One thread writes, with group commit; reads run on the blocking
//! pool and block nobody; watches are fed in process. Memory is a page cache of a few megabytes plus bounded queues:
//! values live in the file, and decoded in the watch caches above.

mod fanout;
mod file;
mod tables;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use redb::{Database, ReadTransaction, ReadableDatabase};
use tokio::sync::{Semaphore, oneshot};

use crate::error::{Error, WriteError};
use crate::store::{Entry, MAX_VALUE_BYTES, Page, ProgressSupport, Range, Revision, Store, Watch, Write};
use fanout::Fanout;
use file::StoreFile;
use tables::{EXPIRY, FIRST_REVISION, KEYS, LOG, META, failed};
use writer::{Command, Writer};

/// Bytes of the file's pages kept in memory at most.
const PAGE_CACHE: usize = 4 << 20;
/// Writes that may wait for the writer; more wait for a permit.
const WAITING_WRITES: usize = 1024;
/// Reads at a time: caches that fill together shall not each get a thread.
const READS: usize = 4;
const FILE: &str = "store.redb";

/// How to open an embedded store.
#[derive(Debug, Clone)]
pub struct EmbeddedOptions {
    /// History is kept for at least this long, at most twice as long; `None` keeps it for ever.
    pub compaction_interval: Option<Duration>,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            compaction_interval: Some(Duration::from_secs(300)),
        }
    }
}

/// A store in a file of this machine. Dropping it waits for the writes it accepted.
pub struct Embedded {
    reads: Reads,
    fanout: Arc<Fanout>,
    commands: Option<mpsc::Sender<Command>>,
    permits: Arc<Semaphore>,
    writer: Option<std::thread::JoinHandle<()>>,
    path: PathBuf,
}

impl Embedded {
    /// Opens the store in `folder`, which is made if need be. Another process that has it open is an error.
    pub fn open(folder: &Path, options: EmbeddedOptions) -> Result<Self, Error> {
        let unusable = |error: std::io::Error| Error::Unavailable(format!("{}: {error}", folder.display()));
        make_private_folder(folder).map_err(unusable)?;
        let path = folder.join(FILE);
        let open = {
            let path = path.clone();
            move || {
                Database::builder()
                    .set_cache_size(PAGE_CACHE)
                    .create(&path)
                    .map_err(|error| match error {
                        redb::DatabaseError::DatabaseAlreadyOpen => {
                            Error::Unavailable(format!("{}: another process has this store open", path.display()))
                        }
                        other => failed(other),
                    })
            }
        };
        Self::open_with(open, path, options)
    }

    fn open_with(
        open: impl Fn() -> Result<Database, Error> + Send + Sync + 'static,
        path: PathBuf,
        options: EmbeddedOptions,
    ) -> Result<Self, Error> {
        let file = Arc::new(StoreFile::open(open)?);
        let revision = prepare(&*file.database()?)?;
        let fanout = Fanout::starting_at(revision);
        let (commands, receiver) = mpsc::channel();
        let writer = Writer::new(file.clone(), fanout.clone(), receiver, options.compaction_interval)?;
        let thread = std::thread::Builder::new().name("store-writer".into());
        let writer = thread
            .spawn(move || writer.run())
            .map_err(|error| Error::Unavailable(error.to_string()))?;
        let permits = Arc::new(Semaphore::new(WAITING_WRITES));
        let reads = Reads {
            file,
            permits: Arc::new(Semaphore::new(READS)),
        };
        Ok(Self {
            reads,
            fanout,
            commands: Some(commands),
            permits,
            writer: Some(writer),
            path,
        })
    }

    fn send(&self, command: Command) -> Result<(), Error> {
        self.commands
            .as_ref()
            .and_then(|commands| commands.send(command).ok())
            .ok_or(Error::Closed)
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        drop(self.commands.take());
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the store's writer had panicked");
        }
    }
}

#[cfg(unix)]
fn make_private_folder(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(not(unix))]
fn make_private_folder(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)
}

/// Makes the tables of a new file; gives the revision of the last write.
fn prepare(db: &Database) -> Result<Revision, Error> {
    let read = db.begin_read().map_err(failed)?;
    match read.open_table(META) {
        Ok(table) => return Ok(tables::meta(&table, "revision")?.unwrap_or(FIRST_REVISION)),
        Err(redb::TableError::TableDoesNotExist(_)) => {}
        Err(error) => return Err(failed(error)),
    }
    let transaction = db.begin_write().map_err(failed)?;
    transaction
        .open_table(META)
        .map_err(failed)?
        .insert("revision", FIRST_REVISION)
        .map_err(failed)?;
    transaction.open_table(KEYS).map_err(failed)?;
    transaction.open_table(LOG).map_err(failed)?;
    transaction.open_table(EXPIRY).map_err(failed)?;
    transaction.commit().map_err(failed)?;
    Ok(FIRST_REVISION)
}

/// Runs reads where they may block.
#[derive(Clone)]
struct Reads {
    file: Arc<StoreFile>,
    permits: Arc<Semaphore>,
}

impl Reads {
    async fn run<T: Send + 'static>(
        &self,
        query: impl FnOnce(&ReadTransaction) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| Error::Closed)?;
        let file = self.file.clone();
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            query(&file.database()?.begin_read().map_err(failed)?)
        });
        task.await.map_err(|_| Error::Closed)?
    }
}

impl Store for Embedded {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(Option<Entry>, Revision), Error>> {
        let key = key.to_owned();
        Box::pin(self.reads.run(move |read| tables::get(read, &key)))
    }

    fn range<'a>(&'a self, range: Range<'a>) -> BoxFuture<'a, Result<Page, Error>> {
        let (prefix, from) = (range.prefix.to_owned(), range.from.map(str::to_owned));
        let (limit, at) = (range.limit, range.at);
        let query = move |read: &ReadTransaction| {
            tables::range(
                read,
                Range {
                    prefix: &prefix,
                    from: from.as_deref(),
                    limit,
                    at,
                },
            )
        };
        Box::pin(self.reads.run(query))
    }

    fn write<'a>(&'a self, write: Write<'a>) -> BoxFuture<'a, Result<Revision, WriteError>> {
        Box::pin(async move {
            if write
                .put
                .as_ref()
                .is_some_and(|value| value.len() + write.key.len() > MAX_VALUE_BYTES)
            {
                return Err(Error::TooLarge.into());
            }
            let permit = self.permits.clone().acquire_owned().await.map_err(|_| Error::Closed)?;
            let (reply, answer) = oneshot::channel();
            let Write { key, expect, put, ttl } = write;
            self.send(Command::Write {
                key: key.into(),
                expect,
                put,
                ttl,
                reply,
                permit,
            })?;
            answer.await.map_err(|_| Error::Closed)?
        })
    }

    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<Watch, Error>> {
        let (control, published) = self.fanout.subscribe(prefix);
        let reads = self.reads.clone();
        let history = move |prefix: Arc<str>, after, until| {
            let reads = reads.clone();
            async move {
                reads
                    .run(move |read| tables::history(read, &prefix, after, until))
                    .await
            }
        };
        let batches = fanout::stream(control.clone(), after, published, history).boxed();
        Box::pin(async move { Ok(Watch { batches, control }) })
    }

    fn current_revision(&self) -> BoxFuture<'_, Result<Revision, Error>> {
        let revision = self.fanout.published();
        Box::pin(async move { Ok(revision) })
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            self.send(Command::Compact { revision, reply })?;
            answer.await.map_err(|_| Error::Closed)?
        })
    }

    fn progress(&self) -> ProgressSupport {
        ProgressSupport::Reliable
    }

    fn size(&self) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(async move {
            let metadata = tokio::fs::metadata(&self.path).await;
            metadata
                .map(|metadata| metadata.len())
                .map_err(|error| Error::Unavailable(error.to_string()))
        })
    }
}

#[cfg(test)]
mod tests;
