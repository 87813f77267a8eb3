//! The answers that the chain itself gives besides `Status` documents: Go's plain texts, JSON that is no API object.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
pub use triptych_registry::respond::failure;
use triptych_registry::{Body, Response};

const NO_SNIFF: HeaderName = HeaderName::from_static("x-content-type-options");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
/// `Cache-Control` of every answer that sets none.
pub const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache, private");

/// Go's `http.Error`: a line of text.
pub fn plain_error(code: StatusCode, text: impl Into<String>) -> Response {
    let mut text = text.into();
    text.push('\n');
    let mut response = full(code, PLAIN, text.into_bytes().into());
    response
        .headers_mut()
        .insert(NO_SNIFF, HeaderValue::from_static("nosniff"));
    response
}

/// A path that nobody serves.
pub fn page_not_found() -> Response {
    plain_error(StatusCode::NOT_FOUND, "404 page not found")
}

/// Text that is not an error.
pub fn text(text: impl Into<Bytes>) -> Response {
    full(StatusCode::OK, PLAIN, text.into())
}

/// The same, and browsers are told not to guess at its type.
pub fn text_no_sniff(text: impl Into<Bytes>) -> Response {
    let mut response = self::text(text);
    response
        .headers_mut()
        .insert(NO_SNIFF, HeaderValue::from_static("nosniff"));
    response
}

/// JSON that is no API object.
pub fn json(code: StatusCode, bytes: impl Into<Bytes>) -> Response {
    full(code, JSON, bytes.into())
}

fn full(code: StatusCode, content_type: HeaderValue, body: Bytes) -> Response {
    let mut response = http::Response::new(Body::from(body));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// Adds what every answer of this server carries.
pub fn common_headers(headers: &mut HeaderMap) {
    headers.entry(CACHE_CONTROL).or_insert(NO_CACHE);
}
