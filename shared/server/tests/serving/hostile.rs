//! Clients that mean no good.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::*;

#[tokio::test]
async fn garbage_and_silence_end_only_their_own_connection() {
    let pki = Pki::new();
    let tier = Plan::last().start(&pki).await;
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(tier.address).await.unwrap());
    }
    let mut garbage = TcpStream::connect(tier.address).await.unwrap();
    garbage.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(5), garbage.read_to_end(&mut answer))
        .await
        .unwrap();
    for _ in 0..20 {
        let mut half = tls(&pki, tier.address, &[b"http/1.1"], None).await;
        half.write_all(b"GET /api/v1/names").await.unwrap();
        drop(half);
    }
    assert_eq!(ask(&pki, tier.address, "GET", "/api/v1", &[JOE]).await.code, 200);
    eventually("handshake errors are counted", async || {
        tier.metrics.tls_handshake_errors.get() >= 1
    })
    .await;
}

#[tokio::test]
async fn heads_that_are_too_large_are_refused() {
    let pki = Pki::new();
    let tier = Plan::last().start(&pki).await;
    let mut stream = tls(&pki, tier.address, &[b"http/1.1"], None).await;
    let head = format!(
        "GET / HTTP/1.1\r\nHost: x\r\nX-Long: {}\r\n\r\n",
        "x".repeat(300 * 1024)
    );
    let _ = stream.write_all(head.as_bytes()).await;
    let mut answer = [0; 64];
    let n = stream.read(&mut answer).await.unwrap_or(0);
    assert!(
        String::from_utf8_lossy(&answer[..n]).starts_with("HTTP/1.1 431"),
        "{:?}",
        String::from_utf8_lossy(&answer[..n])
    );

    let mut send = http2(&pki, tier.address).await;
    let long = "x".repeat(300 * 1024);
    let refused = send
        .send_request(request("GET", "https://localhost/", &[JOE, ("x-long", &long)], ""))
        .await;
    if let Ok(answer) = refused {
        assert_eq!(answer.status(), 431);
    }
}

#[tokio::test]
async fn a_stranger_on_http2_gets_one_answer_per_connection() {
    let pki = Pki::new();
    let tier = Plan::last().start(&pki).await;
    let mut send = http2(&pki, tier.address).await;
    let first = read(
        send.send_request(request("GET", "https://localhost/livez", &[], ""))
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(first.code, 200);
    eventually("the connection is closed", async || send.ready().await.is_err()).await;
}
