//! The lease by which others see that this API server lives (KEP-1965).
//!
//! Contract: named after the host, held by one process at a time, renewed every ten seconds; leases of API servers that
//! have not been renewed for an hour are removed, whoever notices first.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};
use triptych_object::{StatusResult, Value, json, meta, time};
use triptych_registry::collection::Collection;

use super::create_missing;
use crate::loopback::{Loopback, Target};

const NAMESPACE: &str = "kube-system";
const LABEL: &str = "apiserver.kubernetes.io/identity";
const LABEL_VALUE: &str = "kube-apiserver";
const SECONDS: i64 = 3600;
const RENEW_EVERY: Duration = Duration::from_secs(10);

const LEASES: Target<'static> = Target {
    group: "coordination.k8s.io",
    version: "v1",
    resource: "leases",
    namespace: NAMESPACE,
};

/// This API server's identity.
pub struct Identity {
    name: String,
    hostname: String,
    holder: String,
}

impl Identity {
    /// Of a process on the host of this name.
    pub fn new(hostname: &str) -> Identity {
        // both parts with their lengths before them, in two bytes
        let mut hash = Sha256::new();
        for part in [hostname, LABEL_VALUE] {
            hash.update((part.len() as u16).to_be_bytes());
            hash.update(part);
        }
        let digest = hash.finalize();
        let name = format!("apiserver-{}", base32(&digest[..16]));
        let holder = format!("{name}_{}", uuid::Uuid::new_v4());
        Identity {
            name,
            hostname: hostname.to_owned(),
            holder,
        }
    }

    /// Of a process on this host.
    pub fn of_this_host() -> Identity {
        let system = rustix::system::uname();
        Identity::new(&system.nodename().to_string_lossy())
    }

    /// Makes or takes over the lease.
    pub async fn ensure(&self, objects: &Loopback) -> StatusResult<()> {
        let now = || Value::from(time::rfc3339_micro(Timestamp::now()));
        let labels = Value::from([
            (LABEL, LABEL_VALUE.into()),
            ("kubernetes.io/hostname", self.hostname.as_str().into()),
        ]);
        let spec = Value::from([
            ("holderIdentity", self.holder.as_str().into()),
            ("leaseDurationSeconds", Value::Int(SECONDS)),
            ("renewTime", now()),
        ]);
        let wanted = Value::from([
            ("kind", "Lease".into()),
            ("apiVersion", "coordination.k8s.io/v1".into()),
            (
                "metadata",
                Value::from([
                    ("name", self.name.as_str().into()),
                    ("namespace", NAMESPACE.into()),
                    ("labels", labels),
                ]),
            ),
            ("spec", spec),
        ]);
        loop {
            let mut found = create_missing(objects, LEASES, &wanted).await?;
            found.set_at(&["spec", "holderIdentity"], self.holder.as_str().into());
            found.set_at(&["spec", "leaseDurationSeconds"], Value::Int(SECONDS));
            found.set_at(&["spec", "renewTime"], now());
            match objects.update(LEASES, &self.name, &found).await {
                Err(status) if matches!(&*status.reason, "Conflict" | "NotFound") => {}
                outcome => return outcome.map(drop),
            }
        }
    }

    /// Renews the lease and removes dead ones, for ever.
    pub async fn keep(&self, objects: &Loopback, leases: &Collection) {
        loop {
            tokio::time::sleep(RENEW_EVERY).await;
            if let Err(status) = self.ensure(objects).await {
                tracing::info!(error = status.message, "cannot renew the identity lease");
            }
            remove_dead(objects, leases).await;
        }
    }
}

/// Removes leases of API servers that are gone.
async fn remove_dead(objects: &Loopback, leases: &Collection) {
    let Ok(snapshot) = leases.cache.snapshot() else { return };
    let prefix = leases.scope(NAMESPACE);
    let own = snapshot
        .range(&prefix)
        .filter(|lease| lease.label(LABEL).as_deref() == Some(LABEL_VALUE));
    for lease in own {
        let Ok(lease) = json::from_slice(lease.bytes()) else {
            continue;
        };
        if is_dead(&lease, Timestamp::now()) {
            // if it was renewed or removed by now, all the better
            let _ = objects.delete(LEASES, meta::name(&lease), meta::uid(&lease)).await;
        }
    }
}

fn is_dead(lease: &Value, now: Timestamp) -> bool {
    let seconds = lease.at(&["spec", "leaseDurationSeconds"]).and_then(Value::as_i64);
    let renewed = time::parse_rfc3339(lease.str_at(&["spec", "renewTime"]));
    match (renewed, seconds) {
        (Some(renewed), Some(seconds)) => now.duration_since(renewed) > SignedDuration::from_secs(seconds),
        _ => true,
    }
}

/// RFC 4648 base 32 in lower case, without padding.
fn base32(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let bits = bytes.len() * 8;
    let bit = |i: usize| bytes.get(i / 8).is_some_and(|b| b >> (7 - i % 8) & 1 == 1);
    let digit = |start: usize| (0..5).fold(0, |digit, i| digit << 1 | usize::from(bit(start + i)));
    (0..bits).step_by(5).map(|i| char::from(ALPHABET[digit(i)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_after_its_host() {
        assert_eq!(Identity::new("vm").name, "apiserver-wlv32tlttr4jl3gtroqexyxapa");
    }

    #[test]
    fn a_lease_is_dead_when_its_time_is_over() {
        let lease =
            json::from_slice(br#"{"spec":{"leaseDurationSeconds":3600,"renewTime":"2026-01-01T00:00:00.000000Z"}}"#);
        let lease = lease.unwrap();
        let at = |text: &str| time::parse_rfc3339(text).unwrap();
        assert!(!is_dead(&lease, at("2026-01-01T01:00:00Z")));
        assert!(is_dead(&lease, at("2026-01-01T01:00:01Z")));
    }
}
