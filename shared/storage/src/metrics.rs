//! Metrics of stores and caches, under kube-apiserver's names and labels. Only what is fed is registered.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry,
};

const REQUEST_BUCKETS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
];
const WAIT_BUCKETS: [f64; 13] = [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0];
const RESOURCE: [&str; 2] = ["group", "resource"];

/// The metrics of all stores and caches of one server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Metrics {
    request_duration: HistogramVec,
    requests: IntCounterVec,
    request_errors: IntCounterVec,
    store_events: IntCounterVec,
    bookmarks: IntCounterVec,
    decode_errors: IntCounterVec,
    objects: IntGaugeVec,
    resource_objects: IntGaugeVec,
    resource_size: IntGaugeVec,
    lists: IntCounterVec,
    list_fetched: IntCounterVec,
    list_returned: IntCounterVec,
    init_events: IntCounterVec,
    received: IntCounterVec,
    dispatched: IntCounterVec,
    terminated: IntCounterVec,
    initializations: IntCounterVec,
    revision: IntGaugeVec,
    read_wait: HistogramVec,
    consistent_reads: IntCounterVec,
    pub(crate) lease_objects: Histogram,
    size: GaugeVec,
}

struct Build<'a>(&'a Registry);

impl Build<'_> {
    fn register<C: prometheus::core::Collector + Clone + 'static>(
        &self,
        metric: prometheus::Result<C>,
    ) -> prometheus::Result<C> {
        let metric = metric?;
        self.0.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    fn counter(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntCounterVec> {
        self.register(IntCounterVec::new(Opts::new(name, help), labels))
    }

    fn gauge(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntGaugeVec> {
        self.register(IntGaugeVec::new(Opts::new(name, help), labels))
    }

    fn histogram(&self, name: &str, help: &str, buckets: &[f64], labels: &[&str]) -> prometheus::Result<HistogramVec> {
        self.register(HistogramVec::new(
            HistogramOpts::new(name, help).buckets(buckets.to_vec()),
            labels,
        ))
    }
}

impl Metrics {
    /// Registers them all; an error means a name is taken already.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let build = Build(registry);
        let operation = ["operation", "group", "resource"];
        let index = ["group", "resource", "index"];
        let read = ["group", "resource", "success", "fallback"];
        let lease_help = "Keys attached to a lease when it was replaced by a new one.";
        let lease_buckets = vec![10.0, 50.0, 100.0, 500.0, 1000.0, 2500.0, 5000.0];
        Ok(Self {
            request_duration: build.histogram(
                "etcd_request_duration_seconds",
                "Time a request to the store took, by operation and resource.",
                &REQUEST_BUCKETS,
                &operation,
            )?,
            requests: build.counter("etcd_requests_total", "Requests to the store.", &operation)?,
            request_errors: build.counter(
                "etcd_request_errors_total",
                "Requests to the store that failed.",
                &operation,
            )?,
            store_events: build.counter(
                "apiserver_storage_events_received_total",
                "Changes received from the store.",
                &RESOURCE,
            )?,
            bookmarks: build.counter(
                "etcd_bookmark_total",
                "Progress notices received from the store.",
                &RESOURCE,
            )?,
            decode_errors: build.counter(
                "apiserver_storage_decode_errors_total",
                "Stored values that could not be decoded.",
                &RESOURCE,
            )?,
            objects: build.gauge("apiserver_storage_objects", "Objects in the store.", &["resource"])?,
            resource_objects: build.gauge("apiserver_resource_objects", "Objects in the store.", &RESOURCE)?,
            resource_size: build.gauge(
                "apiserver_resource_size_estimate_bytes",
                "Estimated size of all objects of a resource.",
                &RESOURCE,
            )?,
            lists: build.counter(
                "apiserver_cache_list_total",
                "LISTs answered from the watch cache.",
                &index,
            )?,
            list_fetched: build.counter(
                "apiserver_cache_list_fetched_objects_total",
                "Objects looked at to answer LISTs from the watch cache.",
                &index,
            )?,
            list_returned: build.counter(
                "apiserver_cache_list_returned_objects_total",
                "Objects returned by LISTs from the watch cache.",
                &RESOURCE,
            )?,
            init_events: build.counter(
                "apiserver_init_events_total",
                "Past events replayed to watches that began in the past.",
                &RESOURCE,
            )?,
            received: build.counter(
                "apiserver_watch_cache_events_received_total",
                "Changes applied to the watch cache.",
                &RESOURCE,
            )?,
            dispatched: build.counter(
                "apiserver_watch_cache_events_dispatched_total",
                "Events handed to watchers.",
                &RESOURCE,
            )?,
            terminated: build.counter(
                "apiserver_terminated_watchers_total",
                "Watchers closed because they did not keep up.",
                &RESOURCE,
            )?,
            initializations: build.counter(
                "apiserver_watch_cache_initializations_total",
                "Times the watch cache was filled.",
                &RESOURCE,
            )?,
            revision: build.gauge(
                "apiserver_watch_cache_resource_version",
                "Revision of the last change in the watch cache.",
                &RESOURCE,
            )?,
            read_wait: build.histogram(
                "apiserver_watch_cache_read_wait_seconds",
                "Time reads waited for the watch cache to become fresh.",
                &WAIT_BUCKETS,
                &RESOURCE,
            )?,
            consistent_reads: build.counter(
                "apiserver_watch_cache_consistent_read_total",
                "Consistent reads from the watch cache.",
                &read,
            )?,
            lease_objects: build.register(Histogram::with_opts(
                HistogramOpts::new("etcd_lease_object_counts", lease_help).buckets(lease_buckets),
            ))?,
            size: build.register(GaugeVec::new(
                Opts::new("apiserver_storage_size_bytes", "Size of the store's file in bytes."),
                &["storage_cluster_id"],
            ))?,
        })
    }

    /// The gauge of one store's size.
    pub(crate) fn size_of(&self, cluster: &str) -> Gauge {
        self.size.with_label_values(&[cluster])
    }

    pub(crate) fn request(&self, operation: &str, group: &str, resource: &str, started: Instant, failed: bool) {
        let labels = [operation, group, resource];
        self.request_duration
            .with_label_values(&labels)
            .observe(started.elapsed().as_secs_f64());
        self.requests.with_label_values(&labels).inc();
        if failed {
            self.request_errors.with_label_values(&labels).inc();
        }
    }
}

/// What a cache counts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Count {
    StoreEvents,
    Bookmarks,
    InitEvents,
    Received,
    Dispatched,
    Terminated,
    Initializations,
}

/// The metrics of one resource's cache.
pub(crate) struct ResourceMetrics {
    all: Metrics,
    group: Box<str>,
    resource: Box<str>,
    counters: [OnceLock<IntCounter>; 7],
    objects: IntGauge,
    resource_objects: IntGauge,
    resource_size: IntGauge,
    revision: IntGauge,
}

fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() {
        resource.to_owned()
    } else {
        format!("{resource}.{group}")
    }
}

impl ResourceMetrics {
    pub(crate) fn new(all: &Metrics, group: &str, resource: &str) -> Self {
        let labels = [group, resource];
        Self {
            all: all.clone(),
            group: group.into(),
            resource: resource.into(),
            counters: Default::default(),
            objects: all.objects.with_label_values(&[qualified(group, resource)]),
            resource_objects: all.resource_objects.with_label_values(&labels),
            resource_size: all.resource_size.with_label_values(&labels),
            revision: all.revision.with_label_values(&labels),
        }
    }

    /// Adds to a counter, which comes to be with the first count: a thousand idle resources need none.
    pub(crate) fn count(&self, what: Count, by: u64) {
        if by == 0 {
            return;
        }
        let all = &self.all;
        let counters = match what {
            Count::StoreEvents => &all.store_events,
            Count::Bookmarks => &all.bookmarks,
            Count::InitEvents => &all.init_events,
            Count::Received => &all.received,
            Count::Dispatched => &all.dispatched,
            Count::Terminated => &all.terminated,
            Count::Initializations => &all.initializations,
        };
        let slot = &self.counters[what as usize];
        slot.get_or_init(|| counters.with_label_values(&[&self.group, &self.resource]))
            .inc_by(by);
    }

    pub(crate) fn objects(&self, count: usize, bytes: usize, revision: u64) {
        self.objects.set(count as i64);
        self.resource_objects.set(count as i64);
        self.resource_size.set(bytes as i64);
        self.revision.set(revision as i64);
    }

    pub(crate) fn decode_error(&self) {
        self.all
            .decode_errors
            .with_label_values(&[&self.group, &self.resource])
            .inc();
    }

    pub(crate) fn waited(&self, time: Duration) {
        self.all
            .read_wait
            .with_label_values(&[&self.group, &self.resource])
            .observe(time.as_secs_f64());
    }

    pub(crate) fn consistent_read(&self, success: bool, fallback: bool) {
        let flag = |it| if it { "true" } else { "false" };
        let labels = [&self.group, &self.resource, flag(success), flag(fallback)];
        self.all.consistent_reads.with_label_values(&labels).inc();
    }

    pub(crate) fn listed(&self, index: &str, fetched: usize, returned: usize) {
        let labels = [&*self.group, &*self.resource, index];
        self.all.lists.with_label_values(&labels).inc();
        self.all.list_fetched.with_label_values(&labels).inc_by(fetched as u64);
        self.all
            .list_returned
            .with_label_values(&labels[..2])
            .inc_by(returned as u64);
    }
}

impl Drop for ResourceMetrics {
    /// A resource that is no longer served is not reported; that it had none is not an error.
    fn drop(&mut self) {
        let labels = [&*self.group, &*self.resource];
        let _ = self
            .all
            .objects
            .remove_label_values(&[&*qualified(&self.group, &self.resource)]);
        let _ = self.all.resource_objects.remove_label_values(&labels);
        let _ = self.all.resource_size.remove_label_values(&labels);
        let _ = self.all.revision.remove_label_values(&labels);
    }
}
