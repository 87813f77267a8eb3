//! How many requests are worked on at once: `--max-requests-inflight` and `--max-mutating-requests-inflight`.
//!
//! Contract: beyond a limit a request waits, at most a quarter of the request timeout and in a bounded queue, as it would
//! in kube-apiserver's priority and fairness; then it is refused with 429. Long-running requests are not counted; health
//! checks and the tiers' own identities are exempt, and `system:masters` never waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use prometheus::IntGauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use triptych_auth::authorization::privileged::is_tier;
use triptych_object::user::MASTERS;
use triptych_object::{RequestInfo, UserInfo};

use crate::metrics::Metrics;

/// Requests waiting per place; each may hold a stream window of unread body.
const QUEUE: usize = 2;

/// The two limits.
pub struct Inflight {
    read_only: Limit,
    mutating: Limit,
    patience: Duration,
}

struct Limit {
    // none: unlimited
    places: Option<Arc<Semaphore>>,
    waiting: AtomicUsize,
    most_waiting: usize,
    gauge: IntGauge,
}

/// A request's place.
pub struct Place {
    gauge: IntGauge,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

impl Inflight {
    /// Limits of 0 are none.
    pub fn new(read_only: usize, mutating: usize, request_timeout: Duration, metrics: &Metrics) -> Inflight {
        Inflight {
            read_only: Limit::new(read_only, metrics.inflight_read_only.clone()),
            mutating: Limit::new(mutating, metrics.inflight_mutating.clone()),
            patience: request_timeout / 4,
        }
    }

    /// A place for the request; `Err` if there is none in time.
    pub async fn enter(&self, user: &UserInfo, info: &RequestInfo) -> Result<Place, ()> {
        let limit = if info.is_read_only() {
            &self.read_only
        } else {
            &self.mutating
        };
        let permit = match &limit.places {
            None => None,
            Some(places) => match Arc::clone(places).try_acquire_owned() {
                Ok(permit) => Some(permit),
                Err(_) if is_exempt(user, info) => None,
                Err(_) => Some(limit.wait(places, self.patience).await?),
            },
        };
        limit.gauge.inc();
        Ok(Place {
            gauge: limit.gauge.clone(),
            _permit: permit,
        })
    }
}

impl Limit {
    fn new(limit: usize, gauge: IntGauge) -> Limit {
        Limit {
            places: (limit > 0).then(|| Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS)))),
            waiting: AtomicUsize::new(0),
            most_waiting: limit.saturating_mul(QUEUE),
            gauge,
        }
    }

    async fn wait(&self, places: &Arc<Semaphore>, patience: Duration) -> Result<OwnedSemaphorePermit, ()> {
        struct Waiting<'a>(&'a AtomicUsize);
        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.waiting);
        if before >= self.most_waiting {
            return Err(());
        }
        match tokio::time::timeout(patience, Arc::clone(places).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(()),
        }
    }
}

fn is_exempt(user: &UserInfo, info: &RequestInfo) -> bool {
    user.in_group(MASTERS) || is_tier(user) || !info.is_resource && crate::health::is_health_path(&info.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn beyond_the_limit_requests_wait_then_are_refused_but_masters_pass() {
        let metrics = Metrics::new(prometheus::Registry::new()).unwrap();
        let inflight = Inflight::new(1, 1, Duration::from_secs(60), &metrics);
        let joe = UserInfo::new("joe", ["g"]);
        let get = RequestInfo::parse("GET", "/api/v1/pods", "").unwrap();
        let post = RequestInfo::parse("POST", "/api/v1/namespaces/a/pods", "").unwrap();
        let first = inflight.enter(&joe, &get).await.unwrap();
        assert!(inflight.enter(&joe, &post).await.is_ok());
        assert!(inflight.enter(&joe, &get).await.is_err());
        assert!(inflight.enter(&UserInfo::new("root", [MASTERS]), &get).await.is_ok());
        let later = inflight.enter(&joe, &get);
        let (later, ()) = tokio::join!(later, async { drop(first) });
        assert!(later.is_ok());
        assert_eq!(metrics.inflight_read_only.get(), 1);
    }
}
