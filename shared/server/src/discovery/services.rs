//! Keeping what the servers behind APIServices say of their resources: asked when an APIService changes and every minute.
//!
//! Contract: each server is asked once for all of its APIServices, all servers at the same time, each for at most
//! [`PATIENCE`]; one that does not answer leaves its group-versions stale and delays nobody else's.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::sync::watch;
use triptych_registry::discovery::{Freshness, Priority};

use super::fetch::Fetch;
use super::merge::{Backing, Service};
use super::publication::Publication;
use super::remote::{self, Heard};

/// For one server's answer.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Between questions when nothing changed.
const REFRESH: Duration = Duration::from_secs(60);
/// Until a server that did not answer is asked again.
const RETRY: Duration = Duration::from_secs(5);

/// An APIService as it is registered.
#[derive(Clone)]
pub struct Registered {
    /// `spec.group`.
    pub group: Arc<str>,
    /// `spec.version`.
    pub version: Arc<str>,
    /// `spec.groupPriorityMinimum`, `spec.versionPriority`.
    pub priority: Priority,
    /// Namespace, name and port of the Service, and how its server is reached; none for what our tiers serve.
    pub backend: Option<(Arc<str>, Arc<dyn Fetch>)>,
}

#[derive(Default)]
struct Known {
    heard: Heard,
    urls: Vec<(Arc<str>, String)>,
    fresh: bool,
}

/// Publishes the APIServices that come through `registered`, until it closes.
pub async fn keep(publication: Arc<Publication>, mut registered: watch::Receiver<Vec<Registered>>) {
    let mut known: HashMap<Arc<str>, Known> = HashMap::new();
    loop {
        let services = registered.borrow_and_update().clone();
        let used = |key: &Arc<str>| {
            services
                .iter()
                .any(|s| s.backend.as_ref().is_some_and(|(k, _)| k == key))
        };
        known.retain(|key, _| used(key));
        // what is known already is published before anybody is asked
        publication.set_services(described(&services, &known));
        let all_fresh = refresh(&services, &mut known).await;
        publication.set_services(described(&services, &known));
        let pause = if all_fresh { REFRESH } else { RETRY };
        tokio::select! {
            changed = registered.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(pause) => {}
        }
    }
}

async fn refresh(services: &[Registered], known: &mut HashMap<Arc<str>, Known>) -> bool {
    let mut first: HashMap<&Arc<str>, &Registered> = HashMap::new();
    for service in services {
        if let Some((key, _)) = &service.backend {
            first.entry(key).or_insert(service);
        }
    }
    let asked = first.into_iter().filter_map(|(key, service)| {
        let (_, server) = service.backend.as_ref()?;
        let before = known.get(key).map(|k| k.heard.clone()).unwrap_or_default();
        let ask = async move {
            let heard = remote::discover(&**server, &service.group, &service.version, &before).await?;
            let urls = remote::documents(&**server).await.unwrap_or_default();
            Ok::<_, String>((heard, urls))
        };
        Some(async move { (Arc::clone(key), tokio::time::timeout(PATIENCE, ask).await) })
    });
    let mut all_fresh = true;
    for (key, answer) in join_all(asked).await {
        let known = known.entry(Arc::clone(&key)).or_default();
        known.fresh = true;
        match answer {
            Ok(Ok((heard, urls))) => (known.heard, known.urls) = (heard, urls),
            failed => {
                let why = failed.map_or_else(|_| "no answer in time".to_owned(), |r| r.err().unwrap_or_default());
                tracing::info!(service = &*key, why, "discovery of an APIService failed");
                known.fresh = false;
                all_fresh = false;
            }
        }
    }
    all_fresh
}

fn described(services: &[Registered], known: &HashMap<Arc<str>, Known>) -> Vec<Service> {
    let describe = |service: &Registered| {
        let backing = match &service.backend {
            None => Backing::Local,
            Some((key, _)) => {
                let known = known.get(key);
                let path = format!("apis/{}/{}", service.group, service.version);
                Backing::Remote {
                    resources: known.map_or_else(Bytes::new, |k| k.heard.resources(&service.group, &service.version)),
                    freshness: match known.is_some_and(|k| k.fresh) {
                        true => Freshness::Current,
                        false => Freshness::Stale,
                    },
                    urls: known
                        .map(|k| k.urls.iter().filter(|(p, _)| **p == *path).cloned().collect())
                        .unwrap_or_default(),
                }
            }
        };
        Service {
            group: Arc::clone(&service.group),
            version: Arc::clone(&service.version),
            priority: service.priority,
            backing,
        }
    };
    services.iter().map(describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::fetch::{AGGREGATED, Ask, Fetched};
    use futures_util::future::BoxFuture;
    use std::sync::atomic::{AtomicBool, Ordering};
    use triptych_schema::types::Schema;

    struct Server {
        away: AtomicBool,
    }

    impl Fetch for Server {
        fn fetch(&self, ask: Ask) -> BoxFuture<'_, Result<Fetched, String>> {
            let body = match ask.target.as_str() {
                "/apis" => {
                    r#"{"items":[{"metadata":{"name":"g"},"versions":[{"version":"v1","resources":[{"resource":"a"}]}]}]}"#
                }
                _ => {
                    r#"{"paths":{"apis/g/v1":{"serverRelativeURL":"/openapi/v3/apis/g/v1?hash=A"},"version":{"serverRelativeURL":"/x"}}}"#
                }
            };
            let answer = match self.away.load(Ordering::Relaxed) {
                true => Err("away".to_owned()),
                false => Ok(Fetched::Document {
                    kind: AGGREGATED.into(),
                    etag: None,
                    body: Bytes::from_static(body.as_bytes()),
                }),
            };
            Box::pin(std::future::ready(answer))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_goes_away_leaves_its_resources_stale_and_comes_back_current() {
        let server = Arc::new(Server {
            away: AtomicBool::new(false),
        });
        let registered = Registered {
            group: "g".into(),
            version: "v1".into(),
            priority: Priority::CUSTOM,
            backend: Some(("ns/name:443".into(), server.clone())),
        };
        let publication = Publication::new(Arc::new(Schema::new()), "", None);
        let (_sender, receiver) = watch::channel(vec![registered]);
        tokio::spawn(Arc::clone(&publication).run());
        tokio::spawn(keep(Arc::clone(&publication), receiver));
        let mut merged = publication.subscribe();
        let mut becomes = async |wanted: Freshness| {
            let found = merged.wait_for(|m| {
                let entry = m.snapshot.entry("g", "v1");
                entry.is_some_and(|e| e.freshness == wanted && !e.resources.is_empty())
            });
            assert!(tokio::time::timeout(Duration::from_secs(200), found).await.is_ok());
        };
        becomes(Freshness::Current).await;
        server.away.store(true, Ordering::Relaxed);
        becomes(Freshness::Stale).await;
        server.away.store(false, Ordering::Relaxed);
        becomes(Freshness::Current).await;
        let index = String::from_utf8_lossy(&publication.subscribe().borrow().index).into_owned();
        assert_eq!(
            index,
            r#"{"paths":{"apis/g/v1":{"serverRelativeURL":"/openapi/v3/apis/g/v1?hash=A"}}}"#
        );
    }
}
