//! How documents are read from another server.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, IF_NONE_MATCH};
use http::{HeaderMap, Method, StatusCode};
use triptych_client::body::Outgoing;
use triptych_client::pool::{Class, Head, Pool};
use triptych_object::UserInfo;
use triptych_object::user::MASTERS;

use crate::headers::RemoteUser;

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    /// Path and query.
    pub target: String,
    /// `Accept`.
    pub accept: &'static str,
    /// `If-None-Match`, as it came.
    pub etag: Option<String>,
    /// How many seconds the other side may wait for a change.
    pub wait: Option<u32>,
}

/// What came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// 304.
    NotModified,
    /// 200.
    Document {
        /// `Content-Type`.
        kind: String,
        /// `ETag`, if there was one.
        etag: Option<String>,
        /// The body.
        body: Bytes,
    },
    /// Anything else.
    Refused(u16),
}

/// A server that documents are read from, under this tier's own identity.
pub trait Fetch: Send + Sync + 'static {
    /// Asks once; an error is a connection's or a timeout's, in words.
    fn fetch(&self, ask: Ask) -> BoxFuture<'_, Result<Fetched, String>>;
}

/// `Accept` of aggregated discovery.
pub const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// `Accept` of everything else.
pub const JSON: &str = "application/json";
/// The header that asks the next tier to answer only when the document changes.
pub const WAIT: &str = "x-triptych-wait";
/// Longest wait, in seconds; below every request timeout.
pub const LONGEST_WAIT: u32 = 25;

/// For an answer, beyond what it may wait for a change.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads over a pool whose connections carry this tier's own identity.
pub struct PoolFetch {
    /// Connections to the server.
    pub pool: Arc<Pool>,
    /// A larger document is refused rather than held.
    pub largest: usize,
    /// Whom the server shall take the asker for; none where the connection's certificate says it.
    user: Option<RemoteUser>,
}

impl PoolFetch {
    /// From another tier, whose OpenAPI v2 document grows with its CRDs.
    pub fn tier(pool: Arc<Pool>) -> Arc<PoolFetch> {
        let largest = 256 * 1024 * 1024;
        Arc::new(PoolFetch {
            pool,
            largest,
            user: None,
        })
    }

    /// From a server behind an APIService, which is anybody's, as the aggregator.
    pub fn backend(pool: Arc<Pool>) -> Arc<PoolFetch> {
        let largest = 8 * 1024 * 1024;
        let user = RemoteUser::new(&UserInfo::new("system:kube-aggregator", [MASTERS]));
        Arc::new(PoolFetch { pool, largest, user })
    }
}

impl Fetch for PoolFetch {
    fn fetch(&self, ask: Ask) -> BoxFuture<'_, Result<Fetched, String>> {
        let wait = Duration::from_secs(ask.wait.unwrap_or(0).into());
        Box::pin(async move {
            match tokio::time::timeout(wait + PATIENCE, self.once(ask)).await {
                Ok(answer) => answer,
                Err(_) => Err(format!("{} did not answer in time", self.pool.name())),
            }
        })
    }
}

impl PoolFetch {
    async fn once(&self, ask: Ask) -> Result<Fetched, String> {
        let mut headers = HeaderMap::with_capacity(3);
        headers.insert(ACCEPT, HeaderValue::from_static(ask.accept));
        if let Some(user) = &self.user {
            user.write(&mut headers);
        }
        if let Some(etag) = ask.etag.and_then(|e| HeaderValue::from_str(&e).ok()) {
            headers.insert(IF_NONE_MATCH, etag);
        }
        if let Some(wait) = ask.wait {
            headers.insert(HeaderName::from_static(WAIT), wait.into());
        }
        let head = Head {
            method: Method::GET,
            target: ask.target.parse().map_err(|_| format!("{} is no path", ask.target))?,
            headers,
        };
        // what waits for a change is open for as long as a watch is
        let class = if ask.wait.is_some() {
            Class::Watch
        } else {
            Class::Request
        };
        let answer = self
            .pool
            .send(class, head, Outgoing::Empty)
            .await
            .map_err(|e| e.to_string())?;
        let (head, body) = answer.into_parts();
        let header = |name: HeaderName| head.headers.get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
        match head.status {
            StatusCode::NOT_MODIFIED => Ok(Fetched::NotModified),
            StatusCode::OK => Ok(Fetched::Document {
                kind: header(CONTENT_TYPE).unwrap_or_default(),
                etag: header(ETAG),
                body: body.collect(self.largest).await.map_err(|e| e.to_string())?,
            }),
            other => Ok(Fetched::Refused(other.as_u16())),
        }
    }
}
