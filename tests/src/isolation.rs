//! What others' load does to a GET: idle, beside 1,000 forwarded watches of which 100 are never read, and beside 8 parallel
//! lists of 100 MB of custom resources. All of it goes through the same aggregator.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use http::Method;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use triptych_local::client::{Answer, ApiClient, ClientError};
use triptych_local::cluster::Cluster;
use triptych_local::tier::Tier;

use crate::load::{self, Latencies, Watches};
use crate::usage::Usage;
use crate::{crd, eventually};

const READERS: usize = 900;
const STALLED: usize = 100;
const LISTS: usize = 8;
const OBJECTS: usize = 1_000;
const OBJECT_BYTES: usize = 100_000;
/// Between two writes that all watchers hear of.
const WRITE_EVERY: Duration = Duration::from_millis(100);

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/isolation.example.com/v1/namespaces/default/widgets";
const GET: &str = "/api/v1/namespaces/default";

/// What was measured.
#[derive(Debug)]
pub struct Isolation {
    /// A GET with nothing else going on.
    pub idle: Latencies,
    /// Beside the watches.
    pub watches: Beside,
    /// Beside the lists.
    pub lists: Beside,
    /// Bytes by which core-api's peak grew over all of it.
    pub core_api_growth: u64,
}

/// A GET beside other load.
#[derive(Debug)]
pub struct Beside {
    /// The GET.
    pub get: Latencies,
    /// Events that arrived at watchers that read.
    pub delivered: u64,
    /// Bytes of lists that arrived.
    pub bytes: usize,
}

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum IsolationError {
    /// A request.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// `/proc`.
    #[error(transparent)]
    Usage(#[from] io::Error),
    /// An answer that should be another.
    #[error("{what}: {answer}")]
    Answer {
        /// The request.
        what: &'static str,
        /// The answer.
        answer: String,
    },
}

fn expect(what: &'static str, status: u16, answer: &Answer) -> Result<(), IsolationError> {
    if answer.status == status {
        return Ok(());
    }
    let answer = answer.text();
    Err(IsolationError::Answer { what, answer })
}

/// Measures each for `time`.
pub async fn measure(cluster: &Cluster, time: Duration) -> Result<Isolation, IsolationError> {
    let fresh = || cluster.client_of(Tier::Aggregator.first(), Some("admin"));
    let core_api = cluster.pid(Tier::CoreApi.first()).unwrap_or_default();
    fill(cluster.client()).await?;
    let getter = [fresh()?];
    let ok = |answer: &Answer| answer.status == 200 && answer.body.starts_with(b"{\"kind\":\"Namespace\"");
    let get = || load::gets(&getter, 1, GET, None, time, ok);
    get().await; // connections are made, caches warm
    let before = Usage::of(core_api)?;
    let idle = get().await;

    let (stop, clients) = (Arc::new(AtomicBool::new(false)), Watches::connections(READERS, STALLED));
    let clients: Vec<ApiClient> = (0..clients).map(|_| fresh()).collect::<Result<_, _>>()?;
    let (opened, open) = oneshot::channel();
    let watcher = elsewhere(watch(clients, opened, stop.clone()))?;
    // when it cannot open them its result says why
    let _ = open.await;
    let writer = tokio::spawn(count(fresh()?, stop.clone()));
    let latencies = get().await;
    stop.store(true, Ordering::Relaxed);
    // The writer fails only with its client; then nothing was delivered, which the caller sees.
    let _ = writer.await;
    let watches = Beside {
        get: latencies,
        delivered: watcher
            .join()
            .map_err(|_| io::Error::other("the watchers panicked"))??,
        bytes: 0,
    };

    let listing = Arc::new(AtomicBool::new(true));
    let clients: Vec<ApiClient> = (0..LISTS).map(|_| fresh()).collect::<Result<_, _>>()?;
    let reader = elsewhere(read_lists(clients, listing.clone()))?;
    let latencies = get().await;
    listing.store(false, Ordering::Relaxed);
    let bytes = reader
        .join()
        .map_err(|_| io::Error::other("the reader of the lists panicked"))??;
    let lists = Beside {
        get: latencies,
        delivered: 0,
        bytes,
    };
    Ok(Isolation {
        idle,
        watches,
        lists,
        core_api_growth: Usage::of(core_api)?.peak.saturating_sub(before.resident),
    })
}

/// Runs on a thread that everything else goes before: these clients would be other machines.
fn elsewhere<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> io::Result<JoinHandle<T>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(std::thread::spawn(move || {
        // Where it is not allowed the figures are those of a busier machine.
        let _ = rustix::process::setpriority_process(None, 19);
        runtime.block_on(work)
    }))
}

/// Holds the watches until told to stop; how many events arrived.
async fn watch(
    clients: Vec<ApiClient>,
    opened: oneshot::Sender<()>,
    stop: Arc<AtomicBool>,
) -> Result<u64, ClientError> {
    let path = format!("{WIDGETS}?watch=true&resourceVersion=0&fieldSelector=metadata.name%3Dcounter");
    let watches = Watches::open(&clients, &path, READERS, STALLED).await?;
    // who measures may have given up
    let _ = opened.send(());
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(watches.delivered())
}

async fn read_lists(clients: Vec<ApiClient>, listing: Arc<AtomicBool>) -> Result<usize, ClientError> {
    let mut lists = JoinSet::new();
    for client in clients {
        let listing = listing.clone();
        lists.spawn(async move {
            let mut bytes = 0;
            while listing.load(Ordering::Relaxed) || bytes == 0 {
                bytes += load::drain(&client, &format!("{WIDGETS}?resourceVersion=0")).await?;
            }
            Ok::<_, ClientError>(bytes)
        });
    }
    let mut bytes = 0;
    while let Some(Ok(list)) = lists.join_next().await {
        bytes += list?;
    }
    Ok(bytes)
}

/// Makes what is watched and listed, once for a cluster.
async fn fill(client: &ApiClient) -> Result<(), IsolationError> {
    if client.get(&format!("{WIDGETS}/counter")).await?.status == 200 {
        return Ok(());
    }
    let answer = client
        .send_json(Method::POST, CRDS, &crd("isolation.example.com"))
        .await?;
    expect("create the definition", 201, &answer)?;
    eventually("widgets are served", async || {
        client.get(WIDGETS).await.is_ok_and(|a| a.status == 200)
    })
    .await;
    let filling = "x".repeat(OBJECT_BYTES);
    let named = |name: String, filling: &str| {
        json!({
            "apiVersion": "isolation.example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"filling": filling},
        })
    };
    for number in 0..OBJECTS {
        let widget = named(format!("w{number}"), &filling);
        let answer = client.send_json(Method::POST, WIDGETS, &widget).await?;
        expect("create a widget", 201, &answer)?;
    }
    let answer = client
        .send_json(Method::POST, WIDGETS, &named("counter".to_owned(), ""))
        .await?;
    expect("create the counter", 201, &answer)
}

async fn count(client: ApiClient, stop: Arc<AtomicBool>) -> Result<(), ClientError> {
    let filling = "y".repeat(1_300);
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let patch = json!({"spec": {"filling": filling, "number": number}});
        client
            .send_json(Method::PATCH, &format!("{WIDGETS}/counter"), &patch)
            .await?;
        tokio::time::sleep(WRITE_EVERY).await;
    }
    Ok(())
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |f: &mut fmt::Formatter<'_>, what: &str, get: &Latencies| {
            let (p50, p99) = (get.quantile(0.5), get.quantile(0.99));
            writeln!(
                f,
                "{what:<40} {:>7} GETs  p50 {p50:>9.2?}  p99 {p99:>9.2?}",
                get.count()
            )
        };
        line(f, "idle", &self.idle)?;
        line(f, "beside 1,000 watches, 100 unread", &self.watches.get)?;
        line(f, "beside 8 lists of 100 MB", &self.lists.get)?;
        let megabytes = self.lists.bytes / 1_000_000;
        writeln!(f, "{} events delivered, {megabytes} MB listed", self.watches.delivered)?;
        write!(
            f,
            "core-api's peak grew by {:.1} MB",
            to_megabytes(self.core_api_growth)
        )
    }
}

/// For messages.
#[allow(clippy::cast_precision_loss)] // megabytes with one decimal
pub fn to_megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
