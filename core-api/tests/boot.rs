//! What a fresh cluster begins with, through the real registry onto the embedded store, compared with a real one's etcd.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // what a helper of a test cannot do fails the test

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use jiff::Timestamp;
use triptych_admission::Chain;
use triptych_core_api::access::Access;
use triptych_core_api::boot::{self, Identity, Settings};
use triptych_core_api::kinds;
use triptych_core_api::loopback::Loopback;
use triptych_object::{RequestInfo, StatusResult, UserInfo, Value, json};
use triptych_registry::catalogue::{self, Making};
use triptych_registry::{Permit, Services};

struct Everything;

impl Permit for Everything {
    fn permit<'a>(&'a self, _user: &'a UserInfo, _request: &'a RequestInfo) -> BoxFuture<'a, StatusResult<()>> {
        std::future::ready(Ok(())).boxed()
    }
}

/// Resources that boot objects are of.
const RESOURCES: [&str; 8] = [
    "namespaces",
    "configmaps",
    "leases",
    "servicecidrs",
    "ipaddresses",
    "priorityclasses",
    "flowschemas",
    "prioritylevelconfigurations",
];

fn loopback(world: &support::World) -> Loopback {
    let services = Arc::new(Services {
        admission: Arc::new(Chain::new(Vec::new())),
        permit: Arc::new(Everything),
        meta: world.scheme.clone(),
        now: Timestamp::now,
        min_watch_seconds: 1800,
    });
    let making = Making {
        scheme: &world.scheme,
        kinds: &kinds::all(&Access::default(), &world.context, &Arc::default()),
        collections: &world.context.collections,
        services: &services,
        store_protobuf: false,
    };
    let served: Vec<_> = world
        .resources
        .iter()
        .filter(|r| RESOURCES.contains(&&*r.resource))
        .cloned()
        .collect();
    let (endpoints, misfits) = catalogue::build(&served, &making);
    assert!(misfits.is_empty(), "{misfits:?}");
    Loopback::new(&endpoints)
}

async fn stored(world: &support::World) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for collection in world.context.collections.iter() {
        let snapshot = collection.cache.consistent(Duration::from_secs(5)).await.unwrap();
        let objects = snapshot.range("");
        all.extend(objects.map(|o| (o.key().to_string(), json::from_slice(o.bytes()).unwrap())));
    }
    all
}

/// Takes out what differs from boot to boot.
fn without_times(object: &mut Value) {
    for member in ["uid", "resourceVersion", "creationTimestamp"] {
        object.remove_at(&["metadata", member]);
    }
    let fields = object
        .at_mut(&["metadata", "managedFields"])
        .and_then(Value::as_array_mut);
    for entry in fields.into_iter().flatten() {
        entry.remove_at(&["time"]);
    }
    let conditions = object.at_mut(&["status", "conditions"]).and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        condition.remove_at(&["lastTransitionTime"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fresh_store_holds_what_a_fresh_etcd_holds_however_many_replicas_start() {
    let world = support::World::open().await;
    let loopback = loopback(&world);
    let settings = Settings {
        cluster_ips: world.context.cluster_ips.clone(),
        client_ca: std::sync::Arc::new(|| Some("<PEM>".into())),
        today: "2026-01-02".into(),
    };
    let both = futures_util::join!(boot::ensure(&loopback, &settings), boot::ensure(&loopback, &settings));
    assert_eq!(both, (Ok(()), Ok(())));
    let first = stored(&world).await;
    boot::ensure(&loopback, &settings).await.unwrap();
    assert!(stored(&world).await == first, "the second run wrote something");

    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let facts = ["../../shared/facts", "../../../shared/facts"]
        .iter()
        .find_map(|dir| std::fs::read_to_string(here.join(dir).join("boot-objects.json")).ok());
    let Some(facts) = facts else { return };
    let mut compared = 0;
    for line in json::from_slice(facts.as_bytes()).unwrap().as_array().unwrap() {
        let key = line.str_at(&["etcdKey"]).trim_start_matches("/registry");
        let ours = RESOURCES.iter().any(|r| key.starts_with(&format!("/{r}/")));
        // the service's address comes with the service, the lease is tested below
        if !ours || line.get("instanceSpecific").is_some() || key.starts_with("/ipaddresses/") {
            continue;
        }
        let mut have = first.get(key).unwrap_or_else(|| panic!("{key} is missing")).clone();
        let mut want = line.get("object").unwrap().clone();
        without_times(&mut have);
        without_times(&mut want);
        assert_eq!(json::to_string(&sorted(have)), json::to_string(&sorted(want)), "{key}");
        compared += 1;
    }
    assert_eq!(compared, 11 + 8 + 2 + 4 + 1);
    let authentication = &first["/configmaps/kube-system/extension-apiserver-authentication"];
    assert_eq!(authentication.str_at(&["data", "client-ca-file"]), "<PEM>");
}

fn sorted(mut value: Value) -> Value {
    match &mut value {
        Value::Object(object) => {
            object.iter_mut().for_each(|(_, v)| *v = sorted(std::mem::take(v)));
            object.sort();
        }
        Value::Array(items) => items.iter_mut().for_each(|v| *v = sorted(std::mem::take(v))),
        _ => {}
    }
    value
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_identity_lease_is_taken_over_by_the_next_process_of_the_host() {
    let world = support::World::open().await;
    let loopback = loopback(&world);
    let settings = Settings {
        cluster_ips: world.context.cluster_ips.clone(),
        client_ca: std::sync::Arc::new(|| None),
        today: "2026-01-02".into(),
    };
    boot::ensure(&loopback, &settings).await.unwrap();
    let key = "/leases/kube-system/apiserver-wlv32tlttr4jl3gtroqexyxapa";
    Identity::new("vm").ensure(&loopback).await.unwrap();
    let first = stored(&world).await[key].clone();
    Identity::new("vm").ensure(&loopback).await.unwrap();
    let second = stored(&world).await[key].clone();
    let holder = |lease: &Value| lease.str_at(&["spec", "holderIdentity"]).to_owned();
    assert!(holder(&first) != holder(&second));
    assert!(holder(&second).starts_with("apiserver-wlv32tlttr4jl3gtroqexyxapa_"));
}
