//! What everybody sees: the current state of one resource, its recent past, and those who watch it.
//!
//! One writer (the feed of a cache, or a mirror) applies batches; any number of readers take snapshots without a lock.
//! Publishing a batch, telling the watchers and the arrival of a watcher exclude each other by a mutex that readers of
//! snapshots never touch: that is what makes "snapshot, then everything after it" gapless.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::event::Transition;
use super::history::History;
use super::map::Objects;
use super::object::Object;
use super::snapshot::{Snapshot, State};
use super::watcher::{Interest, Scope, Slot, Start, WatchEnd, WatchError, Watcher};
use crate::metrics::{Count, ResourceMetrics};
use crate::store::{Revision, WatchControl};

/// Whether a resource's copy can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheState {
    /// It was never complete yet.
    Filling = 0,
    /// It follows its source.
    Ready = 1,
    /// It was complete, but has lost touch with its source.
    Lagging = 2,
}

/// One change to apply.
#[derive(Debug)]
pub enum Update {
    /// The object under its key.
    Put(Arc<Object>),
    /// The key is gone, as of this revision.
    Delete(Arc<str>, Revision),
}

/// Past states somebody asked for lately: pages of one list ask for the same one again and again.
const REMEMBERED: usize = 4;

/// The published side of one resource.
pub struct Board {
    state: ArcSwap<State>,
    phase: AtomicU8,
    /// Everything up to here is in `state` and was told to the watchers.
    progress: AtomicU64,
    control: ArcSwapOption<Control>,
    advanced: Notify,
    watchers: Mutex<Watchers>,
    past: Mutex<Vec<(u64, Revision, Arc<State>)>>,
    indexes: Box<[usize]>,
    metrics: Option<ResourceMetrics>,
}

struct Control(Arc<dyn WatchControl>);

#[derive(Default)]
struct Watchers {
    groups: HashMap<Group, Vec<(u64, Slot)>>,
    next_id: u64,
    closed: bool,
}

/// Watchers that have to be asked about the same keys or values.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Group {
    Scope(Scope),
    Index(usize, Box<str>),
}

impl Group {
    fn of(interest: &Interest) -> Self {
        match (&interest.index, &interest.scope) {
            (Some((field, value)), _) => Self::Index(*field, value.clone()),
            (None, Scope::Prefix(prefix)) if !prefix.ends_with('/') => Self::Scope(Scope::All),
            (None, scope) => Self::Scope(scope.clone()),
        }
    }
}

impl Board {
    /// An empty board, `Filling`. `indexes` are numbers of selectable fields.
    pub fn new(indexes: &[usize]) -> Arc<Self> {
        Arc::new(Self::with_metrics(indexes, None))
    }

    pub(crate) fn with_metrics(indexes: &[usize], metrics: Option<ResourceMetrics>) -> Self {
        Self {
            state: ArcSwap::default(),
            phase: AtomicU8::new(CacheState::Filling as u8),
            progress: AtomicU64::new(0),
            control: ArcSwapOption::empty(),
            advanced: Notify::new(),
            watchers: Mutex::default(),
            past: Mutex::default(),
            indexes: indexes.into(),
            metrics,
        }
    }

    // The writer's side.

    /// Replaces everything: the first fill, or what is there after history was lost, which ends all watches.
    pub fn reset(&self, objects: impl IntoIterator<Item = Arc<Object>>, revision: Revision) {
        let mut all = Objects::indexed_by(&self.indexes);
        for object in objects {
            all.insert(object);
        }
        let mut watchers = self.watchers.lock();
        let epoch = self.state.load().epoch + 1;
        let state = State {
            objects: all,
            history: History::starting_after(revision),
            revision,
            epoch,
        };
        self.count(&state);
        self.state.store(Arc::new(state));
        self.past.lock().clear();
        watchers.end_all(WatchEnd::Restarted);
        self.progress.store(revision, Ordering::Release);
        drop(watchers);
        self.set_state(CacheState::Ready);
        if let Some(metrics) = &self.metrics {
            metrics.count(Count::Initializations, 1);
        }
    }

    /// Applies changes in order; those at or before the revision reached are skipped. Changes of one revision belong
    /// into one batch.
    pub fn apply(&self, updates: Vec<Update>) {
        let mut watchers = self.watchers.lock();
        let before = self.state.load_full();
        let mut state = State {
            objects: before.objects.clone(),
            history: before.history.clone(),
            revision: before.revision,
            epoch: before.epoch,
        };
        let mut transitions = Vec::with_capacity(updates.len());
        for update in updates {
            let (key, revision, object) = match update {
                Update::Put(object) => (object.key().clone(), object.revision(), Some(object)),
                Update::Delete(key, revision) => (key, revision, None),
            };
            if revision <= before.revision {
                continue;
            }
            state.revision = revision;
            let previous = match &object {
                Some(object) => state.objects.insert(object.clone()),
                None => state.objects.remove(&key),
            };
            if object.is_some() || previous.is_some() {
                let transition = Arc::new(Transition::new(revision, key, object, previous));
                state.history.push(transition.clone());
                transitions.push(transition);
            }
        }
        state.history.trim(state.objects.bytes());
        let (revision, floor) = (state.revision, state.history.floor());
        self.count(&state);
        self.state.store(Arc::new(state));
        {
            let mut past = self.past.lock();
            past.retain(|(_, at, _)| *at >= floor);
        }
        let (told, closed) = watchers.tell(&transitions, &self.indexes);
        self.progress.fetch_max(revision, Ordering::AcqRel);
        drop(watchers);
        self.advanced.notify_waiters();
        if let Some(metrics) = &self.metrics {
            metrics.count(Count::Received, transitions.len() as u64);
            metrics.count(Count::Dispatched, told);
            metrics.count(Count::Terminated, closed);
        }
    }

    /// Everything up to `revision` was applied.
    pub fn set_progress(&self, revision: Revision) {
        if self.progress.fetch_max(revision, Ordering::AcqRel) < revision {
            self.advanced.notify_waiters();
        }
    }

    /// Follows its source, or lost it. `Filling` is only left by `reset`.
    pub fn set_state(&self, state: CacheState) {
        self.phase.store(state as u8, Ordering::Release);
        self.advanced.notify_waiters();
    }

    /// Since when everything is known, and the epoch, as long as nothing was forgotten since.
    pub(crate) fn recallable(&self) -> Option<(Revision, u64)> {
        let state = self.state.load();
        let history = &state.history;
        (self.state() != CacheState::Filling && !history.trimmed()).then(|| (history.floor(), state.epoch))
    }

    /// Adds what happened between `after` and `floor` to the history; false when that has moved meanwhile.
    pub(crate) fn remember(&self, older: Vec<Arc<Transition>>, after: Revision, floor: Revision, epoch: u64) -> bool {
        let _publishing = self.watchers.lock();
        if self.recallable() != Some((floor, epoch)) {
            return false;
        }
        let now = self.state.load_full();
        let mut history = now.history.clone();
        history.precede(older, after);
        self.state.store(Arc::new(State {
            objects: now.objects.clone(),
            history,
            revision: now.revision,
            epoch,
        }));
        true
    }

    /// Ends all watches for good.
    pub fn close(&self) {
        let mut watchers = self.watchers.lock();
        watchers.closed = true;
        watchers.end_all(WatchEnd::Closed);
    }

    pub(crate) fn set_control(&self, control: Option<Arc<dyn WatchControl>>) {
        self.control.store(control.map(|control| Arc::new(Control(control))));
        // Whoever waits has to ask the new watch.
        self.advanced.notify_waiters();
    }

    pub(crate) fn metrics(&self) -> Option<&ResourceMetrics> {
        self.metrics.as_ref()
    }

    fn count(&self, state: &State) {
        if let Some(metrics) = &self.metrics {
            metrics.objects(state.objects.len(), state.objects.bytes(), state.revision);
        }
    }

    // The readers' side.

    /// Whether it can be read.
    pub fn state(&self) -> CacheState {
        match self.phase.load(Ordering::Acquire) {
            0 => CacheState::Filling,
            1 => CacheState::Ready,
            _ => CacheState::Lagging,
        }
    }

    /// The state as far as it is known; `None` while it was never complete.
    pub fn snapshot(&self) -> Option<Snapshot> {
        if self.state() == CacheState::Filling {
            return None;
        }
        // Read before the state: what is in the state is then at least as new.
        let known = self.progress();
        Some(Snapshot::new(self.state.load_full(), known))
    }

    /// The revision up to which everything was applied and told.
    pub fn progress(&self) -> Revision {
        let progress = self.progress.load(Ordering::Acquire);
        let control = self.control.load();
        match control.as_ref().and_then(|control| control.0.position()) {
            // Loaded again: what the position speaks of may just have been applied.
            Some(position) if position.last_change <= self.progress.load(Ordering::Acquire) => {
                progress.max(position.current)
            }
            _ => progress,
        }
    }

    /// The revision that must be reached to know all that was committed before this call; `None` if only the store knows.
    pub(crate) fn needed(&self) -> Option<Revision> {
        let control = self.control.load();
        control
            .as_ref()
            .and_then(|control| control.0.position())
            .map(|position| position.current)
    }

    pub(crate) fn request_progress(&self) {
        if let Some(control) = &*self.control.load() {
            control.0.request_progress();
        }
    }

    /// Resolves when state, progress or phase may have changed since `enable` was called on it.
    pub(crate) fn advanced(&self) -> tokio::sync::futures::Notified<'_> {
        self.advanced.notified()
    }

    /// The state at exactly this revision, if memory still tells. The future is `None` too.
    pub fn at(&self, revision: Revision) -> Option<Snapshot> {
        let snapshot = self.snapshot()?;
        if revision > snapshot.revision() {
            return None;
        }
        let state = snapshot.state();
        if revision >= state.revision {
            return Some(Snapshot::new(state.clone(), revision));
        }
        let known = |past: &Vec<(u64, Revision, Arc<State>)>| {
            let found = past
                .iter()
                .find(|(epoch, at, _)| *epoch == state.epoch && *at == revision);
            found.map(|(_, _, past)| past.clone())
        };
        if let Some(past) = known(&self.past.lock()) {
            return Some(Snapshot::new(past, revision));
        }
        let objects = state.history.undo(&state.objects, revision)?;
        let history = History::starting_after(revision);
        let past = Arc::new(State {
            objects,
            history,
            revision,
            epoch: state.epoch,
        });
        let mut remembered = self.past.lock();
        if known(&remembered).is_none() {
            if remembered.len() == REMEMBERED {
                remembered.remove(0);
            }
            remembered.push((state.epoch, revision, past.clone()));
        }
        Some(Snapshot::new(past, revision))
    }

    /// Begins a watch. With `Start::Now` the state it continues from comes along.
    pub fn watch(self: &Arc<Self>, start: Start, interest: Interest) -> Result<(Snapshot, Watcher), WatchError> {
        let mut watchers = self.watchers.lock();
        if watchers.closed {
            return Err(WatchError::Closed);
        }
        let snapshot = self.snapshot().ok_or(WatchError::Filling)?;
        let state = snapshot.state();
        let (after, replay) = match start {
            Start::Now => (state.revision, None),
            Start::After(wanted) => {
                let oldest = state.history.floor();
                let position = state
                    .history
                    .position_after(wanted)
                    .ok_or(WatchError::TooOld { wanted, oldest })?;
                let missed = state.history.len() - position;
                if let Some(metrics) = &self.metrics {
                    metrics.count(Count::InitEvents, missed as u64);
                }
                (wanted, (missed > 0).then(|| (state.history.clone(), position)))
            }
        };
        watchers.next_id += 1;
        let id = watchers.next_id;
        let (watcher, slot) = Watcher::new(self.clone(), interest, id, after, replay);
        watchers
            .groups
            .entry(Group::of(&slot.interest))
            .or_default()
            .push((id, slot));
        Ok((snapshot, watcher))
    }

    pub(crate) fn unwatch(&self, interest: &Interest, id: u64) {
        let group = Group::of(interest);
        let mut watchers = self.watchers.lock();
        if let Some(slots) = watchers.groups.get_mut(&group) {
            slots.retain(|(it, _)| *it != id);
            if slots.is_empty() {
                watchers.groups.remove(&group);
            }
        }
    }

    /// How many watchers there are.
    pub fn watchers(&self) -> usize {
        self.watchers.lock().groups.values().map(Vec::len).sum()
    }
}

impl Watchers {
    fn end_all(&mut self, why: WatchEnd) {
        for (_, slot) in self.groups.drain().flat_map(|(_, slots)| slots) {
            slot.end(why);
        }
    }

    /// Tells everybody whom it concerns; how many events went out and how many watchers had to go.
    fn tell(&mut self, transitions: &[Arc<Transition>], indexes: &[usize]) -> (u64, u64) {
        let (mut told, mut closed) = (0, 0);
        if self.groups.is_empty() {
            return (told, closed);
        }
        for transition in transitions {
            let key = transition.key();
            let mut groups = vec![Group::Scope(Scope::All), Group::Scope(Scope::Key((&**key).into()))];
            groups.extend(
                memchr::memchr_iter(b'/', key.as_bytes()).map(|at| Group::Scope(Scope::Prefix(key[..=at].into()))),
            );
            for field in indexes {
                let value = |object: Option<&Arc<Object>>| {
                    object.map(|object| Box::<str>::from(object.field(*field).unwrap_or_default()))
                };
                let (new, old) = (value(transition.object()), value(transition.previous()));
                groups.extend(
                    old.filter(|old| new.as_ref() != Some(old))
                        .map(|value| Group::Index(*field, value)),
                );
                groups.extend(new.map(|value| Group::Index(*field, value)));
            }
            for group in groups {
                let Some(slots) = self.groups.get_mut(&group) else {
                    continue;
                };
                let before = slots.len();
                slots.retain(|(_, slot)| slot.tell(transition, &mut told).is_ok());
                closed += (before - slots.len()) as u64;
                if slots.is_empty() {
                    self.groups.remove(&group);
                }
            }
        }
        (told, closed)
    }
}
