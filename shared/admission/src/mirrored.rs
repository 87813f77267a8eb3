//! Facts of objects that another tier holds.
//!
//! Contract: what the mirror has counts; that it lacks something is confirmed by asking the other tier.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use triptych_client::Mirror;
use triptych_object::{Status, StatusResult, json};
use triptych_storage::View;

use crate::lookup::{Facts, Find, Lookup};

/// Facts of all objects of a mirror.
pub struct Mirrored<T> {
    mirror: Arc<Mirror>,
    view: View<T>,
}

impl<T: Facts> Mirrored<T> {
    /// Of this mirror.
    pub fn new(mirror: Arc<Mirror>) -> Arc<Mirrored<T>> {
        let view = View::new(mirror.clone(), |object| {
            Some(T::of(&json::from_slice(object.bytes()).ok()?))
        });
        Arc::new(Mirrored { mirror, view })
    }
}

impl<T: Facts> Find<T> for Mirrored<T> {
    fn get<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, StatusResult<Option<Arc<T>>>> {
        Box::pin(async move {
            let key = self.mirror.config().key(namespace, name);
            if let Some(known) = self.view.load().and_then(|view| view.get(&key).cloned()) {
                return Ok(Some(known));
            }
            let found = self.mirror.get_live(namespace, name).await?;
            Ok(found.map(|object| Arc::new(T::of(&object))))
        })
    }
}

impl<T: Facts> Lookup<T> for Mirrored<T> {
    fn all(&self, namespace: &str) -> StatusResult<Vec<Arc<T>>> {
        let Some(view) = self.view.load() else {
            return Err(Status::service_unavailable(
                "the mirror of another tier is not filled yet",
                1,
            ));
        };
        let config = self.mirror.config();
        let scope = match (config.namespaced, namespace) {
            (true, namespace) if !namespace.is_empty() => config.key(namespace, ""),
            _ => format!("/{}/", config.resource),
        };
        Ok(view.range(&scope).cloned().collect())
    }
}
