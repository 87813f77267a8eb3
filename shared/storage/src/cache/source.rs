//! Reading a resource without knowing where it comes from, and values derived from it.
//!
//! A local `Cache` and a mirror of another tier's resource are both a `Source`. A `View` keeps what its user needs of every
//! object (a role's rules, a webhook's client) and is brought up to date by whoever looks: each object is derived once
//! per change, and a view is never older than its source.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use super::board::{Board, CacheState};
use super::object::Object;
use super::reads::ReadError;
use super::snapshot::{Mark, Snapshot};
use super::watcher::{Interest, Start, WatchError, Watcher};
use crate::store::Revision;

/// A readable copy of one resource.
pub trait Source: Send + Sync {
    /// The copy itself.
    fn board(&self) -> &Arc<Board>;
    /// A state that shows everything committed before the call, waited for at most this long.
    fn consistent<'a>(&'a self, wait: Duration) -> BoxFuture<'a, Result<Snapshot, ReadError>>;

    /// Whether it can be read.
    fn state(&self) -> CacheState {
        self.board().state()
    }

    /// The state as far as it is known; `None` while it was never complete.
    fn snapshot(&self) -> Option<Snapshot> {
        self.board().snapshot()
    }

    /// Begins a watch.
    fn watch(&self, start: Start, interest: Interest) -> Result<(Snapshot, Watcher), WatchError> {
        self.board().watch(start, interest)
    }
}

/// Derived values by key, at one revision. Cheap to clone.
pub struct Derived<V> {
    values: imbl::OrdMap<Arc<str>, Arc<V>>,
    mark: Mark,
    revision: Revision,
    generation: u64,
}

impl<V> Derived<V> {
    /// The value derived from the object under this key.
    pub fn get(&self, key: &str) -> Option<&Arc<V>> {
        self.values.get(key)
    }

    /// All values, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<V>)> {
        self.values.iter()
    }

    /// The values whose keys begin so, by key.
    pub fn range<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Arc<V>> + 'a {
        let all = self
            .values
            .range::<_, str>((std::ops::Bound::Included(prefix), std::ops::Bound::Unbounded));
        all.take_while(move |(key, _)| key.starts_with(prefix))
            .map(|(_, value)| value)
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The revision of the objects.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Grows with every change: a key for whatever a user computes from all values together.
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

/// Derives a value from an object; `None` leaves it out.
type Derive<V> = Box<dyn Fn(&Object) -> Option<V> + Send + Sync>;

/// What a user of a source needs of each object, kept up to date.
pub struct View<V> {
    source: Arc<dyn Source>,
    derive: Derive<V>,
    current: ArcSwapOption<Derived<V>>,
    updating: Mutex<()>,
}

impl<V: Send + Sync + 'static> View<V> {
    /// A view of `source`. Broken objects are left out.
    pub fn new(source: Arc<dyn Source>, derive: impl Fn(&Object) -> Option<V> + Send + Sync + 'static) -> Self {
        Self {
            source,
            derive: Box::new(derive),
            current: ArcSwapOption::empty(),
            updating: Mutex::new(()),
        }
    }

    /// Where it comes from.
    pub fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }

    /// The values as of now; `None` while the source was never complete.
    pub fn load(&self) -> Option<Arc<Derived<V>>> {
        let fresh = |current: &Option<Arc<Derived<V>>>, snapshot: &Snapshot| {
            current
                .as_ref()
                .filter(|current| current.mark == snapshot.mark())
                .cloned()
        };
        if let Some(current) = fresh(&self.current.load_full(), &self.source.snapshot()?) {
            return Some(current);
        }
        let _updating = self.updating.lock();
        let (current, snapshot) = (self.current.load_full(), self.source.snapshot()?);
        if let Some(current) = fresh(&current, &snapshot) {
            return Some(current);
        }
        let derived = Arc::new(self.derive(current.as_deref(), &snapshot));
        self.current.store(Some(derived.clone()));
        Some(derived)
    }

    fn derive(&self, current: Option<&Derived<V>>, snapshot: &Snapshot) -> Derived<V> {
        let generation = current.map_or(0, |current| current.generation + 1);
        let known = current.and_then(|current| Some((current.values.clone(), snapshot.changes_since(current.mark)?)));
        let values = match known {
            Some((mut values, changes)) => {
                for change in changes {
                    match change.object().and_then(|object| self.value(object)) {
                        Some(value) => values.insert(change.key().clone(), value),
                        None => values.remove(&**change.key()),
                    };
                }
                values
            }
            None => snapshot
                .range("")
                .filter_map(|it| Some((it.key().clone(), self.value(it)?)))
                .collect(),
        };
        Derived {
            values,
            mark: snapshot.mark(),
            revision: snapshot.revision(),
            generation,
        }
    }

    fn value(&self, object: &Object) -> Option<Arc<V>> {
        if object.broken().is_some() {
            None
        } else {
            (self.derive)(object).map(Arc::new)
        }
    }
}
