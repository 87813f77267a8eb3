//! Calls of webhooks: one POST of JSON to a server that a user named by URL or by Service.
//!
//! Contract: an error is the text that client-go has for it, because users read it in answers of the API. A call ends
//! when its time is up; redirects are not followed, answers are bounded, connections are kept for the next call and so
//! many calls are under way at most as [`Calls`] permits. Whom to trust is what the caller says, else the system's roots.

mod dial;
pub mod service;
mod trust;

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use triptych_object::{Value, json};

use crate::body::Incoming;

/// An answer may have so many bytes.
const MAX_ANSWER: usize = 16 * 1024 * 1024;
/// Idle connections kept for one webhook.
const MAX_IDLE: usize = 25;
/// Of an answer that is no JSON so much is told.
const MAX_TOLD: usize = 2048;

/// Where a webhook is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// At a URL, which was validated: `https`, a host, no query.
    Url(String),
    /// Behind a Service.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port.
        port: u16,
        /// The path asked for.
        path: String,
    },
}

/// Knows where Services lead.
pub trait Services: Send + Sync + 'static {
    /// The host and port behind a Service's port, or why there is none.
    fn resolve<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        port: u16,
    ) -> BoxFuture<'a, Result<(String, u16), String>>;
}

/// What all webhooks of a process share.
pub struct Calls {
    services: Arc<dyn Services>,
    permits: Semaphore,
    agent: HeaderValue,
}

impl Calls {
    /// With at most `limit` calls under way; `agent` is how the caller calls itself.
    pub fn new(services: Arc<dyn Services>, limit: usize, agent: &'static str) -> Arc<Calls> {
        Arc::new(Calls {
            services,
            permits: Semaphore::new(limit),
            agent: HeaderValue::from_static(agent),
        })
    }
}

/// A webhook that can be called.
pub struct Hook {
    calls: Arc<Calls>,
    target: Target,
    /// `https://host:port`, as it shows in texts.
    base: String,
    path: String,
    authority: String,
    host: String,
    port: u16,
    ca_bundle: Box<[u8]>,
    /// Made for the first connection: the system's roots are a file to read, and a configuration may never be used.
    tls: OnceLock<Result<Arc<rustls::ClientConfig>, String>>,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
}

impl Hook {
    /// Of a target, believing whom the PEM certificates `ca_bundle` vouch for, or the system's roots if there are none.
    pub fn new(calls: &Arc<Calls>, target: Target, ca_bundle: &[u8]) -> Hook {
        let (base, path, authority) = match &target {
            Target::Url(url) => split(url),
            Target::Service {
                namespace,
                name,
                port,
                path,
            } => {
                let authority = format!("{name}.{namespace}.svc:{port}");
                (format!("https://{authority}"), clean(path), authority)
            }
        };
        let (host, port) = host_and_port(&authority);
        Hook {
            calls: calls.clone(),
            target,
            base,
            path,
            authority,
            host,
            port,
            ca_bundle: ca_bundle.into(),
            tls: OnceLock::new(),
            idle: Mutex::default(),
        }
    }

    /// Posts a document; the bytes of a successful answer.
    pub async fn post(&self, document: &Value, time: Duration) -> Result<Bytes, String> {
        let target = format!("{}?timeout={}s", self.path, time.as_nanos().div_ceil(1_000_000_000));
        let url = format!("{}{target}", self.base);
        let exchange = async {
            let _permit = self.calls.permits.acquire().await.map_err(|e| e.to_string())?;
            self.exchange(&target, json::to_vec(document).into()).await
        };
        let failed = |why: String| format!("Post {}: {why}", triptych_object::field::quote(&url));
        let (head, body) = match tokio::time::timeout(time, exchange).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(why)) => return Err(failed(why)),
            Err(_) => return Err(failed("context deadline exceeded".to_owned())),
        };
        let body = body.map_err(|why| {
            format!("unexpected error when reading response body. Please retry. Original error: {why}")
        })?;
        let content_type = head
            .headers
            .get(CONTENT_TYPE)
            .and_then(|v| v.to_str().ok())
            .unwrap_or("");
        if !head.status.is_success() || head.status.as_u16() > 206 {
            return Err(refusal(head.status, content_type, &body));
        }
        if body.is_empty() {
            let code = head.status.as_u16();
            return Err(format!(
                "0-length response with status code: {code} and content type: {content_type}"
            ));
        }
        Ok(body)
    }

    async fn exchange(
        &self,
        target: &str,
        body: Bytes,
    ) -> Result<(http::response::Parts, Result<Bytes, String>), String> {
        let mut request = self.request(target, body)?;
        loop {
            let idle = self.idle.lock().pop();
            let (mut connection, reused) = match idle {
                Some(connection) if connection.is_closed() => continue,
                Some(connection) => (connection, true),
                None => (self.connect().await?, false),
            };
            if connection.ready().await.is_err() {
                if reused {
                    continue;
                }
                return Err("EOF".to_owned());
            }
            match connection.try_send_request(request).await {
                Ok(response) => return Ok(self.read(response, connection).await),
                Err(mut failure) => match failure.take_message() {
                    // the peer had closed it before anything was sent
                    Some(unsent) if reused => request = unsent,
                    _ => return Err(dial::exchange_text(failure.error())),
                },
            }
        }
    }

    async fn read(
        &self,
        response: Response<hyper::body::Incoming>,
        connection: SendRequest<Full<Bytes>>,
    ) -> (http::response::Parts, Result<Bytes, String>) {
        let (head, body) = response.into_parts();
        let body = Incoming::http1(body).collect(MAX_ANSWER).await;
        if body.is_ok() && !connection.is_closed() {
            let mut idle = self.idle.lock();
            if idle.len() < MAX_IDLE {
                idle.push(connection);
            }
        }
        let body = body.map_err(|e| std::error::Error::source(&e).map_or_else(|| e.to_string(), ToString::to_string));
        (head, body)
    }

    fn request(&self, target: &str, body: Bytes) -> Result<Request<Full<Bytes>>, String> {
        const JSON: HeaderValue = HeaderValue::from_static("application/json");
        Request::builder()
            .method(Method::POST)
            .uri(target)
            .header(HOST, &self.authority)
            .header(ACCEPT, "application/json, */*")
            .header(CONTENT_TYPE, JSON)
            .header(USER_AGENT, self.calls.agent.clone())
            .body(Full::new(body))
            .map_err(|e| e.to_string())
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        let config = self.tls.get_or_init(|| trust::client_config(&self.ca_bundle)).clone()?;
        let (host, port) = match &self.target {
            Target::Url(_) => (self.host.clone(), self.port),
            Target::Service {
                namespace, name, port, ..
            } => self.calls.services.resolve(namespace, name, *port).await?,
        };
        let server_name = match &self.target {
            Target::Url(_) => self.host.clone(),
            Target::Service { namespace, name, .. } => format!("{name}.{namespace}.svc"),
        };
        dial::connect(&host, port, &server_name, config).await
    }
}

/// Base, path and authority of a URL.
fn split(url: &str) -> (String, String, String) {
    let rest = url.strip_prefix("https://").unwrap_or(url);
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    (format!("https://{authority}"), clean(path), authority.to_owned())
}

/// A path as Go's `path.Join("/", path)` writes it.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

fn host_and_port(authority: &str) -> (String, u16) {
    let bare = |host: &str| host.trim_start_matches('[').trim_end_matches(']').to_owned();
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (bare(host), port.parse().unwrap_or(443)),
        _ => (bare(authority), 443),
    }
}

/// client-go's text of an answer that is no success.
fn refusal(code: StatusCode, content_type: &str, body: &[u8]) -> String {
    if let Ok(status) = json::from_slice(body)
        && status.str_at(&["kind"]) == "Status"
        && status.str_at(&["status"]) != "Success"
    {
        return status.str_at(&["message"]).to_owned();
    }
    let told = if content_type.is_empty() || content_type.starts_with("text/") {
        String::from_utf8_lossy(&body[..body.len().min(MAX_TOLD)])
            .trim()
            .to_owned()
    } else {
        "unknown".to_owned()
    };
    let text = match code.as_u16() {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 | 415 => return told,
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        406 if told.is_empty() || told == "unknown" => {
            "the server was unable to respond with a content type that the client supports"
        }
        406 => return told,
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        code => {
            let mut text = String::new();
            let told = triptych_object::field::quote(&told);
            let _ = match code {
                500.. => write!(
                    text,
                    "an error on the server ({told}) has prevented the request from succeeding"
                ),
                _ => write!(
                    text,
                    "the server responded with the status code {code} but did not return more information"
                ),
            };
            return text;
        }
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_split_as_client_go_shows_them() {
        for (url, base, path, host, port) in [
            ("https://a.example", "https://a.example", "/", "a.example", 443),
            (
                "https://127.0.0.1:9/hook",
                "https://127.0.0.1:9",
                "/hook",
                "127.0.0.1",
                9,
            ),
            ("https://[::1]:8443/a//b/", "https://[::1]:8443", "/a/b", "::1", 8443),
            ("https://[::1]", "https://[::1]", "/", "::1", 443),
        ] {
            let (found, found_path, authority) = split(url);
            assert_eq!((found.as_str(), found_path.as_str()), (base, path));
            assert_eq!(host_and_port(&authority), (host.to_owned(), port));
        }
    }

    #[test]
    fn refusals_read_as_client_go_tells_them() {
        let told =
            |code: u16, kind: &str, body: &str| refusal(StatusCode::from_u16(code).unwrap(), kind, body.as_bytes());
        assert_eq!(
            told(404, "text/plain", "x"),
            "the server could not find the requested resource"
        );
        assert_eq!(
            told(500, "text/plain; charset=utf-8", "boom\n"),
            r#"an error on the server ("boom") has prevented the request from succeeding"#
        );
        assert_eq!(
            told(307, "", ""),
            "the server responded with the status code 307 but did not return more information"
        );
        let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"why"}"#;
        assert_eq!(told(500, "application/json", status), "why");
    }
}
