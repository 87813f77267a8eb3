//! What a GET costs: bare hyper and rustls beside a tier, directly and through a front tier; and what idle connections
//! hold. Each server is a process of its own (this program with a role), so that CPU time and memory are its alone.
//!
//! `cargo run --release -p triptych-server --example hop-bench [requests]`

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt, Empty, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use triptych_auth::authenticator::Credentials;
use triptych_auth::{Attributes, Authenticator, Authorizer, Decision, Identity, Reason};
use triptych_client::Pool;
use triptych_client::metrics::Metrics as ClientMetrics;
use triptych_client::tls::{self, Connector, IdentityFiles};
use triptych_object::UserInfo;
use triptych_registry::{Body, Handler, Request, Response};
use triptych_server::claim::Table;
use triptych_server::metrics::Metrics;
use triptych_server::options::Settings;
use triptych_server::{Shutdown, Tier};

type Failure = Box<dyn std::error::Error>;

const PATH: &str = "/api/v1/namespaces/default/configmaps/one";

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    match arguments.first().map(String::as_str) {
        Some(role @ ("bare" | "last" | "front")) => {
            let dir = Path::new(arguments.get(1).ok_or("no directory")?);
            let next = arguments.get(2).map(|a| a.parse()).transpose()?;
            runtime.block_on(serve(role, dir, next))
        }
        other => {
            let requests = other.map_or(Ok(40_000), str::parse)?;
            runtime.block_on(measure(requests))
        }
    }
}

/// Everybody is the same user, decided once.
struct Known(Arc<UserInfo>);

impl Authenticator for Known {
    fn authenticate<'a>(&'a self, _credentials: Credentials<'a>) -> BoxFuture<'a, Identity> {
        Box::pin(std::future::ready(Identity::User(Arc::clone(&self.0))))
    }
}

impl Authorizer for Known {
    fn authorize<'a>(&'a self, _attributes: Attributes<'a>) -> BoxFuture<'a, Decision> {
        Box::pin(std::future::ready(Decision::Allow(Reason::NONE)))
    }
}

struct Cached(Bytes);

impl Handler for Cached {
    fn handle(&self, _request: Request) -> BoxFuture<'_, Response> {
        let mut response = http::Response::new(Body::from(self.0.clone()));
        let json = http::HeaderValue::from_static("application/json");
        response.headers_mut().insert(http::header::CONTENT_TYPE, json);
        Box::pin(std::future::ready(response))
    }
}

fn files(dir: &Path, name: &str) -> IdentityFiles {
    IdentityFiles {
        certificate: dir.join(format!("{name}.crt")),
        key: dir.join(format!("{name}.key")),
    }
}

async fn serve(role: &str, dir: &Path, next: Option<SocketAddr>) -> Result<(), Failure> {
    let body = Bytes::from(vec![b'x'; 1024]);
    if role == "bare" {
        return bare(dir, body).await;
    }
    let settings = Settings {
        listen: "127.0.0.1:0".parse()?,
        address_file: None,
        identity: files(dir, "server"),
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
    let metrics = Arc::new(Metrics::new(prometheus::Registry::new())?);
    let client_metrics = ClientMetrics::new(metrics.registry())?;
    let user = || Arc::new(Known(Arc::new(UserInfo::new("jane", ["dev", "system:authenticated"]))));
    let mut tier = Tier::new("bench", settings, user(), user(), Arc::clone(&metrics));
    match next {
        None => {
            let mut table = Table::default();
            table.resource("", "v1", "configmaps", Arc::new(Cached(body)));
            tier = tier.claim(Arc::new(table));
        }
        Some(next) => {
            let front = tls::Identity::load(files(dir, "client"))?;
            let connector = Connector::new(dir.join("ca.crt"), Some(front), &[b"h2"])?;
            let addresses = vec![format!("https://{next}").parse()?];
            tier = tier.next(Pool::new("next", addresses, connector, client_metrics.target("next")));
        }
    }
    let bound = tier.bind().await?;
    println!("{}", bound.address());
    bound.run(Shutdown::default()).await?;
    Ok(())
}

async fn bare(dir: &Path, body: Bytes) -> Result<(), Failure> {
    let identity = tls::Identity::load(files(dir, "server"))?;
    let acceptor = TlsAcceptor::from(Arc::new(triptych_server::tls::server_config(identity, true)?));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    loop {
        let (tcp, _) = listener.accept().await?;
        tcp.set_nodelay(true)?;
        let (acceptor, body) = (acceptor.clone(), body.clone());
        tokio::spawn(async move {
            let Ok(io) = acceptor.accept(tcp).await else { return };
            let service = hyper::service::service_fn(move |_request| {
                let response = http::Response::new(Full::new(body.clone()));
                std::future::ready(Ok::<_, std::convert::Infallible>(response))
            });
            let http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            // a client that leaves is nothing to report here
            let _ = http2.serve_connection(TokioIo::new(io), service).await;
        });
    }
}

struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(role: &str, dir: &Path, next: Option<SocketAddr>) -> Result<Server, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(role).arg(dir).stdout(Stdio::piped());
        if let Some(next) = next {
            command.arg(next.to_string());
        }
        let mut child = command.spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let address = line.trim().parse()?;
        Ok(Server { child, address })
    }

    fn cpu(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .map_or("", |(_, f)| f)
            .split_whitespace()
            .collect();
        let ticks = |i: usize| fields.get(i).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
        (ticks(11) + ticks(12)) / rustix::param::clock_ticks_per_second() as f64
    }

    fn resident_mb(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap_or("0");
        line.split_whitespace()
            .next()
            .and_then(|kb| kb.parse::<f64>().ok())
            .unwrap_or(0.0)
            / 1024.0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn measure(requests: usize) -> Result<(), Failure> {
    let dir = pki()?;
    let connector = Connector::new(dir.join("ca.crt"), None, &[b"h2"])?;
    let bare = Server::start("bare", &dir, None)?;
    let last = Server::start("last", &dir, None)?;
    let front = Server::start("front", &dir, Some(last.address))?;
    for (what, to, counted) in [
        ("bare hyper + rustls", bare.address, &[&bare][..]),
        ("a tier, directly", last.address, &[&last]),
        ("through a front tier", front.address, &[&front, &last]),
    ] {
        load(&connector, to, requests / 10).await?;
        let before: Vec<f64> = counted.iter().map(|s| s.cpu()).collect();
        let started = Instant::now();
        let mut latencies = load(&connector, to, requests).await?;
        let took = started.elapsed();
        latencies.sort_unstable();
        let each: Vec<f64> = counted
            .iter()
            .zip(before)
            .map(|(s, b)| (s.cpu() - b) * 1e3 / requests as f64)
            .collect();
        let memory: Vec<String> = counted.iter().map(|s| format!("{:.1}", s.resident_mb())).collect();
        println!(
            "{what:22} {:6.0}/s  CPU ms each {:.4} {each:.4?}  p50 {:?} p99 {:?}  MB {}",
            requests as f64 / took.as_secs_f64(),
            each.iter().sum::<f64>(),
            latencies[latencies.len() / 2],
            latencies[latencies.len() * 99 / 100],
            memory.join(" "),
        );
    }
    let before = last.resident_mb();
    let mut idle = Vec::new();
    for _ in 0..1000 {
        idle.push(connect(&connector, last.address).await?);
    }
    println!("1,000 idle connections: {:.1} MB more", last.resident_mb() - before);
    drop(idle);
    let mut hostile = Vec::new();
    for _ in 0..1000 {
        hostile.push(half_a_head(&connector, last.address).await?);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    println!(
        "1,000 connections with 60 KB of a head that does not end: {:.1} MB more",
        last.resident_mb() - before
    );
    std::fs::remove_dir_all(dir)?;
    Ok(())
}

type Send2 = hyper::client::conn::http2::SendRequest<Empty<Bytes>>;

async fn connect(connector: &Connector, to: SocketAddr) -> Result<Send2, Failure> {
    let tcp = TcpStream::connect(to).await?;
    tcp.set_nodelay(true)?;
    let name = rustls_pki_types::ServerName::try_from("localhost")?;
    let io = TlsConnector::from(connector.config()).connect(name, tcp).await?;
    let (send, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(io)).await?;
    tokio::spawn(connection);
    Ok(send)
}

async fn half_a_head(
    connector: &Connector,
    to: SocketAddr,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, Failure> {
    let tcp = TcpStream::connect(to).await?;
    let name = rustls_pki_types::ServerName::try_from("localhost")?;
    let config = connector.config_for(&[b"http/1.1"]);
    let mut io = TlsConnector::from(config).connect(name, tcp).await?;
    let head = format!("GET / HTTP/1.1\r\nHost: x\r\nX-Long: {}", "x".repeat(60 * 1024));
    tokio::io::AsyncWriteExt::write_all(&mut io, head.as_bytes()).await?;
    Ok(io)
}

/// Four connections, eight requests in flight on each; every answer is checked.
async fn load(connector: &Connector, to: SocketAddr, requests: usize) -> Result<Vec<Duration>, Failure> {
    let mut workers = Vec::new();
    for _ in 0..4 {
        let send = connect(connector, to).await?;
        for _ in 0..8 {
            workers.push(tokio::spawn(worker(send.clone(), requests / 32)));
        }
    }
    let mut latencies = Vec::with_capacity(requests);
    for worker in workers {
        latencies.extend(worker.await?.map_err(|e| e as Failure)?);
    }
    Ok(latencies)
}

async fn worker(mut send: Send2, requests: usize) -> Result<Vec<Duration>, Box<dyn std::error::Error + Send + Sync>> {
    let mut latencies = Vec::with_capacity(requests);
    for _ in 0..requests {
        let request = http::Request::builder()
            .uri(format!("https://localhost{PATH}"))
            .header("user-agent", "kubectl/v1.36.0 (linux/amd64) kubernetes/abcdef0")
            .header("accept", "application/json")
            .header("accept-encoding", "gzip")
            .body(Empty::new())?;
        let started = Instant::now();
        let response = send.send_request(request).await?;
        let code = response.status();
        let length = response.into_body().collect().await?.to_bytes().len();
        if code != 200 || length != 1024 {
            return Err(format!("a wrong answer: {code}, {length} bytes").into());
        }
        latencies.push(started.elapsed());
    }
    Ok(latencies)
}

fn pki() -> Result<PathBuf, Failure> {
    let dir = std::env::temp_dir().join(format!("hop-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    std::fs::write(dir.join("ca.crt"), ca.pem())?;
    for name in ["server", "client"] {
        let params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])?;
        let key = KeyPair::generate()?;
        std::fs::write(dir.join(format!("{name}.crt")), params.signed_by(&key, &ca)?.pem())?;
        std::fs::write(dir.join(format!("{name}.key")), key.serialize_pem())?;
    }
    Ok(dir)
}
