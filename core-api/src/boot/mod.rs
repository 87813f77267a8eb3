//! Objects that exist once core-api is ready, made by start hooks that may run on any number of replicas at once.

use triptych_object::Value;

use crate::loopback::{Loopback, Target};

/// Namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Makes the system namespaces exist.
pub async fn namespaces(objects: Loopback) -> Result<(), String> {
    let made = NAMESPACES.map(|name| namespace(objects.clone(), name));
    futures_util::future::try_join_all(made).await.map(drop)
}

async fn namespace(objects: Loopback, name: &'static str) -> Result<(), String> {
    let target = Target {
        group: "",
        version: "v1",
        resource: "namespaces",
        namespace: "",
    };
    if objects
        .get(target, name)
        .await
        .map_err(|status| status.message)?
        .is_some()
    {
        return Ok(());
    }
    let namespace = Value::from([
        ("apiVersion", "v1".into()),
        ("kind", "Namespace".into()),
        ("metadata", Value::from([("name", name.into())])),
    ]);
    match objects.create(target, &namespace).await {
        Err(status) if status.reason != "AlreadyExists" => Err(status.message),
        _ => Ok(()),
    }
}
