//! A resource at one revision. Holding a snapshot holds everything it shows; nothing that happens later touches it.

use std::sync::Arc;

use super::event::Transition;
use super::history::History;
use super::map::Objects;
use super::object::Object;
use crate::store::Revision;

/// What the writer publishes after every batch.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) objects: Objects,
    pub(crate) history: History,
    /// The revision of the last change applied, or of the list it began with.
    pub(crate) revision: Revision,
    /// Changes whenever history was lost.
    pub(crate) epoch: u64,
}

/// All objects of a resource at one revision. Cheap to make and to clone.
#[derive(Debug, Clone)]
pub struct Snapshot {
    state: Arc<State>,
    revision: Revision,
}

/// A name for the state a snapshot showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mark {
    epoch: u64,
    revision: Revision,
}

impl Snapshot {
    pub(crate) fn new(state: Arc<State>, known: Revision) -> Self {
        let revision = known.max(state.revision);
        Self { state, revision }
    }

    /// The revision at which this was the state.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.state.objects.len()
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory the objects take, roughly.
    pub fn bytes(&self) -> usize {
        self.state.objects.bytes()
    }

    /// How many objects are broken.
    pub fn broken(&self) -> usize {
        self.state.objects.broken()
    }

    /// The object under a key (relative to the store, as all keys). It may be broken.
    pub fn get(&self, key: &str) -> Option<&Arc<Object>> {
        self.state.objects.get(key)
    }

    /// The objects below a key prefix, in key order; `""` for all.
    pub fn range<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Arc<Object>> + 'a {
        self.state.objects.range(prefix, "")
    }

    /// As `range`, but only keys at or after `from`.
    pub fn range_from<'a>(&'a self, prefix: &'a str, from: &str) -> impl Iterator<Item = &'a Arc<Object>> + 'a {
        self.state.objects.range(prefix, from)
    }

    /// The objects whose indexed field number `field` has this value, in key order; `None` when it is not indexed.
    pub fn with_value(&self, field: usize, value: &str) -> Option<Vec<Arc<Object>>> {
        self.state.objects.with_value(field, value)
    }

    /// What happened between an earlier state of the same resource and this one; `None` when that is not known any
    /// more and everything has to be looked at again.
    pub fn changes_since(&self, earlier: Mark) -> Option<impl Iterator<Item = &Arc<Transition>>> {
        if self.state.epoch != earlier.epoch {
            return None;
        }
        let position = self.state.history.position_after(earlier.revision)?;
        Some(self.state.history.from(position))
    }

    /// Names this state without holding it; equal marks of one resource are equal states.
    pub fn mark(&self) -> Mark {
        Mark {
            epoch: self.state.epoch,
            revision: self.state.revision,
        }
    }

    pub(crate) fn state(&self) -> &Arc<State> {
        &self.state
    }
}
