//! Rules about built-in kinds, as functions on a [`Cursor`]; one file per concept that several kinds share.
//!
//! Contract: texts, fields, reasons and order equal those of kube-apiserver's validators. A rule never returns early
//! because of another's finding unless kube-apiserver does.

pub mod addresses;
pub mod affinity;
pub mod bytes;
pub mod cursor;
pub mod go_struct;
pub mod label_selector;
pub mod names;
pub mod port_numbers;
pub mod resource_names;
pub mod resources;
pub mod tolerations;

pub use cursor::{Cursor, check};
