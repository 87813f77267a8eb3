//! The watch cache over every backend, and through the outage of an etcd.

use std::sync::Arc;
use std::time::Duration;

use triptych_storage::cache::{CacheState, Interest, Start};
use triptych_storage::{Cache, CacheConfig, Expect, JsonDecoder, Metrics, Range, Revision, Store, Write};

use crate::harness::{Backend, in_time, put};

const WAIT: Duration = Duration::from_secs(10);

async fn cache(store: &Arc<dyn Store>) -> Arc<Cache> {
    let config = CacheConfig {
        group: "".into(),
        resource: "pods".into(),
        prefix: "/pods/".into(),
        decoder: Arc::new(JsonDecoder::default()),
        indexes: Vec::new(),
    };
    let cache = Cache::start(store, config, &Metrics::new(&prometheus::Registry::new()).unwrap());
    in_time(cache.filled()).await;
    cache
}

async fn pod(store: &Arc<dyn Store>, name: &str) -> Revision {
    put(store, &format!("/pods/{name}"), Expect::Absent, r#"{"metadata":{}}"#)
        .await
        .unwrap()
}

/// An etcd tells how reliable it is when it was asked for its version.
async fn reliable(store: &Arc<dyn Store>) {
    in_time(async {
        while store.progress() != triptych_storage::ProgressSupport::Reliable {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

pub async fn consistent_reads_see_what_others_wrote(store: Arc<dyn Store>) {
    for number in 0..1200 {
        pod(&store, &format!("old-{number}")).await;
    }
    let cache = cache(&store).await;
    reliable(&store).await;
    for number in 0..50 {
        let revision = pod(&store, &number.to_string()).await;
        let elsewhere = put(&store, &format!("/nodes/{number}"), Expect::Absent, "{}")
            .await
            .unwrap();
        let snapshot = cache.consistent(WAIT).await.unwrap();
        assert_eq!(snapshot.len(), 1200 + number + 1);
        assert!(snapshot.revision() >= elsewhere && snapshot.range("").any(|it| it.revision() == revision));
    }
}

pub async fn reads_that_come_together_are_all_fresh(store: Arc<dyn Store>) {
    let cache = cache(&store).await;
    reliable(&store).await;
    let readers = (0..20).map(|number| {
        let (cache, store) = (cache.clone(), store.clone());
        tokio::spawn(async move {
            let revision = pod(&store, &number.to_string()).await;
            assert!(cache.consistent(WAIT).await.unwrap().revision() >= revision);
        })
    });
    for reader in readers.collect::<Vec<_>>() {
        reader.await.unwrap();
    }
    assert_eq!(cache.consistent(WAIT).await.unwrap().len(), 20);
}

pub async fn expired_keys_are_deleted_events_of_their_own(store: Arc<dyn Store>) {
    let cache = cache(&store).await;
    let (_, mut watcher) = cache.watch(Start::Now, Interest::all()).unwrap();
    for name in ["/pods/a", "/pods/b"] {
        let put = Some(r#"{"metadata":{}}"#.into());
        let ttl = Some(Duration::from_secs(1));
        in_time(store.write(Write {
            key: name,
            expect: Expect::Absent,
            put,
            ttl,
        }))
        .await
        .unwrap();
    }
    let mut seen = Vec::new();
    while seen.len() < 4 {
        let event = in_time(watcher.next()).await.unwrap();
        assert_eq!(
            event.object().metadata_field("resourceVersion").unwrap(),
            event.revision().to_string()
        );
        seen.push(format!("{} {}", event.kind().as_str(), event.object().name()));
    }
    seen.sort();
    assert_eq!(seen, ["ADDED a", "ADDED b", "DELETED a", "DELETED b"]);
    assert!(cache.snapshot().unwrap().is_empty());
}

pub async fn past_states_are_the_same_in_memory_and_in_the_store(store: Arc<dyn Store>) {
    let cache = cache(&store).await;
    let mut revisions = Vec::new();
    for name in ["a", "b", "c"] {
        revisions.push(pod(&store, name).await);
    }
    cache.at_least(*revisions.last().unwrap(), WAIT).await.unwrap();
    for (index, revision) in revisions.into_iter().enumerate() {
        let memory = cache.at(revision).unwrap();
        let range = Range {
            prefix: "/pods/",
            at: Some(revision),
            ..Range::default()
        };
        let stored = in_time(cache.read_range(range)).await.unwrap();
        assert_eq!(memory.len(), index + 1);
        let texts = |objects: Vec<&Arc<triptych_storage::Object>>| {
            objects.into_iter().map(|it| it.bytes().clone()).collect::<Vec<_>>()
        };
        assert_eq!(
            texts(memory.range("").collect()),
            texts(stored.objects.iter().collect())
        );
    }
}

#[tokio::test]
async fn an_etcd_that_was_killed_and_comes_back_costs_no_event() {
    let mut backend = Backend::etcd().await;
    let store = backend.store.clone();
    let cache = cache(&store).await;
    reliable(&store).await;
    let (_, mut watcher) = cache.watch(Start::Now, Interest::all()).unwrap();
    let before = pod(&store, "before").await;
    assert_eq!(in_time(watcher.next()).await.unwrap().revision(), before);
    backend.kill_etcd();
    in_time(async {
        while cache.state() != CacheState::Lagging {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(cache.snapshot().unwrap().len(), 1, "what is known is still shown");
    assert!(cache.consistent(Duration::from_millis(50)).await.is_err());
    backend.restart_etcd();
    let after = in_time(async {
        loop {
            let put = Some(r#"{"metadata":{}}"#.into());
            match store
                .write(Write {
                    key: "/pods/after",
                    expect: Expect::Absent,
                    put,
                    ttl: None,
                })
                .await
            {
                Ok(revision) => break revision,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    })
    .await;
    assert_eq!(in_time(watcher.next()).await.unwrap().revision(), after);
    assert_eq!(watcher.end(), None);
    assert_eq!(cache.consistent(WAIT).await.unwrap().len(), 2);
}
