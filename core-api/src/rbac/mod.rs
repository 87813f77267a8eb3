//! `rbac.authorization.k8s.io`: roles, bindings, and the ones that every cluster begins with.

mod binding;
pub mod bootstrap;
mod guard;
pub mod policy;
mod role;

use triptych_auth::authorization::escalation::EscalationCheck;

use crate::kinds::Kinds;
use policy::GROUP;

/// Gives the kinds of this group their strategies; writes pass `escalation`.
pub fn register(kinds: &mut Kinds, escalation: &EscalationCheck) {
    kinds.strategy(GROUP, "roles", role::Roles(escalation.clone()));
    kinds.strategy(GROUP, "clusterroles", role::ClusterRoles(escalation.clone()));
    kinds.strategy(GROUP, "rolebindings", binding::RoleBindings(escalation.clone()));
    kinds.strategy(
        GROUP,
        "clusterrolebindings",
        binding::ClusterRoleBindings(escalation.clone()),
    );
}
