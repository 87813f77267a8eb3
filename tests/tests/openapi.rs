//! OpenAPI documents against those of a real kube-apiserver 1.36; skipped where `../shared/facts` is absent.
//!
//! Compared as trees. The recorded server writes no defaults for list items and map values (facts/peer-deltas.json),
//! and we describe query parameters and enum values in our own words.

#![allow(clippy::unwrap_used, clippy::expect_used)] // what a helper of a test cannot do fails the test

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;
use triptych_schema::Table;
use triptych_schema::openapi::custom::{self, CustomVersion};
use triptych_schema::openapi::definition::{Definitions, Dialect};
use triptych_schema::openapi::operation::{self, Route};
use triptych_schema::openapi::v2::Swagger;
use triptych_schema::openapi::v3::{self, Info};
use triptych_schema::openapi::{Describe, Scope};
use triptych_schema::resource::Resource;

fn facts() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
    let found = [root.join("../shared/facts"), root.join("../../shared/facts")];
    let found = found.into_iter().find(|p| p.is_dir());
    if found.is_none() {
        eprintln!("skipped: no ../shared/facts here");
    }
    Some(found?.join("openapi"))
}

fn recorded(folder: &Path, name: &str) -> Option<Value> {
    let file = std::fs::File::open(folder.join(name)).ok()?;
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(file).read_to_end(&mut text).unwrap();
    Some(serde_json::from_slice(&text).unwrap())
}

fn tables() -> [Table; 3] {
    [
        triptych_core_api::schema::load().unwrap(),
        triptych_aggregator::schema::load().unwrap(),
        triptych_extensions_api::schema::load().unwrap(),
    ]
}

fn versions(table: &Table) -> BTreeMap<(&str, &str), Vec<&Resource>> {
    let mut versions: BTreeMap<(&str, &str), Vec<&Resource>> = BTreeMap::new();
    for resource in table.resources.iter().filter(|r| r.on_by_default()) {
        versions
            .entry((&resource.group, &resource.version))
            .or_default()
            .push(resource);
    }
    versions
}

/// Every document a tier has, by the path below `/openapi/v3/`.
fn routes(table: &Table, roots: bool) -> BTreeMap<String, (Vec<Route>, Scope<'_>)> {
    let mut all = BTreeMap::new();
    let scope = Scope::Version("", "v1");
    for ((group, version), resources) in versions(table) {
        let routes = operation::of_version(&table.schema, group, version, resources);
        let root = operation::root(group, version);
        all.insert(root[1..].to_owned(), (routes, Scope::Version(group, version)));
        if !group.is_empty() {
            all.insert(format!("apis/{group}"), (operation::of_group(group), scope));
        }
    }
    for name in operation::ROOTS.iter().filter(|_| roots) {
        all.insert((*name).to_owned(), (vec![operation::of_root(name).unwrap()], scope));
    }
    all
}

/// Descriptions as the recorded server has them: whether each stands where it should.
struct Recorded(Value);

impl Recorded {
    fn load(folder: &Path) -> Recorded {
        Recorded(recorded(folder, "v2.json.gz").unwrap()["definitions"].take())
    }
}

impl Describe for Recorded {
    fn of_type(&self, name: &str) -> Option<&str> {
        self.0[name]["description"].as_str()
    }

    fn field(&self, name: &str, field: &str) -> Option<&str> {
        let description = self.0[name]["properties"][field]["description"].as_str()?;
        Some(
            description
                .split("Possible enum values:")
                .next()
                .unwrap_or_default()
                .trim_end(),
        )
    }
}

/// Takes out what is known to differ.
fn reduce(value: &mut Value, key: &str, parameters: bool) {
    match value {
        Value::Object(o) => {
            if matches!(key, "items" | "additionalProperties") {
                o.remove("default");
                if let Some(reference) = o.get("allOf").map(|all| all[0].clone()).filter(|_| o.len() == 1) {
                    *value = reference;
                    return;
                }
            }
            if let Some(Value::String(description)) = o.get_mut("description") {
                if parameters {
                    o.remove("description");
                } else if let Some(at) = description.find("Possible enum values:") {
                    description.truncate(at);
                    *description = description.trim_end().to_owned();
                    if description.is_empty() {
                        o.remove("description");
                    }
                }
            }
            for (name, value) in o.iter_mut() {
                reduce(value, name, parameters || name == "parameters");
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|v| reduce(v, "", parameters)),
        _ => {}
    }
}

fn differences(want: &Value, got: &Value, at: &str, out: &mut Vec<String>) {
    match (want, got) {
        (Value::Object(w), Value::Object(g)) => {
            for (name, want) in w {
                match g.get(name) {
                    Some(got) => differences(want, got, &format!("{at}/{name}"), out),
                    None => out.push(format!("{at}/{name}: missing, want {:.120}", want.to_string())),
                }
            }
            for name in g.keys().filter(|n| !w.contains_key(*n)) {
                out.push(format!("{at}/{name}: too much: {:.120}", g[name].to_string()));
            }
        }
        (Value::Array(w), Value::Array(g)) if w.len() == g.len() => {
            w.iter()
                .zip(g)
                .enumerate()
                .for_each(|(i, (w, g))| differences(w, g, &format!("{at}/{i}"), out));
        }
        _ if want == got => {}
        _ => out.push(format!(
            "{at}: want {:.120} got {:.120}",
            want.to_string(),
            got.to_string()
        )),
    }
}

fn report(name: &str, mut want: Value, got: &[u8]) -> Vec<String> {
    let mut got: Value = serde_json::from_slice(got).unwrap();
    let mut out = Vec::new();
    reduce(&mut want, "", false);
    reduce(&mut got, "", false);
    differences(&want, &got, name, &mut out);
    out
}

fn fail_on(differences: &[String]) {
    for difference in differences.iter().take(40) {
        eprintln!("{difference}");
    }
    assert!(differences.is_empty(), "{} differences", differences.len());
}

#[test]
fn v3_documents_say_what_a_real_server_says() {
    let Some(folder) = facts() else { return };
    let index: Value = serde_json::from_slice(&std::fs::read(folder.join("v3-index.json")).unwrap()).unwrap();
    let mut expected: Vec<String> = index["paths"].as_object().unwrap().keys().cloned().collect();
    let texts = Recorded::load(&folder);
    let mut differences = Vec::new();
    for (i, table) in tables().iter().enumerate() {
        for (path, (routes, scope)) in routes(table, i == 0) {
            let definitions = Definitions {
                schema: &table.schema,
                texts: &texts,
                dialect: Dialect::V3,
                scope,
            };
            let made = v3::document(Info::KUBERNETES, &definitions, &routes, &[]);
            let name = format!("v3__{}.json.gz", path.replace('/', "__"));
            match recorded(&folder, &name) {
                Some(want) => differences.extend(report(&path, want, &made)),
                None => differences.push(format!("{path}: no such document")),
            }
            expected.retain(|p| *p != path);
        }
    }
    differences.extend(expected.into_iter().map(|path| format!("{path}: not made")));
    fail_on(&differences);
}

#[test]
fn the_v2_document_says_what_a_real_server_says() {
    let Some(folder) = facts() else { return };
    let texts = Recorded::load(&folder);
    let mut whole = Swagger::default();
    for (i, table) in tables().iter().enumerate() {
        let mut own = Swagger::default();
        for (routes, _) in routes(table, i == 0).values() {
            let definitions = Definitions {
                schema: &table.schema,
                texts: &texts,
                dialect: Dialect::V2,
                scope: Scope::Everything,
            };
            own.add(&definitions, routes, &[]);
        }
        whole.merge(&own.to_json(Info::KUBERNETES)).unwrap();
    }
    let mut made: Value = serde_json::from_slice(&whole.to_json(Info::KUBERNETES)).unwrap();
    let mut want = recorded(&folder, "v2.json.gz").unwrap();
    // names of shared parameters carry a hash of their descriptions
    for document in [&mut made, &mut want] {
        resolve(document);
    }
    fail_on(&report("v2", want, &serde_json::to_vec(&made).unwrap()));
}

/// Puts shared parameters back in their places.
fn resolve(document: &mut Value) {
    fn walk(value: &mut Value, shared: &Value) {
        if let Some(name) = value["$ref"].as_str().and_then(|r| r.strip_prefix("#/parameters/")) {
            *value = shared[name].clone();
            return;
        }
        match value {
            Value::Object(o) => o.values_mut().for_each(|v| walk(v, shared)),
            Value::Array(list) => list.iter_mut().for_each(|v| walk(v, shared)),
            _ => {}
        }
    }
    let shared = document.as_object_mut().unwrap().remove("parameters").unwrap();
    walk(document, &shared);
}

#[test]
fn a_custom_resources_v3_document_says_what_a_real_server_says() {
    let Some(folder) = facts() else { return };
    let story = folder.join("../../replay/stories/crd/openapi-v3.json");
    let Ok(story) = std::fs::read(story) else {
        eprintln!("skipped: no ../shared/replay here");
        return;
    };
    let story: Value = serde_json::from_slice(&story).unwrap();
    let crd = &story["steps"][0]["body"];
    let schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].to_string();
    let schema = triptych_object::json::from_slice(schema.as_bytes()).unwrap();
    let custom = CustomVersion {
        group: "ID.example.com",
        version: "v1",
        kind: "Widget",
        list_kind: "WidgetList",
        plural: "widgets",
        namespaced: true,
        schema: Some(&schema),
        preserve_unknown: false,
        status: true,
        scale: false,
        selectable: &[],
    };
    let table = triptych_extensions_api::schema::load().unwrap();
    let texts = Recorded::load(&folder);
    let definitions = Definitions {
        schema: &table.schema,
        texts: &texts,
        dialect: Dialect::V3,
        scope: Scope::Clients,
    };
    let more = custom.definitions(Dialect::V3, &texts);
    let made = v3::document(custom::INFO, &definitions, &custom.routes(), &more);
    let want = story["steps"][2]["expect"]["body"].clone();
    fail_on(&report("custom", want, &made));
}

#[test]
fn descriptions_are_those_of_a_real_server_except_of_lists() {
    let Some(folder) = facts() else { return };
    let real = recorded(&folder, "v2.json.gz").unwrap();
    let recorded = Recorded::load(&folder);
    let ours = triptych_registry::openapi::texts();
    let mut differing = Vec::new();
    for (name, definition) in real["definitions"].as_object().unwrap() {
        // k8s-openapi has one generic list, a generic WatchEvent, and no version.Info
        if ["List", "WatchEvent", "version.Info"].iter().any(|n| name.ends_with(n)) {
            continue;
        }
        if recorded.of_type(name) != ours.of_type(name) {
            differing.push(name.clone());
        }
        let properties = definition["properties"].as_object().into_iter().flatten();
        for (field, _) in properties {
            if recorded.field(name, field).filter(|d| !d.is_empty()) != ours.field(name, field) {
                differing.push(format!("{name}.{field}"));
            }
        }
    }
    fail_on(&differing);
}
