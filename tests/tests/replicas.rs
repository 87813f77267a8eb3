//! Two replicas of every tier on one etcd: what is written through one aggregator is read and watched through the other, at
//! once, for built-in kinds, custom resources and APIServices; one replica of each tier may go.
#![allow(clippy::unwrap_used, clippy::expect_used)] // what a helper of a test cannot do fails the test

use std::time::{Duration, Instant};

use http::Method;
use serde_json::json;
use triptych_local::client::ApiClient;
use triptych_local::cluster::Cluster;
use triptych_local::etcd::Etcd;
use triptych_local::tier::{Instance, Tier};
use triptych_tests::watcher::{Watcher, revision_of};
use triptych_tests::{crd, eventually};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WIDGETS: &str = "/apis/replicas.example.com/v1/namespaces/default/widgets";
const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

/// Writes through one and reads through the other, both ways, without any wait in between.
async fn written_here_is_read_there(one: &ApiClient, other: &ApiClient, round: &str) {
    for (writer, reader, side) in [(one, other, "a"), (other, one, "b")] {
        let name = format!("{round}-{side}");
        let widget = json!({"apiVersion": "replicas.example.com/v1", "kind": "Widget", "metadata": {"name": name}});
        let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        for (path, object) in [(CONFIG_MAPS, config_map), (WIDGETS, widget)] {
            let watcher = Watcher::start(reader.clone(), path).await.unwrap();
            let written = writer.send_json(Method::POST, path, &object).await.unwrap();
            assert_eq!(written.status, 201, "{}", written.text());
            let revision = revision_of(&written.json().unwrap());
            let list = reader.get(path).await.unwrap().json().unwrap();
            let names: Vec<_> = list["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| &item["metadata"]["name"])
                .collect();
            assert!(names.contains(&&json!(name)), "{name} is missing from a list of {path}");
            let got = reader.get(&format!("{path}/{name}")).await.unwrap();
            assert_eq!(got.status, 200, "{}", got.text());
            eventually("the other replica's watcher is told", async || {
                watcher.last() >= revision
            })
            .await;
            let deleted = reader.delete(&format!("{path}/{name}")).await.unwrap();
            assert_eq!(deleted.status, 200, "{}", deleted.text());
            let gone = writer.get(&format!("{path}/{name}?resourceVersion=")).await.unwrap();
            assert_eq!(gone.status, 404, "{}", gone.text());
        }
    }
}

#[tokio::test]
async fn two_replicas_of_every_tier_are_one_api_server() {
    let Some(binary) = Etcd::binary() else {
        println!("skipped: TRIPTYCH_ETCD names no etcd");
        return;
    };
    let etcd = Etcd::start(binary).await.unwrap();
    let mut cluster = Cluster::builder().etcd(etcd.url()).replicas(2).start().await.unwrap();
    let second = |tier| Instance { tier, replica: 1 };
    let one = cluster.client().clone();
    let other = cluster.client_of(second(Tier::Aggregator), Some("admin")).unwrap();

    let defined = crd("replicas.example.com");
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(one.send_json(Method::POST, path, &defined).await.unwrap().status, 201);
    for client in [&one, &other] {
        eventually("widgets are served", async || {
            client.get(WIDGETS).await.is_ok_and(|a| a.status == 200)
        })
        .await;
        eventually("widgets have an APIService", async || {
            let service = client.get(&format!("{API_SERVICES}/v1.replicas.example.com")).await;
            service.is_ok_and(|answer| answer.status == 200)
        })
        .await;
    }
    written_here_is_read_there(&one, &other, "both").await;

    for tier in [Tier::CoreApi, Tier::ExtensionsApi] {
        cluster.kill(second(tier)).await;
        // A request that was under way may fail; what follows is served by the replica that is left.
        let begun = Instant::now();
        eventually("requests are served without the second replica", async || {
            one.get(CONFIG_MAPS).await.is_ok_and(|a| a.status == 200)
                && one.get(WIDGETS).await.is_ok_and(|a| a.status == 200)
        })
        .await;
        assert!(begun.elapsed() < Duration::from_secs(5));
        written_here_is_read_there(&one, &other, &format!("without-{tier}")).await;
        cluster.start_again(second(tier)).unwrap();
        cluster.ready().await.unwrap();
    }
    written_here_is_read_there(&one, &other, "again").await;
    cluster.finish(&[]).await.unwrap();
}
