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

/// The next tier as last heard.
pub struct NextTier {
    api: Api,
    good: ArcSwap<BTreeSet<String>>,
    paths: ArcSwap<Vec<String>>,
}

impl NextTier {
    /// Nothing heard yet; [`NextTier::follow`] is to be run beside it.
    pub fn new(api: Api) -> Arc<NextTier> {
        Arc::new(NextTier {
            api,
            good: ArcSwap::default(),
            paths: ArcSwap::default(),
        })
    }

    /// Asks from time to time, for ever.
    pub async fn follow(self: Arc<Self>) {
        loop {
            self.ask().await;
            tokio::time::sleep(ASK_EVERY).await;
        }
    }

    async fn ask(&self) {
        let report = self.api.text("/readyz?verbose").await;
        self.good
            .store(Arc::new(report.map(|text| good_checks(&text)).unwrap_or_default()));
        if let Ok(index) = self.api.get("/").await {
            let paths = index.array_at(&["paths"]).iter().filter_map(|p| p.as_str());
            self.paths.store(Arc::new(paths.map(str::to_owned).collect()));
        }
    }

    /// A check of the next tier, shown here and not counted.
    pub fn check(self: &Arc<Self>, name: &str) -> Check {
        let (next, wanted) = (Arc::clone(self), name.to_owned());
        let probe = move || match next.good.load().contains(&wanted) {
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

/// The names in `[+]name ok` lines.
fn good_checks(report: &str) -> BTreeSet<String> {
    let lines = report.lines().filter_map(|l| l.strip_prefix("[+]"));
    lines
        .filter_map(|l| l.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_line_by_line() {
        let report = "[+]ping ok\n[-]etcd failed: reason withheld\n[+]poststarthook/x ok\nreadyz check failed\n";
        assert_eq!(
            good_checks(report),
            ["ping", "poststarthook/x"].map(str::to_owned).into()
        );
    }
}
