//! Two tiers in a row.

use std::sync::atomic::Ordering;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::harness::*;

const THINGS: &str = "/api/v1/namespaces/a/things";

#[tokio::test]
async fn the_user_travels_and_what_a_client_claims_to_be_does_not() {
    let pki = Pki::new();
    let last = Plan::last().start(&pki).await;
    let front = Plan::before(&[&last]).start(&pki).await;
    let answer = ask(
        &pki,
        front.address,
        "GET",
        &format!("{THINGS}/x?a=%20b"),
        &[
            JOE,
            ("connection", "keep-alive, x-hop"),
            ("x-hop", "1"),
            ("x-remote-user", "admin"),
            ("x-remote-group", "system:masters"),
            ("x-remote-extra-scopes", "all"),
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            ("audit-id", "mine"),
        ],
    )
    .await;
    assert_eq!(answer.code, 200, "{answer:?}");
    assert_eq!(answer.header("audit-id"), "mine");
    let seen = answer.json();
    assert_eq!(
        (&seen["user"], &seen["groups"]),
        (&"joe".into(), &serde_json::json!(["system:authenticated"]))
    );
    let headers = seen["headers"].to_string();
    for there in ["traceparent: 00-0af7", "x-forwarded-for: 127.0.0.1"] {
        assert!(headers.contains(there), "{there}: {headers}");
    }
    for gone in ["x-hop", "x-remote", "Bearer", "connection", "host:"] {
        assert!(!headers.contains(gone), "{gone}: {headers}");
    }
    // nobody stays nobody, and gains no group
    let answer = ask(&pki, front.address, "GET", THINGS, &[]).await;
    assert_eq!(answer.code, 403);
    assert!(answer.body.contains(r#"User \"system:anonymous\""#), "{answer:?}");
    let unknown = ask(&pki, front.address, "GET", "/nowhere", &[JOE]).await;
    assert_eq!((unknown.code, unknown.body.as_str()), (404, "404 page not found\n"));
}

#[tokio::test]
async fn bodies_pass_both_ways() {
    let pki = Pki::new();
    let last = Plan::last().start(&pki).await;
    let front = Plan::before(&[&last]).start(&pki).await;
    let mut one = http1(&pki, front.address).await;
    let mut two = http2(&pki, front.address).await;
    for size in [0, 1, 100_000, 3_000_000] {
        let answer = read(
            one.send_request(request("POST", THINGS, &[JOE], vec![b'x'; size]))
                .await
                .unwrap(),
        )
        .await;
        assert_eq!(answer.json()["body"], size);
        let uri = format!("https://localhost{THINGS}");
        let answer = read(
            two.send_request(request("POST", &uri, &[JOE], vec![b'x'; size]))
                .await
                .unwrap(),
        )
        .await;
        assert_eq!(answer.json()["body"], size);
    }
    let uri = format!("https://localhost{THINGS}/big");
    let answer = read(two.send_request(request("GET", &uri, &[JOE], "")).await.unwrap()).await;
    assert_eq!(answer.body.len(), 1024 * 1024);
    let too_large = read(
        one.send_request(request("POST", THINGS, &[JOE], vec![b'x'; 4_000_000]))
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(too_large.code, 413);
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_request_behind() {
    let pki = Pki::new();
    let last = Plan::last().start(&pki).await;
    let front = Plan::before(&[&last]).start(&pki).await;
    let mut send = http2(&pki, front.address).await;
    let uri = format!("https://localhost{THINGS}?watch=1");
    let mut watch = send.send_request(request("GET", &uri, &[JOE], "")).await.unwrap();
    let tick = watch.body_mut().frame().await.unwrap().unwrap();
    assert_eq!(tick.into_data().unwrap(), "tick\n");
    assert_eq!(last.echo.active.load(Ordering::SeqCst), 1);
    drop(watch);
    eventually("the watch behind ends", async || {
        last.echo.active.load(Ordering::SeqCst) == 0
    })
    .await;
}

#[tokio::test]
async fn clients_that_do_not_read_hold_up_nobody() {
    let pki = Pki::new();
    let last = Plan::last().start(&pki).await;
    let front = Plan::before(&[&last]).start(&pki).await;
    let mut stalled = Vec::new();
    for _ in 0..50 {
        let mut send = http2(&pki, front.address).await;
        let uri = format!("https://localhost{THINGS}/endless");
        stalled.push((send.send_request(request("GET", &uri, &[JOE], "")).await.unwrap(), send));
    }
    for _ in 0..20 {
        let path = format!("{THINGS}/x");
        let answer = tokio::time::timeout(Duration::from_secs(2), ask(&pki, front.address, "GET", &path, &[JOE]));
        assert_eq!(answer.await.expect("an answer in time").code, 200);
    }
}

#[tokio::test]
async fn an_upgrade_becomes_a_raw_stream() {
    let pki = Pki::new();
    let raw = upgrading_server(&pki).await;
    let mut plan = Plan::last();
    plan.serves = false;
    plan.next = Some(vec![raw]);
    let front = plan.start(&pki).await;
    let mut send = http1(&pki, front.address).await;
    let headers = [
        JOE,
        ("connection", "Upgrade"),
        ("upgrade", "SPDY/3.1"),
        (
            "sec-websocket-protocol",
            "a, base64url.bearer.authorization.k8s.io.c2VjcmV0",
        ),
    ];
    let mut answer = send.send_request(request("POST", "/exec", &headers, "")).await.unwrap();
    assert_eq!(answer.status(), 101);
    assert_eq!(answer.headers()["upgrade"], "SPDY/3.1");
    assert_eq!(answer.headers()["x-seen"], "joe a");
    let mut stream = TokioIo::new(hyper::upgrade::on(&mut answer).await.unwrap());
    stream.write_all(b"hello").await.unwrap();
    let mut back = [0; 5];
    stream.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"HELLO");
}

/// Answers 101 and then shouts back.
async fn upgrading_server(pki: &Pki) -> std::net::SocketAddr {
    let identity = triptych_client::tls::Identity::load(pki.issue("raw")).unwrap();
    let tls = TlsAcceptor::from(std::sync::Arc::new(
        triptych_server::tls::server_config(identity, false).unwrap(),
    ));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        let mut io = tls.accept(tcp).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(io.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        let value = |name: &str| {
            head.lines()
                .find_map(|l| l.strip_prefix(&format!("{name}: ")))
                .unwrap_or("")
                .to_owned()
        };
        let seen = format!("{} {}", value("x-remote-user"), value("sec-websocket-protocol"));
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Seen: {seen}\r\n\r\n"
        );
        io.write_all(answer.as_bytes()).await.unwrap();
        let mut bytes = [0; 64];
        while let Ok(n) = io.read(&mut bytes).await {
            if n == 0 {
                return;
            }
            io.write_all(&bytes[..n].to_ascii_uppercase()).await.unwrap();
        }
    });
    address
}

#[tokio::test]
async fn without_a_next_tier_the_answer_is_503_and_back_when_it_is_back() {
    let pki = Pki::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut plan = Plan::last();
    plan.serves = false;
    plan.next = Some(vec![address]);
    let front = plan.start(&pki).await;
    let path = format!("{THINGS}/x");
    let answer = ask(&pki, front.address, "GET", &path, &[JOE]).await;
    assert_eq!((answer.code, answer.header("retry-after")), (503, "1"), "{answer:?}");
    assert_eq!(answer.json()["reason"], "ServiceUnavailable");
    let mut back = Plan::last();
    back.edit = |_| {};
    let pki_ref = &pki;
    let last = {
        // the same port again
        static PORT: std::sync::atomic::AtomicU16 = std::sync::atomic::AtomicU16::new(0);
        PORT.store(address.port(), Ordering::SeqCst);
        back.edit = |s| s.listen.set_port(PORT.load(Ordering::SeqCst));
        back.start(pki_ref).await
    };
    eventually("served again", async || {
        ask(&pki, front.address, "GET", &path, &[JOE]).await.code == 200
    })
    .await;
    drop(last);
}

#[tokio::test]
async fn one_dead_replica_of_two_is_not_noticed() {
    let pki = Pki::new();
    let (a, b) = (Plan::last().start(&pki).await, Plan::last().start(&pki).await);
    let front = Plan::before(&[&a, &b]).start(&pki).await;
    let path = format!("{THINGS}/x");
    let mut send = http2(&pki, front.address).await;
    let uri = format!("https://localhost{path}");
    let mut get = async || {
        read(send.send_request(request("GET", &uri, &[JOE], "")).await.unwrap())
            .await
            .code
    };
    for _ in 0..40 {
        assert_eq!(get().await, 200);
    }
    assert!(a.echo.served.load(Ordering::SeqCst) > 0 && b.echo.served.load(Ordering::SeqCst) > 0);
    drop(a);
    for _ in 0..40 {
        assert_eq!(get().await, 200);
    }
}

#[tokio::test]
async fn more_requests_than_one_connection_has_places_for_are_all_answered() {
    let pki = Pki::new();
    let last = Plan::last().start(&pki).await;
    let front = Plan::before(&[&last]).start(&pki).await;
    let (mut watches, mut clients) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let mut send = http2(&pki, front.address).await;
        for _ in 0..150 {
            let uri = format!("https://localhost{THINGS}?watch=1");
            let watch = send.send_request(request("GET", &uri, &[JOE], "")).await.unwrap();
            assert_eq!(watch.status(), 200);
            watches.push(tokio::spawn(watch.into_body().collect()));
        }
        clients.push(send);
    }
    assert_eq!(last.echo.active.load(Ordering::SeqCst), 450);
    assert!(watches.iter().all(|w| !w.is_finished()));
}

#[tokio::test]
async fn a_peer_that_hangs_is_given_up_and_its_requests_go_elsewhere() {
    let pki = Pki::new();
    let (hung, last) = (hanging_server(&pki).await, Plan::last().start(&pki).await);
    let mut plan = Plan::last();
    plan.serves = false;
    plan.next = Some(vec![hung, last.address]);
    let front = plan.start(&pki).await;
    let path = format!("{THINGS}/x");
    let asked = (0..8).map(|_| ask(&pki, front.address, "GET", &path, &[JOE]));
    let answers = tokio::time::timeout(Duration::from_secs(20), futures_util::future::join_all(asked))
        .await
        .unwrap();
    assert!(answers.iter().all(|a| a.code == 200), "{answers:?}");
}

/// Speaks TLS and never HTTP.
async fn hanging_server(pki: &Pki) -> std::net::SocketAddr {
    let identity = triptych_client::tls::Identity::load(pki.issue("hung")).unwrap();
    let tls = TlsAcceptor::from(std::sync::Arc::new(
        triptych_server::tls::server_config(identity, true).unwrap(),
    ));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((tcp, _)) = listener.accept().await {
            held.push(tls.accept(tcp).await);
        }
    });
    address
}
