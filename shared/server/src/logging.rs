//! The log: text for people or JSON for machines, on standard error, with kube-apiserver's `-v`.
//!
//! Contract: WARN and ERROR are for what an operator must look at; a client's mistake or a peer's absence is INFO at most.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;

use crate::options::{LogFormat, LogOptions};

/// Sets the log up for this process; does nothing if it already is (several tiers in one test).
pub fn init(options: &LogOptions) {
    let own = match options.v {
        0..=3 => LevelFilter::INFO,
        4..=5 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let libraries = if options.v >= 8 {
        LevelFilter::DEBUG
    } else {
        LevelFilter::WARN
    };
    let mut filter = EnvFilter::default().add_directive(libraries.into());
    for ours in [
        "triptych_object",
        "triptych_storage",
        "triptych_client",
        "triptych_registry",
        "triptych_auth",
        "triptych_admission",
        "triptych_server",
        "triptych_aggregator",
        "triptych_core_api",
        "triptych_extensions_api",
        "aggregator",
        "core_api",
        "extensions_api",
    ] {
        if let Ok(directive) = format!("{ours}={own}").parse() {
            filter = filter.add_directive(directive);
        }
    }
    let lines = fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let _already = match options.logging_format {
        LogFormat::Text => lines.with_ansi(false).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
}
