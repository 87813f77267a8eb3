//! Parameters in path and query: the options of list, create, update, patch and delete, and those of connections.
//!
//! Texts that the schema descriptions do not have are written here, in our words.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::types::{Kind, Schema, Shape, TypeId};

/// Where a parameter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the path; always required.
    Path,
    /// In the query.
    Query,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Where it stands.
    pub place: Place,
    /// `string`, `integer`, `boolean`.
    pub kind: &'static str,
    /// What it does.
    pub description: Cow<'static, str>,
}

impl Parameter {
    /// A string in the path.
    pub fn path(name: &'static str, description: Cow<'static, str>) -> Self {
        Parameter {
            name: name.into(),
            place: Place::Path,
            kind: "string",
            description,
        }
    }

    const fn query(name: &'static str, kind: &'static str, description: &'static str) -> Self {
        Parameter {
            name: Cow::Borrowed(name),
            place: Place::Query,
            kind,
            description: Cow::Borrowed(description),
        }
    }
}

/// `pretty`.
pub fn pretty() -> Parameter {
    Parameter::query(
        "pretty",
        "string",
        "Whether JSON is indented. By default only for browsers, curl and wget.",
    )
}

/// `{namespace}`.
pub fn namespace() -> Parameter {
    Parameter::path(
        "namespace",
        "object name and auth scope, such as for teams and projects".into(),
    )
}

/// `resourceVersion` of GET.
pub fn resource_version() -> Parameter {
    RESOURCE_VERSION
}

const DRY_RUN: Parameter = Parameter::query(
    "dryRun",
    "string",
    "Go through every step but store nothing. The only value is All.",
);
const FIELD_MANAGER: Parameter = Parameter::query(
    "fieldManager",
    "string",
    "Name of who makes the change, up to 128 printable characters. By default the first part of the User-Agent.",
);
const PATCH_FIELD_MANAGER: Parameter = Parameter::query(
    "fieldManager",
    "string",
    "Name of who makes the change, up to 128 printable characters. Required for apply patches; otherwise by default the \
     first part of the User-Agent.",
);
const FIELD_VALIDATION: Parameter = Parameter::query(
    "fieldValidation",
    "string",
    "What happens to unknown and duplicate fields: Ignore drops them silently, Warn (the default) drops them and says so \
     in a Warning header, Strict refuses the request and names all of them.",
);
const FORCE: Parameter = Parameter::query(
    "force",
    "boolean",
    "Take over fields that others own. Only for apply patches.",
);

/// Query of POST and PUT.
pub fn create_options() -> [Parameter; 3] {
    [DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION]
}

/// Query of PATCH.
pub fn patch_options() -> [Parameter; 4] {
    [DRY_RUN, PATCH_FIELD_MANAGER, FIELD_VALIDATION, FORCE]
}

/// Query of DELETE.
pub fn delete_options() -> [Parameter; 5] {
    [
        DRY_RUN,
        Parameter::query(
            "gracePeriodSeconds",
            "integer",
            "Seconds until the object is removed, 0 for at once. By default what the object or its kind says.",
        ),
        Parameter::query(
            "ignoreStoreReadErrorWithClusterBreakingPotential",
            "boolean",
            "Remove an object that can no longer be read from the store, without regard to finalizers and preconditions. \
             What still relies on the object may break.",
        ),
        Parameter::query(
            "orphanDependents",
            "boolean",
            "Deprecated in favour of propagationPolicy, which must then be absent: whether dependents are orphaned.",
        ),
        Parameter::query(
            "propagationPolicy",
            "string",
            "What becomes of dependents: Orphan keeps them, Background deletes them later, Foreground deletes them first. \
             By default what the object's finalizers or its kind say.",
        ),
    ]
}

/// Query of LIST and WATCH; without what starts a watch for DELETE of a collection.
pub fn list_options(watch: bool) -> impl Iterator<Item = Parameter> {
    LIST_OPTIONS
        .into_iter()
        .filter(move |p| watch || !matches!(&*p.name, "watch" | "allowWatchBookmarks"))
}

const RESOURCE_VERSION: Parameter = Parameter::query(
    "resourceVersion",
    "string",
    "From which state on the request may be answered. See \
         https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions.",
);
const LIST_OPTIONS: [Parameter; 11] = [
    Parameter::query(
        "allowWatchBookmarks",
        "boolean",
        "The watch may have BOOKMARK events, which tell how far it has come. When they come is up to the server.",
    ),
    Parameter::query(
        "continue",
        "string",
        "The token that the previous page of this list ended with; all other parameters must be as they were. An \
         expired token is answered 410 with another one, from which the list goes on at a later state. Not for watches.",
    ),
    Parameter::query(
        "fieldSelector",
        "string",
        "Only objects with these field values. By default all.",
    ),
    Parameter::query(
        "labelSelector",
        "string",
        "Only objects with these labels. By default all.",
    ),
    Parameter::query(
        "limit",
        "integer",
        "At most this many objects; if there are more, the list's metadata has a continue token for the next page. All \
         pages show the state at the time of the first. Not for watches.",
    ),
    RESOURCE_VERSION,
    Parameter::query(
        "resourceVersionMatch",
        "string",
        "How resourceVersion applies to a list; should be given with it. See \
         https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions.",
    ),
    Parameter::query(
        "sendInitialEvents",
        "boolean",
        "The watch begins with an ADDED event for each object there is, then a BOOKMARK annotated \
         k8s.io/initial-events-end, then goes on with changes. Needs resourceVersionMatch=NotOlderThan. By default true \
         when resourceVersion is empty or 0, otherwise false.",
    ),
    Parameter::query(
        "shardSelector",
        "string",
        "Only objects whose hash falls into one of these ranges: shardRange(object.metadata.uid, '0x0', \
         '0x8000000000000000'), several joined by ||. Alpha, behind the feature gate ShardedListAndWatch.",
    ),
    Parameter::query(
        "timeoutSeconds",
        "integer",
        "The list or watch ends after this many seconds.",
    ),
    Parameter::query(
        "watch",
        "boolean",
        "Stream changes instead of answering a list. Give resourceVersion to say from where on.",
    ),
];

/// What the options of connections do, by kind and field.
const CONNECT_OPTIONS: [(&str, &str, &str); 24] = [
    (
        "PodLogOptions",
        "container",
        "Container to read the log of; may be absent when the pod has only one.",
    ),
    ("PodLogOptions", "follow", "Go on with new lines as they come."),
    (
        "PodLogOptions",
        "insecureSkipTLSVerifyBackend",
        "Do not verify the kubelet's serving certificate: the lines may then be anybody's.",
    ),
    (
        "PodLogOptions",
        "limitBytes",
        "End after this many bytes, be it within a line.",
    ),
    ("PodLogOptions", "previous", "The log of the container's previous run."),
    (
        "PodLogOptions",
        "sinceSeconds",
        "Only lines of the last so many seconds. Excludes sinceTime.",
    ),
    (
        "PodLogOptions",
        "stream",
        "All (both interleaved, the default), Stdout or Stderr. With tailLines only All.",
    ),
    (
        "PodLogOptions",
        "tailLines",
        "Only the last so many lines. With it, stream must be All.",
    ),
    ("PodLogOptions", "timestamps", "Begin every line with its time."),
    (
        "PodAttachOptions",
        "container",
        "Container to attach to; may be absent when the pod has only one.",
    ),
    (
        "PodAttachOptions",
        "stderr",
        "Receive the container's standard error. True by default.",
    ),
    (
        "PodAttachOptions",
        "stdin",
        "Send the container's standard input. False by default.",
    ),
    (
        "PodAttachOptions",
        "stdout",
        "Receive the container's standard output. True by default.",
    ),
    (
        "PodAttachOptions",
        "tty",
        "The container has a terminal. False by default.",
    ),
    (
        "PodExecOptions",
        "command",
        "The command and its arguments, one value each; no shell reads them.",
    ),
    (
        "PodExecOptions",
        "container",
        "Container to run the command in; may be absent when the pod has only one.",
    ),
    ("PodExecOptions", "stderr", "Receive the command's standard error."),
    (
        "PodExecOptions",
        "stdin",
        "Send the command's standard input. False by default.",
    ),
    ("PodExecOptions", "stdout", "Receive the command's standard output."),
    (
        "PodExecOptions",
        "tty",
        "Give the command a terminal. False by default.",
    ),
    (
        "PodPortForwardOptions",
        "ports",
        "Ports to forward; required over WebSockets.",
    ),
    ("PodProxyOptions", "path", "Path of the request to the pod."),
    ("NodeProxyOptions", "path", "Path of the request to the node."),
    (
        "ServiceProxyOptions",
        "path",
        "Path, with query, of the request to the service.",
    ),
];

/// Types by the kind they are.
#[derive(Debug, Default)]
pub struct Kinds<'a> {
    by_kind: HashMap<(&'a str, &'a str, &'a str), &'a str>,
    /// Options of connections are of no published kind: found by name.
    named: HashMap<&'a str, TypeId>,
}

/// Finds types by the kind they are.
pub fn kinds(schema: &Schema) -> Kinds<'_> {
    let mut kinds = Kinds::default();
    for (name, id) in schema.all_named() {
        if let Some(message) = &schema.get(id).message {
            for kind in &message.kinds {
                kinds.by_kind.insert((&kind.group, &kind.version, &kind.kind), name);
            }
        }
        kinds.named.insert(name, id);
    }
    kinds
}

impl Kinds<'_> {
    /// The OpenAPI name of the type that is this kind.
    pub fn find(&self, group: &str, version: &str, kind: &str) -> Option<&str> {
        self.by_kind.get(&(group, version, kind)).copied()
    }

    /// The members of an options type as query parameters; structs and times among them cannot be given in a query.
    pub fn options(&self, schema: &Schema, kind: &Kind) -> Vec<Parameter> {
        let name = format!("io.k8s.api.core.{}.{}", kind.version, kind.kind);
        let Some(options) = self.named.get(&*name).and_then(|id| schema.get(*id).as_struct()) else {
            return Vec::new();
        };
        let fields = options
            .fields
            .iter()
            .filter(|f| f.name != "kind" && f.name != "apiVersion");
        fields
            .filter_map(|field| {
                let said = CONNECT_OPTIONS
                    .iter()
                    .find(|(k, f, _)| *k == kind.kind && *f == field.name);
                Some(Parameter {
                    name: field.name.clone(),
                    place: Place::Query,
                    kind: query_type(schema, field.ty)?,
                    description: Cow::Borrowed(said.map_or("", |(.., text)| *text)),
                })
            })
            .collect()
    }
}

fn query_type(schema: &Schema, id: TypeId) -> Option<&'static str> {
    match &schema.get(id).shape {
        Shape::Bool => Some("boolean"),
        Shape::Int { .. } => Some("integer"),
        Shape::Float { .. } => Some("number"),
        Shape::String => Some("string"),
        Shape::List(list) => query_type(schema, list.item),
        _ => None,
    }
}
