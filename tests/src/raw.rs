//! A TLS connection on which a test writes what it likes: for what no HTTP client would send.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use triptych_local::client;
use triptych_local::cluster::Cluster;
use triptych_local::tier::Instance;

/// Answers are waited for so long.
const PATIENCE: Duration = Duration::from_secs(20);
/// More of an answer is not read.
const MOST: u64 = 64 * 1024;

/// One connection.
#[derive(Debug)]
pub struct Raw(TlsStream<TcpStream>);

impl Raw {
    /// To one process, with HTTP/1.1 (or, with `h2`, HTTP/2) agreed on, as the administrator.
    pub async fn connect(cluster: &Cluster, instance: Instance, h2: bool) -> io::Result<Raw> {
        let stream = Raw::tcp(cluster, instance).await?;
        let mut config = client::tls(&cluster.wiring().layout, Some("admin"))?;
        config.alpn_protocols = vec![if h2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
        let name = "localhost".try_into().map_err(io::Error::other)?;
        Ok(Raw(TlsConnector::from(Arc::new(config)).connect(name, stream).await?))
    }

    /// Without TLS.
    pub async fn tcp(cluster: &Cluster, instance: Instance) -> io::Result<TcpStream> {
        let address = cluster.wiring().address(instance).ok_or(io::ErrorKind::NotFound)?;
        TcpStream::connect(address).await
    }

    /// The certificate that the server shows, DER.
    pub fn server_certificate(&self) -> Vec<u8> {
        let (_, tls) = self.0.get_ref();
        let chain = tls.peer_certificates().unwrap_or_default();
        chain.first().map(|leaf| leaf.to_vec()).unwrap_or_default()
    }

    /// Sends bytes as they are.
    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes).await?;
        self.0.flush().await
    }

    /// What comes back until the other side is done, or falls silent; at most 64 KiB.
    pub async fn answer(&mut self) -> String {
        let mut all = Vec::new();
        // A connection that is closed hard still gave what it gave.
        let _ = tokio::time::timeout(PATIENCE, (&mut self.0).take(MOST).read_to_end(&mut all)).await;
        String::from_utf8_lossy(&all).into_owned()
    }
}
