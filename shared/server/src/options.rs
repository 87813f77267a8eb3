//! The flags of serving, grouped as kube-apiserver's `--help` groups them.
//!
//! Contract: raw flags become settings in one place, which reports every problem and names its flag.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use http::HeaderValue;
use triptych_client::tls::IdentityFiles;
use triptych_options::{GoDuration, Problems};

/// Flags about serving.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Serves TLS.
    #[command(flatten)]
    pub secure: SecureServing,
    /// Limits and times.
    #[command(flatten)]
    pub generic: Generic,
}

/// Secure serving flags.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Secure serving flags")]
pub struct SecureServing {
    /// The IP address on which to listen.
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    pub bind_address: IpAddr,
    /// The port on which to serve HTTPS; 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    pub secure_port: u16,
    /// File into which the address is written once it is listened on.
    #[arg(long, value_name = "FILE")]
    pub address_file: Option<PathBuf>,
    /// File containing the x509 certificate for HTTPS (CA certificates, if any, after the server's).
    #[arg(long, value_name = "FILE")]
    pub tls_cert_file: Option<PathBuf>,
    /// File containing the x509 private key matching --tls-cert-file.
    #[arg(long, value_name = "FILE")]
    pub tls_private_key_file: Option<PathBuf>,
    /// Do not serve HTTP/2.
    #[arg(long)]
    pub disable_http2_serving: bool,
    /// Streams that a client may have open on an HTTP/2 connection; 0 is 250.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub http2_max_streams_per_connection: u32,
}

/// Generic flags.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Generic flags")]
pub struct Generic {
    /// Requests that change nothing and are worked on at once; 0 is no limit.
    #[arg(long, value_name = "N", default_value_t = 400)]
    pub max_requests_inflight: usize,
    /// Requests that change something and are worked on at once; 0 is no limit.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub max_mutating_requests_inflight: usize,
    /// How long a request other than a watch may take.
    #[arg(long, value_name = "DURATION", default_value = "1m0s")]
    pub request_timeout: GoDuration,
    /// A watch without a timeout of its own lasts a random time of at least so many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 1800)]
    pub min_request_timeout: u64,
    /// The chance (0 to 0.02) that an HTTP/2 client is asked to reconnect after a request, so that load spreads.
    #[arg(long, value_name = "CHANCE", default_value_t = 0.0)]
    pub goaway_chance: f64,
    /// How long to go on serving after a signal to end, while /readyz already fails.
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub shutdown_delay_duration: GoDuration,
    /// Watches end at random points of this time when shutting down.
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    pub shutdown_watch_termination_grace_period: GoDuration,
    /// Directives of the header Strict-Transport-Security, comma-separated; none, no header.
    #[arg(long, value_name = "DIRECTIVES", value_delimiter = ',')]
    pub strict_transport_security_directives: Vec<String>,
}

/// How a tier serves, validated.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Where to write the address.
    pub address_file: Option<PathBuf>,
    /// The serving certificate.
    pub identity: IdentityFiles,
    /// HTTP/2 is offered.
    pub http2: bool,
    /// Streams per HTTP/2 connection.
    pub max_streams: u32,
    /// Read-only requests at once; 0 is no limit.
    pub max_requests: usize,
    /// Mutating requests at once; 0 is no limit.
    pub max_mutating: usize,
    /// Longest time of a request.
    pub request_timeout: Duration,
    /// Shortest watch without timeout, in seconds.
    pub min_watch_seconds: u64,
    /// Chance of a GOAWAY.
    pub goaway_chance: f64,
    /// Serving goes on for so long after the signal.
    pub shutdown_delay: Duration,
    /// Watches end within it.
    pub watch_grace: Duration,
    /// `Strict-Transport-Security`.
    pub strict_transport_security: Option<HeaderValue>,
}

impl Options {
    /// Checks the flags; `None` if there are problems.
    pub fn validate(self, problems: &mut Problems) -> Option<Settings> {
        let Options { secure, generic } = self;
        let SecureServing {
            bind_address,
            secure_port,
            address_file,
            tls_cert_file,
            tls_private_key_file,
            disable_http2_serving,
            http2_max_streams_per_connection,
        } = secure;
        let Generic {
            max_requests_inflight,
            max_mutating_requests_inflight,
            request_timeout,
            min_request_timeout,
            goaway_chance,
            shutdown_delay_duration,
            shutdown_watch_termination_grace_period,
            strict_transport_security_directives,
        } = generic;
        let certificate = required(problems, "--tls-cert-file", tls_cert_file);
        let key = required(problems, "--tls-private-key-file", tls_private_key_file);
        if request_timeout.0.is_zero() {
            problems.add("--request-timeout", "must be positive");
        }
        if !(0.0..=0.02).contains(&goaway_chance) {
            problems.add("--goaway-chance", "must be between 0 and 0.02");
        }
        let directives = strict_transport_security_directives.join("; ");
        let strict_transport_security = match HeaderValue::from_str(&directives) {
            _ if directives.is_empty() => None,
            Ok(value) => Some(value),
            Err(e) => {
                problems.add("--strict-transport-security-directives", e);
                None
            }
        };
        Some(Settings {
            listen: SocketAddr::new(bind_address, secure_port),
            address_file,
            identity: IdentityFiles {
                certificate: certificate?,
                key: key?,
            },
            http2: !disable_http2_serving,
            max_streams: match http2_max_streams_per_connection {
                0 => 250,
                n => n,
            },
            max_requests: max_requests_inflight,
            max_mutating: max_mutating_requests_inflight,
            request_timeout: request_timeout.0,
            min_watch_seconds: min_request_timeout.max(1),
            goaway_chance,
            shutdown_delay: shutdown_delay_duration.0,
            watch_grace: shutdown_watch_termination_grace_period.0,
            strict_transport_security,
        })
    }
}

/// The value of a flag that must be given.
fn required<T>(problems: &mut Problems, flag: &str, value: Option<T>) -> Option<T> {
    if value.is_none() {
        problems.add(flag, "required");
    }
    value
}

/// Logs flags.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Logs flags")]
pub struct LogOptions {
    /// How much to log: 0 for what an operator wants to know, 4 for every request, 6 for details.
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0)]
    pub v: u8,
    /// The form of log lines.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    pub logging_format: LogFormat,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn every_problem_is_told_with_its_flag() {
        let cli = Cli::parse_from(["x", "--goaway-chance=0.5", "--request-timeout=0s", "--tls-cert-file=a"]);
        let mut problems = Problems::default();
        let settings = cli.options.validate(&mut problems);
        let told = problems.finish(settings).unwrap_err().to_string();
        assert_eq!(
            told,
            "invalid options:\n  --tls-private-key-file: required\n  --request-timeout: must be positive\n  --goaway-chance: must be between 0 and 0.02"
        );
        assert!(Cli::try_parse_from(["x", "--request-timeout=10"]).is_err());
    }
}
