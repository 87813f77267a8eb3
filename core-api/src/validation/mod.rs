//! Rules about built-in kinds, as functions on a [`Cursor`]; one file per concept that several kinds share.
//!
//! Contract: texts, fields, reasons and order equal those of kube-apiserver's validators. A rule never returns early
//! because of another's finding unless kube-apiserver does.

pub mod addresses;
pub mod affinity;
pub mod bytes;
pub mod conditions;
pub mod container;
pub mod cursor;
pub mod env;
pub mod go_struct;
pub mod int_or_percent;
pub mod label_selector;
pub mod names;
pub mod paths;
pub mod pem;
pub mod persistent_volume;
pub mod pod_annotations;
pub mod pod_options;
pub mod pod_spec;
pub mod pod_template;
pub mod pod_warnings;
pub mod port_numbers;
pub mod probes;
pub mod resource_names;
pub mod resources;
pub mod security_context;
pub mod tolerations;
pub mod topology_spread;
pub mod volume_claim;
pub mod volume_sources;
pub mod volumes;
pub mod webhook_client;

pub use cursor::{Cursor, check};
