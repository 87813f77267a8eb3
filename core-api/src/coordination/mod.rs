//! `coordination.k8s.io`: leases, and the candidates for one.

mod lease;
mod lease_candidate;

use crate::kinds::Kinds;

/// Gives the kinds of this group their strategies.
pub fn register(kinds: &mut Kinds) {
    kinds.strategy("coordination.k8s.io", "leases", lease::Leases);
    kinds.strategy(
        "coordination.k8s.io",
        "leasecandidates",
        lease_candidate::LeaseCandidates,
    );
}
