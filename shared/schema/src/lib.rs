//! Schemas of built-in kinds and custom resources: types, and everything that is driven by them.
//!
//! [`types`] is the in-memory form, [`resource`] what a resource is and can do, [`table`] reads both from what the
//! compiler made of the schema texts.

pub mod custom;
pub mod decode;
pub mod default;
pub mod gated;
pub mod go_regex;
pub mod go_text;
pub mod managed;
pub mod openapi;
pub mod patch;
pub mod protobuf;
pub mod prune;
pub mod resource;
pub mod structural;
pub mod table;
pub mod types;
pub mod validate;

pub use table::Table;

#[cfg(test)]
mod test_support;
