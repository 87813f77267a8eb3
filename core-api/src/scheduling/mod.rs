//! `scheduling.k8s.io`: priorities of pods.

pub mod priority_class;

use crate::kinds::Kinds;

const GROUP: &str = "scheduling.k8s.io";

/// Gives the kinds of this group their strategies.
pub fn register(kinds: &mut Kinds) {
    kinds.strategy(GROUP, "priorityclasses", priority_class::PriorityClasses);
}
