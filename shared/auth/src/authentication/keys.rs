//! Keys of service account tokens: read from PEM, named by what they are, used to sign and verify.
//!
//! Contract: RSA (RS256 when signing) and ECDSA on P-256, P-384 and P-521, as kube-apiserver. A key's id is the
//! unpadded base64url SHA-256 of its SubjectPublicKeyInfo. `jsonwebtoken` was rejected: these few calls of aws-lc-rs are
//! all of it that Kubernetes uses, and key ids and error texts must be Kubernetes' own.

use std::path::{Path, PathBuf};

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{self as sig, EcdsaKeyPair, KeyPair, RsaKeyPair, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls_pki_types::pem::{PemObject, SectionKind};
use sha2::{Digest, Sha256};
use triptych_object::Value;
use x509_parser::prelude::{FromDer, SubjectPublicKeyInfo, X509Certificate};
use x509_parser::public_key::PublicKey as ParsedKey;

/// A key file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It cannot be read.
    #[error("cannot read the key file {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It holds no key that can be used.
    #[error("{path}: {why}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Signing failed.
    #[error("the token could not be signed")]
    Sign,
}

/// What a key can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Rsa,
    P256,
    P384,
    P521,
}

impl Kind {
    /// The algorithm that tokens are signed with.
    pub(super) fn algorithm(self) -> &'static str {
        match self {
            Kind::Rsa => "RS256",
            Kind::P256 => "ES256",
            Kind::P384 => "ES384",
            Kind::P521 => "ES512",
        }
    }
}

/// A key that verifies tokens.
#[derive(Clone, Debug)]
pub struct PublicKey {
    /// `kid` of the tokens it verifies.
    pub id: String,
    spki: Vec<u8>,
    kind: Kind,
}

impl PublicKey {
    /// From a DER SubjectPublicKeyInfo.
    pub fn from_spki(spki: &[u8]) -> Result<PublicKey, String> {
        let (_, parsed) = SubjectPublicKeyInfo::from_der(spki).map_err(|e| e.to_string())?;
        let kind = match parsed.parsed().map_err(|e| e.to_string())? {
            ParsedKey::RSA(_) => Kind::Rsa,
            ParsedKey::EC(point) => match point.key_size() {
                256 => Kind::P256,
                384 => Kind::P384,
                // Whole bytes of a 521-bit coordinate.
                521..=528 => Kind::P521,
                _ => return Err("unknown private key curve, must be 256, 384, or 521".to_owned()),
            },
            _ => return Err("neither an RSA nor an ECDSA key".to_owned()),
        };
        Ok(PublicKey {
            id: URL_SAFE_NO_PAD.encode(Sha256::digest(spki)),
            spki: spki.to_owned(),
            kind,
        })
    }

    /// Every public key in a PEM file: public keys, certificates' keys, and those of private keys.
    pub fn load(path: &Path) -> Result<Vec<PublicKey>, KeyError> {
        let parse = |why: String| KeyError::Parse {
            path: path.to_owned(),
            why,
        };
        let mut keys = Vec::new();
        for (kind, der) in sections(path)? {
            let spki = match kind {
                SectionKind::PublicKey => der,
                SectionKind::Certificate => {
                    let (_, certificate) = X509Certificate::from_der(&der).map_err(|e| parse(e.to_string()))?;
                    certificate.public_key().raw.to_owned()
                }
                SectionKind::RsaPrivateKey | SectionKind::EcPrivateKey | SectionKind::PrivateKey => {
                    let Some(key) = SigningKey::from_der(kind, &der).map_err(parse)? else {
                        continue;
                    };
                    key.public.spki
                }
                _ => continue,
            };
            keys.push(PublicKey::from_spki(&spki).map_err(parse)?);
        }
        if keys.is_empty() {
            return Err(parse(
                "data does not contain any valid RSA or ECDSA public keys".to_owned(),
            ));
        }
        Ok(keys)
    }

    /// The algorithm of tokens signed with this key.
    pub fn algorithm(&self) -> &'static str {
        self.kind.algorithm()
    }

    /// True if `signature` over `message` is this key's, made with `algorithm`.
    pub(super) fn verifies(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> bool {
        let scheme: &'static dyn sig::VerificationAlgorithm = match (self.kind, algorithm) {
            (Kind::Rsa, "RS256") => &sig::RSA_PKCS1_2048_8192_SHA256,
            (Kind::Rsa, "RS384") => &sig::RSA_PKCS1_2048_8192_SHA384,
            (Kind::Rsa, "RS512") => &sig::RSA_PKCS1_2048_8192_SHA512,
            (Kind::Rsa, "PS256") => &sig::RSA_PSS_2048_8192_SHA256,
            (Kind::Rsa, "PS384") => &sig::RSA_PSS_2048_8192_SHA384,
            (Kind::Rsa, "PS512") => &sig::RSA_PSS_2048_8192_SHA512,
            (Kind::P256, "ES256") => &sig::ECDSA_P256_SHA256_FIXED,
            (Kind::P384, "ES384") => &sig::ECDSA_P384_SHA384_FIXED,
            (Kind::P521, "ES512") => &sig::ECDSA_P521_SHA512_FIXED,
            _ => return false,
        };
        UnparsedPublicKey::new(scheme, &self.spki)
            .verify(message, signature)
            .is_ok()
    }

    /// The key as a JSON Web Key (RFC 7517).
    pub fn jwk(&self) -> Option<Value> {
        let (_, parsed) = SubjectPublicKeyInfo::from_der(&self.spki).ok()?;
        let encode = |bytes: &[u8]| Value::from(URL_SAFE_NO_PAD.encode(bytes));
        let unpadded = |bytes: &[u8]| {
            let zeros = bytes.iter().take_while(|b| **b == 0).count();
            encode(&bytes[zeros..])
        };
        let mut jwk = Value::from([("use", "sig".into())]);
        let mut set = |name: &str, value: Value| jwk.set_at(&[name], value);
        match parsed.parsed().ok()? {
            ParsedKey::RSA(key) => {
                set("kty", "RSA".into());
                set("kid", self.id.as_str().into());
                set("alg", self.algorithm().into());
                set("n", unpadded(key.modulus));
                set("e", unpadded(key.exponent));
            }
            ParsedKey::EC(point) => {
                // Uncompressed: 4, x, y.
                let (x, y) = point.data().get(1..)?.split_at_checked(point.data().len() / 2)?;
                set("kty", "EC".into());
                set("kid", self.id.as_str().into());
                let curve = match self.kind {
                    Kind::P256 => "P-256",
                    Kind::P384 => "P-384",
                    _ => "P-521",
                };
                set("crv", curve.into());
                set("alg", self.algorithm().into());
                set("x", encode(x));
                set("y", encode(y));
            }
            _ => return None,
        }
        Some(jwk)
    }
}

/// A key that signs tokens.
#[derive(Debug)]
pub struct SigningKey {
    pair: Pair,
    /// Its public half.
    pub public: PublicKey,
}

#[derive(Debug)]
enum Pair {
    Rsa(RsaKeyPair),
    Ecdsa(EcdsaKeyPair),
}

impl SigningKey {
    /// The first private key in a PEM file.
    pub fn load(path: &Path) -> Result<SigningKey, KeyError> {
        let parse = |why: String| KeyError::Parse {
            path: path.to_owned(),
            why,
        };
        for (kind, der) in sections(path)? {
            if let Some(key) = SigningKey::from_der(kind, &der).map_err(parse)? {
                return Ok(key);
            }
        }
        Err(parse(
            "data does not contain a valid RSA or ECDSA private key".to_owned(),
        ))
    }

    fn from_der(kind: SectionKind, der: &[u8]) -> Result<Option<SigningKey>, String> {
        let rsa = |key: Result<RsaKeyPair, aws_lc_rs::error::KeyRejected>| {
            let pair = key.map_err(|e| e.to_string())?;
            let spki = pair.public_key().as_der().map_err(|e| e.to_string())?;
            let public = PublicKey::from_spki(spki.as_ref())?;
            Ok::<_, String>(SigningKey {
                pair: Pair::Rsa(pair),
                public,
            })
        };
        Ok(match kind {
            SectionKind::RsaPrivateKey => Some(rsa(RsaKeyPair::from_der(der))?),
            SectionKind::EcPrivateKey => Some(ecdsa(der)?),
            SectionKind::PrivateKey => match RsaKeyPair::from_pkcs8(der) {
                Ok(pair) => Some(rsa(Ok(pair))?),
                Err(_) => Some(ecdsa(der)?),
            },
            _ => None,
        })
    }

    /// The signature over `message`, in the form of RFC 7518.
    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&sig::RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .map_err(|_| KeyError::Sign)?;
                Ok(signature)
            }
            Pair::Ecdsa(pair) => {
                let signature = pair.sign(&random, message).map_err(|_| KeyError::Sign)?;
                Ok(signature.as_ref().to_vec())
            }
        }
    }
}

fn ecdsa(der: &[u8]) -> Result<SigningKey, String> {
    let schemes = [
        &sig::ECDSA_P256_SHA256_FIXED_SIGNING,
        &sig::ECDSA_P384_SHA384_FIXED_SIGNING,
        &sig::ECDSA_P521_SHA512_FIXED_SIGNING,
    ];
    let pair = schemes
        .into_iter()
        .find_map(|scheme| EcdsaKeyPair::from_private_key_der(scheme, der).ok())
        .ok_or("neither an RSA key nor an ECDSA key on P-256, P-384 or P-521")?;
    let spki = pair.public_key().as_der().map_err(|e| e.to_string())?;
    let public = PublicKey::from_spki(spki.as_ref())?;
    Ok(SigningKey {
        pair: Pair::Ecdsa(pair),
        public,
    })
}

fn sections(path: &Path) -> Result<Vec<(SectionKind, Vec<u8>)>, KeyError> {
    let pem = std::fs::read(path).map_err(|source| KeyError::Read {
        path: path.to_owned(),
        source,
    })?;
    <(SectionKind, Vec<u8>)>::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|e| KeyError::Parse {
            path: path.to_owned(),
            why: e.to_string(),
        })
}
