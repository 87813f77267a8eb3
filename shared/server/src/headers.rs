//! The header rules of forwarding: what is taken away, what is added.
//!
//! Contract (RFC 9110 section 7.6.1 and the design's section 3): hop-by-hop headers and those that `Connection` names are removed
//! *first*, so that naming a header there cannot remove what is added later; then credentials and inbound identity; then
//! the authenticated user is written. `Impersonate-*` and everything else travels on.

use http::header::{
    AUTHORIZATION, CONNECTION, EXPECT, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use triptych_object::UserInfo;

const REMOTE_USER: HeaderName = HeaderName::from_static("x-remote-user");
const REMOTE_UID: HeaderName = HeaderName::from_static("x-remote-uid");
const REMOTE_GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const REMOTE_EXTRA: &str = "x-remote-extra-";
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const BEARER_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// Removes hop-by-hop headers and those that `Connection` names. An upgrade's own headers are put back by who passes
/// the upgrade on.
pub fn remove_hop_by_hop(headers: &mut HeaderMap) {
    if headers.contains_key(CONNECTION) {
        let named: Vec<HeaderName> = headers
            .get_all(CONNECTION)
            .iter()
            .filter_map(|v| v.to_str().ok())
            .flat_map(|v| v.split(','))
            .filter_map(|name| name.trim().parse().ok())
            .collect();
        for name in named {
            headers.remove(name);
        }
        headers.remove(CONNECTION);
    }
    for name in [
        KEEP_ALIVE,
        PROXY_CONNECTION,
        PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION,
        TE,
        TRAILER,
        TRANSFER_ENCODING,
        UPGRADE,
    ] {
        headers.remove(name);
    }
}

/// Removes what only this tier may believe or say: credentials and identity headers.
pub fn remove_identity(headers: &mut HeaderMap) {
    headers.remove(AUTHORIZATION);
    if let Some(protocols) = headers.get(SEC_WEBSOCKET_PROTOCOL)
        && protocols
            .as_bytes()
            .windows(BEARER_PROTOCOL.len())
            .any(|w| w == BEARER_PROTOCOL.as_bytes())
    {
        let kept: Vec<String> = headers
            .get_all(SEC_WEBSOCKET_PROTOCOL)
            .iter()
            .filter_map(|v| v.to_str().ok())
            .flat_map(|v| v.split(','))
            .map(str::trim)
            .filter(|p| !p.starts_with(BEARER_PROTOCOL))
            .map(str::to_owned)
            .collect();
        headers.remove(SEC_WEBSOCKET_PROTOCOL);
        if let Ok(value) = kept.join(", ").parse()
            && !kept.is_empty()
        {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, value);
        }
    }
    remove_remote(headers);
}

/// Removes inbound `X-Remote-*`.
pub fn remove_remote(headers: &mut HeaderMap) {
    headers.remove(REMOTE_USER);
    headers.remove(REMOTE_UID);
    headers.remove(REMOTE_GROUP);
    if headers.keys().any(|n| n.as_str().starts_with(REMOTE_EXTRA)) {
        let extras: Vec<HeaderName> = headers
            .keys()
            .filter(|n| n.as_str().starts_with(REMOTE_EXTRA))
            .cloned()
            .collect();
        for name in extras {
            headers.remove(name);
        }
    }
}

/// Appends the address of the client that this tier saw.
pub fn append_forwarded_for(headers: &mut HeaderMap, peer: std::net::IpAddr) {
    let mut text = String::new();
    for earlier in headers.get_all(&FORWARDED_FOR) {
        if let Ok(earlier) = earlier.to_str() {
            text.push_str(earlier);
            text.push_str(", ");
        }
    }
    text.push_str(&peer.to_string());
    if let Ok(value) = text.parse() {
        headers.insert(FORWARDED_FOR, value);
    }
}

/// Removes what belongs to this connection's protocol; a length stays, it is the body's.
pub fn remove_connection_specific(headers: &mut HeaderMap) {
    headers.remove(HOST);
    headers.remove(EXPECT);
}

/// The identity headers of one user, ready to be written.
pub struct RemoteUser(Vec<(HeaderName, HeaderValue)>);

impl RemoteUser {
    /// The headers that say who `user` is; `None` if a header cannot say it (control characters), because saying
    /// something else would make them somebody else.
    pub fn new(user: &UserInfo) -> Option<RemoteUser> {
        let mut out = vec![(REMOTE_USER, value(&user.name)?)];
        if !user.uid.is_empty() {
            out.push((REMOTE_UID, value(&user.uid)?));
        }
        for group in &user.groups {
            out.push((REMOTE_GROUP, value(group)?));
        }
        for (key, values) in &user.extra {
            let name = HeaderName::try_from(format!("{REMOTE_EXTRA}{}", escape_key(key))).ok()?;
            for text in values {
                out.push((name.clone(), value(text)?));
            }
        }
        Some(RemoteUser(out))
    }

    /// Writes them; inbound ones must be removed before.
    pub fn write(&self, headers: &mut HeaderMap) {
        headers.reserve(self.0.len());
        for (name, value) in &self.0 {
            headers.append(name.clone(), value.clone());
        }
    }
}

fn value(text: &str) -> Option<HeaderValue> {
    // outer space would be taken off on the way
    let whole = text.trim_matches([' ', '\t']) == text;
    whole.then(|| HeaderValue::from_bytes(text.as_bytes()).ok()).flatten()
}

/// Percent-encodes what a header name cannot hold, as client-go's `headerKeyEscape`.
fn escape_key(key: &str) -> String {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&b);
    let mut out = String::with_capacity(key.len());
    for b in key.bytes() {
        if legal(b) {
            out.push(char::from(b));
        } else {
            out.push_str(&format!("%{b:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (k, v) in pairs {
            map.append(*k, v.parse().unwrap());
        }
        map
    }

    #[test]
    fn what_connection_names_goes_and_so_do_hop_by_hop_headers() {
        let mut h = map(&[
            ("connection", "close, X-Mine"),
            ("x-mine", "1"),
            ("keep-alive", "5"),
            ("te", "trailers"),
            ("accept", "x"),
        ]);
        remove_hop_by_hop(&mut h);
        assert_eq!(h, map(&[("accept", "x")]));
    }

    #[test]
    fn a_client_cannot_say_who_it_is_nor_unsay_what_we_say() {
        let mut h = map(&[
            ("connection", "x-remote-user"),
            ("x-remote-user", "admin"),
            ("x-remote-group", "system:masters"),
            ("x-remote-extra-scopes", "all"),
            ("authorization", "Bearer secret"),
            (
                "sec-websocket-protocol",
                "v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.c2VjcmV0",
            ),
            ("impersonate-user", "bob"),
        ]);
        remove_hop_by_hop(&mut h);
        remove_identity(&mut h);
        RemoteUser::new(&UserInfo::anonymous()).unwrap().write(&mut h);
        assert_eq!(
            h,
            map(&[
                ("sec-websocket-protocol", "v4.channel.k8s.io"),
                ("impersonate-user", "bob"),
                ("x-remote-user", "system:anonymous"),
                ("x-remote-group", "system:unauthenticated"),
            ])
        );
    }

    #[test]
    fn extra_keys_are_escaped_and_every_hop_adds_its_client() {
        let mut user = UserInfo::new("ünï", ["a", "b"]);
        user.extra.insert("acme.com/project".into(), vec!["p".into()]);
        let mut h = HeaderMap::new();
        RemoteUser::new(&user).unwrap().write(&mut h);
        assert_eq!(h["x-remote-extra-acme.com%2fproject"], "p");
        assert_eq!(h["x-remote-user"].as_bytes(), "ünï".as_bytes());
        append_forwarded_for(&mut h, [10, 0, 0, 1].into());
        append_forwarded_for(&mut h, [10, 0, 0, 2].into());
        assert_eq!(h["x-forwarded-for"], "10.0.0.1, 10.0.0.2");
        for name in ["ad\nmin", " admin", "ad\u{0}min"] {
            assert!(RemoteUser::new(&UserInfo::new(name, ["g"])).is_none());
        }
    }
}
