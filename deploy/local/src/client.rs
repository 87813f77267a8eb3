//! A small HTTPS client that speaks as the administrator: how `triptych` asks a tier whether it is ready, and how the
//! whole-process tests talk to a control plane.
//!
//! It keeps connections (HTTP/2 where the server takes it) and verifies the server against the PKI's `ca`.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::layout::Layout;

/// What can go wrong between us and a server, other than its answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// A certificate or key of the PKI cannot be used.
    #[error("the certificates in {dir} cannot be used: {why}")]
    Pki {
        /// The directory of the PKI.
        dir: String,
        /// What is wrong.
        why: String,
    },
    /// The request could not be built.
    #[error("not a request")]
    Request(#[from] http::Error),
    /// The server could not be reached.
    #[error("no answer")]
    Connect(#[from] hyper_util::client::legacy::Error),
    /// The answer broke off.
    #[error("the answer broke off")]
    Body(#[from] hyper::Error),
    /// The answer is not the JSON that was asked for.
    #[error("the answer is not JSON: {text}")]
    NotJson {
        /// The beginning of the answer.
        text: String,
        /// What the parser says.
        source: serde_json::Error,
    },
}

/// A client of one server.
#[derive(Clone, Debug)]
pub struct ApiClient {
    server: String,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl ApiClient {
    /// A client of `server` (a URL without path) that speaks as the administrator of this PKI.
    pub fn administrator(layout: &Layout, server: &str) -> Result<Self, ClientError> {
        Self::with_identity(layout, server, Some("admin"))
    }

    /// A client that shows the certificate `pki/<identity>.crt`, or none.
    pub fn with_identity(layout: &Layout, server: &str, identity: Option<&str>) -> Result<Self, ClientError> {
        let config = tls(layout, identity).map_err(|e| ClientError::Pki {
            dir: layout.pki("").display().to_string(),
            why: e.to_string(),
        })?;
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_only()
            .enable_all_versions()
            .build();
        Ok(Self {
            server: server.to_owned(),
            client: Client::builder(TokioExecutor::new()).build(connector),
        })
    }

    /// The server's URL.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Sends a request and returns its answer as it begins to arrive. The URI of `request` is a path with query.
    pub async fn send(&self, mut request: Request<Full<Bytes>>) -> Result<http::Response<Incoming>, ClientError> {
        *request.uri_mut() = format!("{}{}", self.server, request.uri())
            .parse()
            .map_err(http::Error::from)?;
        Ok(self.client.request(request).await?)
    }

    /// Sends a request without body and waits for the whole answer.
    pub async fn get(&self, path: &str) -> Result<Answer, ClientError> {
        self.collect(Request::get(path).body(Full::default())?).await
    }

    /// Sends a request with a JSON body and waits for the whole answer.
    pub async fn send_json(&self, method: Method, path: &str, body: &serde_json::Value) -> Result<Answer, ClientError> {
        let content_type = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = Full::from(Bytes::from(body.to_string()));
        self.collect(
            Request::builder()
                .method(method)
                .uri(path)
                .header("content-type", content_type)
                .body(body)?,
        )
        .await
    }

    /// Sends a DELETE and waits for the whole answer.
    pub async fn delete(&self, path: &str) -> Result<Answer, ClientError> {
        self.collect(Request::delete(path).body(Full::default())?).await
    }

    /// Sends a request and waits for the whole answer.
    pub async fn collect(&self, request: Request<Full<Bytes>>) -> Result<Answer, ClientError> {
        let (head, body) = self.send(request).await?.into_parts();
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            body: body.collect().await?.to_bytes(),
        })
    }

    /// Begins a watch: `path` carries `watch=true`. An error answer becomes a stream of that one body.
    pub async fn watch(&self, path: &str) -> Result<Lines, ClientError> {
        let response = self.send(Request::get(path).body(Full::default())?).await?;
        Ok(Lines {
            status: response.status(),
            body: response.into_body(),
            buffer: Vec::new(),
        })
    }
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> Result<serde_json::Value, ClientError> {
        json(&self.body)
    }

    /// The body as text, for messages.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// The lines of a streamed answer, each a JSON value.
#[derive(Debug)]
pub struct Lines {
    /// The status code of the answer.
    pub status: StatusCode,
    body: Incoming,
    buffer: Vec<u8>,
}

impl Lines {
    /// The next line; `None` when the server ended the stream.
    pub async fn next(&mut self) -> Result<Option<serde_json::Value>, ClientError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return json(&line).map(Some);
            }
            match self.body.frame().await {
                Some(frame) => {
                    if let Some(data) = frame?.data_ref() {
                        self.buffer.extend_from_slice(data);
                    }
                }
                None if self.buffer.is_empty() => return Ok(None),
                None => return json(&std::mem::take(&mut self.buffer)).map(Some),
            }
        }
    }
}

fn json(bytes: &[u8]) -> Result<serde_json::Value, ClientError> {
    serde_json::from_slice(bytes).map_err(|source| ClientError::NotJson {
        text: String::from_utf8_lossy(bytes).chars().take(200).collect(),
        source,
    })
}

/// How a client trusts this PKI, and shows the certificate `pki/<identity>.crt` or none.
pub fn tls(layout: &Layout, identity: Option<&str>) -> io::Result<ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(layout.pki("ca.crt")).map_err(io::Error::other)? {
        roots
            .add(certificate.map_err(io::Error::other)?)
            .map_err(io::Error::other)?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots);
    let Some(identity) = identity else {
        return Ok(builder.with_no_client_auth());
    };
    let chain = CertificateDer::pem_file_iter(layout.pki(format!("{identity}.crt")))
        .map_err(io::Error::other)?
        .collect::<Result<Vec<_>, _>>()
        .map_err(io::Error::other)?;
    let key = PrivateKeyDer::from_pem_file(layout.pki(format!("{identity}.key"))).map_err(io::Error::other)?;
    builder.with_client_auth_cert(chain, key).map_err(io::Error::other)
}
