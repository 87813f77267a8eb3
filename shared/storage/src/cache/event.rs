//! What watchers are told, and the encodings they share.
//!
//! A `Transition` is what the history ring keeps: the object before and after one change. An `Event` is a transition as
//! one kind of watcher sees it: a change may be MODIFIED to one and, because the object stops matching its
//! selector, DELETED to another. All watchers that are being told share one `Live` value, and with it every frame that
//! was encoded; the ring holds it weakly, so that encodings die with the last watcher that needs them.

use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use parking_lot::Mutex;

use super::object::Object;
use crate::store::Revision;

/// The type of a watch event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// The object is new to the watcher.
    Added,
    /// The watcher knows an earlier state of the object.
    Modified,
    /// The object is gone, or no longer matches what the watcher asked for.
    Deleted,
}

impl EventKind {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One change of one key.
#[derive(Debug)]
pub struct Transition {
    pub(crate) revision: Revision,
    pub(crate) key: Arc<str>,
    pub(crate) object: Option<Arc<Object>>,
    pub(crate) previous: Option<Arc<Object>>,
    live: Mutex<Weak<Live>>,
}

impl Transition {
    pub(crate) fn new(
        revision: Revision,
        key: Arc<str>,
        object: Option<Arc<Object>>,
        previous: Option<Arc<Object>>,
    ) -> Self {
        Self {
            revision,
            key,
            object,
            previous,
            live: Mutex::new(Weak::new()),
        }
    }

    /// The revision of the change.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The key that changed.
    pub fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// The object after the change; `None` when it was deleted.
    pub fn object(&self) -> Option<&Arc<Object>> {
        self.object.as_ref()
    }

    /// The object before the change; `None` when it was created.
    pub fn previous(&self) -> Option<&Arc<Object>> {
        self.previous.as_ref()
    }

    /// The event a watcher with this filter sees, if it sees one. Broken objects match no filter.
    pub(crate) fn seen_through(self: &Arc<Self>, filter: Option<&super::Filter>) -> Option<EventKind> {
        self.seen_if(|object| filter.is_none_or(|filter| filter(object)))
    }

    pub(crate) fn seen_if(&self, wanted: impl Fn(&Object) -> bool) -> Option<EventKind> {
        let matches = |object: &Option<Arc<Object>>| match object {
            Some(object) => object.broken().is_none() && wanted(object),
            None => false,
        };
        match (matches(&self.previous), matches(&self.object)) {
            (false, true) => Some(EventKind::Added),
            (true, true) => Some(EventKind::Modified),
            (true, false) => Some(EventKind::Deleted),
            (false, false) => None,
        }
    }

    pub(crate) fn live(self: &Arc<Self>) -> Arc<Live> {
        let mut weak = self.live.lock();
        if let Some(live) = weak.upgrade() {
            return live;
        }
        let live = Arc::new(Live {
            transition: self.clone(),
            deleted: OnceLock::new(),
            frames: [Frames::default(), Frames::default(), Frames::default()],
        });
        *weak = Arc::downgrade(&live);
        live
    }

    pub(crate) fn weight(&self) -> usize {
        self.object()
            .or(self.previous())
            .map_or(0, |object| object.bytes().len())
    }

    /// Bytes this change keeps alive that the current state does not.
    pub(crate) fn held(&self) -> usize {
        self.previous.as_ref().map_or(0, |object| object.size()) + 128
    }
}

/// What watchers that are being told of one transition share.
#[derive(Debug)]
pub(crate) struct Live {
    transition: Arc<Transition>,
    deleted: OnceLock<Arc<Object>>,
    frames: [Frames; 3],
}

/// One watch event. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Event {
    kind: EventKind,
    live: Arc<Live>,
}

impl Event {
    pub(crate) fn of(kind: EventKind, live: Arc<Live>) -> Self {
        Self { kind, live }
    }

    /// ADDED, MODIFIED or DELETED.
    pub fn kind(&self) -> EventKind {
        self.kind
    }

    /// The revision of the change; also the resourceVersion that `object` shows.
    pub fn revision(&self) -> Revision {
        self.live.transition.revision
    }

    /// The object to show: its new state, or for DELETED its last state under the revision of the change.
    pub fn object(&self) -> &Arc<Object> {
        let transition = &self.live.transition;
        match (self.kind, &transition.object, &transition.previous) {
            (EventKind::Deleted, _, Some(previous)) | (_, None, Some(previous)) => self
                .live
                .deleted
                .get_or_init(|| Arc::new(previous.with_revision(transition.revision))),
            (_, Some(object), _) => object,
            // A transition from nothing to nothing is never made.
            (_, None, None) => self.live.deleted.get_or_init(|| {
                let key = transition.key.clone();
                Arc::new(Object::without_text(
                    key,
                    transition.revision,
                    "the object does not exist".into(),
                ))
            }),
        }
    }

    /// What it weighs in a queue.
    pub(crate) fn weight(&self) -> usize {
        self.live.transition.weight()
    }

    /// The object before the change.
    pub fn previous(&self) -> Option<&Arc<Object>> {
        self.live.transition.previous.as_ref()
    }

    /// This event in the encoding that the caller numbers `encoding`: made once for all watchers by whoever comes first.
    pub fn frame(&self, encoding: u32, make: impl FnOnce() -> Bytes) -> Bytes {
        self.live.frames[self.kind as usize].get(encoding, make)
    }
}

/// A grow-only list of encodings; readers take no lock.
#[derive(Debug, Default)]
struct Frames {
    first: OnceLock<Box<Frame>>,
}

#[derive(Debug)]
struct Frame {
    encoding: u32,
    bytes: OnceLock<Bytes>,
    next: OnceLock<Box<Frame>>,
}

impl Frames {
    fn get(&self, encoding: u32, make: impl FnOnce() -> Bytes) -> Bytes {
        let mut slot = &self.first;
        loop {
            let frame = slot.get_or_init(|| {
                Box::new(Frame {
                    encoding,
                    bytes: OnceLock::new(),
                    next: OnceLock::new(),
                })
            });
            if frame.encoding == encoding {
                return frame.bytes.get_or_init(make).clone();
            }
            slot = &frame.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(change: &Arc<Transition>, kind: EventKind) -> Event {
        Event::of(kind, change.live())
    }

    fn object(revision: Revision, json: &str) -> Option<Arc<Object>> {
        Some(Arc::new(
            Object::from_json("/a".into(), revision, json.as_bytes(), &[]).unwrap(),
        ))
    }

    #[test]
    fn an_encoding_is_made_once_and_shared_while_somebody_watches() {
        let change = Arc::new(Transition::new(2, "/a".into(), object(2, r#"{"metadata":{}}"#), None));
        let (one, two) = (event(&change, EventKind::Added), event(&change, EventKind::Added));
        assert_eq!(one.frame(7, || Bytes::from_static(b"x")), "x");
        assert_eq!(two.frame(7, || unreachable!()), "x");
        assert_eq!(two.frame(8, || Bytes::from_static(b"y")), "y");
        let modified = event(&change, EventKind::Modified);
        assert_eq!(modified.frame(7, || Bytes::from_static(b"z")), "z");
        drop((one, two, modified));
        assert_eq!(
            event(&change, EventKind::Added).frame(7, || Bytes::from_static(b"again")),
            "again"
        );
    }

    #[test]
    fn an_object_that_stops_matching_is_deleted_with_its_old_content_and_the_new_revision() {
        let old = object(2, r#"{"metadata":{"labels":{"a":"1"}}}"#);
        let new = object(5, r#"{"metadata":{"labels":{"a":"2"}}}"#);
        let change = Arc::new(Transition::new(5, "/a".into(), new, old));
        let filter: super::super::Filter = Arc::new(|object: &Object| object.label("a").is_some_and(|a| a == "1"));
        let kind = change.seen_through(Some(&filter)).unwrap();
        assert_eq!(kind, EventKind::Deleted);
        let event = event(&change, kind);
        assert_eq!(
            event.object().bytes(),
            &r#"{"metadata":{"resourceVersion":"5","labels":{"a":"1"}}}"#
        );
        assert_eq!(change.seen_through(None), Some(EventKind::Modified));
    }

    #[test]
    fn broken_states_are_invisible() {
        let entry = crate::Entry {
            key: "/a".into(),
            revision: 2,
            value: Bytes::from_static(b"junk"),
        };
        let broken = Some(Arc::new(Object::ingest(&entry, &super::super::JsonDecoder::default())));
        let good = object(1, r#"{"metadata":{}}"#);
        let seen = |object: &Option<Arc<Object>>, previous: &Option<Arc<Object>>| {
            Arc::new(Transition::new(3, "/a".into(), object.clone(), previous.clone())).seen_through(None)
        };
        assert_eq!(seen(&broken, &good), Some(EventKind::Deleted));
        assert_eq!(seen(&good, &broken), Some(EventKind::Added));
        assert_eq!(seen(&None, &broken), None);
    }
}
