//! Bearer tokens: where a request carries one, and whom it stands for.
//!
//! Contract: the authenticators of tokens are asked in order until one knows the token; what the others found wrong is
//! told only if none does. A token is presented in `Authorization: Bearer`, or, by browsers that cannot set headers on a
//! WebSocket, as subprotocol.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::future::BoxFuture;
use http::HeaderMap;
use http::header::{AUTHORIZATION, CONNECTION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use triptych_object::{UserInfo, field};

use super::with_authenticated;

/// What a token says.
#[derive(Clone, Debug, PartialEq)]
pub enum TokenVerdict {
    /// It stands for a user, towards these of the audiences asked for.
    Known {
        /// Whom.
        user: Arc<UserInfo>,
        /// Towards whom it may be used.
        audiences: Vec<String>,
    },
    /// Not one of mine.
    Unknown,
    /// One of mine, and bad.
    Bad(String),
    /// Cannot tell yet: what decides is away and was never seen.
    Unavailable(String),
}

/// Knows some kind of token.
pub trait TokenAuthenticator: Send + Sync + 'static {
    /// Judges a token towards `audiences`.
    fn authenticate_token<'a>(&'a self, token: &'a str, audiences: &'a [String]) -> BoxFuture<'a, TokenVerdict>;
}

/// Those of `own` that are also in `others`.
pub(super) fn intersect(own: &[String], others: &[String]) -> Vec<String> {
    own.iter().filter(|a| others.contains(a)).cloned().collect()
}

/// Several authenticators of tokens, asked in order; whom they know is in `system:authenticated`.
pub struct TokenUnion {
    members: Vec<Box<dyn TokenAuthenticator>>,
}

impl TokenUnion {
    /// In the order they are to be asked.
    pub fn new(members: Vec<Box<dyn TokenAuthenticator>>) -> TokenUnion {
        TokenUnion { members }
    }
}

impl TokenAuthenticator for TokenUnion {
    fn authenticate_token<'a>(&'a self, token: &'a str, audiences: &'a [String]) -> BoxFuture<'a, TokenVerdict> {
        Box::pin(async move {
            let mut problems = Vec::new();
            let mut unavailable = None;
            for member in &self.members {
                match member.authenticate_token(token, audiences).await {
                    TokenVerdict::Known { user, audiences } => {
                        let user = with_authenticated(user);
                        return TokenVerdict::Known { user, audiences };
                    }
                    TokenVerdict::Unknown => {}
                    TokenVerdict::Bad(why) => problems.push(why),
                    away @ TokenVerdict::Unavailable(_) => unavailable = Some(away),
                }
            }
            match unavailable {
                Some(away) => away,
                None if problems.is_empty() => TokenVerdict::Unknown,
                None => TokenVerdict::Bad(field::aggregate(problems)),
            }
        })
    }
}

/// A token that came with a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Presented<'a> {
    /// None.
    No,
    /// In `Authorization`.
    Header(&'a str),
    /// As WebSocket subprotocol, decoded.
    Protocol(String),
    /// As WebSocket subprotocol, in a way that cannot be.
    Malformed(&'static str),
}

impl Presented<'_> {
    /// The token in `Authorization`, which is asked for first.
    pub fn in_header(headers: &HeaderMap) -> Presented<'_> {
        let Some(value) = headers
            .get(AUTHORIZATION)
            .and_then(|v| std::str::from_utf8(v.as_bytes()).ok())
        else {
            return Presented::No;
        };
        bearer(value).map_or(Presented::No, Presented::Header)
    }

    /// The token among the subprotocols of a WebSocket request.
    pub fn in_protocol(headers: &HeaderMap) -> Presented<'_> {
        const PREFIX: &str = "base64url.bearer.authorization.k8s.io.";
        if !headers.contains_key(SEC_WEBSOCKET_PROTOCOL) || !is_websocket(headers) {
            return Presented::No;
        }
        let mut token: Option<String> = None;
        let mut others = false;
        let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
        for protocol in values.filter_map(|v| v.to_str().ok()).flat_map(|v| v.split(',')) {
            let Some(encoded) = protocol.trim().strip_prefix(PREFIX) else {
                others = true;
                continue;
            };
            if token.is_some() {
                return Presented::Malformed("multiple base64.bearer.authorization tokens specified");
            }
            let Ok(bytes) = URL_SAFE_NO_PAD.decode(encoded) else {
                return Presented::Malformed("invalid base64.bearer.authorization token encoding");
            };
            let Ok(text) = String::from_utf8(bytes) else {
                return Presented::Malformed("invalid base64.bearer.authorization token");
            };
            token = Some(text);
        }
        match token {
            Some(token) if !token.is_empty() && others => Presented::Protocol(token),
            Some(token) if !token.is_empty() => Presented::Malformed("missing additional subprotocol"),
            _ => Presented::No,
        }
    }
}

/// The token in the text of an `Authorization` header.
pub(super) fn bearer(header: &str) -> Option<&str> {
    let mut parts = header.trim().splitn(3, ' ');
    let is_bearer = parts.next()?.eq_ignore_ascii_case("bearer");
    parts.next().filter(|token| is_bearer && !token.is_empty())
}

fn is_websocket(headers: &HeaderMap) -> bool {
    let says = |name, word: &str| {
        let mut values = headers.get_all(name).iter().filter_map(|v| v.to_str().ok());
        values.any(|v| v.split(',').any(|part| part.trim().eq_ignore_ascii_case(word)))
    };
    says(UPGRADE, "websocket") && says(CONNECTION, "upgrade")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_bearer_header_is_read_as_kubernetes_reads_it() {
        for (value, want) in [
            ("Bearer abc", Presented::Header("abc")),
            ("bearer abc", Presented::Header("abc")),
            ("  BEARER abc  ", Presented::Header("abc")),
            ("Bearer a b", Presented::Header("a")),
            ("Bearer", Presented::No),
            ("Bearer ", Presented::No),
            ("Bearer  abc", Presented::No),
            ("Basic abc", Presented::No),
            ("Token abc", Presented::No),
        ] {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_str(value).unwrap())]);
            assert_eq!(Presented::in_header(&headers), want, "{value:?}");
        }
    }

    #[test]
    fn a_websocket_may_carry_its_token_as_subprotocol() {
        let token = format!(
            "base64url.bearer.authorization.k8s.io.{}",
            URL_SAFE_NO_PAD.encode("tok")
        );
        for (protocols, want) in [
            (
                format!("v5.channel.k8s.io, {token}"),
                Presented::Protocol("tok".to_owned()),
            ),
            (token.clone(), Presented::Malformed("missing additional subprotocol")),
            (
                format!("a,{token},{token}"),
                Presented::Malformed("multiple base64.bearer.authorization tokens specified"),
            ),
            (
                "a, base64url.bearer.authorization.k8s.io.!".to_owned(),
                Presented::Malformed("invalid base64.bearer.authorization token encoding"),
            ),
            ("a, b".to_owned(), Presented::No),
        ] {
            let headers = HeaderMap::from_iter([
                (UPGRADE, HeaderValue::from_static("websocket")),
                (CONNECTION, HeaderValue::from_static("Upgrade")),
                (SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_str(&protocols).unwrap()),
            ]);
            assert_eq!(Presented::in_protocol(&headers), want, "{protocols}");
        }
    }
}
