//! core-api

pub mod schema;
