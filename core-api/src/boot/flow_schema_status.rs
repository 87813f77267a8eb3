//! Tells in each flow schema's status whether its priority level exists (the part of kube-apiserver's
//! `priority-and-fairness-config-consumer` that others see).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use triptych_object::{StatusResult, Value, json, meta, time};
use triptych_registry::catalogue::Collections;
use triptych_registry::collection::Collection;
use triptych_storage::cache::{Interest, Start};

use super::flow_control::target;
use crate::flowcontrol::GROUP;
use crate::loopback::Loopback;

const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";
const BEFORE_RETRY: Duration = Duration::from_secs(1);

/// Follows both resources as long as the tier runs; nothing if the group is switched off.
pub async fn keep(objects: Loopback, collections: Arc<Collections>) {
    let find = |resource| collections.get(GROUP, resource);
    let (Some(schemas), Some(levels)) = (find("flowschemas"), find("prioritylevelconfigurations")) else {
        return;
    };
    loop {
        schemas.cache.filled().await;
        levels.cache.filled().await;
        follow(&objects, schemas, levels).await;
        tokio::time::sleep(BEFORE_RETRY).await;
    }
}

/// Until one of the watches ends.
async fn follow(objects: &Loopback, schemas: &Collection, levels: &Collection) {
    let watch = |collection: &Collection| collection.cache.watch(Start::Now, Interest::all()).ok();
    let (Some((_, mut schema_events)), Some((_, mut level_events))) = (watch(schemas), watch(levels)) else {
        return;
    };
    loop {
        for schema in outdated(schemas, levels) {
            if let Err(status) = tell(objects, &schema).await
                && status.code != 404
            {
                tracing::info!(
                    name = meta::name(&schema),
                    why = status.message,
                    "cannot tell whether the priority level exists"
                );
            }
        }
        let more = tokio::select! {
            event = schema_events.next() => event.is_some(),
            event = level_events.next() => event.is_some(),
        };
        if !more {
            return;
        }
    }
}

fn all(collection: &Collection) -> Vec<Value> {
    let Ok(snapshot) = collection.cache.snapshot() else {
        return Vec::new();
    };
    let readable = snapshot.range("").filter(|o| o.broken().is_none());
    readable.filter_map(|o| json::from_slice(o.bytes()).ok()).collect()
}

/// What is to be applied to the flow schemas whose status does not tell the truth.
fn outdated(schemas: &Collection, levels: &Collection) -> Vec<Value> {
    let levels = all(levels);
    let levels: HashSet<&str> = levels.iter().map(meta::name).collect();
    let now = Timestamp::now();
    all(schemas).iter().filter_map(|s| told(s, &levels, now)).collect()
}

/// Applies what [`told`] made.
pub(super) async fn tell(objects: &Loopback, told: &Value) -> StatusResult<()> {
    let consumer = objects.managed_by(MANAGER);
    let name = meta::name(told);
    consumer.apply_status(target("flowschemas"), name, told).await.map(drop)
}

/// The apply configuration that tells whether the level of a schema exists, if its status does not.
pub(super) fn told(schema: &Value, levels: &HashSet<&str>, now: Timestamp) -> Option<Value> {
    let level = schema.str_at(&["spec", "priorityLevelConfiguration", "name"]);
    let named = format!("This FlowSchema references the PriorityLevelConfiguration object named \"{level}\"");
    let (status, reason, message) = if levels.contains(level) {
        ("False", "Found", format!("{named} and it exists"))
    } else {
        ("True", "NotFound", format!("{named} but there is no such object"))
    };
    let mut told = schema.array_at(&["status", "conditions"]).iter();
    let told = told.find(|c| c.str_at(&["type"]) == "Dangling");
    if told.is_some_and(|c| {
        (c.str_at(&["status"]), c.str_at(&["reason"]), c.str_at(&["message"])) == (status, reason, &message)
    }) {
        return None;
    }
    let condition = Value::from([
        ("type", "Dangling".into()),
        ("status", status.into()),
        ("lastTransitionTime", time::rfc3339(now).into()),
        ("reason", reason.into()),
        ("message", message.into()),
    ]);
    Some(Value::from([
        ("apiVersion", "flowcontrol.apiserver.k8s.io/v1".into()),
        ("kind", "FlowSchema".into()),
        ("metadata", Value::from([("name", meta::name(schema).into())])),
        ("status", Value::from([("conditions", vec![condition].into())])),
    ]))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_learns_once_whether_its_level_exists() {
        let schema =
            json::from_slice(br#"{"metadata":{"name":"a"},"spec":{"priorityLevelConfiguration":{"name":"x"}}}"#);
        let mut schema = schema.unwrap();
        let now = Timestamp::UNIX_EPOCH;
        let missing = told(&schema, &HashSet::new(), now).unwrap();
        assert_eq!(
            missing.array_at(&["status", "conditions"])[0].str_at(&["status"]),
            "True"
        );
        let found = told(&schema, &HashSet::from(["x"]), now).unwrap();
        schema.set_at(&["status"], found.get("status").unwrap().clone());
        assert_eq!(told(&schema, &HashSet::from(["x"]), now), None);
    }
}
