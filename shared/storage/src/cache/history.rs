//! The recent past of one resource: what resumed watches replay and what past states are computed back from.
//!
//! Bounded by what it alone keeps alive (replaced and deleted objects), relative to the size of the resource, so that a busy
//! resource cannot multiply its memory; at least a few events are kept, as many as kube-apiserver's smallest buffer.

use std::sync::Arc;

use super::event::Transition;
use super::map::Objects;
use crate::store::Revision;

/// Kept whatever they weigh, unless they weigh four times what is allowed.
const FEWEST_EVENTS: usize = 100;
const MOST_EVENTS: usize = 102_400;
/// What replaced objects may weigh: a sixth of the current ones, within these bounds.
const LEAST_BYTES: usize = 2 << 20;
const MOST_BYTES: usize = 64 << 20;
/// Events a past state may be away from the current one; further back the store is asked.
const FARTHEST: usize = 20_000;

/// Transitions in order of revision. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    events: imbl::Vector<Arc<Transition>>,
    floor: Revision,
    bytes: usize,
    /// It has begun to forget.
    trimmed: bool,
}

impl History {
    /// Nothing is known of what came before `floor`.
    pub(crate) fn starting_after(floor: Revision) -> Self {
        Self {
            floor,
            ..Self::default()
        }
    }

    /// Everything after this revision is here.
    pub(crate) fn floor(&self) -> Revision {
        self.floor
    }

    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    pub(crate) fn push(&mut self, transition: Arc<Transition>) {
        self.bytes += transition.held();
        self.events.push_back(transition);
    }

    /// Forgets the oldest until it fits beside objects of so many bytes.
    pub(crate) fn trim(&mut self, object_bytes: usize) {
        let allowed = (object_bytes / 6).clamp(LEAST_BYTES, MOST_BYTES);
        while self.events.len() > MOST_EVENTS
            || self.bytes > 4 * allowed
            || (self.bytes > allowed && self.events.len() > FEWEST_EVENTS)
        {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.held();
            self.floor = oldest.revision();
            self.trimmed = true;
        }
    }

    /// Whether it has forgotten something that it knew.
    pub(crate) fn trimmed(&self) -> bool {
        self.trimmed
    }

    /// Puts what happened after `floor` before all else.
    pub(crate) fn precede(&mut self, older: Vec<Arc<Transition>>, floor: Revision) {
        for transition in older.into_iter().rev() {
            self.bytes += transition.held();
            self.events.push_front(transition);
        }
        self.floor = floor;
    }

    /// Position of the first event after `revision`; `None` when what came after it is no longer known.
    pub(crate) fn position_after(&self, revision: Revision) -> Option<usize> {
        if revision < self.floor {
            return None;
        }
        // A comparison that never says "equal" finds the boundary.
        let search = |event: &Arc<Transition>| match event.revision() <= revision {
            true => std::cmp::Ordering::Less,
            false => std::cmp::Ordering::Greater,
        };
        Some(self.events.binary_search_by(search).unwrap_or_else(|at| at))
    }

    pub(crate) fn get(&self, position: usize) -> Option<&Arc<Transition>> {
        self.events.get(position)
    }

    /// Events from a position on.
    pub(crate) fn from(&self, position: usize) -> impl Iterator<Item = &Arc<Transition>> {
        let mut focus = self.events.focus();
        if position < focus.len() {
            focus = focus.narrow(position..);
        } else {
            focus = focus.narrow(0..0);
        }
        focus.into_iter()
    }

    /// The objects as they were at `revision`, computed back from what they are now.
    pub(crate) fn undo(&self, now: &Objects, revision: Revision) -> Option<Objects> {
        let position = self.position_after(revision)?;
        if self.events.len() - position > FARTHEST {
            return None;
        }
        let mut objects = now.clone();
        for index in (position..self.events.len()).rev() {
            let event = self.events.get(index)?;
            match event.previous() {
                Some(previous) => {
                    objects.insert(previous.clone());
                }
                None => {
                    objects.remove(event.key());
                }
            }
        }
        Some(objects)
    }
}

#[cfg(test)]
mod tests {
    use super::super::object::Object;
    use super::*;

    fn object(name: &str, revision: Revision, size: usize) -> Arc<Object> {
        let json = format!(r#"{{"metadata":{{}},"data":"{}"}}"#, "x".repeat(size));
        Arc::new(Object::from_json(format!("/a/{name}").into(), revision, json.as_bytes(), &[]).unwrap())
    }

    fn put(history: &mut History, objects: &mut Objects, name: &str, revision: Revision, size: usize) {
        let object = object(name, revision, size);
        let previous = objects.insert(object.clone());
        history.push(Arc::new(Transition::new(
            revision,
            object.key().clone(),
            Some(object),
            previous,
        )));
    }

    #[test]
    fn past_states_are_computed_back() {
        let (mut history, mut objects) = (History::starting_after(1), Objects::default());
        put(&mut history, &mut objects, "a", 2, 1);
        put(&mut history, &mut objects, "b", 3, 1);
        put(&mut history, &mut objects, "a", 4, 1);
        let previous = objects.remove("/a/b");
        history.push(Arc::new(Transition::new(5, "/a/b".into(), None, previous)));
        let at = |revision| {
            let objects = history.undo(&objects, revision)?;
            Some(
                objects
                    .range("", "")
                    .map(|it| format!("{}@{}", it.name(), it.revision()))
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(at(0), None);
        assert_eq!(at(1).unwrap(), [""; 0]);
        assert_eq!(at(2).unwrap(), ["a@2"]);
        assert_eq!(at(3).unwrap(), ["a@2", "b@3"]);
        assert_eq!(at(4).unwrap(), ["a@4", "b@3"]);
        assert_eq!(at(5).unwrap(), ["a@4"]);
        assert_eq!(at(9).unwrap(), ["a@4"]);
    }

    #[test]
    fn what_replaced_objects_weigh_is_bounded() {
        let (mut history, mut objects) = (History::starting_after(1), Objects::default());
        for revision in 2..2000 {
            put(&mut history, &mut objects, "a", revision, 100_000);
            history.trim(objects.bytes());
            assert!(history.bytes <= 4 * LEAST_BYTES);
        }
        assert!(history.position_after(history.floor() - 1).is_none());
        assert_eq!(history.position_after(history.floor()), Some(0));
        assert_eq!(history.from(history.position_after(1997).unwrap()).count(), 2);
        assert_eq!(history.from(history.position_after(5000).unwrap()).count(), 0);
    }

    #[test]
    fn small_events_are_kept_in_great_number() {
        let (mut history, mut objects) = (History::starting_after(1), Objects::default());
        for revision in 2..5002 {
            put(&mut history, &mut objects, &revision.to_string(), revision, 10);
            history.trim(objects.bytes());
        }
        assert_eq!((history.len(), history.floor()), (5000, 1));
    }
}
