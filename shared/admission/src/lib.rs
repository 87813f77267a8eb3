//! Admission: who may change or refuse a write between decoding and the store.
//!
//! - [`chain`]: the plugins in kube-apiserver's order behind `registry::Admission`;
//! - [`lookup`]: how plugins read objects of other kinds;
//! - [`selection`]: which plugins run, by flags, and their order;
//! - one file per plugin. A tier puts together the plugins that concern what it serves.

pub mod chain;
pub mod default_toleration_seconds;
pub mod lookup;
pub mod namespace_lifecycle;
pub mod pods;
pub mod priority;
pub mod selection;
pub mod service_account;
pub mod taint_nodes_by_condition;
#[cfg(test)]
mod testing;

pub use chain::{Chain, Plugin};
