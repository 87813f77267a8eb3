//! ComponentStatus: the health of the components that once ran beside every API server (deprecated since 1.19).
//!
//! Contract: as kube-apiserver, it asks the scheduler and the controller manager on this machine and its own store,
//! anew for each request, and stores nothing. Answers are JSON.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use triptych_client::tls::{Connector, Trust};
use triptych_object::selector::{FieldSelector, LabelSelector};
use triptych_object::{GroupResource, Status, StatusResult, Value, json};
use triptych_registry::endpoint::Responder;
use triptych_registry::strategy::Strategy;
use triptych_registry::{Body, Request, Response};
use triptych_storage::Store;

use crate::context::Context;

const TIMEOUT: Duration = Duration::from_secs(20);
const MAX_ANSWER: u64 = 64 * 1024;
const SCHEDULER: u16 = 10259;
const CONTROLLER_MANAGER: u16 = 10257;

/// The strategy of `componentstatuses`.
pub struct Deprecated;

impl Strategy for Deprecated {
    fn deprecation(&self) -> Option<&'static str> {
        Some("v1 ComponentStatus is deprecated in v1.19+")
    }
}

/// Answers for `componentstatuses`.
pub struct ComponentStatuses {
    store: Option<Arc<dyn Store>>,
}

impl ComponentStatuses {
    /// Over the store of this tier.
    pub fn new(context: &Context) -> ComponentStatuses {
        ComponentStatuses {
            store: context.collection("", "namespaces").map(|c| c.store.clone()),
        }
    }

    async fn status(&self, name: &'static str) -> Value {
        let health = match name {
            "scheduler" => ask(SCHEDULER).await,
            "controller-manager" => ask(CONTROLLER_MANAGER).await,
            _ => match &self.store {
                Some(store) => store
                    .current_revision()
                    .await
                    .map(|_| "ok".to_owned())
                    .map_err(|e| e.to_string()),
                None => Err("no store".to_owned()),
            },
        };
        let (healthy, message) = match health {
            Ok(message) => ("True", message),
            Err(message) => ("False", message),
        };
        let condition = Value::from([
            ("type", "Healthy".into()),
            ("status", healthy.into()),
            ("message", message.into()),
        ]);
        Value::from([
            ("metadata", Value::from([("name", name.into())])),
            ("conditions", vec![condition].into()),
        ])
    }

    async fn answer(&self, request: &Request) -> StatusResult<Response> {
        const NAMES: [&str; 3] = ["scheduler", "controller-manager", "etcd-0"];
        let kind = |kind: &str| [("kind", kind.into()), ("apiVersion", Value::from("v1"))];
        let document = match request.info.verb.as_str() {
            "get" => {
                let asked = request.info.name.as_str();
                let name = NAMES.into_iter().find(|n| *n == asked);
                let name = name.ok_or_else(|| Status::not_found(&GroupResource::new("", "componentstatus"), asked))?;
                let mut document = Value::from(kind("ComponentStatus"));
                for (member, value) in self.status(name).await.as_object().into_iter().flat_map(|o| o.iter()) {
                    document.set_at(&[member], value.clone());
                }
                document
            }
            "list" => {
                let selector = |text: &Option<String>| text.clone().unwrap_or_default();
                let labels =
                    LabelSelector::parse(&selector(&request.info.label_selector)).map_err(Status::bad_request)?;
                let fields =
                    FieldSelector::parse(&selector(&request.info.field_selector)).map_err(Status::bad_request)?;
                let selected = NAMES.into_iter().filter(|name| {
                    let field = |f: &str| match f {
                        "metadata.name" => Some(*name),
                        _ => Some(""),
                    };
                    labels.matches(|_| None) && fields.matches(field)
                });
                let items = join_all(selected.map(|name| self.status(name))).await;
                let mut document = Value::from(kind("ComponentStatusList"));
                document.set_at(&["metadata"], Value::object());
                document.set_at(&["items"], items.into());
                document
            }
            _ => return Err(Status::method_not_allowed()),
        };
        let mut response = Response::new(Body::from(json::to_vec(&document)));
        let json = http::HeaderValue::from_static("application/json");
        response.headers_mut().insert(http::header::CONTENT_TYPE, json);
        Ok(response)
    }
}

impl Responder for ComponentStatuses {
    fn respond<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, StatusResult<Response>> {
        Box::pin(self.answer(request))
    }
}

/// What a component on this machine says of its health; the error is Go's.
async fn ask(port: u16) -> Result<String, String> {
    let url = format!("Get \"https://127.0.0.1:{port}/healthz\"");
    let asking = async {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let stream = TcpStream::connect(address).await.map_err(|e| match e.kind() {
            std::io::ErrorKind::ConnectionRefused => {
                format!("{url}: dial tcp {address}: connect: connection refused")
            }
            _ => format!("{url}: dial tcp {address}: {e}"),
        })?;
        over_tls(stream, address).await.map_err(|e| format!("{url}: {e}"))
    };
    let (code, body) = tokio::time::timeout(TIMEOUT, asking)
        .await
        .map_err(|_| format!("{url}: context deadline exceeded"))??;
    if (200..400).contains(&code) {
        Ok(body)
    } else {
        Err(format!("HTTP probe failed with statuscode: {code}"))
    }
}

async fn over_tls(stream: TcpStream, address: SocketAddr) -> std::io::Result<(u16, String)> {
    // components show self-signed certificates here, and nothing is told to them
    let anybody = Connector::trusting(Trust::AnybodyInsecurely, None, &[]).map_err(std::io::Error::other)?;
    let connector = tokio_rustls::TlsConnector::from(anybody.config());
    let mut stream = connector.connect(ServerName::from(address.ip()), stream).await?;
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    // many servers end without TLS's own goodbye
    let _ = stream.take(MAX_ANSWER).read_to_end(&mut answer).await;
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let code = head.split(' ').nth(1).and_then(|c| c.parse().ok());
    let code = code.ok_or_else(|| std::io::Error::other("malformed HTTP response"))?;
    Ok((code, body.trim().to_owned()))
}
