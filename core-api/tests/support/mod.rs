//! A tier's objects on a store of their own, without a server.

#![allow(dead_code)] // not every test needs all of it

use std::sync::Arc;
use std::time::Duration;

use triptych_core_api::context::Context;
use triptych_core_api::schema;
use triptych_registry::builtin::Scheme;
use triptych_registry::catalogue::{self, Collections, Opening};
use triptych_registry::kinds::Kinds;
use triptych_schema::resource::Resource;
use triptych_storage::embedded::EmbeddedOptions;
use triptych_storage::{Embedded, Metrics, Store};

/// Gates that are off by default and that a test would see.
fn gate(name: &str) -> bool {
    !matches!(name, "CoordinatedLeaderElection" | "CrossNamespaceVolumeDataSource")
}

/// Collections in a folder that goes with it.
pub struct World {
    /// What code of kinds is given.
    pub context: Context,
    /// The tier's kinds.
    pub scheme: Arc<Scheme>,
    /// What is served.
    pub resources: Vec<Arc<Resource>>,
    _folder: tempfile::TempDir,
}

impl World {
    /// An empty one; all caches are filled.
    pub async fn open() -> World {
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(Embedded::open(folder.path(), EmbeddedOptions::default()).unwrap());
        let table = schema::load().unwrap();
        let scheme = Arc::new(Scheme::new(Arc::new(table.schema), "test", gate));
        let resources = catalogue::served(table.resources, &|r| r.on_by_default());
        let metrics = Metrics::new(&prometheus::Registry::new()).unwrap();
        let opening = Opening {
            scheme: &scheme,
            store: &|_, _| store.clone(),
            metrics: &metrics,
            ttl: Duration::from_secs(3600),
        };
        let collections = Arc::new(Collections::start(&resources, &Kinds::new(), &opening));
        for collection in collections.iter() {
            collection.cache.filled().await;
        }
        let context = Context {
            collections,
            ..Context::default()
        };
        World {
            context,
            scheme,
            resources,
            _folder: folder,
        }
    }
}
