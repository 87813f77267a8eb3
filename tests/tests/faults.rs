//! kill -9 of every tier in turn under a writing load, on both stores: what was acknowledged is there afterwards, and a
//! watcher that resumes sees each change exactly once.
#![allow(clippy::unwrap_used, clippy::expect_used)] // what a helper of a test cannot do fails the test

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use triptych_local::client::ApiClient;
use triptych_local::cluster::{Builder, Cluster};
use triptych_local::etcd::Etcd;
use triptych_local::tier::Tier;
use triptych_tests::watcher::{Watcher, revision_of};
use triptych_tests::{crd, eventually};

const ROUNDS: usize = 20;
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/faults.example.com/v1/namespaces/default/widgets";
const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

/// What a server said it had written.
#[derive(Debug, Default)]
struct Acknowledged {
    created: BTreeSet<String>,
    revisions: BTreeSet<u64>,
}

fn object(path: &str, name: &str) -> Value {
    match path {
        CONFIG_MAPS => json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}),
        WIDGETS => json!({"apiVersion": "faults.example.com/v1", "kind": "Widget", "metadata": {"name": name}}),
        _ => json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": format!("v1.{name}.faults.example.org")},
            "spec": {
                "group": format!("{name}.faults.example.org"), "version": "v1", "groupPriorityMinimum": 1,
                "versionPriority": 1, "service": {"namespace": "default", "name": "absent"}, "insecureSkipTLSVerify": true,
            },
        }),
    }
}

/// Creates object after object and changes each once, until told to stop. Never tries the same write twice: whether one
/// that was not acknowledged took place is not known.
async fn write(client: ApiClient, path: &'static str, stop: Arc<AtomicBool>) -> Acknowledged {
    let mut acknowledged = Acknowledged::default();
    let pause = Duration::from_millis(if path == API_SERVICES { 200 } else { 5 });
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let new = object(path, &format!("o{number}"));
        let name = new["metadata"]["name"].as_str().unwrap().to_owned();
        let patch = json!({"metadata": {"labels": {"changed": "yes"}}});
        let url = format!("{path}/{name}");
        for (method, url, body, wanted) in [(Method::POST, path, &new, 201), (Method::PATCH, &*url, &patch, 200)] {
            let Ok(answer) = client.send_json(method, url, body).await else {
                break;
            };
            if answer.status != wanted {
                break;
            }
            acknowledged.revisions.insert(revision_of(&answer.json().unwrap()));
            acknowledged.created.insert(name.clone());
        }
        tokio::time::sleep(pause).await;
    }
    acknowledged
}

async fn define_widgets(client: &ApiClient) {
    let answer = client
        .send_json(Method::POST, CRDS, &crd("faults.example.com"))
        .await
        .unwrap();
    assert_eq!(answer.status, 201, "{}", answer.text());
    eventually("widgets are served", async || {
        client.get(WIDGETS).await.is_ok_and(|a| a.status == 200)
    })
    .await;
}

async fn nothing_is_lost(builder: Builder) {
    let mut cluster = builder.start().await.unwrap();
    let client = cluster.client().clone();
    define_widgets(&client).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut load = BTreeMap::new();
    for path in [CONFIG_MAPS, WIDGETS, API_SERVICES] {
        let watcher = Watcher::start(client.clone(), path).await.unwrap();
        load.insert(path, (watcher, tokio::spawn(write(client.clone(), path, stop.clone()))));
    }

    for round in 0..ROUNDS {
        let instance = Tier::ALL[round % Tier::ALL.len()].first();
        tokio::time::sleep(Duration::from_millis(150)).await; // writes go on meanwhile: this is the load, not a wait
        cluster.kill(instance).await;
        cluster.start_again(instance).unwrap();
        cluster.ready().await.unwrap();
    }

    stop.store(true, Ordering::Relaxed);
    for (path, (watcher, writer)) in load {
        let acknowledged = writer.await.unwrap();
        let list = client.get(path).await.unwrap().json().unwrap();
        let there: BTreeMap<&str, u64> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| (item["metadata"]["name"].as_str().unwrap(), revision_of(item)))
            .collect();
        println!(
            "{path}: {} created, {} writes acknowledged",
            acknowledged.created.len(),
            acknowledged.revisions.len()
        );
        let enough = if path == API_SERVICES { 5 } else { 20 };
        assert!(acknowledged.revisions.len() > enough, "{path}: there was no load");
        let lost: Vec<_> = acknowledged
            .created
            .iter()
            .filter(|name| !there.contains_key(name.as_str()))
            .collect();
        assert!(lost.is_empty(), "{path}: acknowledged and lost: {lost:?}");

        let newest = there.values().copied().max().unwrap_or(0);
        eventually("the watcher has caught up", async || {
            watcher.broken().is_some() || watcher.last() >= newest
        })
        .await;
        assert_eq!(watcher.broken(), None);
        let seen = watcher.seen();
        let revisions: Vec<u64> = seen.iter().map(|s| s.revision).collect();
        assert!(
            revisions.is_sorted_by(|a, b| a < b),
            "{path}: told twice or out of order"
        );
        let told: BTreeSet<u64> = revisions.into_iter().collect();
        let missed: Vec<_> = acknowledged.revisions.difference(&told).collect();
        assert!(
            missed.is_empty(),
            "{path}: revisions acknowledged and never told: {missed:?}"
        );
        let mut added = BTreeSet::new();
        for event in seen.iter().filter(|s| s.kind == "ADDED") {
            assert!(added.insert(&event.name), "{path}: {} was added twice", event.name);
        }
    }
    cluster.finish(ALLOWED).await.unwrap();
}

/// What the tiers may say about neighbours that are killed.
const ALLOWED: &[&str] = &[];

#[tokio::test]
async fn nothing_acknowledged_is_lost_when_tiers_are_killed_on_embedded_stores() {
    nothing_is_lost(Cluster::builder().embedded()).await;
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_when_tiers_are_killed_on_etcd() {
    let Some(binary) = Etcd::binary() else {
        println!("skipped: TRIPTYCH_ETCD names no etcd");
        return;
    };
    let etcd = Etcd::start(binary).await.unwrap();
    nothing_is_lost(Cluster::builder().etcd(etcd.url())).await;
}
