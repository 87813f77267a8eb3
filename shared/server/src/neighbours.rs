//! How a tier reaches its neighbours: its own identity, the front-proxy identity it forwards with, and the pools.
//!
//! Contract (DESIGN §6): two identities. For its own requests a tier is `system:tier:<name>` of the client CA; for what it
//! forwards it is a front proxy that the next tier accepts by name. Each tier takes the flags of those it has.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use triptych_client::address::Address;
use triptych_client::metrics::Metrics;
use triptych_client::pool::Pool;
use triptych_client::tls::{Connector, Error, Identity, IdentityFiles};
use triptych_options::Problems;

/// ALPN of connections between tiers.
const ALPN: &[&[u8]] = &[b"h2", b"http/1.1"];

/// Flags about a tier's own identity.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Tier flags")]
pub struct OwnIdentityOptions {
    /// CA certificates that the serving certificates of the other tiers are verified with.
    #[arg(long, value_name = "FILE")]
    pub tier_ca_file: Option<PathBuf>,
    /// Client certificate of this tier's own requests to others (system:tier:<name>).
    #[arg(long, value_name = "FILE")]
    pub tier_client_cert_file: Option<PathBuf>,
    /// Private key of --tier-client-cert-file.
    #[arg(long, value_name = "FILE")]
    pub tier_client_key_file: Option<PathBuf>,
}

/// Flags about forwarding.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Tier flags")]
pub struct ForwardingOptions {
    /// Client certificate of forwarded requests; the next tier accepts it as a front proxy.
    #[arg(long, value_name = "FILE")]
    pub forwarding_client_cert_file: Option<PathBuf>,
    /// Private key of --forwarding-client-cert-file.
    #[arg(long, value_name = "FILE")]
    pub forwarding_client_key_file: Option<PathBuf>,
}

/// Whom to trust and whom to be.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// CA file of the other tiers.
    pub roots: PathBuf,
    /// The certificate to present.
    pub identity: IdentityFiles,
}

impl OwnIdentityOptions {
    /// Checks the flags; all three are needed to reach another tier.
    pub fn settings(&self, problems: &mut Problems) -> Option<TlsFiles> {
        let roots = required("--tier-ca-file", &self.tier_ca_file, problems);
        let certificate = required("--tier-client-cert-file", &self.tier_client_cert_file, problems);
        let key = required("--tier-client-key-file", &self.tier_client_key_file, problems);
        Some(TlsFiles {
            roots: roots?,
            identity: IdentityFiles {
                certificate: certificate?,
                key: key?,
            },
        })
    }
}

impl ForwardingOptions {
    /// Checks the flags; the CA is that of `own`.
    pub fn settings(&self, own: &OwnIdentityOptions, problems: &mut Problems) -> Option<TlsFiles> {
        let certificate = required(
            "--forwarding-client-cert-file",
            &self.forwarding_client_cert_file,
            problems,
        );
        let key = required(
            "--forwarding-client-key-file",
            &self.forwarding_client_key_file,
            problems,
        );
        let roots = own.tier_ca_file.clone();
        Some(TlsFiles {
            roots: roots?,
            identity: IdentityFiles {
                certificate: certificate?,
                key: key?,
            },
        })
    }
}

fn required(flag: &str, value: &Option<PathBuf>, problems: &mut Problems) -> Option<PathBuf> {
    if value.is_none() {
        problems.add(flag, "is required to reach another tier");
    }
    value.clone()
}

/// Connections to another tier, and what must run for their certificates to follow their files.
pub struct Neighbour {
    /// Requests go here.
    pub pool: Arc<Pool>,
    identity: Arc<Identity>,
    connector: Arc<Connector>,
}

impl Neighbour {
    /// Prepares connections to the tier `name` at `addresses`; connects when first used.
    pub fn new(name: &str, addresses: Vec<Address>, files: &TlsFiles, metrics: &Metrics) -> Result<Neighbour, Error> {
        let identity = Identity::load(files.identity.clone())?;
        let connector = Connector::new(files.roots.clone(), Some(identity.clone()), ALPN)?;
        let pool = Pool::new(name, addresses, connector.clone(), metrics.target(name));
        Ok(Neighbour {
            pool,
            identity,
            connector,
        })
    }

    /// Follows certificate files and addresses for ever; to be run in a task.
    pub fn follow(&self) -> impl Future<Output = ()> + Send + 'static {
        let (pool, identity, connector) = (self.pool.clone(), self.identity.clone(), self.connector.clone());
        async move {
            futures_util::future::join3(pool.follow(), identity.follow(), connector.follow()).await;
        }
    }
}
