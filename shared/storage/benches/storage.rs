//! What the store and the watch cache cost: `cargo bench -p triptych-storage`. Every answer that is timed is checked.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a benchmark that cannot go on ends

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use triptych_storage::cache::{Interest, Start};
use triptych_storage::embedded::{Embedded, EmbeddedOptions};
use triptych_storage::{Cache, CacheConfig, Expect, FieldPath, JsonDecoder, Metrics, Object, Store, Write};

const WAIT: Duration = Duration::from_secs(60);

/// A pod-like object whose JSON takes about so many bytes.
fn json(name: &str, size: usize) -> String {
    let head = format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"default","labels":{{"app":"web"}}}},"spec":{{"nodeName":"node-7","containers":["#
    );
    let mut text = head;
    let mut number = 0;
    while text.len() + 60 < size {
        let comma = if number == 0 { "" } else { "," };
        text += &format!(r#"{comma}{{"name":"c{number}","image":"registry/\"x\":{number}","env":[1,2,3]}}"#);
        number += 1;
    }
    text + "]}}"
}

async fn put(store: &Arc<dyn Store>, key: &str, expect: Expect, value: Bytes) -> u64 {
    store
        .write(Write {
            key,
            expect,
            put: Some(value),
            ttl: None,
        })
        .await
        .unwrap()
}

fn proc_field(path: &str, name: &str) -> f64 {
    let text = std::fs::read_to_string(path).unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn resident_mb() -> f64 {
    proc_field("/proc/self/status", "VmRSS:") / 1024.0
}

/// CPU time of this process; Linux counts it in hundredths of a second.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    Duration::from_millis(10 * (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()))
}

fn config(prefix: &str) -> CacheConfig {
    let decoder = Arc::new(JsonDecoder {
        fields: vec![FieldPath::dotted("spec.nodeName")],
    });
    CacheConfig {
        group: "".into(),
        resource: prefix.trim_matches('/').into(),
        prefix: prefix.into(),
        decoder,
        indexes: vec![],
    }
}

async fn writes(store: &Arc<dyn Store>, writers: usize, each: usize) {
    let value = Bytes::from(json("x", 1400));
    let started = Instant::now();
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let (store, value) = (store.clone(), value.clone());
            tokio::spawn(async move {
                let mut times = Vec::new();
                for number in 0..each {
                    let begun = Instant::now();
                    put(
                        &store,
                        &format!("/w{writers}/{writer}-{number}"),
                        Expect::Absent,
                        value.clone(),
                    )
                    .await;
                    times.push(begun.elapsed());
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.unwrap());
    }
    let rate = times.len() as f64 / started.elapsed().as_secs_f64();
    times.sort();
    let at = |share: f64| times[(times.len() as f64 * share) as usize].as_secs_f64() * 1e3;
    println!(
        "synced writes, {writers:>3} writers: {rate:>8.0}/s   p50 {:.2} ms   p99 {:.2} ms",
        at(0.5),
        at(0.99)
    );
}

fn ingest(size: usize) {
    let text = json("web-1", size);
    let fields = [FieldPath::dotted("spec.nodeName"), FieldPath::dotted("status.phase")];
    let rounds = 200_000_000 / text.len();
    let started = Instant::now();
    for revision in 0..rounds {
        let object = Object::from_json(
            "/pods/default/web-1".into(),
            revision as u64 + 1,
            text.as_bytes(),
            &fields,
        )
        .unwrap();
        assert_eq!(object.field(0).unwrap(), "node-7");
    }
    let took = started.elapsed().as_secs_f64();
    let rate = (rounds * text.len()) as f64 / took / 1e6;
    println!(
        "ingest of {size:>5} bytes:      {rate:>8.0} MB/s   {:.2} µs each",
        took * 1e6 / rounds as f64
    );
}

/// Concatenates list items as the server does, into 64 KiB chunks.
async fn scan(store: &Arc<dyn Store>, count: usize, size: usize) {
    let prefix = format!("/scan{size}/");
    for number in 0..count {
        put(
            store,
            &format!("{prefix}ns/pod-{number:06}"),
            Expect::Absent,
            json(&format!("pod-{number}"), size).into(),
        )
        .await;
    }
    let cache = Cache::start(
        store,
        config(&prefix),
        &Metrics::new(&prometheus::Registry::new()).unwrap(),
    );
    cache.filled().await;
    let snapshot = cache.consistent(WAIT).await.unwrap();
    let rounds = (1_000_000_000 / (count * size)).max(1);
    let (mut total, started) = (0usize, Instant::now());
    for _ in 0..rounds {
        let mut chunk = BytesMut::with_capacity(80 << 10);
        let mut items = 0;
        for object in snapshot.range(&prefix) {
            chunk.put_u8(b'{');
            chunk.put_slice(&object.bytes()[object.after_kind_offset()..]);
            chunk.put_u8(b',');
            items += 1;
            if chunk.len() >= 64 << 10 {
                total += black_box(&chunk).len();
                chunk.clear();
            }
        }
        total += black_box(&chunk).len();
        assert_eq!(items, count);
    }
    let rate = total as f64 / started.elapsed().as_secs_f64() / 1e6;
    println!("scan of {count} x {size:>5} bytes: {rate:>7.0} MB/s");
}

async fn fan_out(store: &Arc<dyn Store>, watchers: usize, events: usize) {
    let cache = Cache::start(
        store,
        config("/fan/"),
        &Metrics::new(&prometheus::Registry::new()).unwrap(),
    );
    cache.filled().await;
    let (delivered, encoded) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let tasks: Vec<_> = (0..watchers)
        .map(|_| {
            let (_, mut watcher) = cache.watch(Start::Now, Interest::all()).unwrap();
            let (delivered, encoded) = (delivered.clone(), encoded.clone());
            tokio::spawn(async move {
                let mut batch = Vec::new();
                let mut seen = 0;
                while seen < events && watcher.next_many(&mut batch, 64).await {
                    for event in batch.drain(..) {
                        let frame = event.frame(1, || {
                            encoded.fetch_add(1, Ordering::Relaxed);
                            event.object().bytes().clone()
                        });
                        assert!(!black_box(frame).is_empty());
                        seen += 1;
                    }
                }
                delivered.fetch_add(seen, Ordering::Relaxed);
            })
        })
        .collect();
    let value = Bytes::from(json("x", 1300));
    let (cpu_before, started) = (cpu(), Instant::now());
    let mut revision = put(store, "/fan/a", Expect::Absent, value.clone()).await;
    for _ in 1..events {
        revision = put(store, "/fan/a", Expect::Revision(revision), value.clone()).await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    let (used, took) = (cpu() - cpu_before, started.elapsed());
    let delivered = delivered.load(Ordering::Relaxed);
    assert_eq!(
        (delivered, encoded.load(Ordering::Relaxed)),
        (watchers * events, events)
    );
    println!(
        "fan-out to {watchers} watchers:     {:>8.2} µs CPU per delivered event (writes included), {:.0} delivered/s",
        used.as_secs_f64() * 1e6 / delivered as f64,
        delivered as f64 / took.as_secs_f64()
    );
}

async fn memory(store: &Arc<dyn Store>) {
    let (before, started) = (resident_mb(), Instant::now());
    let metrics = Metrics::new(&prometheus::Registry::new()).unwrap();
    let caches: Vec<_> = (0..1000)
        .map(|number| Cache::start(store, config(&format!("/empty{number}/")), &metrics))
        .collect();
    for cache in &caches {
        cache.filled().await;
    }
    let took = started.elapsed();
    println!(
        "1000 empty caches:          {:>8.1} KB each, filled in {took:.0?}",
        (resident_mb() - before) * 1024.0 / 1000.0
    );
    drop(caches);
    const COUNT: usize = 5700;
    const SIZE: usize = 14_000;
    let cache = Cache::start(store, config("/memory/"), &metrics);
    cache.filled().await;
    let before = resident_mb();
    let mut revisions = Vec::new();
    for number in 0..COUNT {
        let value = Bytes::from(json(&number.to_string(), SIZE));
        revisions.push(put(store, &format!("/memory/{number:06}"), Expect::Absent, value).await);
    }
    let bytes = cache.consistent(WAIT).await.unwrap().bytes() as f64 / 1e6;
    let created = resident_mb() - before;
    for (number, revision) in revisions.into_iter().enumerate() {
        let value = Bytes::from(json(&number.to_string(), SIZE));
        put(
            store,
            &format!("/memory/{number:06}"),
            Expect::Revision(revision),
            value,
        )
        .await;
    }
    assert_eq!(cache.consistent(WAIT).await.unwrap().len(), COUNT);
    let updated = resident_mb() - before;
    println!("{bytes:.0} MB of objects take:      {created:.0} MB, {updated:.0} MB after each was updated once");
    let started = Instant::now();
    let consistent = 200_000;
    for _ in 0..consistent {
        black_box(cache.consistent(WAIT).await.unwrap().get("/memory/001234").unwrap());
    }
    println!(
        "consistent get:             {:>8.2} µs",
        started.elapsed().as_secs_f64() * 1e6 / f64::from(consistent)
    );
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let started = Instant::now();
        let store: Arc<dyn Store> = Arc::new(Embedded::open(folder.path(), EmbeddedOptions::default()).unwrap());
        println!(
            "open an empty store:        {:>8.2} ms, {:.1} MB resident",
            started.elapsed().as_secs_f64() * 1e3,
            resident_mb()
        );
        memory(&store).await;
        writes(&store, 1, 2000).await;
        writes(&store, 64, 500).await;
        ingest(1400);
        ingest(14_600);
        scan(&store, 5000, 1400).await;
        scan(&store, 5000, 14_600).await;
        fan_out(&store, 200, 2000).await;
        // The feeds of the dropped caches let go of the store in their own time.
        while Arc::strong_count(&store) > 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(store);
        let started = Instant::now();
        let store = Embedded::open(folder.path(), EmbeddedOptions::default()).unwrap();
        println!(
            "open again:                 {:>8.2} ms, {} MB",
            started.elapsed().as_secs_f64() * 1e3,
            store.size().await.unwrap() >> 20
        );
    });
}
