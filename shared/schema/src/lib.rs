//! Schemas of built-in kinds and custom resources: types, and everything that is driven by them.
//!
//! [`types`] is the in-memory form, [`resource`] what a resource is and can do.

pub mod resource;
pub mod types;
