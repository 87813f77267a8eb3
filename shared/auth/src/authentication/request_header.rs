//! The user that an authenticating front proxy asserts in headers.
//!
//! Contract: only called for a connection whose certificate is an allowed front proxy's. Header names are configured;
//! their values are taken as they are, the keys of extras are lower-cased and percent-decoded as kube-apiserver does it.

use http::{HeaderMap, HeaderName, HeaderValue};
use triptych_object::UserInfo;

/// Names of the headers that carry the user.
#[derive(Clone, Debug)]
pub struct RequestHeaders {
    /// `--requestheader-username-headers`; the first that is set counts.
    pub username: Vec<HeaderName>,
    /// `--requestheader-uid-headers`; the first that is set counts.
    pub uid: Vec<HeaderName>,
    /// `--requestheader-group-headers`; all count.
    pub group: Vec<HeaderName>,
    /// `--requestheader-extra-headers-prefix`, lower case; all count.
    pub extra_prefixes: Vec<String>,
}

impl RequestHeaders {
    /// The asserted user; `None` if no header names one.
    pub fn user(&self, headers: &HeaderMap) -> Option<UserInfo> {
        let name = first(headers, &self.username)?;
        let mut user = UserInfo {
            name,
            uid: first(headers, &self.uid).unwrap_or_default(),
            ..UserInfo::default()
        };
        for group in self.group.iter().flat_map(|g| headers.get_all(g)) {
            if !group.is_empty() {
                user.groups.push(text(group));
            }
        }
        for prefix in &self.extra_prefixes {
            for (header, value) in headers {
                if let Some(key) = header.as_str().strip_prefix(prefix.as_str()) {
                    user.extra.entry(unescape(key)).or_default().push(text(value));
                }
            }
        }
        Some(user)
    }

    /// True for a header that asserts part of an identity; nobody else's may travel on.
    pub fn is_identity(&self, header: &HeaderName) -> bool {
        let names = [&self.username, &self.uid, &self.group];
        names.iter().any(|n| n.contains(header))
            || self
                .extra_prefixes
                .iter()
                .any(|p| header.as_str().starts_with(p.as_str()))
    }
}

impl Default for RequestHeaders {
    /// `X-Remote-User`, `X-Remote-Uid`, `X-Remote-Group`, `X-Remote-Extra-`.
    fn default() -> Self {
        RequestHeaders {
            username: vec![HeaderName::from_static("x-remote-user")],
            uid: vec![HeaderName::from_static("x-remote-uid")],
            group: vec![HeaderName::from_static("x-remote-group")],
            extra_prefixes: vec!["x-remote-extra-".to_owned()],
        }
    }
}

fn first(headers: &HeaderMap, names: &[HeaderName]) -> Option<String> {
    names
        .iter()
        .filter_map(|n| headers.get(n))
        .find(|v| !v.is_empty())
        .map(text)
}

/// Header values are bytes to HTTP and text to Kubernetes.
fn text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

/// Percent-decodes an extra's key; a malformed one is kept as it was sent.
fn unescape(key: &str) -> String {
    if !key.contains('%') {
        return key.to_owned();
    }
    let mut out = Vec::with_capacity(key.len());
    let mut bytes = key.bytes();
    while let Some(b) = bytes.next() {
        if b != b'%' {
            out.push(b);
            continue;
        }
        let mut digit = || bytes.next().and_then(|d| char::from(d).to_digit(16));
        match (digit(), digit()) {
            (Some(high), Some(low)) => out.push((high << 4 | low) as u8),
            _ => return key.to_owned(),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (k, v) in pairs {
            map.append(
                HeaderName::from_bytes(k.as_bytes()).unwrap(),
                HeaderValue::from_bytes(v.as_bytes()).unwrap(),
            );
        }
        map
    }

    #[test]
    fn a_user_is_read_from_all_its_headers() {
        let user = RequestHeaders::default()
            .user(&headers(&[
                ("X-Remote-User", "ann"),
                ("X-Remote-Uid", "7"),
                ("X-Remote-Group", "a"),
                ("x-remote-group", ""),
                ("X-REMOTE-GROUP", "b,c"),
                ("X-Remote-Extra-Scopes", "x"),
                ("X-Remote-Extra-Scopes", "y"),
                ("X-Remote-Extra-Acme.com%2FProject", "p"),
            ]))
            .unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("ann", "7"));
        assert_eq!(user.groups, ["a", "b,c"]);
        assert_eq!(user.extra["scopes"], ["x", "y"]);
        assert_eq!(user.extra["acme.com/project"], ["p"]);
    }

    #[test]
    fn without_a_name_nothing_is_asserted() {
        let none = headers(&[("X-Remote-User", ""), ("X-Remote-Group", "system:masters")]);
        assert_eq!(RequestHeaders::default().user(&none), None);
    }

    #[test]
    fn a_malformed_extra_key_is_kept_as_sent() {
        for (sent, key) in [("a%2", "a%2"), ("a%zz", "a%zz"), ("a%2fb", "a/b"), ("%", "%")] {
            assert_eq!(unescape(sent), key);
        }
    }

    #[test]
    fn identity_headers_are_known_by_name_and_prefix() {
        let names = RequestHeaders::default();
        for (header, is) in [
            ("x-remote-user", true),
            ("x-remote-extra-", true),
            ("x-remote-extra-a", true),
            ("x-remote-users", false),
            ("authorization", false),
        ] {
            assert_eq!(names.is_identity(&HeaderName::from_static(header)), is, "{header}");
        }
    }
}
