//! The wiring of the aggregator: from settings to a running tier.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use prometheus::Registry;
use tokio::sync::watch;
use triptych_admission::Chain;
use triptych_admission::remote::Remote;
use triptych_auth::Authorizer;
use triptych_auth::authentication::remote::RemoteReview;
use triptych_auth::authentication::service_account::Bound;
use triptych_auth::authorization::mirrored::MirroredRbac;
use triptych_client::Api;
use triptych_client::address::Address;
use triptych_client::tls::Identity;
use triptych_registry::builtin::Scheme;
use triptych_registry::catalogue::{self, Collections, Making, Opening};
use triptych_registry::discovery::Freshness;
use triptych_registry::loopback::Loopback;
use triptych_registry::{Kinds, Services};
use triptych_schema::Table;
use triptych_server::claim::Table as Claims;
use triptych_server::discovery::fetch::PoolFetch;
use triptych_server::discovery::{Own, Publication, Published, services};
use triptych_server::health::{Check, Latch};
use triptych_server::metrics::Metrics;
use triptych_server::neighbours::Neighbour;
use triptych_server::next_tier::NextTier;
use triptych_server::{Shutdown, Tier};
use triptych_storage::Source;
use triptych_storage::options::MediaType;
use triptych_storage::stores::Stores;

use crate::apiservice::availability::Availability;
use crate::apiservice::claims::{Proxied, Shortcut};
use crate::apiservice::custom_groups::CustomGroups;
use crate::apiservice::registration::Registration;
use crate::apiservice::remotes::Remotes;
use crate::apiservice::{self, GROUP, RESOURCE, record};
use crate::front_door::endpoints::Endpoints;
use crate::front_door::{self, FrontDoor};
use crate::options::Settings;

/// How Go calls the scheme that APIServices are in.
const SCHEME: &str = "k8s.io/kube-aggregator/pkg/apiserver/scheme/scheme.go:28";
/// What the tier calls itself in its own requests; its writes are owned by this name.
const AGENT: &str = "kube-apiserver";
/// Certificate authorities are read again so often.
const TRUST_REFRESH: Duration = Duration::from_secs(10);

/// A start waits no longer than this for core-api's discovery.
const DISCOVERY_WAIT: Duration = Duration::from_secs(5);

/// Checks of kube-apiserver for what runs here from the start: good once caches are filled.
const CONTROLLERS: &[&str] = &[
    "aggregator-reload-proxy-client-cert",
    "start-kube-aggregator-informers",
    "apiservice-status-local-available-controller",
    "apiservice-status-remote-available-controller",
    "apiservice-registration-controller",
    "apiservice-openapi-controller",
    "apiservice-openapiv3-controller",
];

/// Checks of kube-apiserver for what is done in the tiers behind: shown as last heard.
const BEHIND: &[&str] = &[
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/peer-endpoint-reconciler-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/start-kubernetes-service-cidr-controller",
];

/// Why the aggregator could not start or had to end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A metric was registered twice.
    #[error("cannot register metrics")]
    Metrics(#[from] prometheus::Error),
    /// The store cannot be opened.
    #[error("cannot open the store")]
    Store(#[from] triptych_storage::Error),
    /// Certificates towards the other tiers are bad.
    #[error("cannot reach the other tiers")]
    Neighbour(#[from] triptych_client::tls::Error),
    /// The schema table lacks the kind that this tier is for.
    #[error("APIService is in no schema text, or switched off")]
    NoApiServices,
    /// Serving failed.
    #[error(transparent)]
    Tier(#[from] triptych_server::tier::Error),
}

/// Runs the aggregator until `shutdown`.
pub async fn run(settings: Settings, table: Table, build: String, shutdown: Shutdown) -> Result<(), Error> {
    let registry = Registry::new();
    let metrics = Arc::new(Metrics::new(registry.clone())?);
    let storage_metrics = triptych_storage::Metrics::new(&registry)?;
    let client_metrics = triptych_client::metrics::Metrics::new(&registry)?;
    let unavailable = apiservice::metrics::Metrics::new(&registry)?;

    // the tiers behind: as ourselves, and as a front proxy for others
    let own = |name: &str, addresses: Vec<Address>| Neighbour::new(name, addresses, &settings.own_tls, &client_metrics);
    let proxy = |name: &str, addresses: Vec<Address>| {
        Neighbour::new(name, addresses, &settings.forwarding_tls, &client_metrics)
    };
    let core = own("core-api", settings.core_api.clone())?;
    let forwarding = proxy("core-api", settings.core_api.clone())?;
    let core_api = Api::new(core.pool.clone(), AGENT);
    let direct = match settings.extensions_api.as_slice() {
        [] => None,
        addresses => Some((
            own("extensions-api", addresses.to_vec())?,
            proxy("extensions-api", addresses.to_vec())?,
        )),
    };
    let crds_from = direct.as_ref().map_or(&core.pool, |(own, _)| &own.pool);
    let custom = Arc::new(CustomGroups::start(Api::new(crds_from.clone(), AGENT)));

    // APIServices and who may do what with them
    let stores = Arc::new(Stores::open(&settings.storage, &storage_metrics).await?);
    let scheme = Arc::new(Scheme::new(Arc::new(table.schema), SCHEME, |_| true));
    let resources = catalogue::served(table.resources, &|r| settings.served.serves(r));
    let mut kinds = Kinds::new();
    apiservice::register(&mut kinds);
    let opening = Opening {
        scheme: &scheme,
        store: &|group, resource| stores.of(group, resource).clone(),
        metrics: &storage_metrics,
        ttl: Duration::MAX,
    };
    let collections = Collections::start(&resources, &kinds, &opening);
    let rbac = MirroredRbac::start(&core_api);
    let authorizer = Arc::new(settings.authorization.build(rbac.rbac.clone(), None));
    let mut authentication = settings.authentication;
    if settings.authorization.allows_everything() {
        // as kube-apiserver: whoever may do everything must at least be known
        authentication.anonymous = false;
    }
    let trust = authentication.trust.clone();
    let bound = Bound::Remote(Arc::new(RemoteReview::new(core_api.clone())));
    let authenticator = Arc::new(authentication.build(bound));
    let remote = Remote::start(&core_api);
    let deciding: Arc<dyn Authorizer> = authorizer.clone();
    let services = Arc::new(Services {
        admission: Arc::new(Chain::new(remote.plugins(&deciding))),
        permit: authorizer.clone(),
        meta: scheme.clone(),
        now: Timestamp::now,
        min_watch_seconds: settings.serving.min_watch_seconds,
    });
    let making = Making {
        scheme: &scheme,
        kinds: &kinds,
        collections: &collections,
        services: &services,
        store_protobuf: settings.storage.media_type == MediaType::Protobuf,
    };
    let (endpoints, misfits) = catalogue::build(&resources, &making);
    for misfit in misfits {
        tracing::error!("not served: {misfit}");
    }
    let loopback = Loopback::new(&endpoints);
    let api_services = collections.get(GROUP, RESOURCE).ok_or(Error::NoApiServices)?;
    let cache: Arc<dyn Source> = api_services.cache.clone();
    let view = record::view(cache);

    // the servers behind APIServices
    let identity = settings.proxy_identity.map(Identity::load).transpose()?;
    let remotes = Remotes::new(
        view.clone(),
        core_api.clone(),
        settings.route_to_endpoints,
        identity.clone(),
        client_metrics,
    );
    let registration = Arc::new(Registration::new(view.clone(), loopback.clone()));

    // discovery and OpenAPI
    let address = match settings.advertise {
        Some(ip) => std::net::SocketAddr::new(ip, settings.serving.listen.port()).to_string(),
        None => settings.serving.listen.to_string(),
    };
    let core_documents = PoolFetch::tier(core.pool.clone());
    let publication = Publication::new(scheme.schema.clone(), address, Some(core_documents.clone()));
    publication.set_own(Own::built_in(&scheme.schema, &resources, &build));
    publication.merge();
    let next = NextTier::new(core_api.clone());

    // what the cluster is told of this server
    let port = Arc::new(OnceLock::new());
    let published = settings.advertise.filter(front_door::may_be_published);
    let front_door = Arc::new(FrontDoor {
        core_api,
        port: port.clone(),
        endpoints: published.map(|ip| Endpoints::new(stores.default().clone(), ip)),
        request_header: settings.request_header,
    });
    let registered = Latch::default();
    let (service_there, service_first) = watch::channel(false);
    let (authentication_there, authentication_first) = watch::channel(false);

    let mut tier = Tier::new("aggregator", settings.serving, authenticator, authorizer, metrics);
    let lifecycle = tier.lifecycle();
    let availability = Availability::new(view, remotes.clone(), loopback, lifecycle.clone(), unavailable);
    tier = tier
        .claim(Arc::new(Proxied(remotes.clone())))
        .claim(Arc::new(Published(publication.clone())))
        .claim(Arc::new(Claims::of(&endpoints)));
    if let Some((own, proxy)) = &direct {
        let shortcut = Shortcut::new(proxy.pool.clone());
        tier = tier
            .claim(shortcut.clone())
            .background(shortcut.follow(custom.clone()))
            .background(own.follow())
            .background(proxy.follow());
    }
    tier = tier
        .next(forwarding.pool.clone())
        .index({
            let next = next.clone();
            move || next.paths()
        })
        .build(build)
        .check(Check::store(stores))
        .synced(rbac.synced())
        .check(Check::latch("autoregister-completion", registered.clone()))
        .on_start("kube-apiserver-autoregistration", {
            let registering = registration.clone().register_built_in(core_documents);
            async move {
                registering.await?;
                registered.set();
                Ok(())
            }
        })
        .on_start("apiservice-discovery-controller", discovered(publication.clone()))
        .on_start("bootstrap-controller", front_door::first(service_first))
        .on_start(
            "start-cluster-authentication-info-controller",
            front_door::first(authentication_first),
        )
        .background(registration.keep_custom(custom))
        .background(remotes.clone().follow())
        .background(availability.keep())
        .background(services::keep(publication.clone(), remotes.registered()))
        .background(publication.run())
        .background(front_door.clone().keep_service(lifecycle, service_there))
        .background(front_door.clone().keep_authentication(authentication_there))
        .on_stop(front_door::on_stop(front_door))
        .background(next.clone().follow())
        .background(core.follow())
        .background(forwarding.follow())
        .background(trust.keep_fresh(TRUST_REFRESH));
    if let Some(identity) = identity {
        tier = tier.background(identity.follow());
    }
    for collection in collections.iter() {
        let cache = collection.cache.clone();
        tier = tier.synced(async move { cache.filled().await });
    }
    for mirror in remote.mirrors() {
        tier = tier.synced(async move { mirror.synced().await });
    }
    for controller in CONTROLLERS {
        tier = tier.on_start(controller, std::future::ready(Ok(())));
    }
    for check in BEHIND {
        tier = tier.check(next.check(check));
    }
    let bound = tier.bind().await?;
    // the first and only time
    let _ = port.set(bound.address().port());
    bound.run(shutdown).await?;
    Ok(())
}

/// Waits until discovery shows what core-api serves, but not for ever: readiness depends on no other tier.
async fn discovered(publication: Arc<Publication>) -> Result<(), String> {
    let mut merged = publication.subscribe();
    let core = merged.wait_for(|m| {
        let core = m.snapshot.entry("", "v1");
        core.is_some_and(|e| e.freshness == Freshness::Current)
    });
    let _ = tokio::time::timeout(DISCOVERY_WAIT, core).await;
    Ok(())
}
