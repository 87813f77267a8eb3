//! Eviction: a delete that asks the pod's disruption budget first (KEP-85).

use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use triptych_object::field::Error;
use triptych_object::status::Details;
use triptych_object::value::Object;
use triptych_object::{Cause, GroupKind, GroupResource, Status, StatusResult, Value, json, meta, time};
use triptych_registry::options::Delete;
use triptych_registry::write::delete;
use triptych_registry::{Action, ActionContext, Answer};

use super::change::{change, pods};
use super::status::set_condition;
use crate::apps::workload::number;
use crate::context::Context;
use crate::loopback::{Loopback, Target};
use crate::validation::label_selector;

const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
const ATTEMPTS: usize = 20;

/// The action of `pods/eviction`.
pub struct Evictions {
    context: Context,
    loopback: Arc<OnceLock<Loopback>>,
}

impl Evictions {
    /// Budgets are read from `context`'s collections and written through `loopback`, which is there once the tier serves.
    pub fn new(context: Context, loopback: Arc<OnceLock<Loopback>>) -> Evictions {
        Evictions { context, loopback }
    }
}

impl Action for Evictions {
    fn run<'a>(&'a self, cx: &'a ActionContext<'a>, document: Value) -> BoxFuture<'a, StatusResult<Answer>> {
        Box::pin(self.evict(cx, document))
    }

    fn also_accepts(&self) -> &'static [&'static str] {
        &["policy/v1beta1"]
    }
}

/// Pods that no budget protects.
fn unprotected(pod: &Value) -> bool {
    matches!(pod.str_at(&["status", "phase"]), "Succeeded" | "Failed" | "Pending") || is_deleting(pod)
}

fn is_deleting(pod: &Value) -> bool {
    meta::deletion_timestamp(pod).is_some()
}

fn is_finished(pod: &Value) -> bool {
    matches!(pod.str_at(&["status", "phase"]), "Succeeded" | "Failed")
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod.array_at(&["status", "conditions"]).iter();
    conditions.any(|c| c.str_at(&["type"]) == "Ready" && c.str_at(&["status"]) == "True")
}

/// 429 with why the budget does not allow it.
fn refused(message: String, retry_after_seconds: u32) -> Box<Status> {
    let details = Details {
        causes: vec![Cause {
            reason: "DisruptionBudget".into(),
            message,
            field: String::new(),
        }],
        retry_after_seconds,
        ..Details::default()
    };
    Status::too_many_requests(REFUSED, retry_after_seconds).with_details(Some(details))
}

fn still_processed(budget: &str) -> Box<Status> {
    refused(
        format!("The disruption budget {budget} is still being processed by the server."),
        10,
    )
}

impl Evictions {
    async fn evict(&self, cx: &ActionContext<'_>, eviction: Value) -> StatusResult<Answer> {
        let name = cx.request.info.name.as_str();
        if meta::name(&eviction) != name {
            return Err(Status::bad_request(
                "name in URL does not match name in Eviction object",
            ));
        }
        let options = options(cx, &eviction)?;
        let pinned = options.resource_version.is_some();
        for _ in 0..ATTEMPTS {
            let pod = self.pod(cx, name).await?;
            if !unprotected(&pod) {
                return self.ask_budget(cx, pod, options).await;
            }
            let mut own = options.clone();
            if !pinned && !is_finished(&pod) && !is_deleting(&pod) {
                own.resource_version = Some(meta::resource_version(&pod).to_owned());
            }
            match self.remove(cx, name, own).await {
                Err(status) if status.code == 409 && !pinned && options.uid.is_none() => {}
                outcome => return outcome,
            }
        }
        Err(Status::timeout("the pod changes too often to be evicted", 10))
    }

    async fn pod(&self, cx: &ActionContext<'_>, name: &str) -> StatusResult<Value> {
        let collection = cx.endpoint.collection()?;
        let key = collection.key(&cx.request.info.namespace, name)?;
        let object = collection.get_live(&key).await?.0;
        let object = object.ok_or_else(|| Status::not_found(&pods(), name))?;
        super::change::document(cx, &object)
    }

    async fn ask_budget(&self, cx: &ActionContext<'_>, pod: Value, mut options: Delete) -> StatusResult<Answer> {
        let budgets = self.budgets(&cx.request.info.namespace, &pod).await?;
        let mut budget = match budgets.as_slice() {
            [] => return self.remove(cx, meta::name(&pod), options).await,
            [one] => one.clone(),
            _ => {
                return Err(Status::unknown(
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                ));
            }
        };
        let budget_name = meta::name(&budget).to_owned();
        let (healthy, wanted) = health(&budget);
        let always = budget.str_at(&["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow";
        if !is_ready(&pod) && (always || healthy >= wanted && wanted > 0) {
            // the pod must stay as unready as it was seen
            let pinned = options.resource_version.is_some();
            options.resource_version = Some(meta::resource_version(&pod).to_owned());
            return match self.remove(cx, meta::name(&pod), options).await {
                Err(status) if status.code == 409 && !pinned => Err(still_processed(&budget_name)),
                outcome => outcome,
            };
        }
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                budget = self.loopback()?.get(target(cx), &budget_name).await?.ok_or_else(|| {
                    let resource = GroupResource::new("policy", "poddisruptionbudgets");
                    Status::not_found(&resource, &budget_name)
                })?;
            }
            match self.take(cx, meta::name(&pod), budget.clone(), options.dry_run).await {
                Err(status) if status.code == 409 => {}
                Err(status) => return Err(status),
                Ok(()) => return self.remove(cx, meta::name(&pod), options).await,
            }
        }
        let quoted = triptych_object::field::quote(&budget_name);
        Err(Status::timeout(
            format!("couldn't update PodDisruptionBudget {quoted} due to conflicts"),
            10,
        ))
    }

    fn loopback(&self) -> StatusResult<&Loopback> {
        self.loopback
            .get()
            .ok_or_else(|| Status::service_unavailable("the server is starting", 1))
    }

    async fn budgets(&self, namespace: &str, pod: &Value) -> StatusResult<Vec<Value>> {
        let Some(collection) = self.context.collection("policy", "poddisruptionbudgets") else {
            return Ok(Vec::new());
        };
        let Some(snapshot) = collection.consistent().await? else {
            return Err(Status::too_many_requests("storage is (re)initializing", 1));
        };
        let labels = pod.at(&["metadata", "labels"]).and_then(Value::as_object);
        let empty = Object::new();
        let labels = Some(labels.unwrap_or(&empty));
        let scope = collection.scope(namespace);
        let documents = snapshot
            .range(&scope)
            .filter_map(|object| json::from_slice(object.bytes()).ok());
        Ok(documents
            .filter(|budget| label_selector::matches(budget.at(&["spec", "selector"]), labels) == Ok(true))
            .collect())
    }

    /// Takes one disruption from the budget.
    async fn take(&self, cx: &ActionContext<'_>, pod: &str, mut budget: Value, dry_run: bool) -> StatusResult<()> {
        let name = meta::name(&budget).to_owned();
        allows(&budget)?;
        if dry_run {
            return Ok(());
        }
        let left = number(&budget, &["status", "disruptionsAllowed"]) - 1;
        budget.set_at(&["status", "disruptionsAllowed"], Value::Int(left));
        let now = time::rfc3339(cx.now);
        if left == 0 {
            exhausted(&mut budget, &now);
        }
        budget.set_at(&["status", "disruptedPods", pod], now.into());
        self.loopback()?
            .update(target(cx), &format!("{name}/status"), &budget)
            .await
            .map(drop)
    }

    /// Says in the pod's status why it goes, and deletes it.
    async fn remove(&self, cx: &ActionContext<'_>, name: &str, mut options: Delete) -> StatusResult<Answer> {
        if !options.dry_run {
            let now = time::rfc3339(cx.now);
            let stored = change(cx, name, false, |pod| {
                precondition("UID", options.uid.as_deref(), meta::uid(pod), pod, RECREATED)?;
                let version = options.resource_version.as_deref();
                precondition("ResourceVersion", version, meta::resource_version(pod), pod, MODIFIED)?;
                let message = "Eviction API: evicting";
                set_condition(pod, &now, "DisruptionTarget", "True", "EvictionByEvictionAPI", message);
                Ok(())
            })
            .await?;
            if options.resource_version.is_some() {
                options.resource_version = Some(meta::resource_version(&stored).to_owned());
            }
        }
        delete::by_name(cx.endpoint, cx.request, name, &options).await?;
        Ok(Answer::Success)
    }
}

const RECREATED: &str = "The object might have been deleted and then recreated";
const MODIFIED: &str = "The object might have been modified";

fn precondition(what: &str, wanted: Option<&str>, have: &str, pod: &Value, then: &str) -> StatusResult<()> {
    match wanted.filter(|wanted| !wanted.is_empty() && *wanted != have) {
        None => Ok(()),
        Some(wanted) => {
            let why = format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record ({have}). {then}"
            );
            Err(Status::conflict(&GroupResource::new("", "Pod"), meta::name(pod), why))
        }
    }
}

fn target<'a>(cx: &ActionContext<'a>) -> Target<'a> {
    Target {
        group: "policy",
        version: "v1",
        resource: "poddisruptionbudgets",
        namespace: &cx.request.info.namespace,
    }
}

/// The delete options of an eviction; a dry run of the request is one of the delete.
fn options(cx: &ActionContext<'_>, eviction: &Value) -> StatusResult<Delete> {
    const IGNORE: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
    let mut document = eviction.get("deleteOptions").cloned().unwrap_or_else(Value::object);
    if document.get(IGNORE).and_then(Value::as_bool) == Some(true) {
        let detail = "can not be set for pod eviction, try after removing the option";
        let error = Error::invalid(format!("deleteOptions.{IGNORE}"), true, detail);
        let errors = std::iter::once(error).collect();
        let kind = GroupKind::new("policy", "Eviction");
        return Err(Status::invalid(&kind, &cx.request.info.name, &errors));
    }
    if cx.dry_run {
        document.set_at(&["dryRun"], vec!["All"].into());
    }
    Delete::from_document(document)
}

fn health(budget: &Value) -> (i64, i64) {
    (
        number(budget, &["status", "currentHealthy"]),
        number(budget, &["status", "desiredHealthy"]),
    )
}

/// Whether the budget allows one more disruption.
fn allows(budget: &Value) -> StatusResult<()> {
    const TOO_MANY: usize = 2000;
    let name = meta::name(budget);
    let status = |member| number(budget, &["status", member]);
    let resource = GroupResource::new("policy", "poddisruptionbudget");
    if status("observedGeneration") < meta::generation(budget) {
        return Err(still_processed(name));
    }
    if status("disruptionsAllowed") < 0 {
        return Err(Status::forbidden(
            &resource,
            name,
            "pdb disruptions allowed is negative",
        ));
    }
    let disrupted = budget.at(&["status", "disruptedPods"]).and_then(Value::as_object);
    if disrupted.is_some_and(|pods| pods.len() > TOO_MANY) {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(Status::forbidden(&resource, name, why));
    }
    if status("disruptionsAllowed") > 0 {
        return Ok(());
    }
    let mut conditions = budget.array_at(&["status", "conditions"]).iter();
    let condition = conditions.find(|c| c.str_at(&["type"]) == "DisruptionAllowed");
    let (reason, message) = condition
        .filter(|c| c.str_at(&["status"]) == "False")
        .map_or(("", ""), |c| (c.str_at(&["reason"]), c.str_at(&["message"])));
    let (healthy, wanted) = health(budget);
    let why = if !message.is_empty() && reason == "SyncFailed" {
        format!("The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}")
    } else if healthy <= wanted {
        format!("The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently")
    } else if !message.is_empty() {
        format!("The disruption budget {name} does not allow evicting pods currently ({reason}): {message}")
    } else {
        format!("The disruption budget {name} does not allow evicting pods currently")
    };
    Err(refused(why, 0))
}

/// Sets the condition that says that nothing is left.
fn exhausted(budget: &mut Value, now: &str) {
    let mut conditions = budget.array_at(&["status", "conditions"]).to_vec();
    let at = conditions
        .iter()
        .position(|c| c.str_at(&["type"]) == "DisruptionAllowed");
    let since = at
        .and_then(|at| conditions.get(at))
        .filter(|c| c.str_at(&["status"]) == "False");
    let since = since
        .and_then(|c| c.get("lastTransitionTime"))
        .cloned()
        .unwrap_or_else(|| now.into());
    let mut condition = Value::from([
        ("type", "DisruptionAllowed".into()),
        ("status", "False".into()),
        ("lastTransitionTime", since),
        ("reason", "InsufficientPods".into()),
        ("message", "".into()),
    ]);
    if let Some(generation) = budget.at(&["status", "observedGeneration"]) {
        condition.set_at(&["observedGeneration"], generation.clone());
    }
    match at {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
    budget.set_at(&["status", "conditions"], Value::Array(conditions));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_says_why_it_does_not_allow_it() {
        let parse = |text: &str| json::from_slice(text.as_bytes()).unwrap();
        let mut budget: Value = parse(
            r#"{"metadata":{"name":"b","generation":1},
                "status":{"observedGeneration":1,"currentHealthy":2,"desiredHealthy":2,"disruptionsAllowed":0}}"#,
        );
        let status = allows(&budget).unwrap_err();
        assert_eq!(status.code, 429);
        assert_eq!(
            status.details.as_ref().unwrap().causes[0].message,
            "The disruption budget b needs 2 healthy pods and has 2 currently"
        );
        exhausted(&mut budget, "2026-01-01T00:00:00Z");
        exhausted(&mut budget, "2026-01-02T00:00:00Z");
        let conditions = budget.array_at(&["status", "conditions"]);
        assert_eq!(conditions.len(), 1);
        assert_eq!(conditions[0].str_at(&["lastTransitionTime"]), "2026-01-01T00:00:00Z");
        budget.set_at(&["status", "disruptionsAllowed"], Value::Int(1));
        assert!(allows(&budget).is_ok());
        budget.set_at(&["metadata", "generation"], Value::Int(2));
        assert_eq!(
            allows(&budget)
                .unwrap_err()
                .details
                .as_ref()
                .unwrap()
                .retry_after_seconds,
            10
        );
    }
}
