//! OpenAPI of custom resources: routes and definitions of one version of a CRD.
//!
//! Contract: the CRD's schema as apiextensions-apiserver publishes it. v3 shows it whole, with `x-kubernetes-` extensions
//! and defaults; v2 leaves out what kubectl's old parser cannot read. Metadata, list and scale refer to built-in types.
//! Fewer media types and options are told of than are served, as upstream does.

mod structural;

use triptych_object::{Object, Value};

use self::structural::{flag, structural};
use super::definition::{Dialect, text};
use super::operation::{self, MediaTypes, Payload, Route};
use super::parameter::{self, Parameter};
use super::v3::Info;
use super::{Describe, naming};
use crate::types::Kind;

/// One served version of an established CRD.
#[derive(Clone, Copy, Debug)]
pub struct CustomVersion<'a> {
    /// `spec.group`.
    pub group: &'a str,
    /// `spec.versions[].name`.
    pub version: &'a str,
    /// `spec.names.kind`.
    pub kind: &'a str,
    /// `spec.names.listKind`.
    pub list_kind: &'a str,
    /// `spec.names.plural`.
    pub plural: &'a str,
    /// `spec.scope` is `Namespaced`.
    pub namespaced: bool,
    /// `openAPIV3Schema`; none when there is none or it is not structural.
    pub schema: Option<&'a Value>,
    /// `spec.preserveUnknownFields`.
    pub preserve_unknown: bool,
    /// Has `/status`.
    pub status: bool,
    /// Has `/scale`.
    pub scale: bool,
    /// `selectableFields`, their JSON paths.
    pub selectable: &'a [&'a str],
}

/// `info` of the documents of custom resources.
pub const INFO: Info<'static> = Info {
    title: "Kubernetes CRD Swagger",
    version: "v0.1.0",
    security: false,
};

const WRITTEN: MediaTypes = &["application/json", "application/yaml"];
const PATCHES: MediaTypes = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
];
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";
const CONVENTIONS: &str = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";

impl CustomVersion<'_> {
    /// OpenAPI name of the objects: the group's parts reversed, version, kind.
    pub fn type_name(&self) -> String {
        self.name(self.kind)
    }

    fn name(&self, kind: &str) -> String {
        let mut parts: Vec<&str> = self.group.split('.').rev().collect();
        parts.extend([self.version, kind]);
        parts.join(".")
    }

    /// The routes of the resource and its subresources.
    pub fn routes(&self) -> Vec<Route> {
        let object = Payload::Type(self.type_name().into());
        let list = Payload::Type(self.name(self.list_kind).into());
        let mut routes = vec![self.list(false, list.clone())];
        if self.namespaced {
            routes.push(self.list(true, list));
        }
        routes.push(self.create(object.clone()));
        routes.push(self.delete_collection());
        routes.extend(self.item("", object.clone()));
        routes.push(self.delete());
        if self.status {
            routes.extend(self.item("status", object));
        }
        if self.scale {
            routes.extend(self.item("scale", Payload::Type(SCALE.into())));
        }
        routes
    }

    /// Definitions of the kind and of its list, sorted by name.
    pub fn definitions(&self, dialect: Dialect, texts: &dyn Describe) -> Vec<(String, Value)> {
        let mut out = vec![
            (self.type_name(), self.object(dialect, texts)),
            (self.name(self.list_kind), self.list_object(dialect, texts)),
        ];
        out.sort_by(|a, b| a.0.cmp(&b.0));
        out
    }

    fn route(&self, method: &'static str, action: &'static str, verb: &str, item: Option<&str>) -> Route {
        let namespace = if self.namespaced { "namespaces/{namespace}/" } else { "" };
        let mut path = format!(
            "{}/{namespace}{}",
            operation::root(self.group, self.version),
            self.plural
        );
        let mut parameters = vec![parameter::pretty()];
        if self.namespaced {
            parameters.push(parameter::namespace());
        }
        let sub = item.unwrap_or_default();
        if item.is_some() {
            path.push_str("/{name}");
            parameters.push(Parameter::path("name", format!("name of the {}", self.kind).into()));
        }
        if !sub.is_empty() {
            path = format!("{path}/{sub}");
        }
        let namespaced = if self.namespaced { "Namespaced" } else { "" };
        let name = format!("{verb}{namespaced}{}{}", self.kind, naming::title(sub));
        let (operation_id, tag) = naming::operation_id_and_tag(&name, &path);
        Route {
            method,
            path,
            description: self.sentence(verb, sub),
            operation_id,
            tag,
            action: Some(action),
            kind: Some(Kind {
                group: self.group.to_owned().into(),
                version: self.version.to_owned().into(),
                kind: self.kind.to_owned().into(),
            }),
            parameters,
            body: None,
            consumes: WRITTEN,
            produces: WRITTEN,
            responses: Vec::new(),
        }
    }

    fn sentence(&self, verb: &str, sub: &str) -> String {
        let of = if sub.is_empty() {
            String::new()
        } else {
            format!(" {sub} of")
        };
        let (verb, noun) = match verb {
            "list" => (verb, " objects of kind "),
            "read" | "replace" => (verb, " the specified "),
            "patch" => ("partially update", " the specified "),
            "deletecollection" => ("delete collection of", " "),
            _ => (verb, naming::article(self.kind)),
        };
        format!("{verb}{of}{noun}{}", self.kind)
    }

    fn list(&self, all_namespaces: bool, payload: Payload) -> Route {
        let mut route = self.route("get", "list", "list", None);
        if all_namespaces {
            route.path = format!("{}/{}", operation::root(self.group, self.version), self.plural);
            route.parameters.retain(|p| p.name != "namespace");
            let name = format!("list{}ForAllNamespaces", self.kind);
            (route.operation_id, route.tag) = naming::operation_id_and_tag(&name, &route.path);
        }
        route.parameters.extend(parameter::list_options(true));
        route.responses = vec![(200, "OK", payload)];
        route
    }

    fn create(&self, payload: Payload) -> Route {
        let mut route = self.route("post", "post", "create", None);
        route.parameters.extend(parameter::create_options());
        route.body = Some((payload.clone(), true));
        route.responses = vec![
            (200, "OK", payload.clone()),
            (201, "Created", payload.clone()),
            (202, "Accepted", payload),
        ];
        route
    }

    fn delete_collection(&self) -> Route {
        let mut route = self.route("delete", "deletecollection", "deletecollection", None);
        route.parameters.extend(parameter::list_options(true));
        route.responses = vec![(200, "OK", status())];
        route
    }

    fn delete(&self) -> Route {
        let mut route = self.route("delete", "delete", "delete", Some(""));
        route.parameters.extend(parameter::delete_options());
        route.body = Some((Payload::Type(format!("{META}.DeleteOptions").into()), false));
        route.responses = vec![(200, "OK", status()), (202, "Accepted", status())];
        route
    }

    /// Reading and writing one object or a subresource of it.
    fn item(&self, sub: &str, payload: Payload) -> [Route; 3] {
        let mut get = self.route("get", "get", "read", Some(sub));
        get.parameters.push(parameter::resource_version());
        get.responses = vec![(200, "OK", payload.clone())];
        let mut put = self.route("put", "put", "replace", Some(sub));
        put.parameters.extend(parameter::create_options());
        put.body = Some((payload.clone(), true));
        put.responses = vec![(200, "OK", payload.clone()), (201, "Created", payload.clone())];
        let mut patch = self.route("patch", "patch", "patch", Some(sub));
        patch.parameters.extend(parameter::patch_options());
        patch.body = Some((Payload::Type(format!("{META}.Patch").into()), true));
        patch.consumes = PATCHES;
        patch.responses = vec![(200, "OK", payload)];
        [get, put, patch]
    }

    fn object(&self, dialect: Dialect, texts: &dyn Describe) -> Value {
        let opaque = |schema: &Value| self.preserve_unknown || flag(schema, "x-kubernetes-preserve-unknown-fields");
        let mut out = match self.schema {
            None => Value::from([("type", text("object"))]),
            // not even metadata may be told of, or kubectl takes every other field for unknown
            Some(schema) if dialect == Dialect::V2 && opaque(schema) => Value::from([("type", text("object"))]),
            Some(schema) => {
                let mut out = structural(schema, dialect);
                embed(&mut out, dialect);
                let metadata = reference(dialect, "ObjectMeta", &metadata_text());
                set_property(&mut out, "metadata", metadata);
                set_type_meta(&mut out, texts);
                out
            }
        };
        self.finish(&mut out, self.kind);
        out
    }

    fn list_object(&self, dialect: Dialect, texts: &dyn Describe) -> Value {
        let mut out = Value::from([
            (
                "description",
                text(&format!("{} is a list of {}", self.list_kind, self.kind)),
            ),
            ("type", text("object")),
            ("required", Value::Array(vec![text("items")])),
        ]);
        let items = Value::from([
            (
                "description",
                text(&format!("List of {}. More info: {CONVENTIONS}", self.plural)),
            ),
            ("type", text("array")),
            ("items", dialect.reference(&self.type_name())),
        ]);
        set_property(&mut out, "items", items);
        set_property(
            &mut out,
            "metadata",
            reference(dialect, "ListMeta", &list_metadata_text()),
        );
        set_type_meta(&mut out, texts);
        self.finish(&mut out, self.list_kind);
        out
    }

    fn finish(&self, out: &mut Value, kind: &str) {
        let kind = Value::from([
            ("group", text(self.group)),
            ("kind", text(kind)),
            ("version", text(self.version)),
        ]);
        out.set_at(&["x-kubernetes-group-version-kind"], Value::Array(vec![kind]));
        if !self.selectable.is_empty() {
            let fields = self.selectable.iter().map(|path| {
                let path = path.strip_prefix('.').unwrap_or(path);
                Value::from([("fieldPath", text(path))])
            });
            out.set_at(&["x-kubernetes-selectable-fields"], Value::Array(fields.collect()));
        }
        if let Some(properties) = out.get_mut("properties").and_then(Value::as_object_mut) {
            properties.sort();
        }
    }
}

/// A type whose `apiVersion` and `kind` are described as everywhere.
const POD: &str = "io.k8s.api.core.v1.Pod";

fn metadata_text() -> String {
    format!("Standard object's metadata. More info: {CONVENTIONS}#metadata")
}

fn list_metadata_text() -> String {
    format!("Standard list metadata. More info: {CONVENTIONS}#types-kinds")
}

fn status() -> Payload {
    Payload::Type(format!("{META}.Status").into())
}

/// Tells of `apiVersion`, `kind` and `metadata` where a whole object is embedded.
fn embed(schema: &mut Value, dialect: Dialect) {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.iter_mut().for_each(|(_, p)| embed(p, dialect));
    }
    for name in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(name).filter(|s| s.as_object().is_some()) {
            embed(inner, dialect);
        }
    }
    let preserves = flag(schema, "x-kubernetes-preserve-unknown-fields");
    if !flag(schema, "x-kubernetes-embedded-resource") || preserves && dialect == Dialect::V2 {
        return;
    }
    let described = |what: &str, more: &str| {
        let description = format!("{what} More info: {CONVENTIONS}#{more}");
        Value::from([("description", Value::String(description)), ("type", text("string"))])
    };
    let api_version = "apiVersion defines the versioned schema of this representation of an object.";
    let kind = "kind is a string value representing the type of this object. In CamelCase.";
    set_property(schema, "apiVersion", described(api_version, "resources"));
    set_property(schema, "kind", described(kind, "types-kinds"));
    let metadata = reference(dialect, "ObjectMeta", &metadata_text());
    set_property(schema, "metadata", metadata);
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.sort();
    }
    let mut required = schema.array_at(&["required"]).to_vec();
    for name in ["kind", "apiVersion"] {
        if !required.iter().any(|r| r.as_str() == Some(name)) {
            required.push(text(name));
        }
    }
    schema.set_at(&["required"], Value::Array(required));
}

fn reference(dialect: Dialect, kind: &str, description: &str) -> Value {
    let target = dialect.reference(&format!("{META}.{kind}"));
    match (dialect, target.get("$ref")) {
        (Dialect::V2, Some(name)) => Value::from([("description", text(description)), ("$ref", name.clone())]),
        _ => Value::from([
            ("description", text(description)),
            ("allOf", Value::Array(vec![target])),
        ]),
    }
}

fn set_property(schema: &mut Value, name: &str, property: Value) {
    schema.set_at(&["properties", name], property);
}

fn set_type_meta(schema: &mut Value, texts: &dyn Describe) {
    for name in ["apiVersion", "kind"] {
        let mut property = Object::with_capacity(2);
        if let Some(description) = texts.field(POD, name) {
            property.insert("description", text(description));
        }
        property.insert("type", text("string"));
        set_property(schema, name, Value::Object(property));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_object::json;

    fn widget(schema: &Value) -> CustomVersion<'_> {
        CustomVersion {
            group: "example.com",
            version: "v1",
            kind: "Widget",
            list_kind: "WidgetList",
            plural: "widgets",
            namespaced: true,
            schema: Some(schema),
            preserve_unknown: false,
            status: true,
            scale: false,
            selectable: &[".spec.color"],
        }
    }

    fn parse(text: &str) -> Value {
        json::from_slice(text.as_bytes()).unwrap()
    }

    fn published(schema: &str, dialect: Dialect) -> Value {
        structural(&parse(schema), dialect)
    }

    #[test]
    fn routes_name_the_kind_and_its_group() {
        let schema = Value::object();
        let routes = widget(&schema).routes();
        let ids: Vec<&str> = routes.iter().map(|r| r.operation_id.as_str()).collect();
        assert_eq!(
            ids,
            [
                "listExampleComV1NamespacedWidget",
                "listExampleComV1WidgetForAllNamespaces",
                "createExampleComV1NamespacedWidget",
                "deleteExampleComV1CollectionNamespacedWidget",
                "readExampleComV1NamespacedWidget",
                "replaceExampleComV1NamespacedWidget",
                "patchExampleComV1NamespacedWidget",
                "deleteExampleComV1NamespacedWidget",
                "readExampleComV1NamespacedWidgetStatus",
                "replaceExampleComV1NamespacedWidgetStatus",
                "patchExampleComV1NamespacedWidgetStatus",
            ]
        );
        assert_eq!(routes[0].tag, "exampleCom_v1");
    }

    #[test]
    fn the_kind_gets_metadata_and_its_selectable_fields() {
        let schema = parse(r#"{"type":"object","properties":{"spec":{"type":"object"}}}"#);
        let definitions = widget(&schema).definitions(Dialect::V3, &());
        assert_eq!(definitions[0].0, "com.example.v1.Widget");
        assert_eq!(
            json::to_string(&definitions[0].1),
            r##"{"type":"object","properties":{"apiVersion":{"type":"string"},"kind":{"type":"string"},"metadata":{"description":"Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata","allOf":[{"$ref":"#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}]},"spec":{"type":"object"}},"x-kubernetes-group-version-kind":[{"group":"example.com","kind":"Widget","version":"v1"}],"x-kubernetes-selectable-fields":[{"fieldPath":"spec.color"}]}"##
        );
    }

    #[test]
    fn an_embedded_resource_shows_its_type_and_metadata() {
        let mut schema = published(
            r#"{"type":"object","x-kubernetes-embedded-resource":true}"#,
            Dialect::V3,
        );
        embed(&mut schema, Dialect::V3);
        assert_eq!(schema.array_at(&["required"]).len(), 2);
        assert!(schema.at(&["properties", "metadata", "allOf"]).is_some());
    }
}
