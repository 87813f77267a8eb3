//! Discovery documents, byte for byte as a real kube-apiserver 1.36 serves them; skipped where `../shared/facts` is absent.

#![allow(clippy::unwrap_used, clippy::expect_used)] // what a helper of a test cannot do fails the test

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use triptych_object::Value;
use triptych_object::json;
use triptych_registry::discovery::{Entry, Snapshot, documents, resources};
use triptych_schema::resource::{Need, Resource};
use triptych_schema::{Table, protobuf};

/// Which of the recorded servers.
#[derive(Clone, Copy)]
enum Served {
    Default,
    AllApis,
    AllApisAllGates,
}

impl Served {
    fn folder(self) -> &'static str {
        match self {
            Served::Default => "",
            Served::AllApis => "all-apis",
            Served::AllApisAllGates => "all-apis-all-gates",
        }
    }

    fn serves(self, resource: &Resource) -> bool {
        resource.needs.iter().all(|need| match (self, need) {
            (Served::Default, _) => false,
            (Served::AllApis, need) => matches!(need, Need::RuntimeConfig),
            (Served::AllApisAllGates, _) => true,
        })
    }
}

fn facts(served: Served) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
    let found = [root.join("../shared/facts"), root.join("../../shared/facts")];
    let found = found.into_iter().find(|p| p.is_dir());
    if found.is_none() {
        eprintln!("skipped: no ../shared/facts here");
    }
    Some(found?.join("discovery").join(served.folder()))
}

fn tables() -> [Table; 3] {
    [
        triptych_aggregator::schema::load().unwrap(),
        triptych_core_api::schema::load().unwrap(),
        triptych_extensions_api::schema::load().unwrap(),
    ]
}

type Groups<'a> = BTreeMap<(&'a str, &'a str), Vec<&'a Resource>>;

fn served<'a>(tables: &'a [Table], which: Served) -> Groups<'a> {
    let mut groups: Groups<'a> = BTreeMap::new();
    for resource in tables.iter().flat_map(|t| &t.resources).filter(|r| which.serves(r)) {
        groups
            .entry((&resource.group, &resource.version))
            .or_default()
            .push(resource);
    }
    for resources in groups.values_mut() {
        resources.sort_by(|a, b| a.resource.cmp(&b.resource));
    }
    groups
}

fn check(which: Served) {
    let Some(folder) = facts(which) else { return };
    let tables = tables();
    let groups = served(&tables, which);
    let entries = groups
        .iter()
        .map(|((group, version), list)| Entry::current(group, version, &resources::aggregated(list.iter().copied())));
    let snapshot = Snapshot::new(entries);
    let mut documents_made: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    documents_made.insert("aggregated_api".into(), snapshot.aggregated_api().body.to_vec());
    documents_made.insert("aggregated_apis".into(), snapshot.aggregated_apis().body.to_vec());
    documents_made.insert("apis".into(), snapshot.group_list().to_vec());
    for ((group, version), list) in &groups {
        let list = documents::api_resource_list(group, version, resources::plain(list.iter().copied()));
        let name = match *group {
            "" => format!("api__{version}"),
            group => format!("apis__{group}__{version}"),
        };
        documents_made.insert(name, json::to_vec(&list));
        if let Some(document) = snapshot.group(group) {
            documents_made.insert(format!("apis__{group}"), document.to_vec());
        }
    }
    let mut differing = Vec::new();
    for (name, made) in &documents_made {
        let expected = std::fs::read(folder.join(format!("{name}.json"))).unwrap_or_default();
        if expected.trim_ascii_end() != made.as_slice() {
            differing.push(name.clone());
            let (expected, made) = (String::from_utf8_lossy(&expected), String::from_utf8_lossy(made));
            let at = expected
                .bytes()
                .zip(made.bytes())
                .take_while(|(a, b)| a == b)
                .count()
                .saturating_sub(80);
            eprintln!("{name}\n  want …{:.300}\n  got  …{:.300}", &expected[at..], &made[at..]);
        }
    }
    let recorded = std::fs::read_dir(&folder).unwrap().filter_map(|f| {
        let name = f.ok()?.file_name().into_string().ok()?;
        let name = name.strip_suffix(".json")?.to_owned();
        (name.starts_with("api__") || name.starts_with("apis__")).then_some(name)
    });
    let missing: Vec<String> = recorded.filter(|name| !documents_made.contains_key(name)).collect();
    assert!(
        differing.is_empty() && missing.is_empty(),
        "differing: {differing:?}, missing: {missing:?}"
    );
}

#[test]
fn documents_are_those_of_the_default_server() {
    check(Served::Default);
}

#[test]
fn documents_are_those_of_a_server_with_all_apis() {
    check(Served::AllApis);
}

#[test]
fn documents_are_those_of_a_server_with_all_apis_and_gates() {
    check(Served::AllApisAllGates);
}

#[test]
fn the_root_of_the_core_group_names_the_server() {
    let Some(folder) = facts(Served::Default) else { return };
    let recorded = json::from_slice(&std::fs::read(folder.join("api.json")).unwrap()).unwrap();
    let address = recorded.array_at(&["serverAddressByClientCIDRs"])[0].str_at(&["serverAddress"]);
    let made: Value = documents::api_versions(address);
    assert_eq!(json::to_string(&made), json::to_string(&recorded));
}

#[test]
fn every_document_has_a_protobuf_form_that_says_the_same() {
    let tables = tables();
    let groups = served(&tables, Served::Default);
    let entries = groups
        .iter()
        .map(|((group, version), list)| Entry::current(group, version, &resources::aggregated(list.iter().copied())));
    let snapshot = Snapshot::new(entries);
    let schema = &tables[0].schema;
    let plain = resources::plain(groups[&("apps", "v1")].iter().copied());
    let list = json::to_vec(&documents::api_resource_list("apps", "v1", plain));
    let versions = json::to_vec(&documents::api_versions("10.0.0.1:443"));
    for (type_name, document) in [
        (
            "io.k8s.api.apidiscovery.v2.APIGroupDiscoveryList",
            &snapshot.aggregated_apis().body[..],
        ),
        (
            "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroupList",
            &snapshot.group_list()[..],
        ),
        (
            "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroup",
            &snapshot.group("apps").unwrap()[..],
        ),
        ("io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList", &list[..]),
        ("io.k8s.apimachinery.pkg.apis.meta.v1.APIVersions", &versions[..]),
    ] {
        let ty = schema.named(type_name).unwrap();
        let document = json::from_slice(document).unwrap();
        let encoded = protobuf::encode_object(schema, ty, &document).unwrap();
        let envelope = protobuf::open(&encoded).unwrap();
        assert_eq!(envelope.kind, document.str_at(&["kind"]));
        assert_eq!(envelope.api_version, document.str_at(&["apiVersion"]));
        let mut decoded = protobuf::decode(schema, ty, envelope.raw).unwrap();
        for name in ["kind", "apiVersion"] {
            if let Some(value) = document.get(name) {
                decoded.set_at(&[name], value.clone());
            }
        }
        let mut differences = Vec::new();
        compare(&document, &decoded, type_name, &mut differences);
        assert!(differences.is_empty(), "{differences:?}");
    }
}

/// Everything that `want` says; protobuf may add empty metadata.
fn compare(want: &Value, got: &Value, at: &str, out: &mut Vec<String>) {
    match (want, got) {
        (Value::Object(w), Value::Object(_)) => {
            for (name, want) in w.iter() {
                compare(
                    want,
                    got.get(name).unwrap_or(&Value::Null),
                    &format!("{at}.{name}"),
                    out,
                );
            }
        }
        (Value::Array(w), Value::Array(g)) if w.len() == g.len() => {
            w.iter()
                .zip(g)
                .enumerate()
                .for_each(|(i, (w, g))| compare(w, g, &format!("{at}[{i}]"), out));
        }
        _ if want == got => {}
        _ => out.push(format!(
            "{at}: want {} got {}",
            json::to_string(want),
            json::to_string(got)
        )),
    }
}
