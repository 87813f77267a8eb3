//! Cluster IPs: one `IPAddress` object per address, from the ranges of the `ServiceCIDR` objects (KEP-1880).
//!
//! Contract: an address is taken by creating its object and given back by deleting it, so any number of replicas (and a
//! kube-apiserver) agree through the store alone. Ranges are read from the cache for each allocation; until the range of
//! the flag has its object, the flag itself counts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use triptych_object::{Status, Value, json, meta, names, time};
use triptych_registry::collection::{Collection, storage_status};
use triptych_storage::{Entry, Expect, Write, WriteError};

use crate::context::{Cidr, Context};

/// The object made of `--service-cluster-ip-range`.
pub const DEFAULT_RANGE: &str = "kubernetes";
const GROUP: &str = "networking.k8s.io";
const FAMILY_LABEL: &str = "ipaddress.kubernetes.io/ip-family";
pub(super) const MANAGER_LABEL: &str = "ipaddress.kubernetes.io/managed-by";
pub(super) const MANAGER: &str = "ipallocator.k8s.io";
/// A range larger than this is not searched to its end.
const MAX_TRIES: u128 = 1 << 20;

/// Why an address cannot be had; the texts are kube-apiserver's.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// All are taken.
    #[error("range is full")]
    Full,
    /// Somebody has it.
    #[error("provided IP is already allocated")]
    Allocated,
    /// No range has it.
    #[error("the provided network does not match the current range")]
    Mismatched,
    /// A dry run looks at one range only.
    #[error("the provided IP ({0}) is not in the valid range. The range of valid IPs is {1}")]
    NotInRange(IpAddr, String),
    /// The store failed.
    #[error("{}", .0.message)]
    Store(Box<Status>),
}

/// Who gets an address.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// When.
    pub now: Timestamp,
}

/// The cluster IPs of a cluster.
pub struct Addresses {
    ips: Option<Arc<Collection>>,
    ranges: Option<Arc<Collection>>,
    configured: Vec<Cidr>,
}

/// A range to take addresses from: `first..=last`, of which dynamic ones come from `dynamic` on while there are any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    cidr: Cidr,
    first: u128,
    dynamic: u128,
    last: u128,
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

impl Range {
    fn of(cidr: Cidr) -> Option<Range> {
        let v4 = cidr.address.is_ipv4();
        let bits = if v4 { 32 } else { 128 };
        let host_bits = u32::from(bits - cidr.prefix);
        // kube-apiserver takes no larger ranges of IPv6
        if host_bits > 64 {
            return None;
        }
        let size = 1u128 << host_bits;
        let network = number(cidr.address);
        let first = network + 1;
        let last = network + size - if v4 { 2 } else { 1 };
        let lower = if size <= 16 { 0 } else { (size / 16).clamp(16, 256) };
        (last >= first).then_some(Range {
            cidr,
            first,
            dynamic: first + lower,
            last,
        })
    }

    fn address(&self, number: u128) -> IpAddr {
        match self.cidr.address {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from(number as u32)),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from(number)),
        }
    }

    fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.cidr.address.is_ipv4() && (self.first..=self.last).contains(&number(address))
    }

    /// All addresses, the dynamic part first, each part from a random place on.
    fn candidates(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let from = |low: u128, high: u128| {
            let span = (high + 1).saturating_sub(low);
            let start = if span == 0 {
                0
            } else {
                rand::random::<u64>() as u128 % span
            };
            (0..span.min(MAX_TRIES)).map(move |i| low + (start + i) % span)
        };
        from(self.dynamic, self.last)
            .chain(from(self.first, self.dynamic - 1))
            .map(|n| self.address(n))
    }
}

impl Addresses {
    /// Those of this cluster.
    pub fn new(context: &Context) -> Addresses {
        let find = |resource| context.collection(GROUP, resource).cloned();
        Addresses {
            ips: find("ipaddresses"),
            ranges: find("servicecidrs"),
            configured: context.cluster_ips.0.clone(),
        }
    }

    /// The families services can have, the default first.
    pub fn families(&self) -> Vec<&'static str> {
        let family = |cidr: &Cidr| if cidr.address.is_ipv4() { "IPv4" } else { "IPv6" };
        self.configured.iter().map(family).collect()
    }

    /// Ranges that give addresses: of this family and ready.
    fn ready(&self, v6: bool) -> Vec<Range> {
        let mut cidrs = Vec::new();
        let mut has_default = false;
        let snapshot = self.ranges.as_ref().and_then(|r| r.cache.snapshot().ok());
        if let (Some(snapshot), Some(ranges)) = (snapshot, &self.ranges) {
            for object in snapshot.range(&ranges.scope("")) {
                let Ok(range) = json::from_slice(object.bytes()) else {
                    continue;
                };
                has_default |= meta::name(&range) == DEFAULT_RANGE;
                if is_ready(&range) {
                    let list = range.array_at(&["spec", "cidrs"]).iter().filter_map(Value::as_str);
                    cidrs.extend(list.filter_map(names::parse_cidr));
                }
            }
        }
        let mut cidrs: Vec<Cidr> = cidrs
            .into_iter()
            .map(|(address, prefix)| Cidr { address, prefix })
            .collect();
        if !has_default {
            cidrs.extend(&self.configured);
        }
        cidrs.retain(|c| c.address.is_ipv6() == v6);
        cidrs.into_iter().filter_map(Range::of).collect()
    }

    /// Takes this address.
    pub async fn take(&self, address: IpAddr, owner: Owner<'_>, dry_run: bool) -> Result<(), AddressError> {
        let ranges = self.ready(address.is_ipv6());
        if dry_run {
            return match ranges.first() {
                Some(range) if !range.contains(address) => {
                    Err(AddressError::NotInRange(address, range.cidr.to_string()))
                }
                Some(_) => Ok(()),
                None => Err(AddressError::Mismatched),
            };
        }
        if !ranges.iter().any(|r| r.contains(address)) {
            return Err(AddressError::Mismatched);
        }
        self.create(address, owner).await
    }

    /// Takes any address of a family.
    pub async fn take_any(&self, v6: bool, owner: Owner<'_>, dry_run: bool) -> Result<IpAddr, AddressError> {
        for range in self.ready(v6) {
            if dry_run {
                return Ok(range.cidr.address);
            }
            for address in range.candidates() {
                if self.is_known(address) {
                    continue;
                }
                match self.create(address, owner).await {
                    Ok(()) => return Ok(address),
                    // another replica was faster
                    Err(AddressError::Allocated) => {}
                    Err(e) => return Err(e),
                }
            }
        }
        Err(AddressError::Full)
    }

    fn is_known(&self, address: IpAddr) -> bool {
        let Some(ips) = &self.ips else { return false };
        let key = format!("{}{address}", ips.scope(""));
        matches!(ips.cache.get(&key), Ok(Some(_)))
    }

    /// The objects of addresses.
    pub(super) fn objects(&self) -> Option<&Arc<Collection>> {
        self.ips.as_ref()
    }

    pub(super) async fn create(&self, address: IpAddr, owner: Owner<'_>) -> Result<(), AddressError> {
        let Some(ips) = &self.ips else {
            return Err(AddressError::Store(Status::service_unavailable(
                "IP addresses are not served",
                1,
            )));
        };
        let key = format!("{}{address}", ips.scope(""));
        let value = Bytes::from(json::to_vec(&object(address, owner)));
        let write = Write {
            key: &key,
            expect: Expect::Absent,
            put: Some(value.clone()),
            ttl: None,
        };
        match ips.store.write(write).await {
            Ok(revision) => {
                ips.cache.ingest(&Entry {
                    key: key.as_str().into(),
                    revision,
                    value,
                });
                Ok(())
            }
            Err(WriteError::Conflict(_)) => Err(AddressError::Allocated),
            Err(WriteError::Store(e)) => Err(AddressError::Store(storage_status(&e))),
        }
    }

    /// Gives an address back; one that has no object is nothing to give.
    pub async fn give_back(&self, address: IpAddr) {
        let Some(ips) = &self.ips else { return };
        let key = format!("{}{address}", ips.scope(""));
        let mut found = ips.store.get(&key).await;
        while let Ok((Some(entry), _)) = found {
            let write = Write {
                key: &key,
                expect: Expect::Revision(entry.revision),
                put: None,
                ttl: None,
            };
            match ips.store.write(write).await {
                Ok(_) => return,
                Err(WriteError::Conflict(_)) => found = ips.store.get(&key).await,
                Err(WriteError::Store(e)) => {
                    tracing::info!(%address, error = %e, "cannot give a service address back");
                    return;
                }
            }
        }
    }
}

/// A range is ready unless it says otherwise or is being deleted.
fn is_ready(range: &Value) -> bool {
    let conditions = range.array_at(&["status", "conditions"]);
    let ready = conditions.iter().find(|c| c.str_at(&["type"]) == "Ready");
    meta::deletion_timestamp(range).is_none() && ready.is_none_or(|c| c.str_at(&["status"]) == "True")
}

/// The object of an address, as kube-apiserver makes it.
fn object(address: IpAddr, owner: Owner<'_>) -> Value {
    const FIELDS: &str = r#"{"f:metadata":{"f:labels":{".":{},"f:ipaddress.kubernetes.io/ip-family":{},"f:ipaddress.kubernetes.io/managed-by":{}}},"f:spec":{"f:parentRef":{".":{},"f:name":{},"f:namespace":{},"f:resource":{}}}}"#;
    let now = time::rfc3339(owner.now);
    let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
    let managed = Value::from([
        ("manager", "kube-apiserver".into()),
        ("operation", "Update".into()),
        ("apiVersion", "networking.k8s.io/v1".into()),
        ("time", now.as_str().into()),
        ("fieldsType", "FieldsV1".into()),
        ("fieldsV1", json::from_slice(FIELDS.as_bytes()).unwrap_or_default()),
    ]);
    let labels = Value::from([(FAMILY_LABEL, family.into()), (MANAGER_LABEL, MANAGER.into())]);
    let parent = Value::from([
        ("resource", "services".into()),
        ("namespace", owner.namespace.into()),
        ("name", owner.name.into()),
    ]);
    Value::from([
        ("kind", "IPAddress".into()),
        ("apiVersion", "networking.k8s.io/v1".into()),
        (
            "metadata",
            Value::from([
                ("name", address.to_string().into()),
                ("uid", uuid::Uuid::new_v4().to_string().into()),
                ("creationTimestamp", now.as_str().into()),
                ("labels", labels),
                ("managedFields", vec![managed].into()),
            ]),
        ),
        ("spec", Value::from([("parentRef", parent)])),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn range(text: &str) -> Range {
        Range::of(text.parse().unwrap()).unwrap()
    }

    #[test]
    fn network_and_broadcast_addresses_are_not_given() {
        let range = range("10.0.0.0/24");
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(!range.contains(ip("10.0.0.0")) && !range.contains(ip("10.0.0.255")));
        assert!(range.contains(ip("10.0.0.1")) && range.contains(ip("10.0.0.254")));
        let all: Vec<IpAddr> = range.candidates().collect();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 254);
        // the first sixteen come last
        assert!(all[..238].iter().all(|a| *a > ip("10.0.0.16")));
    }

    #[test]
    fn small_and_large_ranges_work() {
        assert_eq!(range("10.0.0.0/30").candidates().count(), 2);
        assert!(range("fd00::/64").candidates().take(3).all(|a| a.is_ipv6()));
        assert_eq!(Range::of("fd00::/48".parse().unwrap()), None);
        assert_eq!(Range::of("10.0.0.0/32".parse().unwrap()), None);
    }
}
