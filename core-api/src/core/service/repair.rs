//! Brings addresses and node ports into agreement with the services there are: run at start and then every few minutes.
//!
//! Contract: what a service holds is taken at once. What is taken and held by no service is given back only after it was
//! seen so in several runs, because its service may just be on its way into the store, here or on another replica.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use triptych_object::{StatusResult, Value, json, meta, names};
use triptych_registry::collection::Collection;

use super::addresses::{MANAGER, MANAGER_LABEL, Owner};
use super::allocation::{Allocators, held_ports};
use super::spec::{self, list};

/// Time between two runs.
const INTERVAL: Duration = Duration::from_secs(180);
/// How many runs must see something lost.
const RUNS: u32 = 3;

/// A repairer and what it saw.
pub struct Repair {
    allocators: Arc<Allocators>,
    lost_ports: BTreeMap<i64, u32>,
    lost_addresses: BTreeMap<IpAddr, u32>,
}

impl Repair {
    /// One that saw nothing yet.
    pub fn new(allocators: Arc<Allocators>) -> Repair {
        Repair {
            allocators,
            lost_ports: BTreeMap::new(),
            lost_addresses: BTreeMap::new(),
        }
    }

    /// Repairs for ever.
    pub async fn run(mut self) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            if let Err(status) = self.once().await {
                tracing::info!(error = status.message, "cannot repair service addresses and ports");
            }
        }
    }

    /// Repairs once.
    pub async fn once(&mut self) -> StatusResult<()> {
        let Some(services) = self.allocators.services.clone() else {
            return Ok(());
        };
        let services = read_all(&services).await?;
        self.ports(&services).await?;
        self.addresses(&services).await
    }

    async fn ports(&mut self, services: &[Value]) -> StatusResult<()> {
        let held: BTreeSet<i64> = services.iter().flat_map(held_ports).collect();
        let lost = ripe(&self.lost_ports);
        let taken = self.allocators.ports()?.repair(&held, &lost).await?;
        count(&mut self.lost_ports, taken.difference(&held).copied());
        Ok(())
    }

    async fn addresses(&mut self, services: &[Value]) -> StatusResult<()> {
        let addresses = &self.allocators.addresses;
        let Some(objects) = addresses.objects() else {
            return Ok(());
        };
        let mut known: BTreeMap<IpAddr, Value> = BTreeMap::new();
        for object in read_all(objects).await? {
            if let Some(address) = names::parse_ip(meta::name(&object)) {
                known.insert(address, object);
            }
        }
        let mut held = BTreeSet::new();
        for service in services.iter().filter(|s| !spec::is_external_name(s)) {
            let owner = Owner {
                namespace: meta::namespace(service),
                name: meta::name(service),
                now: Timestamp::now(),
            };
            for address in list(service, "clusterIPs").into_iter().filter_map(names::parse_ip) {
                held.insert(address);
                if !known.contains_key(&address) {
                    // of an older server, or somebody deleted the object; a conflict means that it is there by now
                    let _ = addresses.create(address, owner).await;
                }
            }
        }
        for address in ripe(&self.lost_addresses) {
            addresses.give_back(address).await;
            known.remove(&address);
        }
        let ours = known
            .iter()
            .filter(|(address, object)| meta::label(object, MANAGER_LABEL) == Some(MANAGER) && !held.contains(address));
        count(&mut self.lost_addresses, ours.map(|(address, _)| *address));
        Ok(())
    }
}

/// What was seen lost often enough.
fn ripe<T: Ord + Copy>(seen: &BTreeMap<T, u32>) -> BTreeSet<T> {
    seen.iter()
        .filter(|(_, runs)| **runs >= RUNS)
        .map(|(lost, _)| *lost)
        .collect()
}

/// Counts what is lost now, and forgets the rest.
fn count<T: Ord + Copy>(seen: &mut BTreeMap<T, u32>, lost: impl Iterator<Item = T>) {
    *seen = lost.map(|l| (l, seen.get(&l).copied().unwrap_or(0) + 1)).collect();
}

async fn read_all(collection: &Collection) -> StatusResult<Vec<Value>> {
    let page = collection
        .cache
        .read_range(triptych_storage::Range {
            prefix: &collection.scope(""),
            ..Default::default()
        })
        .await
        .map_err(|e| triptych_registry::collection::storage_status(&e))?;
    let documents = page.objects.iter().filter_map(|o| json::from_slice(o.bytes()).ok());
    Ok(documents.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_given_back_when_it_was_seen_in_three_runs() {
        let mut seen = BTreeMap::new();
        for _ in 0..2 {
            count(&mut seen, [1, 2].into_iter());
            assert!(ripe(&seen).is_empty());
        }
        count(&mut seen, [1].into_iter());
        assert_eq!(ripe(&seen), BTreeSet::from([1]));
        count(&mut seen, [2].into_iter());
        assert!(ripe(&seen).is_empty());
    }
}
