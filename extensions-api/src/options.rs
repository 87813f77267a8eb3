//! The flags of extensions-api: kube-apiserver's names and meanings wherever the concept exists.
//!
//! Contract: raw flags become settings in one place; all problems are reported together, each with its flag.

use clap::{Args, Parser};
use triptych_auth::options::{
    AuthenticationOptions, AuthenticationSettings, AuthorizationOptions, AuthorizationSettings,
};
use triptych_client::address::Address;
use triptych_options::{InvalidOptions, Problems};
use triptych_schema::resource::Resource;
use triptych_server::neighbours::{OwnIdentityOptions, TlsFiles};
use triptych_server::options::LogOptions;
use triptych_server::served::{ServedOptions, ServedSettings};
use triptych_storage::options::{StorageOptions, StorageSettings};

/// Serves CustomResourceDefinitions and the resources they define; the last tier of the chain.
#[derive(Clone, Debug, Parser)]
#[command(name = "extensions-api", version, max_term_width = 120)]
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
    /// Addresses of core-api, from which roles and namespaces are mirrored and where tokens are reviewed; without it nobody
    /// but system:masters is authorized by roles, and namespaces are not looked at
    #[arg(long, value_delimiter = ',', value_name = "URL", help_heading = "Tier flags")]
    core_api_servers: Vec<Address>,
}

/// What extensions-api runs with.
pub struct Settings {
    /// How it serves.
    pub serving: triptych_server::options::Settings,
    /// Where objects are stored.
    pub storage: StorageSettings,
    /// Who may ask.
    pub authentication: AuthenticationSettings,
    /// What they may.
    pub authorization: AuthorizationSettings,
    /// core-api, and how to reach it; none where it serves alone.
    pub core_api: Option<(Vec<Address>, TlsFiles)>,
    /// What is stored although nothing acts on it.
    pub served: ServedSettings,
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
            served,
            own,
            log: _,
        } = self;
        let OwnOptions { core_api_servers } = own;
        let mut problems = Problems::default();
        let serving = serving.validate(&mut problems);
        let storage = storage.settings("extensions-api", &mut problems);
        let authentication = authentication.settings(&mut problems);
        let authorization = authorization.settings(&mut problems);
        let core_api = if core_api_servers.is_empty() {
            Some(None)
        } else {
            identity
                .settings(&mut problems)
                .map(|files| Some((core_api_servers, files)))
        };
        let served = served.settings(resources, &mut problems);
        let settings = (|| {
            Some(Settings {
                serving: serving?,
                storage: storage?,
                authentication: authentication?,
                authorization: authorization?,
                core_api: core_api?,
                served: served?,
            })
        })();
        problems.finish(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_reported_at_once() {
        let options = Options::try_parse_from(["extensions-api", "--core-api-servers=https://localhost:1"]);
        let problems = match options.map(|o| o.validate(&[])) {
            Ok(Err(problems)) => problems.to_string(),
            Ok(Ok(_)) => "none".to_owned(),
            Err(e) => e.to_string(),
        };
        for flag in ["--tier-ca-file", "--tier-client-cert-file", "--tls-cert-file"] {
            assert!(problems.contains(flag), "{flag} in {problems}");
        }
    }
}
