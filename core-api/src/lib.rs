//! The second tier: every built-in group but those of the aggregator and of extensions-api.

pub mod access;
pub mod admission;
pub mod apps;
pub mod assemble;
pub mod authentication;
pub mod authorization;
pub mod autoscaling;
pub mod batch;
pub mod boot;
pub mod context;
pub mod coordination;
pub mod core;
pub mod defaults;
pub mod discovery;
pub mod events;
pub mod features;
pub mod flowcontrol;
pub mod kinds;
pub mod loopback;
pub mod networking;
pub mod node;
pub mod options;
pub mod policy;
pub mod printing;
pub mod rbac;
pub mod scheduling;
pub mod schema;
pub mod storage;
pub mod unenforced;
pub mod unified_diff;
pub mod validation;

