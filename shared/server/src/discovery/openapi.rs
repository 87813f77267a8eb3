//! Answers of `/openapi/v3`, its documents, and `/openapi/v2`.
//!
//! Documents are made on a blocking thread, one at a time, and kept for seconds ([`Kept`]).

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, LOCATION, VARY};
use http::{HeaderValue, StatusCode};
use jiff::{Span, Timestamp};
use triptych_object::request::param;
use triptych_registry::discovery::snapshot::etag;
use triptych_registry::openapi::{Document, relative_url, texts};
use triptych_registry::{Request, Response};
use triptych_schema::openapi::proto;
use triptych_schema::openapi::v2::Swagger;
use triptych_schema::openapi::v3::Info;

use super::content::{already_known, bare, set, tagged};
use super::fetch::{Ask, Fetch, Fetched, JSON};
use super::kept::Kept;
use super::publication::Merged;

/// Makes documents and keeps them for a while.
#[derive(Default)]
pub struct Maker {
    kept: Arc<Kept>,
    /// One document is made at a time: they are large, and the next reader wants the same one.
    making: tokio::sync::Mutex<()>,
}

/// How a document is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Protobuf,
}

/// The first clause of `Accept` that we can meet; none if there is none.
fn form(request: &Request, protobuf: [&'static str; 2]) -> Option<(Form, &'static str)> {
    let header = triptych_registry::negotiate::accept(&request.headers);
    if header.is_empty() {
        return Some((Form::Json, JSON));
    }
    let mut clauses: Vec<(f32, &str)> = header
        .split(',')
        .take(64)
        .map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            let range = parts.next().unwrap_or_default();
            let quality = parts.find_map(|p| p.strip_prefix("q=")?.parse().ok());
            (quality.unwrap_or(1.0), range)
        })
        .collect();
    clauses.sort_by(|a, b| b.0.total_cmp(&a.0));
    clauses.into_iter().find_map(|(_, range)| match range {
        JSON | "*/*" | "application/*" | "*/json" => Some((Form::Json, JSON)),
        range if protobuf.contains(&range) => Some((Form::Protobuf, protobuf[0])),
        _ => None,
    })
}

/// `/openapi/v3`. Its content type is what Go guesses.
pub fn index(merged: &Merged, request: &Request) -> Response {
    let etag = format!("\"{}\"", merged.index_hash);
    let known = already_known(request, &etag);
    known.unwrap_or_else(|| tagged("text/plain; charset=utf-8", &etag, merged.index.clone()))
}

impl Maker {
    /// `/openapi/v3/<document>`.
    pub async fn document(&self, document: &Document, request: &Request) -> Response {
        let Some((form, kind)) = form(request, proto::MEDIA_V3) else {
            return varying(bare(StatusCode::NOT_ACCEPTABLE));
        };
        let tag = format!("\"{}\"", document.hash);
        let asked = param(&request.query, "hash").unwrap_or_default();
        if !asked.is_empty() && asked != *document.hash {
            let mut moved = varying(bare(StatusCode::MOVED_PERMANENTLY));
            set(&mut moved, CONTENT_TYPE, kind);
            set(&mut moved, ETAG, &tag);
            set(&mut moved, LOCATION, &relative_url(&document.path, &document.hash));
            return moved;
        }
        let mut response = match already_known(request, &tag) {
            Some(known) => varying(known),
            None => {
                let key = format!("v3 {} {} {}", document.path, document.hash, form as u8);
                let source = Arc::clone(&document.source);
                let made = self.made(&key, move || match form {
                    Form::Json => Ok(source.v3(&*texts())),
                    Form::Protobuf => proto::v3(&source.v3(&*texts())).map_err(|e| e.to_string()),
                });
                match made.await {
                    Ok(body) => varying(tagged(kind, &tag, body)),
                    Err(why) => {
                        tracing::error!(why, document = &*document.path, "OpenAPI document cannot be made");
                        return bare(StatusCode::INTERNAL_SERVER_ERROR);
                    }
                }
            }
        };
        if !asked.is_empty() {
            let headers = response.headers_mut();
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
            set(&mut response, EXPIRES, &in_a_year());
        }
        response
    }

    /// `/openapi/v2`: this tier's own parts and the next tier's document.
    pub async fn whole(&self, merged: &Arc<Merged>, next: Option<&dyn Fetch>, request: &Request) -> Response {
        let Some((form, kind)) = form(request, proto::MEDIA_V2) else {
            return varying(bare(StatusCode::NOT_ACCEPTABLE));
        };
        // it says what the v3 documents say, so it changes when one of them does
        let tag = etag(merged.index_hash.as_bytes());
        if let Some(known) = already_known(request, &tag) {
            return varying(known);
        }
        let key = format!("v2 {} {}", merged.index_hash, form as u8);
        let body = match self.kept.get(&key) {
            Some(body) => Ok(body),
            None => {
                let _making = self.making.lock().await;
                match self.kept.get(&key) {
                    Some(body) => Ok(body),
                    None => self.make_whole(merged, next, form, &key).await,
                }
            }
        };
        match body {
            Ok(body) => varying(tagged(kind, &tag, body)),
            Err(why) => {
                tracing::info!(why, "no OpenAPI v2 document could be made");
                bare(StatusCode::SERVICE_UNAVAILABLE)
            }
        }
    }

    async fn make_whole(
        &self,
        merged: &Arc<Merged>,
        next: Option<&dyn Fetch>,
        form: Form,
        key: &str,
    ) -> Result<Bytes, String> {
        // while the next tier is away the document has our part only, and is not kept
        let (behind, complete) = match next {
            None => (None, true),
            Some(next) => match whole_of(next).await {
                Ok(document) => (Some(document), true),
                Err(why) => {
                    tracing::info!(why, "OpenAPI v2 without the next tier's part");
                    (None, false)
                }
            },
        };
        let merged = Arc::clone(merged);
        let made = tokio::task::spawn_blocking(move || {
            let mut whole = Swagger::default();
            let texts = texts();
            merged
                .own_documents()
                .for_each(|d| d.source.add_to(&mut whole, &*texts));
            drop(texts);
            if let Some(document) = behind {
                whole.merge(&document).map_err(|e| e.to_string())?;
            }
            let text = whole.to_json(Info::KUBERNETES);
            match form {
                Form::Json => Ok(text),
                Form::Protobuf => proto::v2(&text).map_err(|e| e.to_string()),
            }
        });
        let body = Bytes::from(made.await.map_err(|e| e.to_string())??);
        if complete {
            self.kept.put(key, &body);
        }
        Ok(body)
    }

    async fn made(
        &self,
        key: &str,
        make: impl FnOnce() -> Result<Vec<u8>, String> + Send + 'static,
    ) -> Result<Bytes, String> {
        if let Some(body) = self.kept.get(key) {
            return Ok(body);
        }
        let _making = self.making.lock().await;
        if let Some(body) = self.kept.get(key) {
            return Ok(body);
        }
        let made = tokio::task::spawn_blocking(make).await;
        let body = Bytes::from(made.map_err(|e| e.to_string())??);
        self.kept.put(key, &body);
        Ok(body)
    }
}

async fn whole_of(next: &dyn Fetch) -> Result<Bytes, String> {
    let ask = Ask {
        target: "/openapi/v2".into(),
        accept: JSON,
        ..Ask::default()
    };
    match next.fetch(ask).await? {
        Fetched::Document { body, .. } => Ok(body),
        other => Err(format!("/openapi/v2 was answered with {other:?}")),
    }
}

fn varying(mut response: Response) -> Response {
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response
}

/// RFC 1123, a year from now: the content of a hash never changes.
fn in_a_year() -> String {
    let then = Timestamp::now().checked_add(Span::new().hours(365 * 24));
    let then = jiff::tz::Offset::UTC.to_datetime(then.unwrap_or(Timestamp::MAX));
    then.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}
