//! What the next tier says of itself: its health checks and its paths, heard from time to time and shown at a front
//! tier's `/readyz`, `/livez` and `/`.
//!
//! Contract: what was last heard is shown; it counts for nothing, because a tier's readiness never depends on another.
//! Before anything was heard, or when the other tier does not answer, its checks are shown as failed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use triptych_client::Api;

use crate::health::Check;

const ASK_EVERY: Duration = Duration::from_secs(5);
/// While something is not good yet.
const ASK_SOON: Duration = Duration::from_millis(500);
/// A check that every tier has: its caches are filled.
const STARTED: &str = "informer-sync";

/// The next tier as last heard.
pub struct NextTier {
    api: Api,
    report: ArcSwap<Report>,
    paths: ArcSwap<Vec<String>>,
}

impl NextTier {
    /// Nothing heard yet; [`NextTier::follow`] is to be run beside it.
    pub fn new(api: Api) -> Arc<NextTier> {
        Arc::new(NextTier {
            api,
            report: ArcSwap::default(),
            paths: ArcSwap::default(),
        })
    }

    /// Asks from time to time, for ever.
    pub async fn follow(self: Arc<Self>) {
        loop {
            self.ask().await;
            let report = self.report.load();
            let good = report.bad.is_empty() && !report.good.is_empty();
            tokio::time::sleep(if good { ASK_EVERY } else { ASK_SOON }).await;
        }
    }

    async fn ask(&self) {
        let report = self.api.text("/readyz?verbose").await;
        let report = report.map(|text| Report::read(&text)).unwrap_or_default();
        self.report.store(Arc::new(report));
        if let Ok(index) = self.api.get("/").await {
            let paths = index.array_at(&["paths"]).iter().filter_map(|p| p.as_str());
            self.paths.store(Arc::new(paths.map(str::to_owned).collect()));
        }
    }

    /// A check of the next tier, shown here and not counted. What it has under no such name is good when it has started.
    pub fn check(self: &Arc<Self>, name: &str) -> Check {
        let (next, wanted) = (Arc::clone(self), name.to_owned());
        let probe = move || match next.report.load().is_good(&wanted) {
            true => Ok(()),
            false => Err("not good when last heard".to_owned()),
        };
        Check::now(name, probe).shown()
    }

    /// The paths it serves.
    pub fn paths(&self) -> Vec<String> {
        self.paths.load().to_vec()
    }
}

/// The checks of a verbose health report.
#[derive(Debug, Default)]
struct Report {
    good: BTreeSet<String>,
    bad: BTreeSet<String>,
}

impl Report {
    fn read(text: &str) -> Report {
        let names = |sign: &str| {
            let lines = text.lines().filter_map(|l| l.strip_prefix(sign));
            lines
                .filter_map(|l| l.split_whitespace().next())
                .map(str::to_owned)
                .collect()
        };
        Report {
            good: names("[+]"),
            bad: names("[-]"),
        }
    }

    fn is_good(&self, name: &str) -> bool {
        self.good.contains(name) || !self.bad.contains(name) && self.good.contains(STARTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_line_by_line() {
        let text = "[+]ping ok\n[-]etcd failed: reason withheld\n[+]informer-sync ok\nreadyz check failed\n";
        let report = Report::read(text);
        for (name, good) in [("ping", true), ("etcd", false), ("poststarthook/unheard-of", true)] {
            assert_eq!(report.is_good(name), good, "{name}");
        }
        assert!(!Report::default().is_good("ping"));
    }
}
