//! Makes the bootstrap policy exist (kube-apiserver's `rbac/bootstrap-roles` start hook).
//!
//! Contract: what is missing is created, what lacks rules, subjects, labels or annotations is given them, and nothing is
//! taken away; an object annotated `autoupdate: "false"` is left alone. A binding to another role is made anew. It may
//! run on any number of replicas at once: a lost race is looked at again.

use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, StreamExt};
use tokio::time::Instant;
use triptych_auth::authorization::index::RbacKind;
use triptych_auth::authorization::rules::{PolicyRule, single_missing};
use triptych_object::{Status, StatusResult, Value, meta};

use super::policy::{AUTO_UPDATE, GROUP, PolicyObject, policy};
use crate::loopback::{Loopback, Target};

/// The four resources, as the hook reads and writes them: through the registry, as field manager `kube-apiserver`.
pub trait RbacObjects: Send + Sync {
    /// The object, `None` if there is none.
    fn get<'a>(
        &'a self,
        kind: RbacKind,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, StatusResult<Option<Value>>>;
    /// Creates one; 409 if it exists.
    fn create<'a>(&'a self, kind: RbacKind, namespace: &'a str, object: Value) -> BoxFuture<'a, StatusResult<()>>;
    /// Updates one, which carries its resourceVersion; 409 if it has changed, 404 if it is gone.
    fn update<'a>(
        &'a self,
        kind: RbacKind,
        namespace: &'a str,
        name: &'a str,
        object: Value,
    ) -> BoxFuture<'a, StatusResult<()>>;
    /// Deletes one if it still has this uid.
    fn delete<'a>(
        &'a self,
        kind: RbacKind,
        namespace: &'a str,
        name: &'a str,
        uid: &'a str,
    ) -> BoxFuture<'a, StatusResult<()>>;
}

fn target(kind: RbacKind, namespace: &str) -> Target<'_> {
    Target {
        group: GROUP,
        version: "v1",
        resource: kind.resource(),
        namespace,
    }
}

impl RbacObjects for Loopback {
    fn get<'a>(
        &'a self,
        kind: RbacKind,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, StatusResult<Option<Value>>> {
        Loopback::get(self, target(kind, namespace), name).boxed()
    }

    fn create<'a>(&'a self, kind: RbacKind, namespace: &'a str, object: Value) -> BoxFuture<'a, StatusResult<()>> {
        async move {
            Loopback::create(self, target(kind, namespace), &object).await?;
            Ok(())
        }
        .boxed()
    }

    fn update<'a>(
        &'a self,
        kind: RbacKind,
        namespace: &'a str,
        name: &'a str,
        object: Value,
    ) -> BoxFuture<'a, StatusResult<()>> {
        async move {
            Loopback::update(self, target(kind, namespace), name, &object).await?;
            Ok(())
        }
        .boxed()
    }

    fn delete<'a>(
        &'a self,
        kind: RbacKind,
        namespace: &'a str,
        name: &'a str,
        uid: &'a str,
    ) -> BoxFuture<'a, StatusResult<()>> {
        async move {
            Loopback::delete(self, target(kind, namespace), name, uid).await?;
            Ok(())
        }
        .boxed()
    }
}

/// So often a lost race is looked at again.
const ATTEMPTS: usize = 5;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(20);

/// What is to be done about an object that exists.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Nothing.
    None,
    /// Write this.
    Update(Value),
    /// Delete it and create what was expected.
    Recreate,
}

/// So many objects are looked at at a time: their writes share the store's syncs.
const AT_ONCE: usize = 64;

/// How long the whole is tried again, and how soon.
const PATIENCE: Duration = Duration::from_secs(30);
const BETWEEN_TRIES: Duration = Duration::from_millis(100);

/// The start hook: tries until everything exists.
pub async fn start_hook(objects: impl RbacObjects) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match ensure(&objects).await {
            Ok(()) => return Ok(()),
            Err(status) if Instant::now() >= deadline => return Err(format!("unable to initialize roles: {status}")),
            Err(_) => tokio::time::sleep(BETWEEN_TRIES).await,
        }
    }
}

/// Makes the whole policy exist. All that can be done is done; the error is the last failure.
pub async fn ensure(objects: &dyn RbacObjects) -> StatusResult<()> {
    let policy = policy().map_err(|e| Status::internal(format!("the bootstrap policy: {e}")))?;
    // boxed, because the compiler cannot see that the bare closure works for any lifetime
    let tries = policy
        .iter()
        .map(|expected| async move { (expected, ensure_one(objects, expected).await) }.boxed());
    let mut outcomes = stream::iter(tries.collect::<Vec<_>>()).buffer_unordered(AT_ONCE);
    let mut outcome = Ok(());
    while let Some((expected, done)) = outcomes.next().await {
        if let Err(status) = done {
            tracing::info!(kind = ?expected.kind, name = %expected.name, %status, "bootstrap policy not reconciled yet");
            outcome = Err(status);
        }
    }
    outcome
}

async fn ensure_one(objects: &dyn RbacObjects, expected: &PolicyObject) -> StatusResult<()> {
    let PolicyObject {
        kind,
        namespace,
        name,
        object,
    } = expected;
    let mut attempt = 1;
    loop {
        let outcome = match objects.get(*kind, namespace, name).await? {
            None => objects.create(*kind, namespace, object.clone()).await,
            Some(existing) => match reconcile(*kind, &existing, object) {
                Change::None => return Ok(()),
                Change::Update(new) => objects.update(*kind, namespace, name, new).await,
                Change::Recreate => {
                    let uid = meta::uid(&existing);
                    match objects.delete(*kind, namespace, name, uid).await {
                        Err(status) if status.code != 404 => Err(status),
                        _ => objects.create(*kind, namespace, object.clone()).await,
                    }
                }
            },
        };
        match outcome {
            // Somebody else, probably another replica, was faster.
            Err(status) if matches!(status.code, 404 | 409) && attempt < ATTEMPTS => {
                attempt += 1;
                tokio::time::sleep(BETWEEN_ATTEMPTS).await;
            }
            outcome => return outcome,
        }
    }
}

/// What it takes to make an existing object give at least what is expected.
pub fn reconcile(kind: RbacKind, existing: &Value, expected: &Value) -> Change {
    if meta::annotation(existing, AUTO_UPDATE) == Some("false") {
        return Change::None;
    }
    let mut new = existing.clone();
    for map in ["annotations", "labels"] {
        let wanted = expected.at(&["metadata", map]).and_then(Value::as_object);
        for (key, value) in wanted.into_iter().flat_map(|w| w.iter()) {
            if new.at(&["metadata", map, key]).is_none() {
                new.set_at(&["metadata", map, key], value.clone());
            }
        }
    }
    match kind {
        RbacKind::Role | RbacKind::ClusterRole => reconcile_rules(&mut new, existing, expected),
        RbacKind::RoleBinding | RbacKind::ClusterRoleBinding => {
            if existing.get("roleRef") != expected.get("roleRef") {
                return Change::Recreate;
            }
            add_missing(&mut new, &["subjects"], expected.array_at(&["subjects"]));
        }
    }
    if new == *existing {
        Change::None
    } else {
        Change::Update(new)
    }
}

fn reconcile_rules(new: &mut Value, existing: &Value, expected: &Value) {
    let rules = |role: &Value| PolicyRule::of_role(role);
    // Far too many rules to compare can only be an administrator's doing: they stay as they are.
    let missing = single_missing(&rules(existing), &rules(expected)).unwrap_or_default();
    if !missing.is_empty() {
        let mut all = existing.array_at(&["rules"]).to_vec();
        all.extend(missing.iter().map(PolicyRule::to_value));
        new.set_at(&["rules"], Value::Array(all));
    }
    const SELECTORS: [&str; 2] = ["aggregationRule", "clusterRoleSelectors"];
    match expected.get("aggregationRule") {
        None => {
            new.remove_at(&["aggregationRule"]);
        }
        Some(_) => add_missing(new, &SELECTORS, expected.array_at(&SELECTORS)),
    }
}

/// Appends to a list what of `wanted` is not in it.
fn add_missing(object: &mut Value, path: &[&str], wanted: &[Value]) {
    let mut list = object.array_at(path).to_vec();
    let before = list.len();
    for item in wanted {
        if !list.contains(item) {
            list.push(item.clone());
        }
    }
    if list.len() > before {
        object.set_at(path, Value::Array(list));
    }
}

#[cfg(test)]
#[path = "bootstrap_tests.rs"]
mod tests;
