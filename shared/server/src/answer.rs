//! How the chain ends a request: refusals and the texts of Go's filters, what every answer carries, what is counted when
//! an answer is over.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, RETRY_AFTER, STRICT_TRANSPORT_SECURITY, USER_AGENT, VARY,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri};
use hyper::body::Body as _;
use rand::Rng;
use triptych_object::Status;
use triptych_object::field::quote;

use crate::body::{Body, Cutoff, Finish};
use crate::chain::{AUDIT_ID, Counted, Exchange};
use crate::connection::InUse;
use crate::inflight::Place;
use crate::lifecycle::{Lifecycle, Phase};
use crate::metrics::{Metrics, Observation};
use crate::respond;

/// Answers shorter than this are not compressed, as in kube-apiserver.
const GZIP_FROM: u64 = 128 * 1024;
/// Longer ids are a client's mistake and not repeated.
const MAX_AUDIT_ID: usize = 256;

/// Why a request is not answered by who it was meant for.
pub(crate) enum Refusal {
    /// With a `Status`.
    Status(Box<Status>),
    /// With something else.
    Answer(triptych_registry::Response),
}

impl From<Box<Status>> for Refusal {
    fn from(status: Box<Status>) -> Refusal {
        Refusal::Status(status)
    }
}

impl From<triptych_registry::Response> for Refusal {
    fn from(answer: triptych_registry::Response) -> Refusal {
        Refusal::Answer(answer)
    }
}

impl Refusal {
    /// The answer, in the form asked for.
    pub(crate) fn answer(self, asked: &Asked) -> Response<Body> {
        match self {
            Refusal::Status(status) => respond::failure(&status, &asked.headers(), asked.query()),
            Refusal::Answer(answer) => answer,
        }
        .map(Body::from)
    }
}

/// What of a request decides the form of its answer; kept because the request is given away.
pub(crate) struct Asked {
    method: Method,
    uri: Uri,
    accept: Option<HeaderValue>,
    agent: Option<HeaderValue>,
    gzip: bool,
}

impl Asked {
    pub(crate) fn of<B>(request: &http::Request<B>) -> Asked {
        let headers = request.headers();
        let encodings = headers.get(ACCEPT_ENCODING).and_then(|v| v.to_str().ok()).unwrap_or("");
        Asked {
            method: request.method().clone(),
            uri: request.uri().clone(),
            accept: headers.get(ACCEPT).cloned(),
            agent: headers.get(USER_AGENT).cloned(),
            gzip: encodings.split(',').any(|e| e.trim() == "gzip"),
        }
    }

    pub(crate) fn path(&self) -> &str {
        self.uri.path()
    }

    pub(crate) fn query(&self) -> &str {
        self.uri.query().unwrap_or("")
    }

    /// The headers that negotiation reads.
    pub(crate) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(accept) = &self.accept {
            headers.insert(ACCEPT, accept.clone());
        }
        if let Some(agent) = &self.agent {
            headers.insert(USER_AGENT, agent.clone());
        }
        headers
    }
}

/// The request's own id, or a new one.
pub(crate) fn audit_id(headers: &HeaderMap) -> HeaderValue {
    if let Some(given) = headers
        .get(AUDIT_ID)
        .filter(|id| !id.is_empty() && id.len() <= MAX_AUDIT_ID)
    {
        return given.clone();
    }
    let id = uuid::Builder::from_random_bytes(rand::rng().random()).into_uuid();
    let mut text = uuid::Uuid::encode_buffer();
    HeaderValue::from_str(id.hyphenated().encode_lower(&mut text)).unwrap_or(HeaderValue::from_static(""))
}

/// True with the given probability.
pub(crate) fn by_chance(chance: f64) -> bool {
    chance > 0.0 && rand::rng().random::<f64>() < chance
}

/// Adds what every answer carries, and takes off what this one must not.
pub(crate) fn finish(exchange: &Exchange, mut response: Response<Body>, hsts: Option<&HeaderValue>) -> Response<Body> {
    let own = response.body().is_own();
    let compress = own && !exchange.long_running && exchange.asked.gzip && response.body().at_least(GZIP_FROM);
    let headers = response.headers_mut();
    if !headers.contains_key(AUDIT_ID) {
        headers.insert(AUDIT_ID, exchange.audit_id.clone());
    }
    if own {
        respond::common_headers(headers);
        if let Some(directives) = hsts {
            headers.insert(STRICT_TRANSPORT_SECURITY, directives.clone());
        }
    }
    if exchange.asked.method == Method::HEAD {
        if let Some(length) = response.body().size_hint().exact()
            && !response.headers().contains_key(CONTENT_LENGTH)
        {
            response.headers_mut().insert(CONTENT_LENGTH, length.into());
        }
        return response.map(|_| Body::empty());
    }
    if compress && !response.headers().contains_key(CONTENT_ENCODING) {
        let headers = response.headers_mut();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
        headers.remove(CONTENT_LENGTH);
        response = response.map(Body::gzip);
    }
    response
}

/// Ends a watch while the tier drains, each at another moment so that clients do not all come back at once.
pub(crate) fn at_drain(lifecycle: Lifecycle, grace: Duration) -> Cutoff {
    Box::pin(async move {
        lifecycle.reached(Phase::Draining).await;
        let share: f64 = rand::rng().random();
        tokio::time::sleep(grace.mul_f64(share * 0.9)).await;
        ""
    })
}

/// What ends with an answer.
pub(crate) struct End {
    observation: Option<Observation>,
    _place: Option<Place>,
    _in_use: InUse,
}

impl End {
    pub(crate) fn new(exchange: Exchange, response: &Response<Body>, metrics: Arc<Metrics>, in_use: InUse) -> End {
        let route = match exchange.counted {
            Counted::Elsewhere => None,
            Counted::Unknown => Some(metrics.unknown(&exchange.asked.method)),
            Counted::Route(route) => Some(route),
        };
        let observation = route.map(|route| {
            if exchange.long_running {
                route.long_running().inc();
            }
            Observation {
                metrics,
                route,
                uri: exchange.asked.uri,
                code: response.status().as_u16(),
                started: exchange.started,
                long_running: exchange.long_running,
            }
        });
        End {
            observation,
            _place: exchange.place,
            _in_use: in_use,
        }
    }
}

impl Finish for End {
    fn finish(&mut self, sent: u64, whole: bool) {
        if let Some(observation) = &self.observation {
            observation.over(sent, whole);
        }
    }
}

/// What Go's HTTP server says to what is no request.
pub(crate) fn bad_request(why: &str) -> triptych_registry::Response {
    let mut response = respond::text(format!("400 Bad Request{why}"));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response
}

/// The refusal of new work while draining.
pub(crate) fn shutting_down() -> triptych_registry::Response {
    later("The apiserver is shutting down, please try again later.", "5")
}

/// The refusal of more work than there are places for.
pub(crate) fn too_many_requests() -> triptych_registry::Response {
    later("Too many requests, please try again later.", "1")
}

fn later(text: &str, seconds: &'static str) -> triptych_registry::Response {
    let mut response = respond::plain_error(StatusCode::TOO_MANY_REQUESTS, text);
    response
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from_static(seconds));
    response
}

/// The end of the chain does not know yet what custom resources there are.
pub(crate) fn not_yet_known() -> Box<Status> {
    Status::service_unavailable(
        "the server is currently unable to handle the request: custom resources are not yet known",
        1,
    )
}

/// `responsewriters.InternalError`.
pub(crate) fn internal_text(uri: &Uri, why: &str) -> Refusal {
    let target = uri.path_and_query().map_or("/", |t| t.as_str());
    let text = format!("Internal Server Error: {}: {why}", quote(target));
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    Refusal::Answer(respond::plain_error(StatusCode::INTERNAL_SERVER_ERROR, text))
}

/// The answer to a request that made its handler panic.
pub(crate) fn panicked() -> Response<Body> {
    let text = "This request caused apiserver to panic. Look in the logs for details.";
    respond::plain_error(StatusCode::INTERNAL_SERVER_ERROR, text).map(Body::from)
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("")
}
