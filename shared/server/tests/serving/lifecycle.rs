//! From the signal to the end.

use std::sync::atomic::Ordering;
use std::time::Duration;

use http_body_util::BodyExt;

use crate::harness::*;

#[tokio::test]
async fn draining_ends_watches_finishes_requests_and_refuses_new_ones() {
    let pki = Pki::new();
    let mut plan = Plan::last();
    plan.edit = |s| {
        s.shutdown_delay = Duration::from_millis(300);
        s.watch_grace = Duration::from_millis(300);
        s.request_timeout = Duration::from_secs(2);
    };
    let mut tier = plan.start(&pki).await;
    let mut send = http1(&pki, tier.address).await;
    let ready = async |send: &mut Send1| {
        read(send.send_request(request("GET", "/readyz", &[JOE], "")).await.unwrap())
            .await
            .code
    };
    let mut kept = http1(&pki, tier.address).await;
    eventually("ready", async || ready(&mut kept).await == 200).await;
    let watch = send
        .send_request(request("GET", "/api/v1/namespaces/a/things?watch=1", &[JOE], ""))
        .await
        .unwrap();

    tier.shutdown.trigger();
    eventually("not ready", async || ready(&mut kept).await == 500).await;
    // still serving during the delay
    assert_eq!(
        read(kept.send_request(request("GET", "/api/v1", &[JOE], "")).await.unwrap())
            .await
            .code,
        200
    );
    // the watch ends by itself, cleanly
    let ticks = tokio::time::timeout(Duration::from_secs(5), watch.into_body().collect())
        .await
        .unwrap()
        .unwrap()
        .to_bytes();
    assert!(ticks.starts_with(b"tick\n"));
    let ended = tokio::time::timeout(Duration::from_secs(5), &mut tier.ended)
        .await
        .unwrap();
    assert!(ended.unwrap().is_ok());
    assert!(tokio::net::TcpStream::connect(tier.address).await.is_err());
}

#[tokio::test]
async fn clients_that_do_not_read_do_not_hold_up_the_end() {
    let pki = Pki::new();
    let mut tier = Plan::last().start(&pki).await;
    let mut send = http2(&pki, tier.address).await;
    let uri = "https://localhost/api/v1/watch/namespaces/a/things/flood";
    let watch = send.send_request(request("GET", uri, &[JOE], "")).await.unwrap();
    // the first piece fills the client's window; nothing reads it
    eventually("the flood begins", async || tier.echo.taken.load(Ordering::SeqCst) > 0).await;
    tier.shutdown.trigger();
    let ended = tokio::time::timeout(Duration::from_secs(10), &mut tier.ended)
        .await
        .unwrap();
    assert!(ended.unwrap().is_ok());
    drop(watch);
}
