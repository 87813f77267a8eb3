//! The core group: strategies of its kinds, one file per kind.

mod component_status;
mod config_map;
mod connect;
mod endpoints;
mod key_pair;
mod limit_range;
mod namespace;
mod node;
pub mod node_labels;
mod persistent_volume;
pub mod persistent_volume_claim;
pub mod pod;
mod pod_template;
mod replication_controller;
mod resource_quota;
mod secret;
pub mod service;
mod service_account;

use crate::context::Context;
use crate::kinds::Kinds;

/// Gives the kinds of this group their strategies.
pub fn register(kinds: &mut Kinds, context: &Context) {
    connect::register(kinds, context);
    kinds.responder(
        "",
        "componentstatuses",
        "",
        component_status::ComponentStatuses::new(context),
    );
    kinds.strategy("", "componentstatuses", component_status::Deprecated);
    kinds.strategy("", "configmaps", config_map::ConfigMaps);
    kinds.strategy("", "endpoints", endpoints::EndpointsLists);
    kinds.strategy("", "limitranges", limit_range::LimitRanges);
    kinds.strategy("", "namespaces", namespace::Namespaces);
    kinds.subresource("", "namespaces", "status", namespace::Status);
    kinds.subresource("", "namespaces", "finalize", namespace::Finalize);
    kinds.strategy("", "nodes", node::Nodes);
    kinds.subresource("", "nodes", "status", node::Status);
    pod::register(kinds);
    kinds.strategy("", "podtemplates", pod_template::PodTemplates);
    kinds.strategy(
        "",
        "replicationcontrollers",
        replication_controller::ReplicationControllers,
    );
    kinds.subresource("", "replicationcontrollers", "status", replication_controller::Status);
    kinds.strategy("", "persistentvolumes", persistent_volume::PersistentVolumes);
    kinds.subresource("", "persistentvolumes", "status", persistent_volume::Status);
    kinds.strategy("", "persistentvolumeclaims", persistent_volume_claim::Claims);
    kinds.subresource("", "persistentvolumeclaims", "status", persistent_volume_claim::Status);
    kinds.strategy("", "resourcequotas", resource_quota::ResourceQuotas);
    kinds.subresource("", "resourcequotas", "status", resource_quota::Status);
    kinds.strategy("", "secrets", secret::Secrets);
    service::register(kinds, context);
    kinds.strategy("", "serviceaccounts", service_account::ServiceAccounts);
}
