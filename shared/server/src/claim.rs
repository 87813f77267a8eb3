//! What a tier serves: the answer to "whose request is this?".
//!
//! Contract: a [`Claims`] is asked once per request, after authentication, and answers from an immutable snapshot. A
//! tier stacks several (its built-in resources, its paths, what changes at run time) in [`Layers`]; the first that claims
//! a request has it. What kube-apiserver's two routers do with odd paths is decided here: below an API group or another
//! go-restful service a miss is a `Status` 404, elsewhere it is plain text; services answer with and without a trailing
//! slash, mux paths only as registered.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;
use triptych_client::pool::Pool;
use triptych_object::RequestInfo;
use triptych_registry::{Endpoint, Handler, Response};

/// Who answers a request.
#[derive(Clone)]
pub enum Claim {
    /// A resource of this tier.
    Resource(Arc<dyn Handler>),
    /// A path of this tier.
    Path {
        /// Who answers.
        handler: Arc<dyn Handler>,
        /// Other methods than GET are 405.
        get_only: bool,
    },
    /// An API that another server provides on this tier's behalf (an APIService).
    Proxy(Arc<dyn Proxy>),
    /// Another tier's, reached here: passed on unread as what is unclaimed is, but not to the next tier in the chain.
    Forward(Arc<Pool>),
    /// The group is this tier's, but not this resource: 404 as a `Status`.
    NoSuchResource,
    /// Not this tier's.
    Unclaimed {
        /// False while the tier cannot know (its CRDs are not synced): then the end of the chain answers 503, not 404.
        certain: bool,
    },
}

/// A snapshot of what a tier serves.
pub trait Claims: Send + Sync + 'static {
    /// Whose request this is.
    fn find(&self, info: &RequestInfo) -> Claim;

    /// Brings the snapshot up to date before the end of the chain answers 404; coalesced by who implements it.
    fn refresh<'a>(&'a self, _info: &'a RequestInfo) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// The paths to list at `/`.
    fn paths(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A server behind this tier.
pub trait Proxy: Send + Sync + 'static {
    /// Connections to it, or the answer while it is not available.
    fn target(&self) -> Result<Arc<Pool>, Box<Response>>;
}

/// Claims asked in order.
pub struct Layers(pub Vec<Arc<dyn Claims>>);

impl Claims for Layers {
    fn find(&self, info: &RequestInfo) -> Claim {
        let mut all_certain = true;
        let mut owned = false;
        for layer in &self.0 {
            match layer.find(info) {
                Claim::Unclaimed { certain } => all_certain &= certain,
                // another layer may serve another version of the group
                Claim::NoSuchResource => owned = true,
                claim => return claim,
            }
        }
        if owned {
            return Claim::NoSuchResource;
        }
        Claim::Unclaimed { certain: all_certain }
    }

    fn refresh<'a>(&'a self, info: &'a RequestInfo) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for layer in &self.0 {
                layer.refresh(info).await;
            }
        })
    }

    fn paths(&self) -> Vec<String> {
        self.0.iter().flat_map(|l| l.paths()).collect()
    }
}

/// A snapshot that is swapped for a newer one.
impl<T: Claims> Claims for ArcSwap<T> {
    fn find(&self, info: &RequestInfo) -> Claim {
        self.load().find(info)
    }

    fn paths(&self) -> Vec<String> {
        self.load().paths()
    }
}

/// A version's resources by name.
type Resources = HashMap<String, Arc<dyn Handler>>;

/// The claims of resources and paths that are known when the tier is assembled.
#[derive(Default)]
pub struct Table {
    groups: HashMap<String, HashMap<String, Resources>>,
    exact: HashMap<String, Arc<dyn Handler>>,
    prefixes: Vec<(String, Arc<dyn Handler>)>,
    services: HashMap<String, Arc<dyn Handler>>,
    roots: Vec<String>,
    listed: Vec<String>,
}

impl Table {
    /// Claims what the endpoints serve.
    pub fn of(endpoints: &[Arc<Endpoint>]) -> Table {
        let mut table = Table::default();
        for endpoint in endpoints {
            let r = &endpoint.resource;
            table.resource(&r.group, &r.version, &r.resource, endpoint.clone());
        }
        table
    }

    /// Claims a resource with its subresources, and its group.
    pub fn resource(&mut self, group: &str, version: &str, resource: &str, handler: Arc<dyn Handler>) {
        let versions = self.groups.entry(group.to_owned()).or_default();
        let resources = versions.entry(version.to_owned()).or_default();
        resources.insert(resource.to_owned(), handler);
    }

    /// Claims exactly `path`, any method.
    pub fn path(&mut self, path: &str, handler: Arc<dyn Handler>) {
        self.exact.insert(path.to_owned(), handler);
        self.listed.push(path.to_owned());
    }

    /// The same, not listed at `/`.
    pub fn unlisted(&mut self, path: &str, handler: Arc<dyn Handler>) {
        self.exact.insert(path.to_owned(), handler);
    }

    /// Claims everything below `prefix`, which ends in a slash, any method.
    pub fn prefix(&mut self, prefix: &str, handler: Arc<dyn Handler>) {
        self.prefixes.push((prefix.to_owned(), handler));
        self.prefixes.sort_by_key(|(p, _)| std::cmp::Reverse(p.len()));
        self.listed.push(prefix.to_owned());
    }

    /// Claims `path` as a go-restful service below `root`: GET only, with or without a trailing slash, and nothing
    /// else exists below `root`.
    pub fn service(&mut self, root: &str, path: &str, handler: Arc<dyn Handler>) {
        self.services.insert(path.to_owned(), handler);
        if !self.roots.iter().any(|r| r == root) {
            self.roots.push(root.to_owned());
        }
        self.listed.push(path.to_owned());
    }

    fn find_resource(&self, info: &RequestInfo) -> Claim {
        let core = info.prefix == "api";
        let unclaimed = Claim::Unclaimed { certain: true };
        if core != info.group.is_empty() {
            return unclaimed;
        }
        let Some(versions) = self.groups.get(&info.group) else {
            return unclaimed;
        };
        let handler = versions.get(&info.version).and_then(|v| v.get(&info.resource));
        match handler {
            Some(handler) if well_formed(info) => Claim::Resource(Arc::clone(handler)),
            _ => Claim::NoSuchResource,
        }
    }

    fn find_path(&self, path: &str) -> Claim {
        if let Some(handler) = self.exact.get(path) {
            return Claim::Path {
                handler: Arc::clone(handler),
                get_only: false,
            };
        }
        let trimmed = path.strip_suffix('/').unwrap_or(path);
        if let Some(handler) = self.services.get(trimmed) {
            return Claim::Path {
                handler: Arc::clone(handler),
                get_only: true,
            };
        }
        if let Some((_, handler)) = self.prefixes.iter().find(|(p, _)| path.starts_with(p)) {
            return Claim::Path {
                handler: Arc::clone(handler),
                get_only: false,
            };
        }
        let below = |root: &String| {
            path.strip_prefix(root.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if self.roots.iter().any(below) {
            return Claim::NoSuchResource;
        }
        Claim::Unclaimed { certain: true }
    }
}

impl Claims for Table {
    fn find(&self, info: &RequestInfo) -> Claim {
        if info.is_resource {
            let claim = self.find_resource(info);
            if !matches!(claim, Claim::Unclaimed { .. }) {
                return claim;
            }
        }
        self.find_path(&info.path)
    }

    fn paths(&self) -> Vec<String> {
        self.listed.clone()
    }
}

/// False for what go-restful has no route for: empty segments, and more segments than a resource has.
pub fn well_formed(info: &RequestInfo) -> bool {
    let proxied = info.parts.get(2).is_some_and(|s| s == "proxy");
    (info.parts.len() <= 3 && !info.parts.iter().any(String::is_empty)) || proxied
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;
    impl Handler for Nobody {
        fn handle(&self, _request: triptych_registry::Request) -> BoxFuture<'_, Response> {
            Box::pin(std::future::pending())
        }
    }

    fn table() -> Table {
        let mut t = Table::default();
        t.resource("", "v1", "pods", Arc::new(Nobody));
        t.resource("apps", "v1", "deployments", Arc::new(Nobody));
        t.path("/livez", Arc::new(Nobody));
        t.path("/apis/apps", Arc::new(Nobody));
        t.service("/apis/apps", "/apis/apps/v1", Arc::new(Nobody));
        t.service("/version", "/version", Arc::new(Nobody));
        t.prefix("/openapi/v3/", Arc::new(Nobody));
        t
    }

    #[test]
    fn each_kind_of_path_is_found_as_its_router_would() {
        let t = table();
        for (path, want) in [
            ("/api/v1/pods", "resource"),
            ("/api/v1/namespaces/a/pods/b/status", "resource"),
            ("/api/v1/namespaces/a/pods/b/proxy/x/y", "resource"),
            ("/api/v1/namespaces/a/pods/b/status/more", "missing"),
            ("/api/v1/namespaces/a/pods//b", "missing"),
            ("/api/v1/frobs", "missing"),
            ("/apis/apps/v9", "missing"),
            ("/apis/apps/v9/deployments", "missing"),
            ("/apis/apps", "path"),
            ("/apis/apps/v1", "get"),
            ("/apis/apps/v1/", "get"),
            ("/version/", "get"),
            ("/version/x", "missing"),
            ("/versions", "unclaimed"),
            ("/livez", "path"),
            ("/livez/", "unclaimed"),
            ("/openapi/v3/api/v1", "path"),
            ("/apis//v1/pods", "unclaimed"),
            ("/apis/v1/namespaces/a/pods", "unclaimed"),
            ("/apis/none.example.com/v1/widgets", "unclaimed"),
        ] {
            let got = match t.find(&RequestInfo::parse("GET", path, "").unwrap()) {
                Claim::Resource(_) => "resource",
                Claim::Path { get_only: true, .. } => "get",
                Claim::Path { .. } => "path",
                Claim::Proxy(_) => "proxy",
                Claim::Forward(_) => "forward",
                Claim::NoSuchResource => "missing",
                Claim::Unclaimed { .. } => "unclaimed",
            };
            assert_eq!(got, want, "{path}");
        }
    }
}
