//! WATCH: a stream of events from the watch cache, each encoded once for all who read it in the same form.
//!
//! Contract: an event is delivered exactly once and in order, or the stream ends with an ERROR event (410) that tells
//! the client to list again. A watcher too slow for its queue is ended by the cache. Bookmarks carry the revision up to
//! which everything was delivered: once a minute and shortly before the end, and at the end of initial events.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use tokio::time::{Instant, sleep_until};
use triptych_object::{Status, StatusResult, Value, json};
use triptych_schema::decode::Reader;
use triptych_storage::cache::{FRESH_WAIT, Interest, ReadError, Scope, Snapshot, Start, WatchEnd, WatchError, Watcher};
use triptych_storage::{Event, EventKind, Filter, Object, Revision};

use crate::body::{Body, Broken};
use crate::builtin::Scheme;
use crate::collection::Collection;
use crate::endpoint::Endpoint;
use crate::model::{Model, Stored};
use crate::negotiate::{self, Format, Output, Transform};
use crate::options::{List, Query};
use crate::read::parse_version;
use crate::request::{Request, Response};
use crate::selection::Selection;
use crate::{respond, status_message, table};

/// Bookmarks come about this often.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// The last bookmark comes this long before a watch's end.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// No more events than this are joined into one chunk.
const BATCH: usize = 256;

/// WATCH of a collection or, by name, of one object.
pub async fn watch(endpoint: &Endpoint, request: &Request) -> StatusResult<Response> {
    let output = endpoint.negotiate(request)?;
    let query = Query::parse(&request.query);
    let options = List::parse(&query, true)?;
    let selection = Selection::of(endpoint, &options, &request.info)?;
    if output.format == Format::Yaml {
        return Err(negotiate::stream_not_acceptable(endpoint.model.offer().formats));
    }
    let table = match output.transform {
        Transform::Table(_) => Some(table::Options::parse(&request.query)?),
        _ => None,
    };
    let collection = endpoint.collection()?;
    let encoder = Encoder::new(endpoint, output, table);

    let seconds = match options.timeout_seconds {
        Some(s) if s > 0 => s as f64,
        _ => endpoint.services.min_watch_seconds as f64 * (1.0 + rand::random::<f64>()),
    };
    let ends = Instant::now() + Duration::from_secs_f64(seconds.min(1e7));

    let namespace = if collection.namespaced {
        request.info.namespace.as_str()
    } else {
        ""
    };
    let (initial, watcher) = match open(collection, &options, selection, namespace).await {
        Ok(opened) => opened,
        Err(Refusal::Status(status)) => return Err(status),
        Err(Refusal::Event(status)) => return Ok(respond_stream(output, failed(encoder, &status))),
    };
    let now = Instant::now();
    let state = State {
        initial_end: initial
            .as_ref()
            .filter(|_| options.bookmarks && options.send_initial_events == Some(true))
            .map(Snapshot::revision),
        sent: initial.as_ref().map_or(0, Snapshot::revision),
        initial: initial.map(|s| Initial {
            snapshot: s,
            scope: collection.scope(namespace),
            after: None,
            filter: watcher.filter.clone(),
        }),
        watcher: watcher.watcher,
        encoder,
        bookmarks: options.bookmarks,
        next_bookmark: (now + BOOKMARK_EVERY).min(
            ends.checked_sub(BOOKMARK_BEFORE_END)
                .filter(|t| *t > now)
                .unwrap_or(ends),
        ),
        ends,
    };
    Ok(respond_stream(
        output,
        Body::Stream(Box::pin(stream::unfold(Some(state), State::step))),
    ))
}

enum Refusal {
    /// Answered instead of a stream.
    Status(Box<Status>),
    /// The only event of the stream.
    Event(Box<Status>),
}

struct Opened {
    watcher: Watcher,
    filter: Option<Filter>,
}

async fn open(
    collection: &Arc<Collection>,
    options: &List,
    selection: Selection,
    namespace: &str,
) -> Result<(Option<Snapshot>, Opened), Refusal> {
    let version = match options.resource_version.as_str() {
        "" => None,
        text => Some(
            parse_version(text)
                .map_err(|e| Refusal::Status(Status::bad_request(format!("invalid resource version: {e}"))))?,
        ),
    };
    let fresh = |e| Refusal::Event(collection.read_error(e));
    // whether the stream begins with what exists, and after which revision it goes on
    let (initial, start) = match (options.send_initial_events, version) {
        (Some(false), None | Some(0)) => (false, Start::Now),
        (Some(true), Some(v)) if v > 0 => {
            collection.cache.at_least(v, FRESH_WAIT).await.map_err(fresh)?;
            (true, Start::Now)
        }
        (Some(true), Some(_)) | (None, Some(0)) => (true, Start::Now),
        (_, None) => {
            // what exists now: everything acknowledged before the request
            match collection.cache.consistent(FRESH_WAIT).await {
                Ok(_) | Err(ReadError::Unreliable) => (true, Start::Now),
                Err(e @ ReadError::Filling) => return Err(Refusal::Status(collection.read_error(e))),
                Err(e) => return Err(fresh(e)),
            }
        }
        (_, Some(v)) => (false, Start::After(v)),
    };
    let namespace = match (namespace, selection.namespace()) {
        ("", Some(selected)) if collection.namespaced => selected.to_owned(),
        (namespace, _) => namespace.to_owned(),
    };
    let scope = match selection.name().and_then(|n| collection.key(&namespace, n).ok()) {
        Some(key) => Scope::Key(key.into()),
        None if namespace.is_empty() => Scope::All,
        None => Scope::Prefix(collection.scope(&namespace).into()),
    };
    let index = selection
        .indexed(collection)
        .map(|(field, value)| (field, value.into()));
    let filter: Option<Filter> =
        (!selection.is_everything()).then(|| Arc::new(move |o: &Object| selection.matches(o)) as Filter);
    let interest = Interest {
        scope,
        index,
        filter: filter.clone(),
    };
    let mut begun = collection.cache.watch(start, interest.clone());
    // A process that has just begun asks its store for what its predecessor knew.
    if let Err(WatchError::TooOld { wanted, .. }) = begun
        && collection.cache.recall(wanted).await
    {
        begun = collection.cache.watch(start, interest);
    }
    match begun {
        Ok((snapshot, watcher)) => Ok((initial.then_some(snapshot), Opened { watcher, filter })),
        Err(WatchError::Filling) => Err(Refusal::Status(Status::too_many_requests(
            "storage is (re)initializing",
            1,
        ))),
        Err(e @ WatchError::TooOld { .. }) => Err(Refusal::Event(Status::expired(e.to_string()))),
        Err(WatchError::Closed) => Err(Refusal::Status(Status::service_unavailable(
            "the server is shutting down",
            1,
        ))),
    }
}

fn respond_stream(output: Output, body: Body) -> Response {
    let kind = match (output.format, output.stream) {
        (Format::Protobuf, _) => "application/vnd.kubernetes.protobuf;stream=watch",
        (_, true) => "application/json;stream=watch",
        (_, false) => "application/json",
    };
    let mut response = http::Response::new(body);
    *response.status_mut() = StatusCode::OK;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// A stream of one ERROR event.
fn failed(encoder: Encoder, status: &Status) -> Body {
    let frame = encoder.error(status);
    Body::Stream(Box::pin(stream::once(async move { Ok(frame) })))
}

/// What exists, still to be sent.
struct Initial {
    snapshot: Snapshot,
    scope: String,
    after: Option<String>,
    filter: Option<Filter>,
}

impl Initial {
    /// The next objects; empty when that was all.
    fn next(&mut self) -> Vec<Arc<Object>> {
        let from = self.after.clone().unwrap_or_else(|| self.scope.clone());
        let wanted = |o: &&Arc<Object>| o.broken().is_none() && self.filter.as_ref().is_none_or(|f| f(o));
        let batch: Vec<_> = self
            .snapshot
            .range_from(&self.scope, &from)
            .filter(wanted)
            .take(BATCH)
            .cloned()
            .collect();
        self.after = batch.last().map(|o| format!("{}\0", o.key()));
        batch
    }
}

struct State {
    initial: Option<Initial>,
    /// Revision of the bookmark that ends the initial events, until it is sent.
    initial_end: Option<Revision>,
    watcher: Watcher,
    encoder: Encoder,
    bookmarks: bool,
    next_bookmark: Instant,
    ends: Instant,
    /// Highest revision the client knows of.
    sent: Revision,
}

type Step = Option<(Result<Bytes, Broken>, Option<State>)>;

impl State {
    async fn step(state: Option<State>) -> Step {
        let mut state = state?;
        loop {
            if let Some(chunk) = state.initial_chunk() {
                return Some((Ok(chunk), Some(state)));
            }
            let mut events = Vec::new();
            tokio::select! {
                biased;
                more = state.watcher.next_many(&mut events, BATCH) => {
                    if !more {
                        return state.ended();
                    }
                    let mut chunk = BytesMut::new();
                    for event in &events {
                        state.sent = state.sent.max(event.revision());
                        let frame = state.encoder.event(event);
                        if events.len() == 1 {
                            return Some((Ok(frame), Some(state)));
                        }
                        chunk.extend_from_slice(&frame);
                    }
                    return Some((Ok(chunk.freeze()), Some(state)));
                }
                () = sleep_until(state.next_bookmark.min(state.ends)) => {
                    if Instant::now() >= state.ends {
                        return None;
                    }
                    let chunk = state.bookmark();
                    let last = state.ends.checked_sub(BOOKMARK_BEFORE_END).filter(|t| *t > Instant::now());
                    state.next_bookmark = (Instant::now() + BOOKMARK_EVERY).min(last.unwrap_or(state.ends));
                    if let Some(chunk) = chunk {
                        return Some((Ok(chunk), Some(state)));
                    }
                }
            }
        }
    }

    fn initial_chunk(&mut self) -> Option<Bytes> {
        if let Some(initial) = &mut self.initial {
            let objects = initial.next();
            if !objects.is_empty() {
                let mut chunk = BytesMut::new();
                for object in &objects {
                    chunk.extend_from_slice(&self.encoder.frame(EventKind::Added.as_str(), object));
                }
                return Some(chunk.freeze());
            }
            self.initial = None;
        }
        let revision = self.initial_end.take()?;
        Some(self.encoder.bookmark(revision, true))
    }

    fn bookmark(&mut self) -> Option<Bytes> {
        if !self.bookmarks {
            return None;
        }
        let revision = self.watcher.progress()?;
        self.sent = self.sent.max(revision);
        Some(self.encoder.bookmark(self.sent, false))
    }

    /// The cache ended the watch: too slow, or history was lost.
    fn ended(self) -> Step {
        match self.watcher.end() {
            Some(WatchEnd::Restarted) => {
                let status = Status::expired(format!("too old resource version: {} ({})", self.sent, self.sent));
                Some((Ok(self.encoder.error(&status)), None))
            }
            _ => None,
        }
    }
}

/// How a watch writes its events.
struct Encoder {
    output: Output,
    model: Arc<dyn Model>,
    meta: Arc<Scheme>,
    version_index: u32,
    table: Option<table::Watch>,
    kind: Vec<u8>,
}

impl Encoder {
    fn new(endpoint: &Endpoint, output: Output, options: Option<table::Options>) -> Encoder {
        let mut kind = Vec::new();
        respond::write_kind(&mut kind, endpoint);
        let version = match output.transform {
            Transform::Table(version) => version,
            _ => "v1",
        };
        Encoder {
            output,
            model: endpoint.model.clone(),
            meta: endpoint.services.meta.clone(),
            version_index: endpoint.version_index,
            table: options.map(|o| table::Watch::new(endpoint, version, o)),
            kind,
        }
    }

    /// Frames of the same number are equal for all watchers of an event.
    fn shared_form(&self) -> Option<u32> {
        let transform = match self.output.transform {
            Transform::None => 0,
            Transform::Partial("v1") => 1,
            Transform::Partial(_) => 2,
            _ => return None,
        };
        let format = match self.output.format {
            Format::Json => 0,
            _ => 1,
        };
        Some(self.version_index << 3 | transform << 1 | format)
    }

    fn event(&self, event: &Event) -> Bytes {
        let make = || self.frame(event.kind().as_str(), event.object());
        match self.shared_form() {
            Some(form) => event.frame(form, make),
            None => make(),
        }
    }

    fn frame(&self, kind: &str, object: &Object) -> Bytes {
        let plain = self.output.format == Format::Json && self.output.transform == Transform::None;
        if plain && self.model.stored() != Stored::Converted {
            let mut out = Vec::with_capacity(object.bytes().len() + 48);
            out.extend_from_slice(b"{\"type\":\"");
            out.extend_from_slice(kind.as_bytes());
            out.extend_from_slice(b"\",\"object\":");
            if self.model.stored() == Stored::OtherApiVersion {
                out.push(b'{');
                out.extend_from_slice(&self.kind);
                out.extend_from_slice(&object.after_kind());
            } else {
                out.extend_from_slice(object.bytes());
            }
            out.extend_from_slice(b"}\n");
            return out.into();
        }
        match self.model.document(object) {
            Ok(document) => self.tree_frame(kind, &document, false),
            Err(problem) => self.error(&Status::internal(problem)),
        }
    }

    fn tree_frame(&self, kind: &str, document: &Value, initial_end: bool) -> Bytes {
        let value = match (self.output.transform, &self.table) {
            (Transform::Table(_), Some(table)) => table.event(document, initial_end),
            (Transform::Partial(version) | Transform::PartialList(version), _) => {
                table::partial(document, version, &*self.model)
            }
            _ => document.clone(),
        };
        if self.output.format == Format::Protobuf {
            let object = match self.output.transform {
                Transform::None => self.model.encode(&value, Format::Protobuf),
                _ => self.meta.encode_partial(&value),
            };
            return triptych_schema::protobuf::watch_frame(kind, &object.unwrap_or_default()).into();
        }
        json_frame(kind, &value)
    }

    fn bookmark(&self, revision: Revision, initial_end: bool) -> Bytes {
        let gvk = self.model.gvk();
        let mut document = Value::from([
            ("kind", gvk.kind.as_str().into()),
            ("apiVersion", gvk.group_version().to_string().into()),
            (
                "metadata",
                Value::from([("resourceVersion", revision.to_string().into())]),
            ),
        ]);
        if initial_end {
            document.set_at(&["metadata", "annotations", "k8s.io/initial-events-end"], "true".into());
        }
        if self.model.bare_items() && self.model.decode(&mut document, Reader::Json(&[])).is_err() {
            tracing::error!(kind = %gvk, "an empty object does not fit its own schema");
        }
        self.tree_frame("BOOKMARK", &document, initial_end)
    }

    fn error(&self, status: &Status) -> Bytes {
        if self.output.format == Format::Protobuf {
            return triptych_schema::protobuf::watch_frame("ERROR", &status_message::enveloped(status)).into();
        }
        json_frame("ERROR", &status.to_value())
    }
}

fn json_frame(kind: &str, value: &Value) -> Bytes {
    let mut out = Vec::with_capacity(256);
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    json::write(&mut out, value);
    out.extend_from_slice(b"}\n");
    out.into()
}
