//! A watcher that resumes as client-go's reflector does: one list, then watches from the last resourceVersion it was told,
//! whatever breaks them. It keeps what it saw, so that a test can tell a lost change from one told twice.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::JoinHandle;
use triptych_local::client::{ApiClient, ClientError};

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// One event of a watch, bookmarks excepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub kind: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.resourceVersion`.
    pub revision: u64,
}

/// A watch of one collection in a task of its own, which ends when this is dropped.
#[derive(Debug)]
pub struct Watcher {
    seen: Arc<Mutex<Vec<Seen>>>,
    broken: Arc<Mutex<Option<String>>>,
    task: JoinHandle<()>,
}

impl Watcher {
    /// Lists `path` (without query), then watches it from there.
    pub async fn start(client: ApiClient, path: &str) -> Result<Watcher, ClientError> {
        let list = client.get(path).await?.json()?;
        let from = revision_of(&list);
        let (seen, broken) = (
            Arc::<Mutex<Vec<Seen>>>::default(),
            Arc::<Mutex<Option<String>>>::default(),
        );
        let task = tokio::spawn(follow(client, path.to_owned(), from, seen.clone(), broken.clone()));
        Ok(Watcher { seen, broken, task })
    }

    /// What was seen so far, in order.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().clone()
    }

    /// The highest revision seen.
    pub fn last(&self) -> u64 {
        self.seen.lock().last().map_or(0, |seen| seen.revision)
    }

    /// Why it could not go on, if so: a watcher that must list again may have missed changes.
    pub fn broken(&self) -> Option<String> {
        self.broken.lock().clone()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// `metadata.resourceVersion` as a number; 0 where there is none.
pub fn revision_of(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

async fn follow(
    client: ApiClient,
    path: String,
    mut from: u64,
    seen: Arc<Mutex<Vec<Seen>>>,
    broken: Arc<Mutex<Option<String>>>,
) {
    loop {
        let query = format!("{path}?watch=true&allowWatchBookmarks=true&resourceVersion={from}");
        if let Ok(mut lines) = client.watch(&query).await {
            while let Ok(Some(line)) = lines.next().await {
                let (kind, object) = (line["type"].as_str().unwrap_or_default(), &line["object"]);
                let status = if line["kind"] == "Status" { &line } else { object };
                if status["kind"] == "Status" {
                    if status["code"] == 410 {
                        *broken.lock() = Some(format!("watch of {path} from {from}: {status}"));
                        return;
                    }
                    break;
                }
                from = revision_of(object);
                if kind != "BOOKMARK" {
                    seen.lock().push(Seen {
                        kind: kind.to_owned(),
                        name: object["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
                        revision: from,
                    });
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}
