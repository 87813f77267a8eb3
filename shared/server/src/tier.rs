//! A tier put together and run: from its parts to exit.
//!
//! ```text
//! Tier::new(name, settings, authenticator, authorizer, metrics)
//!     .claim(…)        what it serves, asked in order
//!     .next(pool)      who serves the rest
//!     .check(…)        health checks
//!     .synced(…)       caches, filled before it is ready
//!     .on_start(…)     hooks, run once it listens; ready when all are done
//!     .background(…)   what runs as long as the tier
//!     .on_stop(…)      what is flushed at the end
//!     .run(shutdown)
//! ```
//!
//! Contract: ready is announced when every cache was filled once and every hook has finished, and depends on nothing else
//! but the checks from then on. A hook that fails ends the tier.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use triptych_auth::{Authenticator, Authorizer};
use triptych_client::pool::Pool;
use triptych_client::tls::Identity;

use crate::chain::{self, Chain, Links};
use crate::claim::{Claims, Layers, Table};
use crate::health::{self, Check, Latch};
use crate::inflight::Inflight;
use crate::lifecycle::{Lifecycle, Phase, Shutdown};
use crate::metrics::Metrics;
use crate::options::Settings;
use crate::paths::{Index, MetricsPage, Version};
use crate::serve::{self, Http2};
use crate::tasks::Tasks;
use crate::tls;

/// What takes longer to end is told of.
const SOON: Duration = Duration::from_secs(2);

/// Why a tier cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is in use, or not this machine's.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: std::net::SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The certificate files are bad.
    #[error("cannot serve TLS")]
    Certificate(#[from] triptych_client::tls::Error),
    /// They are good, but TLS cannot be spoken with them.
    #[error("cannot serve TLS")]
    Tls(#[from] rustls::Error),
    /// The address cannot be written down.
    #[error("cannot write {path}")]
    AddressFile {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A start hook failed.
    #[error("start hook {name} failed: {why}")]
    Hook {
        /// Its name.
        name: String,
        /// What it said.
        why: String,
    },
}

type Hook = (String, BoxFuture<'static, Result<(), String>>);

/// A tier being put together.
pub struct Tier {
    name: &'static str,
    settings: Settings,
    authenticator: Arc<dyn Authenticator>,
    authorizer: Arc<dyn Authorizer>,
    metrics: Arc<Metrics>,
    layers: Vec<Arc<dyn Claims>>,
    next: Option<Arc<Pool>>,
    checks: Vec<Check>,
    ready_checks: Vec<Check>,
    caches: Vec<BoxFuture<'static, ()>>,
    hooks: Vec<Hook>,
    background: Vec<BoxFuture<'static, ()>>,
    on_stop: Vec<BoxFuture<'static, ()>>,
    index: Arc<dyn Fn() -> Vec<String> + Send + Sync>,
    build: String,
    lifecycle: Lifecycle,
    tasks: Tasks,
}

/// A tier that listens.
pub struct Bound {
    tier: Tier,
    listener: TcpListener,
    address: std::net::SocketAddr,
}

impl Tier {
    /// A tier that serves nothing yet.
    pub fn new(
        name: &'static str,
        settings: Settings,
        authenticator: Arc<dyn Authenticator>,
        authorizer: Arc<dyn Authorizer>,
        metrics: Arc<Metrics>,
    ) -> Tier {
        Tier {
            name,
            settings,
            authenticator,
            authorizer,
            metrics,
            layers: Vec::new(),
            next: None,
            checks: Vec::new(),
            ready_checks: Vec::new(),
            caches: Vec::new(),
            hooks: Vec::new(),
            background: Vec::new(),
            on_stop: Vec::new(),
            index: Arc::new(Vec::new),
            build: String::new(),
            lifecycle: Lifecycle::default(),
            tasks: Tasks::default(),
        }
    }

    /// Claims more; asked after what was claimed before.
    pub fn claim(mut self, claims: Arc<dyn Claims>) -> Tier {
        self.layers.push(claims);
        self
    }

    /// Who serves what this tier does not claim.
    pub fn next(mut self, pool: Arc<Pool>) -> Tier {
        self.background.push(Box::pin(Arc::clone(&pool).follow()));
        self.next = Some(pool);
        self
    }

    /// Adds a check to `/livez`, `/readyz` and `/healthz`.
    pub fn check(mut self, check: Check) -> Tier {
        self.checks.push(check);
        self
    }

    /// Adds a check to `/readyz` alone.
    pub fn ready_check(mut self, check: Check) -> Tier {
        self.ready_checks.push(check);
        self
    }

    /// Waits for a cache to be filled before the tier is ready.
    pub fn synced(mut self, cache: impl Future<Output = ()> + Send + 'static) -> Tier {
        self.caches.push(Box::pin(cache));
        self
    }

    /// Runs a hook once the tier listens and its caches are filled; hooks run beside each other.
    pub fn on_start(mut self, name: &str, hook: impl Future<Output = Result<(), String>> + Send + 'static) -> Tier {
        self.hooks.push((name.to_owned(), Box::pin(hook)));
        self
    }

    /// Runs as long as the tier does.
    pub fn background(mut self, task: impl Future<Output = ()> + Send + 'static) -> Tier {
        self.background.push(Box::pin(task));
        self
    }

    /// Runs when nothing is in flight any more.
    pub fn on_stop(mut self, hook: impl Future<Output = ()> + Send + 'static) -> Tier {
        self.on_stop.push(Box::pin(hook));
        self
    }

    /// Paths of other tiers to list at `/`.
    pub fn index(mut self, others: impl Fn() -> Vec<String> + Send + Sync + 'static) -> Tier {
        self.index = Arc::new(others);
        self
    }

    /// What was built, for `/version`.
    pub fn build(mut self, id: String) -> Tier {
        self.build = id;
        self
    }

    /// The tier's phase.
    pub fn lifecycle(&self) -> Lifecycle {
        self.lifecycle.clone()
    }

    /// What shutdown waits for.
    pub fn tasks(&self) -> Tasks {
        self.tasks.clone()
    }

    /// Listens, and writes the address down if a file was named.
    pub async fn bind(self) -> Result<Bound, Error> {
        let wanted = self.settings.listen;
        let cannot = |source| Error::Listen {
            address: wanted,
            source,
        };
        let listener = TcpListener::bind(wanted).await.map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        if let Some(path) = &self.settings.address_file {
            write_address(path, address).map_err(|source| Error::AddressFile {
                path: path.display().to_string(),
                source,
            })?;
        }
        Ok(Bound {
            tier: self,
            listener,
            address,
        })
    }

    /// Listens and serves until `shutdown`.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), Error> {
        self.bind().await?.run(shutdown).await
    }
}

fn write_address(path: &Path, address: std::net::SocketAddr) -> std::io::Result<()> {
    let temporary = path.with_extension("tmp");
    std::fs::write(&temporary, format!("{address}\n"))?;
    std::fs::rename(temporary, path)
}

impl Bound {
    /// Where it listens.
    pub fn address(&self) -> std::net::SocketAddr {
        self.address
    }

    /// Serves until `shutdown`, then drains.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), Error> {
        let Bound {
            tier,
            listener,
            address,
        } = self;
        let Tier {
            name,
            settings,
            authenticator,
            authorizer,
            metrics,
            mut layers,
            next,
            checks,
            ready_checks,
            caches,
            hooks,
            background,
            on_stop,
            index,
            build,
            lifecycle,
            tasks,
        } = tier;
        let identity = Identity::load(settings.identity.clone())?;
        let config = tls::server_config(Arc::clone(&identity), settings.http2)?;

        let latches: Vec<(String, Latch)> = hooks.iter().map(|(n, _)| (n.clone(), Latch::default())).collect();
        let mut own = Table::default();
        health_paths(&mut own, &lifecycle, checks, ready_checks, &latches);
        own.path("/metrics", Arc::new(MetricsPage(Arc::clone(&metrics))));
        own.service("/version", "/version", Arc::new(Version { build }));
        layers.push(Arc::new(own));
        let listed: Arc<dyn Claims> = Arc::new(Layers(layers.clone()));
        let mut root = Table::default();
        let page = Arc::new(Index {
            claims: listed,
            others: index,
        });
        root.unlisted("/", page.clone());
        root.unlisted("/index.html", page);
        layers.push(Arc::new(root));

        let chain = Chain::new(Links {
            authenticator,
            authorizer,
            claims: Arc::new(Layers(layers)),
            next,
            inflight: Inflight::new(
                settings.max_requests,
                settings.max_mutating,
                settings.request_timeout,
                &metrics,
            ),
            metrics,
            lifecycle: lifecycle.clone(),
            tasks: tasks.clone(),
            settings: chain::Settings {
                request_timeout: settings.request_timeout,
                goaway_chance: settings.goaway_chance,
                watch_grace: settings.watch_grace,
                strict_transport_security: settings.strict_transport_security.clone(),
            },
        });

        let mut running = JoinSet::new();
        running.spawn(identity.follow());
        for task in background {
            running.spawn(task);
        }
        let http2 = Http2 {
            max_streams: settings.max_streams,
        };
        tasks.spawn(
            "listener",
            serve::serve(listener, TlsAcceptor::from(Arc::new(config)), chain, http2),
        );
        tracing::info!(tier = name, %address, "listening");

        let start = start(lifecycle.clone(), caches, hooks, latches);
        tokio::select! {
            outcome = start => {
                outcome?;
                tracing::info!(tier = name, "ready");
                shutdown.requested().await;
            }
            () = shutdown.requested() => {}
        }

        lifecycle.advance(Phase::ShuttingDown);
        tokio::time::sleep(settings.shutdown_delay).await;
        lifecycle.advance(Phase::Draining);
        let patience = settings.watch_grace + settings.request_timeout;
        if let Err(still) = tasks.wait(patience.min(SOON)).await {
            tracing::info!(?still, "waiting for what is under way");
        }
        if let Err(still) = tasks.wait(patience).await {
            tracing::info!(?still, "stopping although not everything has ended");
        }
        for hook in on_stop {
            hook.await;
        }
        lifecycle.advance(Phase::Stopped);
        Ok(())
    }
}

async fn start(
    lifecycle: Lifecycle,
    caches: Vec<BoxFuture<'static, ()>>,
    hooks: Vec<Hook>,
    latches: Vec<(String, Latch)>,
) -> Result<(), Error> {
    futures_util::future::join_all(caches).await;
    lifecycle.advance(Phase::CachesSynced);
    let hooks = hooks
        .into_iter()
        .zip(latches)
        .map(|((name, hook), (_, latch))| async move {
            hook.await.map_err(|why| Error::Hook { name, why })?;
            latch.set();
            Ok::<(), Error>(())
        });
    futures_util::future::try_join_all(hooks).await?;
    lifecycle.advance(Phase::Serving);
    Ok(())
}

/// The three roots, their checks in kube-apiserver's order.
fn health_paths(
    table: &mut Table,
    lifecycle: &Lifecycle,
    checks: Vec<Check>,
    ready: Vec<Check>,
    latches: &[(String, Latch)],
) {
    let hooks = || {
        latches
            .iter()
            .map(|(n, l)| Check::latch(format!("poststarthook/{n}"), l.clone()))
    };
    let mut alive = vec![Check::always("ping"), Check::always("log")];
    alive.extend(checks);
    let mut readyz = alive.clone();
    readyz.extend(ready);
    let phase = lifecycle.clone();
    readyz.push(Check::now("informer-sync", move || match phase.phase() {
        Phase::Starting => Err("caches are being filled".to_owned()),
        _ => Ok(()),
    }));
    alive.extend(hooks());
    readyz.extend(hooks());
    let phase = lifecycle.clone();
    readyz.push(Check::now("shutdown", move || {
        if phase.phase() >= Phase::ShuttingDown {
            return Err("process is shutting down".to_owned());
        }
        Ok(())
    }));
    health::sort(&mut alive);
    health::sort(&mut readyz);
    health::install(table, "healthz", alive.clone());
    health::install(table, "livez", alive);
    health::install(table, "readyz", readyz);
}
