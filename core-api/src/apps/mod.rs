//! apps/v1: controllers of pods that run for ever, one file per kind.

mod controller_revision;
mod daemon_set;
mod deployment;
mod replica_set;
mod stateful_set;
pub mod workload;

use crate::kinds::Kinds;

/// Gives the kinds of this group their strategies.
pub fn register(kinds: &mut Kinds) {
    kinds.strategy("apps", "controllerrevisions", controller_revision::ControllerRevisions);
    kinds.strategy("apps", "daemonsets", daemon_set::DaemonSets);
    kinds.subresource("apps", "daemonsets", "status", daemon_set::Status);
    kinds.strategy("apps", "deployments", deployment::Deployments);
    kinds.subresource("apps", "deployments", "status", deployment::Status);
    kinds.strategy("apps", "replicasets", replica_set::ReplicaSets);
    kinds.subresource("apps", "replicasets", "status", replica_set::Status);
    kinds.strategy("apps", "statefulsets", stateful_set::StatefulSets);
    kinds.subresource("apps", "statefulsets", "status", stateful_set::Status);
}
