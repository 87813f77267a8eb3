//! `/livez`, `/readyz` and `/healthz`: named checks, each also at a path of its own, in kube-apiserver's text form.
//!
//! Contract: checks run in the order given; why one fails goes to the log, never to the caller of the whole (who may be
//! anybody); `exclude` skips checks, `verbose` lists them, a failure always does. Shown checks (those of the next tier)
//! are listed and do not count.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::StatusCode;
use triptych_object::field::quote;
use triptych_registry::{Handler, Request, Response};
use triptych_storage::stores::Stores;

use crate::claim::Table;
use crate::respond;

/// No check may take longer.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// True for the paths of health checks.
pub fn is_health_path(path: &str) -> bool {
    ["/livez", "/readyz", "/healthz"].iter().any(|root| {
        path.strip_prefix(root)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

type Probe = Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// How long the store may take to answer a check.
const STORE_WAIT: Duration = Duration::from_secs(2);

/// A named check.
#[derive(Clone)]
pub struct Check {
    name: String,
    probe: Probe,
    counts: bool,
}

/// A condition that becomes true once and stays so: a start hook that has run.
#[derive(Clone, Default)]
pub struct Latch(Arc<AtomicBool>);

impl Latch {
    /// It has happened.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// True once it has.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Check {
    /// `etcd`, as kube-apiserver calls the check of the store whatever it is.
    pub fn store(stores: Arc<Stores>) -> Check {
        Check::new("etcd", move || {
            let stores = stores.clone();
            async move { stores.check(STORE_WAIT).await.map_err(|e| e.to_string()) }
        })
    }

    /// A check that waits.
    pub fn new<F, P>(name: impl Into<String>, probe: P) -> Check
    where
        P: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        Check {
            name: name.into(),
            probe: Arc::new(move || Box::pin(probe())),
            counts: true,
        }
    }

    /// A check that can tell at once.
    pub fn now(name: impl Into<String>, probe: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Check {
        Check::new(name, move || std::future::ready(probe()))
    }

    /// A check that is always good.
    pub fn always(name: impl Into<String>) -> Check {
        Check::now(name, || Ok(()))
    }

    /// A check that is good once `latch` is set.
    pub fn latch(name: impl Into<String>, latch: Latch) -> Check {
        Check::now(name, move || {
            if latch.is_set() {
                Ok(())
            } else {
                Err("not finished".to_owned())
            }
        })
    }

    /// The same, listed but not counted.
    pub fn shown(mut self) -> Check {
        self.counts = false;
        self
    }

    async fn run(&self) -> Result<(), String> {
        tokio::time::timeout(CHECK_TIMEOUT, (self.probe)())
            .await
            .unwrap_or_else(|_| Err("timed out".to_owned()))
    }
}

/// kube-apiserver's checks in the order it lists them.
const ORDER: [&str; 37] = [
    "ping",
    "log",
    "loopback-serving-certificate",
    "etcd",
    "etcd-readiness",
    "informer-sync",
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
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/aggregator-reload-proxy-client-cert",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
];

/// Puts checks into kube-apiserver's order; those it does not have follow, `shutdown` is last.
pub fn sort(checks: &mut [Check]) {
    checks.sort_by_key(|check| match check.name.as_str() {
        "shutdown" => usize::MAX,
        name => ORDER.iter().position(|o| *o == name).unwrap_or(ORDER.len()),
    });
}

/// Registers `root` (`livez` …) and a path for each check.
pub fn install(table: &mut Table, root: &'static str, checks: Vec<Check>) {
    for check in &checks {
        table.path(&format!("/{root}/{}", check.name), Arc::new(One(check.clone())));
    }
    table.path(&format!("/{root}"), Arc::new(All { root, checks }));
}

struct One(Check);

impl Handler for One {
    fn handle(&self, _request: Request) -> BoxFuture<'_, Response> {
        Box::pin(async {
            match self.0.run().await {
                Ok(()) => respond::text("ok"),
                Err(why) => respond::plain_error(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    format!("internal server error: {why}"),
                ),
            }
        })
    }
}

struct All {
    root: &'static str,
    checks: Vec<Check>,
}

impl Handler for All {
    fn handle(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(self.report(request.query))
    }
}

impl All {
    async fn report(&self, query: String) -> Response {
        let params: Vec<(String, String)> = triptych_object::request::params(&query).collect();
        let excluded: Vec<&str> = params
            .iter()
            .filter(|(k, _)| k == "exclude")
            .map(|(_, v)| v.as_str())
            .collect();
        let verbose = params.iter().any(|(k, _)| k == "verbose");
        let outcomes = futures_util::future::join_all(self.checks.iter().map(|check| async {
            if excluded.contains(&check.name.as_str()) {
                Ok(())
            } else {
                check.run().await
            }
        }))
        .await;
        let mut text = String::new();
        let mut failed = Vec::new();
        for (check, outcome) in self.checks.iter().zip(outcomes) {
            let name = &check.name;
            match outcome {
                _ if excluded.contains(&name.as_str()) => text.push_str(&format!("[+]{name} excluded: ok\n")),
                Ok(()) => text.push_str(&format!("[+]{name} ok\n")),
                Err(why) => {
                    text.push_str(&format!("[-]{name} failed: reason withheld\n"));
                    if check.counts {
                        failed.push(format!("{name}: {why}"));
                    }
                }
            }
        }
        let mut unknown: Vec<&str> = excluded
            .iter()
            .copied()
            .filter(|e| !self.checks.iter().any(|c| c.name == **e))
            .collect();
        unknown.sort_unstable();
        unknown.dedup();
        if !unknown.is_empty() {
            let names: Vec<String> = unknown.iter().map(|n| quote(n)).collect();
            text.push_str(&format!(
                "warn: some health checks cannot be excluded: no matches for {}\n",
                names.join(",")
            ));
        }
        let root = self.root;
        if !failed.is_empty() {
            tracing::info!(check = root, ?failed, "health check failed");
            return respond::plain_error(StatusCode::INTERNAL_SERVER_ERROR, format!("{text}{root} check failed"));
        }
        if !verbose {
            return respond::text_no_sniff("ok");
        }
        text.push_str(&format!("{root} check passed\n"));
        respond::text_no_sniff(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn report(checks: Vec<Check>, query: &str) -> (u16, String) {
        let response = All { root: "readyz", checks }.report(query.to_owned()).await;
        let code = response.status().as_u16();
        let body = match response.into_body() {
            triptych_registry::Body::Full(bytes) => bytes.unwrap_or_default(),
            triptych_registry::Body::Stream(_) => unreachable!("health is short"),
        };
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn the_report_is_kubes_text() {
        let latch = Latch::default();
        let checks = || {
            vec![
                Check::always("ping"),
                Check::latch("poststarthook/x", latch.clone()),
                Check::now("next/etcd", || Err("secret".into())).shown(),
            ]
        };
        assert_eq!(
            report(checks(), "").await,
            (
                500,
                "[+]ping ok\n[-]poststarthook/x failed: reason withheld\n[-]next/etcd failed: reason withheld\nreadyz check failed\n".into()
            )
        );
        latch.set();
        assert_eq!(report(checks(), "").await, (200, "ok".into()));
        assert_eq!(
            report(checks(), "verbose&exclude=ping&exclude=none").await.1,
            "[+]ping excluded: ok\n[+]poststarthook/x ok\n[-]next/etcd failed: reason withheld\nwarn: some health checks cannot be excluded: no matches for \"none\"\nreadyz check passed\n"
        );
    }
}
