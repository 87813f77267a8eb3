//! Service addresses and ports on a real store, with two replicas on it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // what a helper of a test cannot do fails the test

mod support;

use std::collections::HashSet;
use std::sync::Arc;

use triptych_core_api::core::service::Allocators;
use triptych_object::{UserInfo, Value, json};
use triptych_registry::strategy::{Context, Reservation};

fn request(dry_run: bool) -> Context {
    Context {
        now: jiff::Timestamp::now(),
        user: Arc::new(UserInfo::new("admin", ["system:masters"])),
        namespace: "n".into(),
        version: "v1".into(),
        subresource: String::new(),
        dry_run,
    }
}

fn service(name: &str, spec: &str) -> Value {
    let text = format!(
        r#"{{"kind":"Service","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"n"}},"spec":{spec}}}"#
    );
    json::from_slice(text.as_bytes()).unwrap()
}

const WITH_ADDRESS: &str = r#"{"type":"ClusterIP","clusterIP":"10.0.0.9","clusterIPs":["10.0.0.9"]}"#;
const WITH_PORT: &str = r#"{"type":"NodePort","ports":[{"port":80,"protocol":"TCP","nodePort":30007}]}"#;
const ANY: &str = r#"{"type":"NodePort","ports":[{"port":80,"protocol":"TCP"}]}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_is_given_once_among_replicas_and_again_after_its_release() {
    let world = support::World::open().await;
    let (a, b) = (Allocators::new(&world.context), Allocators::new(&world.context));
    let held = a
        .create(&request(false), &mut service("a", WITH_ADDRESS))
        .await
        .unwrap();
    let refused = b
        .create(&request(false), &mut service("b", WITH_ADDRESS))
        .await
        .err()
        .unwrap();
    assert_eq!(
        refused.message,
        "Service \"b\" is invalid: spec.clusterIPs: Invalid value: [\"10.0.0.9\"]: failed to allocate IP 10.0.0.9: provided IP is already allocated"
    );
    Box::new(held).release().await;
    b.create(&request(false), &mut service("b", WITH_ADDRESS))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_is_given_once_among_replicas_and_again_after_its_service_is_gone() {
    let world = support::World::open().await;
    let (a, b) = (Allocators::new(&world.context), Allocators::new(&world.context));
    let mut first = service("a", WITH_PORT);
    let held = a.create(&request(false), &mut first).await.unwrap();
    Box::new(held).commit().await;
    let refused = b
        .create(&request(false), &mut service("b", WITH_PORT))
        .await
        .err()
        .unwrap();
    assert_eq!(
        refused.message,
        "Service \"b\" is invalid: spec.ports[0].nodePort: Invalid value: 30007: provided port is already allocated"
    );
    b.release(&first).await;
    a.create(&request(false), &mut service("c", WITH_PORT)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_services_at_once_get_addresses_and_ports_of_their_own() {
    let world = support::World::open().await;
    let replicas = [Allocators::new(&world.context), Allocators::new(&world.context)];
    let mut creates = tokio::task::JoinSet::new();
    for i in 0..40 {
        let allocators = replicas[i % 2].clone();
        creates.spawn(async move {
            let mut new = service(&format!("s{i}"), ANY);
            let held = allocators.create(&request(false), &mut new).await.unwrap();
            Box::new(held).commit().await;
            let port = new.array_at(&["spec", "ports"])[0]
                .get("nodePort")
                .and_then(Value::as_i64);
            (new.str_at(&["spec", "clusterIP"]).to_owned(), port.unwrap())
        });
    }
    let (mut addresses, mut ports) = (HashSet::new(), HashSet::new());
    while let Some(outcome) = creates.join_next().await {
        let (address, port) = outcome.unwrap();
        addresses.insert(address);
        ports.insert(port);
    }
    assert_eq!((addresses.len(), ports.len()), (40, 40));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_takes_nothing() {
    let world = support::World::open().await;
    let allocators = Allocators::new(&world.context);
    for spec in [WITH_ADDRESS, WITH_PORT] {
        allocators
            .create(&request(true), &mut service("a", spec))
            .await
            .unwrap();
        allocators
            .create(&request(false), &mut service("a", spec))
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_gives_back_what_the_old_service_held_once_it_is_stored() {
    let world = support::World::open().await;
    let allocators = Allocators::new(&world.context);
    let mut old = service("a", WITH_PORT);
    let held = allocators.create(&request(false), &mut old).await.unwrap();
    Box::new(held).commit().await;
    let mut new = old.clone();
    new.set_at(&["spec", "type"], "ClusterIP".into());
    let change = allocators.update(&request(false), &mut new, &old).await.unwrap();
    assert!(
        allocators
            .create(&request(false), &mut service("b", WITH_PORT))
            .await
            .is_err()
    );
    Box::new(change).commit().await;
    allocators
        .create(&request(false), &mut service("b", WITH_PORT))
        .await
        .unwrap();
}
