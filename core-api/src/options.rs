//! The flags of core-api: kube-apiserver's names and meanings wherever the concept exists.
//!
//! Contract: raw flags become settings in one place; all problems are reported together, each with its flag.

use std::time::Duration;

use clap::{Args, Parser};
use triptych_admission::selection::{AdmissionOptions, AdmissionSettings};
use triptych_auth::options::{
    AuthenticationOptions, AuthenticationSettings, AuthorizationOptions, AuthorizationSettings,
};
use triptych_client::address::Address;
use triptych_options::{GoDuration, InvalidOptions, Problems};
use triptych_schema::resource::Resource;
use triptych_server::neighbours::{ForwardingOptions, OwnIdentityOptions, TlsFiles};
use triptych_server::options::LogOptions;
use triptych_server::served::{ServedOptions, ServedSettings};
use triptych_storage::options::{StorageOptions, StorageSettings};

use crate::context::{ClusterIpRange, PortRange};

/// Serves every built-in kind of the Kubernetes API but CustomResourceDefinitions and APIServices.
#[derive(Clone, Debug, Parser)]
#[command(name = "core-api", version, max_term_width = 120)]
#[group(skip)]
pub struct Options {
    #[command(flatten)]
    serving: triptych_server::options::Options,
    #[command(flatten)]
    storage: StorageOptions,
    #[command(flatten)]
    authentication: AuthenticationOptions,
    #[command(flatten)]
    authorization: AuthorizationOptions,
    #[command(flatten)]
    admission: AdmissionOptions,
    #[command(flatten)]
    identity: OwnIdentityOptions,
    #[command(flatten)]
    forwarding: ForwardingOptions,
    #[command(flatten)]
    served: ServedOptions,
    #[command(flatten)]
    own: OwnOptions,
    /// How to log.
    #[command(flatten)]
    pub log: LogOptions,
}

/// Flags of this tier alone.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Misc flags")]
pub struct OwnOptions {
    /// CIDR from which to assign service cluster IPs.
    #[arg(long, value_name = "CIDR", default_value = "10.0.0.0/24")]
    service_cluster_ip_range: ClusterIpRange,
    /// Port range reserved for services with NodePort visibility, both ends included.
    #[arg(long, value_name = "LOW-HIGH", default_value = "30000-32767")]
    service_node_port_range: PortRange,
    /// How long events are kept.
    #[arg(long, value_name = "DURATION", default_value = "1h0m0s")]
    event_ttl: GoDuration,
    /// Addresses of extensions-api, to which what no built-in group claims is forwarded; without it core-api is the last
    /// tier
    #[arg(long, value_delimiter = ',', value_name = "URL", help_heading = "Tier flags")]
    extensions_api_servers: Vec<Address>,
}

/// The tier behind this one and how to reach it.
pub struct NextTier {
    /// Its addresses.
    pub addresses: Vec<Address>,
    /// As a front proxy, for what is forwarded.
    pub forwarding: TlsFiles,
    /// As this tier, for its own requests.
    pub own: TlsFiles,
}

/// What core-api runs with.
pub struct Settings {
    /// How it serves.
    pub serving: triptych_server::options::Settings,
    /// Where objects are stored.
    pub storage: StorageSettings,
    /// Who may ask.
    pub authentication: AuthenticationSettings,
    /// What they may.
    pub authorization: AuthorizationSettings,
    /// Which admission plugins run.
    pub admission: AdmissionSettings,
    /// The next tier; none at the end of the chain.
    pub next: Option<NextTier>,
    /// Which resources are served.
    pub served: ServedSettings,
    /// Cluster IPs of services.
    pub cluster_ips: ClusterIpRange,
    /// Node ports of services.
    pub node_ports: PortRange,
    /// Life of events.
    pub event_ttl: Duration,
}

impl Options {
    /// Checks everything; `resources` are those the tier could serve.
    pub fn validate(self, resources: &[Resource]) -> Result<Settings, InvalidOptions> {
        let Options {
            serving,
            storage,
            authentication,
            authorization,
            admission,
            identity,
            forwarding,
            served,
            own,
            log: _,
        } = self;
        let OwnOptions {
            service_cluster_ip_range,
            service_node_port_range,
            event_ttl,
            extensions_api_servers,
        } = own;
        let mut problems = Problems::default();
        let serving = serving.validate(&mut problems);
        let storage = storage.settings("core-api", &mut problems);
        let authentication = authentication.settings(&mut problems);
        let authorization = authorization.settings(&mut problems);
        let admission = admission.settings(&mut problems);
        let next = if extensions_api_servers.is_empty() {
            Some(None)
        } else {
            let forwarding = forwarding.settings(&identity, &mut problems);
            let own = identity.settings(&mut problems);
            forwarding.zip(own).map(|(forwarding, own)| {
                Some(NextTier {
                    addresses: extensions_api_servers,
                    forwarding,
                    own,
                })
            })
        };
        let served = served.settings(resources, &mut problems);
        let settings = (|| {
            Some(Settings {
                serving: serving?,
                storage: storage?,
                authentication: authentication?,
                authorization: authorization?,
                admission,
                next: next?,
                served: served?,
                cluster_ips: service_cluster_ip_range,
                node_ports: service_node_port_range,
                event_ttl: event_ttl.0,
            })
        })();
        problems.finish(settings)
    }
}
