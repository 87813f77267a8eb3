//! Tiers in this process on real sockets, with a certificate authority, an authenticator and handlers of the tests' own.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use triptych_auth::authenticator::Credentials;
use triptych_auth::{Attributes, Authenticator, Authorizer, Decision, Identity, Reason};
use triptych_client::metrics::Metrics as ClientMetrics;
use triptych_client::pool::Pool;
use triptych_client::tls::{Connector, IdentityFiles};
use triptych_object::UserInfo;
use triptych_registry::{Body, Handler};
use triptych_server::claim::Table;
use triptych_server::metrics::Metrics;
use triptych_server::options::Settings;
use triptych_server::{Shutdown, Tier};

/// A certificate authority with files in a directory of its own.
pub struct Pki {
    dir: tempfile::TempDir,
    ca: CertifiedIssuer<'static, KeyPair>,
}

impl Pki {
    pub fn new() -> Pki {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("ca.crt"), ca.pem()).unwrap();
        Pki { dir, ca }
    }

    pub fn ca_file(&self) -> PathBuf {
        self.dir.path().join("ca.crt")
    }

    /// Writes (or writes again) the certificate `name` for localhost.
    pub fn issue(&self, name: &str) -> IdentityFiles {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.ca).unwrap();
        let files = IdentityFiles {
            certificate: self.dir.path().join(format!("{name}.crt")),
            key: self.dir.path().join(format!("{name}.key")),
        };
        std::fs::write(&files.key, key.serialize_pem()).unwrap();
        std::fs::write(&files.certificate, certificate.pem()).unwrap();
        files
    }

    pub fn connector(&self, identity: Option<&str>) -> Arc<Connector> {
        let identity = identity.map(|name| triptych_client::tls::Identity::load(self.issue(name)).unwrap());
        Connector::new(self.ca_file(), identity, &[b"h2", b"http/1.1"]).unwrap()
    }
}

/// Believes `x-remote-user` of whoever shows a certificate, `Bearer <name>` of others; the rest is anonymous.
pub struct Trusting;

impl Authenticator for Trusting {
    fn authenticate<'a>(&'a self, c: Credentials<'a>) -> BoxFuture<'a, Identity> {
        let text = |name: &str| c.headers.get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
        let user = if !c.certificates.is_empty() {
            let groups = c
                .headers
                .get_all("x-remote-group")
                .iter()
                .filter_map(|v| v.to_str().ok());
            // a tier's own requests name nobody else
            let name = text("x-remote-user").unwrap_or_else(|| "system:tier:test".to_owned());
            Some(UserInfo::new(name, groups.map(str::to_owned).collect::<Vec<_>>()))
        } else {
            text("authorization")
                .and_then(|v| Some(UserInfo::new(v.strip_prefix("Bearer ")?, ["system:authenticated"])))
        };
        let identity = match user {
            Some(user) if user.name == "wrong" => Identity::Unauthorized("no such token".into()),
            Some(user) => Identity::User(Arc::new(user)),
            None => Identity::User(Arc::new(UserInfo::anonymous())),
        };
        Box::pin(std::future::ready(identity))
    }
}

/// Allows everybody but `nobody` and, except for health, the anonymous.
pub struct Lenient;

impl Authorizer for Lenient {
    fn authorize<'a>(&'a self, a: Attributes<'a>) -> BoxFuture<'a, Decision> {
        let anonymous = a.user.name == "system:anonymous" && a.request.is_resource;
        let decision = if a.user.name == "nobody" || anonymous {
            Decision::PASS
        } else {
            Decision::Allow(Reason::NONE)
        };
        Box::pin(std::future::ready(decision))
    }
}

/// Answers with what it was asked, or as its path says.
#[derive(Default)]
pub struct Echo {
    pub served: AtomicUsize,
    pub active: Arc<AtomicUsize>,
    /// Pieces of endless answers that were taken to be sent.
    pub taken: Arc<AtomicUsize>,
}

struct Active(Arc<AtomicUsize>);

impl Drop for Active {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Handler for Echo {
    fn handle(&self, request: triptych_registry::Request) -> BoxFuture<'_, triptych_registry::Response> {
        self.served.fetch_add(1, Ordering::SeqCst);
        self.active.fetch_add(1, Ordering::SeqCst);
        let (active, taken) = (Active(Arc::clone(&self.active)), Arc::clone(&self.taken));
        Box::pin(async move {
            match request.info.name.as_str() {
                "panic" => panic!("a bug"),
                "slow" => std::future::pending::<()>().await,
                _ => {}
            }
            if matches!(request.info.name.as_str(), "flood" | "endless") {
                return Response::new(ticks(active, taken, Duration::ZERO));
            }
            if request.info.verb == "watch" {
                return Response::new(ticks(active, taken, Duration::from_millis(100)));
            }
            if request.info.name == "big" {
                return Response::new(Body::from(vec![b'x'; 1024 * 1024]));
            }
            let headers: Vec<String> = request
                .headers
                .iter()
                .map(|(k, v)| format!("{k}: {}", v.to_str().unwrap_or("?")))
                .collect();
            let answer = serde_json::json!({
                "verb": request.info.verb,
                "user": request.user.name,
                "groups": request.user.groups,
                "headers": headers,
                "body": request.body.len(),
            });
            Response::new(Body::from(answer.to_string().into_bytes()))
        })
    }
}

fn ticks(active: Active, taken: Arc<AtomicUsize>, pause: Duration) -> Body {
    let chunk = if pause.is_zero() {
        vec![b'x'; 64 * 1024]
    } else {
        b"tick\n".to_vec()
    };
    let chunk = Bytes::from(chunk);
    let stream = futures_util::stream::unfold((active, taken, chunk), move |(active, taken, chunk)| async move {
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        taken.fetch_add(1, Ordering::SeqCst);
        Some((Ok(chunk.clone()), (active, taken, chunk)))
    });
    Body::Stream(Box::pin(stream))
}

/// A tier that runs until it is dropped, which ends it as a killed process ends.
pub struct Running {
    pub address: SocketAddr,
    /// Name of its certificate.
    pub certificate: String,
    pub shutdown: Shutdown,
    pub echo: Arc<Echo>,
    pub metrics: Arc<Metrics>,
    pub ended: tokio::task::JoinHandle<Result<(), triptych_server::tier::Error>>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// What a tier of a test is like.
pub struct Plan {
    pub serves: bool,
    pub also: Option<Arc<dyn Handler>>,
    pub next: Option<Vec<SocketAddr>>,
    pub edit: fn(&mut Settings),
}

impl Plan {
    /// The last tier: serves core/v1 `things`.
    pub fn last() -> Plan {
        Plan {
            serves: true,
            also: None,
            next: None,
            edit: |_| {},
        }
    }

    /// A front tier before these.
    pub fn before(next: &[&Running]) -> Plan {
        Plan {
            serves: false,
            also: None,
            next: Some(next.iter().map(|r| r.address).collect()),
            edit: |_| {},
        }
    }

    pub async fn start(self, pki: &Pki) -> Running {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let certificate = format!("server-{}", STARTED.fetch_add(1, Ordering::SeqCst));
        let mut settings = Settings {
            listen: "127.0.0.1:0".parse().unwrap(),
            address_file: None,
            identity: pki.issue(&certificate),
            http2: true,
            max_streams: 250,
            max_requests: 400,
            max_mutating: 200,
            request_timeout: Duration::from_secs(60),
            min_watch_seconds: 1800,
            goaway_chance: 0.0,
            shutdown_delay: Duration::ZERO,
            watch_grace: Duration::ZERO,
            strict_transport_security: None,
        };
        (self.edit)(&mut settings);
        let metrics = Arc::new(Metrics::new(prometheus::Registry::new()).unwrap());
        let client_metrics = ClientMetrics::new(metrics.registry()).unwrap();
        let mut tier = Tier::new(
            "test",
            settings,
            Arc::new(Trusting),
            Arc::new(Lenient),
            Arc::clone(&metrics),
        );
        let echo = Arc::new(Echo::default());
        if self.serves {
            let mut table = Table::default();
            table.resource("", "v1", "things", echo.clone());
            if let Some(also) = self.also {
                table.resource("", "v1", "roles", also);
            }
            table.service("/api", "/api/v1", echo.clone());
            tier = tier.claim(Arc::new(table));
        }
        if let Some(next) = self.next {
            let addresses = next.iter().map(|a| format!("https://{a}").parse().unwrap()).collect();
            tier = tier.next(Pool::new(
                "next",
                addresses,
                pki.connector(Some("front")),
                client_metrics.target("next"),
            ));
        }
        let shutdown = Shutdown::default();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let bound = runtime.spawn(tier.bind()).await.unwrap().unwrap();
        let address = bound.address();
        let ended = runtime.spawn(bound.run(shutdown.clone()));
        Running {
            address,
            certificate,
            shutdown,
            echo,
            metrics,
            ended,
            runtime: Some(runtime),
        }
    }
}

/// An answer read whole.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub headers: HeaderMap,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |v| v.to_str().unwrap())
    }
}

pub async fn tls(pki: &Pki, to: SocketAddr, alpn: &[&[u8]], identity: Option<&str>) -> TlsStream<TcpStream> {
    let config = pki.connector(identity).config_for(alpn);
    let tcp = TcpStream::connect(to).await.unwrap();
    let name = rustls_pki_types::ServerName::try_from("localhost").unwrap();
    TlsConnector::from(config).connect(name, tcp).await.unwrap()
}

pub type Send1 = hyper::client::conn::http1::SendRequest<Full<Bytes>>;
pub type Send2 = hyper::client::conn::http2::SendRequest<Full<Bytes>>;

pub async fn http1(pki: &Pki, to: SocketAddr) -> Send1 {
    let io = TokioIo::new(tls(pki, to, &[b"http/1.1"], None).await);
    let (send, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    send
}

pub async fn http2(pki: &Pki, to: SocketAddr) -> Send2 {
    let io = TokioIo::new(tls(pki, to, &[b"h2"], None).await);
    let executor = hyper_util::rt::TokioExecutor::new();
    let (send, connection) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
    tokio::spawn(connection);
    send
}

pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let mut builder = Request::builder().method(method).uri(path);
    let has_host = headers.iter().any(|(k, _)| *k == "host");
    if !has_host && path.starts_with('/') {
        builder = builder.header("host", "localhost");
    }
    for (k, v) in headers {
        builder = builder.header(*k, *v);
    }
    builder.body(Full::new(body.into())).unwrap()
}

pub async fn read(response: Response<hyper::body::Incoming>) -> Answer {
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Answer {
        code: head.status.as_u16(),
        headers: head.headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    }
}

/// One request on an HTTP/1.1 connection of its own.
pub async fn ask(pki: &Pki, to: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut send = http1(pki, to).await;
    read(send.send_request(request(method, path, headers, "")).await.unwrap()).await
}

/// Polls until `condition` holds.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while !condition().await {
        assert!(tokio::time::Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub const JOE: (&str, &str) = ("authorization", "Bearer joe");
