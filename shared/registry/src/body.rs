//! A response's body: whole, a list streamed from a snapshot, or a watch.
//!
//! Contract: chunks of a list are coalesced to at least 64 KiB; a watch gives one chunk for the events that are ready.
//! The producer behind a stream is polled only when the client can take more, so memory is bounded by one chunk.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream::BoxStream;
use http_body::{Frame, SizeHint};

/// A stream that broke off; the connection is ended so that the client sees it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Broken(pub String);

/// What a handler answers with.
pub enum Body {
    /// Everything at once; `None` once it was given.
    Full(Option<Bytes>),
    /// Chunk by chunk.
    Stream(BoxStream<'static, Result<Bytes, Broken>>),
}

impl Body {
    /// No bytes at all.
    pub fn empty() -> Body {
        Body::Full(None)
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Body {
        Body::Full((!bytes.is_empty()).then_some(bytes))
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Body {
        Bytes::from(bytes).into()
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match self.get_mut() {
            Body::Full(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            Body::Stream(stream) => {
                futures_util::Stream::poll_next(stream.as_mut(), cx).map(|c| c.map(|c| c.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            Body::Stream(_) => SizeHint::default(),
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Body::Full(b) => write!(f, "Full({} bytes)", b.as_ref().map_or(0, Bytes::len)),
            Body::Stream(_) => f.write_str("Stream"),
        }
    }
}
