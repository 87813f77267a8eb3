//! The wiring of the aggregator: from settings to a running tier.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use prometheus::Registry;
use triptych_admission::Chain;
use triptych_auth::authentication::remote::RemoteReview;
use triptych_auth::authentication::service_account::Bound;
use triptych_auth::authorization::Authorization;
use triptych_auth::authorization::mirrored::MirroredRbac;
use triptych_auth::forbidden::forbidden;
use triptych_auth::{Attributes, Authorizer, Decision};
use triptych_client::Api;
use triptych_object::{RequestInfo, Status, StatusResult, UserInfo};
use triptych_registry::builtin::Scheme;
use triptych_registry::catalogue::{self, Collections, Making, Opening};
use triptych_registry::{Endpoint, Kinds, Permit, Services};
use triptych_schema::Table;
use triptych_server::claim::Table as Claims;
use triptych_server::discovery::fetch::PoolFetch;
use triptych_server::discovery::{Own, Publication, Published};
use triptych_server::health::Check;
use triptych_server::metrics::Metrics;
use triptych_server::neighbours::Neighbour;
use triptych_server::next_tier::NextTier;
use triptych_server::{Shutdown, Tier};
use triptych_storage::options::MediaType;
use triptych_storage::stores::Stores;

use crate::options::Settings;

/// How Go calls the scheme that APIServices are in.
const SCHEME: &str = "k8s.io/kube-aggregator/pkg/apiserver/scheme/scheme.go:28";
/// What the tier calls itself in its own requests; its writes are owned by this name.
const AGENT: &str = "kube-apiserver";
/// Certificate authorities are read again so often.
const TRUST_REFRESH: Duration = Duration::from_secs(10);

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

    let core = Neighbour::new(
        "core-api",
        settings.core_api.clone(),
        &settings.own_tls,
        &client_metrics,
    )?;
    let forwarding = Neighbour::new("core-api", settings.core_api, &settings.forwarding_tls, &client_metrics)?;
    let core_api = Api::new(core.pool.clone(), AGENT);

    let stores = Arc::new(Stores::open(&settings.storage, &storage_metrics).await?);
    let scheme = Arc::new(Scheme::new(Arc::new(table.schema), SCHEME, |_| true));
    let resources = catalogue::served(table.resources, &|r| settings.served.serves(r));
    let kinds = Kinds::new();
    let opening = Opening {
        scheme: &scheme,
        store: &|group, resource| stores.of(group, resource).clone(),
        metrics: &storage_metrics,
        ttl: Duration::MAX,
    };
    let collections = Collections::start(&resources, &kinds, &opening);

    let rbac = MirroredRbac::start(&core_api);
    let authorizer = Arc::new(settings.authorization.build(rbac.rbac.clone(), None));
    let trust = settings.authentication.trust.clone();
    let bound = Bound::Remote(Arc::new(RemoteReview::new(core_api.clone())));
    let authenticator = Arc::new(settings.authentication.build(bound));

    let services = Arc::new(Services {
        admission: Arc::new(Chain::new(Vec::new())),
        permit: Arc::new(Permission(authorizer.clone())),
        meta: scheme.clone(),
        now: Timestamp::now,
        min_watch_seconds: settings.min_watch_seconds,
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

    let address = match settings.advertise {
        Some(ip) => std::net::SocketAddr::new(ip, settings.serving.listen.port()).to_string(),
        None => settings.serving.listen.to_string(),
    };
    let publication = Publication::new(scheme.schema.clone(), address, Some(PoolFetch::tier(core.pool.clone())));
    publication.set_own(Own::built_in(&scheme.schema, &resources, &build));
    publication.merge();
    let next = NextTier::new(core_api);

    let mut tier = Tier::new("aggregator", settings.serving, authenticator, authorizer, metrics)
        .claim(Arc::new(Published(publication.clone())))
        .claim(Arc::new(claims(&endpoints)))
        .next(forwarding.pool.clone())
        .index({
            let next = next.clone();
            move || next.paths()
        })
        .build(build)
        .check(store_check(stores))
        .synced(rbac.synced())
        .background(publication.run())
        .background(next.follow())
        .background(core.follow())
        .background(forwarding.follow())
        .background(trust.keep_fresh(TRUST_REFRESH));
    for collection in collections.iter() {
        let cache = collection.cache.clone();
        tier = tier.synced(async move { cache.filled().await });
    }
    tier.run(shutdown).await?;
    Ok(())
}

fn claims(endpoints: &[Arc<Endpoint>]) -> Claims {
    let mut claims = Claims::default();
    for endpoint in endpoints {
        let r = &endpoint.resource;
        claims.resource(&r.group, &r.version, &r.resource, endpoint.clone());
    }
    claims
}

fn store_check(stores: Arc<Stores>) -> Check {
    Check::new("etcd", move || {
        let stores = stores.clone();
        async move {
            let outcome = stores.check(Duration::from_secs(2)).await;
            outcome.map_err(|e| e.to_string())
        }
    })
}

/// Further authorization for the registry.
struct Permission(Arc<Authorization>);

impl Permit for Permission {
    fn permit<'a>(&'a self, user: &'a UserInfo, request: &'a RequestInfo) -> BoxFuture<'a, StatusResult<()>> {
        Box::pin(async move {
            match self.0.authorize(Attributes { user, request }).await {
                Decision::Allow(_) => Ok(()),
                Decision::Deny(reason) => Err(forbidden(user, request, &reason.to_string())),
                Decision::NoOpinion { reason, .. } => Err(forbidden(user, request, &reason)),
                Decision::Unavailable(why) => Err(Status::service_unavailable(why, 1)),
            }
        })
    }
}
