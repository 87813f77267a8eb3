//! The three tiers as processes: their names, and the command line each is started with.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use crate::layout::Layout;

/// A tier, in the order in which a request meets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// The front door: APIServices.
    Aggregator,
    /// Every built-in group.
    CoreApi,
    /// CustomResourceDefinitions and custom resources.
    ExtensionsApi,
}

/// One of a tier's processes. Replica 0 is called like its tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instance {
    /// Its tier.
    pub tier: Tier,
    /// Which of the tier's replicas it is.
    pub replica: usize,
}

/// Where the tiers keep their objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// A durable file store per tier, below the data directory.
    Embedded,
    /// One etcd cluster for all tiers.
    Etcd {
        /// Its client URLs.
        servers: Vec<String>,
        /// What all keys begin with, when not `/registry`.
        prefix: Option<String>,
    },
}

/// Everything that the command lines of one control plane depend on.
#[derive(Clone, Debug)]
pub struct Wiring {
    /// Where files are.
    pub layout: Layout,
    /// Where objects are.
    pub store: Store,
    /// The address of every process.
    pub addresses: BTreeMap<Instance, SocketAddr>,
    /// What the user adds, by tier.
    pub arguments: BTreeMap<Tier, Vec<String>>,
}

/// Flags that `triptych` itself depends on; the user cannot give them to a tier.
const OWNED: [&str; 5] = [
    "--bind-address",
    "--secure-port",
    "--address-file",
    "--data-dir",
    "--etcd-servers",
];

impl Tier {
    /// All tiers, outermost first.
    pub const ALL: [Self; 3] = [Self::Aggregator, Self::CoreApi, Self::ExtensionsApi];

    /// The name of its binary, its certificates and its files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aggregator => "aggregator",
            Self::CoreApi => "core-api",
            Self::ExtensionsApi => "extensions-api",
        }
    }

    /// The first replica of this tier.
    pub fn first(self) -> Instance {
        Instance { tier: self, replica: 0 }
    }

    /// Who may speak for others to this tier, and which authority vouches for them. The aggregator meets front proxies of
    /// the user's own; extensions-api is also reached by the aggregator, which skips core-api for groups of CRDs.
    fn front_proxies(self) -> (&'static str, &'static str) {
        match self {
            Self::Aggregator => ("requestheader-ca.crt", "front-proxy-client"),
            Self::CoreApi => ("front-proxy-ca.crt", "aggregator"),
            Self::ExtensionsApi => ("front-proxy-ca.crt", "aggregator,core-api"),
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.replica {
            0 => f.write_str(self.tier.name()),
            n => write!(f, "{}-{n}", self.tier),
        }
    }
}

/// Says why the user may not give `argument` to a tier, if so.
pub(crate) fn refusal(argument: &str) -> Option<String> {
    let name = flag_name(argument);
    if !name.starts_with("--") && !name.starts_with("-v") {
        return Some(format!("{argument:?} is not a flag"));
    }
    OWNED
        .contains(&name)
        .then(|| format!("{name} is set by triptych itself"))
}

fn flag_name(argument: &str) -> &str {
    argument.split_once('=').map_or(argument, |(name, _)| name)
}

impl Wiring {
    /// The arguments of one process. A flag that the user gives replaces ours of that name.
    pub fn command_line(&self, instance: Instance) -> Vec<String> {
        let tier = instance.tier;
        let theirs = self.arguments.get(&tier).map(Vec::as_slice).unwrap_or_default();
        let mut arguments = self.flags(instance);
        arguments.retain(|ours| !theirs.iter().any(|argument| flag_name(argument) == flag_name(ours)));
        arguments.extend(theirs.iter().cloned());
        arguments
    }

    fn flags(&self, instance: Instance) -> Vec<String> {
        let tier = instance.tier;
        let mut flags = Flags(Vec::new());
        self.serving(instance, &mut flags);
        self.identity(tier, &mut flags);
        match &self.store {
            Store::Embedded => flags.path("data-dir", self.layout.data(instance)),
            Store::Etcd { servers, prefix } => {
                flags.set("etcd-servers", servers.join(","));
                if let Some(prefix) = prefix {
                    flags.set("etcd-prefix", prefix);
                }
            }
        }
        match tier {
            Tier::Aggregator => {
                flags.set("core-api-servers", self.servers(Tier::CoreApi));
                flags.set("extensions-api-servers", self.servers(Tier::ExtensionsApi));
                flags.path("proxy-client-cert-file", self.layout.pki("front-proxy-client.crt"));
                flags.path("proxy-client-key-file", self.layout.pki("front-proxy-client.key"));
                if let Some(ip) = self.address(instance).map(|a| a.ip()).filter(advertised) {
                    flags.set("advertise-address", ip.to_string());
                }
            }
            Tier::CoreApi => {
                flags.set("extensions-api-servers", self.servers(Tier::ExtensionsApi));
                flags.set("service-cluster-ip-range", "10.0.0.0/24");
            }
            Tier::ExtensionsApi => flags.set("core-api-servers", self.servers(Tier::CoreApi)),
        }
        if tier != Tier::ExtensionsApi {
            flags.path(
                "forwarding-client-cert-file",
                self.layout.pki(format!("{tier}-forwarding.crt")),
            );
            flags.path(
                "forwarding-client-key-file",
                self.layout.pki(format!("{tier}-forwarding.key")),
            );
        }
        flags.0
    }

    fn serving(&self, instance: Instance, flags: &mut Flags) {
        let tier = instance.tier;
        if let Some(address) = self.address(instance) {
            flags.set("bind-address", address.ip().to_string());
            flags.set("secure-port", address.port().to_string());
        }
        flags.path("address-file", self.layout.address(instance));
        flags.path("tls-cert-file", self.layout.pki(format!("{tier}.crt")));
        flags.path("tls-private-key-file", self.layout.pki(format!("{tier}.key")));
    }

    fn identity(&self, tier: Tier, flags: &mut Flags) {
        let (authority, names) = tier.front_proxies();
        flags.path("client-ca-file", self.layout.pki("ca.crt"));
        flags.path("requestheader-client-ca-file", self.layout.pki(authority));
        flags.set("requestheader-allowed-names", names);
        flags.set("requestheader-username-headers", "X-Remote-User");
        if tier != Tier::Aggregator {
            flags.set("requestheader-uid-headers", "X-Remote-Uid");
        }
        flags.set("requestheader-group-headers", "X-Remote-Group");
        flags.set("requestheader-extra-headers-prefix", "X-Remote-Extra-");
        flags.path("service-account-key-file", self.layout.pki("sa.pub"));
        flags.path("service-account-signing-key-file", self.layout.pki("sa.key"));
        flags.set("service-account-issuer", "https://kubernetes.default.svc");
        flags.set("authorization-mode", "Node,RBAC");
        flags.path("tier-client-cert-file", self.layout.pki(format!("{tier}-client.crt")));
        flags.path("tier-client-key-file", self.layout.pki(format!("{tier}-client.key")));
        flags.path("tier-ca-file", self.layout.pki("ca.crt"));
    }

    /// The address of one process.
    pub fn address(&self, instance: Instance) -> Option<SocketAddr> {
        self.addresses.get(&instance).copied()
    }

    /// The processes, outermost tier first.
    pub fn instances(&self) -> impl DoubleEndedIterator<Item = Instance> + '_ {
        self.addresses.keys().copied()
    }

    fn servers(&self, tier: Tier) -> String {
        let addresses = self.addresses.iter().filter(|(instance, _)| instance.tier == tier);
        addresses
            .map(|(_, address)| format!("https://{address}"))
            .collect::<Vec<_>>()
            .join(",")
    }
}

/// Whether an address may become an endpoint of the Service `kubernetes`.
fn advertised(ip: &IpAddr) -> bool {
    !ip.is_unspecified() && !ip.is_loopback()
}

struct Flags(Vec<String>);

impl Flags {
    fn set(&mut self, name: &str, value: impl AsRef<str>) {
        self.0.push(format!("--{name}={}", value.as_ref()));
    }

    fn path(&mut self, name: &str, path: PathBuf) {
        self.set(name, path.to_string_lossy());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wiring() -> Wiring {
        let addresses = [
            ("127.0.0.1:6443", Tier::Aggregator),
            ("127.0.0.1:1", Tier::CoreApi),
            ("127.0.0.1:2", Tier::ExtensionsApi),
        ];
        Wiring {
            layout: Layout::new("/d".as_ref()).unwrap(),
            store: Store::Embedded,
            addresses: addresses
                .map(|(address, tier)| (tier.first(), address.parse().unwrap()))
                .into(),
            arguments: BTreeMap::new(),
        }
    }

    #[test]
    fn a_tier_accepts_only_the_front_proxy_before_it() {
        let line = wiring().command_line(Tier::CoreApi.first());
        assert!(line.contains(&"--requestheader-client-ca-file=/d/pki/front-proxy-ca.crt".to_owned()));
        assert!(line.contains(&"--requestheader-allowed-names=aggregator".to_owned()));
    }

    #[test]
    fn a_users_flag_replaces_ours() {
        let mut wiring = wiring();
        wiring
            .arguments
            .insert(Tier::CoreApi, vec!["--service-cluster-ip-range=10.9.0.0/16".to_owned()]);
        let line = wiring.command_line(Tier::CoreApi.first());
        let ranges: Vec<_> = line
            .iter()
            .filter(|a| a.starts_with("--service-cluster-ip-range"))
            .collect();
        assert_eq!(ranges, ["--service-cluster-ip-range=10.9.0.0/16"]);
    }

    #[test]
    fn flags_that_triptych_depends_on_are_refused() {
        assert_eq!(
            refusal("--secure-port=1").as_deref(),
            Some("--secure-port is set by triptych itself")
        );
        assert_eq!(refusal("secure").as_deref(), Some("\"secure\" is not a flag"));
        assert_eq!(refusal("-v=4"), None);
        assert_eq!(refusal("--token-auth-file=x"), None);
    }

    #[test]
    fn every_replica_of_the_next_tier_is_named() {
        let mut wiring = wiring();
        wiring.addresses.insert(
            Instance {
                tier: Tier::CoreApi,
                replica: 1,
            },
            "127.0.0.1:3".parse().unwrap(),
        );
        let line = wiring.command_line(Tier::Aggregator.first());
        assert!(line.contains(&"--core-api-servers=https://127.0.0.1:1,https://127.0.0.1:3".to_owned()));
        assert!(!line.iter().any(|a| a.starts_with("--advertise-address")));
    }
}
