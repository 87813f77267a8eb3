//! Keeps discovery and OpenAPI in step with the CRDs.

use std::sync::Arc;
use std::time::Duration;

use triptych_server::discovery::{Crds, Own, Publication};
use triptych_storage::Cache;
use triptych_storage::cache::{EventKind, Interest, Start};

/// Between two attempts to follow.
const RETRY: Duration = Duration::from_millis(100);

/// Publishes what CRDs declare beside `built_in`, for ever.
pub async fn follow(definitions: Arc<Cache>, mut crds: Crds, built_in: Own, publication: Arc<Publication>) {
    definitions.filled().await;
    let mut known: Vec<String> = Vec::new();
    loop {
        let Ok((snapshot, mut watcher)) = definitions.watch(Start::Now, Interest::all()) else {
            tokio::time::sleep(RETRY).await;
            continue;
        };
        let objects = || snapshot.range("").filter(|o| o.broken().is_none());
        for gone in known.drain(..).filter(|name| !objects().any(|o| o.name() == name)) {
            crds.remove(&gone);
        }
        for object in objects() {
            crds.set(object.name(), object.bytes());
        }
        publication.set_own(crds.own(&built_in));
        let mut names: std::collections::BTreeSet<String> = objects().map(|o| o.name().to_owned()).collect();
        drop(snapshot);
        while let Some(event) = watcher.next().await {
            let mut next = Some(event);
            // what has already happened is published at once
            while let Some(event) = next {
                let object = event.object();
                if event.kind() == EventKind::Deleted || object.broken().is_some() {
                    crds.remove(object.name());
                    names.remove(object.name());
                } else {
                    crds.set(object.name(), object.bytes());
                    names.insert(object.name().to_owned());
                }
                next = watcher.try_next();
            }
            publication.set_own(crds.own(&built_in));
        }
        known.extend(names);
    }
}
