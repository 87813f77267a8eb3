//! Parameters of admission policies: this tier's own objects, else those of the next tier.

use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use triptych_admission::policy::definition::ParamKind;
use triptych_admission::policy::params::{Missing, Params, RemoteParams, Store, unknown};
use triptych_object::{Status, StatusResult, Value};
use triptych_registry::Endpoint;
use triptych_storage::Object;

use crate::loopback::Loopback;

/// Finds kinds here, else in the next tier, if there is one.
pub struct LocalParams {
    /// This tier's endpoints, once there are any.
    pub own: Arc<OnceLock<Loopback>>,
    /// The next tier.
    pub next: Option<RemoteParams>,
}

impl Params for LocalParams {
    fn store<'a>(&'a self, kind: &'a ParamKind) -> BoxFuture<'a, Result<Arc<dyn Store>, Missing>> {
        Box::pin(async move {
            let own = self.own.get().and_then(|own| own.of_kind(&kind.kind));
            match (own, &self.next) {
                (Some(endpoint), _) => Ok(Arc::new(Local(endpoint.clone())) as Arc<dyn Store>),
                (None, Some(next)) => next.store(kind).await,
                (None, None) => Err(unknown(&kind.kind)),
            }
        })
    }
}

struct Local(Arc<Endpoint>);

impl Local {
    fn document(&self, object: &Object) -> StatusResult<Value> {
        self.0.model.document(object).map_err(Status::internal)
    }
}

impl Store for Local {
    fn namespaced(&self) -> bool {
        self.0.resource.namespaced
    }

    fn get<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, StatusResult<Option<Value>>> {
        Box::pin(async move {
            let collection = self.0.collection()?;
            let key = collection.key(namespace, name)?;
            let known = collection.cache.get(&key).map_err(|e| collection.read_error(e))?;
            let readable = known.filter(|object| object.broken().is_none());
            readable.map(|object| self.document(&object)).transpose()
        })
    }

    fn list<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, StatusResult<Vec<Value>>> {
        Box::pin(async move {
            let collection = self.0.collection()?;
            let snapshot = collection.cache.snapshot().map_err(|e| collection.read_error(e))?;
            let scope = collection.scope(namespace);
            let objects = snapshot.range(&scope).filter(|object| object.broken().is_none());
            objects.map(|object| self.document(object)).collect()
        })
    }
}
