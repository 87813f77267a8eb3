//! Whose certificate is this? The certificate authorities that decide it, read from files that may change.
//!
//! Contract: a handshake only proves possession of the key; the chain is verified here, once per connection and
//! generation of authorities, and again when something in it expires, so that a bad certificate is answered 401 like
//! kube-apiserver does. An allowed front proxy is never tried as a client. Files that no longer parse keep what was last
//! read from them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{EndEntityCert, ExtendedKeyUsageValidator, KeyUsage, anchor_from_trusted_cert};

use super::{with_authenticated, x509};
use crate::authenticator::{CachedIdentity, CertificateVerdict, ConnectionIdentity};

/// A file of authorities that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// It cannot be read.
    #[error("cannot read the certificate authorities in {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It holds something that is no certificate, or none at all.
    #[error("{path} holds no usable certificate authorities: {why}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// The authorities of one PEM file.
#[derive(Debug)]
pub struct Authorities {
    path: PathBuf,
    pool: ArcSwap<Pool>,
}

#[derive(Debug)]
struct Pool {
    pem: Vec<u8>,
    anchors: Vec<(TrustAnchor<'static>, i64)>,
}

impl Authorities {
    /// Reads the file.
    pub fn load(path: impl Into<PathBuf>) -> Result<Authorities, TrustError> {
        let path = path.into();
        let pool = Pool::read(&path)?;
        Ok(Authorities {
            path,
            pool: ArcSwap::from_pointee(pool),
        })
    }

    /// The file's content as last read, as published in `extension-apiserver-authentication`.
    pub fn pem(&self) -> Vec<u8> {
        self.pool.load().pem.clone()
    }

    /// Reads the file again; true if its content changed.
    pub fn reload(&self) -> Result<bool, TrustError> {
        let pool = Pool::read(&self.path)?;
        let changed = pool.pem != self.pool.load().pem;
        if changed {
            self.pool.store(Arc::new(pool));
        }
        Ok(changed)
    }

    /// Verifies a chain for client use. `Ok` is when the verdict must be made anew, in seconds since 1970.
    fn verify(&self, chain: &[CertificateDer<'_>], now: i64) -> Result<i64, String> {
        let (leaf, intermediates) = chain.split_first().ok_or("no certificate")?;
        let pool = self.pool.load();
        let mut valid_until = i64::MAX;
        let mut anchors = Vec::with_capacity(pool.anchors.len());
        for (anchor, not_after) in &pool.anchors {
            if now <= *not_after {
                anchors.push(anchor.clone());
                valid_until = valid_until.min(*not_after);
            }
        }
        for certificate in chain {
            let not_after = x509::not_after(certificate).map_err(|e| format!("unreadable certificate: {e}"))?;
            valid_until = valid_until.min(not_after);
        }
        let algorithms = rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms;
        let time = UnixTime::since_unix_epoch(Duration::from_secs(now.max(0).unsigned_abs()));
        EndEntityCert::try_from(leaf)
            .and_then(|leaf| {
                leaf.verify_for_usage(algorithms.all, &anchors, intermediates, time, ClientUse, None, None)
                    .map(|_| ())
            })
            .map_err(|e| format!("verifying certificate {} failed: {e}", x509::identifier(leaf)))?;
        Ok(valid_until)
    }
}

/// Fit for proving a client's identity, as Go decides it: no key usages at all, client authentication, or any.
#[derive(Clone, Copy)]
struct ClientUse;

impl ExtendedKeyUsageValidator for ClientUse {
    fn validate(&self, usages: webpki::KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
        // 2.5.29.37.0, anyExtendedKeyUsage.
        const ANY: &[usize] = &[2, 5, 29, 37, 0];
        let mut found = Vec::new();
        for usage in usages {
            let usage = usage?.to_decoded_oid();
            if usage == ANY {
                return Ok(());
            }
            found.push(usage);
        }
        if found.is_empty() || found.iter().any(|u| u.as_slice() == CLIENT_AUTH) {
            return Ok(());
        }
        Err(webpki::Error::RequiredEkuNotFoundContext(
            webpki::RequiredEkuNotFoundContext {
                required: KeyUsage::client_auth(),
                present: found,
            },
        ))
    }
}

/// 1.3.6.1.5.5.7.3.2, clientAuth.
const CLIENT_AUTH: &[usize] = &[1, 3, 6, 1, 5, 5, 7, 3, 2];

impl Pool {
    fn read(path: &Path) -> Result<Pool, TrustError> {
        let pem = std::fs::read(path).map_err(|source| TrustError::Read {
            path: path.to_owned(),
            source,
        })?;
        let parse = |why: String| TrustError::Parse {
            path: path.to_owned(),
            why,
        };
        let mut anchors = Vec::new();
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.map_err(|e| parse(e.to_string()))?;
            let not_after = x509::not_after(&certificate).map_err(parse)?;
            let anchor = anchor_from_trusted_cert(&certificate).map_err(|e| parse(e.to_string()))?;
            anchors.push((anchor.to_owned(), not_after));
        }
        if anchors.is_empty() {
            return Err(parse("there is no certificate in it".to_owned()));
        }
        Ok(Pool { pem, anchors })
    }
}

/// Which authorities vouch for whom.
#[derive(Debug, Default)]
pub struct Trust {
    client: Option<Authorities>,
    front_proxy: Option<FrontProxyTrust>,
    generation: AtomicU64,
}

/// Who may assert the user in headers.
#[derive(Debug)]
pub struct FrontProxyTrust {
    /// They must be signed by one of these.
    pub authorities: Authorities,
    /// Their common names; empty allows every name.
    pub allowed_names: Vec<String>,
}

impl Trust {
    /// From what `--client-ca-file` and `--requestheader-client-ca-file` name, either or none.
    pub fn new(client: Option<Authorities>, front_proxy: Option<FrontProxyTrust>) -> Trust {
        Trust {
            client,
            front_proxy,
            generation: AtomicU64::new(0),
        }
    }

    /// The authorities of clients.
    pub fn client_authorities(&self) -> Option<&Authorities> {
        self.client.as_ref()
    }

    /// The authorities and names of front proxies.
    pub fn front_proxy(&self) -> Option<&FrontProxyTrust> {
        self.front_proxy.as_ref()
    }

    /// Reads every file again; a change makes every connection be judged anew.
    pub fn reload(&self) -> Result<bool, TrustError> {
        let mut changed = false;
        let mut outcome = Ok(());
        let front_proxy = self.front_proxy.as_ref().map(|f| &f.authorities);
        for authorities in self.client.iter().chain(front_proxy) {
            match authorities.reload() {
                Ok(c) => changed |= c,
                Err(e) => outcome = Err(e),
            }
        }
        if changed {
            self.generation.fetch_add(1, Ordering::Release);
        }
        outcome.map(|()| changed)
    }

    /// Reads the files again and again until it is dropped; for a tier's task group.
    pub async fn keep_fresh(self: Arc<Self>, every: Duration) {
        loop {
            tokio::time::sleep(every).await;
            let trust = self.clone();
            match tokio::task::spawn_blocking(move || trust.reload()).await {
                Ok(Ok(true)) => tracing::info!("certificate authorities changed"),
                Ok(Ok(false)) => {}
                Ok(Err(e)) => tracing::warn!(error = %crate::chain(&e), "certificate authorities stay as they were"),
                Err(_) => return,
            }
        }
    }

    /// The verdict on a connection's certificates, made once and kept with the connection.
    pub fn judge(&self, chain: &[CertificateDer<'_>], connection: &ConnectionIdentity) -> CertificateVerdict {
        if chain.is_empty() {
            return CertificateVerdict::None;
        }
        let generation = self.generation.load(Ordering::Acquire);
        let now = unix_now();
        if let Some(cached) = connection.cached.lock().as_ref()
            && cached.generation == generation
            && now <= cached.valid_until
        {
            return cached.verdict.clone();
        }
        let (verdict, valid_until) = self.judge_at(chain, now);
        *connection.cached.lock() = Some(CachedIdentity {
            generation,
            valid_until,
            verdict: verdict.clone(),
        });
        verdict
    }

    /// The verdict at a time, and until when it stands.
    fn judge_at(&self, chain: &[CertificateDer<'_>], now: i64) -> (CertificateVerdict, i64) {
        let Some(leaf) = chain.first() else {
            return (CertificateVerdict::None, i64::MAX);
        };
        let mut problems = Vec::new();
        if let Some(front_proxy) = &self.front_proxy {
            match front_proxy
                .authorities
                .verify(chain, now)
                .and_then(|until| front_proxy.allows(leaf).map(|()| until))
            {
                Ok(until) => return (CertificateVerdict::FrontProxy, until),
                Err(why) => problems.push(why),
            }
        }
        if let Some(client) = &self.client {
            match client
                .verify(chain, now)
                .and_then(|until| Ok((x509::user(leaf)?, until)))
            {
                Ok((Some(user), until)) => {
                    return (CertificateVerdict::Client(with_authenticated(Arc::new(user))), until);
                }
                // Without a common name the certificate says nothing about its holder.
                Ok((None, until)) => return (CertificateVerdict::None, until),
                Err(why) => problems.push(why),
            }
        }
        if problems.is_empty() {
            return (CertificateVerdict::None, i64::MAX);
        }
        // A certificate that is not valid yet may become so.
        (CertificateVerdict::Untrusted(problems.join("; ")), now + RETRY_SECONDS)
    }
}

/// An untrusted certificate is looked at again after this time.
const RETRY_SECONDS: i64 = 60;

impl FrontProxyTrust {
    fn allows(&self, leaf: &CertificateDer<'_>) -> Result<(), String> {
        if self.allowed_names.is_empty() {
            return Ok(());
        }
        let name = x509::common_name(leaf)?;
        if self.allowed_names.contains(&name) {
            return Ok(());
        }
        Err(format!("x509: subject with cn={name} is not in the allowed list"))
    }
}

fn unix_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[path = "trust_tests.rs"]
mod tests;
