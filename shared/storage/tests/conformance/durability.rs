//! What only a store of our own has to prove: it survives being killed, and knows what it said.

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use triptych_storage::embedded::EmbeddedOptions;
use triptych_storage::{Embedded, Error, Expect, Range, Store, Write};

use crate::harness::{changes, create, delete, in_time, told, update};

const FOLDER: &str = "TRIPTYCH_TEST_STORE_FOLDER";

fn open(folder: &std::path::Path) -> Arc<dyn Store> {
    Arc::new(Embedded::open(folder, EmbeddedOptions::default()).unwrap())
}

/// Not a test: the process that the next test kills. Prints every key once its write was acknowledged.
#[tokio::test]
async fn writes_until_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let store = open(folder.as_ref());
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                for number in 0.. {
                    let key = format!("/pods/{writer}-{number}");
                    let revision = create(&store, &key, &"x".repeat(1000)).await;
                    let mut out = std::io::stdout().lock();
                    writeln!(out, "\n+ {revision} {key}").unwrap();
                    out.flush().unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut last = 0;
    for round in 0..3 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "durability::writes_until_killed", "--nocapture"])
            .env(FOLDER, folder.path().join(round.to_string()))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let mut acknowledged = Vec::new();
        while acknowledged.len() < 300 {
            acknowledged.extend(
                lines
                    .next()
                    .expect("the writer ended")
                    .strip_prefix("+ ")
                    .map(str::to_owned),
            );
        }
        child.kill().unwrap();
        child.wait().unwrap();
        acknowledged.extend(lines.filter_map(|line| line.strip_prefix("+ ").map(str::to_owned)));
        // A line may have been cut by the kill.
        acknowledged.pop();
        let store = open(&folder.path().join(round.to_string()));
        let page = in_time(store.range(Range {
            prefix: "/pods/",
            ..Range::default()
        }))
        .await
        .unwrap();
        for line in &acknowledged {
            let (revision, key) = line.split_once(' ').unwrap();
            let entry = page.entries.iter().find(|entry| &*entry.key == key);
            assert_eq!(
                entry.map(|entry| entry.revision.to_string()).as_deref(),
                Some(revision),
                "{key}"
            );
        }
        last = last.max(acknowledged.len());
    }
    assert!(last >= 299);
}

#[tokio::test]
async fn revisions_history_and_deadlines_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let a1 = create(&store, "/pods/a", "1").await;
    let a2 = update(&store, "/pods/a", a1, "2").await;
    let ttl = Some(Duration::from_secs(1));
    let event = Write {
        key: "/events/a",
        expect: Expect::Absent,
        put: Some("1".into()),
        ttl,
    };
    let last = in_time(store.write(event)).await.unwrap();
    drop(store);
    let store = open(folder.path());
    assert_eq!(in_time(store.current_revision()).await.unwrap(), last);
    let mut watch = in_time(store.watch("/pods/", a1)).await.unwrap();
    assert_eq!(told(&changes(&mut watch, 1).await), [("/pods/a=2".into(), a2)]);
    let mut events = in_time(store.watch("/events/", last)).await.unwrap();
    let expired = changes(&mut events, 1).await;
    assert!(expired[0].revision() > last);
    assert!(delete(&store, "/pods/a", a2).await > last);
}

#[tokio::test]
async fn a_second_process_cannot_open_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let _store = open(folder.path());
    let second = Embedded::open(folder.path(), EmbeddedOptions::default());
    assert!(matches!(second.map(|_| ()), Err(Error::Unavailable(why)) if why.contains("another process")));
}

#[tokio::test]
async fn old_history_is_compacted_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions {
        compaction_interval: Some(Duration::from_millis(50)),
    };
    let store: Arc<dyn Store> = Arc::new(Embedded::open(folder.path(), options).unwrap());
    let first = create(&store, "/pods/a", "1").await;
    let second = update(&store, "/pods/a", first, "2").await;
    in_time(async {
        while store
            .range(Range {
                prefix: "/pods/",
                at: Some(first),
                ..Range::default()
            })
            .await
            .is_ok()
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    let page = in_time(store.range(Range {
        prefix: "/pods/",
        at: Some(second),
        ..Range::default()
    }))
    .await
    .unwrap();
    assert_eq!(page.entries[0].value, "2");
}
