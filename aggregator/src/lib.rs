//! The first tier, the front door: APIServices, who is behind them, and what the cluster is told of this server.

pub mod apiservice;
pub mod assemble;
pub mod changes;
pub mod front_door;
pub mod options;
pub mod schema;
