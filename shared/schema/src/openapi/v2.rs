//! The OpenAPI v2 (Swagger) document, which is one for all group-versions of all tiers.
//!
//! Contract: parts are kept as JSON text, so that a tier adds its own to those of the next tier's document without
//! building either as a tree. Parameters that do not depend on the kind stand once, under a name with a hash.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE;
use triptych_object::{Object, Value, json};

use super::definition::{Definitions, Dialect, kind_value, text};
use super::members::{NoObject, members};
use super::operation::{self, Payload, Route};
use super::parameter::{Parameter, Place};
use super::v3::{Info, Members, payloads};

/// A document in parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swagger {
    paths: BTreeMap<String, Vec<u8>>,
    definitions: BTreeMap<String, Vec<u8>>,
    parameters: BTreeMap<String, Vec<u8>>,
}

impl Swagger {
    /// Adds routes with every type they refer to; `more` are definitions besides.
    pub fn add(&mut self, definitions: &Definitions<'_>, routes: &[Route], more: &[(String, Value)]) {
        let mut sorted: Vec<&Route> = routes.iter().collect();
        sorted.sort_by(|a, b| a.path.cmp(&b.path));
        for routes in sorted.chunk_by(|a, b| a.path == b.path) {
            let item = self.path_item(routes);
            self.paths.insert(routes[0].path.clone(), json::to_vec(&item));
        }
        for (name, schema) in more {
            self.definitions.insert(name.clone(), json::to_vec(schema));
        }
        for name in definitions.closure(routes.iter().flat_map(payloads)) {
            if let Entry::Vacant(place) = self.definitions.entry(name.to_string())
                && let Some(schema) = definitions.definition(&name)
            {
                place.insert(json::to_vec(&schema));
            }
        }
    }

    /// Adds a definition with those it refers to, although no route uses it.
    pub fn add_types<'n>(&mut self, definitions: &Definitions<'_>, names: impl IntoIterator<Item = &'n str>) {
        for name in definitions.closure(names) {
            if let Some(schema) = definitions.definition(&name) {
                self.definitions
                    .entry(name.to_string())
                    .or_insert_with(|| json::to_vec(&schema));
            }
        }
    }

    /// Adds what another document has and this one has not.
    pub fn merge(&mut self, document: &[u8]) -> Result<(), NoObject> {
        for (name, value) in members(document)? {
            let part = match name {
                "paths" => &mut self.paths,
                "definitions" => &mut self.definitions,
                "parameters" => &mut self.parameters,
                _ => continue,
            };
            for (name, value) in members(value)? {
                if !part.contains_key(name) {
                    part.insert(name.to_owned(), value.to_vec());
                }
            }
        }
        Ok(())
    }

    /// The whole document.
    pub fn to_json(&self, info: Info<'_>) -> Vec<u8> {
        let parts = [&self.paths, &self.definitions, &self.parameters];
        let size: usize = parts
            .iter()
            .flat_map(|p| p.iter())
            .map(|(k, v)| k.len() + v.len() + 4)
            .sum();
        let mut out = Vec::with_capacity(size + 512);
        out.extend_from_slice(br#"{"swagger":"2.0","info":"#);
        json::write(
            &mut out,
            &Value::from([("title", text(info.title)), ("version", text(info.version))]),
        );
        for (name, part) in [("paths", parts[0]), ("definitions", parts[1]), ("parameters", parts[2])] {
            out.extend_from_slice(format!(r#","{name}":{{"#).as_bytes());
            let mut members = Members::new(&mut out);
            for (name, value) in part {
                members.put_text(name, value);
            }
            out.push(b'}');
        }
        if info.security {
            out.extend_from_slice(
                br#","securityDefinitions":{"BearerToken":{"description":"Bearer Token authentication","type":"apiKey","name":"authorization","in":"header"}},"security":[{"BearerToken":[]}]"#,
            );
        }
        out.push(b'}');
        out
    }

    fn path_item(&mut self, routes: &[&Route]) -> Value {
        let common = operation::common(routes);
        let mut item = Object::with_capacity(routes.len() + 1);
        for method in ["get", "put", "post", "delete", "options", "head", "patch"] {
            if let Some(route) = routes.iter().find(|r| r.method == method) {
                let operation = self.operation(route, &common);
                item.insert(method, operation);
            }
        }
        if !common.is_empty() {
            let common = common.iter().map(|p| self.parameter(p)).collect();
            item.insert("parameters", Value::Array(common));
        }
        Value::Object(item)
    }

    fn operation(&mut self, route: &Route, common: &[&Parameter]) -> Value {
        let mut out = Object::with_capacity(10);
        out.insert("description", text(&route.description));
        if !route.consumes.is_empty() {
            out.insert("consumes", texts(route.consumes));
        }
        out.insert("produces", texts(route.produces));
        out.insert("schemes", texts(&["https"]));
        out.insert("tags", Value::Array(vec![text(&route.tag)]));
        out.insert("operationId", text(&route.operation_id));
        let mut parameters: Vec<Value> = Vec::new();
        if let Some((body, required)) = &route.body {
            parameters.push(self.body(body, *required));
        }
        parameters.extend(operation::own(route, common).into_iter().map(|p| self.parameter(p)));
        if !parameters.is_empty() {
            out.insert("parameters", Value::Array(parameters));
        }
        let mut responses = Object::with_capacity(4);
        for (code, meaning, payload) in &route.responses {
            let response = [("description", text(meaning)), ("schema", schema(payload))];
            responses.insert(code.to_string(), Value::from(response));
        }
        responses.insert("401", Value::from([("description", text("Unauthorized"))]));
        out.insert("responses", Value::Object(responses));
        if let Some(action) = route.action {
            out.insert("x-kubernetes-action", text(action));
        }
        if let Some(kind) = &route.kind {
            out.insert("x-kubernetes-group-version-kind", kind_value(kind, true));
        }
        Value::Object(out)
    }

    fn body(&mut self, payload: &Payload, required: bool) -> Value {
        let mut out = Object::with_capacity(4);
        out.insert("name", text("body"));
        out.insert("in", text("body"));
        if required {
            out.insert("required", Value::Bool(true));
        }
        out.insert("schema", schema(payload));
        let out = Value::Object(out);
        match payload {
            Payload::Type(name) if name.starts_with("io.k8s.apimachinery") => self.share("body", out),
            _ => out,
        }
    }

    fn parameter(&mut self, p: &Parameter) -> Value {
        let mut out = Object::with_capacity(6);
        out.insert("uniqueItems", Value::Bool(true));
        out.insert("type", text(p.kind));
        if !p.description.is_empty() {
            out.insert("description", text(&p.description));
        }
        out.insert("name", text(&p.name));
        out.insert("in", text(if p.place == Place::Path { "path" } else { "query" }));
        if p.place == Place::Path {
            out.insert("required", Value::Bool(true));
        }
        let out = Value::Object(out);
        // kubectl before 1.27 looks for the last two in operations; the first names the kind
        match &*p.name {
            "name" | "fieldValidation" | "dryRun" => out,
            name => self.share(name, out),
        }
    }

    fn share(&mut self, name: &str, parameter: Value) -> Value {
        let body = json::to_vec(&parameter);
        let hash = URL_SAFE.encode(&fnv64(&body).to_be_bytes()[..6]);
        let name = format!("{name}-{hash}");
        let reference = Value::from([("$ref", text(&format!("#/parameters/{name}")))]);
        self.parameters.entry(name).or_insert(body);
        reference
    }
}

fn schema(payload: &Payload) -> Value {
    match payload {
        Payload::Type(name) => Dialect::V2.reference(name),
        Payload::Text => Value::from([("type", text("string"))]),
    }
}

fn texts(list: &[&str]) -> Value {
    Value::Array(list.iter().map(|s| text(s)).collect())
}

/// FNV-1, 64 bits.
fn fnv64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        hash.wrapping_mul(0x0000_0100_0000_01b3) ^ u64::from(*byte)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_parameter_is_named_as_kube_openapi_names_it() {
        let mut swagger = Swagger::default();
        let reference = swagger.parameter(&Parameter {
            name: "labelSelector".into(),
            place: Place::Query,
            kind: "string",
            description: "A selector to restrict the list of returned objects by their labels. Defaults to everything."
                .into(),
        });
        assert_eq!(reference.str_at(&["$ref"]), "#/parameters/labelSelector-5Zw57w4C");
    }

    #[test]
    fn the_first_document_wins_where_two_say_the_same() {
        let mut swagger = Swagger::default();
        let document = br#"{"swagger":"2.0","paths":{"/a":{"get":{}}},"definitions":{"A":{"type":"object"}}}"#;
        swagger.merge(document).unwrap();
        swagger
            .merge(br#"{"paths":{"/a":{},"/b":{}},"parameters":{"p":{}}}"#)
            .unwrap();
        let info = Info {
            security: false,
            ..Info::KUBERNETES
        };
        assert_eq!(
            String::from_utf8(swagger.to_json(info)).unwrap(),
            r#"{"swagger":"2.0","info":{"title":"Kubernetes","version":"1.36"},"paths":{"/a":{"get":{}},"/b":{}},"definitions":{"A":{"type":"object"}},"parameters":{"p":{}}}"#
        );
    }
}
