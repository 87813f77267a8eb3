//! Request metrics under kube-apiserver's names.
//!
//! Contract: the handles of a route (everything but the code) are looked up once and kept, so that a request costs a hash
//! and a few atomic additions. Labels come only from claimed resources and listed paths, never from what a client
//! invents, so their number is bounded. A request that another tier answers is counted there, and here only as
//! forwarded, unless the answer was made here (401, 503).

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use http::{HeaderMap, Method};
use parking_lot::RwLock;
use prometheus::{
    Encoder, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};
use triptych_object::RequestInfo;

const ROUTE: [&str; 6] = ["verb", "group", "version", "resource", "subresource", "scope"];
const DURATIONS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
];
const SIZES: [f64; 7] = [1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
/// Codes whose counters are kept with the route.
const CODES: [u16; 12] = [200, 201, 400, 401, 403, 404, 409, 410, 422, 429, 503, 504];
/// More routes than this are counted under empty labels.
const MAX_ROUTES: usize = 5_000;
/// Subresources that are told apart; a client may ask for any.
const SUBRESOURCES: [&str; 15] = [
    "",
    "approval",
    "attach",
    "binding",
    "ephemeralcontainers",
    "eviction",
    "exec",
    "finalize",
    "log",
    "portforward",
    "proxy",
    "resize",
    "scale",
    "status",
    "token",
];

/// The server's metrics and the registry of the process.
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    durations: HistogramVec,
    sli_durations: HistogramVec,
    sizes: HistogramVec,
    long_running: IntGaugeVec,
    terminations: IntCounterVec,
    aborts: IntCounterVec,
    routes: RwLock<HashMap<u64, Arc<Route>>>,
    hasher: RandomState,
    /// Requests in flight that change something.
    pub inflight_mutating: IntGauge,
    /// Other requests in flight.
    pub inflight_read_only: IntGauge,
    /// Handshakes that failed.
    pub tls_handshake_errors: IntCounter,
    /// Panics that a request caused.
    pub panics: IntCounter,
    /// Open client connections.
    pub connections: IntGauge,
    authenticated: IntCounter,
    authenticated_users: IntCounterVec,
    /// Requests with bad credentials.
    pub unauthenticated: IntCounter,
    /// Requests that were allowed.
    pub allowed: IntCounter,
    /// Requests that were not.
    pub denied: IntCounter,
}

/// The metrics of one verb on one resource or path.
pub struct Route {
    labels: [String; 6],
    codes: [OnceLock<IntCounter>; CODES.len()],
    duration: Histogram,
    sli_duration: Histogram,
    size: Histogram,
    long_running: IntGauge,
    aborts: IntCounter,
}

fn with(more: &[&'static str]) -> Vec<&'static str> {
    ROUTE.iter().chain(more).copied().collect()
}

fn durations(name: &str, help: &str, buckets: &[f64], labels: &[&str]) -> prometheus::Result<HistogramVec> {
    HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), labels)
}

impl Metrics {
    /// Makes and registers them, with the process' own.
    pub fn new(registry: Registry) -> prometheus::Result<Metrics> {
        let inflight = IntGaugeVec::new(
            Opts::new(
                "apiserver_current_inflight_requests",
                "Maximal number of currently used inflight request limit of this apiserver per request kind in last second.",
            ),
            &["request_kind"],
        )?;
        let authentications = IntCounterVec::new(
            Opts::new("authentication_attempts", "Counter of authenticated attempts."),
            &["result"],
        )?;
        let authorizations = IntCounterVec::new(
            Opts::new(
                "authorization_attempts_total",
                "Counter of authorization attempts broken down by result. It can be either 'allowed', 'denied', 'no-opinion' or 'error'.",
            ),
            &["result"],
        )?;
        let build = IntGaugeVec::new(
            Opts::new(
                "kubernetes_build_info",
                "A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.",
            ),
            &["major", "minor", "git_version"],
        )?;
        build
            .with_label_values(&["1", "36", crate::paths::KUBERNETES_VERSION])
            .set(1);
        let metrics = Metrics {
            authenticated: authentications.with_label_values(&["success"]),
            authenticated_users: IntCounterVec::new(
                Opts::new(
                    "authenticated_user_requests",
                    "Counter of authenticated requests broken out by username.",
                ),
                &["username"],
            )?,
            unauthenticated: authentications.with_label_values(&["failure"]),
            allowed: authorizations.with_label_values(&["allowed"]),
            denied: authorizations.with_label_values(&["no-opinion"]),
            requests: IntCounterVec::new(
                Opts::new(
                    "apiserver_request_total",
                    "Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, component, and HTTP response code.",
                ),
                &with(&["dry_run", "component", "code"]),
            )?,
            durations: durations(
                "apiserver_request_duration_seconds",
                "Response latency distribution in seconds for each verb, dry run value, group, version, resource, subresource, scope and component.",
                &DURATIONS,
                &with(&["dry_run", "component"]),
            )?,
            sli_durations: durations(
                "apiserver_request_sli_duration_seconds",
                "Response latency distribution (not counting webhook duration and priority & fairness queue wait times) in seconds for each verb, group, version, resource, subresource, scope and component.",
                &DURATIONS[2..],
                &with(&["component"]),
            )?,
            sizes: durations(
                "apiserver_response_sizes",
                "Response size distribution in bytes for each group, version, verb, resource, subresource, scope and component.",
                &SIZES,
                &with(&["component"]),
            )?,
            long_running: IntGaugeVec::new(
                Opts::new(
                    "apiserver_longrunning_requests",
                    "Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, scope and component. Not all requests are tracked this way.",
                ),
                &with(&["component"]),
            )?,
            terminations: IntCounterVec::new(
                Opts::new(
                    "apiserver_request_terminations_total",
                    "Number of requests which apiserver terminated in self-defense.",
                ),
                &with(&["component", "code"]),
            )?,
            aborts: IntCounterVec::new(
                Opts::new(
                    "apiserver_request_aborts_total",
                    "Number of requests which apiserver aborted possibly due to a timeout, for each group, version, verb, resource, subresource and scope",
                ),
                &ROUTE,
            )?,
            inflight_mutating: inflight.with_label_values(&["mutating"]),
            inflight_read_only: inflight.with_label_values(&["readOnly"]),
            tls_handshake_errors: IntCounter::new(
                "apiserver_tls_handshake_errors_total",
                "Number of requests dropped with 'TLS handshake error from' error",
            )?,
            panics: IntCounter::new("triptych_request_panics_total", "Requests that made a handler panic.")?,
            connections: IntGauge::new("triptych_client_connections", "Open client connections.")?,
            routes: RwLock::default(),
            hasher: RandomState::new(),
            registry,
        };
        let registry = &metrics.registry;
        registry.register(Box::new(metrics.requests.clone()))?;
        registry.register(Box::new(metrics.durations.clone()))?;
        registry.register(Box::new(metrics.sli_durations.clone()))?;
        registry.register(Box::new(metrics.sizes.clone()))?;
        registry.register(Box::new(metrics.long_running.clone()))?;
        registry.register(Box::new(metrics.terminations.clone()))?;
        registry.register(Box::new(metrics.aborts.clone()))?;
        registry.register(Box::new(inflight))?;
        registry.register(Box::new(metrics.tls_handshake_errors.clone()))?;
        registry.register(Box::new(metrics.panics.clone()))?;
        registry.register(Box::new(authentications))?;
        registry.register(Box::new(metrics.authenticated_users.clone()))?;
        registry.register(Box::new(authorizations))?;
        registry.register(Box::new(build))?;
        registry.register(Box::new(metrics.connections.clone()))?;
        registry.register(Box::new(crate::process::Process::new()?))?;
        Ok(metrics)
    }

    /// Counts a request whose user was found out. Only names that every cluster has are told apart, so that users cannot make
    /// the metric grow.
    pub fn authenticated_as(&self, user: &str) {
        self.authenticated.inc();
        let shown = match user {
            "admin" | "client" | "kube_proxy" | "kubelet" | "system:serviceaccount:kube-system:default" => user,
            email if email.contains('@') => "email_id",
            _ => "other",
        };
        self.authenticated_users.with_label_values(&[shown]).inc();
    }

    /// The registry that other crates register theirs with.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Everything in Prometheus' text form.
    pub fn text(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 * 1024);
        // writing to memory cannot fail
        let _ = TextEncoder::new().encode(&self.registry.gather(), &mut out);
        out
    }

    /// The route of a claimed request.
    pub fn route(&self, info: &RequestInfo, method: &Method, headers: &HeaderMap) -> Arc<Route> {
        let verb = verb(info, method, headers);
        let labels = if info.is_resource {
            [
                verb,
                &info.group,
                &info.version,
                &info.resource,
                SUBRESOURCES
                    .iter()
                    .find(|s| **s == info.subresource)
                    .unwrap_or(&"other"),
                scope(info),
            ]
        } else {
            [verb, "", "", "", beginning(&info.path), ""]
        };
        self.by_labels(labels)
    }

    /// The route of requests that are nobody's: only verb and code are told.
    pub fn unknown(&self, method: &Method) -> Arc<Route> {
        let verb = match *method {
            Method::GET | Method::POST | Method::PUT | Method::PATCH | Method::DELETE => method.as_str(),
            _ => "other",
        };
        self.by_labels([verb, "", "", "", "", ""])
    }

    fn by_labels(&self, labels: [&str; 6]) -> Arc<Route> {
        let hash = self.hasher.hash_one(labels);
        if let Some(route) = self.routes.read().get(&hash)
            && route.labels.iter().zip(labels).all(|(a, b)| a == b)
        {
            return Arc::clone(route);
        }
        let labels = if self.routes.read().len() < MAX_ROUTES {
            labels
        } else {
            [labels[0], "", "", "", "", ""]
        };
        let route = Arc::new(self.make(labels));
        self.routes.write().insert(hash, Arc::clone(&route));
        route
    }

    fn make(&self, labels: [&str; 6]) -> Route {
        let with = |more: &[&'static str]| {
            labels
                .iter()
                .copied()
                .chain(more.iter().copied())
                .collect::<Vec<&str>>()
        };
        let component = with(&["apiserver"]);
        Route {
            labels: labels.map(str::to_owned),
            codes: Default::default(),
            duration: self.durations.with_label_values(&with(&["", "apiserver"])),
            sli_duration: self.sli_durations.with_label_values(&component),
            size: self.sizes.with_label_values(&component),
            long_running: self.long_running.with_label_values(&component),
            aborts: self.aborts.with_label_values(&labels),
        }
    }

    /// Counts an answered request.
    pub fn answered(&self, route: &Route, query: &str, code: u16, took: Duration, bytes: u64) {
        if query.contains("dryRun") {
            self.answered_dry(route, code, took);
        } else {
            match CODES.iter().position(|c| *c == code) {
                Some(i) => route.codes[i].get_or_init(|| self.code(route, "", code)).inc(),
                None => self.code(route, "", code).inc(),
            }
            route.duration.observe(took.as_secs_f64());
        }
        route.sli_duration.observe(took.as_secs_f64());
        if route.is_read() {
            route.size.observe(bytes as f64);
        }
    }

    fn answered_dry(&self, route: &Route, code: u16, took: Duration) {
        // the only value there is
        let dry_run = "All";
        self.code(route, dry_run, code).inc();
        let labels: Vec<&str> = route
            .labels
            .iter()
            .map(String::as_str)
            .chain([dry_run, "apiserver"])
            .collect();
        self.durations.with_label_values(&labels).observe(took.as_secs_f64());
    }

    fn code(&self, route: &Route, dry_run: &str, code: u16) -> IntCounter {
        let code = code.to_string();
        let labels: Vec<&str> = route
            .labels
            .iter()
            .map(String::as_str)
            .chain([dry_run, "apiserver", &code])
            .collect();
        self.requests.with_label_values(&labels)
    }

    /// Counts a request that the server ended in self-defense.
    pub fn terminated(&self, route: &Route, code: u16) {
        let code = code.to_string();
        let labels: Vec<&str> = route
            .labels
            .iter()
            .map(String::as_str)
            .chain(["apiserver", &code])
            .collect();
        self.terminations.with_label_values(&labels).inc();
    }
}

impl Route {
    fn is_read(&self) -> bool {
        matches!(self.labels[0].as_str(), "GET" | "LIST")
    }

    /// Open long-running requests.
    pub fn long_running(&self) -> &IntGauge {
        &self.long_running
    }

    /// Counts an answer that broke off.
    pub fn aborted(&self) {
        self.aborts.inc();
    }
}

/// The first two segments of a path: what follows may be anything.
fn beginning(path: &str) -> &str {
    path.match_indices('/').nth(2).map_or(path, |(end, _)| &path[..end])
}

fn scope(info: &RequestInfo) -> &'static str {
    if !info.name.is_empty() || info.verb == "create" {
        "resource"
    } else if !info.namespace.is_empty() {
        "namespace"
    } else {
        "cluster"
    }
}

fn verb(info: &RequestInfo, method: &Method, headers: &HeaderMap) -> &'static str {
    let connects = ["attach", "exec", "portforward", "proxy"];
    if info.is_resource && connects.contains(&info.subresource.as_str()) {
        return "CONNECT";
    }
    if info.is_resource && info.verb == "watch" {
        return "WATCH";
    }
    match *method {
        Method::GET | Method::HEAD if info.is_resource && scope(info) != "resource" => "LIST",
        Method::GET | Method::HEAD => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => {
            let apply = headers
                .get(http::header::CONTENT_TYPE)
                .is_some_and(|v| v == "application/apply-patch+yaml");
            if apply { "APPLY" } else { "PATCH" }
        }
        Method::DELETE if info.verb == "deletecollection" => "DELETECOLLECTION",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

/// Counts one request from its beginning to the end of its answer.
pub(crate) struct Observation {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) route: Arc<Route>,
    pub(crate) uri: http::Uri,
    pub(crate) code: u16,
    pub(crate) started: Instant,
    pub(crate) long_running: bool,
}

impl Observation {
    pub(crate) fn over(&self, bytes: u64, whole: bool) {
        if self.long_running {
            self.route.long_running().dec();
        } else if !whole {
            self.route.aborted();
        }
        self.metrics.answered(
            &self.route,
            self.uri.query().unwrap_or(""),
            self.code,
            self.started.elapsed(),
            bytes,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_cannot_invent_labels() {
        let metrics = Metrics::new(Registry::new()).unwrap();
        for n in 0..100 {
            for path in [format!("/api/v1/namespaces/a/pods/b/x{n}"), format!("/openapi/v3/x{n}")] {
                let info = RequestInfo::parse("GET", &path, "").unwrap();
                metrics.route(&info, &Method::GET, &HeaderMap::new());
            }
        }
        assert_eq!(metrics.routes.read().len(), 2);
        assert_eq!(beginning("/openapi/v3/x"), "/openapi/v3");
        assert_eq!((beginning("/livez"), beginning("/")), ("/livez", "/"));
    }

    #[test]
    fn requests_are_counted_under_kubes_labels() {
        let metrics = Metrics::new(Registry::new()).unwrap();
        let count = |method: Method, path: &str, query: &str, code| {
            let info = RequestInfo::parse(method.as_str(), path, query).unwrap();
            let route = metrics.route(&info, &method, &HeaderMap::new());
            metrics.answered(&route, query, code, Duration::from_millis(3), 500);
        };
        count(Method::GET, "/api/v1/namespaces/a/pods", "", 200);
        count(Method::GET, "/api/v1/namespaces/a/pods", "", 200);
        count(Method::GET, "/api/v1/pods", "watch=1", 200);
        count(Method::POST, "/api/v1/namespaces/a/pods", "dryRun=All", 201);
        count(Method::GET, "/livez", "", 200);
        let text = String::from_utf8(metrics.text()).unwrap();
        for line in [
            r#"apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="namespace",subresource="",verb="LIST",version="v1"} 2"#,
            r#"apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="cluster",subresource="",verb="WATCH",version="v1"} 1"#,
            r#"apiserver_request_total{code="201",component="apiserver",dry_run="All",group="",resource="pods",scope="resource",subresource="",verb="POST",version="v1"} 1"#,
            r#"apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="",scope="",subresource="/livez",verb="GET",version=""} 1"#,
            r#"apiserver_request_duration_seconds_bucket{component="apiserver",dry_run="",group="",resource="pods",scope="namespace",subresource="",verb="LIST",version="v1",le="0.005"} 2"#,
        ] {
            assert!(text.contains(line), "{line}\nnot in\n{text}");
        }
        assert!(text.contains("process_resident_memory_bytes "));
    }
}
