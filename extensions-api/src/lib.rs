//! extensions-api

pub mod schema;
