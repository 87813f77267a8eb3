//! The priority classes of the control plane's own pods.

use triptych_object::{StatusResult, Value};

use super::create_missing;
use crate::loopback::{Loopback, Target};

const CLASSES: [(&str, i64, &str); 2] = [
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];

/// Makes those that are missing.
pub async fn ensure(objects: &Loopback) -> StatusResult<()> {
    let target = Target {
        group: "scheduling.k8s.io",
        version: "v1",
        resource: "priorityclasses",
        namespace: "",
    };
    for (name, value, description) in CLASSES {
        let class = Value::from([
            ("kind", "PriorityClass".into()),
            ("apiVersion", "scheduling.k8s.io/v1".into()),
            ("metadata", Value::from([("name", name.into())])),
            ("value", Value::Int(value)),
            ("description", description.into()),
        ]);
        create_missing(objects, target, &class).await?;
    }
    Ok(())
}
