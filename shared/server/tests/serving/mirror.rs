//! A mirror of a resource that another tier serves, and requests of a tier's own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::Response;
use tokio::sync::Notify;
use triptych_client::metrics::Metrics as ClientMetrics;
use triptych_client::{Api, Mirror, MirrorConfig, Pool};
use triptych_object::{Status, json};
use triptych_registry::{Body, Handler, Request};
use triptych_storage::Source;
use triptych_storage::cache::CacheState;

use crate::harness::*;

/// Serves role-like objects with revisions, history and watches that can be kept quiet.
#[derive(Default)]
struct Shelf {
    state: Mutex<State>,
    changed: Arc<Notify>,
    lists: AtomicUsize,
    gets: AtomicUsize,
}

#[derive(Default)]
struct State {
    revision: u64,
    objects: BTreeMap<String, u64>,
    log: Vec<(u64, String)>,
    floor: u64,
    quiet: bool,
}

fn object(name: &str, revision: u64) -> String {
    format!(r#"{{"metadata":{{"name":"{name}","namespace":"a","resourceVersion":"{revision}"}}}}"#)
}

impl Shelf {
    fn put(&self, name: &str) {
        let mut s = self.state.lock().unwrap();
        s.revision += 1;
        let revision = s.revision;
        s.objects.insert(name.to_owned(), revision);
        s.log.push((
            revision,
            format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", object(name, revision)),
        ));
        self.changed.notify_waiters();
    }

    fn delete(&self, name: &str) {
        let mut s = self.state.lock().unwrap();
        s.revision += 1;
        let revision = s.revision;
        s.objects.remove(name);
        s.log.push((
            revision,
            format!("{{\"type\":\"DELETED\",\"object\":{}}}\n", object(name, revision)),
        ));
        self.changed.notify_waiters();
    }

    fn edit(&self, edit: impl FnOnce(&mut State)) {
        edit(&mut self.state.lock().unwrap());
        self.changed.notify_waiters();
    }
}

struct Shelved(Arc<Shelf>);

impl Handler for Shelved {
    fn handle(&self, request: Request) -> BoxFuture<'_, triptych_registry::Response> {
        let shelf = Arc::clone(&self.0);
        Box::pin(async move {
            match request.info.verb.as_str() {
                "watch" => watch(shelf, &request),
                "list" => {
                    shelf.lists.fetch_add(1, Ordering::SeqCst);
                    let s = shelf.state.lock().unwrap();
                    let items: Vec<String> = s.objects.iter().map(|(n, r)| object(n, *r)).collect();
                    let list = format!(
                        r#"{{"metadata":{{"resourceVersion":"{}"}},"items":[{}]}}"#,
                        s.revision,
                        items.join(",")
                    );
                    Response::new(Body::from(list.into_bytes()))
                }
                _ => {
                    shelf.gets.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    let found = shelf.state.lock().unwrap().objects.get(&request.info.name).copied();
                    match found {
                        Some(revision) => Response::new(Body::from(object(&request.info.name, revision).into_bytes())),
                        None => {
                            let status = Status::not_found(&request.info.group_resource(), &request.info.name);
                            let mut response = Response::new(Body::from(status.to_json()));
                            *response.status_mut() = http::StatusCode::NOT_FOUND;
                            response
                        }
                    }
                }
            }
        })
    }
}

fn watch(shelf: Arc<Shelf>, request: &Request) -> triptych_registry::Response {
    let after: u64 = triptych_object::request::param(&request.query, "resourceVersion")
        .unwrap()
        .parse()
        .unwrap();
    let stream = futures_util::stream::unfold((shelf, after), |(shelf, after)| async move {
        loop {
            let changed = Arc::clone(&shelf.changed);
            let changed = changed.notified();
            {
                let s = shelf.state.lock().unwrap();
                if after < s.floor {
                    let error =
                        "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"message\":\"too old\"}}\n";
                    drop(s);
                    return Some((Ok(Bytes::from(error)), (shelf, u64::MAX)));
                }
                let next = s.log.iter().find(|(r, _)| *r > after && !s.quiet).cloned();
                drop(s);
                if let Some((revision, line)) = next {
                    return Some((Ok(Bytes::from(line)), (shelf, revision)));
                }
            }
            changed.await;
        }
    });
    Response::new(Body::Stream(Box::pin(stream)))
}

struct World {
    pki: Pki,
    shelf: Arc<Shelf>,
    tier: Running,
    mirror: Arc<Mirror>,
}

async fn world() -> World {
    let pki = Pki::new();
    let shelf = Arc::new(Shelf::default());
    shelf.put("one");
    let mut plan = Plan::last();
    plan.also = Some(Arc::new(Shelved(Arc::clone(&shelf))));
    let tier = plan.start(&pki).await;
    let api = api(&pki, &tier);
    let mirror = Mirror::start(api, MirrorConfig::new("", "v1", "Role", "roles", true));
    mirror.synced().await;
    World {
        pki,
        shelf,
        tier,
        mirror,
    }
}

fn api(pki: &Pki, tier: &Running) -> Api {
    let addresses = vec![format!("https://{}", tier.address).parse().unwrap()];
    let metrics = ClientMetrics::new(&prometheus::Registry::new()).unwrap();
    let pool = Pool::new(
        "core-api",
        addresses,
        pki.connector(Some("system:tier:x")),
        metrics.target("core-api"),
    );
    Api::new(pool, "test")
}

fn names(mirror: &Mirror) -> Vec<String> {
    let snapshot = mirror.snapshot().unwrap();
    snapshot.range("").map(|o| o.name().to_owned()).collect()
}

#[tokio::test]
async fn a_mirror_follows_and_lists_again_when_history_is_lost() {
    let w = world().await;
    assert_eq!(names(&w.mirror), ["one"]);
    w.shelf.put("two");
    w.shelf.delete("one");
    eventually("the changes", async || names(&w.mirror) == ["two"]).await;
    let first = w
        .mirror
        .snapshot()
        .unwrap()
        .get("/roles/a/two")
        .unwrap()
        .bytes()
        .clone();
    assert_eq!(
        String::from_utf8_lossy(&first),
        r#"{"kind":"Role","apiVersion":"v1","metadata":{"resourceVersion":"2","name":"two","namespace":"a"}}"#
    );
    w.shelf.edit(|s| {
        // compacted while the watch was away, and restored to an older state
        s.floor = 100;
        s.revision = 1;
        s.objects = [("old".to_owned(), 1)].into();
        s.log.clear();
    });
    eventually("the older state", async || names(&w.mirror) == ["old"]).await;
    w.shelf.edit(|s| s.floor = 0);
    w.shelf.put("newer");
    eventually("what follows", async || names(&w.mirror) == ["newer", "old"]).await;
}

#[tokio::test]
async fn a_negative_is_confirmed_by_one_list_for_all_who_wait() {
    let w = world().await;
    w.shelf.edit(|s| s.quiet = true);
    w.shelf.put("new");
    w.shelf.delete("one");
    let before = w.shelf.lists.load(Ordering::SeqCst);
    let all = (0..50).map(|_| w.mirror.consistent(Duration::from_secs(5)));
    for outcome in futures_util::future::join_all(all).await {
        let snapshot = outcome.unwrap();
        assert!(snapshot.get("/roles/a/new").is_some() && snapshot.get("/roles/a/one").is_none());
    }
    assert!(w.shelf.lists.load(Ordering::SeqCst) - before <= 2);
    assert!(w.mirror.proven_within(Duration::from_secs(1)));
    // what the watch tells later is already known
    w.shelf.edit(|s| s.quiet = false);
    w.shelf.put("more");
    eventually("the next change", async || names(&w.mirror) == ["more", "new"]).await;
}

#[tokio::test]
async fn live_reads_of_one_object_are_one_request() {
    let w = world().await;
    let all = (0..20).map(|_| w.mirror.get_live("a", "one"));
    for found in futures_util::future::join_all(all).await {
        let found = found.unwrap().unwrap();
        assert_eq!(found.at(&["metadata", "name"]).unwrap().as_str(), Some("one"));
    }
    assert_eq!(w.shelf.gets.load(Ordering::SeqCst), 1);
    assert_eq!(w.mirror.get_live("a", "none").await.unwrap(), None);
    assert_eq!(w.shelf.gets.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn the_last_copy_stays_while_the_other_tier_is_away() {
    let w = world().await;
    let World {
        pki: _pki,
        tier,
        mirror,
        ..
    } = w;
    drop(tier);
    eventually("lagging", async || mirror.state() == CacheState::Lagging).await;
    assert_eq!(names(&mirror), ["one"]);
    let asked = tokio::time::Instant::now();
    assert!(mirror.consistent(Duration::from_secs(30)).await.is_err());
    assert!(asked.elapsed() < Duration::from_secs(10), "told at once");
}

#[tokio::test]
async fn own_requests_give_documents_or_the_servers_status() {
    let w = world().await;
    let api = api(&w.pki, &w.tier);
    let body = json::from_slice(br#"{"a":1}"#).unwrap();
    let made = api.create("/api/v1/namespaces/a/things", &body).await.unwrap();
    assert_eq!(made.get("verb").unwrap().as_str(), Some("create"));
    assert_eq!(made.get("body").unwrap().as_i64(), Some(7));
    let missing = api.get("/api/v1/namespaces/a/roles/none").await.unwrap_err();
    assert_eq!((missing.code, &*missing.reason), (404, "NotFound"));
    assert_eq!(api.find("/api/v1/namespaces/a/roles/none").await.unwrap(), None);
}
