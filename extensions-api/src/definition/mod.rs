//! CustomResourceDefinitions: the kind, its stored form, its rules.

pub mod approval;
pub mod conditions;
pub mod endpoint;
pub mod internal;
pub mod model;
pub mod stored;
pub mod strategy;
pub mod summary;
pub mod validation;
pub mod warnings;

/// API group of CRDs.
pub const GROUP: &str = "apiextensions.k8s.io";
/// Plural name of CRDs.
pub const RESOURCE: &str = "customresourcedefinitions";
/// Where they lie in the store.
pub const PREFIX: &str = "/apiextensions.k8s.io/customresourcedefinitions";
/// Holds a CRD until its objects are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
