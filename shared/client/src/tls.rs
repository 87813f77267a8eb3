//! TLS identities and trust read from PEM files, and read again when the files change.
//!
//! Contract: a file set that cannot be read at start is an error; one that becomes unreadable later keeps the last good
//! content in force and is reported once per change. Files are polled, because a Kubernetes volume changes by renaming
//! directories, which file notification misses. One provider, aws-lc-rs, is passed everywhere.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::client::ResolvesClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use crate::bundle::Bundle;

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

/// Whom to believe to be the server.
pub enum Trust {
    /// Whoever the CAs of this PEM file vouch for; follows the file.
    File(PathBuf),
    /// Whoever a bundle given by value vouches for (`caBundle`).
    Bundle(Bundle),
    /// Anybody at all (`insecureSkipTLSVerify`): the connection is secret, but nobody knows with whom.
    AnybodyInsecurely,
}

/// How connections are made: whom to trust and what to present, both following their files.
pub struct Connector {
    trust: Trust,
    identity: Option<Arc<Identity>>,
    alpn: Vec<Vec<u8>>,
    current: ArcSwap<rustls::ClientConfig>,
}

impl Connector {
    /// Believes whom the CAs of the file `roots` vouch for; presents `identity` if there is one; offers `alpn`.
    pub fn new(roots: PathBuf, identity: Option<Arc<Identity>>, alpn: &[&[u8]]) -> Result<Arc<Connector>, Error> {
        Connector::trusting(Trust::File(roots), identity, alpn)
    }

    /// Believes `trust`; presents `identity` if there is one; offers `alpn`.
    pub fn trusting(trust: Trust, identity: Option<Arc<Identity>>, alpn: &[&[u8]]) -> Result<Arc<Connector>, Error> {
        let alpn: Vec<Vec<u8>> = alpn.iter().map(|p| p.to_vec()).collect();
        let config = client_config(&trust, identity.clone(), &alpn)?;
        Ok(Arc::new(Connector {
            trust,
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
        let Trust::File(path) = &self.trust else { return };
        follow(std::slice::from_ref(path), || {
            let config = client_config(&self.trust, self.identity.clone(), &self.alpn)?;
            self.current.store(Arc::new(config));
            Ok(())
        })
        .await;
    }
}

fn client_config(
    trust: &Trust,
    identity: Option<Arc<Identity>>,
    alpn: &[Vec<u8>],
) -> Result<rustls::ClientConfig, Error> {
    let provider = provider();
    let builder = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|e| content(Path::new("TLS"), e))?;
    let builder = match trust {
        Trust::File(path) => builder.with_root_certificates(roots(path)?),
        Trust::Bundle(bundle) => match bundle.verifier(&provider) {
            Some(verifier) => builder
                .dangerous()
                .with_custom_certificate_verifier(verifier.map_err(|e| content(Path::new("CA bundle"), e))?),
            None => builder.with_root_certificates(RootCertStore::empty()),
        },
        Trust::AnybodyInsecurely => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody(provider))),
    };
    let mut config = match identity {
        Some(identity) => builder.with_client_cert_resolver(identity),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = alpn.to_vec();
    Ok(config)
}

/// Accepts any server certificate.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
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
