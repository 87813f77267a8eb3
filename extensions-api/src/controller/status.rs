//! Writes the status of CRDs as kube-apiserver's controllers do: through the API, named `kube-apiserver`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::{HeaderMap, Method};
use triptych_object::{RequestInfo, UserInfo, Value, json, meta};
use triptych_registry::{Body, Handler, Request};
use triptych_storage::Revision;

use crate::definition::{GROUP, RESOURCE};

const TIMEOUT: Duration = Duration::from_secs(30);
/// The manager of fields is what stands before the slash.
const AGENT: HeaderValue = HeaderValue::from_static("kube-apiserver/v1.36");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A request of this tier to itself, as its loopback client makes it in kube-apiserver.
pub fn own_request(method: Method, path: &str, body: Option<&Value>) -> Result<Request, String> {
    let info = RequestInfo::parse(method.as_str(), path, "")?;
    let mut headers = HeaderMap::new();
    headers.insert(USER_AGENT, AGENT);
    headers.insert(ACCEPT, JSON);
    if body.is_some() {
        headers.insert(CONTENT_TYPE, JSON);
    }
    Ok(Request {
        info,
        method,
        query: String::new(),
        headers,
        body: body.map(json::to_vec).unwrap_or_default().into(),
        user: Arc::new(UserInfo::new(
            "system:apiserver",
            ["system:masters", "system:authenticated"],
        )),
        deadline: Instant::now() + TIMEOUT,
    })
}

/// Writes statuses of CRDs.
pub struct StatusWriter(pub Arc<dyn Handler>);

impl StatusWriter {
    /// Puts the status (and, with their last finalizer, takes deleted CRDs away). The revision written; `None` if the
    /// CRD was changed or deleted in the meantime, of which there will be news.
    pub async fn write(&self, crd: &Value) -> Result<Option<Revision>, String> {
        let path = format!("/apis/{GROUP}/v1/{RESOURCE}/{}/status", meta::name(crd));
        let response = self.0.handle(own_request(Method::PUT, &path, Some(crd))?).await;
        let status = response.status();
        if matches!(status.as_u16(), 404 | 409) {
            return Ok(None);
        }
        let Body::Full(Some(bytes)) = response.into_body() else {
            return Err("no answer".to_owned());
        };
        let answer = json::from_slice(&bytes).map_err(|e| e.message)?;
        if !status.is_success() {
            return Err(answer.str_at(&["message"]).to_owned());
        }
        Ok(meta::resource_version(&answer).parse().ok())
    }
}
