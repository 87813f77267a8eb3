//! Watching: who wants what, and the reader's end of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;

use super::Filter;
use super::board::Board;
use super::event::{Event, Transition};
use super::history::History;
use crate::store::Revision;

/// Events one watcher may have waiting; one more and it is closed.
pub(crate) const QUEUED_EVENTS: usize = 1024;
/// Bytes of objects one watcher may have waiting, a single event excepted.
pub(crate) const QUEUED_BYTES: usize = 16 << 20;

/// Where a watch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With the first change after this revision.
    After(Revision),
    /// With the first change from now on; a snapshot of the state before it comes along.
    Now,
}

/// The keys a watcher wants.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
    /// All of the resource.
    All,
    /// Keys that start with this and its slash: a namespace.
    Prefix(Box<str>),
    /// One key.
    Key(Box<str>),
}

impl Scope {
    pub(crate) fn contains(&self, key: &str) -> bool {
        match self {
            Self::All => true,
            Self::Prefix(prefix) => key.starts_with(&**prefix),
            Self::Key(wanted) => key == &**wanted,
        }
    }
}

/// What a watcher wants to hear of.
#[derive(Clone)]
pub struct Interest {
    /// Which keys.
    pub scope: Scope,
    /// Only objects whose indexed field (its number) has this value: found without asking every watcher.
    pub index: Option<(usize, Box<str>)>,
    /// Only objects this accepts; it need not look at what scope and index say.
    pub filter: Option<Filter>,
}

impl Interest {
    /// Everything.
    pub fn all() -> Self {
        Self {
            scope: Scope::All,
            index: None,
            filter: None,
        }
    }
}

/// Why a watcher gets nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchEnd {
    /// It did not keep up.
    TooSlow,
    /// History was lost; start over.
    Restarted,
    /// The resource is no longer served.
    Closed,
}

/// Why a watch cannot begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// The cache has not been filled yet.
    #[error("storage is (re)initializing")]
    Filling,
    /// What happened after the wanted revision is no longer known.
    #[error("too old resource version: {wanted} ({oldest})")]
    TooOld {
        /// The revision asked for.
        wanted: Revision,
        /// The oldest revision a watch can begin after.
        oldest: Revision,
    },
    /// The resource is no longer served.
    #[error("the resource is no longer served")]
    Closed,
}

/// The dispatcher's side of a watcher.
pub(crate) struct Slot {
    pub(crate) interest: Interest,
    pub(crate) events: mpsc::Sender<Event>,
    pub(crate) shared: Arc<Shared>,
}

/// What both sides of a watcher look at.
pub(crate) struct Shared {
    pub(crate) queued_bytes: AtomicUsize,
    end: parking_lot::Mutex<Option<WatchEnd>>,
}

impl Slot {
    /// Hands over a transition if it is of interest; an error when the watcher has to go.
    pub(crate) fn tell(&self, transition: &Arc<Transition>, told: &mut u64) -> Result<(), ()> {
        if !self.interest.scope.contains(transition.key()) {
            return Ok(());
        }
        let Some(event) = seen(&self.interest, transition) else {
            return Ok(());
        };
        let weight = transition.weight();
        let queued = self.shared.queued_bytes.fetch_add(weight, Ordering::AcqRel);
        let sent = if queued > 0 && queued + weight > QUEUED_BYTES {
            None
        } else {
            self.events.try_send(event).ok()
        };
        *told += 1;
        sent.ok_or_else(|| self.end(WatchEnd::TooSlow))
    }

    pub(crate) fn end(&self, why: WatchEnd) {
        self.shared.end.lock().get_or_insert(why);
    }
}

/// The event an interest sees in a transition of a key in its scope.
fn seen(interest: &Interest, transition: &Arc<Transition>) -> Option<Event> {
    let kind = match &interest.index {
        None => transition.seen_through(interest.filter.as_ref()),
        Some((field, value)) => transition.seen_if(|object| {
            object.field(*field).unwrap_or_default() == **value
                && interest.filter.as_ref().is_none_or(|filter| filter(object))
        }),
    }?;
    Some(Event::of(kind, transition.live()))
}

/// The reader's end of a watch: first what happened since its start, then what happens.
pub struct Watcher {
    board: Arc<Board>,
    interest: Interest,
    id: u64,
    after: Revision,
    replay: Option<(History, usize)>,
    events: mpsc::Receiver<Event>,
    shared: Arc<Shared>,
}

impl Watcher {
    pub(crate) fn new(
        board: Arc<Board>,
        interest: Interest,
        id: u64,
        after: Revision,
        replay: Option<(History, usize)>,
    ) -> (Self, Slot) {
        let (sender, events) = mpsc::channel(QUEUED_EVENTS);
        let shared = Arc::new(Shared {
            queued_bytes: AtomicUsize::new(0),
            end: parking_lot::Mutex::default(),
        });
        let slot = Slot {
            interest: interest.clone(),
            events: sender,
            shared: shared.clone(),
        };
        (
            Self {
                board,
                interest,
                id,
                after,
                replay,
                events,
                shared,
            },
            slot,
        )
    }

    /// The next event; `None` when there will be no more (see `end`).
    pub async fn next(&mut self) -> Option<Event> {
        if let Some(event) = self.replayed() {
            return Some(event);
        }
        loop {
            let event = self.events.recv().await?;
            if let Some(event) = self.received(event) {
                return Some(event);
            }
        }
    }

    /// Waits for an event and takes what else is there, up to `most`; whether there was any.
    pub async fn next_many(&mut self, into: &mut Vec<Event>, most: usize) -> bool {
        let Some(first) = self.next().await else { return false };
        into.push(first);
        while into.len() < most
            && let Some(event) = self.try_next()
        {
            into.push(event);
        }
        true
    }

    /// The next event, if it is there already.
    pub fn try_next(&mut self) -> Option<Event> {
        if let Some(event) = self.replayed() {
            return Some(event);
        }
        loop {
            let event = self.events.try_recv().ok()?;
            if let Some(event) = self.received(event) {
                return Some(event);
            }
        }
    }

    /// The revision up to which everything of interest was given out, for a bookmark; `None` while events wait.
    pub fn progress(&self) -> Option<Revision> {
        // The order matters: what happened up to `revision` was queued before the board said so.
        let revision = self.board.progress();
        let idle = self.replay.is_none() && self.events.is_empty();
        (idle && revision >= self.after).then_some(revision)
    }

    /// Asks the store how far it is, so that `progress` moves although nothing happens.
    pub fn request_progress(&self) {
        self.board.request_progress();
    }

    /// Why it ended; `None` while it has not.
    pub fn end(&self) -> Option<WatchEnd> {
        *self.shared.end.lock()
    }

    fn replayed(&mut self) -> Option<Event> {
        let (history, position) = self.replay.as_mut()?;
        while let Some(transition) = history.get(*position) {
            *position += 1;
            if self.interest.scope.contains(transition.key())
                && let Some(event) = seen(&self.interest, transition)
            {
                return Some(event);
            }
        }
        self.replay = None;
        None
    }

    fn received(&mut self, event: Event) -> Option<Event> {
        self.shared.queued_bytes.fetch_sub(event.weight(), Ordering::AcqRel);
        (event.revision() > self.after).then_some(event)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.board.unwatch(&self.interest, self.id);
    }
}
