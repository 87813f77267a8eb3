//! The request line as kube-apiserver reads it, before anything else looks at the request.
//!
//! Contract: what Go's `net/http` refuses with `400 Bad Request` is refused here (broken percent escapes, a target that
//! is no path); an absolute-form target is reduced to its path; HTTP/1.1 needs exactly one `Host`.

use http::header::HOST;
use http::request::Parts;
use http::{Method, Version};
use triptych_object::request::decode_path;

/// The decoded path of a request; an error is what Go adds to its `400 Bad Request`.
pub fn path(parts: &Parts) -> Result<String, &'static str> {
    if parts.version <= Version::HTTP_11 && parts.version >= Version::HTTP_10 {
        let hosts = parts.headers.get_all(HOST).iter().count();
        if hosts > 1 {
            return Err(": too many Host headers");
        }
        if hosts == 0 && parts.version == Version::HTTP_11 {
            return Err(": missing required Host header");
        }
    }
    let path = parts.uri.path();
    if parts.method == Method::CONNECT || parts.uri.path_and_query().is_none() {
        return Err("");
    }
    if path == "*" {
        return if parts.method == Method::OPTIONS {
            Ok("*".to_owned())
        } else {
            Err("")
        };
    }
    if !path.starts_with('/') || !escapes_are_whole(path) {
        return Err("");
    }
    Ok(decode_path(path))
}

fn escapes_are_whole(path: &str) -> bool {
    let bytes = path.as_bytes();
    let mut escapes = bytes.iter().enumerate().filter(|(_, b)| **b == b'%');
    escapes.all(|(i, _)| {
        bytes
            .get(i + 1..i + 3)
            .is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit))
    })
}

#[cfg(test)]
mod tests {
    fn path(method: &str, uri: &str) -> Option<String> {
        let request = http::Request::builder()
            .method(method)
            .uri(uri)
            .header("host", "x")
            .body(())
            .unwrap();
        super::path(&request.into_parts().0).ok()
    }

    #[test]
    fn escapes_must_be_whole_and_targets_paths() {
        for (method, uri, want) in [
            ("GET", "/%61pi", Some("/api")),
            ("GET", "https://h/apis%2Fapps?x", Some("/apis/apps")),
            ("GET", "/%", None),
            ("GET", "/apis/%zz", None),
            ("GET", "/a%2", None),
            ("GET", "/apis/apps?%zz", Some("/apis/apps")),
            ("OPTIONS", "*", Some("*")),
            ("GET", "*", None),
            ("CONNECT", "h:443", None),
        ] {
            assert_eq!(path(method, uri).as_deref(), want, "{method} {uri}");
        }
    }
}
