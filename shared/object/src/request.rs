//! What a request is about, read from its method and path alone.
//!
//! Contract: equals k8s.io/apiserver's `RequestInfo`, odd corners included: an unknown method has an empty verb, a
//! `namespaces` path keeps its own subresources, `/watch/` prefixes name the verb, a GET without name is `list` or
//! `watch`, and a field selector `metadata.name=x` names the object for authorization.

use crate::gvk::{GroupResource, GroupVersion, Gvr};
use crate::selector::FieldSelector;

/// A request's subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// False for `/healthz`, `/apis`, `/openapi/v3` and the like.
    pub is_resource: bool,
    /// The path as sent, percent-decoded.
    pub path: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, `proxy`; the lower-case method for
    /// non-resource requests.
    pub verb: String,
    /// `api` or `apis`.
    pub prefix: String,
    /// Group, empty for core.
    pub group: String,
    /// Version.
    pub version: String,
    /// Empty for cluster-scoped and all-namespaces requests.
    pub namespace: String,
    /// Plural resource name.
    pub resource: String,
    /// Empty if none.
    pub subresource: String,
    /// Empty for collections.
    pub name: String,
    /// The path after the namespace: resource, name, subresource, and what a proxy subresource is given.
    pub parts: Vec<String>,
    /// `fieldSelector` as sent, for list, watch and deletecollection.
    pub field_selector: Option<String>,
    /// `labelSelector` as sent, likewise.
    pub label_selector: Option<String>,
}

impl RequestInfo {
    /// Reads method, decoded path and raw query. An error is a path that cannot be understood (400-like, Go's text).
    pub fn parse(method: &str, path: &str, query: &str) -> Result<RequestInfo, String> {
        let mut info = RequestInfo {
            path: path.to_owned(),
            verb: method.to_ascii_lowercase(),
            ..RequestInfo::default()
        };
        let trimmed = path.trim_matches('/');
        let mut parts: &[&str] = &if trimmed.is_empty() {
            Vec::new()
        } else {
            trimmed.split('/').collect::<Vec<_>>()
        };
        if parts.len() < 3 || !matches!(parts[0], "api" | "apis") {
            return Ok(info);
        }
        info.prefix = parts[0].to_owned();
        parts = &parts[1..];
        if info.prefix == "apis" {
            if parts.len() < 3 {
                return Ok(info);
            }
            info.group = parts[0].to_owned();
            parts = &parts[1..];
        }
        info.is_resource = true;
        info.version = parts[0].to_owned();
        parts = &parts[1..];

        let special = matches!(parts[0], "proxy" | "watch");
        if special {
            if parts.len() < 2 {
                let mark = if query.is_empty() { "" } else { "?" };
                return Err(format!(
                    "unable to determine kind and namespace from url, {path}{mark}{query}"
                ));
            }
            info.verb = parts[0].to_owned();
            parts = &parts[1..];
        } else {
            info.verb = match method {
                "POST" => "create",
                "GET" | "HEAD" => "get",
                "PUT" => "update",
                "PATCH" => "patch",
                "DELETE" => "delete",
                _ => "",
            }
            .to_owned();
        }
        if parts[0] == "namespaces" && parts.len() > 1 {
            info.namespace = parts[1].to_owned();
            if parts.len() > 2 && !matches!(parts[2], "status" | "finalize") {
                parts = &parts[2..];
            }
        }
        info.parts = parts.iter().map(|p| (*p).to_owned()).collect();
        if parts.len() >= 3 && info.verb != "proxy" {
            info.subresource = parts[2].to_owned();
        }
        if parts.len() >= 2 {
            info.name = parts[1].to_owned();
        }
        info.resource = parts[0].to_owned();

        if info.name.is_empty() && info.verb == "get" {
            info.verb = if watches(query) { "watch" } else { "list" }.to_owned();
            if let Some(name) = param(query, "fieldSelector")
                .and_then(|s| FieldSelector::parse(&s).ok())
                .and_then(|s| s.exact("metadata.name").map(str::to_owned))
                .filter(|n| crate::names::path_segment_name(n).is_empty())
            {
                info.name = name;
            }
        }
        if info.name.is_empty() && info.verb == "delete" {
            info.verb = "deletecollection".to_owned();
        }
        if !special && matches!(info.verb.as_str(), "list" | "watch" | "deletecollection") {
            info.field_selector = param(query, "fieldSelector");
            info.label_selector = param(query, "labelSelector");
        }
        Ok(info)
    }

    /// Group, version and resource.
    pub fn gvr(&self) -> Gvr {
        Gvr::new(self.group.as_str(), self.version.as_str(), self.resource.as_str())
    }

    /// Group and resource.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.group.as_str(), self.resource.as_str())
    }

    /// Group and version.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(self.group.as_str(), self.version.as_str())
    }

    /// True for verbs that change nothing.
    pub fn is_read_only(&self) -> bool {
        matches!(self.verb.as_str(), "get" | "list" | "watch")
    }
}

/// True if the query's `watch` parameter is set and not false, as Go's conversion reads it.
fn watches(query: &str) -> bool {
    param(query, "watch").is_some_and(|v| !matches!(v.to_ascii_lowercase().as_str(), "false" | "0"))
}

/// The first value of a query parameter, decoded.
pub fn param(query: &str, name: &str) -> Option<String> {
    params(query).find(|(k, _)| k == name).map(|(_, v)| v)
}

/// A query's parameters in order, decoded (`+` is a space). Go drops a pair with a bad escape or a semicolon.
pub fn params(query: &str) -> impl Iterator<Item = (String, String)> + '_ {
    query
        .split('&')
        .filter(|p| !p.is_empty() && !p.contains(';') && well_escaped(p))
        .map(|pair| {
            let (k, v) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(k, true), decode(v, true))
        })
}

/// Whether every `%` begins a byte in hex.
fn well_escaped(text: &str) -> bool {
    text.split('%').skip(1).all(|rest| {
        let mut digits = rest.bytes().take(2);
        digits.by_ref().filter(u8::is_ascii_hexdigit).count() == 2
    })
}

/// Percent-decodes a path; bytes that are no UTF-8 become replacement characters.
pub fn decode_path(path: &str) -> String {
    decode(path, false)
}

fn decode(s: &str, plus_is_space: bool) -> String {
    if !s.contains('%') && (!plus_is_space || !s.contains('+')) {
        return s.to_owned();
    }
    let hex = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
    let bytes = s.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            b'%' if i + 2 < bytes.len() => match (hex(bytes[i + 1]), hex(bytes[i + 2])) {
                (Some(h), Some(l)) => {
                    out.push(h << 4 | l);
                    i += 2;
                }
                _ => out.push(b'%'),
            },
            b'+' if plus_is_space => out.push(b' '),
            b => out.push(b),
        }
        i += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(method: &str, path: &str) -> RequestInfo {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        RequestInfo::parse(method, path, query).unwrap()
    }

    #[test]
    fn paths_are_read_as_kubernetes_reads_them() {
        // method, path, verb, group, version, namespace, resource, subresource, name
        for (m, p, want) in [
            ("GET", "/api/v1/pods", ["list", "", "v1", "", "pods", "", ""]),
            ("GET", "/api/v1/pods?watch=1", ["watch", "", "v1", "", "pods", "", ""]),
            (
                "GET",
                "/api/v1/pods?watch=false",
                ["list", "", "v1", "", "pods", "", ""],
            ),
            (
                "GET",
                "/api/v1/namespaces/a",
                ["get", "", "v1", "a", "namespaces", "", "a"],
            ),
            (
                "PUT",
                "/api/v1/namespaces/a/finalize",
                ["update", "", "v1", "a", "namespaces", "finalize", "a"],
            ),
            (
                "DELETE",
                "/api/v1/namespaces/a/pods",
                ["deletecollection", "", "v1", "a", "pods", "", ""],
            ),
            (
                "POST",
                "/api/v1/namespaces/a/pods/b/exec",
                ["create", "", "v1", "a", "pods", "exec", "b"],
            ),
            (
                "PATCH",
                "/apis/apps/v1/namespaces/a/deployments/b/scale",
                ["patch", "apps", "v1", "a", "deployments", "scale", "b"],
            ),
            (
                "GET",
                "/api/v1/watch/namespaces/a/pods/b",
                ["watch", "", "v1", "a", "pods", "", "b"],
            ),
            (
                "GET",
                "/api/v1/pods?fieldSelector=metadata.name%3Dx",
                ["list", "", "v1", "", "pods", "", "x"],
            ),
            ("OPTIONS", "/api/v1/pods", ["", "", "v1", "", "pods", "", ""]),
        ] {
            let i = info(m, p);
            let got = [
                &i.verb,
                &i.group,
                &i.version,
                &i.namespace,
                &i.resource,
                &i.subresource,
                &i.name,
            ];
            assert_eq!(got.map(String::as_str), want, "{m} {p}");
            assert!(i.is_resource);
        }
    }

    #[test]
    fn short_paths_are_no_resources() {
        for p in [
            "/",
            "/api",
            "/api/v1",
            "/apis/apps",
            "/apis/apps/v1",
            "/healthz",
            "/openapi/v3/api/v1",
        ] {
            assert!(!info("GET", p).is_resource, "{p}");
        }
        assert_eq!(info("GET", "/healthz").verb, "get");
    }

    #[test]
    fn a_watch_of_nothing_is_an_error_that_repeats_the_whole_url() {
        let error = RequestInfo::parse("GET", "/api/v1/watch", "timeoutSeconds=1").unwrap_err();
        assert_eq!(
            error,
            "unable to determine kind and namespace from url, /api/v1/watch?timeoutSeconds=1"
        );
    }
}
