//! Defaults that depend on other fields, for types that several kinds share. Unconditional defaults are in the schema
//! texts.

pub mod image;
pub mod pod_spec;

pub use pod_spec::{pod_spec, pod_status, pod_template, resource_lists};
