//! The flags of the aggregator: kube-apiserver's names and meanings wherever the concept exists.
//!
//! Contract: raw flags become settings in one place; all problems are reported together, each with its flag.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Parser};
use triptych_auth::options::{
    AuthenticationOptions, AuthenticationSettings, AuthorizationOptions, AuthorizationSettings,
};
use triptych_client::address::Address;
use triptych_client::tls::IdentityFiles;
use triptych_options::{InvalidOptions, Problems};
use triptych_schema::resource::Resource;
use triptych_server::neighbours::{ForwardingOptions, OwnIdentityOptions, TlsFiles};
use triptych_server::options::LogOptions;
use triptych_server::served::{ServedOptions, ServedSettings};
use triptych_storage::options::{StorageOptions, StorageSettings};

use crate::front_door::authentication::RequestHeader;

/// The front door of the Kubernetes API: serves APIServices, proxies what other API servers serve on their behalf, and
/// forwards the rest to core-api.
#[derive(Clone, Debug, Parser)]
#[command(name = "aggregator", version, max_term_width = 120)]
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
    /// The IP address on which the members of the cluster reach this server; it becomes an endpoint of the Service
    /// kubernetes, unless it is a loopback address [default: --bind-address, if it names one address]
    #[arg(long, value_name = "IP")]
    advertise_address: Option<IpAddr>,
    /// Client certificate shown to the servers behind APIServices when requests are proxied to them.
    #[arg(long, value_name = "FILE")]
    proxy_client_cert_file: Option<PathBuf>,
    /// Private key of --proxy-client-cert-file.
    #[arg(long, value_name = "FILE")]
    proxy_client_key_file: Option<PathBuf>,
    /// Routes requests to the endpoints of an APIService's Service rather than to its cluster IP.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    enable_aggregator_routing: bool,
    /// Addresses of core-api, to which what is not claimed here is forwarded
    #[arg(long, value_delimiter = ',', value_name = "URL", help_heading = "Tier flags")]
    core_api_servers: Vec<Address>,
    /// Addresses of extensions-api; with them, groups that CRDs define skip core-api
    #[arg(long, value_delimiter = ',', value_name = "URL", help_heading = "Tier flags")]
    extensions_api_servers: Vec<Address>,
}

/// What the aggregator runs with.
pub struct Settings {
    /// How it serves.
    pub serving: triptych_server::options::Settings,
    /// Where objects are stored.
    pub storage: StorageSettings,
    /// Who may ask.
    pub authentication: AuthenticationSettings,
    /// What they may.
    pub authorization: AuthorizationSettings,
    /// Which resources are served.
    pub served: ServedSettings,
    /// Where core-api is.
    pub core_api: Vec<Address>,
    /// Where extensions-api is; empty if it is reached through core-api only.
    pub extensions_api: Vec<Address>,
    /// For this tier's own requests.
    pub own_tls: TlsFiles,
    /// For what is forwarded.
    pub forwarding_tls: TlsFiles,
    /// How the servers behind APIServices recognise this one; none without front proxies.
    pub request_header: Option<RequestHeader>,
    /// Shown to the servers behind APIServices; without it they are asked without a certificate.
    pub proxy_identity: Option<IdentityFiles>,
    /// Requests go to endpoints, not to cluster IPs.
    pub route_to_endpoints: bool,
    /// What clients and the cluster are told to reach this server at.
    pub advertise: Option<IpAddr>,
}

impl Options {
    /// Checks everything; `resources` are those the tier could serve.
    pub fn validate(self, resources: &[Resource]) -> Result<Settings, InvalidOptions> {
        let Options {
            serving,
            storage,
            authentication,
            authorization,
            identity,
            forwarding,
            served,
            own,
            log: _,
        } = self;
        let OwnOptions {
            advertise_address,
            proxy_client_cert_file,
            proxy_client_key_file,
            enable_aggregator_routing,
            core_api_servers,
            extensions_api_servers,
        } = own;
        let mut problems = Problems::default();
        let serving = serving.validate(&mut problems);
        let storage = storage.settings("aggregator", &mut problems);
        let request_header = request_header(&authentication);
        let authentication = authentication.settings(&mut problems);
        let authorization = authorization.settings(&mut problems);
        let served = served.settings(resources, &mut problems);
        if core_api_servers.is_empty() {
            problems.add("--core-api-servers", "required");
        }
        let own_tls = identity.settings(&mut problems);
        let forwarding_tls = forwarding.settings(&identity, &mut problems);
        let proxy_identity = match (proxy_client_cert_file, proxy_client_key_file) {
            (Some(certificate), Some(key)) => Some(IdentityFiles { certificate, key }),
            (None, None) => None,
            (Some(_), None) => {
                problems.add("--proxy-client-key-file", "is needed with --proxy-client-cert-file");
                None
            }
            (None, Some(_)) => {
                problems.add("--proxy-client-cert-file", "is needed with --proxy-client-key-file");
                None
            }
        };
        let settings = (|| {
            let serving = serving?;
            let bound = Some(serving.listen.ip()).filter(|ip| !ip.is_unspecified());
            Some(Settings {
                serving,
                storage: storage?,
                authentication: authentication?,
                authorization: authorization?,
                served: served?,
                core_api: core_api_servers,
                extensions_api: extensions_api_servers,
                own_tls: own_tls?,
                forwarding_tls: forwarding_tls?,
                request_header,
                proxy_identity,
                route_to_endpoints: enable_aggregator_routing,
                advertise: advertise_address.filter(|ip| !ip.is_unspecified()).or(bound),
            })
        })();
        problems.finish(settings)
    }
}

/// What is published of the front-proxy flags, under the names of the ConfigMap's keys.
fn request_header(flags: &AuthenticationOptions) -> Option<RequestHeader> {
    let ca_file = flags.requestheader_client_ca_file.clone()?;
    let mut lists = vec![
        ("requestheader-allowed-names", flags.requestheader_allowed_names.clone()),
        (
            "requestheader-extra-headers-prefix",
            flags.requestheader_extra_headers_prefix.clone(),
        ),
        ("requestheader-group-headers", flags.requestheader_group_headers.clone()),
        (
            "requestheader-username-headers",
            flags.requestheader_username_headers.clone(),
        ),
    ];
    // kube-apiserver's flag has no default: it publishes only what was asked for
    if flags.requestheader_uid_headers != ["X-Remote-Uid"] {
        lists.push(("requestheader-uid-headers", flags.requestheader_uid_headers.clone()));
    }
    Some(RequestHeader { ca_file, lists })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_told_with_its_flag() {
        let options = Options::try_parse_from(["aggregator", "--proxy-client-cert-file=x"]).unwrap();
        let told = options.validate(&[]).err().unwrap().to_string();
        for flag in [
            "--tls-cert-file",
            "--core-api-servers: required",
            "--tier-ca-file",
            "--forwarding-client-cert-file",
            "--proxy-client-key-file: is needed",
        ] {
            assert!(told.contains(flag), "{flag} in {told}");
        }
        assert!(Options::try_parse_from(["aggregator", "--core-api-servers=http://x"]).is_err());
    }
}
