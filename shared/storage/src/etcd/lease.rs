//! Leases shared by keys that live about equally long, as kube-apiserver's lease manager does: a lease per Event would be a
//! lease per write.

use std::time::{Duration, Instant};

use etcd_client::LeaseClient;
use parking_lot::Mutex;
use prometheus::Histogram;

use super::in_time;
use crate::error::Error;

/// Keys one lease may carry.
const MOST_KEYS: usize = 1000;
/// A lease may live longer than asked for by this share, or by the configured duration if that is less.
const LONGER: f64 = 0.05;

pub(super) struct Leases {
    client: LeaseClient,
    reuse: Duration,
    last: Mutex<Option<Lease>>,
    objects: Histogram,
}

#[derive(Debug, Clone, Copy)]
struct Lease {
    id: i64,
    expires: Instant,
    keys: usize,
}

impl Lease {
    /// Whether a key that shall live until `until` may hang on it, where living until `latest` is still fine.
    fn fits(&self, until: Instant, latest: Instant) -> bool {
        until < self.expires && self.expires < latest && self.keys < MOST_KEYS
    }
}

impl Leases {
    pub(super) fn new(client: LeaseClient, reuse: Duration, objects: Histogram) -> Self {
        Self {
            client,
            reuse,
            last: Mutex::new(None),
            objects,
        }
    }

    /// A lease that lives at least `ttl`, rounded to seconds.
    pub(super) async fn get(&self, ttl: Duration) -> Result<i64, Error> {
        let ttl = Duration::from_secs(ttl.as_secs_f64().ceil() as u64);
        let longer = Duration::from_secs(ttl.mul_f64(LONGER).min(self.reuse).as_secs());
        let now = Instant::now();
        if let Some(last) = &mut *self.last.lock()
            && last.fits(now + ttl, now + ttl + longer)
        {
            last.keys += 1;
            return Ok(last.id);
        }
        // Not under the lock: writers that come together may each get a lease, which does no harm.
        let granted = in_time(self.client.clone().grant((ttl + longer).as_secs() as i64, None)).await?;
        let lease = Lease {
            id: granted.id(),
            expires: now + ttl + longer,
            keys: 1,
        };
        if let Some(before) = self.last.lock().replace(lease) {
            self.objects.observe(before.keys as f64);
        }
        Ok(lease.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_shared_by_keys_that_live_about_as_long() {
        let now = Instant::now();
        let seconds = Duration::from_secs;
        let lease = Lease {
            id: 1,
            expires: now + seconds(3660),
            keys: 1,
        };
        let hour = |after: u64| (now + seconds(after + 3600), now + seconds(after + 3660));
        let (until, latest) = hour(30);
        assert!(lease.fits(until, latest));
        let (until, latest) = hour(61);
        assert!(!lease.fits(until, latest), "it would expire too early");
        assert!(
            !lease.fits(now + seconds(60), now + seconds(63)),
            "it would live far too long"
        );
        let (until, latest) = hour(30);
        assert!(
            !Lease {
                keys: MOST_KEYS,
                ..lease
            }
            .fits(until, latest)
        );
    }
}
