//! Compares the schema texts with the fact tables in `../shared/facts` beside the repository, when they are there:
//! every type, field, default and resource. What the texts leave out on purpose is named here, with why.
#![allow(clippy::unwrap_used, clippy::expect_used)] // what a helper of a test cannot do fails the test

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value as Json;
use triptych_object::Value;
use triptych_schema::Table;
use triptych_schema::resource::{Dependents, NameRule, Need, Resource, SubresourceForm};
use triptych_schema::types::*;
use triptych_schema_compiler::{compile, read};

/// Go types that never are a value on the wire.
const NOT_ON_THE_WIRE: [&str; 6] = [
    "io.k8s.apimachinery.pkg.api.resource.QuantityValue",
    "io.k8s.apimachinery.pkg.api.resource.Scale",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Timestamp",
    "io.k8s.apimachinery.pkg.util.intstr.Type",
    "io.k8s.apimachinery.pkg.watch.EventType",
    "io.k8s.apimachinery.pkg.watch.FullChannelBehavior",
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

/// A fact table, or none when the folder is not there.
fn facts(name: &str) -> Option<Json> {
    let path = root().join("../shared/facts").join(name);
    match std::fs::read(&path) {
        Ok(bytes) => Some(serde_json::from_slice(&bytes).unwrap()),
        Err(_) => {
            eprintln!("skipped: {} is not there", path.display());
            None
        }
    }
}

#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn check<T: PartialEq + std::fmt::Debug>(&mut self, of: &str, what: &str, text: T, fact: T) {
        if text != fact {
            self.0.push(format!("{of}: {what} is {text:?}, should be {fact:?}"));
        }
    }

    fn none(self) {
        assert!(
            self.0.is_empty(),
            "{} differences:\n{}",
            self.0.len(),
            self.0.join("\n")
        );
    }
}

fn text<'a>(json: &'a Json, key: &str) -> Option<&'a str> {
    json.get(key).and_then(Json::as_str)
}

fn flag(json: &Json, key: &str) -> bool {
    json.get(key).and_then(Json::as_bool).unwrap_or(false)
}

fn strings(json: &Json, key: &str) -> Vec<String> {
    let items = json.get(key).and_then(Json::as_array).into_iter().flatten();
    items.map(|v| v.as_str().unwrap().to_owned()).collect()
}

fn owned(names: &[Name]) -> Vec<String> {
    names.iter().map(|n| n.to_string()).collect()
}

fn value(v: &Value) -> Json {
    match v {
        Value::Null => Json::Null,
        Value::Bool(b) => (*b).into(),
        Value::Int(i) => (*i).into(),
        Value::Float(f) => (*f).into(),
        Value::String(s) => s.as_str().into(),
        Value::Array(items) => items.iter().map(value).collect(),
        Value::Object(o) => o
            .iter()
            .map(|(k, v)| (k.to_string(), value(v)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
    }
}

fn zero(fact_type: &str) -> Option<Json> {
    Some(match fact_type {
        "string" => "".into(),
        "bool" => false.into(),
        "int32" | "int64" | "double" => 0.into(),
        _ => return None,
    })
}

/// The fields of a fact type as JSON has them: those of embedded structs in their place, without protobuf number.
fn flattened(types: &serde_json::Map<String, Json>, name: &str) -> Vec<Json> {
    let mut fields = Vec::new();
    for field in types[name]["fields"].as_array().unwrap() {
        if flag(field, "inline") {
            for mut inner in flattened(types, text(field, "type").unwrap()) {
                inner.as_object_mut().unwrap().remove("tag");
                fields.push(inner);
            }
        } else {
            fields.push(field.clone());
        }
    }
    fields
}

/// The OpenAPI name (or scalar word) of a type of the texts, lists as `[x]`, maps as `{k:v}`.
fn spelled(schema: &Schema, id: TypeId) -> String {
    let ty = schema.get(id);
    match (&ty.name, &ty.shape) {
        (Some(name), _) => name.to_string(),
        (None, Shape::List(list)) => format!("[{}]", spelled(schema, list.item)),
        (None, Shape::Map(map)) => format!("{{{}:{}}}", spelled(schema, map.key), spelled(schema, map.value)),
        (None, Shape::Bool) => "bool".into(),
        (None, Shape::Int { bits, unsigned: false }) => format!("int{bits}"),
        (None, Shape::Float { .. }) => "double".into(),
        (None, Shape::String) => "string".into(),
        (None, Shape::Bytes) => "bytes".into(),
        (None, other) => format!("{other:?}"),
    }
}

fn compare_field(d: &mut Differences, schema: &Schema, published: bool, of: &str, field: &Field, fact: &Json) {
    let base = text(fact, "goType").or(text(fact, "type"));
    let expected = match fact.get("map") {
        Some(map) => {
            let key = text(fact, "keyGoType").unwrap_or(map[0].as_str().unwrap());
            format!("{{{key}:{}}}", text(fact, "goType").unwrap_or(map[1].as_str().unwrap()))
        }
        None if flag(fact, "list") => format!("[{}]", base.unwrap()),
        None => base.unwrap().to_owned(),
    };
    d.check(of, "type", spelled(schema, field.ty), expected);
    d.check(
        of,
        "number",
        u64::from(field.tag),
        fact.get("tag").and_then(Json::as_u64).unwrap_or(0),
    );
    d.check(of, "pointer", field.pointer, flag(fact, "ptr"));
    d.check(of, "required", field.required, flag(fact, "required"));
    let omit = match text(fact, "omit") {
        None => Omit::Never,
        Some("empty") => Omit::Empty,
        Some("zero") => Omit::Zero,
        Some(_) => Omit::EmptyAndZero,
    };
    d.check(of, "omit", field.omit, omit);
    let ty = schema.get(field.ty);
    let kind = match text(fact, "listType") {
        None => ListKind::Unmarked,
        Some("set") => ListKind::Set,
        Some("atomic") => ListKind::Atomic,
        Some(_) => ListKind::Map(strings(fact, "listMapKeys").into_iter().map(Name::from).collect()),
    };
    if let (Shape::List(list), true) = (&ty.shape, flag(fact, "list")) {
        d.check(of, "list type", &list.kind, &kind);
    }
    // Go markers call `[]byte` a list, too.
    let list_marker = if flag(fact, "list") {
        None
    } else {
        text(fact, "listType")
    };
    let topology = match text(fact, "mapType").or(text(fact, "structType")).or(list_marker) {
        None => Topology::Unmarked,
        Some("granular") => Topology::Granular,
        Some(_) => Topology::Atomic,
    };
    let own = ty.as_map().map_or(field.details().topology, |map| map.topology);
    d.check(of, "topology", own, topology);
    let strategy = match text(fact, "patchStrategy") {
        None => PatchStrategy::Unmarked,
        Some("merge") => PatchStrategy::Merge,
        Some("replace") => PatchStrategy::Replace,
        Some("retainKeys") => PatchStrategy::RetainKeys,
        Some(_) => PatchStrategy::MergeRetainKeys,
    };
    d.check(of, "patch strategy", field.patch().strategy, strategy);
    d.check(
        of,
        "merge key",
        field.patch().key.as_deref(),
        text(fact, "patchMergeKey"),
    );
    let mut gates: Vec<String> = strings(fact, "tags")
        .iter()
        .filter_map(|tag| tag.strip_prefix("+featureGate="))
        .flat_map(|gates| gates.split(',').map(str::to_owned))
        .collect();
    gates.extend(
        UNTAGGED
            .iter()
            .filter(|(field, _)| *field == of)
            .map(|(_, gate)| (*gate).to_owned()),
    );
    gates.sort();
    d.check(of, "gates", owned(&field.details().gates), gates);
    let item = ty.as_list().map_or(ty, |list| schema.get(list.item));
    let closed = item.constants.as_ref().filter(|c| c.closed).map(|c| owned(&c.values));
    let mut values = strings(fact, "enum");
    values.append(&mut strings(fact, "itemEnum"));
    if !values.is_empty() {
        d.check(of, "enum", closed.unwrap_or_default(), values);
    }
    if published {
        d.check(
            of,
            "published default",
            published_default(schema, field),
            fact.get("default").cloned(),
        );
    }
}

fn published_default(schema: &Schema, field: &Field) -> Option<Json> {
    let ty = schema.get(field.ty);
    match &field.details().published_default {
        PublishedDefault::Nothing => None,
        PublishedDefault::Value(v) => Some(value(v)),
        PublishedDefault::Implied if field.pointer => None,
        PublishedDefault::Implied => match &ty.shape {
            Shape::Struct(_) => Some(Json::Object(Default::default())),
            Shape::Bool if field.omit == Omit::Never => Some(false.into()),
            Shape::Int { .. } | Shape::Float { .. } if field.omit == Omit::Never => Some(0.into()),
            Shape::String if field.omit == Omit::Never => Some("".into()),
            _ => None,
        },
    }
}

#[test]
fn every_type_and_field_agrees_with_the_facts() {
    let Some(Json::Object(types)) = facts("types.json") else {
        return;
    };
    let (table, mut d) = (table(), Differences::default());
    let known = table
        .schema
        .all_named()
        .filter(|(name, _)| !types.contains_key(*name))
        .count();
    d.check("the texts", "number of types without a fact", known, 0);
    for (name, fact) in &types {
        if NOT_ON_THE_WIRE.contains(&name.as_str()) {
            continue;
        }
        let Some(ty) = table.schema.find(name) else {
            d.0.push(format!("{name} is missing"));
            continue;
        };
        if fact.get("alias").is_some() {
            let constants = ty.constants.as_ref().unwrap();
            d.check(name, "closed", constants.closed, flag(fact, "enum"));
            // Its values are conversions of constants of another type; the fields of that type list them.
            if name != "io.k8s.api.discovery.v1.AddressType" {
                d.check(name, "values", owned(&constants.values), strings(fact, "values"));
            }
            continue;
        }
        let message = ty.message.as_ref().unwrap();
        d.check(name, "proto", ty.proto_name().as_deref(), text(fact, "proto"));
        d.check(name, "published", message.published, flag(fact, "published"));
        let Some(s) = ty.as_struct() else {
            d.check(name, "special", true, fact.get("jsonForm").is_some());
            d.check(name, "wraps a list", message.wraps_list, fact.get("goUnder").is_some());
            continue;
        };
        d.check(name, "special", false, fact.get("jsonForm").is_some());
        d.check(
            name,
            "atomic",
            s.topology == Topology::Atomic,
            text(fact, "mapType") == Some("atomic"),
        );
        d.check(name, "cluster", message.non_namespaced, flag(fact, "nonNamespaced"));
        let kinds: Vec<_> = message
            .kinds
            .iter()
            .map(|k| [&*k.group, &*k.version, &*k.kind].map(str::to_owned))
            .collect();
        let fact_kinds = fact.get("gvk").and_then(Json::as_array).into_iter().flatten();
        let fact_kinds = fact_kinds.map(|k| ["group", "version", "kind"].map(|p| text(k, p).unwrap().to_owned()));
        d.check(name, "kinds", kinds, fact_kinds.collect());
        let life = message.lifecycle.as_deref().cloned().unwrap_or_default();
        let fact_life = fact.get("lifecycle").cloned().unwrap_or_default();
        d.check(
            name,
            "introduced",
            life.introduced.as_deref(),
            text(&fact_life, "introduced"),
        );
        d.check(
            name,
            "deprecated",
            life.deprecated.as_deref(),
            text(&fact_life, "deprecated"),
        );
        d.check(name, "removed", life.removed.as_deref(), text(&fact_life, "removed"));
        let instead = life
            .replacement
            .map(|k| format!("{},{},{}", k.group, k.version, k.kind));
        d.check(name, "replacement", instead.as_deref(), text(&fact_life, "replacement"));
        for (union, fact) in message
            .unions
            .iter()
            .zip(fact.get("unions").and_then(Json::as_array).into_iter().flatten())
        {
            d.check(
                name,
                "discriminator",
                union.discriminator.as_deref(),
                text(fact, "discriminator"),
            );
            let members: BTreeMap<_, _> = union
                .members
                .iter()
                .map(|(k, v)| (k.to_string(), Json::from(&**v)))
                .collect();
            let expected = fact["fields-to-discriminateBy"]
                .as_object()
                .unwrap()
                .clone()
                .into_iter()
                .collect();
            d.check(name, "union members", members, expected);
        }
        let unions = fact.get("unions").and_then(Json::as_array).map_or(0, Vec::len);
        d.check(name, "number of unions", message.unions.len(), unions);
        let embedded: Vec<_> = message
            .embedded
            .iter()
            .map(|e| (u64::from(e.tag), spelled(&table.schema, e.ty)))
            .collect();
        let own = fact["fields"].as_array().unwrap().iter().filter(|f| flag(f, "inline"));
        let expected = own
            .filter_map(|f| Some((f.get("tag")?.as_u64()?, text(f, "type")?.to_owned())))
            .collect();
        d.check(name, "embedded messages", embedded, expected);
        let facts = flattened(&types, name);
        let names: Vec<_> = s.fields.iter().map(|f| f.name.to_string()).collect();
        let expected: Vec<_> = facts.iter().map(|f| text(f, "name").unwrap().to_owned()).collect();
        d.check(name, "fields", &names, &expected);
        for (field, fact) in s.fields.iter().zip(&facts) {
            let published = message.published;
            compare_field(
                &mut d,
                &table.schema,
                published,
                &format!("{name}.{}", field.name),
                field,
                fact,
            );
        }
    }
    d.none();
}

/// Follows a path of the facts (`spec.ports[].protocol`); none when it leads into a map or away from the types.
fn follow<'a>(schema: &'a Schema, root: &str, path: &str) -> Option<(&'a Field, &'a Type)> {
    let mut ty = schema.find(root)?;
    let mut found = None;
    for part in path.split('.') {
        let (name, item) = part.strip_suffix("[]").map_or((part, false), |name| (name, true));
        let field = ty.as_struct()?.field(name)?;
        ty = schema.get(field.ty);
        if item {
            ty = schema.get(ty.as_list()?.item);
        }
        found = Some((field, ty));
    }
    found
}

/// Defaults of a kind whose struct another kind shares without them, or on whose absence another default depends; code
/// applies them.
const OF_THE_KIND_ALONE: [(&str, &str); 7] = [
    ("io.k8s.api.apps.v1.StatefulSet", "spec.updateStrategy.type"),
    ("io.k8s.api.batch.v1.Job", "spec.completionMode"),
    ("io.k8s.api.batch.v1.Job", "spec.manualSelector"),
    ("io.k8s.api.batch.v1.Job", "spec.parallelism"),
    ("io.k8s.api.batch.v1.Job", "spec.suspend"),
    (
        "io.k8s.api.core.v1.PersistentVolume",
        "spec.persistentVolumeReclaimPolicy",
    ),
    ("io.k8s.api.core.v1.PersistentVolume", "spec.volumeMode"),
];

#[test]
fn every_unconditional_default_agrees_with_the_facts() {
    let Some(Json::Array(defaults)) = facts("defaults.json") else {
        return;
    };
    let (table, mut d, mut compared) = (table(), Differences::default(), 0);
    for fact in &defaults {
        let (of, path) = (text(fact, "type").unwrap(), text(fact, "fieldPath").unwrap());
        let unconditional = matches!(text(fact, "condition").unwrap(), "absent" | "absent||0" | "empty");
        let expected = match &fact["default"] {
            Json::String(s) if s == "=ref(AzureDataDiskCachingReadWrite)" => "ReadWrite".into(),
            Json::String(s) if s == "=ref(AzureSharedBlobDisk)" => "Shared".into(),
            Json::String(s) if s.starts_with(['=', '<']) => continue,
            other => other.clone(),
        };
        let Some((field, ty)) = follow(&table.schema, of, path) else {
            continue;
        };
        if !unconditional || fact.get("scope").is_some() || OF_THE_KIND_ALONE.contains(&(of, path)) {
            continue;
        }
        compared += 1;
        // Writing zero into what is no pointer changes nothing.
        let fact_type = spelled(&table.schema, field.ty);
        let no_op = !field.pointer && (zero(&fact_type).as_ref() == Some(&expected) || ty.as_map().is_some());
        if !no_op {
            d.check(of, path, field.default().map(value), Some(expected));
        }
    }
    assert!(compared > 150, "only {compared} defaults compared");
    d.none();
}

fn kind_of(text: &str) -> Kind {
    let mut parts = text.rsplitn(3, '/').map(|part| Name::from(part.to_owned()));
    let (kind, version) = (parts.next().unwrap(), parts.next().unwrap());
    Kind {
        group: parts.next().unwrap_or_default(),
        version,
        kind,
    }
}

fn paths(changes: &Json, op: &str) -> Vec<String> {
    let of_op = changes
        .as_array()
        .into_iter()
        .flatten()
        .filter(|c| text(c, "op") == Some(op));
    of_op.map(|c| text(c, "path").unwrap().to_owned()).collect()
}

/// Fields whose gate upstream has in code and not in their tags.
const UNTAGGED: [(&str, &str); 1] = [("io.k8s.api.core.v1.Lifecycle.stopSignal", "ContainerStopSignals")];

/// Whole top-level paths; what lies deeper depends on gates or values and is code.
fn whole(changes: &Json, op: &str) -> Vec<String> {
    paths(changes, op).into_iter().filter(|p| !p.contains('.')).collect()
}

#[test]
fn every_resource_agrees_with_the_facts() {
    let Some(Json::Array(resources)) = facts("resources.json") else {
        return;
    };
    let (table, mut d) = (table(), Differences::default());
    d.check(
        "the texts",
        "number of resources",
        table.resources.len(),
        resources.len(),
    );
    for fact in &resources {
        let (group, version) = (text(fact, "group").unwrap(), text(fact, "version").unwrap());
        let name = text(fact, "resource").unwrap();
        match table.resource(group, version, name) {
            Some(resource) => compare_resource(&mut d, &format!("{group}/{version} {name}"), resource, fact),
            None => d.0.push(format!("{group}/{version} {name} is missing")),
        }
    }
    d.none();
}

fn compare_resource(d: &mut Differences, of: &str, r: &Resource, fact: &Json) {
    d.check(of, "kind", Some(&*r.kind), text(fact, "kind"));
    d.check(of, "singular", Some(&*r.singular), text(fact, "singularName"));
    d.check(of, "short names", owned(&r.short_names), strings(fact, "shortNames"));
    d.check(of, "categories", owned(&r.categories), strings(fact, "categories"));
    d.check(of, "namespaced", r.namespaced, flag(fact, "namespaced"));
    d.check(
        of,
        "verbs",
        r.verbs.iter().map(str::to_owned).collect(),
        strings(fact, "verbs"),
    );
    d.check(of, "default on", r.on_by_default(), flag(fact, "defaultOn"));
    let needs = r.needs.iter().map(|need| match need {
        Need::RuntimeConfig => format!("runtime-config={}", r.api_version()),
        Need::FeatureGate(gate) => format!("feature-gate={gate}"),
    });
    d.check(of, "needs", needs.collect(), strings(fact, "needs"));
    d.check(of, "introduced", r.introduced.as_deref(), text(fact, "introduced"));
    d.check(of, "removed", r.removed.as_deref(), text(fact, "removed"));
    let tail = if r.namespaced { "/{namespace}/{name}" } else { "/{name}" };
    let key = (!r.key.is_empty()).then(|| format!("/registry{}{tail}", r.key));
    d.check(of, "key", key.as_deref(), text(fact, "etcdKey"));
    d.check(
        of,
        "stored",
        r.storage.clone(),
        text(fact, "storageVersion").map(kind_of),
    );
    let columns: Vec<_> = r
        .columns
        .iter()
        .map(|c| (&*c.name, &*c.kind, &*c.format, i64::from(c.priority)))
        .collect();
    let expected = fact
        .get("columns")
        .and_then(Json::as_array)
        .into_iter()
        .flatten()
        .map(|c| {
            let part = |key| text(c, key).unwrap();
            (
                part("name"),
                part("type"),
                part("format"),
                c["priority"].as_i64().unwrap(),
            )
        });
    d.check(of, "columns", columns, expected.collect());
    d.check(of, "selectable", owned(&r.selectable), strings(fact, "fieldSelectors"));
    d.check(
        of,
        "never set",
        owned(&r.never_set),
        strings(fact, "acceptedButNeverSet"),
    );
    let rule = match text(fact, "nameRule") {
        Some("dns1123subdomain" | "dns1123subdomain max52") | None => NameRule::Subdomain,
        Some("dns1123label") => NameRule::Label,
        Some("pathSegment") => NameRule::PathSegment,
        Some("canonical-ip") => NameRule::Ip,
        Some(rule) if rule.starts_with('[') => NameRule::Loose,
        Some(_) => NameRule::Composed,
    };
    d.check(of, "name rule", r.name_rule, rule);
    let Some(s) = fact.get("strategy") else { return };
    d.check(
        of,
        "first generation",
        Some(u64::from(r.first_generation)),
        s["generationOnCreate"].as_u64(),
    );
    d.check(of, "generation", owned(&r.generation), strings(s, "generationBumpsOn"));
    d.check(
        of,
        "create on update",
        r.create_on_update,
        flag(s, "allowCreateOnUpdate"),
    );
    d.check(
        of,
        "unconditional update",
        r.unconditional_update,
        flag(s, "allowUnconditionalUpdate"),
    );
    d.check(of, "graceful", r.graceful_delete, flag(s, "gracefulDelete"));
    d.check(
        of,
        "delete returns object",
        r.delete_returns_object,
        flag(s, "deleteReturnsObject"),
    );
    d.check(of, "ttl", r.ttl, flag(s, "ttl"));
    let dependents = match text(s, "gcDefault") {
        Some("orphan") => Dependents::Orphan,
        Some("unsupported") => Dependents::Unsupported,
        _ => Dependents::Background,
    };
    d.check(of, "dependents", r.dependents, dependents);
    d.check(
        of,
        "cleared on create",
        owned(&r.clear_on_create),
        whole(&s["createChanges"], "clear"),
    );
    d.check(
        of,
        "kept on update",
        owned(&r.keep_on_update),
        keeps(&s["updateChanges"]),
    );
    let api_version = r.api_version();
    let reset = |of: &Json| {
        of.get("resetFields")
            .map(|r| strings(r, &api_version))
            .unwrap_or_default()
    };
    d.check(of, "reset", owned(&r.reset), reset(s));
    let subresources = fact["subresources"].as_array().unwrap();
    d.check(of, "number of subresources", r.subresources.len(), subresources.len());
    for fact in subresources {
        let of = format!("{of}/{}", text(fact, "name").unwrap());
        let Some(sub) = r.subresource(text(fact, "name").unwrap()) else {
            d.0.push(format!("{of} is missing"));
            continue;
        };
        d.check(
            &of,
            "verbs",
            sub.verbs.iter().map(str::to_owned).collect(),
            strings(fact, "verbs"),
        );
        d.check(&of, "kind", sub.kind.clone(), kind_of(text(fact, "kind").unwrap()));
        let form = match (text(fact, "responseKind"), flag(fact, "namedCreate")) {
            (Some("text/plain stream"), _) => SubresourceForm::Stream,
            (answer, true) => SubresourceForm::Action(answer.map_or(sub.kind.clone(), kind_of)),
            (Some(_), false) => {
                SubresourceForm::Connect(strings(fact, "connectMethods").into_iter().map(Name::from).collect())
            }
            (None, false) => SubresourceForm::Object,
        };
        d.check(&of, "form", &sub.form, &form);
        d.check(&of, "kept", owned(&sub.keep), keeps(&fact["updateChanges"]));
        d.check(&of, "reset", owned(&sub.reset), reset(fact));
        d.check(
            &of,
            "generation",
            owned(&sub.generation),
            strings(fact, "generationBumpsOn"),
        );
    }
}

/// Kept paths; single annotations are code.
fn keeps(changes: &Json) -> Vec<String> {
    paths(changes, "keepOld")
        .into_iter()
        .filter(|p| !p.starts_with("metadata.annotations."))
        .collect()
}
