//! The stores of one server: a default and, where flags say so, others for single resources.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::embedded::{Embedded, EmbeddedOptions};
use crate::error::Error;
use crate::etcd::{Etcd, EtcdOptions};
use crate::metrics::Metrics;
use crate::options::{Backend, StorageSettings};
use crate::prefixed::Prefixed;
use crate::store::Store;

/// All stores of a server.
pub struct Stores {
    default: Arc<dyn Store>,
    overrides: HashMap<(String, String), Arc<dyn Store>>,
    distinct: Vec<Arc<dyn Store>>,
    _tasks: JoinSet<()>,
}

impl Stores {
    /// Opens them; an etcd is not waited for.
    pub async fn open(settings: &StorageSettings, metrics: &Metrics) -> Result<Self, Error> {
        let (default, etcd) = match &settings.backend {
            Backend::Embedded {
                folder,
                compaction_interval,
            } => {
                let (folder, options) = (
                    folder.clone(),
                    EmbeddedOptions {
                        compaction_interval: *compaction_interval,
                    },
                );
                // Opening may have to repair the file after a crash.
                let opened = tokio::task::spawn_blocking(move || Embedded::open(&folder, options)).await;
                let store: Arc<dyn Store> = Arc::new(opened.map_err(|_| Error::Closed)??);
                (store, None)
            }
            Backend::Etcd { etcd, prefix } => (connect(etcd, prefix, metrics).await?, Some((etcd, prefix))),
        };
        let mut distinct = vec![default.clone()];
        let mut overrides = HashMap::new();
        let mut by_servers: HashMap<&[String], Arc<dyn Store>> = HashMap::new();
        if let Some((etcd, prefix)) = etcd {
            by_servers.insert(&etcd.servers, default.clone());
            for it in &settings.overrides {
                let store = match by_servers.get(&*it.servers) {
                    Some(store) => store.clone(),
                    None => {
                        let options = EtcdOptions {
                            servers: it.servers.clone(),
                            ..etcd.clone()
                        };
                        let store = connect(&options, prefix, metrics).await?;
                        by_servers.insert(&it.servers, store.clone());
                        distinct.push(store.clone());
                        store
                    }
                };
                overrides.insert((it.group.clone(), it.resource.clone()), store);
            }
        }
        let mut tasks = JoinSet::new();
        if let Some(interval) = settings.size_poll {
            tasks.spawn(measure(distinct.clone(), metrics.clone(), interval));
        }
        Ok(Self {
            default,
            overrides,
            distinct,
            _tasks: tasks,
        })
    }

    /// The store of a resource.
    pub fn of(&self, group: &str, resource: &str) -> &Arc<dyn Store> {
        if self.overrides.is_empty() {
            return &self.default;
        }
        self.overrides
            .get(&(group.to_owned(), resource.to_owned()))
            .unwrap_or(&self.default)
    }

    /// The store of everything that has none of its own.
    pub fn default(&self) -> &Arc<dyn Store> {
        &self.default
    }

    /// Answers when every store does: what health checks ask.
    pub async fn check(&self, timeout: Duration) -> Result<(), Error> {
        let all = async {
            for store in &self.distinct {
                store.current_revision().await?;
            }
            Ok(())
        };
        tokio::time::timeout(timeout, all).await.unwrap_or(Err(Error::Timeout))
    }
}

async fn connect(etcd: &EtcdOptions, prefix: &str, metrics: &Metrics) -> Result<Arc<dyn Store>, Error> {
    Ok(Arc::new(Prefixed::new(
        Arc::new(Etcd::connect(etcd, metrics).await?),
        prefix,
    )))
}

/// Measures the stores again and again.
async fn measure(stores: Vec<Arc<dyn Store>>, metrics: Metrics, interval: Duration) {
    loop {
        for (number, store) in stores.iter().enumerate() {
            match store.size().await {
                Ok(size) => metrics.size_of(&format!("etcd-{number}")).set(size as f64),
                Err(error) => tracing::debug!(%error, "the size of a store is not known"),
            }
        }
        tokio::time::sleep(interval).await;
    }
}
