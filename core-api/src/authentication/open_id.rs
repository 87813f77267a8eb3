//! What relying parties read to verify service account tokens: `/.well-known/openid-configuration` and `/openid/v1/jwks`.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response};
use triptych_auth::authentication::issuer::{CONFIGURATION_PATH, JWKS_PATH, OpenIdDocuments};
use triptych_registry::{Body, Handler, Request, respond};
use triptych_server::claim::Table;
use triptych_server::paths::acceptable;

/// Keys must not change sooner than this says.
const CACHED: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// Claims the paths of both documents.
pub fn claim(claims: &mut Table, documents: &OpenIdDocuments) {
    let mut claim = |path: &'static str, media_type: &'static str, bytes: &Bytes| {
        let document = Document {
            media_type,
            bytes: bytes.clone(),
        };
        claims.service(path, path, Arc::new(document));
    };
    claim(CONFIGURATION_PATH, "application/json", &documents.configuration);
    claim(JWKS_PATH, "application/jwk-set+json", &documents.keys);
}

struct Document {
    media_type: &'static str,
    bytes: Bytes,
}

impl Handler for Document {
    fn handle(&self, request: Request) -> BoxFuture<'_, triptych_registry::Response> {
        let answer = match acceptable(&request.headers, &[self.media_type]) {
            Err(status) => respond::failure(&status, &request.headers, &request.query),
            Ok(()) => {
                let mut response = Response::new(Body::from(self.bytes.clone()));
                let headers = response.headers_mut();
                headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.media_type));
                headers.insert(CACHE_CONTROL, CACHED);
                response
            }
        };
        std::future::ready(answer).boxed()
    }
}

#[cfg(test)]
mod tests {
    use http::header::ACCEPT;
    use triptych_object::{RequestInfo, UserInfo};
    use triptych_server::claim::{Claim, Claims};

    use super::*;

    #[tokio::test]
    async fn documents_are_served_as_what_they_are() {
        let documents = OpenIdDocuments::new("https://issuer", "https://server/openid/v1/jwks", &[]).unwrap();
        let mut claims = Table::default();
        claim(&mut claims, &documents);
        for (path, accept, code, media_type) in [
            (
                "/.well-known/openid-configuration",
                "application/json",
                200,
                "application/json",
            ),
            ("/openid/v1/jwks/", "*/*", 200, "application/jwk-set+json"),
            ("/openid/v1/jwks", "application/json", 406, "application/json"),
        ] {
            let info = RequestInfo::parse("GET", path, "").unwrap();
            let Claim::Path {
                handler,
                get_only: true,
            } = claims.find(&info)
            else {
                panic!("{path} is not claimed")
            };
            let request = Request {
                info,
                method: http::Method::GET,
                query: String::new(),
                headers: [(ACCEPT, accept.parse().unwrap())].into_iter().collect(),
                body: Bytes::new(),
                user: Arc::new(UserInfo::anonymous()),
                deadline: std::time::Instant::now(),
            };
            let response = handler.handle(request).await;
            assert_eq!(response.status().as_u16(), code, "{path} {accept}");
            assert_eq!(response.headers()[CONTENT_TYPE], media_type);
        }
    }
}
