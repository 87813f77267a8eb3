//! JSON Web Tokens in compact form (RFC 7519), as far as service accounts use them.
//!
//! Contract: nothing in a token counts before its signature was verified by a known key whose type fits the algorithm
//! that the header names; only the issuer may be looked at before, to decide whose token it is. Sizes are bounded by
//! the header that carried the token.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use triptych_object::{Value, json};

use super::keys::{KeyError, PublicKey, SigningKey};

/// Clocks may differ by this much (seconds).
pub const LEEWAY: i64 = 60;

/// A token taken apart, not verified.
#[derive(Debug)]
pub struct Unverified<'a> {
    signed: &'a str,
    algorithm: String,
    key_id: String,
    signature: Vec<u8>,
    claims: Value,
}

impl<'a> Unverified<'a> {
    /// Takes a compact token apart; `None` if it is none.
    pub fn parse(token: &'a str) -> Option<Unverified<'a>> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, payload) = signed.split_once('.')?;
        if payload.contains('.') {
            return None;
        }
        let part = |text: &str| json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok();
        let header = part(header)?;
        let claims = part(payload)?;
        // A critical extension is one that must be understood; none is.
        if claims.as_object().is_none() || header.get("crit").is_some() {
            return None;
        }
        Some(Unverified {
            signed,
            algorithm: header.str_at(&["alg"]).to_owned(),
            key_id: header.str_at(&["kid"]).to_owned(),
            signature: URL_SAFE_NO_PAD.decode(signature).ok()?,
            claims,
        })
    }

    /// Who claims to have issued it.
    pub fn issuer(&self) -> &str {
        self.claims.str_at(&["iss"])
    }

    /// The claims, if one of the keys made the signature.
    pub fn verify(self, keys: &[PublicKey]) -> Result<Claims, String> {
        let mut fitting = keys
            .iter()
            .filter(|k| self.key_id.is_empty() || k.id == self.key_id)
            .peekable();
        if fitting.peek().is_none() {
            return Err("invalid signature, no keys found".to_owned());
        }
        if fitting.any(|k| k.verifies(&self.algorithm, self.signed.as_bytes(), &self.signature)) {
            return Ok(Claims(self.claims));
        }
        Err("go-jose/go-jose: error in cryptographic primitive".to_owned())
    }
}

/// The claims of a verified token.
#[derive(Debug)]
pub struct Claims(pub Value);

impl Claims {
    /// `sub`.
    pub fn subject(&self) -> &str {
        self.0.str_at(&["sub"])
    }

    /// `iss`.
    pub fn issuer(&self) -> &str {
        self.0.str_at(&["iss"])
    }

    /// `jti`.
    pub fn id(&self) -> &str {
        self.0.str_at(&["jti"])
    }

    /// `aud`: one text or a list of them.
    pub fn audiences(&self) -> Vec<String> {
        match self.0.get("aud") {
            Some(Value::String(one)) => vec![one.clone()],
            Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        }
    }

    /// A point in time, in seconds since 1970.
    pub fn time(&self, claim: &str) -> Option<i64> {
        self.0.get(claim)?.as_f64().map(|seconds| seconds as i64)
    }

    /// Checks `exp`, `nbf` and `iat` at a time.
    pub fn check_times(&self, now: i64) -> Result<(), &'static str> {
        if self.time("nbf").is_some_and(|t| now.saturating_add(LEEWAY) < t) {
            return Err("service account token is not valid yet");
        }
        if self.time("exp").is_some_and(|t| now.saturating_sub(LEEWAY) > t) {
            return Err("service account token has expired");
        }
        if self.time("iat").is_some_and(|t| now.saturating_add(LEEWAY) < t) {
            return Err("service account token is issued in the future");
        }
        Ok(())
    }
}

/// Signs claims.
pub fn sign(key: &SigningKey, claims: &Value) -> Result<String, KeyError> {
    let header = Value::from([
        ("alg", key.public.algorithm().into()),
        ("kid", key.public.id.as_str().into()),
    ]);
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(json::to_vec(value));
    let signed = format!("{}.{}", part(&header), part(claims));
    let signature = key.sign(signed.as_bytes())?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}
