//! Follows a source of objects: what is new in it since it was last looked at.
//!
//! Contract: whoever derives something from objects looks before it answers; nothing is pushed, so that what is derived
//! is never older than its source and no task has to be kept alive. Broken objects count as absent.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, join_all};
use triptych_object::{Value, json};
use triptych_storage::Source;
use triptych_storage::cache::{Mark, Object, Snapshot};

use super::confirm::Refresh;

/// Something new.
pub(super) enum News<'a> {
    /// History was lost: all objects there are follow.
    Forget,
    /// This object is now so, or gone.
    Object {
        namespace: &'a str,
        name: &'a str,
        object: Option<Value>,
    },
}

/// Tells what happened between `since` and the snapshot.
pub(super) fn news(snapshot: &Snapshot, since: Option<Mark>, namespaced: bool, mut tell: impl FnMut(News<'_>)) {
    if let Some(changes) = since.and_then(|mark| snapshot.changes_since(mark)) {
        for change in changes {
            let (namespace, name) = names(change.key(), namespaced);
            let object = change.object().and_then(|o| value(o));
            tell(News::Object {
                namespace,
                name,
                object,
            });
        }
        return;
    }
    tell(News::Forget);
    for object in snapshot.range("") {
        let (namespace, name) = names(object.key(), namespaced);
        let object = value(object);
        tell(News::Object {
            namespace,
            name,
            object,
        });
    }
}

fn value(object: &Object) -> Option<Value> {
    if object.broken().is_some() {
        return None;
    }
    json::from_slice(object.bytes()).ok()
}

/// Namespace (empty without one) and name that a key ends in.
fn names(key: &str, namespaced: bool) -> (&str, &str) {
    let (before, name) = key.rsplit_once('/').unwrap_or(("", key));
    let namespace = before.rsplit_once('/').map_or(before, |(_, namespace)| namespace);
    (if namespaced { namespace } else { "" }, name)
}

/// Brings sources up to what was committed before the question.
pub struct BringUp {
    /// The sources.
    pub sources: Vec<Arc<dyn Source>>,
    /// For at most this long.
    pub wait: Duration,
}

impl Refresh for BringUp {
    fn refresh(&self) -> BoxFuture<'_, ()> {
        async {
            let all = self.sources.iter().map(|s| s.consistent(self.wait));
            for failed in join_all(all).await.into_iter().filter_map(Result::err) {
                tracing::debug!(error = %crate::chain(&failed), "a refusal could not be confirmed at its source");
            }
        }
        .boxed()
    }
}
