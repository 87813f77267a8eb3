//! The command line of `triptych`: raw clap structs, then validated settings, all problems in one message.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand};

use crate::tier::{self, Store, Tier};

/// A Kubernetes API server of three processes on one machine.
#[derive(Debug, Parser)]
#[command(name = "triptych", version, arg_required_else_help = true)]
pub struct Cli {
    /// Print the build id and exit.
    #[arg(long)]
    pub build_id: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What `triptych` can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start aggregator, core-api and extensions-api here and serve until interrupted.
    ///
    /// Makes certificates and keys on the first run, waits until all three are ready and prints how to reach them.
    Up(UpOptions),
}

/// The flags of `triptych up`.
#[derive(Clone, Debug, Args)]
pub struct UpOptions {
    /// Directory of certificates, logs and, with the embedded store, all objects. Made when missing.
    #[arg(long, value_name = "DIR")]
    pub data_dir: PathBuf,
    /// IP address on which to serve the Kubernetes API.
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub bind_address: IpAddr,
    /// Port on which to serve the Kubernetes API; 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    pub secure_port: u16,
    /// Keep all objects in this etcd (client URLs, comma-separated) instead of the embedded store.
    #[arg(long, value_name = "URLS", value_delimiter = ',')]
    pub etcd_servers: Vec<String>,
    /// Start a tier again that dies, instead of ending all.
    #[arg(long)]
    pub restart: bool,
    /// A flag for the aggregator, as --aggregator-arg=--v=4. May be given again.
    #[arg(
        long,
        value_name = "FLAG",
        allow_hyphen_values = true,
        help_heading = "Flags for one tier"
    )]
    pub aggregator_arg: Vec<String>,
    /// A flag for core-api.
    #[arg(
        long,
        value_name = "FLAG",
        allow_hyphen_values = true,
        help_heading = "Flags for one tier"
    )]
    pub core_api_arg: Vec<String>,
    /// A flag for extensions-api.
    #[arg(
        long,
        value_name = "FLAG",
        allow_hyphen_values = true,
        help_heading = "Flags for one tier"
    )]
    pub extensions_api_arg: Vec<String>,
}

/// What `triptych up` is to do, validated.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The data directory; it may not exist yet.
    pub data_dir: PathBuf,
    /// The front door.
    pub front: SocketAddr,
    /// Where objects are kept.
    pub store: Store,
    /// Whether a tier that dies is started again.
    pub restart: bool,
    /// Flags for the tiers.
    pub arguments: BTreeMap<Tier, Vec<String>>,
}

impl TryFrom<UpOptions> for Settings {
    type Error = String;

    /// All problems at once, one a line, each naming its flag.
    fn try_from(options: UpOptions) -> Result<Self, String> {
        let UpOptions {
            data_dir,
            bind_address,
            secure_port,
            etcd_servers,
            restart,
            aggregator_arg,
            core_api_arg,
            extensions_api_arg,
        } = options;
        let mut problems = Vec::new();
        if let Some(problem) = unusable(&data_dir) {
            problems.push(format!("--data-dir: {problem}"));
        }
        for url in etcd_servers.iter().filter(|url| !is_url(url)) {
            problems.push(format!("--etcd-servers: {url:?} is not an http:// or https:// URL"));
        }
        let arguments = BTreeMap::from([
            (Tier::Aggregator, aggregator_arg),
            (Tier::CoreApi, core_api_arg),
            (Tier::ExtensionsApi, extensions_api_arg),
        ]);
        for (tier, arguments) in &arguments {
            for problem in arguments.iter().filter_map(|argument| tier::refusal(argument)) {
                problems.push(format!("--{tier}-arg: {problem}"));
            }
        }
        if !problems.is_empty() {
            return Err(problems.join("\n"));
        }
        let store = if etcd_servers.is_empty() {
            Store::Embedded
        } else {
            Store::Etcd {
                servers: etcd_servers,
                prefix: None,
            }
        };
        let front = SocketAddr::new(bind_address, secure_port);
        Ok(Self {
            data_dir,
            front,
            store,
            restart,
            arguments,
        })
    }
}

fn is_url(text: &str) -> bool {
    text.parse::<http::Uri>()
        .is_ok_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some())
}

/// Why a path cannot be the data directory. Nothing is made to find out.
fn unusable(dir: &Path) -> Option<String> {
    let problem = |e: std::io::Error| Some(format!("{}: {e}", dir.display()));
    match std::fs::read_dir(dir) {
        Ok(_) => tempfile::Builder::new()
            .prefix(".probe-")
            .tempfile_in(dir)
            .err()
            .and_then(problem),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
        Err(e) => problem(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(arguments: &[&str]) -> Result<Settings, String> {
        let cli = Cli::try_parse_from(["triptych", "up"].iter().chain(arguments)).map_err(|e| e.to_string())?;
        match cli.command {
            Some(Command::Up(options)) => options.try_into(),
            None => Err("no command".to_owned()),
        }
    }

    #[test]
    fn all_problems_are_told_at_once() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let dir = format!("--data-dir={}", file.path().display());
        let error = settings(&[&dir, "--etcd-servers=localhost:2379", "--core-api-arg=--secure-port=1"]).unwrap_err();
        let lines: Vec<_> = error.lines().collect();
        assert_eq!(lines.len(), 3, "{error}");
        assert!(lines[0].starts_with("--data-dir: "), "{error}");
        assert!(lines[1].starts_with("--etcd-servers: \"localhost:2379\""), "{error}");
        assert!(lines[2].starts_with("--core-api-arg: --secure-port"), "{error}");
    }

    #[test]
    fn looking_at_a_missing_directory_does_not_make_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("up");
        let settings = settings(&[&format!("--data-dir={}", path.display()), "--secure-port=0"]).unwrap();
        assert_eq!(settings.store, Store::Embedded);
        assert!(!path.exists());
    }

    #[test]
    fn an_unknown_flag_is_an_error() {
        assert!(settings(&["--data-dir=x", "--nope"]).is_err());
    }
}
