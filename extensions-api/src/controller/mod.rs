//! The controllers of CRDs, as one: a list of small ordered steps over a CRD's status, and the cleaning up of what a
//! deleted CRD leaves.
//!
//! Contract: one CRD after the other, in the order of their changes. Steps only look and set conditions; what they come
//! to is one write of the status, as field manager `kube-apiserver`. A write that lost against another replica is not
//! repeated: the winner's change comes along and is looked at anew. A CRD that frees names wakes those that wait for them.

mod approval;
mod cleanup;
mod establishing;
mod naming;
mod non_structural;
mod status;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use triptych_object::{Value, json};
use triptych_storage::cache::{EventKind, Interest, Start, Watcher};
use triptych_storage::{Cache, View};

use crate::custom::claims::CustomResources;
use crate::definition::PREFIX;
use crate::definition::summary::Summary;

pub use status::StatusWriter;

/// After a failure a CRD is looked at again.
const RETRY: Duration = Duration::from_millis(500);
/// How long to wait for the cache to show what was just written.
const OWN_WRITE: Duration = Duration::from_secs(5);
/// What may wait for its turn; beyond it the whole of all CRDs is looked at again.
const MAX_WAITING: usize = 100_000;

/// What a step may know besides the CRD.
pub struct Surroundings<'a> {
    /// All other CRDs of the group.
    pub others: Vec<&'a Summary>,
    /// The time.
    pub now: Timestamp,
}

/// One thing that is seen to.
type Step = fn(&mut Value, &Surroundings<'_>);

/// In this order: a later step builds on what an earlier one found.
const STEPS: [(&str, Step); 4] = [
    ("naming", naming::step),
    ("non-structural schema", non_structural::step),
    ("api approval", approval::step),
    ("establishing", establishing::step),
];

/// Runs all steps on a CRD; true if anything changed.
fn run_steps(crd: &mut Value, around: &Surroundings<'_>) -> bool {
    let before = crd.get("status").cloned();
    for (_, step) in STEPS {
        step(crd, around);
    }
    crd.get("status") != before.as_ref()
}

/// The controllers.
pub struct Controllers {
    /// The CRDs.
    pub definitions: Arc<Cache>,
    /// The CRDs in short.
    pub view: Arc<View<Summary>>,
    /// Where statuses are written.
    pub status: StatusWriter,
    /// Where objects of deleted CRDs are found.
    pub custom: Arc<CustomResources>,
    /// CRDs whose objects are being deleted.
    cleaning: Mutex<HashSet<String>>,
    /// Bounds how many at once.
    permits: Semaphore,
}

impl Controllers {
    /// Controllers that do nothing yet.
    pub fn new(
        definitions: Arc<Cache>,
        view: Arc<View<Summary>>,
        status: StatusWriter,
        custom: Arc<CustomResources>,
    ) -> Arc<Controllers> {
        Arc::new(Controllers {
            definitions,
            view,
            status,
            custom,
            cleaning: Mutex::default(),
            permits: Semaphore::new(cleanup::AT_ONCE),
        })
    }

    /// Runs for ever.
    pub async fn run(self: Arc<Self>) {
        self.definitions.filled().await;
        let mut waiting = BTreeSet::new();
        loop {
            let Ok((snapshot, mut watcher)) = self.definitions.watch(Start::Now, Interest::all()) else {
                tokio::time::sleep(RETRY).await;
                continue;
            };
            waiting.extend(snapshot.range("").map(|object| object.name().to_owned()));
            self.follow(&mut waiting, &mut watcher).await;
        }
    }

    /// Until the watch ends.
    async fn follow(self: &Arc<Self>, waiting: &mut BTreeSet<String>, watcher: &mut Watcher) {
        let mut failed: BTreeSet<String> = BTreeSet::new();
        loop {
            while let Some(event) = watcher.try_next() {
                self.note(&event, waiting);
            }
            if let Some(name) = waiting.pop_first() {
                match self.reconcile(&name, waiting).await {
                    Ok(()) => {}
                    Err(why) => {
                        tracing::info!(crd = name, why, "a custom resource definition is looked at again");
                        failed.insert(name);
                    }
                }
                continue;
            }
            let next = async {
                match failed.is_empty() {
                    true => Ok(watcher.next().await),
                    false => tokio::time::timeout(RETRY, watcher.next()).await,
                }
            };
            match next.await {
                Ok(Some(event)) => self.note(&event, waiting),
                Ok(None) => {
                    waiting.append(&mut failed);
                    return;
                }
                Err(_) => waiting.append(&mut failed),
            }
        }
    }

    fn note(&self, event: &triptych_storage::cache::Event, waiting: &mut BTreeSet<String>) {
        let name = event.object().name().to_owned();
        if event.kind() == EventKind::Deleted {
            self.wake_group(&name, waiting);
        } else if waiting.len() < MAX_WAITING {
            waiting.insert(name);
        }
    }

    /// Those of the group that have not got all their names yet.
    fn wake_group(&self, name: &str, waiting: &mut BTreeSet<String>) {
        let Some((_, group)) = name.split_once('.') else { return };
        let Some(known) = self.view.load() else { return };
        let stuck = known.iter().map(|(_, crd)| crd);
        let stuck = stuck.filter(|crd| crd.group == group && crd.name != name && crd.wanted != crd.accepted);
        waiting.extend(stuck.map(|crd| crd.name.clone()));
    }

    async fn reconcile(self: &Arc<Self>, name: &str, waiting: &mut BTreeSet<String>) -> Result<(), String> {
        let Some(known) = self.view.load() else { return Ok(()) };
        let Some(summary) = known.get(&format!("{PREFIX}/{name}")) else {
            return Ok(());
        };
        let mut crd = json::from_slice(&summary.object).map_err(|e| e.message)?;
        let around = Surroundings {
            others: known
                .iter()
                .map(|(_, other)| &**other)
                .filter(|other| other.group == summary.group && other.name != summary.name)
                .collect(),
            now: Timestamp::now(),
        };
        if run_steps(&mut crd, &around) {
            let revision = self.status.write(&crd).await?;
            if let Some(revision) = revision {
                // the next CRD must see which names are taken
                let _ = self.definitions.at_least(revision, OWN_WRITE).await;
            }
            self.wake_group(name, waiting);
            // what was written comes along as an event
            return Ok(());
        }
        if summary.deleted {
            cleanup::begin(self, summary);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
