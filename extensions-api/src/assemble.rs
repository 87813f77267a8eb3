//! The wiring of extensions-api: from settings to a running tier.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use prometheus::Registry;
use triptych_admission::namespace_lifecycle::NamespaceLifecycle;
use triptych_admission::remote::Remote;
use triptych_admission::resource_quota::{Ledger, ResourceQuota};
use triptych_admission::{Chain, Plugin};
use triptych_auth::Authorizer;
use triptych_auth::authentication::remote::RemoteReview;
use triptych_auth::authentication::service_account::{Bound, CoreObjects};
use triptych_auth::authorization::confirm::Coalesced;
use triptych_auth::authorization::follow::BringUp;
use triptych_auth::authorization::index::RbacIndex;
use triptych_auth::authorization::rbac::Rbac;
use triptych_client::api::Api;
use triptych_client::hook::Calls;
use triptych_client::mirror::{Mirror, MirrorConfig};
use triptych_object::Value;
use triptych_registry::Services;
use triptych_registry::builtin::Scheme;
use triptych_registry::openapi::Custom;
use triptych_schema::Table;
use triptych_server::claim::Table as Paths;
use triptych_server::discovery::{Crds, Own, Publication, Published};
use triptych_server::health::Check;
use triptych_server::metrics::Metrics;
use triptych_server::neighbours::Neighbour;
use triptych_server::tier::Bound as Listening;
use triptych_server::{Shutdown, Tier};
use triptych_storage::stores::Stores;
use triptych_storage::{Source, View};

use crate::controller::{Controllers, StatusWriter};
use crate::custom::claims::CustomResources;
use crate::custom::conversion;
use crate::custom::serving::Maker;
use crate::definition::summary::Summary;
use crate::definition::{GROUP, PREFIX, RESOURCE, endpoint};
use crate::namespaces::MirroredNamespaces;
use crate::options::Settings;
use crate::publish;
use crate::quotas::CoreQuotas;

/// How Go calls the scheme that CRDs are in.
const SCHEME: &str = "k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go:55";
/// Refreshes of mirrored roles begin no closer together.
const CONFIRM_EVERY: Duration = Duration::from_millis(100);
/// A refresh of mirrored roles takes at most so long.
const CONFIRM_WAIT: Duration = Duration::from_secs(2);

/// Why extensions-api could not start or had to end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A metric was registered twice.
    #[error("cannot register metrics")]
    Metrics(#[from] prometheus::Error),
    /// The store cannot be opened.
    #[error("cannot open the store")]
    Store(#[from] triptych_storage::Error),
    /// Certificates towards core-api are bad.
    #[error("cannot reach core-api")]
    Neighbour(#[from] triptych_client::tls::Error),
    /// The schema table lacks the CRD kind.
    #[error("CustomResourceDefinition is in no schema text")]
    NoDefinitions,
    /// Serving failed.
    #[error(transparent)]
    Tier(#[from] triptych_server::tier::Error),
}

/// What is mirrored from core-api.
struct Mirrors {
    /// Roles, role bindings, cluster roles, cluster role bindings.
    rbac: [Arc<Mirror>; 4],
    /// What admission reads.
    admission: Remote,
    quotas: Arc<Mirror>,
    api: Api,
}

impl Mirrors {
    fn start(api: Api) -> Mirrors {
        let rbac = |kind: &str, resource: &str, namespaced: bool| {
            let config = MirrorConfig::new("rbac.authorization.k8s.io", "v1", kind, resource, namespaced);
            Mirror::start(api.clone(), config)
        };
        Mirrors {
            rbac: [
                rbac("Role", "roles", true),
                rbac("RoleBinding", "rolebindings", true),
                rbac("ClusterRole", "clusterroles", false),
                rbac("ClusterRoleBinding", "clusterrolebindings", false),
            ],
            admission: Remote::start(&api),
            quotas: Mirror::start(
                api.clone(),
                MirrorConfig::new("", "v1", "ResourceQuota", "resourcequotas", true),
            ),
            api,
        }
    }

    fn sources(&self) -> [Arc<dyn Source>; 4] {
        self.rbac.clone().map(|mirror| mirror as Arc<dyn Source>)
    }

    fn rbac(&self) -> Rbac {
        let index = Arc::new(RbacIndex::following(self.sources()));
        let bring_up = BringUp {
            sources: self.sources().into(),
            wait: CONFIRM_WAIT,
        };
        Rbac::confirmed(index, Arc::new(Coalesced::new(Box::new(bring_up), CONFIRM_EVERY)))
    }
}

/// Runs extensions-api until `shutdown`.
pub async fn run(settings: Settings, table: Table, build: String, shutdown: Shutdown) -> Result<(), Error> {
    bind(settings, table, build).await?.run(shutdown).await?;
    Ok(())
}

/// Puts extensions-api together; it listens, but serves only when run.
pub async fn bind(settings: Settings, table: Table, build: String) -> Result<Listening, Error> {
    let registry = Registry::new();
    let metrics = Arc::new(Metrics::new(registry.clone())?);
    let storage_metrics = triptych_storage::Metrics::new(&registry)?;
    let client_metrics = triptych_client::metrics::Metrics::new(&registry)?;

    let core = match &settings.core_api {
        Some((addresses, files)) => Some(Neighbour::new("core-api", addresses.clone(), files, &client_metrics)?),
        None => None,
    };
    let mirrors = core
        .as_ref()
        .map(|core| Mirrors::start(Api::new(core.pool.clone(), "extensions-api")));
    let rbac = match &mirrors {
        Some(mirrors) => mirrors.rbac(),
        None => Rbac::new(Arc::new(RbacIndex::new())),
    };
    let authorizer = Arc::new(settings.authorization.build(Arc::new(rbac), None));
    let trust = settings.authentication.trust.clone();
    let bound = match &mirrors {
        Some(mirrors) => Bound::Remote(Arc::new(RemoteReview::new(mirrors.api.clone()))),
        None => Bound::Local(Arc::new(Nothing)),
    };
    let authenticator = Arc::new(settings.authentication.build(bound));

    let stores = Arc::new(Stores::open(&settings.storage, &storage_metrics).await?);
    let scheme = Arc::new(Scheme::new(Arc::new(table.schema), SCHEME, |_| true));
    let namespaces = mirrors.as_ref().map(|m| m.admission.namespaces.clone());
    let mut plugins: Vec<Box<dyn Plugin>> = vec![Box::new(NamespaceLifecycle(MirroredNamespaces(namespaces)))];
    let deciding: Arc<dyn Authorizer> = authorizer.clone();
    if let Some(mirrors) = &mirrors {
        plugins.extend(mirrors.admission.plugins(&deciding));
        plugins.push(Box::new(ResourceQuota {
            ledger: Ledger::new(mirrors.quotas.clone(), Arc::new(CoreQuotas(mirrors.api.clone()))),
            classes: None,
            now: Timestamp::now,
        }));
    }
    let services = Arc::new(Services {
        admission: Arc::new(Chain::new(plugins)),
        permit: authorizer.clone(),
        meta: scheme.clone(),
        now: Timestamp::now,
        min_watch_seconds: settings.serving.min_watch_seconds,
    });

    let resources: Vec<_> = table
        .resources
        .into_iter()
        .filter(|r| r.resource == RESOURCE)
        .map(Arc::new)
        .collect();
    let resource = resources.first().ok_or(Error::NoDefinitions)?;
    let definitions = endpoint::collection(&stores, &storage_metrics);
    let crds = endpoint::endpoint(resource, &scheme, &definitions, &services).ok_or(Error::NoDefinitions)?;
    let crds = Arc::new(crds);
    let cache = definitions.cache.clone();
    let view = Arc::new(View::new(cache.clone() as Arc<dyn Source>, Summary::of));
    let maker = Maker {
        stores: stores.clone(),
        metrics: storage_metrics,
        scheme: scheme.clone(),
        services,
        calls: Calls::new(
            match &mirrors {
                Some(mirrors) => mirrors.admission.cluster_services(),
                None => Arc::new(conversion::NoServices),
            },
            conversion::MAX_CALLS,
            conversion::AGENT,
        ),
    };
    let custom = CustomResources::new(cache.clone(), view.clone(), &format!("{PREFIX}/"), maker);
    let controllers = Controllers::new(cache.clone(), view, StatusWriter(crds.clone()), custom.clone());

    let built_in = Own::built_in(&scheme.schema, &resources, &build);
    let address = settings.serving.listen.to_string();
    let publication = Publication::new(scheme.schema.clone(), address, None);
    publication.set_own(built_in.clone());
    publication.merge();
    let published = Crds::new(Custom {
        schema: scheme.schema.clone(),
        build: build.as_str().into(),
    });
    let publishing = publish::follow(cache.clone(), published, built_in, publication.clone());

    let mut paths = Paths::default();
    paths.resource(GROUP, "v1", RESOURCE, crds);
    let mut tier = Tier::new("extensions-api", settings.serving, authenticator, authorizer, metrics)
        .claim(Arc::new(Published(publication.clone())))
        .claim(Arc::new(paths))
        .claim(custom.clone())
        .build(build)
        .check(Check::store(stores))
        .synced({
            let cache = cache.clone();
            async move { cache.filled().await }
        })
        .background(publication.run())
        .background(publishing)
        .background(custom.follow())
        .background(controllers.run())
        .background(trust.keep_fresh(Duration::from_secs(10)));
    if let Some(core) = core {
        tier = tier.background(core.follow());
    }
    if let Some(mirrors) = mirrors {
        for mirror in mirrors
            .rbac
            .into_iter()
            .chain(mirrors.admission.mirrors())
            .chain([mirrors.quotas])
        {
            tier = tier.synced(async move { mirror.synced().await });
        }
    }
    Ok(tier.bind().await?)
}

/// Without core-api nothing is known that a token could be bound to.
struct Nothing;

impl CoreObjects for Nothing {
    fn get<'a>(
        &'a self,
        _resource: &'static str,
        _namespace: &'a str,
        _name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Value>, String>> {
        Box::pin(std::future::ready(Err("core-api is not known".to_owned())))
    }
}
