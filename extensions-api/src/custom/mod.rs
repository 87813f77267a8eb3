//! Custom resources: one CRD becomes endpoints over one collection, made when somebody first asks.

pub mod claims;
pub mod columns;
pub mod conversion;
mod converting;
mod handler;
pub mod json_path;
pub mod kind;
pub mod model;
pub mod scale_paths;
pub mod serving;
pub mod strategy;
