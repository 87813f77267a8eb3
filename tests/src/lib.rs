//! What whole-process tests and their programs share beyond the harness, which is [`triptych_local::cluster`].

pub mod hook;
pub mod isolation;
pub mod load;
pub mod raw;
pub mod replay;
pub mod session;
pub mod usage;
pub mod watcher;

use std::time::{Duration, Instant};

/// Polls until `is` holds; fails the test after 30 s.
pub async fn eventually(what: &str, mut is: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is().await {
        assert!(Instant::now() < deadline, "not within 30 s: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A definition of namespaced `widgets` in `group`, version v1, that keeps whatever they hold.
pub fn crd(group: &str) -> serde_json::Value {
    serde_json::json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}
