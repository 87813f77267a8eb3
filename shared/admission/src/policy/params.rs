//! Parameters of policies: objects of any kind, in whichever tier.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use triptych_client::{Api, Mirror, MirrorConfig};
use triptych_object::{Gvk, StatusResult, Value, json};
use triptych_storage::Source;

use super::definition::{Binding, ParamKind, Policy};

/// A kind that was not found is looked for again after this.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How long a request waits for parameters that are being read for the first time.
const FIRST_READ: Duration = Duration::from_secs(1);
/// So many kinds of parameters are followed; the one not used for the longest time gives way.
const MAX_KINDS: usize = 100;

/// All objects of one kind.
pub trait Store: Send + Sync {
    /// Whether they are in namespaces.
    fn namespaced(&self) -> bool;

    /// One object.
    fn get<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, StatusResult<Option<Value>>>;

    /// All objects, of a namespace if it is not empty.
    fn list<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, StatusResult<Vec<Value>>>;
}

/// Finds kinds.
pub trait Params: Send + Sync + 'static {
    /// The objects of a kind; the error says what is wrong with the policy.
    fn store<'a>(&'a self, kind: &'a ParamKind) -> BoxFuture<'a, Result<Arc<dyn Store>, Missing>>;
}

/// Why there are no parameters of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The kind is not known, which is a mistake of the policy.
    Unknown(String),
    /// They are not read yet.
    Unread(String),
}

/// The refusal of a kind that is nowhere.
pub fn unknown(kind: &Gvk) -> Missing {
    Missing::Unknown(format!(
        "failed to find resource referenced by paramKind: '{}, Kind={}'",
        if kind.group.is_empty() {
            format!("/{}", kind.version)
        } else {
            kind.group_version().to_string()
        },
        kind.kind
    ))
}

/// The parameters of a binding: `None` stands for evaluating once without any.
pub async fn collect(
    store: Option<&Result<Arc<dyn Store>, Missing>>,
    policy: &Policy,
    binding: &Binding,
    request_namespace: &str,
) -> Result<Vec<Option<Value>>, String> {
    let (Some(_), Some(reference), Some(store)) = (&policy.param_kind, &binding.params, store) else {
        return Ok(vec![None]);
    };
    let store = match store {
        Ok(store) => store,
        Err(Missing::Unknown(why) | Missing::Unread(why)) => return Err(why.clone()),
    };
    let namespace = match (store.namespaced(), reference.namespace.as_str()) {
        (true, "") if request_namespace.is_empty() => {
            return Err(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".to_owned(),
            );
        }
        (true, "") => request_namespace,
        (true, namespace) => namespace,
        (false, "") => "",
        (false, _) => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
        }
    };
    let found = if reference.name.is_empty() {
        let all = store.list(namespace).await.map_err(|status| status.message)?;
        let selected = all
            .into_iter()
            .filter(|object| reference.selector.matches_object(object));
        selected.map(Some).collect()
    } else {
        let one = store
            .get(namespace, &reference.name)
            .await
            .map_err(|status| status.message)?;
        one.into_iter().map(Some).collect::<Vec<_>>()
    };
    if found.is_empty() && reference.must_exist {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    Ok(found)
}

/// Parameters that another tier holds: mirrored from their first use on.
pub struct RemoteParams {
    api: Api,
    known: Mutex<HashMap<Gvk, Known>>,
}

struct Known {
    store: Option<Arc<Mirrored>>,
    at: Instant,
}

struct Mirrored(Arc<Mirror>);

impl RemoteParams {
    /// Asks this API for kinds and objects.
    pub fn new(api: Api) -> RemoteParams {
        RemoteParams {
            api,
            known: Mutex::default(),
        }
    }

    fn recall(&self, kind: &Gvk) -> Option<Option<Arc<Mirrored>>> {
        let mut known = self.known.lock();
        let found = known.get_mut(kind)?;
        match &found.store {
            Some(store) => {
                found.at = Instant::now();
                Some(Some(store.clone()))
            }
            None if found.at.elapsed() < AGAIN_AFTER => Some(None),
            None => None,
        }
    }

    async fn discover(&self, kind: &Gvk) -> Option<Arc<Mirrored>> {
        let root = if kind.group.is_empty() { "/api" } else { "/apis" };
        let document = self.api.get(&format!("{root}/{}", kind.group_version())).await.ok()?;
        let of_kind =
            |resource: &&Value| resource.str_at(&["kind"]) == kind.kind && !resource.str_at(&["name"]).contains('/');
        let resource = document.array_at(&["resources"]).iter().find(of_kind)?;
        let namespaced = resource.get("namespaced").and_then(Value::as_bool) == Some(true);
        let plural = resource.str_at(&["name"]);
        let config = MirrorConfig::new(&kind.group, &kind.version, &kind.kind, plural, namespaced);
        Some(Arc::new(Mirrored(Mirror::start(self.api.clone(), config))))
    }

    fn remember(&self, kind: &Gvk, store: Option<Arc<Mirrored>>) -> Option<Arc<Mirrored>> {
        let mut known = self.known.lock();
        if let Some(Known {
            store: Some(earlier), ..
        }) = known.get(kind)
        {
            return Some(earlier.clone());
        }
        if known.len() >= MAX_KINDS {
            let oldest = known
                .iter()
                .min_by_key(|(_, known)| known.at)
                .map(|(kind, _)| kind.clone());
            oldest.map(|kind| known.remove(&kind));
        }
        let at = Instant::now();
        known.insert(
            kind.clone(),
            Known {
                store: store.clone(),
                at,
            },
        );
        store
    }
}

impl Params for RemoteParams {
    fn store<'a>(&'a self, kind: &'a ParamKind) -> BoxFuture<'a, Result<Arc<dyn Store>, Missing>> {
        Box::pin(async move {
            let found = match self.recall(&kind.kind) {
                Some(found) => found,
                None => {
                    let found = self.discover(&kind.kind).await;
                    self.remember(&kind.kind, found)
                }
            };
            let Some(store) = found else {
                return Err(unknown(&kind.kind));
            };
            if !store.0.has_synced() && tokio::time::timeout(FIRST_READ, store.0.synced()).await.is_err() {
                return Err(Missing::Unread(format!(
                    "paramKind kind `{}` not yet synced to use for admission",
                    kind.shown
                )));
            }
            Ok(store as Arc<dyn Store>)
        })
    }
}

impl Store for Mirrored {
    fn namespaced(&self) -> bool {
        self.0.config().namespaced
    }

    fn get<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, StatusResult<Option<Value>>> {
        Box::pin(async move {
            let key = self.0.config().key(namespace, name);
            let known = self.0.snapshot().and_then(|snapshot| snapshot.get(&key).cloned());
            Ok(known.and_then(|object| json::from_slice(object.bytes()).ok()))
        })
    }

    fn list<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, StatusResult<Vec<Value>>> {
        Box::pin(async move {
            let config = self.0.config();
            let scope = match namespace {
                "" => format!("/{}/", config.resource),
                namespace => config.key(namespace, ""),
            };
            let snapshot = self.0.snapshot();
            let objects = snapshot.iter().flat_map(|snapshot| snapshot.range(&scope));
            Ok(objects
                .filter_map(|object| json::from_slice(object.bytes()).ok())
                .collect())
        })
    }
}
