//! Which APIServices are unavailable, under kube-apiserver's names.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};

/// Fed by who keeps the conditions.
pub struct Metrics {
    unavailable: IntGaugeVec,
    became_unavailable: IntCounterVec,
    known: Mutex<HashSet<Arc<str>>>,
}

impl Metrics {
    /// Registers them.
    pub fn new(registry: &Registry) -> prometheus::Result<Metrics> {
        let unavailable = IntGaugeVec::new(
            Opts::new(
                "aggregator_unavailable_apiservice",
                "Gauge of APIServices which are marked as unavailable broken down by APIService name.",
            ),
            &["name"],
        )?;
        let became_unavailable = IntCounterVec::new(
            Opts::new(
                "aggregator_unavailable_apiservice_total",
                "Counter of APIServices which are marked as unavailable broken down by APIService name and reason.",
            ),
            &["name", "reason"],
        )?;
        registry.register(Box::new(unavailable.clone()))?;
        registry.register(Box::new(became_unavailable.clone()))?;
        Ok(Metrics {
            unavailable,
            became_unavailable,
            known: Mutex::default(),
        })
    }

    /// All APIServices and whether each is available; others are forgotten.
    pub fn show<'a>(&self, services: impl Iterator<Item = (&'a Arc<str>, bool)>) {
        let mut now = HashSet::new();
        for (name, available) in services {
            self.unavailable.with_label_values(&[name]).set(i64::from(!available));
            now.insert(Arc::clone(name));
        }
        let mut known = self.known.lock();
        for gone in known.difference(&now) {
            // it was never set if it is not there
            let _ = self.unavailable.remove_label_values(&[gone]);
        }
        *known = now;
    }

    /// One that was available is so no more.
    pub fn lost(&self, name: &str, reason: &str) {
        self.became_unavailable.with_label_values(&[name, reason]).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deleted_api_service_is_not_shown_any_more() {
        let metrics = Metrics::new(&Registry::new()).unwrap();
        let (a, b): (Arc<str>, Arc<str>) = ("v1.a".into(), "v1.b".into());
        metrics.show([(&a, true), (&b, false)].into_iter());
        assert_eq!(metrics.unavailable.with_label_values(&["v1.b"]).get(), 1);
        metrics.show([(&a, true)].into_iter());
        assert!(metrics.unavailable.remove_label_values(&["v1.b"]).is_err());
    }
}
