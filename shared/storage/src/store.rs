//! The versioned key-value contract that every backend and wrapper keeps: etcd's semantics, nothing more.
//!
//! - Every successful write gets a revision of its own, larger than all before; revisions stay monotonic over restarts.
//!   Only what others do to an etcd behind our back (transactions, expiring leases) may put several keys into one revision.
//! - Keys are relative to the store (`Prefixed` makes them so) and start without `/registry`.
//! - Ranges are by key prefix, ascending by bytes, and see one revision.
//! - A watch delivers every change after its start revision exactly once, in order, or says `Compacted`.
//!   Events carry no previous value (unlike an etcd watch with `prev_kv`): the only reader that needs one, the watch cache,
//!   has it at hand, and fetching it would cost a read per write.
//!
//! Reads of a healthy tier come from the watch cache; the store sees writes, fills and fallbacks. Boxed futures are
//! therefore fine and `Arc<dyn Store>` is how a store is passed around.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

use crate::error::{Error, WriteError};

/// A point in the store's history; 0 is before everything.
pub type Revision = u64;

/// The largest value that may be written: etcd's default `--max-request-bytes`, also kept by the embedded store.
pub const MAX_VALUE_BYTES: usize = 3 * 512 * 1024;

/// One key's value as of the revision that wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key, relative to the store.
    pub key: Arc<str>,
    /// The revision of the write that put this value (etcd's `mod_revision`).
    pub revision: Revision,
    /// The value as stored.
    pub value: Bytes,
}

/// A part of a range.
#[derive(Debug, Clone)]
pub struct Page {
    /// Entries in key order.
    pub entries: Vec<Entry>,
    /// How many entries of the range follow the last one given.
    pub remaining: u64,
    /// The store's revision: `at` when it was given, else the one the page was read at.
    pub revision: Revision,
}

/// What a range reads.
#[derive(Debug, Clone, Copy, Default)]
pub struct Range<'a> {
    /// Only keys that start with this.
    pub prefix: &'a str,
    /// Only keys at or after this one (it starts with `prefix`).
    pub from: Option<&'a str>,
    /// At most so many entries; 0 is no limit.
    pub limit: usize,
    /// As of this revision instead of now.
    pub at: Option<Revision>,
}

/// The state a key must be in for a write to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// The key holds nothing.
    Absent,
    /// The key's value was written at exactly this revision.
    Revision(Revision),
}

/// One compare-and-swap.
#[derive(Debug, Clone)]
pub struct Write<'a> {
    /// The key, relative to the store.
    pub key: &'a str,
    /// What must be true for the write to happen.
    pub expect: Expect,
    /// The new value; `None` deletes.
    pub put: Option<Bytes>,
    /// The key is deleted when this much time has passed without another write to it.
    pub ttl: Option<Duration>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A key got a value.
    Put(Entry),
    /// A key lost its value.
    Delete {
        /// The key, relative to the store.
        key: Arc<str>,
        /// The revision of the deletion.
        revision: Revision,
    },
}

impl Change {
    /// The revision at which the change happened.
    pub fn revision(&self) -> Revision {
        match self {
            Self::Put(entry) => entry.revision,
            Self::Delete { revision, .. } => *revision,
        }
    }

    /// The key that changed.
    pub fn key(&self) -> &Arc<str> {
        match self {
            Self::Put(entry) => &entry.key,
            Self::Delete { key, .. } => key,
        }
    }
}

/// What a watch delivers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Batch {
    /// Changes in order of revision; changes of one revision are never split over batches.
    Changes(Vec<Change>),
    /// Everything up to this revision has been delivered.
    Progress(Revision),
    /// The watch fell behind what the store remembers (its oldest revision); it ends here.
    Compacted(Revision),
}

/// A running watch; dropping it ends it.
pub struct Watch {
    /// The changes; ends after an error or `Compacted`.
    pub batches: BoxStream<'static, Result<Batch, Error>>,
    /// The way to ask how far it is.
    pub control: Arc<dyn WatchControl>,
}

/// How the holder of a watch learns that it has seen everything up to now.
pub trait WatchControl: Send + Sync {
    /// How far store and watch are, if the backend knows at once. `None`: ask the store and `request_progress`.
    fn position(&self) -> Option<Position>;
    /// Asks for a `Progress` soon; never blocks, may be coalesced with others.
    fn request_progress(&self);
}

/// A statement about one watch: who has applied everything up to `last_change` knows the state at `current`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The store's revision.
    pub current: Revision,
    /// The last revision up to `current` that changed something below the watch's prefix, or a later one.
    pub last_change: Revision,
}

/// Whether `Progress` can be trusted to mean that all changes before it were delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressSupport {
    /// Consistent reads may be served from a cache that waits for progress.
    Reliable,
    /// etcd before 3.4.31 and 3.5.13: consistent reads go to the store.
    Unreliable,
}

/// A versioned key-value store.
pub trait Store: Send + Sync + 'static {
    /// One key, linearizable, and the store's revision.
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(Option<Entry>, Revision), Error>>;
    /// A range of keys, linearizable unless `at` says when.
    fn range<'a>(&'a self, range: Range<'a>) -> BoxFuture<'a, Result<Page, Error>>;
    /// A compare-and-swap; durable when it returns. Gives the revision of the write.
    fn write<'a>(&'a self, write: Write<'a>) -> BoxFuture<'a, Result<Revision, WriteError>>;
    /// All changes below `prefix` after the revision `after`.
    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<Watch, Error>>;
    /// The revision of the last write, linearizable.
    fn current_revision(&self) -> BoxFuture<'_, Result<Revision, Error>>;
    /// Forgets what happened before `revision`; reads and watches from before it answer `Compacted`.
    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), Error>>;
    /// Whether watch progress can be relied on.
    fn progress(&self) -> ProgressSupport;
    /// Bytes the store takes up at rest.
    fn size(&self) -> BoxFuture<'_, Result<u64, Error>>;
}
