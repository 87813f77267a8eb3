//! The ServiceCIDR of `--service-cluster-ip-range`, and that it is ready.

use triptych_object::{StatusResult, Value, time};

use super::create_missing;
use crate::context::ClusterIpRange;
use crate::core::service::DEFAULT_RANGE;
use crate::loopback::{Loopback, Target};

const RANGES: Target<'static> = Target {
    group: "networking.k8s.io",
    version: "v1",
    resource: "servicecidrs",
    namespace: "",
};

fn object(members: [(&str, Value); 1]) -> Value {
    let mut object = Value::from([
        ("kind", "ServiceCIDR".into()),
        ("apiVersion", "networking.k8s.io/v1".into()),
        ("metadata", Value::from([("name", DEFAULT_RANGE.into())])),
    ]);
    for (name, value) in members {
        object.set_at(&[name], value);
    }
    object
}

/// Makes it if it is missing and marks it as ready. One that says otherwise than the flag is left alone.
pub async fn ensure(objects: &Loopback, range: &ClusterIpRange) -> StatusResult<()> {
    let cidrs: Vec<String> = range.0.iter().map(ToString::to_string).collect();
    let spec = Value::from([("cidrs", cidrs.into())]);
    let found = create_missing(objects, RANGES, &object([("spec", spec.clone())])).await?;
    if found.get("spec") != Some(&spec) {
        tracing::warn!(
            range = DEFAULT_RANGE,
            "the ServiceCIDR object differs from --service-cluster-ip-range"
        );
        return Ok(());
    }
    let conditions = found.array_at(&["status", "conditions"]);
    if conditions
        .iter()
        .any(|c| c.str_at(&["type"]) == "Ready" && c.str_at(&["status"]) == "True")
    {
        return Ok(());
    }
    let ready = Value::from([
        ("type", "Ready".into()),
        ("status", "True".into()),
        ("lastTransitionTime", time::rfc3339(jiff::Timestamp::now()).into()),
        ("message", "Kubernetes default Service CIDR is ready".into()),
    ]);
    let status = Value::from([("conditions", vec![ready].into())]);
    objects
        .managed_by("kubernetes-service-cidr-controller")
        .apply_status(RANGES, DEFAULT_RANGE, &object([("status", status)]))
        .await?;
    Ok(())
}
