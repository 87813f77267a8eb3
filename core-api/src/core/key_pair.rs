//! Whether a certificate and a private key in PEM belong together, in the words of Go's `tls.X509KeyPair`, which
//! kube-apiserver passes on as a warning about TLS secrets.

use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Checks the pair; the error is Go's text.
pub fn check(certificate: &[u8], key: &[u8]) -> Result<(), String> {
    let found = blocks(certificate);
    let chain: Vec<CertificateDer<'static>> = found
        .iter()
        .filter(|b| b.label == "CERTIFICATE")
        .map(|b| CertificateDer::from(b.contents.clone()))
        .collect();
    let Some(leaf) = chain.first() else {
        return Err(no_certificate(&found));
    };
    let found = blocks(key);
    let Some(key) = found.iter().find(|b| is_key(b)) else {
        return Err(no_key(&found));
    };
    if X509Certificate::from_der(leaf).is_err() {
        return Err("x509: malformed certificate".into());
    }
    let unreadable = || "tls: failed to parse private key".to_owned();
    let key = PrivateKeyDer::try_from(key.contents.clone()).map_err(|_| unreadable())?;
    let key = any_supported_type(&key).map_err(|_| unreadable())?;
    match CertifiedKey::new(chain, key).keys_match() {
        Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err("tls: private key does not match public key".into())
        }
        _ => Ok(()),
    }
}

fn blocks(text: &[u8]) -> Vec<Pem> {
    Pem::iter_from_buffer(text).map_while(Result::ok).collect()
}

fn is_key(block: &Pem) -> bool {
    block.label == "PRIVATE KEY" || block.label.ends_with(" PRIVATE KEY")
}

fn no_certificate(found: &[Pem]) -> String {
    match found {
        [] => "tls: failed to find any PEM data in certificate input".into(),
        [only] if is_key(only) => "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched".into(),
        _ => format!(
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: {}",
            labels(found)
        ),
    }
}

fn no_key(found: &[Pem]) -> String {
    match found {
        [] => "tls: failed to find any PEM data in key input".into(),
        [only] if only.label == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".into()
        }
        _ => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following types: {}",
            labels(found)
        ),
    }
}

fn labels(blocks: &[Pem]) -> String {
    let names: Vec<&str> = blocks.iter().map(|b| b.label.as_str()).collect();
    format!("[{}]", names.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_as_go_does() {
        let pem = |label: &str| format!("-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n");
        let check = |a: &str, b: &str| check(a.as_bytes(), b.as_bytes()).unwrap_err();
        assert_eq!(check("x", ""), "tls: failed to find any PEM data in certificate input");
        assert_eq!(
            check(&pem("CERTIFICATE"), "x"),
            "tls: failed to find any PEM data in key input"
        );
        assert_eq!(
            check(&pem("CERTIFICATE"), &pem("PRIVATE KEY")),
            "x509: malformed certificate"
        );
        assert!(check(&pem("PRIVATE KEY"), "").ends_with("PEM inputs may have been switched"));
    }
}
