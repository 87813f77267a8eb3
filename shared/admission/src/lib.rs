//! Admission: who may change or refuse a write between decoding and the store.
//!
//! - [`chain`]: the plugins in kube-apiserver's order behind `registry::Admission`;
//! - [`lookup`]: how plugins read objects of other kinds;
//! - [`selection`]: which plugins run, by flags, and their order;
//! - one file per plugin. A tier puts together the plugins that concern what it serves.

pub mod amounts;
pub mod certificates;
pub mod chain;
pub mod default_ingress_class;
pub mod default_storage_class;
pub mod default_toleration_seconds;
pub mod deny_service_external_ips;
pub mod expression;
pub mod limit_ranger;
pub mod lookup;
pub mod matching;
pub mod mirrored;
pub mod namespace_lifecycle;
pub mod node;
pub mod node_restriction;
pub mod persistent_volume_claim_resize;
pub mod pod_resize;
pub mod pod_security;
pub mod pod_topology_labels;
pub mod pods;
pub mod policy;
pub mod priority;
pub mod remote;
pub mod resource_quota;
pub mod rounds;
pub mod runtime_class;
pub mod selection;
pub mod service_account;
pub mod storage_object_in_use_protection;
pub mod taint_nodes_by_condition;
#[cfg(test)]
mod testing;
pub mod webhook;

pub use chain::{Chain, Plugin};
