//! Tells in each flow schema's status whether its priority level exists (the part of kube-apiserver's
//! `priority-and-fairness-config-consumer` that others see).

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use triptych_object::{StatusResult, Value, json, meta, time};
use triptych_registry::catalogue::Collections;
use triptych_registry::collection::Collection;
use triptych_storage::cache::{EventKind, Interest, Object, Start};

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

/// Until one of the watches ends. A schema is looked at when it changes, all are when a level comes or goes.
async fn follow(objects: &Loopback, schemas: &Collection, levels: &Collection) {
    let watch = |collection: &Collection| collection.cache.watch(Start::Now, Interest::all()).ok();
    let (Some((before, mut schema_events)), Some((_, mut level_events))) = (watch(schemas), watch(levels)) else {
        return;
    };
    for schema in before.range("") {
        look(objects, schema, levels).await;
    }
    loop {
        tokio::select! {
            event = schema_events.next() => match event {
                Some(event) if event.kind() == EventKind::Deleted => {}
                Some(event) => look(objects, event.object(), levels).await,
                None => return,
            },
            event = level_events.next() => match event {
                Some(event) if event.kind() == EventKind::Modified => {}
                Some(_) => {
                    let Ok(snapshot) = schemas.cache.snapshot() else { return };
                    for schema in snapshot.range("") {
                        look(objects, schema, levels).await;
                    }
                }
                None => return,
            },
        }
    }
}

/// Tells a schema the truth if its status does not.
async fn look(objects: &Loopback, schema: &Object, levels: &Collection) {
    let Some(schema) = readable(schema) else { return };
    let level = schema.str_at(&["spec", "priorityLevelConfiguration", "name"]);
    let exists = levels.key("", level).is_ok_and(|key| {
        let found = levels.cache.get(&key);
        found.is_ok_and(|level| level.is_some())
    });
    let Some(truth) = told(&schema, exists, Timestamp::now()) else {
        return;
    };
    if let Err(status) = tell(objects, &truth).await
        && status.code != 404
    {
        tracing::info!(
            name = meta::name(&schema),
            why = status.message,
            "cannot tell whether the priority level exists"
        );
    }
}

fn readable(object: &Object) -> Option<Value> {
    match object.broken() {
        Some(_) => None,
        None => json::from_slice(object.bytes()).ok(),
    }
}

/// Applies what [`told`] made.
pub(super) async fn tell(objects: &Loopback, told: &Value) -> StatusResult<()> {
    let consumer = objects.managed_by(MANAGER);
    let name = meta::name(told);
    consumer.apply_status(target("flowschemas"), name, told).await.map(drop)
}

/// The apply configuration that tells that the level of a schema exists, or does not, if its status does not say so.
pub(super) fn told(schema: &Value, exists: bool, now: Timestamp) -> Option<Value> {
    let level = schema.str_at(&["spec", "priorityLevelConfiguration", "name"]);
    let named = format!("This FlowSchema references the PriorityLevelConfiguration object named \"{level}\"");
    let (status, reason, message) = if exists {
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
mod tests {
    use super::*;

    #[test]
    fn a_schema_learns_once_whether_its_level_exists() {
        let schema =
            json::from_slice(br#"{"metadata":{"name":"a"},"spec":{"priorityLevelConfiguration":{"name":"x"}}}"#);
        let mut schema = schema.unwrap();
        let now = Timestamp::UNIX_EPOCH;
        let missing = told(&schema, false, now).unwrap();
        assert_eq!(
            missing.array_at(&["status", "conditions"])[0].str_at(&["status"]),
            "True"
        );
        let found = told(&schema, true, now).unwrap();
        schema.set_at(&["status"], found.get("status").unwrap().clone());
        assert_eq!(told(&schema, true, now), None);
    }
}
