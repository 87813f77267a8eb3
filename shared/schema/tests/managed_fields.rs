//! Recomputes `managedFields` of the recorded stories in `../shared/replay` beside the repository, when they are there.
//!
//! Every recorded answer stands for the object before the next request of its story, so each step is checked by itself:
//! what a create, update or patch left is taken from its answer, what an apply merges is computed. Admission and
//! strategies change objects after their fields were recorded, so a computed entry of a write other than apply may have
//! fields that the recorded one lacks, and where they took away what the client sent, a few lack some. Applies must
//! agree exactly. Times are not compared, nor kinds that convert between versions or that the server itself updates.
#![allow(clippy::unwrap_used, clippy::expect_used)] // what a helper of a test cannot do fails the test

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use triptych_object::value::Object;
use triptych_object::{Gvk, Value, json, meta};
use triptych_schema::Table;
use triptych_schema::managed::set::{FieldSet, Filter};
use triptych_schema::managed::typed::Typed;
use triptych_schema::managed::{FieldManager, Kind, manager_name};
use triptych_schema::types::*;
use triptych_schema_compiler::{compile, read};

/// Kinds that need conversion between versions, and kinds that the server itself changes between requests.
const UNCHECKED: [&str; 6] = [
    "HorizontalPodAutoscaler",
    "CustomResourceDefinition",
    "APIService",
    "Event",
    "TokenRequest",
    "FlowSchema",
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn table() -> Table {
    let directories = [
        "shared/schema/text",
        "core-api/schema",
        "extensions-api/schema",
        "aggregator/schema",
    ];
    let sources = read(&directories.map(|d| root().join(d))).unwrap();
    Table::load(compile(&sources).unwrap_or_else(|problems| panic!("{problems}")).leak()).unwrap()
}

/// Just enough of an import of structural schemas.
fn import(schema: &mut Schema, node: &Value) -> TypeId {
    let flag = |name: &str| node.get(name).and_then(Value::as_bool).unwrap_or(false);
    let kind = node.str_at(&["type"]);
    let topology = match node.str_at(&["x-kubernetes-map-type"]) {
        "atomic" => Topology::Atomic,
        _ => Topology::Unmarked,
    };
    let preserve_unknown = flag("x-kubernetes-preserve-unknown-fields");
    let shape = if flag("x-kubernetes-int-or-string") {
        Shape::IntOrString
    } else {
        match kind {
            "boolean" => Shape::Bool,
            "integer" => Shape::Int {
                bits: 64,
                unsigned: false,
            },
            "number" => Shape::Float { bits: 64 },
            "string" => Shape::String,
            "array" => {
                let item = import(schema, node.get("items").unwrap_or(&Value::Null));
                let keys = node.array_at(&["x-kubernetes-list-map-keys"]);
                let kind = match node.str_at(&["x-kubernetes-list-type"]) {
                    "map" => ListKind::Map(
                        keys.iter()
                            .map(|k| k.as_str().unwrap_or_default().to_owned().into())
                            .collect(),
                    ),
                    "set" => ListKind::Set,
                    _ => ListKind::Atomic,
                };
                Shape::List(List { item, kind })
            }
            _ => match node.get("additionalProperties") {
                Some(value @ Value::Object(_)) => {
                    let key = schema.push(Type::of(Shape::String));
                    let value = import(schema, value);
                    Shape::Map(Map { key, value, topology })
                }
                _ => {
                    let properties = node.get("properties").and_then(Value::as_object);
                    let fields = properties.into_iter().flat_map(Object::iter);
                    let fields: Vec<Field> = fields
                        .map(|(name, node)| Field::plain(name.to_owned().into(), import(schema, node)))
                        .collect();
                    let mut fields = Struct::new(fields);
                    fields.topology = topology;
                    fields.preserve_unknown = preserve_unknown;
                    fields.embedded_resource = flag("x-kubernetes-embedded-resource");
                    fields.untyped = kind.is_empty();
                    Shape::Struct(fields)
                }
            },
        }
    };
    let default = node.get("default").cloned().map(Box::new);
    let format = node.get("format").and_then(Value::as_str).map(|f| f.to_owned().into());
    let validation = format.map(|format| {
        Box::new(Validation {
            format: Some(format),
            ..Validation::default()
        })
    });
    schema.push(Type {
        default,
        validation,
        ..Type::of(shape)
    })
}

/// What a new object of a type always has: the zero values that are written.
fn zero(schema: &Schema, ty: TypeId) -> Value {
    let Shape::Struct(fields) = &schema.get(ty).shape else {
        return Value::Null;
    };
    let mut out = Object::new();
    for field in &fields.fields {
        let nested = matches!(schema.get(field.ty).shape, Shape::Struct(_));
        if field.pointer || field.omit.zero() || (field.omit.empty() && !nested) {
            continue;
        }
        let value = match &schema.get(field.ty).shape {
            Shape::Struct(_) => zero(schema, field.ty),
            Shape::String => "".into(),
            Shape::Bool => Value::Bool(false),
            Shape::Int { .. } | Shape::Float { .. } | Shape::IntOrString => Value::Int(0),
            Shape::Quantity => "0".into(),
            Shape::Duration => "0s".into(),
            _ => Value::Null,
        };
        out.insert(&*field.name, value);
    }
    Value::Object(out)
}

struct BuiltIn<'t> {
    table: &'t Table,
    gvk: &'t Gvk,
    api_version: &'t str,
    filter: Option<Filter>,
    /// Types of the versions of a custom resource.
    custom: Option<&'t Custom>,
}

struct Custom {
    plural: String,
    schema: Schema,
    versions: HashMap<String, TypeId>,
}

fn named(schema: &Schema, gvk: &Gvk) -> Option<TypeId> {
    let kinds = |id: TypeId| schema.get(id).message.as_ref().map_or(&[][..], |m| &m.kinds);
    let is = |k: &triptych_schema::types::Kind| k.group == gvk.group && k.version == gvk.version && k.kind == gvk.kind;
    schema
        .all_named()
        .map(|(_, id)| id)
        .find(|id| kinds(*id).iter().any(is))
}

impl Kind for BuiltIn<'_> {
    fn typed(&self, api_version: &str) -> Option<Typed<'_>> {
        if let Some(custom) = self.custom {
            return custom
                .versions
                .get(api_version)
                .map(|ty| Typed::object(&custom.schema, *ty));
        }
        let gvk = api_version
            .parse::<triptych_object::GroupVersion>()
            .unwrap()
            .kind(&*self.gvk.kind);
        named(&self.table.schema, &gvk).map(|ty| Typed::object(&self.table.schema, ty))
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        let mut out = object.clone();
        out.set_at(&["apiVersion"], api_version.into());
        Ok(out)
    }

    fn reset(&self, _api_version: &str) -> Option<&Filter> {
        self.filter.as_ref()
    }

    fn empty(&self) -> Result<Value, String> {
        let mut out = match self.custom {
            Some(_) => Value::object(),
            None => zero(&self.table.schema, named(&self.table.schema, self.gvk).unwrap()),
        };
        out.set_at(&["apiVersion"], self.api_version.into());
        out.set_at(&["kind"], self.gvk.kind.as_str().into());
        Ok(out)
    }

    fn finish(&self, merged: Value) -> Result<Value, String> {
        Ok(merged)
    }
}

/// `${ns}` and `${id}` as the answers show them; placeholders of numbers as numbers.
fn filled(value: &Value) -> Value {
    match value {
        Value::String(s) if s == "<port>" => Value::Int(30000),
        Value::String(s) if triptych_object::time::parse_rfc3339(s).is_some() => "<time>".into(),
        Value::String(s) if s.contains("${") => s.replace("${ns}", "NS").replace("${id}", "ID").into(),
        Value::Array(items) => Value::Array(items.iter().map(filled).collect()),
        Value::Object(map) => Value::Object(map.iter().map(|(k, v)| (filled_text(k), filled_member(k, v))).collect()),
        other => other.clone(),
    }
}

fn filled_member(key: &str, value: &Value) -> Value {
    match (key, value) {
        ("uid", Value::String(_)) => "<uid>".into(),
        // Keys of items hold what answers do not show.
        ("fieldsV1", fields) => masked_keys(fields),
        (_, value) => filled(value),
    }
}

fn masked_keys(fields: &Value) -> Value {
    let Value::Object(map) = fields else {
        return fields.clone();
    };
    let mask = |key: &str| match key.strip_prefix("k:{\"uid\":") {
        Some(_) => "k:{\"uid\":\"<uid>\"}".to_owned(),
        None => key.to_owned(),
    };
    Value::Object(map.iter().map(|(key, below)| (mask(key), masked_keys(below))).collect())
}

/// A path without the API version, so that an object has one path in all versions.
fn identity(path: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').collect();
    if parts.get(1) == Some(&"apis") && parts.len() > 3 {
        parts.remove(3);
    }
    parts.join("/")
}

fn unescape(text: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        match b {
            b'%' => {
                let hex: String = bytes.by_ref().take(2).map(char::from).collect();
                out.push(u8::from_str_radix(&hex, 16).unwrap());
            }
            b'+' => out.push(b' '),
            b => out.push(b),
        }
    }
    String::from_utf8(out).unwrap()
}

fn filled_text(text: &str) -> String {
    text.replace("${ns}", "NS").replace("${id}", "ID")
}

#[derive(Default)]
struct Report {
    checked: BTreeMap<&'static str, usize>,
    failures: Vec<String>,
    /// Writes other than apply that do not fit.
    approximate: Vec<String>,
}

struct Story<'t> {
    name: String,
    table: &'t Table,
    /// What custom resources' schemas stand on.
    base: Arc<Schema>,
    crds: HashMap<String, Custom>,
    /// By path of the object; none when a step changed it without saying how.
    live: HashMap<String, Option<Value>>,
}

/// Lists that were sent empty and stand as `null` in the answer.
fn restore_empty_lists(sent: &Value, new: &mut Value) {
    let Value::Object(members) = sent else { return };
    for (name, value) in members.iter() {
        match value {
            Value::Array(items) if items.is_empty() && new.get(name).is_none_or(Value::is_null) => {
                new.set_at(&[name], value.clone());
            }
            Value::Object(_) => new
                .get_mut(name)
                .into_iter()
                .for_each(|new| restore_empty_lists(value, new)),
            _ => {}
        }
    }
}

/// A managers' list as a map, to compare without order and times.
fn owners(object: &Value) -> BTreeMap<String, Value> {
    let list = object.array_at(&["metadata", "managedFields"]);
    list.iter()
        .map(|entry| {
            let text = |m| entry.str_at(&[m]).to_owned();
            let key = format!(
                "{} {} {} {}",
                text("manager"),
                text("operation"),
                text("apiVersion"),
                text("subresource")
            );
            (key, entry.get("fieldsV1").cloned().unwrap_or_default())
        })
        .collect()
}

fn subset(small: &Value, large: &Value) -> bool {
    match (FieldSet::from_value(small), FieldSet::from_value(large)) {
        (Ok(small), Ok(large)) => small.difference(&large).is_empty(),
        _ => false,
    }
}

impl Story<'_> {
    fn step(&mut self, step: &Value, report: &mut Report) {
        let path = filled_text(step.str_at(&["path"]));
        let (path, query) = path.split_once('?').unwrap_or((&path, ""));
        let query: HashMap<&str, &str> = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
        let (verb, body) = (step.str_at(&["do"]), step.get("body").map(filled).unwrap_or_default());
        if body.str_at(&["kind"]) == "CustomResourceDefinition" && verb == "POST" {
            self.define(&body);
        }
        if !path.starts_with("/api/") && !path.starts_with("/apis/") {
            return;
        }
        let at = path.to_owned();
        let parts: Vec<&str> = path.split('/').collect();
        let answer = step.at(&["expect", "body"]).map(filled);
        let status = step.at(&["expect", "status"]).and_then(Value::as_i64).unwrap_or(0);
        let changes = matches!(verb, "PUT" | "PATCH" | "DELETE") && !query.contains_key("dryRun");
        if verb == "DELETE" || changes && (answer.is_none() || path.ends_with("/scale")) {
            // What becomes of the object is not in the answer.
            self.forget(&identity(path), verb == "DELETE");
            return;
        }
        let Some(answer) = answer else { return };
        if status >= 400 && verb == "PATCH" {
            self.refused(step, path, &query, &body, &answer, report);
        }
        if !(200..=201).contains(&status) || query.contains_key("dryRun") {
            return;
        }
        let name = meta::name(&answer).to_owned();
        let (object_path, subresource) = match verb {
            "POST" => (format!("{at}/{name}"), ""),
            _ if at.ends_with(&format!("/{name}")) => (at.clone(), ""),
            "PUT" | "PATCH" => match at.rsplit_once('/') {
                Some((parent, sub)) if parent.ends_with(&format!("/{name}")) => (parent.to_owned(), sub),
                _ => return,
            },
            _ => return,
        };
        let object_path = identity(&object_path);
        let (live, unknown) = match self.live.get(&object_path) {
            Some(Some(live)) => (Some(live.clone()), false),
            known => (None, known.is_some()),
        };
        let api_version = answer.str_at(&["apiVersion"]).to_owned();
        if answer.at(&["metadata", "uid"]).is_none() {
            return;
        }
        self.live.insert(object_path.clone(), Some(answer.clone()));
        // Answers do not show uids, by which some items are told apart.
        let owned = |object: &Value| object.at(&["metadata", "ownerReferences"]).is_some();
        let changing = UNCHECKED.contains(&answer.str_at(&["kind"]));
        if changing || unknown || live.as_ref().is_some_and(owned) || json::to_string(&body).contains("\"uid\"") {
            return;
        }
        if !matches!(verb, "POST" | "PUT" | "PATCH") || body.is_null() && verb != "PATCH" {
            return;
        }
        if verb != "POST" && live.is_none() && !step.str_at(&["headers", "Content-Type"]).contains("apply") {
            return;
        }
        let gvk = meta::gvk(&answer);
        let custom = self.crds.get(&format!("{}/{}", gvk.group, gvk.kind));
        if custom.is_none() && named(&self.table.schema, &gvk).is_none() {
            return;
        }
        let kind = BuiltIn {
            table: self.table,
            gvk: &gvk,
            api_version: &api_version,
            filter: self.filter(&gvk, &parts, subresource, custom.is_some()),
            custom,
        };
        let fields = FieldManager {
            kind: &kind,
            gvk: &gvk,
            api_version: &api_version,
            subresource,
        };
        let agent = step.str_at(&["headers", "User-Agent"]);
        let decoded = query.get("fieldManager").map(|m| unescape(m)).unwrap_or_default();
        let manager = manager_name(&decoded, agent);
        let live_in_version = |live: &Value| {
            let mut live = live.clone();
            live.set_at(&["apiVersion"], api_version.as_str().into());
            live
        };
        let live = match &live {
            Some(live) if verb != "POST" => live_in_version(live),
            _ => kind.empty().unwrap(),
        };
        let where_ = format!("{} {verb} {path}", self.name);
        if step.str_at(&["headers", "Content-Type"]).contains("apply") {
            let Value::Object(_) = body else { return };
            let force = query.get("force") == Some(&"true");
            *report.checked.entry("apply").or_default() += 1;
            match fields.apply(&live, &body, &decoded, force, "2026-01-01T00:00:00Z") {
                Ok(object) if owners(&object) == owners(&answer) => {}
                Ok(object) => report.failures.push(difference(&where_, &object, &answer)),
                Err(status) => report.failures.push(format!("{where_}: {}", status.message)),
            }
            return;
        }
        *report.checked.entry("write").or_default() += 1;
        let mut new = answer.clone();
        new.remove_at(&["metadata", "managedFields"]);
        restore_empty_lists(&body, &mut new);
        if let Some(sent) = body.at(&["metadata", "managedFields"]) {
            new.set_at(&["metadata", "managedFields"], sent.clone());
        }
        fields.update(&live, &mut new, &manager, "2026-01-01T00:00:00Z");
        let (want, got) = (owners(&answer), owners(&new));
        let fits = want
            .iter()
            .all(|(key, set)| got.get(key).is_some_and(|got| subset(set, got)));
        if !fits {
            report.approximate.push(difference(&where_, &new, &answer));
        }
        if want == got {
            *report.checked.entry("write, equal").or_default() += 1;
        }
    }

    /// Forgets an object that a step changed, or all below a path that is gone.
    fn forget(&mut self, path: &str, gone: bool) {
        self.live.retain(|known, _| !(gone && known.starts_with(path)));
        let changed = self
            .live
            .iter_mut()
            .filter(|(known, _)| path.starts_with(known.as_str()));
        changed.for_each(|(_, live)| *live = None);
    }

    /// An apply that field management refuses must be refused with the same words.
    fn refused(
        &self,
        step: &Value,
        path: &str,
        query: &HashMap<&str, &str>,
        body: &Value,
        answer: &Value,
        report: &mut Report,
    ) {
        let message = answer.str_at(&["message"]);
        let ours = [
            "Apply failed",
            "failed to create typed",
            "failed to prune",
            "invalid object type",
            "metadata.managed",
        ];
        let apply = step.str_at(&["headers", "Content-Type"]).contains("apply");
        if !apply || body.as_object().is_none() || !ours.iter().any(|start| message.starts_with(start)) {
            return;
        }
        let (object, subresource) = match path.rsplit_once('/') {
            Some((object, "status")) => (object, "status"),
            Some((_, "scale")) => return,
            _ => (path, ""),
        };
        let live = match self.live.get(&identity(object)) {
            Some(None) => return,
            Some(Some(live)) => Some(live),
            None => None,
        };
        let Some(gvk) = self.gvk_of(object) else { return };
        let api_version = gvk.group_version().to_string();
        let custom = self.crds.get(&format!("{}/{}", gvk.group, gvk.kind));
        if gvk.kind == "HorizontalPodAutoscaler" || json::to_string(body).contains("\"uid\"") {
            return;
        }
        let parts: Vec<&str> = path.split('/').collect();
        let filter = self.filter(&gvk, &parts, subresource, custom.is_some());
        let kind = BuiltIn {
            table: self.table,
            gvk: &gvk,
            api_version: &api_version,
            filter,
            custom,
        };
        let fields = FieldManager {
            kind: &kind,
            gvk: &gvk,
            api_version: &api_version,
            subresource,
        };
        let mut live = live.cloned().unwrap_or_else(|| kind.empty().unwrap());
        live.set_at(&["apiVersion"], api_version.as_str().into());
        let manager = query.get("fieldManager").map(|m| unescape(m)).unwrap_or_default();
        let force = query.get("force") == Some(&"true");
        *report.checked.entry("refusal").or_default() += 1;
        let got = match fields.apply(&live, body, &manager, force, "2026-01-01T00:00:00Z") {
            Ok(_) => "no refusal".to_owned(),
            Err(status) => status.message,
        };
        if got != message {
            report
                .failures
                .push(format!("{} PATCH {path}\n  got  {got}\n  want {message}", self.name));
        }
    }

    /// The kind that a path of an object names.
    fn gvk_of(&self, path: &str) -> Option<Gvk> {
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        let (group, version, rest) = match &parts[..] {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let resource = match rest {
            ["namespaces", _, resource, _] => *resource,
            [resource, _] => *resource,
            _ => return None,
        };
        let version = triptych_object::GroupVersion::new(group, version);
        if let Some(found) = self.table.resource(group, &version.version, resource) {
            return Some(version.kind(&*found.kind));
        }
        let custom = self
            .crds
            .iter()
            .find(|(key, custom)| custom.plural == resource && key.starts_with(group))?;
        Some(version.kind(custom.0.rsplit('/').next()?))
    }

    fn filter(&self, gvk: &Gvk, parts: &[&str], subresource: &str, custom: bool) -> Option<Filter> {
        if custom {
            return Some(Filter::exclude(if subresource == "status" {
                ["spec"]
            } else {
                ["status"]
            }));
        }
        let resource = self
            .table
            .resources
            .iter()
            .find(|r| r.group == gvk.group && r.version == gvk.version && parts.contains(&&*r.resource))?;
        match subresource {
            "" => Some(Filter::exclude(resource.reset.iter().map(|r| &**r))),
            _ => Some(Filter::exclude(
                resource.subresource(subresource)?.reset.iter().map(|r| &**r),
            )),
        }
    }

    fn define(&mut self, crd: &Value) {
        let mut schema = Schema::on(self.base.clone());
        let mut versions = HashMap::new();
        let group = crd.str_at(&["spec", "group"]);
        for version in crd.array_at(&["spec", "versions"]) {
            if let Some(node) = version.at(&["schema", "openAPIV3Schema"]) {
                let ty = import(&mut schema, node);
                versions.insert(format!("{group}/{}", version.str_at(&["name"])), ty);
            }
        }
        let key = format!("{group}/{}", crd.str_at(&["spec", "names", "kind"]));
        let plural = crd.str_at(&["spec", "names", "plural"]).to_owned();
        self.crds.insert(
            key,
            Custom {
                plural,
                schema,
                versions,
            },
        );
    }
}

fn difference(place: &str, got: &Value, want: &Value) -> String {
    let (got, want) = (owners(got), owners(want));
    let mut out = place.to_owned();
    for key in got.keys().chain(want.keys()).collect::<std::collections::BTreeSet<_>>() {
        let show = |side: &BTreeMap<String, Value>| side.get(key).map_or("none".into(), sorted);
        if show(&got) != show(&want) {
            out += &format!("\n  {key}\n    got  {}\n    want {}", show(&got), show(&want));
        }
    }
    out
}

fn sorted(fields: &Value) -> String {
    FieldSet::from_value(fields).map_or("unreadable".into(), |set| json::to_string(&set.to_value()))
}

fn steps<'v>(value: &'v Value, out: &mut Vec<&'v Value>) {
    match value {
        Value::Object(map) if map.contains_key("do") => out.push(value),
        Value::Object(map) => map.values().for_each(|v| steps(v, out)),
        Value::Array(items) => items.iter().for_each(|v| steps(v, out)),
        _ => {}
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn recorded_managed_fields_are_recomputed() {
    let stories = root().join("../shared/replay/stories");
    if !stories.is_dir() {
        eprintln!("skipped: {} is not there", stories.display());
        return;
    }
    let only = std::env::var("STORIES").unwrap_or_default();
    let base = Arc::new(table().schema);
    let table = table();
    let mut report = Report::default();
    for folder in files(&stories) {
        for file in files(&folder) {
            if !file.to_string_lossy().contains(&only) {
                continue;
            }
            let document = json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
            let name = file.strip_prefix(&stories).unwrap().display().to_string();
            let mut story = Story {
                name,
                table: &table,
                base: base.clone(),
                crds: HashMap::new(),
                live: HashMap::new(),
            };
            let mut all = Vec::new();
            steps(&document, &mut all);
            all.into_iter().for_each(|step| story.step(step, &mut report));
        }
    }
    let (failures, approximate) = (&report.failures, &report.approximate);
    eprintln!(
        "checked {:?}; {} and {} differ",
        report.checked,
        failures.len(),
        approximate.len()
    );
    if std::env::var("STORIES").is_ok() {
        eprintln!("{}", approximate.join("\n"));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let writes = report.checked.get("write").copied().unwrap_or(0);
    assert!(approximate.len() * 100 <= writes, "{}", approximate.join("\n"));
}
