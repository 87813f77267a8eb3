//! The tier's own requests to its own registry: start hooks and controllers of the control plane itself.
//!
//! Contract: requests run through the same endpoints as everybody's (decoding, admission, validation, managedFields as
//! `kube-apiserver`), as `system:apiserver` of `system:masters`; no socket, no authentication.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method};
use triptych_client::api::failure;
use triptych_object::user::{AUTHENTICATED, MASTERS};
use triptych_object::{GroupVersion, Gvk, RequestInfo, Status, StatusResult, UserInfo, Value, json};

use crate::endpoint::Backing;
use crate::{Body, Endpoint, Handler, Request};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const APPLY: HeaderValue = HeaderValue::from_static("application/apply-patch+yaml");
/// A request of the tier's own may take this long.
const TIMEOUT: Duration = Duration::from_secs(10);

type Key = (String, String, String);

/// Asks this tier's endpoints. Cheap to clone.
#[derive(Clone)]
pub struct Loopback {
    endpoints: Arc<HashMap<Key, Arc<Endpoint>>>,
    user: Arc<UserInfo>,
    manager: &'static str,
}

/// A resource in one version.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Empty for core.
    pub group: &'a str,
    /// Version.
    pub version: &'a str,
    /// Plural name.
    pub resource: &'a str,
    /// Empty for cluster-scoped resources.
    pub namespace: &'a str,
}

impl Target<'_> {
    fn path(&self, name: &str) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let mut path = format!("{root}/{}", GroupVersion::new(self.group, self.version));
        if !self.namespace.is_empty() {
            path.push_str("/namespaces/");
            path.push_str(self.namespace);
        }
        path.push('/');
        path.push_str(self.resource);
        if !name.is_empty() {
            path.push('/');
            path.push_str(name);
        }
        path
    }
}

impl Loopback {
    /// Over these endpoints.
    pub fn new(endpoints: &[Arc<Endpoint>]) -> Loopback {
        let key = |e: &Endpoint| {
            let r = &e.resource;
            (r.group.to_string(), r.version.to_string(), r.resource.to_string())
        };
        let mut user = UserInfo::new("system:apiserver", [MASTERS, AUTHENTICATED]);
        user.uid = uuid::Uuid::new_v4().to_string();
        Loopback {
            endpoints: Arc::new(endpoints.iter().map(|e| (key(e), e.clone())).collect()),
            user: Arc::new(user),
            manager: "kube-apiserver",
        }
    }

    /// The same, whose writes are owned by another field manager.
    pub fn managed_by(&self, manager: &'static str) -> Loopback {
        Loopback {
            manager,
            ..self.clone()
        }
    }

    /// The endpoint of a resource, for code that works beneath requests.
    pub fn endpoint(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<Endpoint>> {
        self.endpoints
            .get(&(group.to_owned(), version.to_owned(), resource.to_owned()))
    }

    /// The endpoint whose stored objects are of a kind.
    pub fn of_kind(&self, kind: &Gvk) -> Option<&Arc<Endpoint>> {
        let stored = |endpoint: &&Arc<Endpoint>| matches!(endpoint.backing, Backing::Stored(_));
        let mut endpoints = self.endpoints.values().filter(stored);
        endpoints.find(|endpoint| endpoint.model.gvk() == kind)
    }

    /// The object, `None` if there is none.
    pub async fn get(&self, target: Target<'_>, name: &str) -> StatusResult<Option<Value>> {
        match self.ask(Method::GET, target, name, None).await {
            Err(status) if status.code == 404 => Ok(None),
            outcome => outcome.map(Some),
        }
    }

    /// Creates an object.
    pub async fn create(&self, target: Target<'_>, object: &Value) -> StatusResult<Value> {
        self.ask(Method::POST, target, "", Some(object)).await
    }

    /// Replaces an object.
    pub async fn update(&self, target: Target<'_>, name: &str, object: &Value) -> StatusResult<Value> {
        self.ask(Method::PUT, target, name, Some(object)).await
    }

    /// Replaces an object's status.
    pub async fn update_status(&self, target: Target<'_>, name: &str, object: &Value) -> StatusResult<Value> {
        self.ask(Method::PUT, target, &format!("{name}/status"), Some(object))
            .await
    }

    /// Applies an object's status (server-side apply through the subresource), taking its fields from others.
    pub async fn apply_status(&self, target: Target<'_>, name: &str, object: &Value) -> StatusResult<Value> {
        self.ask(Method::PATCH, target, &format!("{name}/status"), Some(object))
            .await
    }

    /// Deletes an object if it still has this uid.
    pub async fn delete(&self, target: Target<'_>, name: &str, uid: &str) -> StatusResult<Value> {
        let options = Value::from([
            ("kind", "DeleteOptions".into()),
            ("apiVersion", "v1".into()),
            ("preconditions", Value::from([("uid", uid.into())])),
        ]);
        self.ask(Method::DELETE, target, name, Some(&options)).await
    }

    async fn ask(&self, method: Method, target: Target<'_>, name: &str, body: Option<&Value>) -> StatusResult<Value> {
        let Target {
            group,
            version,
            resource,
            ..
        } = target;
        let key = (group.to_owned(), version.to_owned(), resource.to_owned());
        let endpoint = self.endpoints.get(&key).ok_or_else(Status::no_such_resource)?;
        let path = target.path(name);
        let apply = method == Method::PATCH;
        let query = if apply {
            format!("fieldManager={}&force=true", self.manager)
        } else {
            String::new()
        };
        let info = RequestInfo::parse(method.as_str(), &path, &query).map_err(Status::bad_request)?;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, JSON);
        headers.insert(CONTENT_TYPE, if apply { APPLY } else { JSON });
        headers.insert(USER_AGENT, HeaderValue::from_static(self.manager));
        let request = Request {
            info,
            method,
            query,
            headers,
            body: body.map(json::to_vec).unwrap_or_default().into(),
            user: self.user.clone(),
            deadline: Instant::now() + TIMEOUT,
        };
        let (head, body) = endpoint.handle(request).await.into_parts();
        let bytes = match body {
            Body::Full(bytes) => bytes.unwrap_or_default().to_vec(),
            Body::Stream(chunks) => chunks
                .try_fold(Vec::new(), |mut all, chunk| async move {
                    all.extend_from_slice(&chunk);
                    Ok(all)
                })
                .await
                .map_err(Status::internal)?,
        };
        if !head.status.is_success() {
            return Err(failure(head.status, &bytes));
        }
        json::from_slice(&bytes).map_err(Status::internal)
    }
}
