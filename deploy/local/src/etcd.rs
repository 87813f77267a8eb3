//! An etcd of the tests' own: one process on free loopback ports, its data in a temporary directory.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::ports;

/// A running etcd; it ends when this is dropped.
#[derive(Debug)]
pub struct Etcd {
    url: String,
    process: Child,
    _data: tempfile::TempDir,
}

impl Etcd {
    /// The etcd binary that `TRIPTYCH_ETCD` names, which `./test` sets; without it tests on etcd are skipped.
    pub fn binary() -> Option<PathBuf> {
        std::env::var_os("TRIPTYCH_ETCD")
            .filter(|path| !path.is_empty())
            .map(PathBuf::from)
    }

    /// Starts `binary` and waits until it answers.
    pub async fn start(binary: PathBuf) -> io::Result<Self> {
        let data = tempfile::tempdir()?;
        let [client, peer] = ports::free_loopback()?;
        let url = format!("http://{client}");
        let log = std::fs::File::create(data.path().join("etcd.log"))?;
        let process = Command::new(binary)
            .arg("--data-dir")
            .arg(data.path().join("etcd"))
            .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
            .args(["--listen-peer-urls", &format!("http://{peer}")])
            .args(["--log-level", "error"])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?;
        let mut etcd = Self {
            url,
            process,
            _data: data,
        };
        let deadline = Instant::now() + Duration::from_secs(20);
        while !healthy(client).await {
            if let Some(status) = etcd.process.try_wait()? {
                return Err(io::Error::other(format!("etcd ended: {status}")));
            }
            if Instant::now() > deadline {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "etcd does not become healthy"));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(etcd)
    }

    /// Its client URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its process id.
    pub fn id(&self) -> Option<u32> {
        self.process.id()
    }
}

async fn healthy(address: std::net::SocketAddr) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"GET /health HTTP/1.0\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        io::Result::Ok(answer)
    };
    let answer = tokio::time::timeout(Duration::from_secs(1), ask).await;
    matches!(answer, Ok(Ok(answer)) if answer.contains("\"health\":\"true\""))
}
