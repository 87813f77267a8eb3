//! Flags of connections between tiers.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use triptych_options::Problems;

use crate::tls::{Connector, Identity, IdentityFiles};

/// Protocols offered to other tiers.
const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Flags about this tier's own requests to others.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Tier flags")]
pub struct TierOptions {
    /// Client certificate of this tier's own requests to other tiers (user system:tier:<name>).
    #[arg(long, value_name = "FILE")]
    pub tier_client_cert_file: Option<PathBuf>,
    /// Private key matching --tier-client-cert-file.
    #[arg(long, value_name = "FILE")]
    pub tier_client_key_file: Option<PathBuf>,
    /// CA certificates that the other tiers' serving certificates are verified with.
    #[arg(long, value_name = "FILE")]
    pub tier_ca_file: Option<PathBuf>,
}

/// Flags about passing requests on.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Tier flags")]
pub struct ForwardingOptions {
    /// Client certificate shown to the next tier, which believes the user named in this tier's headers.
    #[arg(long, value_name = "FILE")]
    pub forwarding_client_cert_file: Option<PathBuf>,
    /// Private key matching --forwarding-client-cert-file.
    #[arg(long, value_name = "FILE")]
    pub forwarding_client_key_file: Option<PathBuf>,
}

/// The two ways in which a tier speaks to others.
#[derive(Clone)]
pub struct TierConnections {
    /// As itself.
    pub own: Arc<Connector>,
    /// As a front proxy; none at the end of the chain.
    pub forwarding: Option<Arc<Connector>>,
    identities: Vec<Arc<Identity>>,
}

impl TierConnections {
    /// Reads the files; `None` if there are problems.
    pub fn load(
        own: TierOptions,
        forwarding: Option<ForwardingOptions>,
        problems: &mut Problems,
    ) -> Option<TierConnections> {
        let TierOptions {
            tier_client_cert_file,
            tier_client_key_file,
            tier_ca_file,
        } = own;
        let ca = required("--tier-ca-file", tier_ca_file, problems);
        let own = identity(
            ("--tier-client-cert-file", tier_client_cert_file),
            ("--tier-client-key-file", tier_client_key_file),
            problems,
        );
        let front = forwarding.map(|f| {
            let ForwardingOptions {
                forwarding_client_cert_file,
                forwarding_client_key_file,
            } = f;
            identity(
                ("--forwarding-client-cert-file", forwarding_client_cert_file),
                ("--forwarding-client-key-file", forwarding_client_key_file),
                problems,
            )
        });
        let ca = ca?;
        let mut connector = |identity: &Arc<Identity>| {
            let connector = Connector::new(ca.clone(), Some(Arc::clone(identity)), &ALPN);
            problems.check("--tier-ca-file", connector.map_err(|e| told(&e)))
        };
        let own = own?;
        let mut identities = vec![Arc::clone(&own)];
        let own = connector(&own)?;
        let forwarding = match front {
            Some(front) => {
                let front = front?;
                identities.push(Arc::clone(&front));
                Some(connector(&front)?)
            }
            None => None,
        };
        Some(TierConnections {
            own,
            forwarding,
            identities,
        })
    }

    /// Follows all files for ever; to be run in a task.
    pub async fn follow(self) {
        let identities = futures_util::future::join_all(self.identities.into_iter().map(Identity::follow));
        let forwarding = async {
            if let Some(forwarding) = self.forwarding {
                forwarding.follow().await;
            }
        };
        futures_util::future::join3(identities, self.own.follow(), forwarding).await;
    }
}

fn identity(
    (cert_flag, certificate): (&str, Option<PathBuf>),
    (key_flag, key): (&str, Option<PathBuf>),
    problems: &mut Problems,
) -> Option<Arc<Identity>> {
    let certificate = required(cert_flag, certificate, problems);
    let key = required(key_flag, key, problems);
    let files = IdentityFiles {
        certificate: certificate?,
        key: key?,
    };
    problems.check(cert_flag, Identity::load(files).map_err(|e| told(&e)))
}

fn required<T>(flag: &str, value: Option<T>, problems: &mut Problems) -> Option<T> {
    if value.is_none() {
        problems.add(flag, "required");
    }
    value
}

fn told(error: &crate::tls::Error) -> String {
    let mut text = error.to_string();
    if let Some(source) = std::error::Error::source(error) {
        text.push_str(&format!(": {source}"));
    }
    text
}
