//! How a tier serves: TLS, the handler chain, forwarding, health, metrics, its life from start to drain.
//!
//! Tiers differ in what they register ([`claim`]), not in how they serve ([`chain`]).

mod answer;
pub mod body;
pub mod chain;
pub mod claim;
pub mod connection;
pub mod deadline;
pub mod discovery;
mod forward;
pub mod headers;
pub mod health;
pub mod inflight;
pub mod launch;
pub mod lifecycle;
pub mod logging;
pub mod metrics;
pub mod neighbours;
pub mod next_tier;
pub mod options;
pub mod paths;
pub mod process;
mod read;
pub mod respond;
pub mod serve;
pub mod served;
pub mod target;
pub mod tasks;
pub mod tier;
pub mod tls;

pub use claim::{Claim, Claims};
pub use lifecycle::Shutdown;
pub use tier::Tier;
