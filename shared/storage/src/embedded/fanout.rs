//! Hands committed changes to the watches of this process.
//!
//! Every watch has a bounded queue. One that overflows loses its queue, not its place: its reader continues from the
//! history in the file and then from the queue again, so the writer waits for nobody and memory stays bounded. Publishing
//! and subscribing exclude each other, which makes the step from file to queue gapless.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::tables::History;
use crate::error::Error;
use crate::store::{Batch, Change, Position, Revision, WatchControl};

/// Changes one watch may have waiting.
const QUEUED_CHANGES: usize = 4096;
/// Bytes of values one watch may have waiting.
const QUEUED_BYTES: usize = 8 << 20;

/// All watches and the revision they were told about last.
#[derive(Default)]
pub(super) struct Fanout {
    published: AtomicU64,
    subscriptions: Mutex<Subscriptions>,
}

#[derive(Default)]
struct Subscriptions {
    /// By prefix, for prefixes that end with a slash: a change looks up the few its key has.
    by_folder: HashMap<Arc<str>, Vec<Arc<Subscription>>>,
    others: Vec<Arc<Subscription>>,
    closed: bool,
}

/// One watch's side of the fan-out.
pub(super) struct Subscription {
    fanout: Arc<Fanout>,
    prefix: Arc<str>,
    last_change: AtomicU64,
    /// Nobody tells it of changes any more, so its position means nothing.
    ended: AtomicBool,
    queue: Mutex<Queue>,
    notify: Notify,
}

#[derive(Default)]
struct Queue {
    batches: VecDeque<Batch>,
    changes: usize,
    bytes: usize,
    overflowed: bool,
    closed: bool,
}

/// What a watch reads next.
pub(super) enum Next {
    Batch(Batch),
    /// Read the history up to this revision, then come back.
    History(Revision),
    Closed,
}

impl Fanout {
    pub(super) fn starting_at(revision: Revision) -> Arc<Self> {
        Arc::new(Self {
            published: AtomicU64::new(revision),
            subscriptions: Mutex::default(),
        })
    }

    /// The revision up to which all watches were told.
    pub(super) fn published(&self) -> Revision {
        self.published.load(Ordering::Acquire)
    }

    /// Tells everybody. `changes` are what was committed since the last call, up to `revision`.
    pub(super) fn publish(&self, changes: &[Change], revision: Revision) {
        let subscriptions = self.subscriptions.lock();
        let mut told: Vec<(&Arc<Subscription>, Vec<Change>)> = Vec::new();
        let mut add =
            |subscription, change: &Change| match told.iter_mut().find(|(it, _)| Arc::ptr_eq(it, subscription)) {
                Some((_, changes)) => changes.push(change.clone()),
                None => told.push((subscription, vec![change.clone()])),
            };
        for change in changes {
            let key = change.key();
            for end in memchr::memchr_iter(b'/', key.as_bytes()) {
                for subscription in subscriptions.by_folder.get(&key[..=end]).into_iter().flatten() {
                    add(subscription, change);
                }
            }
            for subscription in subscriptions.others.iter().filter(|it| key.starts_with(&*it.prefix)) {
                add(subscription, change);
            }
        }
        for (subscription, changes) in told {
            subscription.push(changes);
        }
        self.published.store(revision, Ordering::Release);
    }

    /// The store is at `revision` and what led there has to be read from the file.
    pub(super) fn resume_from_history(&self, revision: Revision) {
        let subscriptions = self.subscriptions.lock();
        if revision == self.published() {
            return;
        }
        for subscription in subscriptions.by_folder.values().flatten().chain(&subscriptions.others) {
            subscription.last_change.store(revision, Ordering::Release);
            *subscription.queue.lock() = Queue {
                overflowed: true,
                ..Queue::default()
            };
            subscription.notify.notify_one();
        }
        self.published.store(revision, Ordering::Release);
    }

    /// A new watch and the revision after which its queue begins.
    pub(super) fn subscribe(self: &Arc<Self>, prefix: &str) -> (Arc<Subscription>, Revision) {
        let subscription = Arc::new(Subscription {
            fanout: self.clone(),
            prefix: prefix.into(),
            last_change: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            queue: Mutex::default(),
            notify: Notify::new(),
        });
        let mut subscriptions = self.subscriptions.lock();
        subscription.queue.lock().closed = subscriptions.closed;
        let published = self.published();
        // Until told otherwise, whoever reads this watch has to have seen all there is.
        subscription.last_change.store(published, Ordering::Release);
        if prefix.ends_with('/') {
            subscriptions
                .by_folder
                .entry(prefix.into())
                .or_default()
                .push(subscription.clone());
        } else {
            subscriptions.others.push(subscription.clone());
        }
        (subscription, published)
    }

    /// Ends a watch.
    pub(super) fn unsubscribe(&self, subscription: &Arc<Subscription>) {
        let mut subscriptions = self.subscriptions.lock();
        subscription.ended.store(true, Ordering::Release);
        subscriptions.others.retain(|it| !Arc::ptr_eq(it, subscription));
        if let Some(list) = subscriptions.by_folder.get_mut(&subscription.prefix) {
            list.retain(|it| !Arc::ptr_eq(it, subscription));
            if list.is_empty() {
                subscriptions.by_folder.remove(&subscription.prefix);
            }
        }
    }

    /// Ends all watches, now and later.
    pub(super) fn close(&self) {
        let mut subscriptions = self.subscriptions.lock();
        subscriptions.closed = true;
        for subscription in subscriptions.by_folder.values().flatten().chain(&subscriptions.others) {
            subscription.queue.lock().closed = true;
            subscription.notify.notify_one();
        }
    }
}

impl Subscription {
    fn push(&self, changes: Vec<Change>) {
        if let Some(last) = changes.last() {
            self.last_change.store(last.revision(), Ordering::Release);
        }
        let mut queue = self.queue.lock();
        if !queue.overflowed {
            queue.changes += changes.len();
            queue.bytes += changes.iter().map(weight).sum::<usize>();
            queue.batches.push_back(Batch::Changes(changes));
            if queue.changes > QUEUED_CHANGES || queue.bytes > QUEUED_BYTES {
                *queue = Queue {
                    overflowed: true,
                    ..Queue::default()
                };
            }
        }
        drop(queue);
        self.notify.notify_one();
    }

    /// Waits for what comes next.
    pub(super) async fn next(&self) -> Next {
        loop {
            if let Some(next) = self.try_next() {
                return next;
            }
            self.notify.notified().await;
        }
    }

    fn try_next(&self) -> Option<Next> {
        {
            let mut queue = self.queue.lock();
            if queue.closed {
                return Some(Next::Closed);
            }
            if !queue.overflowed {
                let batch = queue.batches.pop_front()?;
                if let Batch::Changes(changes) = &batch {
                    queue.changes -= changes.len();
                    queue.bytes -= changes.iter().map(weight).sum::<usize>();
                }
                return Some(Next::Batch(batch));
            }
        }
        // Publishing is held off while the queue is opened again, so that it begins right after `published`.
        let _publishing = self.fanout.subscriptions.lock();
        let mut queue = self.queue.lock();
        *queue = Queue {
            closed: queue.closed,
            ..Queue::default()
        };
        Some(Next::History(self.fanout.published()))
    }
}

fn weight(change: &Change) -> usize {
    match change {
        Change::Put(entry) => entry.value.len(),
        Change::Delete { .. } => 0,
    }
}

impl WatchControl for Subscription {
    fn position(&self) -> Option<Position> {
        let current = self.fanout.published();
        Some(Position {
            current,
            last_change: self.last_change.load(Ordering::Acquire),
        })
    }

    fn request_progress(&self) {
        let _publishing = self.fanout.subscriptions.lock();
        let mut queue = self.queue.lock();
        let progress = Batch::Progress(self.fanout.published());
        if let Some(last @ Batch::Progress(_)) = queue.batches.back_mut() {
            *last = progress;
        } else if !queue.overflowed {
            // What is read from the file after an overflow ends with a progress of its own.
            queue.batches.push_back(progress);
        }
        drop(queue);
        self.notify.notify_one();
    }
}

/// Ends the watch when its stream is dropped.
struct Reader {
    subscription: Arc<Subscription>,
    delivered: Revision,
    behind: Option<Revision>,
    /// Said before anything else: the history is read up to here, though its last change may be older.
    progress: Option<Revision>,
    done: bool,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.subscription.fanout.unsubscribe(&self.subscription);
    }
}

/// The stream of one watch. `history` reads the file: changes after the first revision, up to the second.
pub(super) fn stream<F, R>(
    subscription: Arc<Subscription>,
    after: Revision,
    published: Revision,
    history: F,
) -> impl futures_util::Stream<Item = Result<Batch, Error>> + Send
where
    F: Fn(Arc<str>, Revision, Revision) -> R + Send + 'static,
    R: Future<Output = Result<History, Error>> + Send,
{
    let behind = (published > after).then_some(published);
    let reader = Reader {
        subscription,
        delivered: after,
        behind,
        progress: None,
        done: false,
    };
    futures_util::stream::unfold((reader, history), |(mut reader, history)| async move {
        loop {
            if reader.done {
                return None;
            }
            if let Some(revision) = reader.progress.take() {
                return Some((Ok(Batch::Progress(revision)), (reader, history)));
            }
            if let Some(until) = reader.behind {
                let part = history(reader.subscription.prefix.clone(), reader.delivered, until).await;
                match part {
                    Ok(part) => {
                        reader.delivered = part.until;
                        reader.behind = (part.until < until).then_some(until);
                        reader.progress = Some(part.until);
                        if !part.changes.is_empty() {
                            return Some((Ok(Batch::Changes(part.changes)), (reader, history)));
                        }
                    }
                    Err(Error::Compacted { oldest }) => {
                        reader.done = true;
                        return Some((Ok(Batch::Compacted(oldest)), (reader, history)));
                    }
                    Err(error) => {
                        reader.done = true;
                        return Some((Err(error), (reader, history)));
                    }
                }
            }
            match reader.subscription.next().await {
                Next::Closed => {
                    reader.done = true;
                    return Some((Err(Error::Closed), (reader, history)));
                }
                Next::History(until) => reader.behind = (until > reader.delivered).then_some(until),
                Next::Batch(Batch::Changes(mut changes)) => {
                    changes.retain(|change| change.revision() > reader.delivered);
                    if let Some(last) = changes.last() {
                        reader.delivered = last.revision();
                        return Some((Ok(Batch::Changes(changes)), (reader, history)));
                    }
                }
                Next::Batch(batch) => return Some((Ok(batch), (reader, history))),
            }
        }
    })
}
