//! OpenAPI v3 documents, as JSON text.

use triptych_object::{Object, Value, json};

use super::definition::{Definitions, Dialect, kind_value, text};
use super::operation::{self, Payload, Route};
use super::parameter::{Parameter, Place};

/// `info` of a document.
#[derive(Clone, Copy, Debug)]
pub struct Info<'a> {
    /// `title`.
    pub title: &'a str,
    /// `version`.
    pub version: &'a str,
    /// The document says how to authenticate.
    pub security: bool,
}

impl Info<'static> {
    /// Documents of built-in group-versions.
    pub const KUBERNETES: Info<'static> = Info {
        title: "Kubernetes",
        version: "1.36",
        security: true,
    };
}

/// Writes the document of these routes with every type they refer to; `more` are definitions besides, sorted by name.
pub fn document(info: Info<'_>, definitions: &Definitions<'_>, routes: &[Route], more: &[(String, Value)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 * 1024);
    out.extend_from_slice(br#"{"openapi":"3.0.0","info":"#);
    let head = Value::from([("title", text(info.title)), ("version", text(info.version))]);
    json::write(&mut out, &head);
    out.extend_from_slice(br#","paths":{"#);
    let mut sorted: Vec<&Route> = routes.iter().collect();
    sorted.sort_by(|a, b| a.path.cmp(&b.path));
    let mut members = Members::new(&mut out);
    for routes in sorted.chunk_by(|a, b| a.path == b.path) {
        members.put(&routes[0].path, &path_item(routes));
    }
    out.extend_from_slice(br#"},"components":{"#);
    let own = |name: &str| more.iter().any(|(n, _)| n == name);
    let used = more.iter().flat_map(|(_, schema)| references(schema));
    let roots: Vec<String> = routes
        .iter()
        .flat_map(payloads)
        .map(str::to_owned)
        .chain(used)
        .collect();
    let names = definitions.closure(roots.iter().map(String::as_str).filter(|n| !own(n)));
    if !names.is_empty() || !more.is_empty() {
        out.extend_from_slice(br#""schemas":{"#);
        let mut all: Vec<&str> = names
            .iter()
            .map(|n| &**n)
            .chain(more.iter().map(|(n, _)| &**n))
            .collect();
        all.sort_unstable();
        let mut members = Members::new(&mut out);
        for name in all {
            match more.iter().find(|(n, _)| n == name) {
                Some((_, schema)) => members.put(name, schema),
                None => members.put(name, &definitions.definition(name).unwrap_or_default()),
            }
        }
        out.push(b'}');
        if info.security {
            out.push(b',');
        }
    }
    if info.security {
        out.extend_from_slice(
            br#""securitySchemes":{"BearerToken":{"type":"apiKey","description":"Bearer Token authentication","name":"authorization","in":"header"}}"#,
        );
    }
    out.extend_from_slice(b"}}");
    out
}

/// Appends members to an object that was opened.
pub(super) struct Members<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl<'a> Members<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        Members { out, first: true }
    }

    pub(super) fn put(&mut self, name: &str, value: &Value) {
        self.name(name);
        json::write(self.out, value);
    }

    pub(super) fn put_text(&mut self, name: &str, value: &[u8]) {
        self.name(name);
        self.out.extend_from_slice(value);
    }

    fn name(&mut self, name: &str) {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        json::write_string(self.out, name);
        self.out.push(b':');
    }
}

/// Names of the types that a route's bodies have.
pub(super) fn payloads(route: &Route) -> impl Iterator<Item = &str> {
    let responses = route.responses.iter().map(|(.., p)| p);
    responses
        .chain(route.body.iter().map(|(p, _)| p))
        .filter_map(|p| match p {
            Payload::Type(name) => Some(&**name),
            Payload::Text => None,
        })
}

/// Names that a v3 schema refers to.
fn references(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut stack = vec![schema];
    while let Some(value) = stack.pop() {
        match value {
            Value::Object(o) => {
                for (name, value) in o.iter() {
                    match (name, value.as_str().and_then(|s| s.strip_prefix(Dialect::V3.prefix()))) {
                        ("$ref", Some(target)) => found.push(target.to_owned()),
                        _ => stack.push(value),
                    }
                }
            }
            Value::Array(list) => stack.extend(list),
            _ => {}
        }
    }
    found
}

fn path_item(routes: &[&Route]) -> Value {
    let common = operation::common(routes);
    let mut item = Object::with_capacity(routes.len() + 1);
    for method in ["get", "put", "post", "delete", "options", "head", "patch"] {
        if let Some(route) = routes.iter().find(|r| r.method == method) {
            item.insert(method, operation_value(route, &common));
        }
    }
    if !common.is_empty() {
        item.insert("parameters", parameters(&common));
    }
    Value::Object(item)
}

fn operation_value(route: &Route, common: &[&Parameter]) -> Value {
    let mut out = Object::with_capacity(8);
    out.insert("tags", Value::Array(vec![text(&route.tag)]));
    out.insert("description", text(&route.description));
    out.insert("operationId", text(&route.operation_id));
    let own = operation::own(route, common);
    if !own.is_empty() {
        out.insert("parameters", parameters(&own));
    }
    if let Some((body, required)) = &route.body {
        let mut request = Object::with_capacity(2);
        request.insert("content", content(route.consumes, body));
        if *required {
            request.insert("required", Value::Bool(true));
        }
        out.insert("requestBody", Value::Object(request));
    }
    let mut responses = Object::with_capacity(4);
    for (code, meaning, payload) in &route.responses {
        let response = [
            ("description", text(meaning)),
            ("content", content(route.produces, payload)),
        ];
        responses.insert(code.to_string(), Value::from(response));
    }
    responses.insert("401", Value::from([("description", text("Unauthorized"))]));
    out.insert("responses", Value::Object(responses));
    if let Some(action) = route.action {
        out.insert("x-kubernetes-action", text(action));
    }
    if let Some(kind) = &route.kind {
        out.insert("x-kubernetes-group-version-kind", kind_value(kind, false));
    }
    Value::Object(out)
}

fn content(media: &[&str], payload: &Payload) -> Value {
    let schema = match payload {
        Payload::Type(name) => Dialect::V3.reference(name),
        Payload::Text => Value::from([("type", text("string"))]),
    };
    let mut media: Vec<&str> = media.to_vec();
    media.sort_unstable();
    let content = media
        .into_iter()
        .map(|m| (m.to_owned(), Value::from([("schema", schema.clone())])));
    Value::Object(content.collect())
}

fn parameters(list: &[&Parameter]) -> Value {
    let list = list.iter().map(|p| {
        let mut out = Object::with_capacity(5);
        out.insert("name", text(&p.name));
        out.insert("in", text(if p.place == Place::Path { "path" } else { "query" }));
        if !p.description.is_empty() {
            out.insert("description", text(&p.description));
        }
        if p.place == Place::Path {
            out.insert("required", Value::Bool(true));
        }
        let schema = [("type", text(p.kind)), ("uniqueItems", Value::Bool(true))];
        out.insert("schema", Value::from(schema));
        Value::Object(out)
    });
    Value::Array(list.collect())
}
