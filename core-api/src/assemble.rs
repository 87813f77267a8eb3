//! The wiring of core-api: from settings to a running tier.

use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use prometheus::Registry;
use triptych_admission::policy::params::{Params, RemoteParams};
use triptych_auth::Authorizer;
use triptych_auth::authentication::service_account::{Bound, CoreObjects};
use triptych_client::Api;
use triptych_object::{Status, StatusResult, Value};
use triptych_registry::builtin::Scheme;
use triptych_registry::catalogue::{self, Collections, Making, Opening};
use triptych_registry::collection::Collection;
use triptych_registry::{Permit, Services};
use triptych_schema::Table;
use triptych_server::claim::Table as Claims;
use triptych_server::discovery::fetch::{Fetch, PoolFetch};
use triptych_server::discovery::{Own, Publication, Published};
use triptych_server::health::Check;
use triptych_server::metrics::Metrics;
use triptych_server::neighbours::Neighbour;
use triptych_server::{Shutdown, Tier};
use triptych_storage::options::MediaType;
use triptych_storage::stores::Stores;

use crate::access::{self, Access};
use crate::authentication::open_id;
use crate::authorization::node_authorizer;
use crate::context::Context;
use crate::loopback::Loopback;
use crate::options::{NextTier, Settings};
use crate::policy_params::LocalParams;
use crate::{admission, boot, features, kinds, rbac};

/// How Go calls the scheme that these kinds are in.
const SCHEME: &str = "pkg/api/legacyscheme/scheme.go:30";

/// Why core-api could not start or had to end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A metric was registered twice.
    #[error("cannot register metrics")]
    Metrics(#[from] prometheus::Error),
    /// The store cannot be opened.
    #[error("cannot open the store")]
    Store(#[from] triptych_storage::Error),
    /// Certificates towards the next tier are bad.
    #[error("cannot reach the next tier")]
    Neighbour(#[from] triptych_client::tls::Error),
    /// Serving failed.
    #[error(transparent)]
    Tier(#[from] triptych_server::tier::Error),
}

/// Runs core-api until `shutdown`.
pub async fn run(settings: Settings, table: Table, build: String, shutdown: Shutdown) -> Result<(), Error> {
    let registry = Registry::new();
    let metrics = Arc::new(Metrics::new(registry.clone())?);
    let storage_metrics = triptych_storage::Metrics::new(&registry)?;
    let client_metrics = triptych_client::metrics::Metrics::new(&registry)?;

    let stores = Arc::new(Stores::open(&settings.storage, &storage_metrics).await?);
    let scheme = Arc::new(Scheme::new(Arc::new(table.schema), SCHEME, features::is_on));
    let resources = catalogue::served(table.resources, &|r| settings.served.serves(r));
    let opening = Opening {
        scheme: &scheme,
        store: &|group, resource| stores.of(group, resource).clone(),
        metrics: &storage_metrics,
        ttl: settings.event_ttl,
    };
    let collections = Arc::new(Collections::start(&resources, &kinds::fields(), &opening));
    let context = Context {
        collections: collections.clone(),
        cluster_ips: settings.cluster_ips,
        node_ports: settings.node_ports,
    };

    let (index, rbac) = access::rbac(&collections);
    let node = Arc::new(node_authorizer(&collections));
    let authorizer = Arc::new(settings.authorization.build(Arc::new(rbac), Some(node)));
    let mut authentication = settings.authentication;
    if settings.authorization.allows_everything() {
        // As kube-apiserver: whoever may do everything must at least be known.
        authentication.anonymous = false;
    }
    let open_id = authentication.open_id(&settings.serving.listen.to_string());
    let trust = authentication.trust.clone();
    let boot = boot::Settings {
        cluster_ips: context.cluster_ips.clone(),
        client_ca: Arc::new({
            let trust = trust.clone();
            move || Some(String::from_utf8_lossy(&trust.client_authorities()?.pem()).into_owned())
        }),
        today: Timestamp::now().strftime("%F").to_string(),
    };
    let objects = Arc::new(Objects(collections.clone()));
    let issuer = authentication.issuer.clone();
    let authenticator = Arc::new(authentication.build(Bound::Local(objects.clone())));
    let access = Access {
        index,
        authorization: authorizer.clone(),
        tokens: authenticator.tokens.clone(),
        audiences: authenticator.audiences.clone(),
        issuer,
        objects,
    };

    let next = settings
        .next
        .map(|next| neighbours(next, &client_metrics))
        .transpose()?;
    let permit: Arc<dyn Permit> = authorizer.clone();
    let deciding: Arc<dyn Authorizer> = authorizer.clone();
    let own = Arc::new(OnceLock::new());
    let params: Arc<dyn Params> = Arc::new(LocalParams {
        own: own.clone(),
        next: next
            .as_ref()
            .map(|(_, own)| RemoteParams::new(Api::new(own.pool.clone(), "core-api"))),
    });
    let admission = admission::chain(&collections, &permit, &deciding, &params, &own, &settings.admission);
    let services = Arc::new(Services {
        admission: Arc::new(admission),
        permit,
        meta: scheme.clone(),
        now: Timestamp::now,
        min_watch_seconds: settings.serving.min_watch_seconds,
    });
    let making = Making {
        scheme: &scheme,
        kinds: &kinds::all(&access, &context, &own),
        collections: &collections,
        services: &services,
        store_protobuf: settings.storage.media_type == MediaType::Protobuf,
    };
    let (endpoints, misfits) = catalogue::build(&resources, &making);
    for misfit in misfits {
        tracing::error!("not served: {misfit}");
    }
    let loopback = own.get_or_init(|| Loopback::new(&endpoints)).clone();
    let mut claims = Claims::of(&endpoints);
    match open_id {
        Some(Ok(documents)) => open_id::claim(&mut claims, &documents),
        Some(Err(why)) => tracing::info!(why, "OpenID discovery is not served"),
        None => {}
    }

    let fetch = next
        .as_ref()
        .map(|(_, own)| PoolFetch::tier(own.pool.clone()) as Arc<dyn Fetch>);
    let publication = Publication::new(scheme.schema.clone(), settings.serving.listen.to_string(), fetch);
    publication.set_own(Own::built_in(&scheme.schema, &resources, &build).with_roots(&scheme.schema, &build));
    publication.merge();

    let mut tier = Tier::new("core-api", settings.serving, authenticator, authorizer, metrics)
        .claim(Arc::new(Published(publication.clone())))
        .claim(Arc::new(claims))
        .build(build)
        .check(Check::store(stores))
        .background(publication.run())
        .background(trust.keep_fresh(std::time::Duration::from_secs(10)))
        .on_start("rbac/bootstrap-roles", rbac::bootstrap::start_hook(loopback.clone()));
    tier = boot::attach(tier, &loopback, &context, boot);
    for collection in collections.iter() {
        let cache = collection.cache.clone();
        tier = tier.synced(async move { cache.filled().await });
    }
    if let Some((forwarding, own)) = next {
        tier = tier
            .next(forwarding.pool.clone())
            .background(forwarding.follow())
            .background(own.follow());
    }
    tier.run(shutdown).await?;
    Ok(())
}

/// The next tier as a front proxy and as this tier.
fn neighbours(next: NextTier, metrics: &triptych_client::metrics::Metrics) -> Result<(Neighbour, Neighbour), Error> {
    const NAME: &str = "extensions-api";
    let forwarding = Neighbour::new(NAME, next.addresses.clone(), &next.forwarding, metrics)?;
    let own = Neighbour::new(NAME, next.addresses, &next.own, metrics)?;
    Ok((forwarding, own))
}

/// Core objects for authenticators, read as acknowledged.
struct Objects(Arc<Collections>);

impl CoreObjects for Objects {
    fn get<'a>(
        &'a self,
        resource: &'static str,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Value>, String>> {
        Box::pin(async move {
            let collection = self.0.get("", resource).ok_or("no such resource")?;
            read(collection, namespace, name).await.map_err(|status| status.message)
        })
    }
}

async fn read(collection: &Collection, namespace: &str, name: &str) -> StatusResult<Option<Value>> {
    let key = collection.key(namespace, name)?;
    let object = collection.get_consistent(&key).await?;
    object
        .filter(|o| o.broken().is_none())
        .map(|o| triptych_object::json::from_slice(o.bytes()).map_err(Status::internal))
        .transpose()
}
