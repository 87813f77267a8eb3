//! A deleted CRD takes its objects with it: they are deleted, waited for, and then the finalizer is taken off.
//!
//! Contract: condition Terminating tells how far it is, in kube-apiserver's words. Objects that finalizers hold keep the
//! CRD; it is looked at again until they are gone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use jiff::Timestamp;
use triptych_object::{Value, json, meta};
use triptych_registry::{Body, Endpoint, Handler};

use super::Controllers;
use super::status::own_request;
use crate::custom::serving::Serving;
use crate::definition::CLEANUP_FINALIZER;
use crate::definition::conditions::Condition;
use crate::definition::summary::Summary;

/// How often it is looked whether objects are gone.
const POLL: Duration = Duration::from_millis(200);
/// After so long without success the CRD says so.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two attempts.
const RETRY: Duration = Duration::from_millis(500);
/// CRDs cleaned up at once.
pub const AT_ONCE: usize = 16;

/// Begins to clean up, unless that is under way.
pub fn begin(controllers: &Arc<Controllers>, crd: &Summary) {
    if !controllers.cleaning.lock().insert(crd.name.clone()) {
        return;
    }
    let (controllers, name) = (Arc::clone(controllers), crd.name.clone());
    tokio::spawn(async move {
        let permit = controllers.permits.acquire().await;
        clean_up(&controllers, &name).await;
        controllers.cleaning.lock().remove(&name);
        drop(permit);
    });
}

/// Until the CRD is gone (or somebody else's).
async fn clean_up(controllers: &Controllers, name: &str) {
    let mut seen = None;
    loop {
        let Some(crd) = controllers.custom.find_definition(name).filter(|c| c.deleted) else {
            return;
        };
        if seen.get_or_insert_with(|| crd.uid.clone()) != &crd.uid {
            return;
        }
        match attempt(controllers, &crd).await {
            Ok(true) => return,
            Ok(false) => {}
            Err(why) => tracing::info!(
                crd = name,
                why,
                "objects of a deleted custom resource definition remain"
            ),
        }
        tokio::time::sleep(RETRY).await;
        // what was lost against another writer must be seen before the next attempt
        let _ = controllers.definitions.consistent(RETRY).await;
    }
}

fn terminating(holds: bool, reason: &str, message: impl Into<String>) -> Condition {
    Condition::new("Terminating", holds, reason, message)
}

/// True if there is nothing left to do.
async fn attempt(controllers: &Controllers, summary: &Summary) -> Result<bool, String> {
    let mut crd = json::from_slice(&summary.object).map_err(|e| e.message)?;
    if !meta::finalizers(&crd).any(|f| f == CLEANUP_FINALIZER) {
        return Ok(true);
    }
    terminating(
        true,
        "InstanceDeletionInProgress",
        "CustomResource deletion is in progress",
    )
    .set(&mut crd, Timestamp::now());
    let Some(revision) = controllers.status.write(&crd).await? else {
        return Ok(false);
    };
    meta::set_text(&mut crd, "resourceVersion", revision.to_string());
    let done = if summary.established {
        match delete_objects(controllers, summary).await {
            Ok(()) => terminating(false, "InstanceDeletionCompleted", "removed all instances"),
            Err(failed) => {
                failed.set(&mut crd, Timestamp::now());
                controllers.status.write(&crd).await?;
                return Err(failed.message);
            }
        }
    } else {
        terminating(false, "NeverEstablished", "resource was never established")
    };
    done.set(&mut crd, Timestamp::now());
    let finalizers = meta::finalizers(&crd).filter(|f| *f != CLEANUP_FINALIZER);
    let finalizers = finalizers.map(str::to_owned).collect();
    meta::set_finalizers(&mut crd, finalizers);
    Ok(controllers.status.write(&crd).await?.is_some())
}

async fn delete_objects(controllers: &Controllers, crd: &Summary) -> Result<(), Condition> {
    let failed = |reason: &str, why: String| terminating(true, reason, why);
    let Some(serving) = controllers.custom.serve(crd) else {
        return Err(failed(
            "InstanceDeletionFailed",
            "could not list instances: the resource cannot be served".into(),
        ));
    };
    let Some(endpoint) = serving.storage_endpoint(crd) else {
        return Err(failed(
            "InstanceDeletionFailed",
            "could not list instances: no version is stored".into(),
        ));
    };
    let could_not = |why: String| failed("InstanceDeletionFailed", format!("could not list instances: {why}"));
    let namespaces = remaining(&serving).await.map_err(could_not)?;
    let mut problems = Vec::new();
    for namespace in namespaces {
        if let Err(why) = delete_collection(endpoint, &namespace).await {
            problems.push(why);
        }
    }
    if !problems.is_empty() {
        let why = triptych_object::field::aggregate(problems);
        return Err(failed(
            "InstanceDeletionFailed",
            format!("could not issue all deletes: {why}"),
        ));
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        let unconfirmed = |why: String| {
            failed(
                "InstanceDeletionCheck",
                format!("could not confirm zero CustomResources remaining: {why}"),
            )
        };
        if remaining(&serving).await.map_err(unconfirmed)?.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(unconfirmed("timed out waiting for the condition".to_owned()));
        }
        tokio::time::sleep(POLL).await;
    }
}

/// The namespaces that still hold objects; an empty name for cluster-scoped ones.
async fn remaining(serving: &Serving) -> Result<BTreeSet<String>, String> {
    let collection = &serving.collection;
    collection.cache.filled().await;
    let snapshot = collection.consistent().await.map_err(|status| status.message)?;
    let scope = collection.scope("");
    let namespace = |key: &str| match collection.namespaced {
        true => key
            .strip_prefix(&scope)
            .and_then(|rest| rest.split('/').next())
            .unwrap_or("")
            .to_owned(),
        false => String::new(),
    };
    if let Some(snapshot) = snapshot {
        return Ok(snapshot.range(&scope).map(|object| namespace(object.key())).collect());
    }
    let range = triptych_storage::Range {
        prefix: &scope,
        ..Default::default()
    };
    let page = collection.store.range(range).await.map_err(|e| e.to_string())?;
    Ok(page.entries.iter().map(|entry| namespace(&entry.key)).collect())
}

async fn delete_collection(endpoint: &Endpoint, namespace: &str) -> Result<(), String> {
    let resource = &endpoint.resource;
    let within = if namespace.is_empty() {
        String::new()
    } else {
        format!("/namespaces/{namespace}")
    };
    let path = format!("/apis/{}{within}/{}", resource.api_version(), resource.resource);
    let response = endpoint.handle(own_request(Method::DELETE, &path, None)?).await;
    if response.status().is_success() {
        return Ok(());
    }
    let code = response.status();
    let text = match response.into_body() {
        Body::Full(Some(bytes)) => json::from_slice(&bytes).unwrap_or(Value::Null),
        _ => Value::Null,
    };
    match text.str_at(&["message"]) {
        "" => Err(code.to_string()),
        message => Err(message.to_owned()),
    }
}
