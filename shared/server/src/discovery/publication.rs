//! What a tier publishes: the merge of its own documents, the next tier's and APIServices', and who answers for it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::StatusCode;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use triptych_object::{RequestInfo, Value, json};
use triptych_registry::discovery::snapshot::hex;
use triptych_registry::discovery::{Entry, Snapshot, documents, resources};
use triptych_registry::openapi::{BuiltIn, Document, index, read_index, relative_url};
use triptych_registry::{Handler, Request, Response};
use triptych_schema::resource::Resource;
use triptych_schema::types::Schema;

use super::answer;
use super::content::{Writer, bare};
use super::fetch::{AGGREGATED, Fetch, JSON, LONGEST_WAIT, WAIT};
use super::follow::{News, follow};
use super::merge::{self, Next, Service};
use super::openapi::{self, Maker};
use crate::claim::{Claim, Claims};

/// A group-version that this tier serves.
#[derive(Clone, Debug)]
pub struct OwnVersion {
    /// Its part of aggregated discovery.
    pub entry: Entry,
    /// Its APIResourceList, JSON.
    pub list: Bytes,
    /// Its resources are custom: answered to any method, unknown versions of the group are not this tier's.
    pub custom: bool,
}

impl OwnVersion {
    /// Describes a group-version by the two forms of its resources, see [`triptych_registry::discovery`].
    pub fn new(group: &str, version: &str, custom: bool, plain: Vec<Value>, aggregated: &Value) -> OwnVersion {
        let list = documents::api_resource_list(group, version, plain);
        OwnVersion {
            entry: Entry::current(group, version, aggregated),
            list: json::to_vec(&list).into(),
            custom,
        }
    }

    fn path(&self) -> String {
        match &*self.entry.group {
            "" => format!("/api/{}", self.entry.version),
            group => format!("/apis/{group}/{}", self.entry.version),
        }
    }
}

/// Everything this tier has of its own.
#[derive(Clone, Debug, Default)]
pub struct Own {
    /// Group-versions.
    pub versions: Vec<OwnVersion>,
    /// OpenAPI documents.
    pub documents: Vec<Document>,
}

impl Own {
    /// Built-in resources that are served: their group-versions and the documents of these and of their groups.
    pub fn built_in(schema: &Arc<Schema>, resources: &[Arc<Resource>], build: &str) -> Own {
        let mut by_version: BTreeMap<(&str, &str), Vec<Arc<Resource>>> = BTreeMap::new();
        for resource in resources {
            let version = by_version.entry((&resource.group, &resource.version)).or_default();
            version.push(Arc::clone(resource));
        }
        let documents = BuiltIn {
            schema: Arc::clone(schema),
            build: build.into(),
        };
        let mut own = Own::default();
        let mut last_group = "";
        for ((group, version), mut list) in by_version {
            list.sort_by(|a, b| a.resource.cmp(&b.resource));
            own.versions.push(OwnVersion::new(
                group,
                version,
                false,
                resources::plain(list.iter().map(|r| &**r)),
                &resources::aggregated(list.iter().map(|r| &**r)),
            ));
            own.documents.push(documents.version(group, version, list));
            if group != last_group {
                own.documents.push(documents.group(group));
                last_group = group;
            }
        }
        own
    }

    /// Adds the documents of paths that belong to no group, which one tier of the chain has.
    pub fn with_roots(mut self, schema: &Arc<Schema>, build: &str) -> Own {
        let documents = BuiltIn {
            schema: Arc::clone(schema),
            build: build.into(),
        };
        self.documents.extend(documents.roots());
        self
    }
}

/// One state of everything published.
pub struct Merged {
    /// Discovery.
    pub snapshot: Snapshot,
    /// `/openapi/v3`.
    pub index: Bytes,
    /// SHA-512 of it, upper-case hexadecimal.
    pub index_hash: String,
    versions: HashMap<String, OwnVersion>,
    documents: HashMap<Arc<str>, Document>,
    built_in: HashSet<Arc<str>>,
}

impl Merged {
    fn new(inputs: &Inputs) -> Merged {
        let own = &inputs.own;
        let services = inputs.services.as_deref().map(Vec::as_slice);
        let entries = own.versions.iter().map(|v| v.entry.clone()).collect();
        let urls = own
            .documents
            .iter()
            .map(|d| (Arc::clone(&d.path), relative_url(&d.path, &d.hash)));
        let urls: BTreeMap<Arc<str>, String> = merge::urls(urls, &inputs.next, services);
        let index = index(&urls);
        let built_in = own.versions.iter().filter(|v| !v.custom);
        Merged {
            snapshot: Snapshot::new(merge::entries(entries, &inputs.next, services)),
            index_hash: hex(&index),
            index: index.into(),
            versions: own.versions.iter().map(|v| (v.path(), v.clone())).collect(),
            documents: own.documents.iter().map(|d| (Arc::clone(&d.path), d.clone())).collect(),
            built_in: built_in.map(|v| Arc::clone(&v.entry.group)).collect(),
        }
    }

    /// This tier's OpenAPI documents.
    pub fn own_documents(&self) -> impl Iterator<Item = &Document> {
        self.documents.values()
    }
}

#[derive(Default)]
struct Inputs {
    own: Arc<Own>,
    next: Next,
    services: Option<Arc<Vec<Service>>>,
}

/// Who answers discovery and OpenAPI in a tier.
pub struct Publication {
    schema: Arc<Schema>,
    server_address: String,
    next: Option<Arc<dyn Fetch>>,
    inputs: Mutex<Inputs>,
    changed: Notify,
    merged: watch::Sender<Arc<Merged>>,
    maker: Maker,
    trouble: Mutex<Option<String>>,
}

/// After a change, how long others are waited for before the next merge.
const SETTLE: Duration = Duration::from_millis(20);

impl Publication {
    /// Publishes nothing yet. `schema` has the types of discovery, `server_address` is what `/api` tells clients, `next`
    /// the tier behind this one.
    pub fn new(
        schema: Arc<Schema>,
        server_address: impl Into<String>,
        next: Option<Arc<dyn Fetch>>,
    ) -> Arc<Publication> {
        let inputs = Inputs::default();
        Arc::new(Publication {
            schema,
            server_address: server_address.into(),
            next,
            merged: watch::Sender::new(Arc::new(Merged::new(&inputs))),
            inputs: Mutex::new(inputs),
            changed: Notify::new(),
            maker: Maker::default(),
            trouble: Mutex::default(),
        })
    }

    /// Replaces what this tier has of its own.
    pub fn set_own(&self, own: Own) {
        self.inputs.lock().own = Arc::new(own);
        self.changed.notify_one();
    }

    /// Replaces the APIServices; once called, only what has one is listed in plain discovery.
    pub fn set_services(&self, services: Vec<Service>) {
        self.inputs.lock().services = Some(Arc::new(services));
        self.changed.notify_one();
    }

    /// The current state; waiting on the receiver tells of the next one.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Merged>> {
        self.merged.subscribe()
    }

    /// Why the next tier's documents may be old; none while it answers.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().clone()
    }

    /// Merges at once what was set; [`Publication::run`] does so on every change.
    pub fn merge(&self) {
        let merged = Arc::new(Merged::new(&self.inputs.lock()));
        self.merged.send_replace(merged);
    }

    /// Follows the next tier and merges on every change, until dropped.
    pub async fn run(self: Arc<Self>) {
        tokio::join!(
            self.merge_on_change(),
            self.follow("/api", AGGREGATED, |next, body| set_entries(&mut next.api, body)),
            self.follow("/apis", AGGREGATED, |next, body| set_entries(&mut next.apis, body)),
            self.follow("/openapi/v3", JSON, |next, body| {
                if let Some(urls) = read_index(body) {
                    next.urls = Some(urls);
                }
            }),
        );
    }

    async fn merge_on_change(&self) {
        loop {
            let begun = Instant::now();
            self.merge();
            // a storm of changes to thousands of CRDs may take a tenth of a processor, not all of it
            let rest = SETTLE.max(begun.elapsed() * 10);
            self.changed.notified().await;
            tokio::time::sleep(rest).await;
        }
    }

    async fn follow(&self, target: &str, accept: &'static str, set: fn(&mut Next, &[u8])) {
        if let Some(next) = &self.next {
            follow(Arc::clone(next), target, accept, |news| self.hear(news, set)).await;
        }
    }

    fn hear(&self, news: News, set: fn(&mut Next, &[u8])) {
        let trouble = match news {
            News::Trouble(why) => Some(why),
            News::Same => None,
            News::Changed { body, .. } => {
                set(&mut self.inputs.lock().next, &body);
                self.changed.notify_one();
                None
            }
        };
        *self.trouble.lock() = trouble;
    }

    fn writer(&self) -> Writer<'_> {
        Writer { schema: &self.schema }
    }

    /// Holds the answer back until the document is another than the asker has. Only tiers may ask for that.
    async fn wait_for_change(&self, request: &Request) -> Arc<Merged> {
        let mut merged = self.subscribe();
        let now = merged.borrow_and_update().clone();
        let header = |name: &str| request.headers.get(name).and_then(|v| v.to_str().ok());
        let seconds = header(WAIT)
            .and_then(|w| w.parse::<u32>().ok())
            .unwrap_or(0)
            .min(LONGEST_WAIT);
        let (Some(known), true) = (header("if-none-match"), seconds > 0 && is_tier(&request.user.name)) else {
            return now;
        };
        let path = request.info.path.as_str();
        let tag = |m: &Merged| match path {
            "/api" => m.snapshot.aggregated_api().etag.clone(),
            "/apis" => m.snapshot.aggregated_apis().etag.clone(),
            _ => format!("\"{}\"", m.index_hash),
        };
        let change = merged.wait_for(|m| tag(m) != known);
        match tokio::time::timeout(Duration::from_secs(seconds.into()), change).await {
            Ok(Ok(changed)) => changed.clone(),
            _ => now,
        }
    }

    async fn answer(&self, request: Request) -> Response {
        let path = request.info.path.clone();
        let merged = match path.as_str() {
            "/api" | "/apis" | "/openapi/v3" => self.wait_for_change(&request).await,
            _ => self.merged.borrow().clone(),
        };
        let writer = self.writer();
        match path.as_str() {
            "/api" | "/api/" => answer::api(&writer, &merged, &self.server_address, &request),
            "/apis" | "/apis/" => answer::apis(&writer, &merged, &request),
            "/openapi/v3" => openapi::index(&merged, &request),
            "/openapi/v2" => self.maker.whole(&merged, self.next.as_deref(), &request).await,
            path => {
                if let Some(name) = path.strip_prefix("/openapi/v3/") {
                    return match merged.documents.get(name) {
                        Some(document) => self.maker.document(document, &request).await,
                        None => bare(StatusCode::NOT_FOUND),
                    };
                }
                let path = path.strip_suffix('/').unwrap_or(path);
                if let Some(version) = merged.versions.get(path) {
                    return answer::version(&writer, version, &request);
                }
                let group = path.strip_prefix("/apis/").and_then(|g| merged.snapshot.group(g));
                match group {
                    Some(document) => answer::group(&writer, document, &request),
                    // it went between the claim and now
                    None => bare(StatusCode::NOT_FOUND),
                }
            }
        }
    }
}

fn set_entries(of: &mut Option<Vec<Entry>>, body: &[u8]) {
    if let Ok(document) = json::from_slice(body) {
        *of = Some(Snapshot::read(&document));
    }
}

/// Identities that tiers use for requests of their own.
fn is_tier(user: &str) -> bool {
    user.starts_with("system:tier:")
}

impl Handler for Publication {
    fn handle(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(self.answer(request))
    }
}

/// The claims of a publication.
pub struct Published(pub Arc<Publication>);

impl Published {
    fn path(&self, get_only: bool) -> Claim {
        Claim::Path {
            handler: Arc::clone(&self.0) as Arc<dyn Handler>,
            get_only,
        }
    }
}

impl Claims for Published {
    fn find(&self, info: &RequestInfo) -> Claim {
        let unclaimed = Claim::Unclaimed { certain: true };
        // nothing here is a resource: those must not pay for a look at the merge
        if info.is_resource {
            return unclaimed;
        }
        let path = info.path.as_str();
        match path {
            "/api" | "/api/" => return self.path(true),
            "/apis" | "/apis/" | "/openapi/v2" | "/openapi/v3" => return self.path(false),
            _ => {}
        }
        let merged = self.0.merged.borrow().clone();
        if let Some(name) = path.strip_prefix("/openapi/v3/") {
            // the end of the chain answers for documents that nobody has
            let mine = merged.documents.contains_key(name) || self.0.next.is_none();
            return if mine { self.path(false) } else { unclaimed };
        }
        let path = path.strip_suffix('/').unwrap_or(path);
        if let Some(version) = merged.versions.get(path) {
            return self.path(!version.custom);
        }
        let (group, version) = match path.strip_prefix("/apis/") {
            Some(rest) => rest.split_once('/').map_or((rest, None), |(g, v)| (g, Some(v))),
            None => ("", path.strip_prefix("/api/")),
        };
        match version {
            None if merged.snapshot.group(group).is_some() => self.path(false),
            // another version of a built-in group exists nowhere
            Some(version) if !version.contains('/') && merged.built_in.contains(group) => Claim::NoSuchResource,
            _ => unclaimed,
        }
    }

    fn paths(&self) -> Vec<String> {
        let merged = self.0.merged.borrow().clone();
        let fixed = ["/api", "/apis", "/apis/", "/openapi/v2", "/openapi/v3", "/openapi/v3/"];
        let mut paths: Vec<String> = fixed.map(str::to_owned).into();
        for entry in merged.snapshot.entries() {
            match &*entry.group {
                "" => paths.push(format!("/api/{}", entry.version)),
                group => paths.extend([format!("/apis/{group}"), format!("/apis/{group}/{}", entry.version)]),
            }
        }
        paths.sort();
        paths.dedup();
        paths
    }
}
