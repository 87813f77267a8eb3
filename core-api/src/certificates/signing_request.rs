//! The PKCS#10 document inside a CertificateSigningRequest: readable, and signed with its own key.

use aws_lc_rs::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::validation::pem;

/// What is wrong with the request, in Go's words where they can be known.
pub fn check(text: &[u8]) -> Result<(), String> {
    let first = pem::blocks(text).into_iter().next();
    let Some(block) = first.filter(|b| b.label == "CERTIFICATE REQUEST") else {
        return Err("PEM block type must be CERTIFICATE REQUEST".into());
    };
    let (rest, request) = X509CertificationRequest::from_der(&block.bytes)
        .map_err(|_| "asn1: syntax error: sequence truncated".to_owned())?;
    if !rest.is_empty() {
        return Err("asn1: syntax error: trailing data".into());
    }
    let info = &request.certification_request_info;
    let algorithm = request.signature_algorithm.algorithm.to_id_string();
    let curve = info.subject_pki.algorithm.parameters.as_ref();
    let curve = curve.and_then(|p| p.as_oid().ok()).map(|oid| oid.to_id_string());
    let (candidates, failure) = algorithms(&algorithm, curve.as_deref());
    let key = info.subject_pki.subject_public_key.data.as_ref();
    let signed = |algorithm: &&'static dyn VerificationAlgorithm| {
        UnparsedPublicKey::new(*algorithm, key)
            .verify(info.raw, &request.signature_value.data)
            .is_ok()
    };
    if candidates.iter().any(signed) {
        Ok(())
    } else {
        Err(failure.into())
    }
}

/// How signatures of an algorithm are verified, and what Go says of one that is wrong.
fn algorithms(oid: &str, curve: Option<&str>) -> (Vec<&'static dyn VerificationAlgorithm>, &'static str) {
    const RSA: &str = "crypto/rsa: verification error";
    const ECDSA: &str = "x509: ECDSA verification failure";
    let ecdsa = |of: [&'static dyn VerificationAlgorithm; 3]| match curve {
        Some("1.2.840.10045.3.1.7") => (vec![of[0]], ECDSA),
        Some("1.3.132.0.34") => (vec![of[1]], ECDSA),
        Some("1.3.132.0.35") => (vec![of[2]], ECDSA),
        _ => (Vec::new(), "x509: unsupported elliptic curve"),
    };
    match oid {
        "1.2.840.113549.1.1.5" => (vec![&signature::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY], RSA),
        "1.2.840.113549.1.1.11" => (vec![&signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY], RSA),
        "1.2.840.113549.1.1.12" => (vec![&signature::RSA_PKCS1_2048_8192_SHA384], RSA),
        "1.2.840.113549.1.1.13" => (vec![&signature::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY], RSA),
        "1.2.840.113549.1.1.10" => (
            vec![
                &signature::RSA_PSS_2048_8192_SHA256,
                &signature::RSA_PSS_2048_8192_SHA384,
                &signature::RSA_PSS_2048_8192_SHA512,
            ],
            RSA,
        ),
        "1.2.840.10045.4.3.2" => ecdsa([
            &signature::ECDSA_P256_SHA256_ASN1,
            &signature::ECDSA_P384_SHA256_ASN1,
            &signature::ECDSA_P521_SHA256_ASN1,
        ]),
        "1.2.840.10045.4.3.3" => ecdsa([
            &signature::ECDSA_P256_SHA384_ASN1,
            &signature::ECDSA_P384_SHA384_ASN1,
            &signature::ECDSA_P521_SHA384_ASN1,
        ]),
        "1.2.840.10045.4.3.4" => ecdsa([
            &signature::ECDSA_P256_SHA512_ASN1,
            &signature::ECDSA_P384_SHA512_ASN1,
            &signature::ECDSA_P521_SHA512_ASN1,
        ]),
        "1.3.101.112" => (vec![&signature::ED25519], "x509: Ed25519 verification failure"),
        _ => (Vec::new(), "x509: cannot verify signature: algorithm unimplemented"),
    }
}

/// What is wrong with issued certificates; nothing is wrong with none.
pub fn check_certificates(text: &[u8]) -> Result<(), String> {
    if text.is_empty() {
        return Ok(());
    }
    let blocks = pem::blocks(text);
    for block in &blocks {
        if block.label != "CERTIFICATE" {
            let label = triptych_object::field::quote(&block.label);
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {label}"));
        }
        if block.has_headers {
            return Err("no PEM block headers are permitted".into());
        }
        if block.bytes.is_empty() {
            return Err("found CERTIFICATE PEM block containing 0 certificates".into());
        }
        let mut rest = block.bytes.as_slice();
        while !rest.is_empty() {
            (rest, _) = X509Certificate::from_der(rest).map_err(|_| "x509: malformed certificate".to_owned())?;
        }
    }
    if blocks.is_empty() {
        return Err("must contain at least one CERTIFICATE PEM block".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};

    #[test]
    fn a_request_is_signed_with_its_own_key() {
        let key = KeyPair::generate().unwrap();
        let request = CertificateParams::default().serialize_request(&key).unwrap();
        let text = request.pem().unwrap();
        assert_eq!(check(text.as_bytes()), Ok(()));

        let mut der = request.der().to_vec();
        let last = der.len() - 1;
        der[last] ^= 1;
        let forged = crate::validation::bytes::encode(&der);
        let forged = format!("-----BEGIN CERTIFICATE REQUEST-----\n{forged}\n-----END CERTIFICATE REQUEST-----\n");
        assert_eq!(
            check(forged.as_bytes()),
            Err("x509: ECDSA verification failure".to_owned())
        );
    }

    #[test]
    fn issued_certificates_are_certificates_only() {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::default().self_signed(&key).unwrap().pem();
        assert_eq!(check_certificates(certificate.as_bytes()), Ok(()));
        assert_eq!(check_certificates(b""), Ok(()));
        assert!(check_certificates(b"x").is_err());
        assert!(check_certificates(key.serialize_pem().as_bytes()).is_err());
    }
}
