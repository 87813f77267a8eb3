//! Responses of ready documents: what Go's `http.ServeContent` and kube-apiserver's encoders put around them.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG, HeaderName, HeaderValue, IF_NONE_MATCH};
use http::{HeaderMap, Method, StatusCode};
use triptych_object::{Status, Value, json, yaml};
use triptych_registry::negotiate::{self, Format};
use triptych_registry::{Body, Request, Response};
use triptych_schema::protobuf;
use triptych_schema::types::Schema;

/// An empty answer.
pub fn bare(code: StatusCode) -> Response {
    let mut response = http::Response::new(Body::empty());
    *response.status_mut() = code;
    response
}

/// An answer with this content.
pub fn whole(code: StatusCode, kind: &str, body: Bytes) -> Response {
    let mut response = http::Response::new(Body::from(body));
    *response.status_mut() = code;
    set(&mut response, CONTENT_TYPE, kind);
    response
}

/// Sets a header; a value that cannot be one is left out.
pub fn set(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// The answer to a client that has the content of this ETag already (RFC 9110 §13.1.2); none to one that has not.
pub fn already_known(request: &Request, etag: &str) -> Option<Response> {
    if !known(&request.headers, etag) {
        return None;
    }
    let code = match request.method {
        Method::GET | Method::HEAD => StatusCode::NOT_MODIFIED,
        _ => StatusCode::PRECONDITION_FAILED,
    };
    let mut response = bare(code);
    set(&mut response, ETAG, etag);
    Some(response)
}

/// The content with its ETag.
pub fn tagged(kind: &str, etag: &str, body: Bytes) -> Response {
    let mut response = whole(StatusCode::OK, kind, body);
    set(&mut response, ETAG, etag);
    response
}

fn known(headers: &HeaderMap, etag: &str) -> bool {
    let weak = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let given = headers.get_all(IF_NONE_MATCH).iter().filter_map(|v| v.to_str().ok());
    given
        .flat_map(|v| v.split(','))
        .any(|tag| tag.trim() == "*" || weak(tag) == weak(etag))
}

/// How documents that are trees are written.
pub struct Writer<'a> {
    /// Has the types of discovery, for protobuf.
    pub schema: &'a Schema,
}

impl Writer<'_> {
    /// A JSON document in the form the client negotiates.
    pub fn negotiated(&self, request: &Request, type_name: &str, document: &Bytes) -> Response {
        match negotiate::output(&request.headers, &request.query, negotiate::STATUS) {
            Ok(output) if output.format == Format::Json && !output.pretty => {
                whole(StatusCode::OK, Format::Json.media_type(), with_line_end(document))
            }
            Ok(output) => {
                let media_type = output.format.media_type();
                match self.render(output.format, output.pretty, type_name, document) {
                    Ok(body) => whole(StatusCode::OK, media_type, body.into()),
                    Err(status) => self.failure(request, &status),
                }
            }
            Err(status) => self.failure(request, &status),
        }
    }

    /// A JSON document in another form.
    pub fn render(
        &self,
        format: Format,
        pretty: bool,
        type_name: &str,
        document: &Bytes,
    ) -> Result<Vec<u8>, Box<Status>> {
        let tree = || json::from_slice(document).map_err(Status::internal);
        Ok(match format {
            Format::Json if pretty => indented(document),
            Format::Json => with_line_end(document).to_vec(),
            Format::Yaml => yaml::to_string(&tree()?).into_bytes(),
            Format::Protobuf => self.protobuf(type_name, &tree()?)?,
        })
    }

    fn protobuf(&self, type_name: &str, document: &Value) -> Result<Vec<u8>, Box<Status>> {
        let ty = self.schema.named(type_name);
        let ty = ty.ok_or_else(|| Status::internal(format!("{type_name} is in no schema text")))?;
        protobuf::encode_object(self.schema, ty, document).map_err(Status::internal)
    }

    /// A failure, in the form the client negotiates; JSON if it accepts none.
    pub fn failure(&self, request: &Request, status: &Status) -> Response {
        let output = negotiate::output(&request.headers, &request.query, negotiate::STATUS);
        let (format, pretty) = output.map_or((Format::Json, false), |o| (o.format, o.pretty));
        let document = Bytes::from(status.to_json());
        let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        match self.render(format, pretty, "io.k8s.apimachinery.pkg.apis.meta.v1.Status", &document) {
            Ok(body) => whole(code, format.media_type(), body.into()),
            Err(_) => whole(code, Format::Json.media_type(), with_line_end(&document)),
        }
    }
}

/// Go's encoder ends every document with a line end.
fn with_line_end(document: &Bytes) -> Bytes {
    let mut out = Vec::with_capacity(document.len() + 1);
    out.extend_from_slice(document);
    if out.last() != Some(&b'\n') {
        out.push(b'\n');
    }
    out.into()
}

fn indented(document: &Bytes) -> Vec<u8> {
    let mut out = triptych_registry::respond::pretty(document);
    out.push(b'\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(tag: &'static str) -> HeaderMap {
        [(IF_NONE_MATCH, HeaderValue::from_static(tag))].into_iter().collect()
    }

    #[test]
    fn a_known_etag_is_found_in_a_list_and_in_its_weak_form() {
        for tag in ["\"a\"", "W/\"a\"", "\"b\", \"a\"", "*"] {
            assert!(known(&asking(tag), "\"a\""), "{tag}");
        }
        assert!(!known(&asking("\"b\""), "\"a\""));
        assert!(!known(&HeaderMap::new(), "\"a\""));
    }
}
