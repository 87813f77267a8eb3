//! The bootstrap policy through the real registry onto the embedded store: what a fresh cluster's etcd holds.

#![allow(clippy::unwrap_used, clippy::panic)] // what a helper of a test cannot do fails the test

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use jiff::Timestamp;
use prometheus::Registry;
use triptych_admission::Chain;
use triptych_core_api::access::Access;
use triptych_core_api::loopback::Loopback;
use triptych_core_api::rbac::bootstrap;
use triptych_core_api::rbac::policy::{GROUP, policy};
use triptych_core_api::schema;
use triptych_object::{RequestInfo, StatusResult, UserInfo, Value, json};
use triptych_registry::builtin::Scheme;
use triptych_registry::catalogue::{self, Collections, Making, Opening};
use triptych_registry::{Kinds, Permit, Services};
use triptych_storage::embedded::EmbeddedOptions;
use triptych_storage::{Embedded, Metrics, Store};

struct Everything;

impl Permit for Everything {
    fn permit<'a>(&'a self, _user: &'a UserInfo, _request: &'a RequestInfo) -> BoxFuture<'a, StatusResult<()>> {
        std::future::ready(Ok(())).boxed()
    }
}

/// RBAC's resources over a store in `folder`.
fn registry(folder: &Path) -> (Loopback, Arc<Collections>) {
    let table = schema::load().unwrap();
    let metrics = Metrics::new(&Registry::new()).unwrap();
    let store: Arc<dyn Store> = Arc::new(Embedded::open(folder, EmbeddedOptions::default()).unwrap());
    let scheme = Arc::new(Scheme::new(Arc::new(table.schema), "scheme", |_| false));
    let resources = table.resources.into_iter().filter(|r| *r.group == *GROUP);
    let resources: Vec<_> = resources.map(Arc::new).collect();
    let opening = Opening {
        scheme: &scheme,
        store: &|_, _| store.clone(),
        metrics: &metrics,
        ttl: Duration::from_secs(3600),
    };
    let mut kinds = Kinds::new();
    triptych_core_api::rbac::register(&mut kinds, &Access::default().escalation_check());
    let collections = Arc::new(Collections::start(&resources, &kinds, &opening));
    let services = Arc::new(Services {
        admission: Arc::new(Chain::new(Vec::new())),
        permit: Arc::new(Everything),
        meta: scheme.clone(),
        now: Timestamp::now,
        min_watch_seconds: 1800,
    });
    let making = Making {
        scheme: &scheme,
        kinds: &kinds,
        collections: &collections,
        services: &services,
        store_protobuf: false,
    };
    let endpoints = catalogue::build(&resources, &making).0;
    (Loopback::new(&endpoints), collections)
}

fn facts(file: &str) -> Option<Vec<u8>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    ["../../shared/facts", "../../../shared/facts"]
        .iter()
        .find_map(|dir| std::fs::read(here.join(dir).join(file)).ok())
}

async fn all(collections: &Collections) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for collection in collections.iter() {
        let snapshot = collection.cache.consistent(Duration::from_secs(5)).await.unwrap();
        let objects = snapshot.range("");
        all.extend(objects.map(|o| (o.key().to_string(), json::from_slice(o.bytes()).unwrap())));
    }
    all
}

#[tokio::test]
async fn a_fresh_store_holds_the_policy_once_however_many_replicas_start() {
    let folder = tempfile::TempDir::new().unwrap();
    let (loopback, collections) = registry(folder.path());
    let both = futures_util::join!(
        bootstrap::start_hook(loopback.clone()),
        bootstrap::start_hook(loopback.clone())
    );
    assert_eq!(both, (Ok(()), Ok(())));
    let mut stored = all(&collections).await;
    assert_eq!(stored.len(), policy().unwrap().len());
    bootstrap::start_hook(loopback).await.unwrap();
    assert!(all(&collections).await == stored, "the second run wrote something");

    let Some(expected) = facts("rbac-boot.json") else {
        return;
    };
    for line in json::from_slice(&expected).unwrap().as_array().unwrap() {
        let key = line.str_at(&["etcdKey"]).trim_start_matches("/registry").to_owned();
        let Some(mut ours) = stored.remove(&key) else {
            assert!(key.ends_with("service-ca-cert-publisher"), "{key} is missing");
            continue;
        };
        for member in ["uid", "resourceVersion", "creationTimestamp"] {
            ours.remove_at(&["metadata", member]);
        }
        let fields = ours
            .at_mut(&["metadata", "managedFields"])
            .and_then(Value::as_array_mut);
        for entry in fields.into_iter().flatten() {
            entry.remove_at(&["time"]);
        }
        assert_eq!(Some(&ours), line.get("object"), "{key}");
    }
    assert_eq!(stored.into_keys().collect::<Vec<_>>(), Vec::<String>::new());
}
