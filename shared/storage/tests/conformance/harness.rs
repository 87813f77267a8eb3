//! Backends to run the suite over; each owns what it started.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use triptych_storage::embedded::EmbeddedOptions;
use triptych_storage::{
    Batch, Change, Embedded, Etcd, EtcdOptions, Expect, Metrics, Prefixed, Revision, Store, Watch, Write, WriteError,
};

pub struct Backend {
    pub store: Arc<dyn Store>,
    /// Removed with the backend.
    #[allow(dead_code)] // kept for its Drop, which removes the folder
    folder: tempfile::TempDir,
    server: Option<EtcdServer>,
}

/// An etcd of one member, killed when dropped.
pub struct EtcdServer {
    command: Command,
    process: Child,
    pub url: String,
}

impl EtcdServer {
    /// Starts the etcd that `deploy/tools/get-etcd` finds, on ports of its own.
    pub fn start(folder: &Path) -> Self {
        Self::start_with(folder, "http", &[])
    }

    /// As `start`, clients come by `scheme`, with more flags.
    pub fn start_with(folder: &Path, scheme: &str, flags: &[&str]) -> Self {
        let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/tools/get-etcd");
        let found = Command::new(tool).output().unwrap();
        assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
        let binary = String::from_utf8(found.stdout).unwrap();
        let [url, peers] = [scheme, "http"].map(|scheme| {
            let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            format!("{scheme}://{}", free.local_addr().unwrap())
        });
        let mut command = Command::new(binary.trim());
        command
            .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
            .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &format!("default={peers}"), "--data-dir"])
            .arg(folder)
            .args(flags)
            .args(["--log-level", "error", "--unsafe-no-fsync"])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = command.spawn().unwrap();
        Self { command, process, url }
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Backend {
    pub fn embedded() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(Embedded::open(folder.path(), EmbeddedOptions::default()).unwrap());
        Self {
            store,
            folder,
            server: None,
        }
    }

    pub async fn etcd() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = EtcdServer::start(folder.path());
        let options = EtcdOptions {
            servers: vec![server.url.clone()],
            ..EtcdOptions::default()
        };
        let metrics = Metrics::new(&prometheus::Registry::new()).unwrap();
        let etcd: Arc<dyn Store> = Arc::new(Etcd::connect(&options, &metrics).await.unwrap());
        in_time(async {
            while etcd.current_revision().await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        let store = Arc::new(Prefixed::new(etcd, "/registry"));
        Self {
            store,
            folder,
            server: Some(server),
        }
    }

    /// Kills the etcd as an outage would.
    pub fn kill_etcd(&mut self) {
        let server = self.server.as_mut().unwrap();
        server.process.kill().unwrap();
        server.process.wait().unwrap();
    }

    /// Starts it again on its data.
    pub fn restart_etcd(&mut self) {
        let server = self.server.as_mut().unwrap();
        server.process = server.command.spawn().unwrap();
    }

    pub fn prefixed() -> Self {
        let Self { store, folder, server } = Self::embedded();
        Self {
            store: Arc::new(Prefixed::new(store, "/registry")),
            folder,
            server,
        }
    }
}

/// Nothing in the suite takes as long as this unless it hangs.
const PATIENCE: Duration = Duration::from_secs(20);

pub async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("the store did not answer in time")
}

pub async fn put(store: &Arc<dyn Store>, key: &str, expect: Expect, value: &str) -> Result<Revision, WriteError> {
    let put = Some(value.to_owned().into());
    in_time(store.write(Write {
        key,
        expect,
        put,
        ttl: None,
    }))
    .await
}

pub async fn create(store: &Arc<dyn Store>, key: &str, value: &str) -> Revision {
    put(store, key, Expect::Absent, value).await.unwrap()
}

pub async fn update(store: &Arc<dyn Store>, key: &str, revision: Revision, value: &str) -> Revision {
    put(store, key, Expect::Revision(revision), value).await.unwrap()
}

pub async fn delete(store: &Arc<dyn Store>, key: &str, revision: Revision) -> Revision {
    in_time(store.write(Write {
        key,
        expect: Expect::Revision(revision),
        put: None,
        ttl: None,
    }))
    .await
    .unwrap()
}

/// Reads a watch until it has given so many changes.
pub async fn changes(watch: &mut Watch, count: usize) -> Vec<Change> {
    let mut all = Vec::new();
    while all.len() < count {
        match in_time(watch.batches.next()).await.expect("the watch ended").unwrap() {
            Batch::Changes(changes) => all.extend(changes),
            Batch::Progress(_) => {}
            Batch::Compacted(revision) => panic!("compacted at {revision}"),
        }
    }
    all
}

/// `key=value` or `-key`, with the revision.
pub fn told(changes: &[Change]) -> Vec<(String, Revision)> {
    let text = |change: &Change| match change {
        Change::Put(entry) => format!("{}={}", entry.key, String::from_utf8_lossy(&entry.value)),
        Change::Delete { key, .. } => format!("-{key}"),
    };
    changes.iter().map(|change| (text(change), change.revision())).collect()
}
