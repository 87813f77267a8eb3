//! Reading a request's body, bounded per request and in sum.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use triptych_object::Status;

/// A body may have so many bytes, as in kube-apiserver.
pub const MAX_BODY: usize = 3 * 1024 * 1024;
/// So many bytes of a body that is too large are still taken.
const DRAIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_DRAINED: usize = 16 * 1024 * 1024;
/// Bodies of at most this size are not counted against the budget.
const SMALL: usize = 64 * 1024;
/// All other bodies being read or worked on, in KiB.
const BUDGET: usize = 96 * 1024;

/// The budget of all bodies.
pub(crate) struct Bodies(Arc<Semaphore>);

/// A body, and its part of the budget.
pub(crate) struct Whole {
    pub(crate) bytes: Bytes,
    pub(crate) _budget: Option<OwnedSemaphorePermit>,
}

impl Default for Bodies {
    fn default() -> Self {
        Bodies(Arc::new(Semaphore::new(BUDGET)))
    }
}

fn too_large() -> Box<Status> {
    Status::too_large(format!("limit is {MAX_BODY}"))
}

/// Takes the rest of a body that is too large, within bounds, so that an HTTP/1.1 client comes to read the answer.
async fn drain(mut body: Incoming) {
    let mut taken = 0;
    // who sends nothing more for a while waits for the answer
    while let Ok(Some(Ok(frame))) = tokio::time::timeout(DRAIN_PAUSE, body.frame()).await {
        taken += frame.data_ref().map_or(0, Bytes::len);
        if taken > MAX_DRAINED {
            return;
        }
    }
}

impl Bodies {
    /// The whole body. Waits while others take the budget; the caller bounds the time.
    pub(crate) async fn read(&self, headers: &HeaderMap, mut body: Incoming) -> Result<Whole, Box<Status>> {
        let length = headers
            .get(CONTENT_LENGTH)
            .and_then(|v| v.to_str().ok()?.parse::<usize>().ok());
        if length.is_some_and(|l| l > MAX_BODY) {
            drain(body).await;
            return Err(too_large());
        }
        let mut budget = None;
        if length.is_some_and(|l| l > SMALL) {
            budget = Some(self.reserve(length.unwrap_or(MAX_BODY)).await?);
        }
        let mut first = Bytes::new();
        let mut more = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|e| Status::bad_request(format!("error reading the request body: {e}")))?;
            let Ok(data) = frame.into_data() else { continue };
            if first.is_empty() {
                first = data;
                continue;
            }
            let size = first.len().max(more.len()) + data.len();
            if size > MAX_BODY {
                drain(body).await;
                return Err(too_large());
            }
            if budget.is_none() && size > SMALL {
                budget = Some(self.reserve(MAX_BODY).await?);
            }
            if more.is_empty() {
                more.reserve(length.unwrap_or(2 * size).min(MAX_BODY));
                more.extend_from_slice(&first);
            }
            more.extend_from_slice(&data);
        }
        let bytes = if more.is_empty() { first } else { more.freeze() };
        if bytes.len() > MAX_BODY {
            return Err(too_large());
        }
        Ok(Whole { bytes, _budget: budget })
    }

    async fn reserve(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Box<Status>> {
        let kib = bytes.div_ceil(1024) as u32;
        let permit = Arc::clone(&self.0).acquire_many_owned(kib).await;
        permit.map_err(|_| Status::internal("the server no longer reads bodies"))
    }
}
