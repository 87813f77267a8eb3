//! Admission: who may change or refuse a write between decoding and the store.
//!
//! - [`chain`]: the plugins in kube-apiserver's order behind `registry::Admission`;
//! - one file per plugin. A tier puts together the plugins that concern what it serves.

pub mod chain;
pub mod namespace_lifecycle;

pub use chain::{Chain, Plugin};
