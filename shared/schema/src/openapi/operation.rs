//! The routes of resources: which paths and methods a resource record stands for, and what OpenAPI says of each.
//!
//! Contract: kube-apiserver's paths, operation ids, tags and actions, the deprecated `watch/` paths included. A route
//! is the neutral form that both OpenAPI versions are written from.

use super::naming;
use super::parameter::{self, Parameter, Place};
use crate::resource::{Resource, Subresource, SubresourceForm};
use crate::types::{Kind, Name, Schema};

/// Media types, in the order documents list them.
pub type MediaTypes = &'static [&'static str];

/// What resources and discovery are written as.
pub const STRUCTURED: MediaTypes = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];
const STREAMED: MediaTypes = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
const LOGGED: MediaTypes = &[
    "text/plain",
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];
/// What PATCH reads.
pub const PATCHES: MediaTypes = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
/// Anything.
pub const ANY: MediaTypes = &["*/*"];

const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const WATCH_EVENT: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

/// What a body holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// The type with this OpenAPI name.
    Type(Name),
    /// Text.
    Text,
}

/// One path and method.
#[derive(Clone, Debug)]
pub struct Route {
    /// Lower case.
    pub method: &'static str,
    /// With `{name}`, `{namespace}`, `{path}`.
    pub path: String,
    /// One sentence.
    pub description: String,
    /// Unique among all routes.
    pub operation_id: String,
    /// Group-version or first path element.
    pub tag: String,
    /// `x-kubernetes-action`.
    pub action: Option<&'static str>,
    /// `x-kubernetes-group-version-kind`.
    pub kind: Option<Kind>,
    /// In path and query.
    pub parameters: Vec<Parameter>,
    /// The request's body and whether it must be there.
    pub body: Option<(Payload, bool)>,
    /// What it reads.
    pub consumes: MediaTypes,
    /// What it writes.
    pub produces: MediaTypes,
    /// Code, its name, what is in it.
    pub responses: Vec<(u16, &'static str, Payload)>,
}

impl Route {
    /// A GET that answers one thing, outside of resources. `operation` starts with its verb.
    pub fn document(
        path: &str,
        operation: &str,
        description: &str,
        payload: Payload,
        media: (MediaTypes, MediaTypes),
    ) -> Self {
        let (operation_id, tag) = naming::operation_id_and_tag(operation, path);
        Route {
            method: "get",
            path: path.to_owned(),
            description: description.to_owned(),
            operation_id,
            tag,
            action: None,
            kind: None,
            parameters: Vec::new(),
            body: None,
            consumes: media.0,
            produces: media.1,
            responses: vec![(200, "OK", payload)],
        }
    }
}

/// `/api/v1` or `/apis/<group>/<version>`.
pub fn root(group: &str, version: &str) -> String {
    match group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    }
}

/// Every route of a group-version, its discovery document first.
pub fn of_version<'a>(
    schema: &Schema,
    group: &str,
    version: &str,
    resources: impl IntoIterator<Item = &'a Resource>,
) -> Vec<Route> {
    let mut routes = vec![Route::document(
        &format!("{}/", root(group, version)),
        "getAPIResources",
        "get available resources",
        Payload::Type("io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList".into()),
        (STRUCTURED, STRUCTURED),
    )];
    let kinds = parameter::kinds(schema);
    for resource in resources {
        let mut add = |sub: Option<&Subresource>| {
            let builder = Builder {
                schema,
                kinds: &kinds,
                root: root(group, version),
                resource,
                sub,
            };
            builder.add_to(&mut routes);
        };
        add(None);
        resource.subresources.iter().for_each(|sub| add(Some(sub)));
    }
    routes
}

/// The document of a group: `/apis/<group>/`.
pub fn of_group(group: &str) -> Vec<Route> {
    vec![Route::document(
        &format!("/apis/{group}/"),
        "getAPIGroup",
        "get information of a group",
        Payload::Type("io.k8s.apimachinery.pkg.apis.meta.v1.APIGroup".into()),
        (STRUCTURED, STRUCTURED),
    )]
}

/// The document of paths that are no resources, by the name its OpenAPI document has; none for a name there is not.
pub fn of_root(name: &str) -> Option<Route> {
    let meta = |kind: &str| Payload::Type(format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}").into());
    let structured = (STRUCTURED, STRUCTURED);
    Some(match name {
        "api" => Route::document(
            "/api/",
            "getAPIVersions",
            "get available API versions",
            meta("APIVersions"),
            structured,
        ),
        "apis" => Route::document(
            "/apis/",
            "getAPIVersions",
            "get available API versions",
            meta("APIGroupList"),
            structured,
        ),
        "version" => Route::document(
            "/version/",
            "getCodeVersion",
            "get the version information for this server",
            Payload::Type("io.k8s.apimachinery.pkg.version.Info".into()),
            (&["application/json"], &["application/json"]),
        ),
        ".well-known/openid-configuration" => Route::document(
            "/.well-known/openid-configuration/",
            "getServiceAccountIssuerOpenIDConfiguration",
            "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
            Payload::Text,
            (&[], &["application/json"]),
        ),
        "openid/v1/jwks" => Route::document(
            "/openid/v1/jwks/",
            "getServiceAccountIssuerOpenIDKeyset",
            "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
            Payload::Text,
            (&[], &["application/jwk-set+json"]),
        ),
        _ => return None,
    })
}

/// Names of the documents that [`of_root`] knows.
pub const ROOTS: [&str; 5] = [
    ".well-known/openid-configuration",
    "api",
    "apis",
    "openid/v1/jwks",
    "version",
];

struct Builder<'a> {
    schema: &'a Schema,
    kinds: &'a parameter::Kinds<'a>,
    root: String,
    resource: &'a Resource,
    sub: Option<&'a Subresource>,
}

/// Which path of a resource.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    /// The collection, or an action of an object.
    Collection,
    /// One object, or a subresource of it.
    Item,
    /// Below one object: `/{path}`.
    Below,
    /// The collection in all namespaces.
    AllNamespaces,
}

impl Builder<'_> {
    fn add_to(&self, routes: &mut Vec<Route>) {
        let verbs = self.sub.map_or(self.resource.verbs, |s| s.verbs);
        let connects: &[Name] = match self.sub.map(|s| &s.form) {
            Some(SubresourceForm::Connect(methods)) => methods,
            _ => &[],
        };
        if !connects.is_empty() {
            for at in [At::Item, At::Below] {
                if at == At::Item || self.sub.is_some_and(|s| s.name == "proxy") {
                    routes.extend(connects.iter().filter_map(|m| self.connect(at, m)));
                }
            }
            return;
        }
        let collection = if self.sub.is_some() { At::Item } else { At::Collection };
        let has = |verb| verbs.contains(verb);
        if has("list") {
            routes.push(self.list(At::Collection));
        }
        if has("create") {
            routes.push(self.create(collection));
        }
        if has("deletecollection") {
            routes.push(self.delete_collection());
        }
        if has("list") && has("watch") {
            routes.push(self.watch_list(At::Collection));
        }
        if has("get") {
            routes.push(self.get());
        }
        if has("update") {
            routes.push(self.replace());
        }
        if has("patch") {
            routes.push(self.patch());
        }
        if has("delete") {
            routes.push(self.delete());
        }
        if has("watch") {
            routes.push(self.watch());
        }
        if self.resource.namespaced && has("list") {
            routes.push(self.list(At::AllNamespaces));
            if has("watch") {
                routes.push(self.watch_list(At::AllNamespaces));
            }
        }
    }

    fn own_kind(&self) -> Kind {
        match self.sub {
            Some(sub) => sub.kind.clone(),
            None => Kind {
                group: self.resource.group.clone(),
                version: self.resource.version.clone(),
                kind: self.resource.kind.clone(),
            },
        }
    }

    fn payload(&self, kind: &Kind) -> Payload {
        match self.kinds.find(&kind.group, &kind.version, &kind.kind) {
            Some(name) => Payload::Type(name.to_owned().into()),
            None => Payload::Text,
        }
    }

    fn own_payload(&self) -> Payload {
        self.payload(&self.own_kind())
    }

    fn list_payload(&self) -> Payload {
        let kind = self.own_kind();
        self.payload(&Kind {
            kind: format!("{}List", kind.kind).into(),
            ..kind
        })
    }

    fn path(&self, at: At, prefix: &str) -> String {
        let Resource {
            resource, namespaced, ..
        } = self.resource;
        let collection = match (namespaced, at) {
            (true, At::Collection | At::Item | At::Below) => format!("namespaces/{{namespace}}/{resource}"),
            _ => resource.to_string(),
        };
        let mut path = format!("{}/{prefix}{collection}", self.root);
        if matches!(at, At::Item | At::Below) {
            path.push_str("/{name}");
            if let Some(sub) = self.sub {
                path = format!("{path}/{}", sub.name);
            }
            if at == At::Below {
                path.push_str("/{path}");
            }
        }
        path
    }

    fn path_parameters(&self, at: At) -> Vec<Parameter> {
        let mut out = Vec::with_capacity(3);
        if self.resource.namespaced && at != At::AllNamespaces {
            out.push(parameter::namespace());
        }
        if matches!(at, At::Item | At::Below) {
            out.push(Parameter::path(
                "name",
                format!("name of the {}", self.own_kind().kind).into(),
            ));
        }
        if at == At::Below {
            out.push(Parameter::path("path", "path to the resource".into()));
        }
        out
    }

    fn route(&self, method: &'static str, at: At, action: &'static str, operation: &str, description: String) -> Route {
        let path = self.path(at, if action.starts_with("watch") { "watch/" } else { "" });
        let (operation_id, tag) =
            naming::operation_id_and_tag(&self.operation(operation, at, action == "watchlist"), &path);
        let mut parameters = self.path_parameters(at);
        if action != "connect" {
            parameters.push(parameter::pretty());
        }
        Route {
            method,
            path,
            description,
            operation_id,
            tag,
            action: Some(action),
            kind: Some(self.own_kind()),
            parameters,
            body: None,
            consumes: ANY,
            produces: STRUCTURED,
            responses: Vec::new(),
        }
    }

    fn operation(&self, verb: &str, at: At, list: bool) -> String {
        let namespaced = if self.resource.namespaced && at != At::AllNamespaces {
            "Namespaced"
        } else {
            ""
        };
        let sub = self.sub.map(|s| naming::title(&s.name)).unwrap_or_default();
        let list = if list { "List" } else { "" };
        let suffix = match at {
            At::Below => "WithPath",
            At::AllNamespaces => "ForAllNamespaces",
            At::Collection | At::Item => "",
        };
        format!("{verb}{namespaced}{}{sub}{list}{suffix}", self.resource.kind)
    }

    /// `of` between subresource and kind: "replace status of the specified Pod".
    fn sentence(&self, verb: &str, of: &str) -> String {
        match self.sub {
            Some(sub) => format!("{verb} {} of{of}{}", sub.name, self.resource.kind),
            None => format!("{verb}{of}{}", self.resource.kind),
        }
    }

    fn get(&self) -> Route {
        let mut route = self.route("get", At::Item, "get", "read", self.sentence("read", " the specified "));
        if self.sub.is_some_and(|s| s.form == SubresourceForm::Stream) {
            let options = Kind {
                kind: "PodLogOptions".into(),
                ..self.own_kind()
            };
            route.parameters.extend(self.kinds.options(self.schema, &options));
            route.produces = LOGGED;
            route.responses = vec![(200, "OK", Payload::Text)];
        } else {
            route.responses = vec![(200, "OK", self.own_payload())];
        }
        route
    }

    fn list(&self, at: At) -> Route {
        let verbs = if self.resource.verbs.contains("watch") {
            "list or watch"
        } else {
            "list"
        };
        let description = format!("{verbs} objects of kind {}", self.resource.kind);
        let mut route = self.route("get", at, "list", "list", description);
        route.parameters.extend(parameter::list_options(true));
        route.produces = STREAMED;
        route.responses = vec![(200, "OK", self.list_payload())];
        route
    }

    fn create(&self, at: At) -> Route {
        let description = self.sentence("create", naming::article(&self.resource.kind));
        let mut route = self.route("post", at, "post", "create", description);
        route.parameters.extend(parameter::create_options());
        let payload = self.own_payload();
        route.body = Some((payload.clone(), true));
        route.responses = vec![
            (200, "OK", payload.clone()),
            (201, "Created", payload.clone()),
            (202, "Accepted", payload),
        ];
        route
    }

    fn replace(&self) -> Route {
        let mut route = self.route(
            "put",
            At::Item,
            "put",
            "replace",
            self.sentence("replace", " the specified "),
        );
        route.parameters.extend(parameter::create_options());
        let payload = self.own_payload();
        route.body = Some((payload.clone(), true));
        route.responses = vec![(200, "OK", payload.clone()), (201, "Created", payload)];
        route
    }

    fn patch(&self) -> Route {
        let description = self.sentence("partially update", " the specified ");
        let mut route = self.route("patch", At::Item, "patch", "patch", description);
        route.parameters.extend(parameter::patch_options());
        route.body = Some((Payload::Type(PATCH.into()), true));
        route.consumes = PATCHES;
        let payload = self.own_payload();
        route.responses = vec![(200, "OK", payload.clone()), (201, "Created", payload)];
        route
    }

    fn delete(&self) -> Route {
        let description = self.sentence("delete", naming::article(&self.resource.kind));
        let mut route = self.route("delete", At::Item, "delete", "delete", description);
        route.parameters.extend(parameter::delete_options());
        route.body = Some((Payload::Type(DELETE_OPTIONS.into()), false));
        // DELETE of a namespace answers the namespace, but upstream does not say so
        let payload = match self.resource.delete_returns_object && self.resource.resource != "namespaces" {
            true => self.own_payload(),
            false => Payload::Type(STATUS.into()),
        };
        route.responses = vec![(200, "OK", payload.clone()), (202, "Accepted", payload)];
        route
    }

    fn delete_collection(&self) -> Route {
        let description = format!("delete collection of {}", self.resource.kind);
        let mut route = self.route(
            "delete",
            At::Collection,
            "deletecollection",
            "deletecollection",
            description,
        );
        route.parameters.extend(parameter::delete_options());
        route.parameters.extend(parameter::list_options(false));
        route.body = Some((Payload::Type(DELETE_OPTIONS.into()), false));
        route.responses = vec![(200, "OK", Payload::Type(STATUS.into()))];
        route
    }

    fn watch(&self) -> Route {
        let description = format!(
            "watch changes to an object of kind {}. deprecated: use the 'watch' parameter with a list operation \
             instead, filtered to a single item with the 'fieldSelector' parameter.",
            self.resource.kind
        );
        self.watching(At::Item, "watch", description)
    }

    fn watch_list(&self, at: At) -> Route {
        let description = format!(
            "watch individual changes to a list of {}. deprecated: use the 'watch' parameter with a list operation \
             instead.",
            self.resource.kind
        );
        self.watching(at, "watchlist", description)
    }

    fn watching(&self, at: At, action: &'static str, description: String) -> Route {
        let mut route = self.route("get", at, action, "watch", description);
        route.parameters.extend(parameter::list_options(true));
        route.produces = STREAMED;
        route.responses = vec![(200, "OK", Payload::Type(WATCH_EVENT.into()))];
        route
    }

    fn connect(&self, at: At, method: &str) -> Option<Route> {
        let lower = ["get", "put", "post", "delete", "options", "head", "patch"]
            .into_iter()
            .find(|m| m.eq_ignore_ascii_case(method))?;
        let description = self.sentence(&format!("connect {method} requests to"), " ");
        let mut route = self.route(
            lower,
            at,
            "connect",
            &format!("connect{}", naming::title(lower)),
            description,
        );
        route
            .parameters
            .extend(self.kinds.options(self.schema, &self.own_kind()));
        route.produces = ANY;
        route.responses = vec![(200, "OK", Payload::Text)];
        Some(route)
    }
}

/// Parameters that every one of the routes has, and which therefore stand once at the path.
pub fn common<'a>(routes: &[&'a Route]) -> Vec<&'a Parameter> {
    let [first, others @ ..] = routes else {
        return Vec::new();
    };
    let same = |a: &Parameter, b: &Parameter| a.name == b.name && a.place == b.place;
    let mut common: Vec<&Parameter> = first
        .parameters
        .iter()
        .filter(|p| others.iter().all(|r| r.parameters.iter().any(|q| same(p, q))))
        .collect();
    sort(&mut common);
    common
}

/// The route's parameters that are not among `common`.
pub fn own<'a>(route: &'a Route, common: &[&Parameter]) -> Vec<&'a Parameter> {
    let is_common = |p: &&Parameter| common.iter().any(|c| c.name == p.name && c.place == p.place);
    let mut own: Vec<&Parameter> = route.parameters.iter().filter(|p| !is_common(p)).collect();
    sort(&mut own);
    own
}

fn sort(parameters: &mut [&Parameter]) {
    let place = |p: &Parameter| match p.place {
        Place::Path => 0,
        Place::Query => 1,
    };
    parameters.sort_by(|a, b| a.name.cmp(&b.name).then_with(|| place(a).cmp(&place(b))));
}
