//! Bad input and bad manners get a bounded, clear refusal, and cost nobody else anything.
#![allow(clippy::unwrap_used, clippy::expect_used)] // what a helper of a test cannot do fails the test

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Method, Request};
use http_body_util::Full;
use triptych_local::client::ApiClient;
use triptych_local::cluster::Cluster;
use triptych_local::tier::Tier;
use triptych_tests::load;
use triptych_tests::raw::Raw;
use triptych_tests::usage::Usage;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CONNECTIONS: usize = 1_000;
const GROWTH: u64 = 150 << 20;

/// Requests that no HTTP client sends, and the status line each is answered with.
fn broken() -> Vec<(Vec<u8>, &'static str)> {
    let head = |line: &str, rest: &str| format!("{line}\r\nHost: x\r\nConnection: close\r\n{rest}\r\n").into_bytes();
    vec![
        (b"\x00\x01\x02\x03\r\n\r\n".to_vec(), "HTTP/1.1 400"),
        (b"GET\r\n\r\n".to_vec(), "HTTP/1.1 400"),
        (head("GET /version HTTP/9.9", ""), "HTTP/1.1 400"),
        (head("GET /version HTTP/1.1", "Bad Header: x\r\n"), "HTTP/1.1 400"),
        (
            head("GET /version HTTP/1.1", &format!("X: {}\r\n", "a".repeat(2 << 20))),
            "HTTP/1.1 431",
        ),
        (
            head("GET /version HTTP/1.1", &"X: a\r\n".repeat(100_000)),
            "HTTP/1.1 431",
        ),
        (
            head(&format!("GET /{} HTTP/1.1", "a".repeat(1 << 20)), ""),
            "HTTP/1.1 4",
        ),
        (
            head(
                &format!("POST {CONFIG_MAPS} HTTP/1.1"),
                "Content-Length: x\r\nContent-Type: application/json\r\n",
            ),
            "HTTP/1.1 400",
        ),
        (
            head(
                &format!("POST {CONFIG_MAPS} HTTP/1.1"),
                "Transfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\nzz\r\n",
            ),
            "HTTP/1.1 400",
        ),
        (
            head(
                &format!("POST {CONFIG_MAPS} HTTP/1.1"),
                "Content-Length: 99999999999\r\nContent-Type: application/json\r\n",
            ),
            "HTTP/1.1 413",
        ),
    ]
}

#[tokio::test]
async fn what_is_no_request_is_refused() {
    let cluster = Cluster::builder().embedded().start().await.unwrap();
    for tier in Tier::ALL {
        for (bytes, expected) in broken() {
            let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
            let mut raw = Raw::connect(&cluster, tier.first(), false).await.unwrap();
            // The other side may refuse before everything was sent.
            let _ = raw.send(&bytes).await;
            let answer = raw.answer().await;
            // A connection reset while we still send may swallow the refusal,
            // and a tier does not read the body of what it does not serve.
            let refused = answer.starts_with(expected)
                || answer.starts_with("HTTP/1.1 404")
                || (answer.is_empty() && bytes.len() > 100_000);
            assert!(refused, "{tier}: {shown:?} got {answer:?}");
        }
    }
    cluster.finish(&[]).await.unwrap();
}

#[tokio::test]
async fn absurd_requests_get_an_answer() {
    let cluster = Cluster::builder().embedded().start().await.unwrap();
    let client = cluster.client();
    let nested = |depth: usize| format!("{}{}{}", r#"{"a":"#.repeat(depth), 1, "}".repeat(depth));
    let selector = |terms: usize| vec!["a%3Db"; terms].join(",");
    let cases: Vec<(Method, String, Option<String>, &[u16])> = vec![
        (Method::POST, CONFIG_MAPS.into(), Some(nested(200_000)), &[400]),
        (Method::POST, CONFIG_MAPS.into(), Some("[".repeat(1 << 20)), &[400]),
        (Method::POST, CONFIG_MAPS.into(), Some("x".repeat(4 << 20)), &[413]),
        (Method::POST, CONFIG_MAPS.into(), Some(String::new()), &[400]),
        (
            Method::POST,
            CONFIG_MAPS.into(),
            Some("{\"kind\":\"ConfigMap\"".into()),
            &[400],
        ),
        (Method::POST, CONFIG_MAPS.into(), Some("\u{0}\u{0}".into()), &[400]),
        (
            Method::GET,
            format!("{CONFIG_MAPS}?labelSelector={}", selector(2_000)),
            None,
            &[200],
        ),
        (
            Method::GET,
            format!("{CONFIG_MAPS}?labelSelector=%28%28%28%28"),
            None,
            &[400],
        ),
        (
            Method::GET,
            format!("{CONFIG_MAPS}?fieldSelector={}", "%3D".repeat(500)),
            None,
            &[400],
        ),
        (Method::GET, format!("{CONFIG_MAPS}?limit=-1"), None, &[200, 400]),
        (
            Method::GET,
            format!("{CONFIG_MAPS}?limit=99999999999999999999"),
            None,
            &[400],
        ),
        (Method::GET, format!("{CONFIG_MAPS}?continue=%00%ff"), None, &[400]),
        (Method::GET, format!("{CONFIG_MAPS}?resourceVersion=-1"), None, &[400]),
        (
            Method::GET,
            format!("{CONFIG_MAPS}/..%2f..%2fsecrets"),
            None,
            &[400, 404],
        ),
        (Method::GET, format!("{CONFIG_MAPS}/%00"), None, &[400, 404]),
        (Method::GET, format!("{CONFIG_MAPS}/%ff"), None, &[400, 404]),
        (
            Method::GET,
            format!("{CONFIG_MAPS}/{}", "a".repeat(10_000)),
            None,
            &[400, 404],
        ),
        (
            Method::GET,
            "/api/v1/namespaces/%2e%2e/configmaps".into(),
            None,
            &[200, 301, 400, 404],
        ),
        (
            Method::POST,
            "/api/v1/watch/namespaces/default/configmaps".into(),
            Some("{}".into()),
            &[405],
        ),
        (
            Method::DELETE,
            "/api/v1/watch/namespaces/default/configmaps/a".into(),
            None,
            &[405],
        ),
        (Method::TRACE, CONFIG_MAPS.into(), None, &[403, 405]),
        (
            Method::from_bytes(b"FROB").unwrap(),
            CONFIG_MAPS.into(),
            None,
            &[403, 405],
        ),
    ];
    for (method, path, body, expected) in cases {
        let shown: String = format!("{method} {path}").chars().take(100).collect();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(Full::from(Bytes::from(body.unwrap_or_default())))
            .unwrap();
        let answer = tokio::time::timeout(Duration::from_secs(10), client.collect(request)).await;
        let answer = answer.unwrap_or_else(|_| panic!("{shown}: no answer")).unwrap();
        assert!(
            expected.contains(&answer.status.as_u16()),
            "{shown}: {} {:.300}",
            answer.status,
            answer.text()
        );
    }
    cluster.finish(&[]).await.unwrap();
}

/// One of a thousand: silent, slow or half-closed in one of several ways.
async fn hostile(cluster: &Cluster, tier: Tier, number: usize) -> std::io::Result<Box<dyn std::any::Any>> {
    let post = format!(
        "POST {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 3000000\r\n\r\n"
    );
    Ok(match number % 5 {
        0 => Box::new(Raw::tcp(cluster, tier.first()).await?),
        1 => {
            let mut raw = Raw::connect(cluster, tier.first(), false).await?;
            raw.send(b"GET /version HTTP/1.1\r\nHost: x\r\nX-Slow: ").await?;
            Box::new(raw)
        }
        2 => {
            let mut raw = Raw::connect(cluster, tier.first(), false).await?;
            raw.send(post.as_bytes()).await?;
            // The server takes only so much of it; what it does not take is given up.
            let _ = tokio::time::timeout(Duration::from_millis(100), raw.send(&vec![b' '; 2_000_000])).await;
            Box::new(raw)
        }
        3 => {
            let mut raw = Raw::connect(cluster, tier.first(), true).await?;
            raw.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
                .await?;
            Box::new(raw)
        }
        _ => {
            let mut raw = Raw::connect(cluster, tier.first(), false).await?;
            // Asked for and never read, many times over.
            raw.send("GET /openapi/v2 HTTP/1.1\r\nHost: x\r\n\r\n".repeat(20).as_bytes())
                .await?;
            Box::new(raw)
        }
    })
}

#[tokio::test]
async fn a_thousand_hostile_connections_cost_little_and_hold_nobody_up() {
    let cluster = Cluster::builder().embedded().start().await.unwrap();
    let resident = || -> BTreeMap<Tier, u64> {
        let of = |tier: Tier| Usage::of(cluster.pid(tier.first()).unwrap()).unwrap().resident;
        Tier::ALL.into_iter().map(|tier| (tier, of(tier))).collect()
    };
    let fresh = || cluster.client_of(Tier::Aggregator.first(), Some("admin")).unwrap();
    let answers = async |clients: &[ApiClient]| {
        load::gets(clients, 1, CONFIG_MAPS, None, Duration::from_millis(500), |a| {
            a.status == 200
        })
        .await
    };
    answers(&[fresh()]).await;
    let idle = resident();
    for tier in Tier::ALL {
        let opening = stream::iter((0..CONNECTIONS).map(|number| hostile(&cluster, tier, number)));
        // A server may turn connections away; that is a refusal as good as any.
        let held: Vec<_> = opening
            .buffer_unordered(50)
            .filter_map(async |it| it.ok())
            .collect()
            .await;
        let latencies = answers(&[fresh()]).await;
        assert!(
            latencies.quantile(0.99) < Duration::from_secs(1),
            "{:?}",
            latencies.quantile(0.99)
        );
        for (of, now) in resident() {
            let grown = now.saturating_sub(idle[&of]);
            println!("{} held at {tier}: {of} grew by {} kB", held.len(), grown / 1024);
            assert!(grown < GROWTH, "{of} grew by {grown} bytes under connections to {tier}");
        }
    }
    cluster.finish(&[]).await.unwrap();
}
