//! A copy of one resource that another tier holds, kept current by list and watch.
//!
//! Contract: readers see it as they see a local cache ([`Source`]); what was once complete stays readable while the other
//! tier is away (`Lagging`). Its revisions are the other tier's and are never compared with ours; one that went back
//! means that the other store was restored: everything is listed again. A *negative* may be too old; who is about to act
//! on one brings the mirror up to date first ([`Source::consistent`]: one fresh list for all who wait, at most ten a
//! second) or asks for the one object ([`Mirror::get_live`]: one request for all who ask for the same).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures_util::future::{BoxFuture, FutureExt, Shared};
use http::Method;
use http_body::Body as _;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use triptych_object::{Status, StatusResult, Value, json, meta};
use triptych_storage::cache::{Board, CacheState, ReadError, Snapshot, Update};
use triptych_storage::{Error as StoreError, FieldPath, Object, Revision, Source};

use crate::api::Api;
use crate::body::Incoming;
use crate::pool::Class;

const FIRST_RETRY: Duration = Duration::from_millis(10);
const LAST_RETRY: Duration = Duration::from_secs(5);
const PAGE: usize = 500;
/// A watch that says nothing for so long is begun again.
const WATCH_SECONDS: u64 = 600;
/// Fresh lists for negatives: no more often.
const CONFIRM_EVERY: Duration = Duration::from_millis(100);
/// Requests to be brought up to date that wait for one list.
const MAX_WAITING: usize = 10_000;
/// An event may have so many bytes.
const MAX_LINE: usize = 64 * 1024 * 1024;
/// Live reads at once.
const MAX_LIVE: usize = 64;

/// What is mirrored.
#[derive(Clone, Debug)]
pub struct MirrorConfig {
    /// API group; empty for core.
    pub group: String,
    /// Version.
    pub version: String,
    /// Kind, put into items of lists, which do not name it.
    pub kind: String,
    /// Plural name.
    pub resource: String,
    /// Objects are in namespaces.
    pub namespaced: bool,
    /// Fields that selectors and indexes may use.
    pub fields: Vec<FieldPath>,
    /// Numbers of those to index.
    pub indexes: Vec<usize>,
    /// Takes away what no reader of this mirror needs, before an object is kept.
    pub reduce: Option<fn(&mut Value)>,
}

impl MirrorConfig {
    /// A namespaced or cluster-scoped resource without selectable fields.
    pub fn new(group: &str, version: &str, kind: &str, resource: &str, namespaced: bool) -> MirrorConfig {
        MirrorConfig {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            resource: resource.to_owned(),
            namespaced,
            fields: Vec::new(),
            indexes: Vec::new(),
            reduce: None,
        }
    }

    /// The same, keeping of each object only what `reduce` leaves; its metadata must keep name, namespace and revision.
    pub fn reduced_by(mut self, reduce: fn(&mut Value)) -> MirrorConfig {
        self.reduce = Some(reduce);
        self
    }

    fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    fn collection(&self) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        format!("{root}/{}/{}", self.api_version(), self.resource)
    }

    fn object(&self, namespace: &str, name: &str) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let api_version = self.api_version();
        if self.namespaced {
            format!("{root}/{api_version}/namespaces/{namespace}/{}/{name}", self.resource)
        } else {
            format!("{root}/{api_version}/{}/{name}", self.resource)
        }
    }

    /// The key of an object, as a store would have it: `/resource[/namespace]/name`.
    pub fn key(&self, namespace: &str, name: &str) -> String {
        if self.namespaced {
            format!("/{}/{namespace}/{name}", self.resource)
        } else {
            format!("/{}/{name}", self.resource)
        }
    }
}

/// Who waits for the mirror to be brought up to date.
type Waiting = oneshot::Sender<Result<(), StoreError>>;

type Live = Shared<BoxFuture<'static, Result<Option<Arc<Value>>, Arc<Status>>>>;

/// A mirror of one resource; the last handle dropped ends it.
pub struct Mirror {
    board: Arc<Board>,
    api: Api,
    config: Arc<MirrorConfig>,
    confirm: mpsc::Sender<Waiting>,
    proven: Arc<Mutex<Option<Instant>>>,
    live: Arc<Mutex<HashMap<String, Live>>>,
    task: tokio::task::AbortHandle,
}

impl Mirror {
    /// Begins to fill; runs on the current tokio runtime.
    pub fn start(api: Api, config: MirrorConfig) -> Arc<Mirror> {
        let board = Board::new(&config.indexes);
        let config = Arc::new(config);
        let proven: Arc<Mutex<Option<Instant>>> = Arc::default();
        let (confirm, asked) = mpsc::channel(MAX_WAITING);
        let follower = Follower {
            api: api.clone(),
            board: Arc::clone(&board),
            config: Arc::clone(&config),
            proven: Arc::clone(&proven),
            asked,
            last_confirm: None,
        };
        let task = tokio::spawn(follower.run()).abort_handle();
        Arc::new(Mirror {
            board,
            api,
            config,
            confirm,
            proven,
            live: Arc::default(),
            task,
        })
    }

    /// What is mirrored.
    pub fn config(&self) -> &MirrorConfig {
        &self.config
    }

    /// Resolves when it was complete for the first time.
    pub async fn synced(&self) {
        // the first fill is rare enough to be polled for
        while self.board.state() == CacheState::Filling {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// True if it was complete at least once.
    pub fn has_synced(&self) -> bool {
        self.board.state() != CacheState::Filling
    }

    /// True if it is known to have been current at a moment not longer ago than `age`.
    pub fn proven_within(&self, age: Duration) -> bool {
        self.proven.lock().is_some_and(|at| at.elapsed() <= age)
    }

    /// The object as its own tier has it now; `None` if there is none. One request for all who ask at the same time.
    pub async fn get_live(&self, namespace: &str, name: &str) -> StatusResult<Option<Arc<Value>>> {
        let path = self.config.object(namespace, name);
        let request = {
            let mut live = self.live.lock();
            match live.get(&path) {
                Some(request) => request.clone(),
                None if live.len() >= MAX_LIVE => {
                    return Err(Status::too_many_requests("too many live reads of another tier", 1));
                }
                None => {
                    let request = self.request_live(path.clone());
                    live.insert(path, request.clone());
                    request
                }
            }
        };
        request.await.map_err(|status| Box::new((*status).clone()))
    }

    fn request_live(&self, path: String) -> Live {
        let (api, live) = (self.api.clone(), Arc::clone(&self.live));
        let request = async move {
            let answer = api.find(&path).await;
            live.lock().remove(&path);
            answer.map(|found| found.map(Arc::new)).map_err(Arc::from)
        };
        // in a task, so that it ends (and is forgotten) even if nobody waits any more
        let task = tokio::spawn(request);
        async move {
            task.await
                .unwrap_or_else(|_| Err(Arc::from(Status::internal("a live read was ended"))))
        }
        .boxed()
        .shared()
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.task.abort();
        self.board.close();
    }
}

impl Source for Mirror {
    fn board(&self) -> &Arc<Board> {
        &self.board
    }

    fn consistent<'a>(&'a self, wait: Duration) -> BoxFuture<'a, Result<Snapshot, ReadError>> {
        async move {
            if self.board.state() == CacheState::Filling {
                return Err(ReadError::Filling);
            }
            let unavailable = |why: &str| ReadError::Store(StoreError::Unavailable(why.to_owned()));
            let (done, outcome) = oneshot::channel();
            self.confirm
                .try_send(done)
                .map_err(|_| unavailable("too many wait for a mirror to be brought up to date"))?;
            match tokio::time::timeout(wait, outcome).await {
                Ok(Ok(Ok(()))) => self.board.snapshot().ok_or(ReadError::Filling),
                Ok(Ok(Err(error))) => Err(ReadError::Store(error)),
                Ok(Err(_)) => Err(unavailable("the mirror has ended")),
                Err(_) => Err(ReadError::Store(StoreError::Timeout)),
            }
        }
        .boxed()
    }
}

/// Keeps the board current; its only writer.
struct Follower {
    api: Api,
    board: Arc<Board>,
    config: Arc<MirrorConfig>,
    proven: Arc<Mutex<Option<Instant>>>,
    asked: mpsc::Receiver<Waiting>,
    last_confirm: Option<Instant>,
}

/// What to do after following broke off.
enum Next {
    /// Watch again from the last revision.
    Resume(String),
    /// History is lost.
    List(String),
}

struct Listed {
    objects: Vec<Arc<Object>>,
    revision: Revision,
}

impl Follower {
    async fn run(mut self) {
        let mut retry = Retry::default();
        loop {
            let mut revision = loop {
                let sent = Instant::now();
                match list(&self.api, &self.config).await {
                    Ok(listed) => {
                        self.board.reset(listed.objects, listed.revision);
                        *self.proven.lock() = Some(sent);
                        break listed.revision;
                    }
                    Err(why) => self.pause(&mut retry, &why.message).await,
                }
            };
            retry = Retry::default();
            loop {
                match self.follow(&mut revision, &mut retry).await {
                    Next::List(why) => {
                        tracing::info!(resource = self.config.resource, why, "listing again");
                        self.board.set_state(CacheState::Lagging);
                        break;
                    }
                    Next::Resume(why) => {
                        self.board.set_state(CacheState::Lagging);
                        self.pause(&mut retry, &why).await;
                    }
                }
            }
        }
    }

    async fn follow(&mut self, revision: &mut Revision, retry: &mut Retry) -> Next {
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&resourceVersion={revision}&timeoutSeconds={WATCH_SECONDS}",
            self.config.collection()
        );
        let body = match self.api.watch(&path).await {
            Ok(body) => body,
            Err(status) if matches!(status.code, 429 | 503) => return Next::Resume(status.message),
            // among them: a revision that has not happened, which means that the store was restored
            Err(status) if status.code == 504 && retry.failures < 3 => return Next::Resume(status.message),
            Err(status) => return Next::List(status.message),
        };
        self.board.set_state(CacheState::Ready);
        let mut lines = Lines::new(body);
        loop {
            let batch = tokio::select! {
                asked = self.asked.recv() => {
                    let Some(first) = asked else { return std::future::pending().await };
                    if let Err(next) = self.confirm(first, revision).await {
                        return next;
                    }
                    continue;
                }
                batch = lines.next() => batch,
            };
            let batch = match batch {
                Ok(Some(batch)) => batch,
                Ok(None) => return Next::Resume("the watch ended".into()),
                Err(why) => return Next::Resume(why),
            };
            *retry = Retry::default();
            if let Err(next) = self.events(&batch, revision) {
                return next;
            }
        }
    }

    fn events(&self, lines: &[Bytes], revision: &mut Revision) -> Result<(), Next> {
        let mut updates = Vec::with_capacity(lines.len());
        let mut outcome = Ok(());
        let mut bookmark = None;
        for line in lines {
            match event(&self.config, line) {
                Ok(Event::Changed(update, at)) => {
                    *revision = at.max(*revision);
                    updates.push(update);
                }
                Ok(Event::Bookmark(at)) => {
                    *revision = at.max(*revision);
                    bookmark = Some(at);
                }
                Ok(Event::Error(status)) => {
                    outcome = Err(if status.code == 410 {
                        Next::List(status.message)
                    } else {
                        Next::Resume(status.message)
                    });
                    break;
                }
                Err(why) => {
                    outcome = Err(Next::List(why));
                    break;
                }
            }
        }
        if !updates.is_empty() {
            self.board.apply(updates);
        }
        if let Some(at) = bookmark {
            self.board.set_progress(at);
        }
        outcome
    }

    /// One fresh list for `first` and all who have asked before it is sent.
    async fn confirm(&mut self, first: Waiting, revision: &mut Revision) -> Result<(), Next> {
        if let Some(last) = self.last_confirm {
            tokio::time::sleep(CONFIRM_EVERY.saturating_sub(last.elapsed())).await;
        }
        let mut waiting = vec![first];
        while let Ok(another) = self.asked.try_recv() {
            waiting.push(another);
        }
        let sent = Instant::now();
        self.last_confirm = Some(sent);
        let (result, next) = match list(&self.api, &self.config).await {
            Ok(listed) if listed.revision < *revision => {
                let why = "the other tier's revision went back";
                (Err(StoreError::Unavailable(why.into())), Err(Next::List(why.into())))
            }
            Ok(listed) => {
                // what it showed, the watch need not tell again
                *revision = listed.revision;
                self.merge(listed);
                *self.proven.lock() = Some(sent);
                (Ok(()), Ok(()))
            }
            Err(status) => (Err(StoreError::Unavailable(status.message)), Ok(())),
        };
        for one in waiting {
            // who no longer waits does not matter
            let _ = one.send(result.clone());
        }
        next
    }

    /// Waits after a failure; who asks meanwhile is told so at once.
    async fn pause(&mut self, retry: &mut Retry, why: &str) {
        let mut wait = std::pin::pin!(retry.wait(&self.config.resource, why));
        loop {
            tokio::select! {
                () = &mut wait => return,
                asked = self.asked.recv() => match asked {
                    Some(one) => { let _ = one.send(Err(StoreError::Unavailable(why.to_owned()))); }
                    None => return wait.await,
                },
            }
        }
    }

    /// Applies what differs between a fresh list and the board.
    fn merge(&self, listed: Listed) {
        let Some(known) = self.board.snapshot() else { return };
        let mut updates: Vec<Update> = Vec::new();
        let mut kept = std::collections::HashSet::with_capacity(listed.objects.len());
        let mut changed: Vec<Arc<Object>> = Vec::new();
        for object in listed.objects {
            kept.insert(Arc::clone(object.key()));
            let same = known
                .get(object.key())
                .is_some_and(|k| k.revision() >= object.revision());
            if !same {
                changed.push(object);
            }
        }
        changed.sort_by_key(|o| o.revision());
        updates.extend(changed.into_iter().map(Update::Put));
        let gone = known.range("").filter(|o| !kept.contains(o.key()));
        updates.extend(gone.map(|o| Update::Delete(Arc::clone(o.key()), listed.revision)));
        if !updates.is_empty() {
            self.board.apply(updates);
        }
        self.board.set_progress(listed.revision);
    }
}

/// Everything, page by page, at one revision.
async fn list(api: &Api, config: &MirrorConfig) -> StatusResult<Listed> {
    let mut objects = Vec::new();
    let mut from = String::new();
    loop {
        let mut path = format!("{}?limit={PAGE}", config.collection());
        if !from.is_empty() {
            path.push_str("&continue=");
            path.push_str(&from);
        }
        let page = api.bytes(Class::Bulk, Method::GET, &path, None).await?;
        let mut page = json::from_slice(&page).map_err(|e| Status::internal(format!("a list is no JSON: {e}")))?;
        let revision = revision_of(&page).map_err(Status::internal)?;
        from = text(&page, "continue").to_owned();
        let items = page.as_object_mut().and_then(|o| o.remove("items"));
        let Some(Value::Array(items)) = items else {
            return match items {
                None | Some(Value::Null) => Ok(Listed { objects, revision }),
                _ => Err(Status::internal("a list's items are no array")),
            };
        };
        for item in items {
            objects.push(Arc::new(ingest(config, item).map_err(Status::internal)?.0));
        }
        if from.is_empty() {
            return Ok(Listed { objects, revision });
        }
    }
}

enum Event {
    Changed(Update, Revision),
    Bookmark(Revision),
    Error(Box<Status>),
}

fn event(config: &MirrorConfig, line: &[u8]) -> Result<Event, String> {
    let mut event = json::from_slice(line).map_err(|e| format!("an event is no JSON: {e}"))?;
    let kind = event.get("type").and_then(Value::as_str).unwrap_or("").to_owned();
    let object = event
        .as_object_mut()
        .and_then(|o| o.remove("object"))
        .ok_or("an event without object")?;
    Ok(match kind.as_str() {
        "ADDED" | "MODIFIED" => {
            let (object, revision) = ingest(config, object)?;
            Event::Changed(Update::Put(Arc::new(object)), revision)
        }
        "DELETED" => {
            let revision = revision_of(&object)?;
            let key = config.key(meta::namespace(&object), meta::name(&object));
            Event::Changed(Update::Delete(key.into(), revision), revision)
        }
        "BOOKMARK" => Event::Bookmark(revision_of(&object)?),
        "ERROR" => Event::Error(Box::new(crate::api::read_status(
            object.get("code").and_then(Value::as_i64).unwrap_or(500) as u16,
            &object,
        ))),
        other => return Err(format!("an event of unknown type {other:?}")),
    })
}

fn ingest(config: &MirrorConfig, mut object: Value) -> Result<(Object, Revision), String> {
    let revision = revision_of(&object)?;
    let key = config.key(meta::namespace(&object), meta::name(&object));
    if let Some(reduce) = config.reduce {
        reduce(&mut object);
    }
    if let Some(members) = object.as_object_mut()
        && members.get("kind").is_none()
    {
        members.insert("kind", config.kind.as_str().into());
        members.insert("apiVersion", config.api_version().as_str().into());
    }
    let object =
        Object::from_json(key.into(), revision, &json::to_vec(&object), &config.fields).map_err(|e| e.to_string())?;
    Ok((object, revision))
}

fn text<'a>(document: &'a Value, key: &str) -> &'a str {
    document
        .get("metadata")
        .and_then(|m| m.get(key))
        .and_then(Value::as_str)
        .unwrap_or("")
}

fn revision_of(document: &Value) -> Result<Revision, String> {
    let revision = text(document, "resourceVersion");
    revision
        .parse()
        .map_err(|_| format!("{revision:?} is no resourceVersion"))
}

/// The lines of a watch, all that are there at once.
struct Lines {
    body: Incoming,
    rest: BytesMut,
}

impl Lines {
    fn new(body: Incoming) -> Lines {
        Lines {
            body,
            rest: BytesMut::new(),
        }
    }

    /// Cancel-safe: nothing is taken before something is returned.
    async fn next(&mut self) -> Result<Option<Vec<Bytes>>, String> {
        loop {
            let frame = std::future::poll_fn(|cx| std::pin::Pin::new(&mut self.body).poll_frame(cx)).await;
            let data = match frame {
                None => return Ok(None),
                Some(Err(e)) => return Err(e.to_string()),
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            };
            self.rest.extend_from_slice(&data);
            if self.rest.len() > MAX_LINE {
                return Err("an event is too large".to_owned());
            }
            let Some(end) = self.rest.iter().rposition(|b| *b == b'\n') else {
                continue;
            };
            let whole = self.rest.split_to(end + 1).freeze();
            let lines = whole.split(|b| *b == b'\n').filter(|l| !l.trim_ascii().is_empty());
            let lines: Vec<Bytes> = lines.map(|l| whole.slice_ref(l)).collect();
            if !lines.is_empty() {
                return Ok(Some(lines));
            }
        }
    }
}

/// Waits longer from failure to failure, and says so once.
#[derive(Default)]
struct Retry {
    failures: u32,
}

impl Retry {
    async fn wait(&mut self, resource: &str, why: &str) {
        if self.failures == 5 {
            tracing::info!(resource, why, "a mirror has lost its source, trying on");
        }
        let longest = FIRST_RETRY.saturating_mul(1 << self.failures.min(10)).min(LAST_RETRY);
        self.failures += 1;
        tokio::time::sleep(longest.mul_f64(0.5 + 0.5 * rand::random::<f64>())).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> MirrorConfig {
        MirrorConfig::new("rbac.authorization.k8s.io", "v1", "Role", "roles", true)
    }

    #[test]
    fn events_become_updates_under_store_keys() {
        let put =
            br#"{"type":"ADDED","object":{"metadata":{"name":"a","namespace":"n","resourceVersion":"7"},"rules":[]}}"#;
        let Event::Changed(Update::Put(object), 7) = event(&config(), put).unwrap() else {
            unreachable!()
        };
        assert_eq!(&**object.key(), "/roles/n/a");
        assert_eq!(
            String::from_utf8_lossy(object.bytes()),
            r#"{"kind":"Role","apiVersion":"rbac.authorization.k8s.io/v1","metadata":{"resourceVersion":"7","name":"a","namespace":"n"},"rules":[]}"#
        );
        let gone = br#"{"type":"DELETED","object":{"metadata":{"name":"a","namespace":"n","resourceVersion":"9"}}}"#;
        let Event::Changed(Update::Delete(key, 9), 9) = event(&config(), gone).unwrap() else {
            unreachable!()
        };
        assert_eq!(&*key, "/roles/n/a");
        let error = br#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}"#;
        assert!(matches!(event(&config(), error).unwrap(), Event::Error(s) if s.code == 410 && s.reason == "Expired"));
        assert!(event(&config(), b"{}").is_err());
    }

    #[test]
    fn paths_follow_group_and_scope() {
        assert_eq!(
            config().object("n", "a"),
            "/apis/rbac.authorization.k8s.io/v1/namespaces/n/roles/a"
        );
        let namespaces = MirrorConfig::new("", "v1", "Namespace", "namespaces", false);
        assert_eq!(namespaces.object("", "a"), "/api/v1/namespaces/a");
        assert_eq!(namespaces.key("", "a"), "/namespaces/a");
    }
}
