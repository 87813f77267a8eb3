//! Whom to believe to be a webhook's server (whom its `caBundle` vouches for, else the system's roots), and how Go tells that
//! it does not.

use std::sync::Arc;

use rustls::{CertificateError, InvalidMessage, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use crate::bundle::Bundle;
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
    // what is no certificate is passed over, as by Go
    let bundle: Bundle = CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok).collect();
    if bundle.is_empty() && !ca_bundle.is_empty() {
        return Err("unable to load root certificates: unable to parse bytes as PEM block".to_owned());
    }
    let provider = provider();
    let builder = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?;
    let builder = match bundle.verifier(&provider) {
        Some(verifier) => builder
            .dangerous()
            .with_custom_certificate_verifier(verifier.map_err(|e| e.to_string())?),
        None => builder.with_root_certificates(RootCertStore::empty()),
    };
    Ok(Arc::new(builder.with_no_client_auth()))
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
    fn a_bundle_without_certificates_is_told() {
        let told = client_config(b"no certificate").err();
        assert_eq!(
            told.as_deref(),
            Some("unable to load root certificates: unable to parse bytes as PEM block")
        );
    }
}
