//! Flag value types and the collector that reports all problems of a command line at once; each crate has its own options.
mod build_id;
mod duration;
mod problems;

pub use duration::{GoDuration, parse_go};
pub use problems::{InvalidOptions, Problems};
