//! The priority classes of the control plane's own pods.

use triptych_object::{StatusResult, Value};

use super::create_missing;
use crate::loopback::{Loopback, Target};
use crate::scheduling::priority_class::SYSTEM_CLASSES;

/// Makes those that are missing.
pub async fn ensure(objects: &Loopback) -> StatusResult<()> {
    let target = Target {
        group: "scheduling.k8s.io",
        version: "v1",
        resource: "priorityclasses",
        namespace: "",
    };
    for (name, value, description) in SYSTEM_CLASSES {
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
