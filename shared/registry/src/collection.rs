//! The stored objects of one resource, shared by all versions it is served in: the store, the watch cache over it, and
//! where its keys lie.
//!
//! Contract: keys are kube-apiserver's (`/pods/<namespace>/<name>`); reads come from the cache, writes go to the store
//! and are answered from the bytes just stored. This is the one place where a storage error becomes an API error.

use std::sync::Arc;
use std::time::Duration;

use triptych_object::{GroupResource, Status, StatusResult, names};
use triptych_storage::cache::{FRESH_WAIT, ReadError, Snapshot};
use triptych_storage::{Cache, Error, FieldPath, Object, Revision, Store};

/// The stored objects of one resource.
pub struct Collection {
    /// For error texts.
    pub group_resource: GroupResource,
    /// `/pods`, below the store's prefix.
    pub prefix: String,
    /// Objects live in namespaces.
    pub namespaced: bool,
    /// Selectable fields in the order in which cached objects carry them.
    pub fields: Vec<FieldPath>,
    /// What each of these counts as when an object has none (`false` of a boolean, `0` of a number).
    pub absent: Vec<&'static str>,
    /// Numbers of the fields that the cache indexes.
    pub indexes: Vec<usize>,
    /// Objects are removed when so much time has passed since their last write.
    pub ttl: Option<Duration>,
    /// Where writes go.
    pub store: Arc<dyn Store>,
    /// Where reads come from.
    pub cache: Arc<Cache>,
}

impl Collection {
    /// Key of an object, or 400 for a name that cannot be one.
    pub fn key(&self, namespace: &str, name: &str) -> StatusResult<String> {
        if self.namespaced && namespace.is_empty() {
            return Err(Status::bad_request("Namespace parameter required."));
        }
        if name.is_empty() {
            return Err(Status::bad_request("Name parameter required."));
        }
        for part in [namespace, name] {
            let problems = names::path_segment_name(part);
            if !problems.is_empty() {
                return Err(Status::bad_request(format!(
                    "Name parameter invalid: {}: {}",
                    triptych_object::field::quote(part),
                    problems.join(";")
                )));
            }
        }
        Ok(if self.namespaced {
            format!("{}/{namespace}/{name}", self.prefix)
        } else {
            format!("{}/{name}", self.prefix)
        })
    }

    /// What all keys of a namespace (or, if it is empty, of the collection) start with.
    pub fn scope(&self, namespace: &str) -> String {
        if namespace.is_empty() {
            format!("{}/", self.prefix)
        } else {
            format!("{}/{namespace}/", self.prefix)
        }
    }

    /// A snapshot that holds everything acknowledged before the call; `None` if only the store can tell.
    pub async fn consistent(&self) -> StatusResult<Option<Snapshot>> {
        match self.cache.consistent(FRESH_WAIT).await {
            Ok(snapshot) => Ok(Some(snapshot)),
            Err(ReadError::Unreliable | ReadError::Filling) => Ok(None),
            Err(e) => Err(self.read_error(e)),
        }
    }

    /// The object at a key as acknowledged before the call.
    pub async fn get_consistent(&self, key: &str) -> StatusResult<Option<Arc<Object>>> {
        match self.consistent().await? {
            Some(snapshot) => Ok(snapshot.get(key).cloned()),
            None => self.get_live(key).await.map(|(object, _)| object),
        }
    }

    /// The object at a key, read from the store, and the store's revision.
    pub async fn get_live(&self, key: &str) -> StatusResult<(Option<Arc<Object>>, Revision)> {
        self.cache.read(key).await.map_err(|e| storage_status(&e))
    }

    /// The API error of a read that the cache could not serve.
    pub fn read_error(&self, error: ReadError) -> Box<Status> {
        match error {
            ReadError::Filling => Status::too_many_requests("storage is (re)initializing", 1),
            ReadError::TooNew { wanted, current } => too_large(wanted, current),
            ReadError::Unreliable => Status::internal("the watch cache cannot tell how current it is"),
            ReadError::Store(e) => storage_status(&e),
        }
    }
}

/// 504 of a revision that has not happened yet, with the cause by which clients know it.
pub fn too_large(wanted: Revision, current: Revision) -> Box<Status> {
    let message = format!("Too large resource version: {wanted}, current: {current}");
    let status = Status::timeout(&message, 1);
    let cause = triptych_object::Cause {
        reason: "ResourceVersionTooLarge".into(),
        message: "Too large resource version".into(),
        field: String::new(),
    };
    let details = status.details.clone().map(|d| triptych_object::status::Details {
        causes: vec![cause],
        ..d
    });
    status.with_details(details)
}

/// The API error of a store that failed.
pub fn storage_status(error: &Error) -> Box<Status> {
    match error {
        Error::Compacted { .. } => Status::expired("The resourceVersion for the provided list is too old."),
        // what the store or a conversion says in its own words is passed on as it is
        Error::TooLarge | Error::NoSpace | Error::Other(_) => Status::unknown(error.to_string()),
        Error::Timeout | Error::Unavailable(_) => Status::timeout(error, 1),
        Error::Closed => Status::service_unavailable("the server is shutting down", 1),
        other => Status::internal(other),
    }
}
