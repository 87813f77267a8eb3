//! What the chain answers by itself.

use crate::harness::*;

#[tokio::test]
async fn each_refusal_is_kubes() {
    let pki = Pki::new();
    let tier = Plan::last().start(&pki).await;
    let things = "/api/v1/namespaces/a/things";
    for (method, path, headers, code, text) in [
        (
            "GET",
            things,
            &[("authorization", "Bearer wrong")][..],
            401,
            r#""message":"Unauthorized""#,
        ),
        (
            "GET",
            things,
            &[("authorization", "Bearer nobody")],
            403,
            r#""message":"things is forbidden: User \"nobody\" cannot list resource \"things\" in API group \"\" in the namespace \"a\"""#,
        ),
        (
            "GET",
            "/api/v1/namespaces/a/frobs",
            &[JOE],
            404,
            "the server could not find the requested resource",
        ),
        (
            "GET",
            "/api/v9",
            &[JOE],
            404,
            "the server could not find the requested resource",
        ),
        ("GET", "/nowhere", &[JOE], 404, "404 page not found\n"),
        ("GET", "//api/v1", &[JOE], 404, "404 page not found\n"),
        (
            "OPTIONS",
            things,
            &[JOE],
            405,
            "the server does not allow this method on the requested resource",
        ),
        (
            "POST",
            "/api/v1",
            &[JOE],
            405,
            "the server does not allow this method on the requested resource",
        ),
        (
            "GET",
            "/api/v1?timeout=x",
            &[JOE],
            400,
            r#"invalid timeout specified in the request URL - time: invalid duration \"x\""#,
        ),
        ("GET", "/apis/%zz", &[JOE], 400, "400 Bad Request"),
        (
            "GET",
            "/a",
            &[JOE, ("host", "b"), ("host", "c")],
            400,
            "400 Bad Request",
        ),
        (
            "GET",
            things,
            &[JOE, ("impersonate-group", "g")],
            400,
            "without impersonating a user name",
        ),
        (
            "GET",
            "/api/v1/namespaces/a/things/panic",
            &[JOE],
            500,
            "This request caused apiserver to panic. Look in the logs for details.\n",
        ),
        (
            "GET",
            "/version",
            &[JOE, ("accept", "text/html")],
            406,
            "406: Not Acceptable\\n\\nAvailable representations: application/json",
        ),
    ] {
        let answer = ask(&pki, tier.address, method, path, headers).await;
        assert_eq!(answer.code, code, "{method} {path}: {answer:?}");
        assert!(answer.body.contains(text), "{method} {path}: {answer:?}");
        assert_eq!(answer.header("cache-control"), "no-cache, private");
        assert!(!answer.header("audit-id").is_empty());
    }
    assert_eq!(tier.metrics.panics.get(), 1);
}

#[tokio::test]
async fn refusals_come_in_the_form_asked_for() {
    let pki = Pki::new();
    let tier = Plan::last().start(&pki).await;
    let wrong = ("authorization", "Bearer wrong");
    let answer = ask(
        &pki,
        tier.address,
        "GET",
        "/api",
        &[wrong, ("accept", "application/yaml")],
    )
    .await;
    assert_eq!(answer.header("content-type"), "application/yaml");
    assert!(
        answer.body.starts_with("apiVersion: v1\ncode: 401\nkind: Status\n"),
        "{answer:?}"
    );
    let answer = ask(
        &pki,
        tier.address,
        "GET",
        "/api",
        &[wrong, ("accept", "application/vnd.kubernetes.protobuf")],
    )
    .await;
    assert!(answer.body.starts_with("k8s\0"), "{answer:?}");
    let answer = ask(&pki, tier.address, "GET", "/api", &[wrong, ("accept", "text/html")]).await;
    assert_eq!(answer.header("content-type"), "application/json");
}

#[tokio::test]
async fn health_version_index_and_metrics_are_served() {
    let pki = Pki::new();
    let tier = Plan::last().start(&pki).await;
    eventually("ready", async || {
        ask(&pki, tier.address, "GET", "/readyz", &[]).await.code == 200
    })
    .await;
    let verbose = ask(&pki, tier.address, "GET", "/readyz?verbose", &[]).await;
    assert_eq!(
        verbose.body,
        "[+]ping ok\n[+]log ok\n[+]informer-sync ok\n[+]shutdown ok\nreadyz check passed\n"
    );
    assert_eq!(verbose.header("content-type"), "text/plain; charset=utf-8");
    assert_eq!(ask(&pki, tier.address, "GET", "/livez/none", &[JOE]).await.code, 404);
    assert_eq!(ask(&pki, tier.address, "POST", "/livez", &[JOE]).await.body, "ok");
    let head = ask(&pki, tier.address, "HEAD", "/livez", &[JOE]).await;
    assert_eq!((head.code, head.body.as_str()), (200, ""));
    let version = ask(&pki, tier.address, "GET", "/version/", &[JOE]).await;
    assert_eq!(version.json()["gitVersion"], "v1.36.2");
    let index = ask(&pki, tier.address, "DELETE", "/", &[JOE]).await.json();
    assert!(
        index["paths"].as_array().unwrap().iter().any(|p| p == "/api/v1"),
        "{index}"
    );
    let metrics = ask(&pki, tier.address, "GET", "/metrics", &[JOE]).await.body;
    assert!(metrics.contains("apiserver_request_total{"), "{metrics}");
}

#[tokio::test]
async fn the_audit_id_is_the_clients_and_remote_headers_are_nobodys() {
    let pki = Pki::new();
    let tier = Plan::last().start(&pki).await;
    let spoof = [
        JOE,
        ("audit-id", "mine"),
        ("x-remote-user", "admin"),
        ("x-remote-group", "system:masters"),
        ("x-remote-extra-a", "b"),
    ];
    let answer = ask(&pki, tier.address, "GET", "/api/v1/namespaces/a/things/x", &spoof).await;
    assert_eq!(answer.header("audit-id"), "mine");
    let seen = answer.json();
    assert_eq!(seen["user"], "joe");
    assert!(!seen["headers"].to_string().contains("x-remote"), "{seen}");
    assert!(!seen["headers"].to_string().contains("Bearer"), "{seen}");
}

#[tokio::test]
async fn bodies_are_bounded_and_large_answers_compressed() {
    let pki = Pki::new();
    let tier = Plan::last().start(&pki).await;
    let things = "/api/v1/namespaces/a/things";
    let mut send = http2(&pki, tier.address).await;
    for (size, code) in [(0, 200), (10, 200), (3 * 1024 * 1024, 200), (3 * 1024 * 1024 + 1, 413)] {
        let body = vec![b'x'; size];
        let request = request("POST", &format!("https://localhost{things}"), &[JOE], body);
        let answer = read(send.send_request(request).await.unwrap()).await;
        assert_eq!(answer.code, code, "{answer:?}");
        match code {
            200 => assert_eq!(answer.json()["body"], size),
            _ => assert_eq!(answer.json()["message"], "Request entity too large: limit is 3145728"),
        }
    }
    let big = format!("https://localhost{things}/big");
    let plain = read(send.send_request(request("GET", &big, &[JOE], "")).await.unwrap()).await;
    assert_eq!((plain.body.len(), plain.header("content-encoding")), (1024 * 1024, ""));
    let headers = [JOE, ("accept-encoding", "br, gzip")];
    let packed = send.send_request(request("GET", &big, &headers, "")).await.unwrap();
    assert_eq!(packed.headers()["content-encoding"], "gzip");
    assert_eq!(packed.headers()["vary"], "Accept-Encoding");
    let bytes = http_body_util::BodyExt::collect(packed.into_body())
        .await
        .unwrap()
        .to_bytes();
    let mut out = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&bytes[..]), &mut out).unwrap();
    assert_eq!(out, plain.body.as_bytes());
}

#[tokio::test]
async fn a_request_that_takes_too_long_is_answered_504() {
    let pki = Pki::new();
    let tier = Plan::last().start(&pki).await;
    let answer = ask(
        &pki,
        tier.address,
        "GET",
        "/api/v1/namespaces/a/things/slow?timeout=100ms",
        &[JOE],
    )
    .await;
    assert_eq!(answer.code, 504);
    assert_eq!(
        answer.json()["message"],
        "Timeout: request did not complete within the allotted timeout"
    );
    assert_eq!(tier.echo.active.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[tokio::test]
async fn the_certificate_follows_its_file() {
    let pki = Pki::new();
    let tier = Plan::last().start(&pki).await;
    let leaf = async || {
        let stream = tls(&pki, tier.address, &[b"h2"], None).await;
        stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    };
    let before = leaf().await;
    pki.issue(&tier.certificate);
    eventually("the new certificate", async || leaf().await != before).await;
}
