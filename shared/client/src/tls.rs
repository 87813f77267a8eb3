//! TLS identities and trust read from PEM files, and read again when the files change.
//!
//! Contract: a file set that cannot be read at start is an error; one that becomes unreadable later keeps the last good
//! content in force and is reported once per change. Files are polled, because a Kubernetes volume changes by renaming
//! directories, which file notification misses. One provider, aws-lc-rs, is passed everywhere.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::RootCertStore;
use rustls::client::ResolvesClientCert;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// How often files are looked at.
pub const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// What is wrong with certificate files.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file holds something else.
    #[error("{}: {what}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

/// The one cryptography provider.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// The certificates of a PEM file, at least one.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let certificates = CertificateDer::pem_slice_iter(&read(path)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| content(path, e))?;
    if certificates.is_empty() {
        return Err(content(path, "holds no certificate"));
    }
    Ok(certificates)
}

/// The certificates of a PEM file as roots of trust.
pub fn roots(path: &Path) -> Result<RootCertStore, Error> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(path)? {
        store.add(certificate).map_err(|e| content(path, e))?;
    }
    Ok(store)
}

fn certified_key(files: &IdentityFiles) -> Result<CertifiedKey, Error> {
    let chain = certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?).map_err(|e| content(&files.key, e))?;
    CertifiedKey::from_der(chain, key, &provider()).map_err(|e| content(&files.key, e))
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })
}

fn content(path: &Path, what: impl ToString) -> Error {
    Error::Content {
        path: path.to_owned(),
        what: what.to_string(),
    }
}

/// A certificate with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityFiles {
    /// PEM file of the chain, leaf first.
    pub certificate: PathBuf,
    /// PEM file of the private key.
    pub key: PathBuf,
}

/// A certificate and key that follow their files; serves and presents itself with rustls.
#[derive(Debug)]
pub struct Identity {
    files: IdentityFiles,
    current: ArcSwap<CertifiedKey>,
}

impl Identity {
    /// Reads the files.
    pub fn load(files: IdentityFiles) -> Result<Arc<Identity>, Error> {
        let current = ArcSwap::from_pointee(certified_key(&files)?);
        Ok(Arc::new(Identity { files, current }))
    }

    /// Follows the files for ever; to be run in a task.
    pub async fn follow(self: Arc<Self>) {
        let files = [self.files.certificate.clone(), self.files.key.clone()];
        follow(&files, || {
            self.current.store(Arc::new(certified_key(&self.files)?));
            Ok(())
        })
        .await;
    }
}

impl ResolvesServerCert for Identity {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

impl ResolvesClientCert for Identity {
    fn resolve(&self, _issuers: &[&[u8]], _schemes: &[rustls::SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// How connections are made: whom to trust and what to present, both following their files.
pub struct Connector {
    roots: Option<PathBuf>,
    identity: Option<Arc<Identity>>,
    alpn: Vec<Vec<u8>>,
    current: ArcSwap<rustls::ClientConfig>,
}

impl Connector {
    /// Trusts the CAs of `roots`; presents `identity` if there is one; offers `alpn`.
    pub fn new(roots: PathBuf, identity: Option<Arc<Identity>>, alpn: &[&[u8]]) -> Result<Arc<Connector>, Error> {
        let store = self::roots(&roots)?;
        Self::build(Some(roots), store, identity, alpn)
    }

    /// The same with roots that are given, not read.
    pub fn with_roots(
        store: RootCertStore,
        identity: Option<Arc<Identity>>,
        alpn: &[&[u8]],
    ) -> Result<Arc<Connector>, Error> {
        Self::build(None, store, identity, alpn)
    }

    fn build(
        roots: Option<PathBuf>,
        store: RootCertStore,
        identity: Option<Arc<Identity>>,
        alpn: &[&[u8]],
    ) -> Result<Arc<Connector>, Error> {
        let alpn: Vec<Vec<u8>> = alpn.iter().map(|p| p.to_vec()).collect();
        let config = client_config(store, identity.clone(), &alpn).map_err(|e| content(Path::new("TLS"), e))?;
        Ok(Arc::new(Connector {
            roots,
            identity,
            alpn,
            current: ArcSwap::from_pointee(config),
        }))
    }

    /// The configuration for the next connection.
    pub fn config(&self) -> Arc<rustls::ClientConfig> {
        self.current.load_full()
    }

    /// The same trust and identity, offering other protocols.
    pub fn config_for(&self, alpn: &[&[u8]]) -> Arc<rustls::ClientConfig> {
        let mut config = (*self.current.load_full()).clone();
        config.alpn_protocols = alpn.iter().map(|p| p.to_vec()).collect();
        Arc::new(config)
    }

    /// Follows the CA file for ever; the identity follows its own files.
    pub async fn follow(self: Arc<Self>) {
        let Some(path) = self.roots.clone() else { return };
        follow(std::slice::from_ref(&path), || {
            let config =
                client_config(roots(&path)?, self.identity.clone(), &self.alpn).map_err(|e| content(&path, e))?;
            self.current.store(Arc::new(config));
            Ok(())
        })
        .await;
    }
}

fn client_config(
    roots: RootCertStore,
    identity: Option<Arc<Identity>>,
    alpn: &[Vec<u8>],
) -> Result<rustls::ClientConfig, rustls::Error> {
    let builder = rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut config = match identity {
        Some(identity) => builder.with_client_cert_resolver(identity),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = alpn.to_vec();
    Ok(config)
}

/// Calls `reload` whenever one of `paths` changed; a failure is logged and what was there stays.
pub async fn follow(paths: &[PathBuf], mut reload: impl FnMut() -> Result<(), Error>) {
    let mut seen = stamps(paths);
    let mut ticks = tokio::time::interval(POLL_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let now = stamps(paths);
        if now == seen {
            continue;
        }
        seen = now;
        match reload() {
            Ok(()) => tracing::info!(files = ?paths, "certificate files reloaded"),
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "certificate files changed but cannot be used, the earlier ones stay"
                );
            }
        }
    }
}

type Stamp = Option<(SystemTime, u64)>;

fn stamps(paths: &[PathBuf]) -> Vec<Stamp> {
    paths
        .iter()
        .map(|p| {
            let metadata = std::fs::metadata(p).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        })
        .collect()
}
