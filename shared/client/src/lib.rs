//! Everything outbound: TLS identities that follow their files, the balanced pool of connections to another server,
//! requests of a tier's own, and mirrors of resources that another tier holds.

pub mod address;
pub mod api;
pub mod body;
pub mod bundle;
pub mod connection;
pub mod fair;
pub mod hook;
pub mod metrics;
pub mod mirror;
pub mod pool;
pub mod tls;

pub use address::Address;
pub use api::{Api, Patch};
pub use mirror::{Mirror, MirrorConfig};
pub use pool::Pool;
