//! CA certificates given by value, as objects carry them (`caBundle` of APIServices and webhooks).
//!
//! Contract: as Go's crypto/x509, a server whose very certificate is in the bundle is believed although it is marked as a
//! CA: certificates made by `openssl req -x509` are, and are their own bundle. (webpki alone refuses them.) Its name and
//! its time must fit all the same.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

/// Certificates of authorities.
#[derive(Clone, Debug, Default)]
pub struct Bundle(Vec<CertificateDer<'static>>);

impl Bundle {
    /// Reads PEM; what is no certificate is an error.
    pub fn read(pem: &[u8]) -> Result<Bundle, pem::Error> {
        CertificateDer::pem_slice_iter(pem)
            .collect::<Result<_, _>>()
            .map(Bundle)
    }

    /// True if it holds no certificate.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Who verifies servers by it; `None` for an empty one.
    pub(crate) fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Option<Result<Arc<dyn ServerCertVerifier>, VerifierBuilderError>> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(self.0.iter().cloned());
        if roots.is_empty() {
            return None;
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build();
        Some(verifier.map(|by_authority| {
            let certificates = self.0.clone();
            Arc::new(Verifier {
                by_authority,
                certificates,
            }) as Arc<dyn ServerCertVerifier>
        }))
    }
}

impl FromIterator<CertificateDer<'static>> for Bundle {
    fn from_iter<I: IntoIterator<Item = CertificateDer<'static>>>(certificates: I) -> Bundle {
        Bundle(certificates.into_iter().collect())
    }
}

#[derive(Debug)]
struct Verifier {
    by_authority: Arc<WebPkiServerVerifier>,
    certificates: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if !self.certificates.iter().any(|c| c.as_ref() == leaf.as_ref()) {
            return self
                .by_authority
                .verify_server_cert(leaf, intermediates, name, ocsp, now);
        }
        verify_server_name(&ParsedCertificate::try_from(leaf)?, name)?;
        let (_, parsed) = X509Certificate::from_der(leaf).map_err(|_| CertificateError::BadEncoding)?;
        let (now, validity) = (now.as_secs() as i64, parsed.validity());
        if now < validity.not_before.timestamp() {
            return Err(CertificateError::NotValidYet.into());
        }
        if now > validity.not_after.timestamp() {
            return Err(CertificateError::Expired.into());
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.by_authority
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.by_authority
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.by_authority.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

    fn certificate(name: &str) -> rcgen::Certificate {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap()
    }

    #[test]
    fn a_server_that_is_its_own_authority_is_believed_under_its_name_and_in_its_time() {
        let (own, other) = (certificate("a.n.svc"), certificate("a.n.svc"));
        let bundle = Bundle::read(own.pem().as_bytes()).unwrap();
        let verifier = bundle.verifier(&crate::tls::provider()).unwrap().unwrap();
        let verify = |leaf: &rcgen::Certificate, name: &str, now: UnixTime| {
            let name = ServerName::try_from(name.to_owned()).unwrap();
            verifier.verify_server_cert(leaf.der(), &[], &name, &[], now).is_ok()
        };
        assert!(verify(&own, "a.n.svc", UnixTime::now()));
        assert!(!verify(&own, "b.n.svc", UnixTime::now()));
        assert!(!verify(
            &own,
            "a.n.svc",
            UnixTime::since_unix_epoch(std::time::Duration::ZERO)
        ));
        assert!(!verify(&other, "a.n.svc", UnixTime::now()));
    }

    #[test]
    fn an_empty_bundle_vouches_for_nobody() {
        assert!(Bundle::read(b"").unwrap().is_empty());
        assert!(Bundle::default().verifier(&crate::tls::provider()).is_none());
    }
}
