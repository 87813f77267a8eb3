//! Nobody speaks for another without a front-proxy certificate that the tier accepts: headers and certificates that claim
//! more gain nothing, at any tier, forwarded or direct.
#![allow(clippy::unwrap_used, clippy::expect_used)] // what a helper of a test cannot do fails the test

use std::io::Write;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};
use triptych_local::client::{Answer, ApiClient};
use triptych_local::cluster::Cluster;
use triptych_local::tier::Tier;

const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";
const WHO_AM_I: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
/// Served by aggregator, core-api and extensions-api, and readable by administrators alone.
const PROTECTED: [&str; 3] = [
    "/apis/apiregistration.k8s.io/v1/apiservices",
    SECRETS,
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
];

async fn cluster() -> (Cluster, tempfile::NamedTempFile) {
    let mut tokens = tempfile::NamedTempFile::new().unwrap();
    writeln!(tokens, "plain,plain,1").unwrap();
    let flag = format!("--token-auth-file={}", tokens.path().display());
    let builder = Tier::ALL
        .iter()
        .fold(Cluster::builder(), |builder, tier| builder.arg(*tier, &flag));
    (builder.start().await.unwrap(), tokens)
}

/// Sends with headers that claim to be the administrator, in every spelling a proxy might let through.
async fn forged(client: &ApiClient, method: Method, path: &str, body: &Value, token: Option<&str>) -> Answer {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .header("X-Remote-User", "kubernetes-admin")
        .header("x-remote-uid", "0")
        .header("X-REMOTE-GROUP", "system:masters")
        .header("X-Remote-Group", "system:authenticated")
        .header("X-Remote-Extra-Scopes", "all")
        .header("X-Remote-Extra-authentication.kubernetes.io%2fcredential-id", "x");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    client
        .collect(request.body(Full::from(Bytes::from(body))).unwrap())
        .await
        .unwrap()
}

fn review() -> Value {
    json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
}

#[tokio::test]
async fn headers_without_a_front_proxy_certificate_gain_nothing() {
    let (cluster, _tokens) = cluster().await;
    for entered in Tier::ALL {
        let client = cluster.client_of(entered.first(), None).unwrap();
        for path in PROTECTED {
            for token in [None, Some("plain")] {
                let answer = forged(&client, Method::GET, path, &Value::Null, token).await;
                // A tier that is entered past the one that serves the path knows no such path.
                let refused = matches!(answer.status, StatusCode::FORBIDDEN | StatusCode::NOT_FOUND);
                assert!(refused, "{path} through {entered}: {} {}", answer.status, answer.text());
                let user = if token.is_some() { "plain" } else { "system:anonymous" };
                assert!(
                    answer.text().contains(user) || answer.status == 404,
                    "{}",
                    answer.text()
                );
            }
        }
    }
    for entered in [Tier::Aggregator, Tier::CoreApi] {
        let client = cluster.client_of(entered.first(), None).unwrap();
        let answer = forged(&client, Method::POST, WHO_AM_I, &review(), Some("plain")).await;
        let user = answer.json().unwrap()["status"]["userInfo"].clone();
        assert_eq!(user["username"], "plain", "through {entered}: {}", answer.text());
        assert_eq!(user["groups"], json!(["system:authenticated"]));
        assert_eq!(user.pointer("/extra/scopes"), None);
    }
    cluster.finish(&[]).await.unwrap();
}

#[tokio::test]
async fn an_ordinary_certificate_stays_what_it_is_whatever_the_headers_say() {
    let (cluster, _tokens) = cluster().await;
    let client = cluster
        .client_of(Tier::Aggregator.first(), Some("extensions-api-client"))
        .unwrap();
    let answer = forged(&client, Method::POST, WHO_AM_I, &review(), None).await;
    let user = answer.json().unwrap()["status"]["userInfo"].clone();
    assert_eq!(user["username"], "system:tier:extensions-api", "{}", answer.text());
    assert!(!user["groups"].to_string().contains("system:masters"));
    cluster.finish(&[]).await.unwrap();
}

#[tokio::test]
async fn front_proxy_certificates_for_other_tiers_or_purposes_are_refused() {
    let (cluster, _tokens) = cluster().await;
    // (tier, certificate): core-api takes aggregator's alone; the APIService proxy's own is for backends.
    for (tier, identity) in [
        (Tier::CoreApi, "core-api-forwarding"),
        (Tier::CoreApi, "front-proxy-client"),
        (Tier::ExtensionsApi, "front-proxy-client"),
        (Tier::Aggregator, "aggregator-forwarding"),
        (Tier::Aggregator, "core-api-forwarding"),
    ] {
        let client = cluster.client_of(tier.first(), Some(identity)).unwrap();
        for path in PROTECTED {
            let answer = forged(&client, Method::GET, path, &Value::Null, None).await;
            assert_eq!(answer.status, 401, "{identity} at {tier}, {path}: {}", answer.text());
        }
    }
    // A serving certificate is none of a client's.
    let client = cluster.client_of(Tier::CoreApi.first(), Some("aggregator")).unwrap();
    let answer = forged(&client, Method::GET, SECRETS, &Value::Null, None).await;
    assert_eq!(answer.status, 401, "{}", answer.text());
    // The one that is meant to speak for others does.
    let client = cluster
        .client_of(Tier::CoreApi.first(), Some("aggregator-forwarding"))
        .unwrap();
    let answer = forged(&client, Method::GET, SECRETS, &Value::Null, None).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    cluster.finish(&[]).await.unwrap();
}
