//! Changes of pods that are no updates: binding and eviction write the stored pod without strategy or managedFields.

use std::sync::Arc;
use std::time::Instant;

use triptych_object::{GroupResource, Status, StatusResult, Value};
use triptych_registry::ActionContext;
use triptych_registry::write::save::{self, SwapError};
use triptych_storage::{Expect, Object};

/// Reads the pod from the store and writes what `change` makes of it, again if somebody else writes in between; the pod
/// as stored. In a dry run nothing is written.
pub async fn change(
    cx: &ActionContext<'_>,
    name: &str,
    dry_run: bool,
    mut change: impl FnMut(&mut Value) -> StatusResult<()>,
) -> StatusResult<Value> {
    let collection = cx.endpoint.collection()?;
    let key = collection.key(&cx.request.info.namespace, name)?;
    let mut current = collection.get_live(&key).await?.0;
    loop {
        let object = current.ok_or_else(|| Status::not_found(&pods(), name))?;
        let mut pod = document(cx, &object)?;
        change(&mut pod)?;
        if dry_run {
            return Ok(pod);
        }
        let bytes = save::encode(cx.endpoint, pod);
        match save::swap(collection, &key, Expect::Revision(object.revision()), bytes).await {
            Ok(stored) => return document(cx, &stored),
            Err(SwapError::Lost(fresh)) => current = fresh,
            Err(SwapError::Failed(status)) => return Err(status),
        }
        if Instant::now() >= cx.request.deadline {
            return Err(Status::timeout("request did not complete within requested timeout", 0));
        }
    }
}

/// The pod in an object of the store.
pub fn document(cx: &ActionContext<'_>, object: &Arc<Object>) -> StatusResult<Value> {
    if let Some(problem) = object.broken() {
        return Err(Status::internal(problem));
    }
    cx.endpoint.model.document(object).map_err(Status::internal)
}

/// `pods`, for texts.
pub fn pods() -> GroupResource {
    GroupResource::new("", "pods")
}
