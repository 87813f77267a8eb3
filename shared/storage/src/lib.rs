//! Where a tier keeps its objects: the `Store` contract with its backends and wrappers, and the watch cache that
//! answers reads and watches from memory.
//!
//! ```text
//! Stores::open(StorageSettings) ─▶ Prefixed(Etcd) | Embedded ─▶ Cache (one per resource) ─▶ Snapshot, Watcher, View
//! ```
//!
//! - [`store`]: the contract, etcd's semantics; [`error`]: what can go wrong.
//! - [`embedded`], [`etcd`]: the backends; [`Prefixed`], [`Metered`]: wrappers that are stores themselves.
//! - [`cache`]: the watch cache; [`Source`] and [`View`] for those who read a resource wherever it comes from.
//! - [`options`]: the flags; [`Stores`]: what they open; [`Metrics`]: under kube-apiserver's names.

pub mod cache;
pub mod embedded;
pub mod error;
pub mod etcd;
pub mod metered;
pub mod metrics;
pub mod options;
pub mod prefixed;
pub mod store;
pub mod stores;

pub use cache::{Cache, CacheConfig, Decoder, Event, EventKind, FieldPath, Filter, JsonDecoder, Object, Source, View};
pub use embedded::Embedded;
pub use error::{Conflict, Error, WriteError};
pub use etcd::{Etcd, EtcdOptions};
pub use metered::Metered;
pub use metrics::Metrics;
pub use options::{StorageOptions, StorageSettings};
pub use prefixed::Prefixed;
pub use store::{
    Batch, Change, Entry, Expect, MAX_VALUE_BYTES, Page, Position, ProgressSupport, Range, Revision, Store, Watch,
    WatchControl, Write,
};
pub use stores::Stores;
