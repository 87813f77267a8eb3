//! The bodies of outbound requests and of the answers to them, streamed without copying.
//!
//! Contract: back-pressure passes through: an answer's window is given back only when a frame was taken, a request's
//! frame is taken only when the peer has window for it. Dropping an answer cancels the request at the peer.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

use crate::pool::InFlight;

/// What an outbound request carries.
pub enum Outgoing {
    /// Nothing.
    Empty,
    /// Bytes at hand.
    Full(Bytes),
    /// A client's body, passed on.
    Streamed(hyper::body::Incoming),
}

impl Outgoing {
    /// True if nothing would be sent.
    pub fn is_empty(&self) -> bool {
        match self {
            Outgoing::Empty => true,
            Outgoing::Full(bytes) => bytes.is_empty(),
            Outgoing::Streamed(body) => body.is_end_stream(),
        }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            Outgoing::Empty => Poll::Ready(None),
            Outgoing::Full(bytes) if bytes.is_empty() => Poll::Ready(None),
            Outgoing::Full(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Outgoing::Streamed(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Outgoing::Empty => SizeHint::with_exact(0),
            Outgoing::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Outgoing::Streamed(body) => body.size_hint(),
        }
    }
}

/// Why an answer's body broke off.
#[derive(Debug, thiserror::Error)]
#[error("the other server's answer broke off")]
pub struct Broken(#[source] Box<dyn std::error::Error + Send + Sync>);

/// The body of an answer.
pub struct Incoming(Kind);

enum Kind {
    Http2 {
        stream: RecvStream,
        data_done: bool,
        // ends the upload and the count of requests in flight together with the answer
        _upload: Option<Upload>,
        _in_flight: InFlight,
    },
    Http1(hyper::body::Incoming),
}

impl Incoming {
    pub(crate) fn http2(stream: RecvStream, upload: Option<Upload>, in_flight: InFlight) -> Incoming {
        Incoming(Kind::Http2 {
            stream,
            data_done: false,
            _upload: upload,
            _in_flight: in_flight,
        })
    }

    /// The body of an answer on a connection of its own.
    pub fn http1(body: hyper::body::Incoming) -> Incoming {
        Incoming(Kind::Http1(body))
    }

    /// The whole body, at most `limit` bytes; more is an error.
    pub async fn collect(mut self, limit: usize) -> Result<Bytes, Broken> {
        let mut whole: Vec<u8> = Vec::new();
        let mut first: Option<Bytes> = None;
        while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut self).poll_frame(cx)).await {
            let Ok(data) = frame?.into_data() else { continue };
            if whole.len() + first.as_ref().map_or(0, Bytes::len) + data.len() > limit {
                return Err(Broken(format!("more than {limit} bytes").into()));
            }
            match (&first, whole.is_empty()) {
                (None, true) => first = Some(data),
                _ => {
                    if let Some(first) = first.take() {
                        whole.extend_from_slice(&first);
                    }
                    whole.extend_from_slice(&data);
                }
            }
        }
        Ok(first.unwrap_or_else(|| whole.into()))
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match &mut self.get_mut().0 {
            Kind::Http1(body) => Pin::new(body)
                .poll_frame(cx)
                .map(|f| f.map(|f| f.map_err(|e| Broken(e.into())))),
            Kind::Http2 { stream, data_done, .. } => {
                if !*data_done {
                    match ready!(stream.poll_data(cx)) {
                        Some(Ok(data)) => {
                            // the frame is on its way to the client: let the peer send as much again
                            let _ = stream.flow_control().release_capacity(data.len());
                            return Poll::Ready(Some(Ok(Frame::data(data))));
                        }
                        // an answer given before all of the request was read
                        Some(Err(e)) if e.reason() == Some(Reason::NO_ERROR) => return Poll::Ready(None),
                        Some(Err(e)) => return Poll::Ready(Some(Err(Broken(e.into())))),
                        None => *data_done = true,
                    }
                }
                match ready!(stream.poll_trailers(cx)) {
                    Ok(trailers) => Poll::Ready(trailers.map(|t| Ok(Frame::trailers(t)))),
                    Err(e) => Poll::Ready(Some(Err(Broken(e.into())))),
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Http1(body) => body.is_end_stream(),
            Kind::Http2 { stream, .. } => stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Http1(body) => body.size_hint(),
            Kind::Http2 { .. } => SizeHint::default(),
        }
    }
}

/// An upload that goes on in a task of its own after the answer has begun; ended with the answer.
pub(crate) struct Upload(tokio::task::AbortHandle);

impl Drop for Upload {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Sends a body as the peer's window allows.
pub(crate) struct Pump {
    body: Outgoing,
    stream: SendStream<Bytes>,
    pending: Option<Bytes>,
    broken: Option<hyper::Error>,
}

impl Pump {
    pub(crate) fn new(body: Outgoing, stream: SendStream<Bytes>) -> Pump {
        Pump {
            body,
            stream,
            pending: None,
            broken: None,
        }
    }

    /// Why the body broke off, if that is what ended the request.
    pub(crate) fn broken(self) -> Option<hyper::Error> {
        self.broken
    }

    /// Goes on in a task.
    pub(crate) fn spawn(self) -> Upload {
        Upload(tokio::spawn(self).abort_handle())
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Reason>> {
        loop {
            if let Poll::Ready(reset) = self.stream.poll_reset(cx) {
                return Poll::Ready(Err(reset.unwrap_or(Reason::CANCEL)));
            }
            if let Some(mut chunk) = self.pending.take() {
                self.stream.reserve_capacity(chunk.len());
                let room = match self.stream.poll_capacity(cx) {
                    Poll::Pending => {
                        self.pending = Some(chunk);
                        return Poll::Pending;
                    }
                    Poll::Ready(Some(Ok(room))) => room,
                    Poll::Ready(_) => return Poll::Ready(Err(Reason::CANCEL)),
                };
                let part = chunk.split_to(room.min(chunk.len()));
                let last = chunk.is_empty() && self.body.is_end_stream();
                if !chunk.is_empty() {
                    self.pending = Some(chunk);
                }
                self.stream.send_data(part, last).map_err(|_| Reason::CANCEL)?;
                if last {
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if data.is_empty() => {}
                    Ok(data) => self.pending = Some(data),
                    Err(frame) => {
                        let trailers: HeaderMap = frame.into_trailers().unwrap_or_default();
                        self.stream.send_trailers(trailers).map_err(|_| Reason::CANCEL)?;
                        return Poll::Ready(Ok(()));
                    }
                },
                Some(Err(error)) => {
                    self.broken = Some(error);
                    self.stream.send_reset(Reason::CANCEL);
                    return Poll::Ready(Err(Reason::CANCEL));
                }
                None => {
                    self.stream.send_data(Bytes::new(), true).map_err(|_| Reason::CANCEL)?;
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl Future for Pump {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // why it ended is seen on the answer's side
        self.get_mut().poll_send(cx).map(|_| ())
    }
}
