//! Answers of discovery: `/api`, `/apis`, `/apis/<group>`, and the resource lists of group-versions.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderValue, StatusCode};
use triptych_object::json;
use triptych_registry::discovery::snapshot::Tagged;
use triptych_registry::discovery::{accept, documents};
use triptych_registry::negotiate::{self, Format};
use triptych_registry::{Request, Response};

use super::content::{Writer, bare, set, whole};
use super::publication::{Merged, OwnVersion};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// `/api`, in either form.
pub fn api(writer: &Writer<'_>, merged: &Merged, server_address: &str, request: &Request) -> Response {
    if let Some(format) = wants_aggregated(request) {
        return aggregated(writer, merged.snapshot.aggregated_api(), format, request);
    }
    let document = Bytes::from(json::to_vec(&documents::api_versions(server_address)));
    routed(writer, &format!("{META}.APIVersions"), &document, request)
}

/// `/apis`, in either form; with a trailing slash only in the plain one.
pub fn apis(writer: &Writer<'_>, merged: &Merged, request: &Request) -> Response {
    match wants_aggregated(request).filter(|_| !request.info.path.ends_with('/')) {
        Some(format) => aggregated(writer, merged.snapshot.aggregated_apis(), format, request),
        None => writer.negotiated(request, &format!("{META}.APIGroupList"), merged.snapshot.group_list()),
    }
}

/// `/apis/<group>`.
pub fn group(writer: &Writer<'_>, document: &Bytes, request: &Request) -> Response {
    writer.negotiated(request, &format!("{META}.APIGroup"), document)
}

/// `/api/v1`, `/apis/<group>/<version>`.
pub fn version(writer: &Writer<'_>, version: &OwnVersion, request: &Request) -> Response {
    let type_name = format!("{META}.APIResourceList");
    match version.custom {
        true => writer.negotiated(request, &type_name, &version.list),
        false => routed(writer, &type_name, &version.list, request),
    }
}

fn wants_aggregated(request: &Request) -> Option<Format> {
    accept::aggregated(&negotiate::accept(&request.headers))
}

/// What go-restful serves: it judges `Accept` first, in its own words.
fn routed(writer: &Writer<'_>, type_name: &str, document: &Bytes, request: &Request) -> Response {
    match negotiate::routed(&request.headers, false) {
        Ok(()) => writer.negotiated(request, type_name, document),
        Err(status) => writer.failure(request, &status),
    }
}

fn aggregated(writer: &Writer<'_>, document: &Tagged, format: Format, request: &Request) -> Response {
    // only the very same ETag counts here: no list, no weak form
    let known = request
        .headers
        .get(IF_NONE_MATCH)
        .is_some_and(|given| given == document.etag.as_str());
    let mut response = match known {
        true => bare(StatusCode::NOT_MODIFIED),
        false => {
            let type_name = "io.k8s.api.apidiscovery.v2.APIGroupDiscoveryList";
            let kind = format!("{}{}", format.media_type(), accept::AGGREGATED_PARAMETERS);
            match writer.render(format, false, type_name, &document.body) {
                Ok(body) => whole(StatusCode::OK, &kind, body.into()),
                Err(status) => return writer.failure(request, &status),
            }
        }
    };
    set(&mut response, ETAG, &document.etag);
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    response
}
