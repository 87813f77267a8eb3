//! Requests of a tier's own to another tier's API, as itself (`system:tier:<name>`).
//!
//! Contract: documents are trees, answers that are no success are the `Status` the server sent; a server that cannot be
//! reached is 503, one that does not answer in time 504. Nothing is sent again here beyond what the pool does.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use triptych_object::status::{Cause, Details};
use triptych_object::{Status, StatusResult, Value, json};

use crate::body::{Incoming, Outgoing};
use crate::pool::{Class, Error, Head, Pool};

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// An answer may have so many bytes.
const MAX_ANSWER: usize = 512 * 1024 * 1024;
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What a patch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patch {
    /// RFC 7386.
    Merge,
    /// Kubernetes' own, for built-in kinds.
    StrategicMerge,
    /// RFC 6902.
    Json,
    /// Server-side apply.
    Apply,
}

impl Patch {
    fn content_type(self) -> &'static str {
        match self {
            Patch::Merge => "application/merge-patch+json",
            Patch::StrategicMerge => "application/strategic-merge-patch+json",
            Patch::Json => "application/json-patch+json",
            Patch::Apply => "application/apply-patch+yaml",
        }
    }
}

/// Another tier's API. Cheap to clone.
#[derive(Clone)]
pub struct Api {
    pool: Arc<Pool>,
    agent: HeaderValue,
}

impl Api {
    /// The API behind `pool`, for the user agent `agent`.
    pub fn new(pool: Arc<Pool>, agent: &str) -> Api {
        let agent = HeaderValue::from_str(agent).unwrap_or(HeaderValue::from_static("triptych"));
        Api { pool, agent }
    }

    /// GET of an object, a list or any other document.
    pub async fn get(&self, path: &str) -> StatusResult<Value> {
        self.document(Method::GET, path, None).await
    }

    /// The same; `None` where there is no such object.
    pub async fn find(&self, path: &str) -> StatusResult<Option<Value>> {
        match self.get(path).await {
            Ok(value) => Ok(Some(value)),
            Err(status) if status.code == 404 => Ok(None),
            Err(status) => Err(status),
        }
    }

    /// POST to a collection or subresource.
    pub async fn create(&self, path: &str, object: &Value) -> StatusResult<Value> {
        self.document(Method::POST, path, Some((JSON, json::to_vec(object))))
            .await
    }

    /// PUT of an object or subresource.
    pub async fn update(&self, path: &str, object: &Value) -> StatusResult<Value> {
        self.document(Method::PUT, path, Some((JSON, json::to_vec(object))))
            .await
    }

    /// PATCH; `path` carries `fieldManager` and `force` for an apply.
    pub async fn patch(&self, path: &str, kind: Patch, patch: &Value) -> StatusResult<Value> {
        let content_type = HeaderValue::from_static(kind.content_type());
        self.document(Method::PATCH, path, Some((content_type, json::to_vec(patch))))
            .await
    }

    /// DELETE.
    pub async fn delete(&self, path: &str) -> StatusResult<Value> {
        self.document(Method::DELETE, path, None).await
    }

    /// GET of a text whatever its code says: a health report comes with 500 too.
    pub async fn text(&self, path: &str) -> StatusResult<String> {
        let exchange = async {
            let response = self.open(Class::Request, Method::GET, path, None).await?;
            let bytes = response.into_body().collect(1024 * 1024).await;
            bytes.map_err(|e| Status::service_unavailable(e.to_string(), 1))
        };
        let bytes = tokio::time::timeout(TIMEOUT, exchange).await;
        let bytes =
            bytes.unwrap_or_else(|_| Err(Status::timeout(format!("{} did not answer", self.pool.name()), 0)))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    async fn document(&self, method: Method, path: &str, body: Option<(HeaderValue, Vec<u8>)>) -> StatusResult<Value> {
        let bytes = self.bytes(Class::Request, method, path, body).await?;
        json::from_slice(&bytes).map_err(|e| Status::internal(format!("{} sent no JSON: {e}", self.pool.name())))
    }

    pub(crate) async fn bytes(
        &self,
        class: Class,
        method: Method,
        path: &str,
        body: Option<(HeaderValue, Vec<u8>)>,
    ) -> StatusResult<Bytes> {
        let exchange = async {
            let response = self.open(class, method, path, body).await?;
            let (head, body) = response.into_parts();
            let bytes = body
                .collect(MAX_ANSWER)
                .await
                .map_err(|e| Status::service_unavailable(e.to_string(), 1))?;
            if head.status.is_success() {
                Ok(bytes)
            } else {
                Err(failure(head.status, &bytes))
            }
        };
        tokio::time::timeout(TIMEOUT, exchange)
            .await
            .unwrap_or_else(|_| Err(Status::timeout(format!("{} did not answer", self.pool.name()), 0)))
    }

    /// Begins a watch; its lines follow in the answer's body.
    pub(crate) async fn watch(&self, path: &str) -> StatusResult<Incoming> {
        let response = self.open(Class::Watch, Method::GET, path, None).await?;
        let (head, body) = response.into_parts();
        if head.status.is_success() {
            return Ok(body);
        }
        let bytes = body.collect(1024 * 1024).await.unwrap_or_default();
        Err(failure(head.status, &bytes))
    }

    async fn open(
        &self,
        class: Class,
        method: Method,
        path: &str,
        body: Option<(HeaderValue, Vec<u8>)>,
    ) -> StatusResult<Response<Incoming>> {
        let target: PathAndQuery = path
            .parse()
            .map_err(|e| Status::internal(format!("bad path {path:?}: {e}")))?;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, JSON);
        headers.insert(USER_AGENT, self.agent.clone());
        let body = match body {
            Some((content_type, bytes)) => {
                headers.insert(CONTENT_TYPE, content_type);
                Outgoing::Full(bytes.into())
            }
            None => Outgoing::Empty,
        };
        let head = Head {
            method,
            target,
            headers,
        };
        self.pool.send(class, head, body).await.map_err(|e| unreachable(&e))
    }
}

fn unreachable(error: &Error) -> Box<Status> {
    Status::service_unavailable(error.to_string(), u32::from(error.nothing_sent()))
}

/// The `Status` of an answer that is no success; one made up where the server sent none.
pub fn failure(code: StatusCode, body: &[u8]) -> Box<Status> {
    if let Ok(value) = json::from_slice(body)
        && value.get("kind").and_then(Value::as_str) == Some("Status")
    {
        return Box::new(read_status(code.as_u16(), &value));
    }
    let text = String::from_utf8_lossy(body)
        .trim()
        .chars()
        .take(200)
        .collect::<String>();
    let mut status = *Status::unknown(if text.is_empty() { code.to_string() } else { text });
    status.code = code.as_u16();
    Box::new(status)
}

/// Reads a `Status` document.
pub fn read_status(code: u16, value: &Value) -> Status {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
    let details = value.get("details").map(|d| {
        let causes = d.get("causes").and_then(Value::as_array).unwrap_or_default().iter();
        Details {
            name: text(d, "name"),
            group: text(d, "group"),
            kind: text(d, "kind"),
            uid: text(d, "uid"),
            causes: causes
                .map(|c| Cause {
                    reason: text(c, "reason"),
                    message: text(c, "message"),
                    field: text(c, "field"),
                })
                .collect(),
            retry_after_seconds: d.get("retryAfterSeconds").and_then(Value::as_i64).unwrap_or(0) as u32,
        }
    });
    let reason = text(value, "reason");
    Status {
        code,
        reason: reason.into(),
        message: text(value, "message"),
        details,
        continue_token: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_back_as_it_was_sent() {
        let sent = Status::not_found(&triptych_object::GroupResource::new("apps", "deployments"), "a");
        assert_eq!(failure(StatusCode::NOT_FOUND, &sent.to_json()), sent);
        let told = failure(StatusCode::BAD_GATEWAY, b"no <html>");
        assert_eq!((told.code, told.message.as_str()), (502, "no <html>"));
    }
}
