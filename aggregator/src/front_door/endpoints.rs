//! The endpoints of the Service `kubernetes`: which API servers are alive (kube-apiserver's lease reconciler).
//!
//! Contract: each server keeps a lease of its own under `/masterleases/<ip>`; whoever looks next removes from the
//! endpoints what has no lease any more. Nobody writes an empty list while he is alive himself.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use triptych_client::Api;
use triptych_client::api::Patch;
use triptych_object::{Status, StatusResult, Value, json, meta};
use triptych_registry::collection::storage_status;
use triptych_storage::{Expect, Range, Store, Write, WriteError};

const LEASES: &str = "/masterleases/";
/// A lease lasts so long without being renewed.
const LEASE: Duration = Duration::from_secs(15);
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
/// How often a lease is written anew after somebody else wrote it.
const ATTEMPTS: usize = 3;

/// This server's endpoint and everybody's lease.
pub struct Endpoints {
    store: Arc<dyn Store>,
    ip: IpAddr,
    left: Mutex<bool>,
}

impl Endpoints {
    /// This server's address is `ip`; leases are in `store`.
    pub fn new(store: Arc<dyn Store>, ip: IpAddr) -> Endpoints {
        Endpoints {
            store,
            ip,
            left: Mutex::new(false),
        }
    }

    /// Renews the lease and brings the endpoints up to date.
    pub async fn publish(&self, core_api: &Api, port: u16) -> StatusResult<()> {
        self.renew().await?;
        let alive = self.alive().await?;
        if alive.is_empty() {
            return Err(Status::internal(
                "no API server IP addresses were listed in storage, refusing to erase all endpoints for the kubernetes Service",
            ));
        }
        write(core_api, &alive, port).await
    }

    /// Gives the lease up and takes this server out of the endpoints, once; who calls meanwhile waits for it.
    pub async fn leave(&self, core_api: &Api, port: u16) -> StatusResult<()> {
        let mut left = self.left.lock().await;
        if !*left {
            self.give_up(core_api, port).await?;
            *left = true;
        }
        Ok(())
    }

    async fn give_up(&self, core_api: &Api, port: u16) -> StatusResult<()> {
        let key = self.key();
        let (entry, _) = self.store.get(&key).await.map_err(|e| storage_status(&e))?;
        let Some(entry) = entry else { return Ok(()) };
        let delete = Write {
            key: &key,
            expect: Expect::Revision(entry.revision),
            put: None,
            ttl: None,
        };
        self.store.write(delete).await.map_err(write_status)?;
        write(core_api, &self.alive().await?, port).await
    }

    fn key(&self) -> String {
        format!("{LEASES}{}", self.ip)
    }

    async fn renew(&self) -> StatusResult<()> {
        let key = self.key();
        let mut outcome = Ok(());
        for _ in 0..ATTEMPTS {
            let (entry, _) = self.store.get(&key).await.map_err(|e| storage_status(&e))?;
            let generation = entry.as_ref().and_then(|e| json::from_slice(&e.value).ok());
            let generation = generation.map_or(0, |lease| meta::generation(&lease)) + 1;
            let write = Write {
                key: &key,
                expect: entry.map_or(Expect::Absent, |e| Expect::Revision(e.revision)),
                put: Some(json::to_vec(&self.lease(generation)).into()),
                ttl: Some(LEASE),
            };
            outcome = self.store.write(write).await.map(drop).map_err(write_status);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    /// As kube-apiserver writes it: Endpoints with one address.
    fn lease(&self, generation: i64) -> Value {
        let address = Value::from([("ip", self.ip.to_string().into())]);
        let subset = Value::from([("addresses", Value::Array(vec![address]))]);
        Value::from([
            ("kind", "Endpoints".into()),
            ("apiVersion", "v1".into()),
            ("metadata", Value::from([("generation", generation.into())])),
            ("subsets", Value::Array(vec![subset])),
        ])
    }

    /// Who has a lease.
    async fn alive(&self) -> StatusResult<Vec<IpAddr>> {
        let range = Range {
            prefix: LEASES,
            ..Range::default()
        };
        let page = self.store.range(range).await.map_err(|e| storage_status(&e))?;
        let names = page.entries.iter().filter_map(|e| e.key.strip_prefix(LEASES));
        let mut alive: Vec<IpAddr> = names.filter_map(|ip| ip.parse().ok()).collect();
        alive.sort_unstable();
        Ok(alive)
    }
}

fn write_status(error: WriteError) -> Box<Status> {
    match error {
        WriteError::Store(error) => storage_status(&error),
        WriteError::Conflict(_) => Status::internal("somebody else wrote this server's lease"),
    }
}

/// Writes who is alive. Ports stay as they are, as kube-apiserver leaves them: servers that listen on different ones must
/// not take turns.
async fn write(core_api: &Api, alive: &[IpAddr], port: u16) -> StatusResult<()> {
    let have = core_api.find(&format!("{ENDPOINTS}/kubernetes")).await?;
    let ports = have.as_ref().and_then(known_ports).unwrap_or_else(|| https(port));
    ensure(core_api, ENDPOINTS, have, endpoints(alive, &ports), &["subsets"]).await?;
    let have = core_api.find(&format!("{SLICES}/kubernetes")).await?;
    ensure(core_api, SLICES, have, slice(alive, &ports), &["endpoints", "ports"]).await
}

/// The ports of Endpoints in the one form that is written here.
fn known_ports(endpoints: &Value) -> Option<Value> {
    match endpoints.array_at(&["subsets"]) {
        [subset] => subset.get("ports").filter(|ports| !ports.is_null()).cloned(),
        _ => None,
    }
}

/// Creates the object, or replaces those of its members that differ.
async fn ensure(
    core_api: &Api,
    collection: &str,
    have: Option<Value>,
    wanted: Value,
    members: &[&str],
) -> StatusResult<()> {
    let path = format!("{collection}/kubernetes");
    let Some(have) = have else {
        return match core_api.create(collection, &wanted).await {
            Err(status) if status.reason != "AlreadyExists" => Err(status),
            _ => Ok(()),
        };
    };
    if have.str_at(&["addressType"]) != wanted.str_at(&["addressType"]) {
        core_api.delete(&path).await?;
        return core_api.create(collection, &wanted).await.map(drop);
    }
    let labels = &["metadata", "labels"];
    let labelled = wanted.at(labels).and_then(Value::as_object).is_none_or(|wanted| {
        let have = have.at(labels);
        wanted
            .iter()
            .all(|(key, value)| have.and_then(|h| h.get(key)) == Some(value))
    });
    if labelled && members.iter().all(|m| same(have.get(m), wanted.get(m))) {
        return Ok(());
    }
    // a member that is null is taken away: nobody may be left
    let mut patch = Value::from([(
        "metadata",
        Value::from([("labels", wanted.at(labels).cloned().unwrap_or_default())]),
    )]);
    for member in members {
        patch.set_at(&[member], wanted.get(member).cloned().unwrap_or_default());
    }
    core_api.patch(&path, Patch::Merge, &patch).await.map(drop)
}

/// Equal but for the order of members: lists of servers are short.
fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a, b) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            a.len() == b.len() && a.iter().all(|(key, value)| same(Some(value), b.get(key)))
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(Some(a), Some(b)))
        }
        _ => a == b,
    }
}

fn metadata(label: &str, value: &str) -> Value {
    Value::from([
        ("name", "kubernetes".into()),
        ("namespace", "default".into()),
        ("labels", Value::from([(label, value.into())])),
    ])
}

fn https(port: u16) -> Value {
    let port = Value::from([
        ("name", "https".into()),
        ("port", i64::from(port).into()),
        ("protocol", "TCP".into()),
    ]);
    Value::Array(vec![port])
}

fn endpoints(alive: &[IpAddr], ports: &Value) -> Value {
    let mut object = Value::from([
        ("apiVersion", "v1".into()),
        ("kind", "Endpoints".into()),
        ("metadata", metadata(SKIP_MIRROR, "true")),
    ]);
    if !alive.is_empty() {
        let addresses = alive.iter().map(|ip| Value::from([("ip", ip.to_string().into())]));
        let subset = Value::from([
            ("addresses", Value::Array(addresses.collect())),
            ("ports", ports.clone()),
        ]);
        object.set_at(&["subsets"], Value::Array(vec![subset]));
    }
    object
}

/// A slice holds one family: that of the first server.
fn slice(alive: &[IpAddr], ports: &Value) -> Value {
    let ipv6 = alive.first().is_some_and(IpAddr::is_ipv6);
    let of_family = alive.iter().filter(|ip| ip.is_ipv6() == ipv6);
    let endpoints = of_family.map(|ip| {
        Value::from([
            ("addresses", Value::Array(vec![ip.to_string().into()])),
            ("conditions", Value::from([("ready", true.into())])),
        ])
    });
    Value::from([
        ("apiVersion", "discovery.k8s.io/v1".into()),
        ("kind", "EndpointSlice".into()),
        ("metadata", metadata("kubernetes.io/service-name", "kubernetes")),
        ("addressType", if ipv6 { "IPv6" } else { "IPv4" }.into()),
        ("endpoints", Value::Array(endpoints.collect())),
        ("ports", ports.clone()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alive(ips: &[&str]) -> Vec<IpAddr> {
        ips.iter().map(|ip| ip.parse().unwrap()).collect()
    }

    #[test]
    fn objects_are_what_kube_apiserver_writes() {
        assert_eq!(
            json::to_string(&endpoints(&alive(&["10.9.8.7"]), &https(6443))),
            r#"{"apiVersion":"v1","kind":"Endpoints","metadata":{"name":"kubernetes","namespace":"default","labels":{"endpointslice.kubernetes.io/skip-mirror":"true"}},"subsets":[{"addresses":[{"ip":"10.9.8.7"}],"ports":[{"name":"https","port":6443,"protocol":"TCP"}]}]}"#
        );
        assert_eq!(endpoints(&[], &https(6443)).get("subsets"), None);
        let slice = slice(&alive(&["fd00::1", "fd00::2"]), &https(6443));
        assert_eq!(slice.str_at(&["addressType"]), "IPv6");
        assert_eq!(slice.array_at(&["endpoints"]).len(), 2);
    }

    #[test]
    fn ports_that_another_server_published_stay() {
        let published = endpoints(&alive(&["10.9.8.7"]), &https(6443));
        assert_eq!(known_ports(&published), Some(https(6443)));
        assert_eq!(known_ports(&endpoints(&[], &https(6443))), None);
    }

    #[test]
    fn the_order_of_members_does_not_matter() {
        let value = |text: &str| json::from_slice(text.as_bytes()).unwrap();
        assert!(same(
            Some(&value(r#"[{"a":1,"b":{"c":2}}]"#)),
            Some(&value(r#"[{"b":{"c":2},"a":1}]"#))
        ));
        assert!(!same(Some(&value("[1]")), None));
    }
}
