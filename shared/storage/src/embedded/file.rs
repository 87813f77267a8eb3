//! The store's file, and opening it again after an I/O error: redb refuses a database it once failed to write, although the
//! disk may have room again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use redb::Database;

use crate::error::Error;

/// How long opening waits for reads that still use the old database.
const READERS: Duration = Duration::from_secs(5);

type Open = Box<dyn Fn() -> Result<Database, Error> + Send + Sync>;

/// A database that may be away for a moment.
pub(super) struct StoreFile {
    current: Mutex<Option<Arc<Database>>>,
    open: Open,
}

impl StoreFile {
    /// Opens it for the first time.
    pub(super) fn open(open: impl Fn() -> Result<Database, Error> + Send + Sync + 'static) -> Result<Self, Error> {
        let database = open()?;
        Ok(Self {
            current: Mutex::new(Some(Arc::new(database))),
            open: Box::new(open),
        })
    }

    /// The database; hold it no longer than a transaction.
    pub(super) fn database(&self) -> Result<Arc<Database>, Error> {
        let away = || Error::Unavailable("the store's file is being opened again after an error".into());
        self.current.lock().clone().ok_or_else(away)
    }

    /// Closes and opens the file. While that fails there is no database.
    pub(super) fn reopen(&self) -> Result<Arc<Database>, Error> {
        let old = self.current.lock().take();
        if let Some(old) = old {
            let deadline = Instant::now() + READERS;
            while Arc::strong_count(&old) > 1 && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            // A read that is still there keeps the lock on the file; then opening fails and is tried again.
            drop(old);
        }
        let database = Arc::new((self.open)()?);
        *self.current.lock() = Some(database.clone());
        Ok(database)
    }
}
