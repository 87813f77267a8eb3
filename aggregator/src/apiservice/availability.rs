//! Keeping the condition `Available` of APIServices (kube-apiserver's two available-condition controllers).
//!
//! Contract: a local APIService is available. A remote one is asked for its group-version whenever it, its Service or its
//! endpoints change, every [`RESYNC`], and sooner and sooner again less often while it fails. Failures to reach a server
//! are not written before this server was ready itself: they may be its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Method};
use jiff::Timestamp;
use tokio::task::JoinSet;
use tokio::time::Instant;
use triptych_client::body::Outgoing;
use triptych_client::pool::{Class, Head};
use triptych_object::user::MASTERS;
use triptych_object::{UserInfo, json};
use triptych_registry::loopback::Loopback;
use triptych_server::headers::RemoteUser;
use triptych_server::lifecycle::{Lifecycle, Phase};

use super::condition::{self, Available};
use super::metrics::Metrics;
use super::record::{ApiService, ApiServiceView};
use super::remotes::{Remote, Remotes, Server};
use super::{KEYS, TARGET};

/// Between questions to a server that answers.
const RESYNC: Duration = Duration::from_secs(30);
/// After the first failure; doubled by each further one, up to [`RESYNC`].
const FIRST_RETRY: Duration = Duration::from_millis(5);
/// For an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Changes that come together are handled together.
const SETTLE: Duration = Duration::from_millis(10);
/// Until a status that could not be written is tried again.
const WRITE_AGAIN: Duration = Duration::from_millis(250);

/// Keeps the conditions.
pub struct Availability {
    services: Arc<ApiServiceView>,
    remotes: Arc<Remotes>,
    loopback: Loopback,
    lifecycle: Lifecycle,
    metrics: Metrics,
}

/// What was asked of a server and when it is to be asked again.
struct Known {
    remote: Arc<Remote>,
    asking: bool,
    outcome: Option<Available>,
    failures: u32,
    due: Instant,
}

impl Known {
    fn new(remote: Arc<Remote>) -> Known {
        Known {
            remote,
            asking: false,
            outcome: None,
            failures: 0,
            due: Instant::now(),
        }
    }

    /// Another server, or another APIService, has to be asked anew; its condition alone may change.
    fn is_of(&self, remote: &Remote) -> bool {
        let same_server = match (&self.remote.server, &remote.server) {
            (Ok(a), Ok(b)) => Arc::ptr_eq(a, b),
            (Err(a), Err(b)) => a == b,
            _ => false,
        };
        same_server && self.remote.service.uid == remote.service.uid
    }

    fn answered(&mut self, outcome: Available) {
        self.asking = false;
        let wait = if outcome.status == "True" {
            self.failures = 0;
            RESYNC
        } else {
            let wait = FIRST_RETRY.saturating_mul(1 << self.failures.min(13));
            self.failures += 1;
            wait.min(RESYNC)
        };
        self.due = Instant::now() + wait;
        self.outcome = Some(outcome);
    }
}

impl Availability {
    /// Writes through `loopback`.
    pub fn new(
        services: Arc<ApiServiceView>,
        remotes: Arc<Remotes>,
        loopback: Loopback,
        lifecycle: Lifecycle,
        metrics: Metrics,
    ) -> Availability {
        Availability {
            services,
            remotes,
            loopback,
            lifecycle,
            metrics,
        }
    }

    /// Keeps them, for ever.
    pub async fn keep(self) {
        let mut changed = self.remotes.subscribe();
        let mut known: HashMap<Arc<str>, Known> = HashMap::new();
        let mut questions: JoinSet<(Arc<str>, Arc<Remote>, Available)> = JoinSet::new();
        loop {
            changed.borrow_and_update();
            let mut wanted = self.local();
            self.count();
            self.remember(&mut known);
            for (name, entry) in &mut known {
                if let Some(told) = self.judge(name, entry, &mut questions) {
                    wanted.push((Arc::clone(name), told));
                }
            }
            let again = match self.write_all(wanted).await {
                true => RESYNC,
                false => WRITE_AGAIN,
            };
            let due = known.values().filter(|k| !k.asking).map(|k| k.due).min();
            let next = due.map_or(Instant::now() + again, |due| due.min(Instant::now() + again));
            tokio::select! {
                outcome = changed.changed() => {
                    if outcome.is_err() { return }
                    tokio::time::sleep(SETTLE).await;
                }
                Some(Ok((name, remote, outcome))) = questions.join_next() => {
                    if let Some(entry) = known.get_mut(&name).filter(|k| k.is_of(&remote)) {
                        entry.answered(outcome);
                    }
                }
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    /// Local APIServices whose condition says something else.
    fn local(&self) -> Vec<(Arc<str>, Available)> {
        let Some(services) = self.services.load() else {
            return Vec::new();
        };
        let local = services.iter().filter(|(_, s)| s.service.is_none() && !s.told_local);
        local.map(|(_, s)| (Arc::clone(&s.name), Available::local())).collect()
    }

    fn count(&self) {
        if let Some(services) = self.services.load() {
            self.metrics.show(services.iter().map(|(_, s)| (&s.name, s.available)));
        }
    }

    fn remember(&self, known: &mut HashMap<Arc<str>, Known>) {
        let remotes = self.remotes.all();
        known.retain(|name, _| remotes.iter().any(|r| r.service.name == *name));
        for remote in remotes {
            let entry = known
                .entry(Arc::clone(&remote.service.name))
                .or_insert_with(|| Known::new(Arc::clone(&remote)));
            if entry.is_of(&remote) {
                entry.remote = remote;
            } else {
                *entry = Known::new(remote);
            }
        }
    }

    /// What is known of an APIService now; begins to ask its server if it is time.
    fn judge(
        &self,
        name: &Arc<str>,
        entry: &mut Known,
        questions: &mut JoinSet<(Arc<str>, Arc<Remote>, Available)>,
    ) -> Option<Available> {
        let network = self.remotes.network()?;
        if let Some(problem) = network.problem(&entry.remote.reference) {
            // asked at once when the problem is gone
            (entry.outcome, entry.failures, entry.due) = (None, 0, Instant::now() + RESYNC);
            return Some(problem);
        }
        let server = match &entry.remote.server {
            Ok(server) => Arc::clone(server),
            Err(unreachable) => {
                entry.due = Instant::now() + RESYNC;
                return self.told(Available::no("FailedDiscoveryCheck", unreachable.why().to_owned()));
            }
        };
        if !entry.asking && (entry.outcome.is_none() || entry.due <= Instant::now()) {
            entry.asking = true;
            let (name, remote) = (Arc::clone(name), Arc::clone(&entry.remote));
            questions.spawn(async move {
                let outcome = ask(&server, &remote.service).await;
                (name, remote, outcome)
            });
        }
        self.told(entry.outcome.clone()?)
    }

    fn told(&self, outcome: Available) -> Option<Available> {
        let may = outcome.status == "True" || self.lifecycle.phase() >= Phase::Serving;
        may.then_some(outcome)
    }

    /// Writes what is not told yet; false if something is to be tried again.
    async fn write_all(&self, wanted: Vec<(Arc<str>, Available)>) -> bool {
        let all = wanted.iter().map(|(name, told)| self.write(name, told));
        join_all(all).await.into_iter().all(|done| done)
    }

    async fn write(&self, name: &str, told: &Available) -> bool {
        let Some(snapshot) = self.services.source().snapshot() else {
            return false;
        };
        let Some(object) = snapshot.get(&format!("{KEYS}/{name}")) else {
            return true;
        };
        let Ok(mut object) = json::from_slice(object.bytes()) else {
            return true;
        };
        if told.is_told_by(&object) {
            return true;
        }
        let was_available = condition::find(&object).is_some_and(|c| c.str_at(&["status"]) == "True");
        told.set(&mut object, Timestamp::now());
        match self.loopback.update_status(TARGET, name, &object).await {
            Ok(_) => {
                if was_available && told.status != "True" {
                    self.metrics.lost(name, told.reason);
                }
                true
            }
            Err(status) => {
                tracing::debug!(name, why = status.message, "availability not written");
                status.code == 404
            }
        }
    }
}

/// Asks a server for its group-version.
async fn ask(server: &Server, service: &ApiService) -> Available {
    let path = match &*service.group {
        "" => format!("/api/{}", service.version),
        group => format!("/apis/{group}/{}", service.version),
    };
    let url = format!("{}{path}", server.url());
    match tokio::time::timeout(PATIENCE, answer(server, &path)).await {
        Ok(Ok(code)) if (200..300).contains(&code) => Available::passed(),
        Ok(Ok(code)) => failed(&url, &format!("bad status from {url}: {code}")),
        Ok(Err(why)) => failed(&url, &format!("Get \"{url}\": {why}")),
        Err(_) => {
            let why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
            failed(&url, &format!("Get \"{url}\": {why}"))
        }
    }
}

fn failed(url: &str, why: &str) -> Available {
    let message = format!("failing or missing response from {url}: {why}");
    Available::no("FailedDiscoveryCheck", message)
}

async fn answer(server: &Server, path: &str) -> Result<u16, String> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    let user = UserInfo::new("system:kube-aggregator", [MASTERS]);
    RemoteUser::new(&user)
        .ok_or("its user has no name")?
        .write(&mut headers);
    let head = Head {
        method: Method::GET,
        target: path.parse().map_err(|_| "its path is none".to_owned())?,
        headers,
    };
    let answer = server.pool.send(Class::Request, head, Outgoing::Empty).await;
    answer
        .map(|a| a.status().as_u16())
        .map_err(|e| triptych_options::chain(&e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apiservice::record::Managed;
    use crate::apiservice::record::ServiceRef;
    use crate::apiservice::remotes::Unreachable;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_fails_is_asked_less_and_less_often() {
        let remote = Arc::new(Remote {
            service: Arc::new(ApiService::kept("g", "v1", Managed::No)),
            reference: ServiceRef {
                namespace: "n".into(),
                name: "s".into(),
                port: 443,
            },
            server: Err(Unreachable::Unresolved("no".into())),
        });
        let mut known = Known::new(remote);
        let mut waits = Vec::new();
        for _ in 0..3 {
            known.answered(Available::no("FailedDiscoveryCheck", "x".into()));
            waits.push(known.due - Instant::now());
        }
        assert_eq!(waits, [5, 10, 20].map(Duration::from_millis));
        for _ in 0..40 {
            known.answered(Available::no("FailedDiscoveryCheck", "x".into()));
        }
        assert_eq!(known.due - Instant::now(), RESYNC);
        known.answered(Available::passed());
        assert_eq!((known.failures, known.due - Instant::now()), (0, RESYNC));
    }
}
