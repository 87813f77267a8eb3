//! What is counted about requests to other servers.

use std::sync::Arc;
use std::time::Instant;

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

/// Metrics of all pools of a process.
#[derive(Clone)]
pub struct Metrics {
    requests: IntCounterVec,
    seconds: HistogramVec,
    retries: IntCounterVec,
    ejections: IntCounterVec,
    connections: IntGaugeVec,
}

/// The same for one target, its handles looked up once.
pub struct TargetMetrics {
    answered: IntCounter,
    failed: IntCounter,
    seconds: Histogram,
    retries: IntCounter,
    ejections: IntCounter,
    /// Connections open now.
    pub(crate) connections: IntGauge,
}

impl Metrics {
    /// Makes and registers them.
    pub fn new(registry: &Registry) -> prometheus::Result<Metrics> {
        let metrics = Metrics {
            requests: IntCounterVec::new(
                Opts::new(
                    "triptych_forward_requests_total",
                    "Requests sent to another server, by outcome.",
                ),
                &["target", "outcome"],
            )?,
            seconds: HistogramVec::new(
                HistogramOpts::new(
                    "triptych_forward_duration_seconds",
                    "Time until another server began to answer.",
                )
                .buckets(vec![
                    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0,
                ]),
                &["target"],
            )?,
            retries: IntCounterVec::new(
                Opts::new(
                    "triptych_forward_retries_total",
                    "Requests sent again to another address or connection.",
                ),
                &["target"],
            )?,
            ejections: IntCounterVec::new(
                Opts::new(
                    "triptych_forward_ejections_total",
                    "Addresses left out for a while because they could not be reached.",
                ),
                &["target"],
            )?,
            connections: IntGaugeVec::new(
                Opts::new(
                    "triptych_forward_connections",
                    "Open HTTP/2 connections to another server.",
                ),
                &["target"],
            )?,
        };
        registry.register(Box::new(metrics.requests.clone()))?;
        registry.register(Box::new(metrics.seconds.clone()))?;
        registry.register(Box::new(metrics.retries.clone()))?;
        registry.register(Box::new(metrics.ejections.clone()))?;
        registry.register(Box::new(metrics.connections.clone()))?;
        Ok(metrics)
    }

    /// Those of one target.
    pub fn target(&self, name: &str) -> Arc<TargetMetrics> {
        Arc::new(TargetMetrics {
            answered: self.requests.with_label_values(&[name, "answered"]),
            failed: self.requests.with_label_values(&[name, "failed"]),
            seconds: self.seconds.with_label_values(&[name]),
            retries: self.retries.with_label_values(&[name]),
            ejections: self.ejections.with_label_values(&[name]),
            connections: self.connections.with_label_values(&[name]),
        })
    }
}

impl TargetMetrics {
    pub(crate) fn answered(&self, started: Instant, ok: bool) {
        if ok {
            self.answered.inc();
            self.seconds.observe(started.elapsed().as_secs_f64());
        } else {
            self.failed.inc();
        }
    }

    pub(crate) fn retried(&self) {
        self.retries.inc();
    }

    pub(crate) fn ejected(&self) {
        self.ejections.inc();
    }
}
