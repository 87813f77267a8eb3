//! Flags of stores, under kube-apiserver's names, and the settings they make.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use triptych_options::{GoDuration, Problems};

use crate::etcd::EtcdOptions;

/// Flags that say where objects are kept.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Storage flags")]
pub struct StorageOptions {
    /// Folder of the embedded store [default: /var/lib/triptych/<tier>, unless --etcd-servers is given]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Encoding that built-in kinds are written in; both are always read
    #[arg(long, value_enum, default_value_t = MediaType::Json, value_name = "TYPE")]
    pub storage_media_type: MediaType,
    /// Answers reads from memory; cannot be switched off
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub watch_cache: bool,
    /// Where --etcd-servers point to: only etcd3 is known
    #[arg(long, value_name = "NAME", help_heading = "Etcd flags")]
    pub storage_backend: Option<String>,
    /// URLs of etcd servers, comma separated; without them the embedded store is used
    #[arg(long, value_delimiter = ',', value_name = "URL", help_heading = "Etcd flags")]
    pub etcd_servers: Vec<String>,
    /// Other etcd servers for single resources: group/resource#url;url, comma separated
    #[arg(long, value_delimiter = ',', value_name = "OVERRIDE", help_heading = "Etcd flags")]
    pub etcd_servers_overrides: Vec<String>,
    /// Prefix of all keys in etcd
    #[arg(
        long,
        default_value = "/registry",
        value_name = "PREFIX",
        help_heading = "Etcd flags"
    )]
    pub etcd_prefix: String,
    /// PEM file of the CA that signed etcd's certificates
    #[arg(long, value_name = "FILE", help_heading = "Etcd flags")]
    pub etcd_cafile: Option<PathBuf>,
    /// PEM file of the client certificate for etcd
    #[arg(long, value_name = "FILE", help_heading = "Etcd flags")]
    pub etcd_certfile: Option<PathBuf>,
    /// PEM file of the client certificate's key
    #[arg(long, value_name = "FILE", help_heading = "Etcd flags")]
    pub etcd_keyfile: Option<PathBuf>,
    /// How often the store's history is compacted; 0 never
    #[arg(long, default_value = "5m", value_name = "DURATION", help_heading = "Etcd flags")]
    pub etcd_compaction_interval: GoDuration,
    /// How often the size of the store is measured; 0 never
    #[arg(long, default_value = "30s", value_name = "DURATION", help_heading = "Etcd flags")]
    pub etcd_db_metric_poll_interval: GoDuration,
    /// How long the liveness check waits for the store
    #[arg(long, default_value = "2s", value_name = "DURATION", help_heading = "Etcd flags")]
    pub etcd_healthcheck_timeout: GoDuration,
    /// How long the readiness check waits for the store
    #[arg(long, default_value = "2s", value_name = "DURATION", help_heading = "Etcd flags")]
    pub etcd_readycheck_timeout: GoDuration,
    /// How long a lease may be shared by keys that expire
    #[arg(long, default_value_t = 60, value_name = "SECONDS", help_heading = "Etcd flags")]
    pub lease_reuse_duration_seconds: u64,
}

/// An encoding of stored objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MediaType {
    /// JSON text.
    #[value(name = "application/json")]
    Json,
    /// Kubernetes' protobuf; kinds without a protobuf form are written as JSON.
    #[value(name = "application/vnd.kubernetes.protobuf")]
    Protobuf,
}

/// What the flags say, checked.
#[derive(Debug, Clone)]
pub struct StorageSettings {
    /// Where objects are kept.
    pub backend: Backend,
    /// Where objects of single resources are kept instead.
    pub overrides: Vec<Override>,
    /// The encoding of built-in kinds.
    pub media_type: MediaType,
    /// How often the store's size is measured.
    pub size_poll: Option<Duration>,
    /// How long the liveness check waits for the store.
    pub health_timeout: Duration,
    /// How long the readiness check waits for the store.
    pub ready_timeout: Duration,
}

/// A kind of store.
#[derive(Debug, Clone)]
pub enum Backend {
    /// A file of this machine.
    Embedded {
        /// Its folder.
        folder: PathBuf,
        /// How long history is kept at least.
        compaction_interval: Option<Duration>,
    },
    /// An etcd.
    Etcd {
        /// How to reach it.
        etcd: EtcdOptions,
        /// What all keys begin with, without a slash at the end.
        prefix: String,
    },
}

/// Another etcd for one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// API group; empty for the core group.
    pub group: String,
    /// Plural name.
    pub resource: String,
    /// URLs of the servers.
    pub servers: Vec<String>,
}

impl StorageOptions {
    /// Checks the flags for the tier of this name. Nothing when there was a problem, which is noted.
    pub fn settings(self, tier: &str, problems: &mut Problems) -> Option<StorageSettings> {
        let Self {
            data_dir,
            storage_media_type,
            watch_cache,
            storage_backend,
            etcd_servers,
            etcd_servers_overrides,
            etcd_prefix,
            etcd_cafile,
            etcd_certfile,
            etcd_keyfile,
            etcd_compaction_interval,
            etcd_db_metric_poll_interval,
            etcd_healthcheck_timeout,
            etcd_readycheck_timeout,
            lease_reuse_duration_seconds,
        } = self;
        if !watch_cache {
            problems.add(
                "--watch-cache",
                "reads are always answered from the watch cache, false is not possible",
            );
        }
        if storage_backend
            .as_ref()
            .is_some_and(|name| !name.is_empty() && name != "etcd3")
        {
            problems.add(
                "--storage-backend",
                "only \"etcd3\" is known; leave it out for the embedded store",
            );
        }
        if data_dir.is_some() && !etcd_servers.is_empty() {
            problems.add(
                "--data-dir",
                "is of the embedded store, --etcd-servers of etcd: only one can be used",
            );
        }
        if storage_backend.is_some_and(|name| name == "etcd3") && etcd_servers.is_empty() {
            problems.add("--etcd-servers", "must be specified with --storage-backend=etcd3");
        }
        let overrides: Vec<_> = etcd_servers_overrides
            .iter()
            .filter_map(|text| problems.check("--etcd-servers-overrides", parse_override(text)))
            .collect();
        if !overrides.is_empty() && etcd_servers.is_empty() {
            problems.add("--etcd-servers-overrides", "needs --etcd-servers");
        }
        let all_servers = || etcd_servers.iter().chain(overrides.iter().flat_map(|it| &it.servers));
        for server in all_servers().filter(|server| !server.starts_with("http://") && !server.starts_with("https://")) {
            problems.add(
                "--etcd-servers",
                format!("{server:?} is not a URL that begins with http:// or https://"),
            );
        }
        if etcd_cafile.is_none() && all_servers().any(|server| server.starts_with("https://")) {
            problems.add("--etcd-cafile", "is needed to trust an etcd at https://");
        }
        let mut pem = |flag: &str, path: Option<PathBuf>| {
            let path = path?;
            let contents = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()));
            problems.check(flag, contents)
        };
        let ca = pem("--etcd-cafile", etcd_cafile);
        let identity = match (etcd_certfile, etcd_keyfile) {
            (Some(certificate), Some(key)) => {
                pem("--etcd-certfile", Some(certificate)).zip(pem("--etcd-keyfile", Some(key)))
            }
            (Some(_), None) => {
                problems.add("--etcd-keyfile", "is missing beside --etcd-certfile");
                None
            }
            (None, Some(_)) => {
                problems.add("--etcd-certfile", "is missing beside --etcd-keyfile");
                None
            }
            (None, None) => None,
        };
        let compaction_interval = etcd_compaction_interval.unless_zero();
        let backend = if etcd_servers.is_empty() {
            let folder = data_dir.unwrap_or_else(|| PathBuf::from("/var/lib/triptych").join(tier));
            Backend::Embedded {
                folder,
                compaction_interval,
            }
        } else {
            let lease_reuse = Duration::from_secs(lease_reuse_duration_seconds);
            let etcd = EtcdOptions {
                servers: etcd_servers,
                ca,
                identity,
                compaction_interval,
                lease_reuse,
            };
            Backend::Etcd {
                etcd,
                prefix: format!("/{}", etcd_prefix.trim_matches('/')),
            }
        };
        problems.is_empty().then_some(StorageSettings {
            backend,
            overrides,
            media_type: storage_media_type,
            size_poll: etcd_db_metric_poll_interval.unless_zero(),
            health_timeout: etcd_healthcheck_timeout.0,
            ready_timeout: etcd_readycheck_timeout.0,
        })
    }
}

fn parse_override(text: &str) -> Result<Override, String> {
    let invalid = || format!("{text:?} is not of the form group/resource#url;url");
    let (resource, servers) = text.split_once('#').ok_or_else(invalid)?;
    let (group, resource) = resource.split_once('/').ok_or_else(invalid)?;
    let servers: Vec<_> = servers
        .split(';')
        .filter(|server| !server.is_empty())
        .map(str::to_owned)
        .collect();
    if resource.is_empty() || servers.is_empty() {
        return Err(invalid());
    }
    Ok(Override {
        group: group.into(),
        resource: resource.into(),
        servers,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        storage: StorageOptions,
    }

    fn settings(flags: &[&str]) -> Result<StorageSettings, String> {
        let command = Command::try_parse_from(std::iter::once(&"test").chain(flags)).map_err(|it| it.to_string())?;
        let mut problems = Problems::default();
        let settings = command.storage.settings("core-api", &mut problems);
        problems.finish(settings).map_err(|it| it.to_string())
    }

    #[test]
    fn without_flags_a_tier_has_an_embedded_store_of_its_own() {
        let settings = settings(&[]).unwrap();
        assert_eq!(settings.media_type, MediaType::Json);
        let Backend::Embedded {
            folder,
            compaction_interval,
        } = settings.backend
        else {
            panic!("not embedded")
        };
        assert_eq!(folder, PathBuf::from("/var/lib/triptych/core-api"));
        assert_eq!(compaction_interval, Some(Duration::from_secs(300)));
    }

    #[test]
    fn etcd_flags_make_an_etcd_store() {
        let flags = [
            "--etcd-servers=http://a:2379,http://b:2379",
            "--etcd-prefix=registry/",
            "--etcd-servers-overrides=/events#http://c:1;http://d:1,apps/deployments#http://e:1",
            "--etcd-compaction-interval=0",
            "--watch-cache",
            "--storage-media-type=application/vnd.kubernetes.protobuf",
        ];
        let settings = settings(&flags).unwrap();
        let Backend::Etcd { etcd, prefix } = settings.backend else {
            panic!("not etcd")
        };
        assert_eq!(
            (etcd.servers.len(), prefix.as_str(), etcd.compaction_interval),
            (2, "/registry", None)
        );
        let events = &settings.overrides[0];
        assert_eq!(
            (events.group.as_str(), events.resource.as_str(), events.servers.len()),
            ("", "events", 2)
        );
        assert_eq!(settings.overrides[1].group, "apps");
    }

    #[test]
    fn all_problems_are_named_at_once() {
        let flags = [
            "--data-dir=/tmp/x",
            "--etcd-servers=https://a,b:2379",
            "--etcd-servers-overrides=events#http://c",
            "--etcd-certfile=/nowhere/cert",
            "--watch-cache=false",
            "--storage-backend=etcd2",
        ];
        let error = settings(&flags).unwrap_err();
        for flag in [
            "data-dir",
            "etcd-servers",
            "etcd-servers-overrides",
            "etcd-keyfile",
            "watch-cache",
            "etcd-cafile",
        ] {
            assert!(error.contains(&format!("\n  --{flag}: ")), "{flag} in {error}");
        }
    }
}
