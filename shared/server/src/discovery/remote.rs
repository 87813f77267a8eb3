//! What the server behind an APIService says of its resources, in either form of discovery.

use std::sync::Arc;

use bytes::Bytes;
use triptych_object::{Object, Value, json};
use triptych_registry::discovery::{Entry, Snapshot};
use triptych_registry::openapi;

use super::fetch::{AGGREGATED, Ask, Fetch, Fetched, JSON};

/// What was last heard of one server; its APIServices share it.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    etag: Option<String>,
    entries: Arc<Vec<Entry>>,
}

impl Heard {
    /// Text of the resources of a group-version; empty when the server does not have it.
    pub fn resources(&self, group: &str, version: &str) -> Bytes {
        let entry = self
            .entries
            .iter()
            .find(|e| &*e.group == group && &*e.version == version);
        entry.map_or_else(Bytes::new, |e| e.resources.clone())
    }
}

/// Asks for the aggregated document; from a server that has none, for that of the one group-version. An error leaves the
/// group-version stale, with what was heard before.
pub async fn discover(server: &dyn Fetch, group: &str, version: &str, before: &Heard) -> Result<Heard, String> {
    let ask = Ask {
        target: "/apis".into(),
        accept: AGGREGATED,
        etag: before.etag.clone(),
        wait: None,
    };
    match server.fetch(ask).await? {
        Fetched::NotModified => return Ok(before.clone()),
        Fetched::Refused(503) => return Err("the server answered 503".into()),
        Fetched::Document { kind, etag, body } if kind.contains("as=APIGroupDiscoveryList") => {
            let mut document = json::from_slice(&body).map_err(|e| e.to_string())?;
            fill_response_kinds(&mut document);
            return Ok(Heard {
                etag,
                entries: Arc::new(Snapshot::read(&document)),
            });
        }
        _ => {}
    }
    let target = match group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    };
    let ask = Ask {
        target: target.clone(),
        accept: JSON,
        ..Ask::default()
    };
    match server.fetch(ask).await? {
        Fetched::Document { body, .. } => {
            let list = json::from_slice(&body).map_err(|e| e.to_string())?;
            let resources = from_resource_list(&list)?;
            Ok(Heard {
                etag: None,
                entries: Arc::new(vec![Entry::current(group, version, &resources)]),
            })
        }
        Fetched::Refused(code) => Err(format!("{target} was answered with {code}")),
        Fetched::NotModified => Err(format!("{target} was answered with 304")),
    }
}

/// The OpenAPI v3 documents that a server has; empty when it has none.
pub async fn documents(server: &dyn Fetch) -> Result<Vec<(Arc<str>, String)>, String> {
    let ask = Ask {
        target: "/openapi/v3".into(),
        accept: JSON,
        ..Ask::default()
    };
    match server.fetch(ask).await? {
        Fetched::Document { body, .. } => Ok(openapi::read_index(&body).unwrap_or_default().into_iter().collect()),
        _ => Ok(Vec::new()),
    }
}

/// client-go 0.26.0 to 0.26.3 panics on a missing `responseKind`.
fn fill_response_kinds(document: &mut Value) {
    let groups = document.get_mut("items").and_then(Value::as_array_mut);
    let versions = groups
        .into_iter()
        .flatten()
        .filter_map(|g| g.get_mut("versions")?.as_array_mut());
    for version in versions.flatten() {
        let resources = version.get_mut("resources").and_then(Value::as_array_mut);
        for resource in resources.into_iter().flatten() {
            fill(resource);
            let subresources = resource.get_mut("subresources").and_then(Value::as_array_mut);
            subresources.into_iter().flatten().for_each(fill);
        }
    }
}

fn fill(resource: &mut Value) {
    if let Some(resource) = resource.as_object_mut()
        && resource.get("responseKind").is_none_or(Value::is_null)
    {
        resource.insert("responseKind", kind(None));
    }
}

fn kind(of: Option<&Value>) -> Value {
    let text = |name| Value::String(of.map_or("", |v| v.str_at(&[name])).to_owned());
    Value::from([
        ("group", text("group")),
        ("version", text("version")),
        ("kind", text("kind")),
    ])
}

/// Turns an APIResourceList's entries into aggregated discovery's. A subresource without its resource gets one.
fn from_resource_list(list: &Value) -> Result<Value, String> {
    let entries = list.array_at(&["resources"]);
    let mut resources: Vec<Object> = Vec::new();
    let scope = |entry: &Value| match entry.get("namespaced").and_then(Value::as_bool) {
        Some(true) => "Namespaced",
        _ => "Cluster",
    };
    let named = |entry: &Value| {
        entry
            .str_at(&["name"])
            .split_once('/')
            .map(|(r, s)| (r.to_owned(), s.to_owned()))
    };
    for entry in entries.iter().filter(|e| named(e).is_none()) {
        let mut out = Object::with_capacity(8);
        out.insert("resource", entry.get("name").cloned().unwrap_or_default());
        out.insert("responseKind", kind(Some(entry)));
        out.insert("scope", Value::String(scope(entry).into()));
        out.insert(
            "singularResource",
            entry
                .get("singularName")
                .cloned()
                .unwrap_or(Value::String(String::new())),
        );
        for name in ["verbs", "shortNames", "categories"] {
            if let Some(value) = entry.get(name).filter(|v| !v.is_null()) {
                out.insert(name, value.clone());
            }
        }
        resources.push(out);
    }
    for (entry, (resource, sub)) in entries.iter().filter_map(|e| Some((e, named(e)?))) {
        let is = |r: &Object| r.get("resource").and_then(Value::as_str) == Some(resource.as_str());
        let at = resources.iter().position(is).unwrap_or_else(|| {
            let mut parent = Object::with_capacity(4);
            parent.insert("resource", Value::String(resource.clone()));
            parent.insert("responseKind", kind(None));
            parent.insert("scope", Value::String(scope(entry).into()));
            parent.insert("singularResource", Value::String(String::new()));
            resources.push(parent);
            resources.len() - 1
        });
        let parent = &mut resources[at];
        if parent.get("scope").and_then(Value::as_str) != Some(scope(entry)) {
            return Err(format!("{resource} and its subresource {sub} differ in scope"));
        }
        let described = (!entry.str_at(&["kind"]).is_empty()).then_some(entry);
        let out = Value::from([
            ("subresource", Value::String(sub)),
            ("responseKind", kind(described)),
            ("verbs", entry.get("verbs").cloned().unwrap_or_default()),
        ]);
        match parent.get_mut("subresources").and_then(Value::as_array_mut) {
            Some(list) => list.push(out),
            None => drop(parent.insert("subresources", Value::Array(vec![out]))),
        }
    }
    Ok(Value::Array(resources.into_iter().map(Value::Object).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::BoxFuture;

    /// A server with these answers by target.
    struct Server(Vec<(&'static str, Fetched)>);

    impl Fetch for Server {
        fn fetch(&self, ask: Ask) -> BoxFuture<'_, Result<Fetched, String>> {
            let found = self.0.iter().find(|(target, _)| *target == ask.target);
            let answer = found.map_or(Fetched::Refused(404), |(_, answer)| answer.clone());
            Box::pin(std::future::ready(Ok(answer)))
        }
    }

    fn document(kind: &str, body: &'static str) -> Fetched {
        Fetched::Document {
            kind: kind.into(),
            etag: Some("\"1\"".into()),
            body: Bytes::from_static(body.as_bytes()),
        }
    }

    #[tokio::test]
    async fn a_server_with_plain_discovery_is_understood_too() {
        let list = r#"{"kind":"APIResourceList","resources":[{"name":"nodes","singularName":"","namespaced":false,"kind":"NodeMetrics","verbs":["get"]},{"name":"nodes/x","singularName":"","namespaced":false,"kind":"X","group":"g","version":"v","verbs":["create"]}]}"#;
        let server = Server(vec![
            ("/apis", document("application/json", r#"{"kind":"APIGroupList"}"#)),
            ("/apis/metrics.k8s.io/v1", document("application/json", list)),
        ]);
        let heard = discover(&server, "metrics.k8s.io", "v1", &Heard::default())
            .await
            .unwrap();
        assert_eq!(
            String::from_utf8(heard.resources("metrics.k8s.io", "v1").to_vec()).unwrap(),
            r#"[{"resource":"nodes","responseKind":{"group":"","version":"","kind":"NodeMetrics"},"scope":"Cluster","singularResource":"","verbs":["get"],"subresources":[{"subresource":"x","responseKind":{"group":"g","version":"v","kind":"X"},"verbs":["create"]}]}]"#
        );
    }

    #[tokio::test]
    async fn aggregated_discovery_is_taken_with_its_etag_and_missing_kinds_are_filled_in() {
        let list = r#"{"items":[{"metadata":{"name":"g"},"versions":[{"version":"v1","resources":[{"resource":"a"}],"freshness":"Current"}]}]}"#;
        let server = Server(vec![("/apis", document(AGGREGATED, list))]);
        let heard = discover(&server, "g", "v1", &Heard::default()).await.unwrap();
        assert_eq!(heard.etag.as_deref(), Some("\"1\""));
        assert_eq!(
            &heard.resources("g", "v1")[..],
            br#"[{"resource":"a","responseKind":{"group":"","version":"","kind":""}}]"#
        );
        assert!(heard.resources("g", "v2").is_empty());
    }

    #[tokio::test]
    async fn a_server_that_refuses_leaves_an_error() {
        let server = Server(vec![("/apis", Fetched::Refused(503))]);
        assert!(discover(&server, "g", "v1", &Heard::default()).await.is_err());
        assert!(discover(&Server(vec![]), "g", "v1", &Heard::default()).await.is_err());
    }
}
