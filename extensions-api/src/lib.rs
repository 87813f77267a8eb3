//! extensions-api
