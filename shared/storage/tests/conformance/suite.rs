//! The tests themselves, over any store.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use triptych_storage::{Batch, Error, Expect, MAX_VALUE_BYTES, Page, Range, Revision, Store, Write, WriteError};

use crate::harness::{changes, create, delete, in_time, put, told, update};

type Shared = Arc<dyn Store>;

fn conflict(result: Result<Revision, WriteError>) -> Option<(String, Revision)> {
    match result {
        Err(WriteError::Conflict(conflict)) => conflict
            .current
            .map(|entry| (String::from_utf8_lossy(&entry.value).into_owned(), entry.revision)),
        other => panic!("a conflict was expected: {other:?}"),
    }
}

async fn range(store: &Shared, range: Range<'_>) -> Page {
    in_time(store.range(range)).await.unwrap()
}

fn keys(page: &Page) -> Vec<&str> {
    page.entries.iter().map(|entry| &*entry.key).collect()
}

fn values(page: &Page) -> Vec<String> {
    page.entries
        .iter()
        .map(|entry| format!("{}={}", entry.key, String::from_utf8_lossy(&entry.value)))
        .collect()
}

pub async fn a_key_is_created_once(store: Shared) {
    let before = in_time(store.current_revision()).await.unwrap();
    let revision = create(&store, "/pods/a", "1").await;
    assert!(revision > before);
    assert_eq!(in_time(store.current_revision()).await.unwrap(), revision);
    let (entry, at) = in_time(store.get("/pods/a")).await.unwrap();
    let entry = entry.unwrap();
    assert_eq!(
        (&*entry.key, &*entry.value, entry.revision, at),
        ("/pods/a", &b"1"[..], revision, revision)
    );
    let again = put(&store, "/pods/a", Expect::Absent, "2").await;
    assert_eq!(conflict(again), Some(("1".into(), revision)));
    assert!(in_time(store.get("/pods/b")).await.unwrap().0.is_none());
}

pub async fn an_update_needs_the_revision_it_read(store: Shared) {
    let first = create(&store, "/pods/a", "1").await;
    let second = update(&store, "/pods/a", first, "2").await;
    assert!(second > first);
    assert_eq!(
        conflict(put(&store, "/pods/a", Expect::Revision(first), "3").await),
        Some(("2".into(), second))
    );
    let stale_delete = Write {
        key: "/pods/a",
        expect: Expect::Revision(first),
        put: None,
        ttl: None,
    };
    assert_eq!(
        conflict(in_time(store.write(stale_delete)).await),
        Some(("2".into(), second))
    );
    assert_eq!(
        conflict(put(&store, "/pods/missing", Expect::Revision(first), "3").await),
        None
    );
}

pub async fn a_deleted_key_can_be_created_again_under_a_larger_revision(store: Shared) {
    let first = create(&store, "/pods/a", "1").await;
    let deleted = delete(&store, "/pods/a", first).await;
    assert!(in_time(store.get("/pods/a")).await.unwrap().0.is_none());
    assert_eq!(
        conflict(put(&store, "/pods/a", Expect::Revision(first), "x").await),
        None
    );
    assert_eq!(
        conflict(put(&store, "/pods/a", Expect::Revision(deleted), "x").await),
        None
    );
    let again = create(&store, "/pods/a", "2").await;
    assert!(first < deleted && deleted < again);
}

pub async fn deleting_what_is_not_there_is_no_conflict_with_absence(store: Shared) {
    let revision = create(&store, "/pods/a", "1").await;
    let nothing = Write {
        key: "/pods/b",
        expect: Expect::Absent,
        put: None,
        ttl: None,
    };
    in_time(store.write(nothing)).await.unwrap();
    assert_eq!(in_time(store.current_revision()).await.unwrap(), revision);
}

pub async fn a_range_holds_its_prefix_in_order_and_nothing_else(store: Shared) {
    for key in [
        "/pods/b",
        "/pods/a/x",
        "/pods0",
        "/pod",
        "/pods/é",
        "/nodes/a",
        "/pods/a",
    ] {
        create(&store, key, key).await;
    }
    let page = range(
        &store,
        Range {
            prefix: "/pods/",
            ..Range::default()
        },
    )
    .await;
    assert_eq!(keys(&page), ["/pods/a", "/pods/a/x", "/pods/b", "/pods/é"]);
    assert_eq!(
        (page.remaining, page.revision),
        (0, in_time(store.current_revision()).await.unwrap())
    );
    assert!(
        range(
            &store,
            Range {
                prefix: "/none/",
                ..Range::default()
            }
        )
        .await
        .entries
        .is_empty()
    );
}

pub async fn pages_continue_from_a_key_and_count_what_remains(store: Shared) {
    for number in 0..10 {
        create(&store, &format!("/pods/{number}"), "x").await;
    }
    create(&store, "/podz", "x").await;
    let page = range(
        &store,
        Range {
            prefix: "/pods/",
            limit: 4,
            ..Range::default()
        },
    )
    .await;
    assert_eq!(
        (keys(&page), page.remaining),
        (vec!["/pods/0", "/pods/1", "/pods/2", "/pods/3"], 6)
    );
    let next = Range {
        prefix: "/pods/",
        from: Some("/pods/3\0"),
        limit: 4,
        at: Some(page.revision),
    };
    create(&store, "/pods/35", "late").await;
    let page = range(&store, next).await;
    assert_eq!(
        (keys(&page), page.remaining),
        (vec!["/pods/4", "/pods/5", "/pods/6", "/pods/7"], 2)
    );
    let page = range(
        &store,
        Range {
            from: Some("/pods/8"),
            ..next
        },
    )
    .await;
    assert_eq!((keys(&page), page.remaining), (vec!["/pods/8", "/pods/9"], 0));
    let page = range(
        &store,
        Range {
            from: Some("/pods/8"),
            limit: 2,
            ..next
        },
    )
    .await;
    assert_eq!((page.entries.len(), page.remaining), (2, 0));
}

pub async fn a_range_shows_the_state_at_a_past_revision(store: Shared) {
    let a1 = create(&store, "/pods/a", "1").await;
    let b1 = create(&store, "/pods/b", "1").await;
    let a2 = update(&store, "/pods/a", a1, "2").await;
    let b_gone = delete(&store, "/pods/b", b1).await;
    let b2 = create(&store, "/pods/b", "2").await;
    delete(&store, "/pods/a", a2).await;
    let expected: [(Revision, &[&str]); 5] = [
        (a1, &["/pods/a=1"]),
        (b1, &["/pods/a=1", "/pods/b=1"]),
        (a2, &["/pods/a=2", "/pods/b=1"]),
        (b_gone, &["/pods/a=2"]),
        (b2, &["/pods/a=2", "/pods/b=2"]),
    ];
    for (at, state) in expected {
        let page = range(
            &store,
            Range {
                prefix: "/pods/",
                at: Some(at),
                ..Range::default()
            },
        )
        .await;
        assert_eq!(
            (values(&page), page.revision),
            (state.iter().map(|it| (*it).into()).collect(), at)
        );
    }
    assert_eq!(
        values(
            &range(
                &store,
                Range {
                    prefix: "/pods/",
                    ..Range::default()
                }
            )
            .await
        ),
        ["/pods/b=2"]
    );
}

pub async fn the_future_cannot_be_read(store: Shared) {
    let now = create(&store, "/pods/a", "1").await;
    let future = store.range(Range {
        prefix: "/pods/",
        at: Some(now + 100),
        ..Range::default()
    });
    assert!(matches!(in_time(future).await, Err(Error::FutureRevision { .. })));
}

pub async fn a_watch_replays_what_happened_and_goes_on_live(store: Shared) {
    let a1 = create(&store, "/pods/a", "1").await;
    let a2 = update(&store, "/pods/a", a1, "2").await;
    let b1 = create(&store, "/pods/b", "1").await;
    let gone = delete(&store, "/pods/a", a2).await;
    let mut watch = in_time(store.watch("/pods/", a1)).await.unwrap();
    let seen = told(&changes(&mut watch, 3).await);
    assert_eq!(
        seen,
        [
            ("/pods/a=2".into(), a2),
            ("/pods/b=1".into(), b1),
            ("-/pods/a".into(), gone)
        ]
    );
    let a3 = create(&store, "/pods/a", "3").await;
    assert_eq!(told(&changes(&mut watch, 1).await), [("/pods/a=3".into(), a3)]);
}

pub async fn a_watch_sees_only_its_prefix(store: Shared) {
    let now = in_time(store.current_revision()).await.unwrap();
    let mut pods = in_time(store.watch("/pods/", now)).await.unwrap();
    let mut all = in_time(store.watch("/", now)).await.unwrap();
    create(&store, "/nodes/a", "1").await;
    create(&store, "/pods0", "1").await;
    let wanted = create(&store, "/pods/x/a", "1").await;
    assert_eq!(told(&changes(&mut pods, 1).await), [("/pods/x/a=1".into(), wanted)]);
    assert_eq!(changes(&mut all, 3).await.len(), 3);
}

pub async fn a_watch_that_is_not_read_for_long_misses_nothing(store: Shared) {
    let now = in_time(store.current_revision()).await.unwrap();
    let mut watch = in_time(store.watch("/pods/", now)).await.unwrap();
    let value = "x".repeat(64 << 10);
    let mut revisions = Vec::new();
    for number in 0..200 {
        revisions.push(create(&store, &format!("/pods/{number}"), &value).await);
    }
    let seen: Vec<_> = changes(&mut watch, 200)
        .await
        .iter()
        .map(|change| change.revision())
        .collect();
    assert_eq!(seen, revisions);
    let last = create(&store, "/pods/last", "x").await;
    assert_eq!(changes(&mut watch, 1).await[0].revision(), last);
}

pub async fn what_was_compacted_is_an_error_and_the_rest_stays(store: Shared) {
    let a1 = create(&store, "/pods/a", "1").await;
    let a2 = update(&store, "/pods/a", a1, "2").await;
    let b1 = create(&store, "/pods/b", "1").await;
    let b_gone = delete(&store, "/pods/b", b1).await;
    let a3 = update(&store, "/pods/a", a2, "3").await;
    let c1 = create(&store, "/pods/c", "1").await;
    in_time(store.compact(a3)).await.unwrap();
    for at in [a1, b1, b_gone] {
        let past = store.range(Range {
            prefix: "/pods/",
            at: Some(at),
            ..Range::default()
        });
        assert!(matches!(in_time(past).await, Err(Error::Compacted { .. })), "at {at}");
    }
    let at = range(
        &store,
        Range {
            prefix: "/pods/",
            at: Some(a3),
            ..Range::default()
        },
    )
    .await;
    assert_eq!(values(&at), ["/pods/a=3"]);
    let now = range(
        &store,
        Range {
            prefix: "/pods/",
            ..Range::default()
        },
    )
    .await;
    assert_eq!(values(&now), ["/pods/a=3", "/pods/c=1"]);
    let mut lost = in_time(store.watch("/pods/", a1)).await.unwrap();
    assert!(matches!(
        in_time(lost.batches.next()).await,
        Some(Ok(Batch::Compacted(_)))
    ));
    assert!(in_time(lost.batches.next()).await.is_none());
    let mut kept = in_time(store.watch("/pods/", a3)).await.unwrap();
    assert_eq!(changes(&mut kept, 1).await[0].revision(), c1);
    assert!(matches!(in_time(store.compact(a1)).await, Err(Error::Compacted { .. })));
    create(&store, "/pods/b", "2").await;
    assert_eq!(
        values(
            &range(
                &store,
                Range {
                    prefix: "/pods/b",
                    ..Range::default()
                }
            )
            .await
        ),
        ["/pods/b=2"]
    );
}

pub async fn progress_is_told_when_asked_for(store: Shared) {
    let now = create(&store, "/pods/a", "1").await;
    let mut watch = in_time(store.watch("/pods/", now)).await.unwrap();
    let elsewhere = create(&store, "/nodes/a", "1").await;
    if let Some(position) = watch.control.position() {
        assert!(position.current >= elsewhere && position.last_change <= now);
    }
    in_time(async {
        loop {
            watch.control.request_progress();
            let batch = tokio::time::timeout(Duration::from_millis(200), watch.batches.next()).await;
            match batch.map(|batch| batch.unwrap().unwrap()) {
                Ok(Batch::Progress(revision)) if revision >= elsewhere => break,
                Ok(Batch::Changes(changes)) => panic!("nothing changed here: {changes:?}"),
                _ => {}
            }
        }
    })
    .await;
}

pub async fn a_key_with_a_ttl_expires_as_an_ordinary_delete(store: Shared) {
    let ttl = Some(Duration::from_secs(1));
    let put = Some("1".into());
    let event = Write {
        key: "/events/a",
        expect: Expect::Absent,
        put,
        ttl,
    };
    let created = in_time(store.write(event)).await.unwrap();
    let stays = create(&store, "/events/b", "1").await;
    let mut watch = in_time(store.watch("/events/", stays)).await.unwrap();
    let expired = changes(&mut watch, 1).await;
    assert!(created < stays && stays < expired[0].revision());
    assert_eq!(told(&expired)[0].0, "-/events/a");
    assert_eq!(
        keys(
            &range(
                &store,
                Range {
                    prefix: "/events/",
                    ..Range::default()
                }
            )
            .await
        ),
        ["/events/b"]
    );
}

pub async fn writing_again_replaces_the_ttl(store: Shared) {
    let ttl = Some(Duration::from_secs(1));
    let write = |key, expect, ttl| Write {
        key,
        expect,
        put: Some("1".into()),
        ttl,
    };
    let kept = in_time(store.write(write("/events/kept", Expect::Absent, ttl)))
        .await
        .unwrap();
    in_time(store.write(write("/events/kept", Expect::Revision(kept), None)))
        .await
        .unwrap();
    let last = in_time(store.write(write("/events/gone", Expect::Absent, ttl)))
        .await
        .unwrap();
    let mut watch = in_time(store.watch("/events/", last)).await.unwrap();
    assert_eq!(told(&changes(&mut watch, 1).await)[0].0, "-/events/gone");
    assert!(in_time(store.get("/events/kept")).await.unwrap().0.is_some());
}

pub async fn a_large_value_is_kept_and_a_huge_one_refused(store: Shared) {
    let now = in_time(store.current_revision()).await.unwrap();
    let mut watch = in_time(store.watch("/secrets/", now)).await.unwrap();
    let large = "x".repeat(MAX_VALUE_BYTES - 4096);
    for name in ["a", "b", "c", "d"] {
        create(&store, &format!("/secrets/{name}"), &large).await;
    }
    let page = range(
        &store,
        Range {
            prefix: "/secrets/",
            ..Range::default()
        },
    )
    .await;
    assert!(page.entries.len() == 4 && page.entries.iter().all(|entry| entry.value == large));
    assert_eq!(changes(&mut watch, 4).await.len(), 4);
    let huge = put(
        &store,
        "/secrets/huge",
        Expect::Absent,
        &"x".repeat(MAX_VALUE_BYTES + 1),
    )
    .await;
    assert!(matches!(huge, Err(WriteError::Store(Error::TooLarge))), "{huge:?}");
}

pub async fn concurrent_writers_lose_no_update(store: Shared) {
    const WRITERS: usize = 8;
    const EACH: usize = 20;
    create(&store, "/counters/a", "0").await;
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                for _ in 0..EACH {
                    let mut current = in_time(store.get("/counters/a")).await.unwrap().0.unwrap();
                    loop {
                        let count: usize = std::str::from_utf8(&current.value).unwrap().parse().unwrap();
                        let expect = Expect::Revision(current.revision);
                        match put(&store, "/counters/a", expect, &(count + 1).to_string()).await {
                            Ok(_) => break,
                            Err(WriteError::Conflict(conflict)) => current = conflict.current.unwrap(),
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let (entry, _) = in_time(store.get("/counters/a")).await.unwrap();
    assert_eq!(entry.unwrap().value, (WRITERS * EACH).to_string());
}

pub async fn every_write_has_a_revision_of_its_own(store: Shared) {
    let now = in_time(store.current_revision()).await.unwrap();
    let mut watch = in_time(store.watch("/pods/", now)).await.unwrap();
    let writers: Vec<_> = (0..100)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move { create(&store, &format!("/pods/{number}"), "x").await })
        })
        .collect();
    let mut revisions = BTreeSet::new();
    for writer in writers {
        assert!(revisions.insert(writer.await.unwrap()));
    }
    let seen: Vec<_> = changes(&mut watch, 100)
        .await
        .iter()
        .map(|change| change.revision())
        .collect();
    assert_eq!(seen, revisions.into_iter().collect::<Vec<_>>());
}
