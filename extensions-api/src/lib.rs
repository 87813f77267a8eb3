//! The last tier: CustomResourceDefinitions, and the resources that they define.

pub mod assemble;
pub mod controller;
pub mod custom;
pub mod definition;
pub mod namespaces;
pub mod options;
pub mod publish;
pub mod quotas;
pub mod rules;
pub mod schema;
