//! Which compute resources (`cpu`, `example.com/gpu`) are Kubernetes' own and which a vendor's.

use crate::names;

/// What quota calls the sum of what is requested of a resource begins so.
pub const REQUESTS: &str = "requests.";

/// Unprefixed, or below `kubernetes.io/`.
pub fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// A vendor's resource that quota can name too.
pub fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with(REQUESTS) && names::qualified_name(&format!("{REQUESTS}{name}")).is_empty()
}
