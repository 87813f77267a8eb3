//! The servers behind APIServices: who they are, where they are, connections to them.
//!
//! Contract: one immutable map, replaced whenever an APIService, a Service or an EndpointSlice changes; connections
//! survive a replacement that does not concern them. Services and EndpointSlices are mirrored only once there is an
//! APIService that needs them, so that a cluster without any pays nothing.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::BoxFuture;
use http::StatusCode;
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, JoinSet};
use triptych_client::Api;
use triptych_client::address::Address;
use triptych_client::bundle::Bundle;
use triptych_client::metrics::Metrics;
use triptych_client::pool::Pool;
use triptych_client::tls::{Connector, Identity, Trust};
use triptych_registry::Response;
use triptych_server::claim::Proxy;
use triptych_server::discovery::Registered;
use triptych_server::discovery::fetch::{Ask, Fetch, Fetched, PoolFetch};
use triptych_server::respond;

use super::record::{ApiService, ApiServiceView, ServiceRef};
use super::resolve::Network;
use crate::changes::ring;

/// ALPN of connections to servers behind APIServices.
const ALPN: &[&[u8]] = &[b"h2", b"http/1.1"];

/// An APIService that somebody else serves.
pub struct Remote {
    /// The APIService.
    pub service: Arc<ApiService>,
    /// Its reference.
    pub reference: ServiceRef,
    /// Its server.
    pub server: Result<Arc<Server>, Unreachable>,
}

/// Why there are no connections to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// It is nowhere to be found.
    Unresolved(String),
    /// Its CA bundle holds no certificates.
    Untrusted(String),
}

impl Unreachable {
    /// In words.
    pub fn why(&self) -> &str {
        match self {
            Unreachable::Unresolved(why) | Unreachable::Untrusted(why) => why,
        }
    }
}

/// Connections to a server.
pub struct Server {
    /// The connections.
    pub pool: Arc<Pool>,
    /// Tells these connections from others to the same Service.
    id: u64,
    addresses: Vec<Address>,
    follow: AbortHandle,
}

impl Server {
    /// `https://host:port` of its first address.
    pub fn url(&self) -> String {
        let authority = self.addresses.first().map(|a| a.authority.as_str());
        format!("https://{}", authority.unwrap_or(""))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.follow.abort();
    }
}

impl Proxy for Remote {
    fn target(&self) -> Result<Arc<Pool>, Box<Response>> {
        let unavailable = || {
            Box::new(respond::plain_error(
                StatusCode::SERVICE_UNAVAILABLE,
                "service unavailable",
            ))
        };
        if !self.service.available {
            return Err(unavailable());
        }
        match &self.server {
            Ok(server) => Ok(server.pool.clone()),
            Err(Unreachable::Unresolved(why)) => {
                tracing::info!(service = &*self.service.name, why, "cannot be resolved");
                Err(unavailable())
            }
            Err(Unreachable::Untrusted(why)) => {
                let code = StatusCode::INTERNAL_SERVER_ERROR;
                Err(Box::new(respond::plain_error(code, why.as_str())))
            }
        }
    }
}

/// By group, then by version.
type ByVersion = HashMap<Arc<str>, Vec<Arc<Remote>>>;

/// All of them.
pub struct Remotes {
    services: Arc<ApiServiceView>,
    core_api: Api,
    to_endpoints: bool,
    identity: Option<Arc<Identity>>,
    metrics: Metrics,
    network: OnceLock<Arc<Network>>,
    servers_made: AtomicU64,
    current: ArcSwap<ByVersion>,
    changed: watch::Sender<u64>,
    registered: watch::Sender<Vec<Registered>>,
}

impl Remotes {
    /// None yet. Their servers are shown `identity`.
    pub fn new(
        services: Arc<ApiServiceView>,
        core_api: Api,
        to_endpoints: bool,
        identity: Option<Arc<Identity>>,
        metrics: Metrics,
    ) -> Arc<Remotes> {
        Arc::new(Remotes {
            services,
            core_api,
            to_endpoints,
            identity,
            metrics,
            network: OnceLock::new(),
            servers_made: AtomicU64::new(0),
            current: ArcSwap::default(),
            changed: watch::Sender::new(0),
            registered: watch::Sender::new(Vec::new()),
        })
    }

    /// The remote APIService of a group-version.
    pub fn find(&self, group: &str, version: &str) -> Option<Arc<Remote>> {
        let current = self.current.load();
        let versions = current.get(group)?;
        versions.iter().find(|r| &*r.service.version == version).cloned()
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Remote>> {
        self.current.load().values().flatten().cloned().collect()
    }

    /// Where their Services are looked up, if there are any and everything was mirrored once.
    pub fn network(&self) -> Option<&Arc<Network>> {
        self.network.get().filter(|n| n.has_synced())
    }

    /// Tells of every replacement.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// All APIServices as discovery wants them, from the first time they were read.
    pub fn registered(&self) -> watch::Receiver<Vec<Registered>> {
        self.registered.subscribe()
    }

    /// Follows APIServices and what they need, for ever.
    pub async fn follow(self: Arc<Self>) {
        let bell = Arc::new(Notify::new());
        // ends with this future
        let mut rings = JoinSet::new();
        rings.spawn(ring(self.services.source().clone(), bell.clone()));
        let mut mirrored = false;
        loop {
            bell.notified().await;
            self.refresh();
            if !mirrored && let Some(network) = self.network.get() {
                mirrored = true;
                for source in network.sources() {
                    rings.spawn(ring(source, bell.clone()));
                }
            }
        }
    }

    /// Brings the map up to date.
    pub fn refresh(&self) {
        let Some(services) = self.services.load() else { return };
        let before = self.current.load_full();
        let mut next: ByVersion = HashMap::new();
        for (_, service) in services.iter() {
            if let Some(reference) = &service.service {
                let known = before.get(&service.group).into_iter().flatten();
                let known = known.into_iter().find(|r| r.service.version == service.version);
                let remote = self.remote(service, reference, known);
                next.entry(Arc::clone(&service.group)).or_default().push(remote);
            }
        }
        let registered = services.iter().map(|(_, s)| registered(s, find_in(&next, s))).collect();
        self.current.store(Arc::new(next));
        self.changed.send_modify(|n| *n += 1);
        self.register(registered);
    }

    fn register(&self, all: Vec<Registered>) {
        let same = |a: &Registered, b: &Registered| {
            let backend = |r: &Registered| r.backend.as_ref().map(|(key, _)| key.clone());
            (&a.group, &a.version, a.priority) == (&b.group, &b.version, b.priority) && backend(a) == backend(b)
        };
        self.registered.send_if_modified(|known| {
            let unchanged = known.len() == all.len() && known.iter().zip(&all).all(|(a, b)| same(a, b));
            if !unchanged {
                *known = all;
            }
            !unchanged
        });
    }

    fn remote(&self, service: &Arc<ApiService>, reference: &ServiceRef, known: Option<&Arc<Remote>>) -> Arc<Remote> {
        let network = self
            .network
            .get_or_init(|| Arc::new(Network::start(&self.core_api, self.to_endpoints)));
        let server = match network.resolve(reference) {
            Ok(addresses) => {
                let kept = known.and_then(|r| Some((r, r.server.as_ref().ok()?)));
                match kept {
                    Some((r, server)) if server.addresses == addresses && r.service.same_spec(service) => {
                        Ok(Arc::clone(server))
                    }
                    _ => self.connect(service, addresses),
                }
            }
            Err(why) => Err(Unreachable::Unresolved(why)),
        };
        match known {
            Some(known) if same_server(&known.server, &server) && known.service == *service => Arc::clone(known),
            _ => Arc::new(Remote {
                service: Arc::clone(service),
                reference: reference.clone(),
                server,
            }),
        }
    }

    fn connect(&self, service: &ApiService, addresses: Vec<Address>) -> Result<Arc<Server>, Unreachable> {
        let trust = if service.insecure {
            Trust::AnybodyInsecurely
        } else {
            Trust::Bundle(bundle(&service.ca_bundle).map_err(Unreachable::Untrusted)?)
        };
        let connector = Connector::trusting(trust, self.identity.clone(), ALPN)
            .map_err(|e| Unreachable::Untrusted(triptych_options::chain(&e)))?;
        let metrics = self.metrics.target("apiservice");
        let pool = Pool::new(&service.name, addresses.clone(), connector, metrics);
        let follow = tokio::spawn(pool.clone().follow()).abort_handle();
        Ok(Arc::new(Server {
            pool,
            id: self.servers_made.fetch_add(1, Ordering::Relaxed),
            addresses,
            follow,
        }))
    }
}

fn find_in<'a>(all: &'a ByVersion, service: &ApiService) -> Option<&'a Arc<Remote>> {
    let versions = all.get(&service.group)?;
    versions.iter().find(|r| r.service.version == service.version)
}

fn same_server(a: &Result<Arc<Server>, Unreachable>, b: &Result<Arc<Server>, Unreachable>) -> bool {
    match (a, b) {
        (Ok(a), Ok(b)) => Arc::ptr_eq(a, b),
        (Err(a), Err(b)) => a == b,
        _ => false,
    }
}

/// The certificates of a base64 PEM bundle. An empty one trusts nobody: this server has no certificates of its own.
fn bundle(text: &str) -> Result<Bundle, String> {
    if text.is_empty() {
        return Ok(Bundle::default());
    }
    let unusable = "unable to load root certificates: unable to parse bytes as PEM block";
    let pem = STANDARD.decode(text).map_err(|_| unusable)?;
    let bundle = Bundle::read(&pem).map_err(|_| unusable)?;
    if bundle.is_empty() {
        return Err(unusable.to_owned());
    }
    Ok(bundle)
}

/// An APIService for discovery. Its server is known by where it is, whom it is trusted as and whether it is available, so
/// that a change of any of these asks it again.
fn registered(service: &ApiService, remote: Option<&Arc<Remote>>) -> Registered {
    let backend = remote.map(|remote| -> (Arc<str>, Arc<dyn Fetch>) {
        let ServiceRef { namespace, name, port } = &remote.reference;
        let (place, server): (String, Arc<dyn Fetch>) = match &remote.server {
            Ok(server) => (
                match service.available {
                    true => format!("over connections {}", server.id),
                    false => format!("unavailable over connections {}", server.id),
                },
                PoolFetch::backend(server.pool.clone()),
            ),
            Err(unreachable) => {
                let why = unreachable.why().to_owned();
                (why.clone(), Arc::new(Nowhere(why)))
            }
        };
        (format!("{namespace}/{name}:{port} {place}").into(), server)
    });
    Registered {
        group: Arc::clone(&service.group),
        version: Arc::clone(&service.version),
        priority: service.priority,
        backend,
    }
}

/// A server that is not to be found.
struct Nowhere(String);

impl Fetch for Nowhere {
    fn fetch(&self, _ask: Ask) -> BoxFuture<'_, Result<Fetched, String>> {
        Box::pin(std::future::ready(Err(self.0.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_must_hold_certificates() {
        assert!(bundle("").unwrap().is_empty());
        for bad in ["*", "aGVsbG8="] {
            assert!(bundle(bad).unwrap_err().starts_with("unable to load root certificates"));
        }
    }
}
