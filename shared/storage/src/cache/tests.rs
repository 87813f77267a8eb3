//! The watch cache over a real embedded store, and over one that misbehaves on demand.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::Notify;

use super::*;
use crate::embedded::{Embedded, EmbeddedOptions};
use crate::error::{Error, WriteError};
use crate::store::{Expect, Page, ProgressSupport, Range, Revision, Watch, Write};

const PATIENCE: Duration = Duration::from_secs(10);

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("it did not happen in time")
}

/// A store whose watches can be cut and held off, and whose clock can be turned back.
struct Flaky {
    inner: Embedded,
    cut: Notify,
    held: tokio::sync::Semaphore,
    back: AtomicU64,
}

impl Store for Flaky {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(Option<Entry>, Revision), Error>> {
        self.inner.get(key)
    }
    fn range<'a>(&'a self, range: Range<'a>) -> BoxFuture<'a, Result<Page, Error>> {
        self.inner.range(range)
    }
    fn write<'a>(&'a self, write: Write<'a>) -> BoxFuture<'a, Result<Revision, WriteError>> {
        self.inner.write(write)
    }
    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<Watch, Error>> {
        Box::pin(async move {
            let _held = self.held.acquire().await;
            self.inner.watch(prefix, after).await
        })
    }
    fn current_revision(&self) -> BoxFuture<'_, Result<Revision, Error>> {
        Box::pin(async { Ok(self.inner.current_revision().await? - self.back.swap(0, Ordering::SeqCst)) })
    }
    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), Error>> {
        self.inner.compact(revision)
    }
    fn progress(&self) -> ProgressSupport {
        self.inner.progress()
    }
    fn size(&self) -> BoxFuture<'_, Result<u64, Error>> {
        self.inner.size()
    }
}

/// Cuts watches when told to.
struct Cuttable(Arc<Flaky>);

impl Store for Cuttable {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(Option<Entry>, Revision), Error>> {
        self.0.get(key)
    }
    fn range<'a>(&'a self, range: Range<'a>) -> BoxFuture<'a, Result<Page, Error>> {
        self.0.range(range)
    }
    fn write<'a>(&'a self, write: Write<'a>) -> BoxFuture<'a, Result<Revision, WriteError>> {
        self.0.write(write)
    }
    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<Watch, Error>> {
        Box::pin(async move {
            let watch = self.0.watch(prefix, after).await?;
            let flaky = self.0.clone();
            let cut = Box::pin(async move { flaky.cut.notified().await });
            let cut = futures_util::stream::once(cut).map(|()| Err(Error::Unavailable("cut".into())));
            let mut ended = false;
            let batches = futures_util::stream::select(watch.batches, cut).take_while(move |batch| {
                let go_on = !std::mem::replace(&mut ended, batch.is_err());
                std::future::ready(go_on)
            });
            Ok(Watch {
                batches: batches.boxed(),
                control: watch.control,
            })
        })
    }
    fn current_revision(&self) -> BoxFuture<'_, Result<Revision, Error>> {
        self.0.current_revision()
    }
    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), Error>> {
        self.0.compact(revision)
    }
    fn progress(&self) -> ProgressSupport {
        self.0.progress()
    }
    fn size(&self) -> BoxFuture<'_, Result<u64, Error>> {
        self.0.size()
    }
}

struct Fixture {
    flaky: Arc<Flaky>,
    store: Arc<dyn Store>,
    cache: Arc<Cache>,
    registry: prometheus::Registry,
    _folder: tempfile::TempDir,
}

impl Fixture {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let inner = Embedded::open(folder.path(), EmbeddedOptions::default()).unwrap();
        let held = tokio::sync::Semaphore::new(1);
        let flaky = Arc::new(Flaky {
            inner,
            cut: Notify::new(),
            held,
            back: AtomicU64::new(0),
        });
        let store: Arc<dyn Store> = Arc::new(Cuttable(flaky.clone()));
        let registry = prometheus::Registry::new();
        let cache = Self::cache_of(&store, &registry).await;
        Self {
            flaky,
            store,
            cache,
            registry,
            _folder: folder,
        }
    }

    async fn cache_of(store: &Arc<dyn Store>, registry: &prometheus::Registry) -> Arc<Cache> {
        let fields = vec![FieldPath::dotted("spec.nodeName")];
        let config = CacheConfig {
            group: "".into(),
            resource: "pods".into(),
            prefix: "/pods/".into(),
            decoder: Arc::new(JsonDecoder { fields }),
            indexes: vec![0],
        };
        let cache = Cache::start(store, config, &Metrics::new(registry).unwrap());
        in_time(cache.filled()).await;
        cache
    }

    /// The cache of a process that begins now.
    async fn another_cache(&self) -> Arc<Cache> {
        Self::cache_of(&self.store, &prometheus::Registry::new()).await
    }

    async fn raw(&self, key: &str, value: &str) -> Revision {
        let (entry, _) = self.flaky.get(key).await.unwrap();
        let expect = entry.map_or(Expect::Absent, |entry| Expect::Revision(entry.revision));
        let put = Some(value.to_owned().into());
        in_time(self.flaky.write(Write {
            key,
            expect,
            put,
            ttl: None,
        }))
        .await
        .unwrap()
    }

    /// Writes `/pods/<name>` with a node and a label.
    async fn pod(&self, name: &str, node: &str, label: &str) -> Revision {
        let json = format!(r#"{{"metadata":{{"labels":{{"app":"{label}"}}}},"spec":{{"nodeName":"{node}"}}}}"#);
        self.raw(&format!("/pods/{name}"), &json).await
    }

    async fn delete(&self, name: &str) -> Revision {
        let key = format!("/pods/{name}");
        let entry = self.flaky.get(&key).await.unwrap().0.unwrap();
        let write = Write {
            key: &key,
            expect: Expect::Revision(entry.revision),
            put: None,
            ttl: None,
        };
        in_time(self.flaky.write(write)).await.unwrap()
    }

    async fn fresh(&self) -> Snapshot {
        self.cache.consistent(PATIENCE).await.unwrap()
    }

    fn count(&self, name: &str) -> u64 {
        let families = self.registry.gather();
        let family = families.iter().find(|family| family.name() == name);
        family.map_or(0.0, |family| {
            family.get_metric().iter().map(|it| it.get_counter().get_value()).sum()
        }) as u64
    }
}

fn labelled(value: &'static str) -> Interest {
    let filter: Filter = Arc::new(move |object: &Object| object.label("app").is_some_and(|app| app == value));
    Interest {
        filter: Some(filter),
        ..Interest::all()
    }
}

fn shown(event: &Event) -> (&'static str, String, Revision) {
    let label = event.object().label("app").unwrap_or_default().into_owned();
    assert_eq!(
        event.object().metadata_field("resourceVersion").unwrap(),
        event.revision().to_string()
    );
    (
        event.kind().as_str(),
        format!("{}:{label}", event.object().name()),
        event.revision(),
    )
}

async fn next(watcher: &mut Watcher) -> (&'static str, String, Revision) {
    shown(&in_time(watcher.next()).await.expect("the watch ended"))
}

fn names(snapshot: &Snapshot) -> Vec<String> {
    snapshot
        .range("")
        .map(|object| format!("{}@{}", object.name(), object.revision()))
        .collect()
}

#[tokio::test]
async fn a_consistent_read_sees_every_write_before_it() {
    let it = Fixture::new().await;
    for number in 0..200 {
        let revision = it.pod(&number.to_string(), "n", "x").await;
        let snapshot = it.fresh().await;
        assert!(snapshot.len() == number + 1 && snapshot.revision() >= revision);
    }
    let elsewhere = it.raw("/nodes/a", "{}").await;
    assert!(it.fresh().await.revision() >= elsewhere);
}

#[tokio::test]
async fn a_snapshot_never_changes() {
    let it = Fixture::new().await;
    let a = it.pod("a", "n", "x").await;
    let before = it.fresh().await;
    it.pod("a", "n", "y").await;
    it.pod("b", "n", "y").await;
    assert_eq!(names(&before), [format!("a@{a}")]);
    assert_eq!(it.fresh().await.len(), 2);
}

#[tokio::test]
async fn exact_revisions_come_from_memory_as_far_as_it_reaches() {
    let it = Fixture::new().await;
    let start = it.fresh().await.revision();
    let a1 = it.pod("a", "n1", "x").await;
    let b1 = it.pod("b", "n1", "x").await;
    let a2 = it.pod("a", "n2", "x").await;
    it.delete("b").await;
    it.fresh().await;
    assert_eq!(names(&it.cache.at(a1).unwrap()), [format!("a@{a1}")]);
    let past = it.cache.at(b1).unwrap();
    assert_eq!(
        (names(&past), past.revision()),
        (vec![format!("a@{a1}"), format!("b@{b1}")], b1)
    );
    assert_eq!(past.with_value(0, "n1").unwrap().len(), 2);
    assert_eq!(names(&it.cache.at(a2).unwrap()), [format!("a@{a2}"), format!("b@{b1}")]);
    assert_eq!(it.cache.at(start).unwrap().len(), 0);
    assert!(it.cache.at(start - 1).is_none() && it.cache.at(b1 + 100).is_none());
    let page = it
        .cache
        .read_range(Range {
            prefix: "/pods/",
            at: Some(b1),
            ..Range::default()
        })
        .await
        .unwrap();
    assert_eq!(page.objects.len(), 2);
}

#[tokio::test]
async fn a_revision_that_does_not_come_is_too_new() {
    let it = Fixture::new().await;
    let revision = it.pod("a", "n", "x").await;
    let error = it
        .cache
        .at_least(revision + 10, Duration::from_millis(50))
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with(&format!("Too large resource version: {}, current: ", revision + 10))
    );
}

#[tokio::test]
async fn a_watch_continues_its_snapshot_without_gap_or_repetition() {
    let it = Arc::new(Fixture::new().await);
    let (written, mut progress) = tokio::sync::watch::channel(0);
    let writer = {
        let it = it.clone();
        tokio::spawn(async move {
            for number in 0..300 {
                it.pod(&format!("{:02}", number % 20), "n", &number.to_string()).await;
                written.send_replace(number);
            }
        })
    };
    let mut readers = Vec::new();
    for number in 0..10 {
        // each begins at another point of the writing
        in_time(progress.wait_for(|w| *w >= number * 20)).await.unwrap();
        let (snapshot, mut watcher) = it.cache.watch(Start::Now, Interest::all()).unwrap();
        readers.push(tokio::spawn(async move {
            let mut seen: std::collections::BTreeMap<String, String> = snapshot
                .range("")
                .map(|it| (it.name().into(), it.label("app").unwrap().into_owned()))
                .collect();
            let mut last = snapshot.revision();
            while seen.get("19").is_none_or(|label| label != "299") {
                let event = in_time(watcher.next()).await.unwrap();
                assert!(event.revision() > last);
                last = event.revision();
                let known = seen.insert(
                    event.object().name().into(),
                    event.object().label("app").unwrap().into(),
                );
                assert_eq!(known.is_some(), event.kind() == EventKind::Modified);
            }
            seen
        }));
    }
    writer.await.unwrap();
    let now: Vec<_> = it
        .fresh()
        .await
        .range("")
        .map(|it| it.label("app").unwrap().into_owned())
        .collect();
    for reader in readers {
        assert_eq!(reader.await.unwrap().into_values().collect::<Vec<_>>(), now);
    }
}

#[tokio::test]
async fn a_filtered_watch_sees_objects_come_and_go() {
    let it = Fixture::new().await;
    let start = it.fresh().await.revision();
    let (_, mut live) = it.cache.watch(Start::Now, labelled("x")).unwrap();
    it.pod("other", "n", "y").await;
    let created = it.pod("a", "n", "x").await;
    let modified = it.pod("a", "n2", "x").await;
    let left = it.pod("a", "n", "y").await;
    it.pod("a", "n", "z").await;
    let back = it.pod("a", "n", "x").await;
    let deleted = it.delete("a").await;
    it.fresh().await;
    let (_, mut replayed) = it.cache.watch(Start::After(start), labelled("x")).unwrap();
    for watcher in [&mut live, &mut replayed] {
        assert_eq!(next(watcher).await, ("ADDED", "a:x".into(), created));
        assert_eq!(next(watcher).await, ("MODIFIED", "a:x".into(), modified));
        assert_eq!(next(watcher).await, ("DELETED", "a:x".into(), left));
        assert_eq!(next(watcher).await, ("ADDED", "a:x".into(), back));
        assert_eq!(next(watcher).await, ("DELETED", "a:x".into(), deleted));
        assert!(watcher.try_next().is_none());
    }
}

#[tokio::test]
async fn scopes_and_indexes_select_who_is_told() {
    let it = Fixture::new().await;
    let watch = |scope, index| {
        let interest = Interest {
            scope,
            index,
            filter: None,
        };
        it.cache.watch(Start::Now, interest).unwrap().1
    };
    let mut namespace = watch(Scope::Prefix("/pods/ns/".into()), None);
    let mut single = watch(Scope::Key("/pods/ns/b".into()), None);
    let mut node = watch(Scope::All, Some((0, "n2".into())));
    let mut both = watch(Scope::Prefix("/pods/ns/".into()), Some((0, "n2".into())));
    it.pod("ns/a", "n1", "x").await;
    it.pod("ns/b", "n1", "x").await;
    it.pod("other/c", "n2", "x").await;
    it.pod("ns/a", "n2", "x").await;
    it.pod("ns/a", "n3", "x").await;
    it.fresh().await;
    let all = |watcher: &mut Watcher| {
        std::iter::from_fn(|| watcher.try_next())
            .map(|event| format!("{} {}", event.kind().as_str(), event.object().name()))
            .collect::<Vec<_>>()
    };
    assert_eq!(all(&mut namespace), ["ADDED a", "ADDED b", "MODIFIED a", "MODIFIED a"]);
    assert_eq!(all(&mut single), ["ADDED b"]);
    assert_eq!(all(&mut node), ["ADDED c", "ADDED a", "DELETED a"]);
    assert_eq!(all(&mut both), ["ADDED a", "DELETED a"]);
}

#[tokio::test]
async fn a_slow_watcher_is_closed_and_others_go_on() {
    let it = Fixture::new().await;
    let (_, mut slow) = it.cache.watch(Start::Now, Interest::all()).unwrap();
    let (_, mut quick) = it.cache.watch(Start::Now, Interest::all()).unwrap();
    let mut seen = 0;
    for batch in 0..12 {
        let it = &it;
        let writes = (0..100).map(|number| async move { it.pod(&format!("{batch}-{number}"), "n", "x").await });
        futures_util::stream::iter(writes).buffer_unordered(50).count().await;
        it.fresh().await;
        seen += std::iter::from_fn(|| quick.try_next()).count();
    }
    assert_eq!((seen, quick.end()), (1200, None));
    assert_eq!(slow.end(), Some(WatchEnd::TooSlow));
    let mut left = 0;
    while in_time(slow.next()).await.is_some() {
        left += 1;
    }
    assert_eq!(left, watcher::QUEUED_EVENTS);
    assert_eq!(it.count("apiserver_terminated_watchers_total"), 1);
    assert_eq!(it.cache.board().watchers(), 1);
}

#[tokio::test]
async fn an_event_is_encoded_once_for_all_watchers() {
    let it = Fixture::new().await;
    let mut watchers: Vec<_> = (0..5)
        .map(|_| it.cache.watch(Start::Now, Interest::all()).unwrap().1)
        .collect();
    it.pod("a", "n", "x").await;
    let encoded = AtomicUsize::new(0);
    let mut events = Vec::new();
    for watcher in &mut watchers {
        let event = in_time(watcher.next()).await.unwrap();
        let frame = event.frame(1, || {
            encoded.fetch_add(1, Ordering::SeqCst);
            Bytes::from_static(b"frame")
        });
        assert_eq!(frame, "frame");
        events.push(event);
    }
    assert_eq!(encoded.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn progress_is_only_claimed_when_nothing_waits() {
    let it = Fixture::new().await;
    let (_, mut watcher) = it.cache.watch(Start::Now, Interest::all()).unwrap();
    let elsewhere = it.raw("/nodes/a", "{}").await;
    assert!(watcher.progress().unwrap() >= elsewhere);
    let here = it.pod("a", "n", "x").await;
    it.fresh().await;
    assert_eq!(watcher.progress(), None);
    next(&mut watcher).await;
    assert!(watcher.progress().unwrap() >= here);
}

#[tokio::test]
async fn a_watch_from_before_memory_is_too_old() {
    let it = Fixture::new().await;
    let error = it
        .cache
        .watch(Start::After(0), Interest::all())
        .map(|_| ())
        .unwrap_err();
    assert_eq!(error, WatchError::TooOld { wanted: 0, oldest: 1 });
    assert_eq!(error.to_string(), "too old resource version: 0 (1)");
}

#[tokio::test]
async fn a_new_cache_recalls_what_happened_before_it_was_filled() {
    let it = Fixture::new().await;
    it.pod("kept", "n", "a").await;
    let known = it.pod("changed", "n", "a").await;
    let changed = it.pod("changed", "n", "b").await;
    let added = it.pod("passing", "n", "a").await;
    let gone = it.delete("passing").await;
    let cache = it.another_cache().await;
    let watch = |after| cache.watch(Start::After(after), Interest::all());
    assert!(watch(known).is_err());

    assert!(in_time(cache.recall(known)).await);
    let (_, mut watcher) = watch(known).unwrap();
    assert_eq!(next(&mut watcher).await, ("MODIFIED", "changed:b".into(), changed));
    assert_eq!(next(&mut watcher).await, ("ADDED", "passing:a".into(), added));
    assert_eq!(next(&mut watcher).await, ("DELETED", "passing:a".into(), gone));
    let new = it.pod("new", "n", "a").await;
    assert_eq!(next(&mut watcher).await, ("ADDED", "new:a".into(), new));
    let past = cache.at(known).unwrap();
    assert_eq!(names(&past).len(), 2);
}

#[tokio::test]
async fn what_the_store_forgot_is_not_recalled() {
    let it = Fixture::new().await;
    let first = it.pod("a", "n", "a").await;
    it.pod("a", "n", "b").await;
    let last = it.pod("a", "n", "c").await;
    in_time(it.store.compact(last)).await.unwrap();
    let cache = it.another_cache().await;
    assert!(!in_time(cache.recall(first)).await);
    assert!(cache.watch(Start::After(first), Interest::all()).is_err());
    assert!(in_time(cache.recall(last)).await);
}

#[tokio::test]
async fn a_value_that_cannot_be_decoded_stops_nothing() {
    let it = Fixture::new().await;
    let (_, mut watcher) = it.cache.watch(Start::Now, Interest::all()).unwrap();
    it.pod("a", "n", "x").await;
    let broken = it.raw("/pods/a", "k8s\0??").await;
    let fixed = it.pod("a", "n", "y").await;
    it.raw("/pods/b", "{").await;
    assert_eq!(next(&mut watcher).await.0, "ADDED");
    assert_eq!(next(&mut watcher).await, ("DELETED", "a:x".into(), broken));
    assert_eq!(next(&mut watcher).await, ("ADDED", "a:y".into(), fixed));
    let snapshot = it.fresh().await;
    assert!(snapshot.get("/pods/b").unwrap().broken().is_some());
    assert_eq!((snapshot.len(), snapshot.broken()), (2, 1));
    assert_eq!(it.count("apiserver_storage_decode_errors_total"), 2);
    assert!(watcher.try_next().is_none());
}

#[tokio::test]
async fn a_lost_connection_costs_no_watcher_and_no_event() {
    let it = Fixture::new().await;
    let (_, mut watcher) = it.cache.watch(Start::Now, Interest::all()).unwrap();
    let mut expected = Vec::new();
    for number in 0..5 {
        expected.push(it.pod(&number.to_string(), "n", "x").await);
        it.flaky.cut.notify_waiters();
    }
    for revision in expected {
        assert_eq!(next(&mut watcher).await.2, revision);
    }
    assert_eq!(it.count("apiserver_watch_cache_initializations_total"), 1);
}

async fn state_is(cache: &Cache, state: CacheState) {
    in_time(async {
        while cache.state() != state {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn lost_history_is_listed_again_and_ends_watches() {
    let it = Fixture::new().await;
    let a = it.pod("a", "n", "x").await;
    it.pod("gone", "n", "x").await;
    it.fresh().await;
    let (_, mut watcher) = it.cache.watch(Start::Now, Interest::all()).unwrap();
    let held = it.flaky.held.acquire().await.unwrap();
    it.flaky.cut.notify_waiters();
    state_is(&it.cache, CacheState::Lagging).await;
    it.delete("gone").await;
    let b = it.pod("b", "n", "x").await;
    assert_eq!(
        it.cache.snapshot().unwrap().len(),
        2,
        "while out of touch the last state is shown"
    );
    it.flaky.compact(b).await.unwrap();
    drop(held);
    assert!(in_time(watcher.next()).await.is_none());
    assert_eq!(watcher.end(), Some(WatchEnd::Restarted));
    state_is(&it.cache, CacheState::Ready).await;
    assert_eq!(names(&it.fresh().await), [format!("a@{a}"), format!("b@{b}")]);
    assert!(matches!(
        it.cache.watch(Start::After(a), Interest::all()),
        Err(WatchError::TooOld { .. })
    ));
}

#[tokio::test]
async fn a_store_that_went_back_in_time_is_listed_again() {
    let it = Fixture::new().await;
    it.pod("a", "n", "x").await;
    it.fresh().await;
    let (_, mut watcher) = it.cache.watch(Start::Now, Interest::all()).unwrap();
    it.flaky.back.store(1, Ordering::SeqCst);
    it.flaky.cut.notify_waiters();
    assert!(in_time(watcher.next()).await.is_none());
    assert_eq!(watcher.end(), Some(WatchEnd::Restarted));
    assert_eq!(it.fresh().await.len(), 1);
}

#[tokio::test]
async fn dropping_the_cache_ends_its_watches_and_its_metrics() {
    let it = Fixture::new().await;
    let (_, mut watcher) = it.cache.watch(Start::Now, Interest::all()).unwrap();
    let Fixture { cache, registry, .. } = it;
    drop(cache);
    assert!(in_time(watcher.next()).await.is_none());
    assert_eq!(watcher.end(), Some(WatchEnd::Closed));
    drop(watcher);
    in_time(async {
        while registry
            .gather()
            .iter()
            .any(|family| family.name() == "apiserver_storage_objects")
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_view_derives_each_change_once() {
    let it = Fixture::new().await;
    it.pod("a", "n1", "x").await;
    it.pod("b", "n2", "x").await;
    it.fresh().await;
    let derived = Arc::new(AtomicUsize::new(0));
    let count = derived.clone();
    let view = View::new(it.cache.clone(), move |object| {
        count.fetch_add(1, Ordering::SeqCst);
        object
            .field(0)
            .filter(|node| node != "hidden")
            .map(|node| node.into_owned())
    });
    let nodes = |view: &View<String>| {
        let now = view.load().unwrap();
        now.iter()
            .map(|(key, node)| format!("{key}={node}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(nodes(&view), ["/pods/a=n1", "/pods/b=n2"]);
    assert_eq!(nodes(&view).len(), 2);
    let first = view.load().unwrap().generation();
    it.pod("a", "n3", "x").await;
    it.delete("b").await;
    it.pod("c", "hidden", "x").await;
    it.fresh().await;
    assert_eq!(nodes(&view), ["/pods/a=n3"]);
    assert_eq!(derived.load(Ordering::SeqCst), 4);
    assert!(view.load().unwrap().generation() > first);
}

#[tokio::test]
async fn a_cache_being_filled_says_so() {
    let board = Board::new(&[]);
    assert!(board.snapshot().is_none());
    assert!(matches!(
        board.watch(Start::Now, Interest::all()),
        Err(WatchError::Filling)
    ));
    board.reset([], 7);
    assert_eq!(board.snapshot().unwrap().revision(), 7);
}
