//! Which requests are for custom resources.
//!
//! Contract: the CRD cache decides, as far as it is known; a CRD is put into service by the first request for it and
//! taken out when its spec or names change ([`CustomResources::follow`]), which closes its watches. Before a 404 the CRD
//! cache is brought to the store's revision, once for all who wait. Nothing is claimed that kube-apiserver's handler
//! passes on: other scopes, unserved versions, CRDs whose names were never accepted.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use triptych_object::RequestInfo;
use triptych_server::{Claim, Claims};
use triptych_storage::cache::{Interest, Start};
use triptych_storage::{Cache, View};

use super::serving::{Maker, Serving};
use crate::definition::summary::Summary;

/// How long a 404 may wait for the CRDs to be current.
const REFRESH_WAIT: Duration = Duration::from_secs(1);

/// All custom resources.
pub struct CustomResources {
    definitions: Arc<Cache>,
    view: Arc<View<Summary>>,
    prefix: String,
    maker: Maker,
    serving: ArcSwap<imbl::OrdMap<String, Arc<Serving>>>,
    changing: Mutex<()>,
    refreshed: tokio::sync::Mutex<Instant>,
}

impl CustomResources {
    /// Those that the CRDs in `definitions` (keys below `prefix`) declare.
    pub fn new(definitions: Arc<Cache>, view: Arc<View<Summary>>, prefix: &str, maker: Maker) -> Arc<CustomResources> {
        Arc::new(CustomResources {
            definitions,
            view,
            prefix: prefix.to_owned(),
            maker,
            serving: ArcSwap::default(),
            changing: Mutex::new(()),
            refreshed: tokio::sync::Mutex::new(Instant::now()),
        })
    }

    /// A CRD by its name, as far as it is known.
    pub fn find_definition(&self, name: &str) -> Option<Arc<Summary>> {
        self.view.load()?.get(&format!("{}{name}", self.prefix)).cloned()
    }

    /// The CRD in service, put there if it is not.
    pub fn serve(&self, crd: &Summary) -> Option<Arc<Serving>> {
        if let Some(serving) = self.serving.load().get(&crd.name).filter(|s| s.is_of(crd)) {
            return Some(serving.clone());
        }
        let _changing = self.changing.lock();
        let known = self.serving.load_full();
        let current = known.get(&crd.name).cloned();
        if let Some(serving) = current.as_ref().filter(|s| s.is_of(crd)) {
            return Some(serving.clone());
        }
        // whoever came with an older CRD than is served is served by the newer one
        if let Some(newer) = current
            .as_ref()
            .filter(|s| s.uid == crd.uid && s.generation > crd.generation)
        {
            return Some(newer.clone());
        }
        let made = Arc::new(self.maker.make(crd)?);
        let mut changed = (*known).clone();
        changed.insert(crd.name.clone(), made.clone());
        self.serving.store(Arc::new(changed));
        if let Some(old) = current {
            old.close();
        }
        Some(made)
    }

    /// Brings what is in service in step with a CRD that changed; `None`: it is gone.
    fn changed(&self, name: &str, crd: Option<&Summary>) {
        let current = self.serving.load().get(name).cloned();
        let Some(serving) = current else { return };
        if let Some(crd) = crd.filter(|c| serving.is_of(c)) {
            serving.terminating.store(crd.terminating, Ordering::Relaxed);
            return;
        }
        let _changing = self.changing.lock();
        let known = self.serving.load_full();
        // somebody may have replaced it in the meantime
        let Some(current) = known.get(name).filter(|s| !crd.is_some_and(|c| s.is_of(c))) else {
            return;
        };
        if crd.is_some_and(|c| c.uid == current.uid && c.generation < current.generation) {
            return;
        }
        let mut changed = (*known).clone();
        let old = changed.remove(name);
        self.serving.store(Arc::new(changed));
        if let Some(old) = old {
            old.close();
        }
    }

    /// Follows the CRDs for ever.
    pub async fn follow(self: Arc<Self>) {
        self.definitions.filled().await;
        loop {
            let Ok((_, mut watcher)) = self.definitions.watch(Start::Now, Interest::all()) else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            // what changed before the watch began
            let names: Vec<String> = self.serving.load().keys().cloned().collect();
            for name in names {
                self.changed(&name, self.find_definition(&name).as_deref());
            }
            while let Some(event) = watcher.next().await {
                let name = event.object().name().to_owned();
                self.changed(&name, self.find_definition(&name).as_deref());
            }
        }
    }

    fn claim(&self, info: &RequestInfo, crd: &Summary) -> Option<Claim> {
        let across = matches!(info.verb.as_str(), "list" | "watch");
        let scoped = match (crd.namespaced, info.namespace.is_empty()) {
            (false, empty) => empty,
            (true, empty) => !empty || across,
        };
        if !scoped || !crd.serves(&info.version) || !(crd.names_accepted || crd.established) {
            return None;
        }
        let serving = self.serve(crd)?;
        serving.handler(&info.version).cloned().map(Claim::Resource)
    }
}

impl Claims for CustomResources {
    fn find(&self, info: &RequestInfo) -> Claim {
        let unclaimed = Claim::Unclaimed { certain: true };
        if !info.is_resource || info.group.is_empty() || info.resource.is_empty() {
            return unclaimed;
        }
        let Some(known) = self.view.load() else {
            return Claim::Unclaimed { certain: false };
        };
        let key = format!("{}{}.{}", self.prefix, info.resource, info.group);
        match known.get(&key) {
            Some(crd) => self.claim(info, crd).unwrap_or(unclaimed),
            None => unclaimed,
        }
    }

    fn refresh<'a>(&'a self, info: &'a RequestInfo) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if !info.path.starts_with("/apis/") {
                return;
            }
            let asked = Instant::now();
            let mut refreshed = self.refreshed.lock().await;
            if *refreshed > asked {
                return;
            }
            let began = Instant::now();
            // a store that cannot be asked leaves what is known
            let _ = self.definitions.consistent(REFRESH_WAIT).await;
            *refreshed = began;
        })
    }
}
