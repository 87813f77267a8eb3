//! The namespaces that are always there.

use triptych_object::{StatusResult, Value};

use super::create_missing;
use crate::loopback::{Loopback, Target};

const NAMES: [&str; 4] = ["kube-system", "kube-public", "kube-node-lease", "default"];

const NAMESPACES: Target<'static> = Target {
    group: "",
    version: "v1",
    resource: "namespaces",
    namespace: "",
};

/// Makes those that are missing.
pub async fn ensure(objects: &Loopback) -> StatusResult<()> {
    for name in NAMES {
        let namespace = Value::from([
            ("kind", "Namespace".into()),
            ("apiVersion", "v1".into()),
            ("metadata", Value::from([("name", name.into())])),
        ]);
        create_missing(objects, NAMESPACES, &namespace).await?;
    }
    Ok(())
}
