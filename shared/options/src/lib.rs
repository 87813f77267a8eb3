//! Flag value types and the collector that reports all problems of a command line at once; each crate has its own options.
mod build_id;
mod duration;
mod problems;

pub use duration::{GoDuration, parse_go};
pub use problems::{InvalidOptions, Problems};

/// An error with everything that caused it, on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
