//! aggregator

pub mod schema;
