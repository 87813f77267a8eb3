//! Binding: a scheduler's word that a pod runs on a node. Posted to `pods/binding` or `bindings`.

use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use triptych_object::field::ErrorList;
use triptych_object::value::Object;
use triptych_object::{GroupResource, Status, StatusResult, Value, meta, time};
use triptych_registry::{Action, ActionContext, Answer};

use super::change::{change, pods};
use super::status::set_condition;
use crate::loopback::Loopback;
use crate::validation::check;

/// The action of `pods/binding`.
pub struct Bindings;

impl Action for Bindings {
    fn run<'a>(&'a self, cx: &'a ActionContext<'a>, document: Value) -> BoxFuture<'a, StatusResult<Answer>> {
        Box::pin(bind(cx, document))
    }

    fn keeps_system_fields(&self) -> bool {
        true
    }
}

/// The action of `bindings`, where only the document names the pod.
pub struct Unnamed {
    loopback: Arc<OnceLock<Loopback>>,
}

impl Unnamed {
    /// The pods' endpoint is in `loopback` once the tier serves.
    pub fn new(loopback: Arc<OnceLock<Loopback>>) -> Unnamed {
        Unnamed { loopback }
    }
}

impl Action for Unnamed {
    fn run<'a>(&'a self, cx: &'a ActionContext<'a>, document: Value) -> BoxFuture<'a, StatusResult<Answer>> {
        Box::pin(async move {
            let endpoint = self.loopback.get().and_then(|l| l.endpoint("", "v1", "pods"));
            let endpoint = endpoint.ok_or_else(|| Status::service_unavailable("the server is starting", 1))?;
            let of_pods = ActionContext { endpoint, ..*cx };
            bind(&of_pods, document).await
        })
    }

    fn keeps_system_fields(&self) -> bool {
        true
    }
}

async fn bind(cx: &ActionContext<'_>, binding: Value) -> StatusResult<Answer> {
    let name = meta::name(&binding);
    let in_url = &cx.request.info.name;
    if !in_url.is_empty() && in_url != name {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    let mut errors = ErrorList::new();
    check(&binding, &mut errors, |c| {
        let (kind, name) = (c.field("target").field("kind"), c.field("target").field("name"));
        if !matches!(kind.str(), "" | "Node") {
            kind.not_supported(&["Node", "<empty>"]);
        }
        if name.str().is_empty() {
            name.required("");
        }
    });
    if !errors.is_empty() {
        return Err(Status::unknown(errors.aggregate()));
    }
    let now = time::rfc3339(cx.now);
    change(cx, name, cx.dry_run, |pod| {
        let namespace = &cx.request.info.namespace;
        preconditions(&binding, pod, namespace)?;
        assignable(pod)?;
        assign(pod, &binding, &now);
        Ok(())
    })
    .await?;
    Ok(Answer::Success)
}

/// The uid and resource version that a binding names are those of its pod.
fn preconditions(binding: &Value, pod: &Value, namespace: &str) -> StatusResult<()> {
    let name = meta::name(pod);
    for (what, wanted, have) in [
        ("UID", meta::uid(binding), meta::uid(pod)),
        (
            "ResourceVersion",
            meta::resource_version(binding),
            meta::resource_version(pod),
        ),
    ] {
        if !wanted.is_empty() && wanted != have {
            let key = format!("/pods/{namespace}/{name}");
            let why = triptych_registry::write::update::precondition_failed(&key, what, wanted, have);
            return Err(Status::conflict(&pods(), name, why));
        }
    }
    Ok(())
}

fn assignable(pod: &Value) -> StatusResult<()> {
    let name = meta::name(pod);
    let node = pod.str_at(&["spec", "nodeName"]);
    let why = if meta::deletion_timestamp(pod).is_some() {
        format!("pod {name} is being deleted, cannot be assigned to a host")
    } else if !node.is_empty() {
        format!(
            "pod {name} is already assigned to node {}",
            triptych_object::field::quote(node)
        )
    } else if !pod.array_at(&["spec", "schedulingGates"]).is_empty() {
        format!("pod {name} has non-empty .spec.schedulingGates")
    } else {
        return Ok(());
    };
    Err(Status::conflict(&GroupResource::new("", "pods/binding"), name, why))
}

fn assign(pod: &mut Value, binding: &Value, now: &str) {
    pod.set_at(&["spec", "nodeName"], binding.str_at(&["target", "name"]).into());
    pod.remove_at(&["status", "nominatedNodeName"]);
    for map in ["annotations", "labels"] {
        let members = binding.at(&["metadata", map]).and_then(Value::as_object);
        for (key, value) in members.into_iter().flat_map(Object::iter) {
            pod.set_at(&["metadata", map, key], value.clone());
        }
        if let Some(all) = pod.at_mut(&["metadata", map]).and_then(Value::as_object_mut) {
            all.sort();
        }
    }
    set_condition(pod, now, "PodScheduled", "True", "", "");
}
