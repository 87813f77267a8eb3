//! Whom to believe to be a webhook's server: as Go's crypto/tls does, which also accepts a server that shows the very
//! certificate that was given as CA.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, InvalidMessage, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::tls::provider;

/// Where systems keep their roots.
const SYSTEM: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A TLS configuration that believes whom these PEM certificates vouch for, else the system's roots.
pub fn client_config(ca_bundle: &[u8]) -> Result<Arc<rustls::ClientConfig>, String> {
    let pem = if ca_bundle.is_empty() {
        SYSTEM
            .iter()
            .find_map(|path| std::fs::read(path).ok())
            .unwrap_or_default()
    } else {
        ca_bundle.to_vec()
    };
    let given: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok).collect();
    if given.is_empty() && !ca_bundle.is_empty() {
        return Err("unable to load root certificates: unable to parse bytes as PEM block".to_owned());
    }
    let mut roots = RootCertStore::empty();
    for certificate in &given {
        // what is no root may still be the server's own certificate
        let _ = roots.add(certificate.clone());
    }
    let provider = provider();
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
    let verifier = Verifier {
        // without a single root nobody is believed but who is named himself
        roots: verifier.ok(),
        given: if ca_bundle.is_empty() { Vec::new() } else { given },
        schemes: provider.signature_verification_algorithms.supported_schemes(),
        provider: provider.clone(),
    };
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(Arc::new(config))
}

#[derive(Debug)]
struct Verifier {
    roots: Option<Arc<WebPkiServerVerifier>>,
    given: Vec<CertificateDer<'static>>,
    schemes: Vec<SignatureScheme>,
    provider: Arc<rustls::crypto::CryptoProvider>,
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
        let outcome = match &self.roots {
            Some(roots) => roots.verify_server_cert(leaf, intermediates, name, ocsp, now),
            None => Err(CertificateError::UnknownIssuer.into()),
        };
        match outcome {
            Err(_) if self.given.iter().any(|given| given == leaf) => itself(leaf, name, now),
            outcome => outcome,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}

/// A certificate that is trusted by being named: its time and names still have to be right.
fn itself(
    leaf: &CertificateDer<'_>,
    name: &ServerName<'_>,
    now: UnixTime,
) -> Result<ServerCertVerified, rustls::Error> {
    let (_, certificate) = X509Certificate::from_der(leaf).map_err(|_| CertificateError::BadEncoding)?;
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let validity = certificate.validity();
    if now > validity.not_after.timestamp() {
        return Err(CertificateError::Expired.into());
    }
    if now < validity.not_before.timestamp() {
        return Err(CertificateError::NotValidYet.into());
    }
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names
        .map(|extension| extension.value.general_names.as_slice())
        .unwrap_or_default();
    let matches = names.iter().any(|known| match (known, name) {
        (GeneralName::DNSName(pattern), ServerName::DnsName(name)) => covers(pattern, name.as_ref()),
        (GeneralName::IPAddress(bytes), ServerName::IpAddress(ip)) => match std::net::IpAddr::from(*ip) {
            std::net::IpAddr::V4(ip) => *bytes == ip.octets(),
            std::net::IpAddr::V6(ip) => *bytes == ip.octets(),
        },
        _ => false,
    });
    if matches {
        Ok(ServerCertVerified::assertion())
    } else {
        Err(CertificateError::NotValidForName.into())
    }
}

/// Whether a name in a certificate, which may begin with `*.`, covers a host.
fn covers(pattern: &str, host: &str) -> bool {
    let (pattern, host) = (pattern.trim_end_matches('.'), host.trim_end_matches('.'));
    match (pattern.strip_prefix("*."), host.split_once('.')) {
        (Some(pattern), Some((first, rest))) => !first.is_empty() && rest.eq_ignore_ascii_case(pattern),
        _ => host.eq_ignore_ascii_case(pattern),
    }
}

/// Go's text of a handshake that failed.
pub fn text(error: &rustls::Error) -> String {
    let unverified = |why: &str| format!("tls: failed to verify certificate: x509: {why}");
    match error {
        rustls::Error::InvalidCertificate(why) => match why {
            // another authority of the same name has another key
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                unverified("certificate signed by unknown authority")
            }
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => unverified("certificate has expired or is not yet valid"),
            CertificateError::NotValidForNameContext { expected, presented } => {
                // shown as `DnsName("a")` and `IpAddress(1.2.3.4)`
                let plain = |name: &String| {
                    let inner = name
                        .split_once('(')
                        .map_or(name.as_str(), |(_, inner)| inner.trim_end_matches(')'));
                    inner.trim_matches('"').to_owned()
                };
                let presented: Vec<String> = presented.iter().map(plain).collect();
                let host = expected.to_str();
                if presented.is_empty() {
                    return unverified("certificate is not valid for any names, but wanted to match ") + &host;
                }
                unverified(&format!(
                    "certificate is valid for {}, not {host}",
                    presented.join(", ")
                ))
            }
            CertificateError::NotValidForName => unverified("certificate is not valid for the host's name"),
            other => unverified(&format!("{other:?}")),
        },
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "http: server gave HTTP response to HTTPS client".to_owned()
        }
        rustls::Error::AlertReceived(alert) => format!("remote error: tls: {alert:?}"),
        other => format!("tls: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_certificates_cover_hosts_as_in_go() {
        assert!(covers("a.n.svc", "a.n.svc") && covers("*.n.svc", "A.n.svc."));
        assert!(!covers("*.svc", "a.n.svc") && !covers("*.n.svc", "n.svc"));
    }

    #[test]
    fn a_bundle_without_certificates_is_told() {
        let told = client_config(b"no certificate").err();
        assert_eq!(
            told.as_deref(),
            Some("unable to load root certificates: unable to parse bytes as PEM block")
        );
    }
}
