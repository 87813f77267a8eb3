//! One tier's trouble stays its own: extensions-api away, watchers that do not read, lists of 100 MB.
//!
//! The limits on time are wide, because other things may run on the machine; `bench isolation` prints what was measured.
#![allow(clippy::unwrap_used, clippy::expect_used)] // what a helper of a test cannot do fails the test

use std::time::Duration;

use http::Method;
use serde_json::json;
use triptych_local::client::{Answer, ApiClient};
use triptych_local::cluster::Cluster;
use triptych_local::tier::Tier;
use triptych_tests::isolation::{self, Isolation};
use triptych_tests::load::Latencies;
use triptych_tests::{crd, eventually};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/containment.example.com/v1/namespaces/default/widgets";

async fn status(client: &ApiClient, path: &str) -> Answer {
    client.get(path).await.unwrap()
}

#[tokio::test]
async fn without_extensions_api_everything_else_goes_on() {
    let mut cluster = Cluster::builder().embedded().start().await.unwrap();
    let client = cluster.client().clone();
    let defined = crd("containment.example.com");
    assert_eq!(
        client.send_json(Method::POST, CRDS, &defined).await.unwrap().status,
        201
    );
    eventually("widgets are served", async || {
        status(&client, WIDGETS).await.status == 200
    })
    .await;
    eventually("widgets are discovered", async || {
        status(&client, "/apis")
            .await
            .text()
            .contains("containment.example.com")
    })
    .await;
    let groups = status(&client, "/apis").await.body;

    cluster.kill(Tier::ExtensionsApi.first()).await;
    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let path = "/api/v1/namespaces/default/configmaps";
    assert_eq!(
        client.send_json(Method::POST, path, &config_map).await.unwrap().status,
        201
    );
    assert_eq!(
        status(&client, "/apis").await.body,
        groups,
        "the groups that were known stay known"
    );
    for tier in [Tier::Aggregator, Tier::CoreApi] {
        let direct = cluster.client_of(tier.first(), Some("admin")).unwrap();
        assert_eq!(status(&direct, "/readyz").await.status, 200, "{tier}");
    }
    for path in [WIDGETS, CRDS, "/apis/unheard-of.example.com/v1/things", "/unheard-of"] {
        let answer = status(&client, path).await;
        assert_eq!(answer.status, 503, "{path}: {}", answer.text());
        assert!(answer.headers.contains_key("retry-after"), "{path}");
        assert_eq!(answer.json().unwrap()["kind"], "Status", "{path}");
    }

    cluster.start_again(Tier::ExtensionsApi.first()).unwrap();
    cluster.ready().await.unwrap();
    eventually("widgets are served again", async || {
        status(&client, WIDGETS).await.status == 200
    })
    .await;
    assert_eq!(
        status(&client, "/apis/unheard-of.example.com/v1/things").await.status,
        404
    );
    cluster.finish(&[]).await.unwrap();
}

/// A GET takes at most twice its idle time beside watches and thrice beside lists, or what a busy machine and a client that
/// is compiled for debugging may add: far less than waiting for a list or for who does not read.
fn undisturbed(measured: &Isolation) -> bool {
    let p99 = |latencies: &Latencies| latencies.quantile(0.99);
    let bearable = |times: u32| (p99(&measured.idle) * times).max(Duration::from_millis(200));
    p99(&measured.watches.get) <= bearable(2) && p99(&measured.lists.get) <= bearable(3)
}

#[tokio::test]
async fn watchers_that_do_not_read_and_huge_lists_disturb_nobody() {
    let cluster = Cluster::builder().embedded().start().await.unwrap();
    // A busy machine spoils a measurement now and then, not three times in a row.
    let mut measured = None;
    for _ in 0..3 {
        let now = isolation::measure(&cluster, Duration::from_secs(2)).await.unwrap();
        println!("{now}");
        if undisturbed(&now) {
            measured = Some(now);
            break;
        }
    }
    let measured = measured.expect("GETs were disturbed");
    assert!(measured.watches.delivered > 0);
    assert!(measured.lists.bytes >= 8 * 100_000_000);
    assert!(
        measured.core_api_growth <= 50 << 20,
        "core-api grew by {} bytes",
        measured.core_api_growth
    );
    cluster.finish(&[]).await.unwrap();
}
