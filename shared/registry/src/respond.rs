//! From documents and cached bytes to responses: formats, transformations, `Status`, warnings.
//!
//! Contract: JSON of an object at the stored version is the cached bytes and a line end, never parsed; everything else
//! parses on demand. A failure whose `Accept` cannot be met is JSON.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use triptych_object::{Status, StatusResult, Value, json, yaml};
use triptych_storage::Object;

use crate::admission::Warnings;
use crate::body::Body;
use crate::endpoint::Endpoint;
use crate::model::{Model, Stored};
use crate::negotiate::{self, Format, Output, Transform};
use crate::request::{Request, Response};
use crate::{status_message, table};

const WARNING: HeaderName = http::header::WARNING;
/// kube-apiserver stops adding warnings when their texts exceed this many bytes, and shortens them to it.
const MAX_WARNING_BYTES: usize = 4 * 1024;

/// A response of one document.
pub fn document(code: StatusCode, format: Format, body: Vec<u8>) -> Response {
    whole(code, format, Bytes::from(body))
}

/// A response of bytes that are ready.
pub fn whole(code: StatusCode, format: Format, body: Bytes) -> Response {
    let mut response = http::Response::new(Body::from(body));
    *response.status_mut() = code;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(format.media_type()));
    response
}

/// A tree in a format; protobuf through `encode`, which gives `None` if the format cannot carry it.
fn render(value: &Value, output: &Output, encode: impl FnOnce(&Value) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    Some(match output.format {
        Format::Json => {
            let mut body = if output.pretty {
                pretty(&json::to_vec(value))
            } else {
                json::to_vec(value)
            };
            body.push(b'\n');
            body
        }
        Format::Yaml => yaml::to_string(value).into_bytes(),
        Format::Protobuf => encode(value)?,
    })
}

/// The answer of a failure, in the form the client asked for.
pub fn failure(status: &Status, headers: &HeaderMap, query: &str) -> Response {
    let output = negotiate::output(headers, query, negotiate::STATUS).unwrap_or(Output {
        format: Format::Json,
        transform: Transform::None,
        pretty: false,
        stream: false,
    });
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = plain_status(status, &output, code);
    let seconds = status.retry_after_seconds();
    if seconds > 0 {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response.headers_mut().insert(
        http::header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}

fn plain_status(status: &Status, output: &Output, code: StatusCode) -> Response {
    let body = match output.format {
        Format::Protobuf => status_message::enveloped(status),
        _ => render(&status.to_value(), output, |_| None).unwrap_or_default(),
    };
    document(code, output.format, body)
}

/// A success that is no object: what DELETE answers.
pub fn success(status: &Status, output: &Output) -> Response {
    plain_status(
        status,
        output,
        StatusCode::from_u16(status.code).unwrap_or(StatusCode::OK),
    )
}

/// An object of the cache (or just stored), in the negotiated form.
pub fn object(
    endpoint: &Endpoint,
    request: &Request,
    output: &Output,
    code: StatusCode,
    object: &Arc<Object>,
) -> StatusResult<Response> {
    if let Some(problem) = object.broken() {
        return Err(Status::internal(problem));
    }
    let plain = output.transform == Transform::None && output.format == Format::Json;
    if plain && endpoint.model.stored() != Stored::Converted && !output.pretty {
        return Ok(whole(code, Format::Json, json_bytes(endpoint, object)));
    }
    let value = endpoint.model.document(object).map_err(Status::internal)?;
    tree(endpoint, request, output, code, &value)
}

/// The JSON of an object with a line end, in this endpoint's version.
fn json_bytes(endpoint: &Endpoint, object: &Object) -> Bytes {
    let rest = object.after_kind();
    let mut body = Vec::with_capacity(object.bytes().len() + 64);
    match endpoint.model.stored() {
        Stored::OtherApiVersion => {
            body.extend_from_slice(b"{");
            write_kind(&mut body, endpoint);
            body.extend_from_slice(&rest);
        }
        _ => body.extend_from_slice(object.bytes()),
    }
    body.push(b'\n');
    body.into()
}

/// `"kind":"Pod","apiVersion":"v1",` of this endpoint.
pub fn write_kind(out: &mut Vec<u8>, endpoint: &Endpoint) {
    let gvk = endpoint.model.gvk();
    out.extend_from_slice(b"\"kind\":");
    json::write_string(out, &gvk.kind);
    out.extend_from_slice(b",\"apiVersion\":");
    json::write_string(out, &gvk.group_version().to_string());
    out.push(b',');
}

/// A document of this endpoint's version (or of an action), in the negotiated form.
pub fn tree(
    endpoint: &Endpoint,
    request: &Request,
    output: &Output,
    code: StatusCode,
    value: &Value,
) -> StatusResult<Response> {
    let transformed: Cow<'_, Value> = match output.transform {
        Transform::None => Cow::Borrowed(value),
        Transform::Table(version) => {
            let options = table::Options::parse(&request.query)?;
            Cow::Owned(table::of_object(endpoint, value, version, &options))
        }
        Transform::Partial(version) => Cow::Owned(table::partial(value, version, &*endpoint.model)),
        Transform::PartialList(_) => {
            let kind = endpoint.model.gvk();
            return Err(Status::not_acceptable(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list (*{}.{})",
                crate::builtin::internal_package(&kind.group),
                kind.kind
            )));
        }
    };
    let body = render(&transformed, output, |v| match output.transform {
        Transform::None => endpoint.model.encode(v, Format::Protobuf),
        _ => endpoint.services.meta.encode_partial(v),
    });
    match body {
        Some(body) => Ok(document(code, output.format, body)),
        None => Err(negotiate::not_acceptable(endpoint.model.offer().formats)),
    }
}

/// What an action answers: a document of its own model.
pub fn action_tree(model: &dyn Model, output: &Output, code: StatusCode, value: &Value) -> StatusResult<Response> {
    match render(value, output, |v| model.encode(v, Format::Protobuf)) {
        Some(body) => Ok(document(code, output.format, body)),
        None => Err(negotiate::not_acceptable(model.offer().formats)),
    }
}

/// A list document, in the negotiated form.
pub fn list_tree(endpoint: &Endpoint, output: &Output, value: &Value, transformed: bool) -> StatusResult<Response> {
    let body = render(value, output, |v| {
        if transformed {
            endpoint.services.meta.encode_partial(v)
        } else {
            endpoint.model.encode(v, Format::Protobuf)
        }
    });
    match body {
        Some(body) => Ok(document(StatusCode::OK, output.format, body)),
        None => Err(negotiate::not_acceptable(endpoint.model.offer().formats)),
    }
}

/// Adds `Warning: 299 - "…"` headers, each once, within kube-apiserver's bound.
pub fn add_warnings(response: &mut Response, warnings: &Warnings) {
    let total: usize = warnings.iter().map(String::len).sum();
    let mut seen = std::collections::HashSet::new();
    let mut written = 0;
    for text in warnings {
        if !seen.insert(text) {
            continue;
        }
        let text = if total > MAX_WARNING_BYTES {
            shorten(text, 256)
        } else {
            text.as_str()
        };
        if written + text.len() > MAX_WARNING_BYTES {
            break;
        }
        if let Ok(value) = HeaderValue::from_bytes(warning_header(text).as_bytes()) {
            written += text.len();
            response.headers_mut().append(WARNING, value);
        }
    }
}

fn shorten(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// `299 - "text"` with quotes and backslashes escaped and controls dropped (RFC 7234 §5.5).
fn warning_header(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 10);
    out.push_str("299 - \"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            '\n' | '\r' | '\t' => out.push(' '),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// JSON indented as Go's `MarshalIndent(…, "", "  ")` does, from compact JSON.
pub fn pretty(compact: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(compact.len() * 2);
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    let line = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.resize(out.len() + 2 * depth, b' ');
    };
    for (i, &b) in compact.iter().enumerate() {
        if in_string {
            out.push(b);
            in_string = escaped || b != b'"';
            escaped = !escaped && b == b'\\';
            continue;
        }
        match b {
            b'"' => {
                in_string = true;
                out.push(b);
            }
            b'{' | b'[' => {
                out.push(b);
                depth += 1;
                if !matches!(compact.get(i + 1), Some(b'}' | b']')) {
                    line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if !matches!(out.last(), Some(b'{' | b'[')) {
                    line(&mut out, depth);
                }
                out.push(b);
            }
            b',' => {
                out.push(b);
                line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            b => out.push(b),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pretty_json_is_indented_as_in_go() {
        let text = pretty(br#"{"a":[1,{"b":"x,:{"}],"c":{},"d":[]}"#);
        let want = "{\n  \"a\": [\n    1,\n    {\n      \"b\": \"x,:{\"\n    }\n  ],\n  \"c\": {},\n  \"d\": []\n}";
        assert_eq!(String::from_utf8_lossy(&text), want);
    }

    #[test]
    fn a_warning_is_one_quoted_text() {
        assert_eq!(warning_header("a \"b\"\n"), "299 - \"a \\\"b\\\" \"");
    }
}
