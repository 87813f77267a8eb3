//! Issues service account tokens (TokenRequest) and publishes what verifies them (OpenID discovery).
//!
//! Contract: claims are kube-apiserver's: `aud`, `exp`, `iat`, `iss`, `jti`, `nbf`, `sub` and `kubernetes.io` with the
//! account and what the token is bound to. The documents change only with the keys, so they are made once.

use bytes::Bytes;
use triptych_object::{Value, json};

use super::jwt;
use super::keys::{KeyError, PublicKey, SigningKey};
use super::service_account::USER_PREFIX;

/// A pod's token with this lifetime (the kubelet's default) is one whose client may not know how to renew it yet.
pub const WARN_ONLY_SECONDS: i64 = 60 * 60 + 7;
/// Such a token lives this long, and is warned about after the lifetime it asked for.
pub const EXTENDED_SECONDS: i64 = 24 * 365 * 60 * 60;

/// Name and uid of an object that a token is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reference {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`; empty if it is not known.
    pub uid: String,
}

/// What a token is bound to besides its account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    /// The pod, and with it the node it runs on.
    pub pod: Option<Reference>,
    /// The secret.
    pub secret: Option<Reference>,
    /// The node.
    pub node: Option<Reference>,
}

/// What to put into a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenContent {
    /// Namespace of the account.
    pub namespace: String,
    /// The account.
    pub account: Reference,
    /// What it is bound to.
    pub binding: Binding,
    /// Towards whom it is good.
    pub audiences: Vec<String>,
    /// Now, in seconds since 1970.
    pub issued_at: i64,
    /// Lifetime in seconds.
    pub expires_in: i64,
    /// After this many seconds its use is warned about; 0 is never.
    pub warn_after: i64,
    /// Its id.
    pub id: String,
}

impl TokenContent {
    fn claims(&self, issuer: &str) -> Value {
        let reference = |r: &Reference| {
            let mut out = Value::object();
            for (member, text) in [("name", &r.name), ("uid", &r.uid)] {
                if !text.is_empty() {
                    out.set_at(&[member], text.as_str().into());
                }
            }
            out
        };
        let mut private = Value::from([("namespace", self.namespace.as_str().into())]);
        let bound = [
            ("node", &self.binding.node),
            ("pod", &self.binding.pod),
            ("secret", &self.binding.secret),
        ];
        for (member, bound) in bound {
            if let Some(bound) = bound {
                private.set_at(&[member], reference(bound));
            }
        }
        private.set_at(&["serviceaccount"], reference(&self.account));
        if self.warn_after != 0 {
            private.set_at(&["warnafter"], Value::Int(self.issued_at + self.warn_after));
        }
        Value::from([
            ("aud", self.audiences.clone().into()),
            ("exp", Value::Int(self.issued_at + self.expires_in)),
            ("iat", Value::Int(self.issued_at)),
            ("iss", issuer.into()),
            ("jti", self.id.as_str().into()),
            ("kubernetes.io", private),
            ("nbf", Value::Int(self.issued_at)),
            (
                "sub",
                format!("{USER_PREFIX}{}:{}", self.namespace, self.account.name).into(),
            ),
        ])
    }
}

/// Issues tokens.
#[derive(Debug)]
pub struct TokenIssuer {
    /// Signs them.
    pub key: SigningKey,
    /// `iss`.
    pub issuer: String,
    /// Audiences of tokens that ask for none: the API server's own.
    pub audiences: Vec<String>,
    /// No token lives longer (seconds), whatever was asked for.
    pub max_expiration: Option<i64>,
    /// Pods' tokens of the default lifetime live for a year and warn.
    pub extend_expiration: bool,
}

impl TokenIssuer {
    /// A signed token.
    pub fn issue(&self, content: &TokenContent) -> Result<String, KeyError> {
        jwt::sign(&self.key, &content.claims(&self.issuer))
    }

    /// Lifetime and warning (seconds, 0 for none) of a token that asks for `requested` seconds.
    pub fn lifetime(&self, requested: i64, pod_bound: bool, audiences: &[String]) -> (i64, i64) {
        let own = audiences.iter().all(|a| self.audiences.contains(a));
        if self.extend_expiration && pod_bound && requested == WARN_ONLY_SECONDS && own {
            return (EXTENDED_SECONDS, requested);
        }
        (requested, 0)
    }
}

/// The documents that relying parties read to verify tokens.
#[derive(Clone, Debug)]
pub struct OpenIdDocuments {
    /// `/.well-known/openid-configuration`, `application/json`.
    pub configuration: Bytes,
    /// `/openid/v1/jwks`, `application/jwk-set+json`.
    pub keys: Bytes,
}

/// Where the key set is found, below the server's address.
pub const JWKS_PATH: &str = "/openid/v1/jwks";
/// Where the configuration is found.
pub const CONFIGURATION_PATH: &str = "/.well-known/openid-configuration";

impl OpenIdDocuments {
    /// For an issuer whose keys are found at `jwks_uri`. Refuses an issuer that OpenID does not allow.
    pub fn new(issuer: &str, jwks_uri: &str, keys: &[PublicKey]) -> Result<OpenIdDocuments, String> {
        if !issuer.starts_with("https://") {
            return Err(format!("issuer URL must use https scheme, got: {issuer}"));
        }
        for (mark, what) in [('?', "query"), ('#', "fragment")] {
            if issuer.contains(mark) {
                return Err(format!("issuer URL may not include a {what}, got: {issuer}"));
            }
        }
        if !jwks_uri.starts_with("https://") {
            return Err(format!("jwksURI requires https scheme, parsed as: {jwks_uri}"));
        }
        let mut algorithms: Vec<&str> = keys.iter().map(PublicKey::algorithm).collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        let configuration = Value::from([
            ("issuer", issuer.into()),
            ("jwks_uri", jwks_uri.into()),
            ("response_types_supported", vec!["id_token"].into()),
            ("subject_types_supported", vec!["public"].into()),
            ("id_token_signing_alg_values_supported", algorithms.into()),
        ]);
        let keys: Vec<Value> = keys.iter().filter_map(PublicKey::jwk).collect();
        let keys = Value::from([("keys", keys.into())]);
        Ok(OpenIdDocuments {
            configuration: json::to_vec(&configuration).into(),
            keys: json::to_vec(&keys).into(),
        })
    }
}
