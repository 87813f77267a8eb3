//! The watch cache of one resource.
//!
//! The handle's contract (what is not below yet lands next):
//!
//! ```text
//! Cache::start(store: Arc<dyn Store>, CacheConfig { group, resource, prefix: "/pods/", decoder, indexes: Vec<usize /* field numbers */> }, &Metrics) -> Arc<Cache>
//! state() -> CacheState { Filling, Ready, Lagging }          async ready()            // dropping the last Arc ends task and watchers
//! snapshot() -> Result<Snapshot, ReadError>                  get(key) -> Result<Option<Arc<Object>>, ReadError>
//! async at_least(revision, wait: Duration) -> Result<Snapshot, ReadError>   // ReadError::{Filling, TooNew { wanted, current }, Unreliable, Store(Error)}
//! async consistent(wait: Duration) -> Result<Snapshot, ReadError>           // Unreliable: read the store (below)
//! at(revision) -> Option<Snapshot>                           // exact revision from memory; None: read the store
//! ingest(&Entry) -> Arc<Object>                              // answer of a write from the bytes just stored; a Conflict's current entry
//! async read(key) -> Result<(Option<Arc<Object>>, Revision), Error>         // from the store
//! async read_range(prefix, from, limit, at) -> Result<ObjectPage { objects, remaining, revision }, Error>
//! async watch(Start, Interest) -> Result<(Option<Snapshot>, Watcher), WatchError>   // WatchError::{Filling, TooOld { oldest }, Closed}
//!   Start::{ After(Revision), Now, NowWithInitial /* Snapshot is given, watcher continues gaplessly after it */ }
//!   Interest { scope: Scope::{All, Prefix(String), Key(String)}, index: Option<(usize, String)>, filter: Option<Filter> }
//! Watcher: async next() -> Option<Event>   async next_many(&mut Vec<Event>, max) -> usize   progress() -> Option<Revision> /* for a bookmark: everything up to it was delivered */   end() -> Option<WatchEnd>
//! Snapshot: revision() len() get(key) range(prefix) range_from(prefix, from) index(field, value) -> iterators of &Arc<Object>
//! trait Source { snapshot(), subscribe() } for Cache and client::Mirror; View<T> over it
//! ```

use std::sync::Arc;

mod event;
pub(crate) mod object;
mod scan;

pub use event::{Event, EventKind, Transition};
pub use object::{Decoder, FieldPath, InvalidObject, JsonDecoder, Labels, Object};
pub use scan::Span;

/// Decides whether an object is among those somebody asked for; called on the dispatcher, so it must be quick.
pub type Filter = Arc<dyn Fn(&Object) -> bool + Send + Sync>;
