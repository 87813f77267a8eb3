//! What an operator relies on: health, metrics, a drain that loses nothing, certificates that are renewed in place.
#![allow(clippy::unwrap_used, clippy::expect_used)] // what a helper of a test cannot do fails the test

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use http::Method;
use serde_json::json;
use triptych_local::cluster::Cluster;
use triptych_local::pki;
use triptych_local::tier::Tier;
use triptych_tests::raw::Raw;
use triptych_tests::{crd, eventually};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Names under which dashboards made for kube-apiserver look, all of them fed after a few requests.
const METRICS: [&str; 12] = [
    "apiserver_request_total",
    "apiserver_request_duration_seconds_bucket",
    "apiserver_request_sli_duration_seconds_bucket",
    "apiserver_response_sizes_bucket",
    "apiserver_current_inflight_requests",
    "apiserver_longrunning_requests",
    "apiserver_storage_objects",
    "apiserver_resource_objects",
    "apiserver_watch_cache_resource_version",
    "apiserver_storage_size_bytes",
    "etcd_request_duration_seconds_bucket",
    "authenticated_user_requests",
];

#[tokio::test]
async fn every_tier_tells_its_health_and_metrics_under_the_known_names() {
    let cluster = Cluster::builder().embedded().start().await.unwrap();
    cluster.client().get(CONFIG_MAPS).await.unwrap();
    let _watch = cluster
        .client()
        .watch(&format!("{CONFIG_MAPS}?watch=true"))
        .await
        .unwrap();
    for tier in Tier::ALL {
        let client = cluster.client_of(tier.first(), Some("admin")).unwrap();
        for path in ["/livez", "/readyz", "/healthz"] {
            let answer = client.get(path).await.unwrap();
            assert_eq!(
                (answer.status.as_u16(), answer.text().as_str()),
                (200, "ok"),
                "{tier} {path}"
            );
            let verbose = client
                .get(&format!("{path}?verbose&exclude=ping"))
                .await
                .unwrap()
                .text();
            assert!(
                verbose.contains("[+]") && verbose.contains("[+]ping excluded: ok"),
                "{tier} {verbose}"
            );
        }
        client
            .get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
            .await
            .unwrap();
        let text = client.get("/metrics").await.unwrap().text();
        let told: BTreeSet<&str> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split(['{', ' ']).next())
            .collect();
        let missing: Vec<_> = METRICS.iter().filter(|name| !told.contains(*name)).collect();
        // A watch that is forwarded runs long in the tier that serves it.
        let expected: Vec<&&str> = match tier {
            Tier::CoreApi => Vec::new(),
            _ => METRICS
                .iter()
                .filter(|name| **name == "apiserver_longrunning_requests")
                .collect(),
        };
        assert!(
            missing.iter().all(|name| expected.contains(name)),
            "{tier} does not tell {missing:?}"
        );
        if tier != Tier::ExtensionsApi {
            assert!(told.contains("triptych_forward_requests_total"), "{tier}");
        }
    }
    cluster.finish(&[]).await.unwrap();
}

#[tokio::test]
async fn a_tier_that_is_told_to_end_ends_its_watches_and_loses_no_request() {
    let mut cluster = Cluster::builder().embedded().start().await.unwrap();
    let client = cluster.client().clone();
    let mut lines = client.watch(&format!("{CONFIG_MAPS}?watch=true")).await.unwrap();
    // Requests go on while every tier in turn is told to end; what is not served is refused, never cut off.
    let writer = {
        let client = client.clone();
        tokio::spawn(async move {
            let mut created = Vec::new();
            for number in 0.. {
                let object =
                    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("d{number}")}});
                match client.send_json(Method::POST, CONFIG_MAPS, &object).await {
                    Ok(answer) if answer.status == 201 => created.push(format!("d{number}")),
                    _ => return created,
                }
            }
            created
        })
    };
    tokio::time::sleep(Duration::from_millis(200)).await; // the load, not a wait
    let begun = Instant::now();
    let status = cluster.terminate(Tier::CoreApi.first()).await.expect("it ends in time");
    assert!(status.success(), "{status}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    while let Ok(Some(_)) = lines.next().await {}
    let created = writer.await.unwrap();
    assert!(!created.is_empty());

    cluster.start_again(Tier::CoreApi.first()).unwrap();
    cluster.ready().await.unwrap();
    let list = client.get(CONFIG_MAPS).await.unwrap().json().unwrap();
    let there: BTreeSet<_> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| i["metadata"]["name"].as_str().unwrap())
        .collect();
    assert!(created.iter().all(|name| there.contains(name.as_str())));
    cluster.finish(&[]).await.unwrap();
}

#[tokio::test]
async fn serving_certificates_are_renewed_without_a_restart() {
    let cluster = Cluster::builder().embedded().start().await.unwrap();
    let instance = Tier::Aggregator.first();
    let shown = async || {
        Raw::connect(&cluster, instance, false)
            .await
            .unwrap()
            .server_certificate()
    };
    let before = shown().await;
    // Another name in the certificate makes a new one necessary.
    pki::ensure(&cluster.wiring().layout, "192.0.2.7".parse().unwrap()).unwrap();
    eventually("new connections are shown the new certificate", async || {
        shown().await != before
    })
    .await;
    assert_eq!(cluster.client().get(CONFIG_MAPS).await.unwrap().status, 200);
    cluster.finish(&[]).await.unwrap();
}

#[tokio::test]
async fn custom_resources_survive_a_restart_of_every_tier() {
    let mut cluster = Cluster::builder().embedded().start().await.unwrap();
    let client = cluster.client().clone();
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(
        client
            .send_json(Method::POST, path, &crd("operations.example.com"))
            .await
            .unwrap()
            .status,
        201
    );
    let widgets = "/apis/operations.example.com/v1/namespaces/default/widgets";
    eventually("widgets are served", async || {
        client.get(widgets).await.is_ok_and(|a| a.status == 200)
    })
    .await;
    let widget = json!({"apiVersion": "operations.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"n": 1}});
    let created = client
        .send_json(Method::POST, widgets, &widget)
        .await
        .unwrap()
        .json()
        .unwrap();
    for tier in Tier::ALL {
        assert!(cluster.terminate(tier.first()).await.unwrap().success());
    }
    for tier in Tier::ALL.into_iter().rev() {
        cluster.start_again(tier.first()).unwrap();
    }
    cluster.ready().await.unwrap();
    let again = client.get(&format!("{widgets}/a")).await.unwrap();
    assert_eq!(again.json().unwrap(), created);
    cluster.finish(&[]).await.unwrap();
}
