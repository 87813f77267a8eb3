//! A connection to a webhook's server, and Go's texts of what can go wrong with it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;

use super::trust;

/// Connects, and starts the connection's task, which ends with the last handle.
pub async fn connect(
    host: &str,
    port: u16,
    server_name: &str,
    config: Arc<rustls::ClientConfig>,
) -> Result<SendRequest<Full<Bytes>>, String> {
    let tcp = dial(host, port).await?;
    // latency matters more than the number of packets
    let _ = tcp.set_nodelay(true);
    let name = ServerName::try_from(server_name.to_owned()).map_err(|e| e.to_string())?;
    let tls = tokio_rustls::TlsConnector::from(config).connect(name, tcp).await;
    let tls = tls.map_err(|e| handshake_text(&e))?;
    let (send, connection) = http1::handshake(TokioIo::new(tls))
        .await
        .map_err(|e| exchange_text(&e))?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "connection to a webhook ended");
        }
    });
    Ok(send)
}

async fn dial(host: &str, port: u16) -> Result<TcpStream, String> {
    let addresses: Vec<SocketAddr> = match host.parse::<IpAddr>() {
        Ok(ip) => vec![SocketAddr::new(ip, port)],
        Err(_) => match tokio::net::lookup_host((host, port)).await {
            Ok(found) => found.collect(),
            Err(_) => Vec::new(),
        },
    };
    let mut first = format!("dial tcp: lookup {host}: no such host");
    for (index, address) in addresses.into_iter().enumerate() {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) if index == 0 => first = format!("dial tcp {address}: connect: {}", system_text(&error)),
            Err(_) => {}
        }
    }
    Err(first)
}

/// Go's text of a system error.
fn system_text(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
        io::ErrorKind::TimedOut => "connection timed out".to_owned(),
        io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
        io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
        io::ErrorKind::BrokenPipe => "broken pipe".to_owned(),
        _ => error.to_string(),
    }
}

fn handshake_text(error: &io::Error) -> String {
    if let Some(tls) = error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>()) {
        return trust::text(tls);
    }
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        _ => system_text(error),
    }
}

/// Go's text of an exchange that broke off.
pub fn exchange_text(error: &hyper::Error) -> String {
    if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
        return "EOF".to_owned();
    }
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref::<io::Error>() {
            return match io.kind() {
                io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
                _ => system_text(io),
            };
        }
        source = inner.source();
    }
    if error.is_parse() {
        return format!("net/http: HTTP/1.x transport connection broken: {error}");
    }
    error.to_string()
}
