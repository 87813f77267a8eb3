//! The body of an answer on its way to the client, with what ends when it has been sent.

use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body::{Body as _, Frame, SizeHint};

/// An answer that broke off: the client sees a connection or stream that ends early.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The registry's.
    #[error(transparent)]
    Own(#[from] triptych_registry::body::Broken),
    /// Another server's.
    #[error(transparent)]
    Other(#[from] triptych_client::body::Broken),
    /// The tier is shutting down, or the answer took too long.
    #[error("{0}")]
    Ended(&'static str),
}

enum Kind {
    Own(triptych_registry::Body),
    Proxied(triptych_client::body::Incoming),
    Gzip(Box<Gzip>),
}

/// Called once with the bytes sent when an answer is over, whether it was sent whole or not.
pub(crate) trait Finish: Send + 'static {
    fn finish(&mut self, sent: u64, whole: bool);
}

/// What ends an answer early.
pub(crate) type Cutoff = Pin<Box<dyn Future<Output = &'static str> + Send>>;

/// An answer's body.
pub struct Body {
    kind: Kind,
    sent: u64,
    done: bool,
    cutoff: Option<Cutoff>,
    finish: Option<Box<dyn Finish>>,
}

impl Body {
    /// No bytes.
    pub fn empty() -> Body {
        triptych_registry::Body::empty().into()
    }

    /// True if it was made in this process.
    pub(crate) fn is_own(&self) -> bool {
        !matches!(self.kind, Kind::Proxied(_))
    }

    /// True if it has that many bytes, or nobody knows how many.
    pub(crate) fn at_least(&self, bytes: u64) -> bool {
        http_body::Body::size_hint(self)
            .exact()
            .is_none_or(|exact| exact > bytes)
    }

    /// Compresses the answer as it is sent.
    pub(crate) fn gzip(mut self) -> Body {
        let kind = std::mem::replace(&mut self.kind, Kind::Own(triptych_registry::Body::empty()));
        self.kind = match kind {
            Kind::Own(body) => Kind::Gzip(Box::new(Gzip::new(body))),
            other => other,
        };
        self
    }

    /// Ends the answer when `cutoff` completes.
    pub(crate) fn until(mut self, cutoff: Cutoff) -> Body {
        self.cutoff = Some(cutoff);
        self
    }

    /// Has `finish` told when the answer is over.
    pub(crate) fn then(mut self, finish: Box<dyn Finish>) -> Body {
        self.finish = Some(finish);
        self
    }
}

impl From<triptych_registry::Body> for Body {
    fn from(body: triptych_registry::Body) -> Body {
        Body::of(Kind::Own(body))
    }
}

impl From<triptych_client::body::Incoming> for Body {
    fn from(body: triptych_client::body::Incoming) -> Body {
        Body::of(Kind::Proxied(body))
    }
}

impl Body {
    fn of(kind: Kind) -> Body {
        Body {
            kind,
            sent: 0,
            done: false,
            cutoff: None,
            finish: None,
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let this = self.get_mut();
        if let Some(cutoff) = &mut this.cutoff
            && let Poll::Ready(why) = cutoff.as_mut().poll(cx)
        {
            this.cutoff = None;
            // a watch ends as if its time were over; any other answer is visibly cut
            this.done = why.is_empty();
            return Poll::Ready(if why.is_empty() {
                None
            } else {
                Some(Err(Broken::Ended(why)))
            });
        }
        let frame = match &mut this.kind {
            Kind::Own(body) => ready!(Pin::new(body).poll_frame(cx)).map(|f| f.map_err(Broken::Own)),
            Kind::Proxied(body) => ready!(Pin::new(body).poll_frame(cx)).map(|f| f.map_err(Broken::Other)),
            Kind::Gzip(gzip) => ready!(gzip.poll_frame(cx)),
        };
        match &frame {
            Some(Ok(frame)) => this.sent += frame.data_ref().map_or(0, |d| d.len() as u64),
            Some(Err(_)) => {}
            None => this.done = true,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Own(body) => body.is_end_stream(),
            Kind::Proxied(body) => body.is_end_stream(),
            Kind::Gzip(gzip) => gzip.done,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Own(body) => body.size_hint(),
            Kind::Proxied(body) => body.size_hint(),
            Kind::Gzip(_) => SizeHint::default(),
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if let Some(mut finish) = self.finish.take() {
            let whole = self.done || http_body::Body::is_end_stream(self);
            finish.finish(self.sent, whole);
        }
    }
}

/// A body compressed chunk by chunk, flushed with each, at the level kube-apiserver uses.
struct Gzip {
    body: triptych_registry::Body,
    encoder: Option<GzEncoder<bytes::buf::Writer<BytesMut>>>,
    done: bool,
}

impl Gzip {
    fn new(body: triptych_registry::Body) -> Gzip {
        let encoder = GzEncoder::new(BytesMut::new().writer(), Compression::new(1));
        Gzip {
            body,
            encoder: Some(encoder),
            done: false,
        }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        loop {
            let Some(encoder) = &mut self.encoder else {
                return Poll::Ready(None);
            };
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    // writing to memory cannot fail
                    let _ = encoder.write_all(&data);
                    let ready = encoder.get_mut().get_mut().split();
                    if !ready.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(ready.freeze()))));
                    }
                }
                Some(Err(e)) => return Poll::Ready(Some(Err(Broken::Own(e)))),
                None => {
                    self.done = true;
                    let rest = self
                        .encoder
                        .take()
                        .and_then(|e| e.finish().ok())
                        .map(|w| w.into_inner());
                    return Poll::Ready(rest.map(|r| Ok(Frame::data(r.freeze()))));
                }
            }
        }
    }
}
