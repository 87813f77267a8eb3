//! This tier's own requests to its own registry.

pub use triptych_registry::loopback::{Loopback, Target};
