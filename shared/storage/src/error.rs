//! What can go wrong between a tier and its store. `registry` maps these to API statuses in one place; the texts of
//! etcd's own errors are kept because clients of kube-apiserver see them.

use crate::store::{Entry, Revision};

/// An error of the store itself, as opposed to a lost compare-and-swap.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The wanted revision is older than what the store still remembers; list again.
    #[error("etcdserver: mvcc: required revision has been compacted")]
    Compacted {
        /// The oldest revision that can still be read.
        oldest: Revision,
    },
    /// The wanted revision has not happened yet.
    #[error("etcdserver: mvcc: required revision is a future revision")]
    FutureRevision {
        /// The store's revision when it was asked.
        current: Revision,
    },
    /// The value exceeds what one request may carry.
    #[error("etcdserver: request is too large")]
    TooLarge,
    /// The store has no room left (etcd's quota, a full disk).
    #[error("etcdserver: mvcc: database space exceeded")]
    NoSpace,
    /// The store did not answer in time; a write may or may not have happened.
    #[error("etcdserver: request timed out")]
    Timeout,
    /// The store cannot be reached or has no leader; a write may or may not have happened.
    #[error("{0}")]
    Unavailable(String),
    /// The store answered something that breaks its contract, or its file is damaged.
    #[error("{0}")]
    Corrupt(String),
    /// The store was shut down.
    #[error("the store is closed")]
    Closed,
    /// Any other refusal, in the store's own words.
    #[error("{0}")]
    Other(String),
}

/// What was found in place of the expected state of a key.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the key is not in the expected state")]
pub struct Conflict {
    /// The entry the key holds now; `None` when it holds nothing.
    pub current: Option<Entry>,
    /// The revision of the store at which that was true.
    pub revision: Revision,
}

/// Why a write did not happen.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WriteError {
    /// Somebody else wrote first.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] Error),
}
