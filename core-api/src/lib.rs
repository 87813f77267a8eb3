//! core-api
