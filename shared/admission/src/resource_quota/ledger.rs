//! Who charges quotas: one writer per namespace at a time, who takes together what has queued up.
//!
//! Contract: a charge is admitted only after the new usage was stored (compare-and-swap through the status subresource).
//! A lost race is retried three times with what won. What is charged stays charged even if the write it was for fails
//! later: the quota controller counts anew. Writes of one namespace queue up to a bound and wait for at most 10 s.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use triptych_object::{Status, StatusResult, Value, json};
use triptych_storage::{Source, View};

use super::quota::{Charge, Quota};

/// Lost races are tried again so often.
const RETRIES: usize = 3;
/// So many writes of one namespace may wait.
const MAX_WAITING: usize = 10_000;
/// A write waits no longer than this.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many just-written quotas are remembered until they are seen.
const MAX_RECENT: usize = 1_000;
/// After a lost race what won is waited for so long.
const CATCH_UP: Duration = Duration::from_secs(1);

/// Stores a quota's status; the quota as stored.
pub trait StatusWriter: Send + Sync + 'static {
    /// Replaces the status if the quota still has the resource version that `quota` names.
    fn write<'a>(&'a self, namespace: &'a str, name: &'a str, quota: &'a Value) -> BoxFuture<'a, StatusResult<Value>>;
}

struct Waiter {
    charge: Charge,
    answer: oneshot::Sender<StatusResult<()>>,
}

/// All quotas and who waits for them.
pub struct Ledger {
    source: Arc<dyn Source>,
    quotas: View<Quota>,
    writer: Arc<dyn StatusWriter>,
    recent: Mutex<HashMap<String, Arc<Quota>>>,
    waiting: Mutex<HashMap<String, Vec<Waiter>>>,
}

impl Ledger {
    /// Over quotas whose keys are `/resourcequotas/<namespace>/<name>`.
    pub fn new(source: Arc<dyn Source>, writer: Arc<dyn StatusWriter>) -> Arc<Ledger> {
        let quotas = View::new(source.clone(), |object| {
            Some(Quota::of(json::from_slice(object.bytes()).ok()?))
        });
        Arc::new(Ledger {
            source,
            quotas,
            writer,
            recent: Mutex::default(),
            waiting: Mutex::default(),
        })
    }

    /// The quotas of a namespace, each as of its last change that is known of.
    pub fn quotas(&self, namespace: &str) -> StatusResult<Vec<Arc<Quota>>> {
        let Some(view) = self.quotas.load() else {
            return Err(Status::too_many_requests("storage is (re)initializing", 1));
        };
        let scope = format!("/resourcequotas/{namespace}/");
        let known = view.range(&scope).cloned();
        let mut recent = self.recent.lock();
        let latest = |quota: Arc<Quota>| {
            let key = format!("{namespace}/{}", quota.name);
            match recent.get(&key) {
                Some(written) if written.revision() > quota.revision() => written.clone(),
                Some(_) => {
                    recent.remove(&key);
                    quota
                }
                None => quota,
            }
        };
        Ok(known.map(latest).collect())
    }

    /// Charges a write to the quotas of its namespace.
    pub async fn charge(self: &Arc<Self>, namespace: &str, charge: Charge) -> StatusResult<()> {
        let (answer, answered) = oneshot::channel();
        let waiter = Waiter { charge, answer };
        let first = {
            let mut waiting = self.waiting.lock();
            match waiting.get_mut(namespace) {
                Some(queue) if queue.len() >= MAX_WAITING => {
                    return Err(Status::too_many_requests(
                        "too many requests wait for resource quota",
                        1,
                    ));
                }
                Some(queue) => {
                    queue.push(waiter);
                    false
                }
                None => {
                    waiting.insert(namespace.to_owned(), vec![waiter]);
                    true
                }
            }
        };
        if first {
            let shift = Shift {
                ledger: self.clone(),
                namespace: namespace.to_owned(),
            };
            tokio::spawn(shift.work());
        }
        match tokio::time::timeout(PATIENCE, answered).await {
            Ok(Ok(outcome)) => outcome,
            _ => Err(Status::internal("resource quota evaluation timed out")),
        }
    }

    async fn check(&self, namespace: &str, waiters: Vec<Waiter>) {
        let mut open = waiters;
        let mut only: Option<Vec<String>> = None;
        for attempt in 0..=RETRIES {
            let quotas = match self.quotas(namespace) {
                Ok(quotas) => quotas,
                Err(status) => return answer_all(open, &Err(status)),
            };
            let concerned = |quota: &&Arc<Quota>| only.as_ref().is_none_or(|names| names.contains(&quota.name));
            let quotas: Vec<Arc<Quota>> = quotas.iter().filter(concerned).cloned().collect();
            let mut running: Vec<Quota> = quotas.iter().map(|quota| (**quota).clone()).collect();
            open = settle(open, &mut running);
            if open.is_empty() {
                return;
            }
            let Err((status, failed)) = self.store(namespace, &quotas, &running).await else {
                return answer_all(open, &Ok(()));
            };
            if attempt == RETRIES {
                return answer_all(open, &Err(status));
            }
            // what won has to be seen before it can be charged
            let _ = self.source.consistent(CATCH_UP).await;
            only = Some(failed);
        }
    }

    /// Stores what changed; the last failure, and the names of all quotas that could not be stored.
    async fn store(
        &self,
        namespace: &str,
        before: &[Arc<Quota>],
        after: &[Quota],
    ) -> Result<(), (Box<Status>, Vec<String>)> {
        let mut failure: Option<(Box<Status>, Vec<String>)> = None;
        for (before, after) in before.iter().zip(after) {
            if before.used == after.used {
                continue;
            }
            let key = format!("{namespace}/{}", after.name);
            match self.writer.write(namespace, &after.name, &after.document()).await {
                Ok(stored) => {
                    let mut recent = self.recent.lock();
                    if recent.len() >= MAX_RECENT {
                        recent.clear();
                    }
                    recent.insert(key, Arc::new(Quota::of(stored)));
                }
                Err(status) => {
                    self.recent.lock().remove(&key);
                    let mut failed = failure.map(|(_, names)| names).unwrap_or_default();
                    failed.push(after.name.clone());
                    failure = Some((status, failed));
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }
}

/// Answers who is refused, changes nothing or only tries; who is left waits for usage to be stored.
fn settle(waiters: Vec<Waiter>, quotas: &mut [Quota]) -> Vec<Waiter> {
    let mut open = Vec::new();
    for waiter in waiters {
        let outcome = if waiter.charge.dry_run {
            let mut tried = quotas.to_vec();
            waiter.charge.apply(&mut tried).map(|_| false)
        } else {
            waiter.charge.apply(quotas)
        };
        match outcome {
            Ok(true) => open.push(waiter),
            // whoever does not listen any more does not need an answer
            Ok(false) => drop(waiter.answer.send(Ok(()))),
            Err(status) => drop(waiter.answer.send(Err(status))),
        }
    }
    open
}

fn answer_all(waiters: Vec<Waiter>, outcome: &StatusResult<()>) {
    for waiter in waiters {
        drop(waiter.answer.send(outcome.clone()));
    }
}

/// Works off a namespace's queue until it is empty; however it ends, the next write begins a new one.
struct Shift {
    ledger: Arc<Ledger>,
    namespace: String,
}

impl Shift {
    async fn work(self) {
        loop {
            let batch = {
                let mut waiting = self.ledger.waiting.lock();
                match waiting.get_mut(&self.namespace) {
                    Some(queue) if !queue.is_empty() => std::mem::take(queue),
                    _ => {
                        waiting.remove(&self.namespace);
                        return;
                    }
                }
            };
            self.ledger.check(&self.namespace, batch).await;
        }
    }
}

impl Drop for Shift {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.ledger.waiting.lock().remove(&self.namespace);
        }
    }
}
