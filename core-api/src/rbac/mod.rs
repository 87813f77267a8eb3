//! `rbac.authorization.k8s.io`: roles, bindings, and the ones that every cluster begins with.

mod binding;
pub mod bootstrap;
mod guard;
pub mod policy;
mod role;

pub use guard::EscalationGuard;

use crate::kinds::Kinds;
use policy::GROUP;

/// Gives the kinds of this group their strategies; writes pass `guard`.
pub fn register(kinds: &mut Kinds, guard: &EscalationGuard) {
    kinds.strategy(GROUP, "roles", role::Roles(guard.clone()));
    kinds.strategy(GROUP, "clusterroles", role::ClusterRoles(guard.clone()));
    kinds.strategy(GROUP, "rolebindings", binding::RoleBindings(guard.clone()));
    kinds.strategy(
        GROUP,
        "clusterrolebindings",
        binding::ClusterRoleBindings(guard.clone()),
    );
}
