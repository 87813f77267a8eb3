//! What a service is given when it is written: families, addresses, node ports; and how it is given back.
//!
//! Contract: the order (families, addresses, ports, health check port) and the texts are kube-apiserver's. Nothing is
//! given back by an update before the new service is stored. A dry run looks but takes nothing.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use triptych_object::field::{Error, ErrorList};
use triptych_object::{Status, StatusResult, Value, json, meta, names};
use triptych_registry::collection::Collection;
use triptych_registry::strategy::{Context as Request, Reservation};

use super::addresses::{AddressError, Addresses, Owner};
use super::families::{self, refuse};
use super::node_ports::{NodePorts, PortError, Taken};
use super::spec::{self, list, node_port, set_list};
use crate::context::Context;

/// After this long a write whose request was given up has happened or will not happen.
const OUTCOME_KNOWN: Duration = Duration::from_secs(60);

/// The addresses and ports of services.
pub struct Allocators {
    pub(super) addresses: Addresses,
    /// None if services are not stored here, as in tests.
    pub(super) ports: Option<NodePorts>,
    pub(super) services: Option<Arc<Collection>>,
}

impl Allocators {
    /// Those of a cluster.
    pub fn new(context: &Context) -> Arc<Allocators> {
        let services = context.collection("", "services");
        Arc::new(Allocators {
            addresses: Addresses::new(context),
            ports: services.map(|c| NodePorts::new(c.store.clone(), context.node_ports)),
            services: services.cloned(),
        })
    }

    /// The bitmap of node ports.
    pub fn ports(&self) -> StatusResult<&NodePorts> {
        let missing = || Status::service_unavailable("services are not served", 1);
        self.ports.as_ref().ok_or_else(missing)
    }

    /// Gives a new service what it needs.
    pub async fn create(self: &Arc<Self>, request: &Request, new: &mut Value) -> StatusResult<Granted> {
        families::settle(new, None, &self.addresses.families())?;
        let mut granted = Granted::new(self, new, request.dry_run);
        let outcome = self.create_parts(request, new, &mut granted).await;
        granted.unless(outcome).await
    }

    async fn create_parts(&self, request: &Request, new: &mut Value, granted: &mut Granted) -> StatusResult<()> {
        self.take_addresses(request, new, granted).await?;
        self.take_ports(request, new, granted, |service, ports| {
            if spec::has_node_ports(service) {
                new_ports(service, ports).map_err(|e| e.of_service(service))?;
            }
            if spec::needs_health_check(service) {
                health_check_port(service, ports).map_err(Status::internal)?;
            }
            Ok(())
        })
        .await
    }

    /// Gives a changed service what it needs now, and notes what it needs no more.
    pub async fn update(self: &Arc<Self>, request: &Request, new: &mut Value, old: &Value) -> StatusResult<Granted> {
        families::settle(new, Some(old), &self.addresses.families())?;
        let mut granted = Granted::new(self, new, request.dry_run);
        let outcome = self.update_parts(request, new, old, &mut granted).await;
        granted.unless(outcome).await
    }

    async fn update_parts(
        &self,
        request: &Request,
        new: &mut Value,
        old: &Value,
        granted: &mut Granted,
    ) -> StatusResult<()> {
        self.change_addresses(request, new, old, granted).await?;
        if spec::has_node_ports(old) && !spec::has_node_ports(new) {
            granted.later_ports.extend(spec::node_ports(old));
        }
        self.take_ports(request, new, granted, |service, ports| {
            if spec::has_node_ports(service) {
                changed_ports(service, old, ports).map_err(|e| e.of_service(service))?;
            }
            if spec::needs_health_check(service) && !spec::needs_health_check(old) {
                health_check_port(service, ports).map_err(Status::internal)?;
            }
            Ok(())
        })
        .await?;
        if spec::has_node_ports(new) {
            let have = spec::node_ports(new);
            let unused = spec::node_ports(old).into_iter().filter(|p| !have.contains(p));
            granted.later_ports.extend(unused);
        }
        if spec::needs_health_check(old) && !spec::needs_health_check(new) {
            granted.later_ports.push(spec::int(old, "healthCheckNodePort"));
        }
        Ok(())
    }

    /// Gives back everything a deleted service held.
    pub async fn release(&self, service: &Value) {
        if !spec::is_external_name(service) && !spec::is_headless(service) {
            for address in list(service, "clusterIPs").into_iter().filter_map(names::parse_ip) {
                self.addresses.give_back(address).await;
            }
        }
        self.give_ports_back(&held_ports(service)).await;
    }

    async fn service(&self, namespace: &str, name: &str) -> StatusResult<Option<Value>> {
        let Some(services) = &self.services else {
            return Ok(None);
        };
        let (object, _) = services.get_live(&services.key(namespace, name)?).await?;
        let document = object.map(|o| json::from_slice(o.bytes()).map_err(Status::internal));
        document.transpose()
    }

    async fn give_ports_back(&self, given: &[i64]) {
        let Some(ports) = self.ports.as_ref().filter(|_| !given.is_empty()) else {
            return;
        };
        let outcome = ports
            .change(|taken| {
                given.iter().for_each(|port| taken.give_back(*port));
                Ok::<(), Box<Status>>(())
            })
            .await;
        if let Err(status) = outcome {
            tracing::info!(error = status.message, "cannot give node ports back");
        }
    }

    async fn change_addresses(
        &self,
        request: &Request,
        new: &mut Value,
        old: &Value,
        granted: &mut Granted,
    ) -> StatusResult<()> {
        if families::is_settled(new, Some(old)) {
            return Ok(());
        }
        if spec::is_external_name(old) && !spec::is_external_name(new) {
            return self.take_addresses(request, new, granted).await;
        }
        let before = list(old, "clusterIPs");
        if before.first() == Some(&"None") {
            return Ok(());
        }
        if !spec::is_external_name(old) && spec::is_external_name(new) {
            granted
                .later_addresses
                .extend(before.into_iter().filter_map(names::parse_ip));
            return Ok(());
        }
        let (had, have) = (list(old, "ipFamilies").len(), list(new, "ipFamilies").len());
        if had == 1 && have == 2 {
            return self.take_addresses_from(1, request, new, granted).await;
        }
        if had == 2 && have == 1 {
            granted
                .later_addresses
                .extend(before.get(1).copied().and_then(names::parse_ip));
        }
        Ok(())
    }

    async fn take_addresses(&self, request: &Request, new: &mut Value, granted: &mut Granted) -> StatusResult<()> {
        self.take_addresses_from(0, request, new, granted).await
    }

    /// Addresses for the families from the `first` on; where the service names one, that one.
    async fn take_addresses_from(
        &self,
        first: usize,
        request: &Request,
        new: &mut Value,
        granted: &mut Granted,
    ) -> StatusResult<()> {
        if spec::is_external_name(new) || list(new, "clusterIPs").first() == Some(&"None") {
            return Ok(());
        }
        let families: Vec<String> = list(new, "ipFamilies").into_iter().map(str::to_owned).collect();
        let mut ips: Vec<String> = list(new, "clusterIPs").into_iter().map(str::to_owned).collect();
        let (namespace, name) = (meta::namespace(new).to_owned(), meta::name(new).to_owned());
        let owner = Owner {
            namespace: &namespace,
            name: &name,
            now: request.now,
        };
        let dry_run = request.dry_run;
        ips.resize(families.len().max(ips.len()), String::new());
        for (i, family) in families.iter().enumerate().skip(first) {
            let (taken, asked) = if ips[i].is_empty() {
                (
                    self.addresses.take_any(family == "IPv6", owner, dry_run).await,
                    String::new(),
                )
            } else {
                let parsed = names::parse_ip(&ips[i]);
                let parsed =
                    parsed.ok_or_else(|| Status::internal(format!("failed to parse service IP {:?}", ips[i])))?;
                let taken = self.addresses.take(parsed, owner, dry_run).await.map(|()| parsed);
                (taken, format!(" {}", ips[i]))
            };
            match taken {
                Ok(address) => {
                    granted.addresses.push(address);
                    // what the client wrote stays as it wrote it
                    if ips[i].is_empty() {
                        ips[i] = address.to_string();
                    }
                }
                Err(AddressError::Full) if asked.is_empty() => {
                    return Err(Status::internal(format!(
                        "failed to allocate a serviceIP for Service \"{name}\": range is full"
                    )));
                }
                Err(e) => {
                    let error = format!("failed to allocate IP{asked}: {e}");
                    let shown = Value::from(ips.clone());
                    let errors: ErrorList = std::iter::once(Error::invalid("spec.clusterIPs", shown, error)).collect();
                    return refuse(new, errors);
                }
            }
        }
        if let Some(first) = ips.first() {
            new.set_at(&["spec", "clusterIP"], first.as_str().into());
        }
        set_list(new, "clusterIPs", ips);
        Ok(())
    }

    /// Runs `fill` on a service and the bitmap until both are settled.
    async fn take_ports(
        &self,
        request: &Request,
        new: &mut Value,
        granted: &mut Granted,
        fill: impl Fn(&mut Value, &mut Ports<'_>) -> StatusResult<()>,
    ) -> StatusResult<()> {
        if !spec::has_node_ports(new) {
            return Ok(());
        }
        let bitmap = self.ports()?;
        let before = new.clone();
        let run = |taken: &mut Taken| {
            let mut service = before.clone();
            let mut ports = Ports {
                taken,
                dry_run: request.dry_run,
                mine: Vec::new(),
            };
            fill(&mut service, &mut ports)?;
            Ok::<_, Box<Status>>((service, ports.mine))
        };
        let (service, mine) = if request.dry_run {
            bitmap.try_out(run).await?
        } else {
            bitmap.change(run).await?
        };
        *new = service;
        granted.ports = mine;
        Ok(())
    }
}

/// Ports being taken for one service.
struct Ports<'a> {
    taken: &'a mut Taken,
    dry_run: bool,
    mine: Vec<i64>,
}

impl Ports<'_> {
    fn take(&mut self, port: i64) -> Result<(), PortError> {
        match self.taken.take(port) {
            // a dry run does not ask whether the range has the port
            Err(PortError::NotInRange(..)) if self.dry_run && !self.mine.contains(&port) => {}
            Err(PortError::NotInRange(..)) if self.dry_run => return Err(PortError::Allocated),
            outcome => outcome?,
        }
        self.mine.push(port);
        Ok(())
    }

    fn take_any(&mut self) -> Result<i64, PortError> {
        // a dry run names ports that nobody has
        let port = if self.dry_run {
            self.mine.iter().copied().max().unwrap_or(32768) + 1
        } else {
            self.taken.take_any()?
        };
        self.mine.push(port);
        Ok(port)
    }
}

/// Why the ports of a service cannot be had.
enum Refusal {
    /// A port that was asked for.
    Port(usize, i64, PortError),
    /// Any port.
    Any(PortError),
    /// Two ports of one protocol would share a node port.
    Duplicate(String, i64),
}

impl Refusal {
    fn of_service(self, service: &Value) -> Box<Status> {
        match self {
            Refusal::Port(i, port, e) => {
                let error = Error::invalid(format!("spec.ports[{i}].nodePort"), port, e.to_string());
                let refused = refuse(service, std::iter::once(error).collect());
                refused.err().unwrap_or_else(|| Status::internal(e))
            }
            Refusal::Any(e) => Status::internal(format!("failed to allocate a nodePort: {e}")),
            Refusal::Duplicate(protocol, port) => {
                Status::internal(format!("duplicate nodePort: {{{protocol} {port}}}"))
            }
        }
    }
}

/// Ports of a new service; those that differ by protocol alone share a node port.
fn new_ports(service: &mut Value, ports: &mut Ports<'_>) -> Result<(), Refusal> {
    let automatic = spec::allocates_node_ports(service);
    let asked: Vec<(i64, i64)> = spec::ports(service).iter().map(|p| (number(p), node_port(p))).collect();
    let mut by_port: HashMap<i64, i64> = HashMap::new();
    for (i, (number, own)) in asked.iter().copied().enumerate() {
        if own == 0 && !automatic {
            continue;
        }
        let node_port = match by_port.get(&number).copied() {
            None => {
                // the first one named for this port, here or further on
                let named = asked.iter().find(|(n, p)| *n == number && *p != 0).map(|(_, p)| *p);
                let node_port = match named {
                    Some(named) => ports
                        .take(named)
                        .map(|()| named)
                        .map_err(|e| Refusal::Port(i, named, e))?,
                    None => ports.take_any().map_err(Refusal::Any)?,
                };
                by_port.insert(number, node_port);
                node_port
            }
            Some(shared) if own == 0 || own == shared => shared,
            Some(_) => ports.take(own).map(|()| own).map_err(|e| Refusal::Port(i, own, e))?,
        };
        if let Some(port) = spec::ports_mut(service).get_mut(i) {
            port.set_at(&["nodePort"], node_port.into());
        }
    }
    Ok(())
}

/// Ports of a service that had some.
fn changed_ports(service: &mut Value, old: &Value, ports: &mut Ports<'_>) -> Result<(), Refusal> {
    let automatic = spec::allocates_node_ports(service);
    let before = spec::node_ports(old);
    let mut seen: Vec<(String, i64)> = Vec::new();
    let mut asked: Vec<i64> = Vec::new();
    for (i, port) in spec::ports_mut(service).iter_mut().enumerate() {
        let mut own = node_port(port);
        if own == 0 && !automatic {
            continue;
        }
        if own == 0 {
            own = ports.take_any().map_err(Refusal::Any)?;
            port.set_at(&["nodePort"], own.into());
        } else if !before.contains(&own) && !asked.contains(&own) {
            ports.take(own).map_err(|e| Refusal::Port(i, own, e))?;
            asked.push(own);
        }
        let key = (port.str_at(&["protocol"]).to_owned(), own);
        if seen.contains(&key) {
            return Err(Refusal::Duplicate(key.0, key.1));
        }
        seen.push(key);
    }
    Ok(())
}

fn number(port: &Value) -> i64 {
    port.get("port").and_then(Value::as_i64).unwrap_or(0)
}

fn health_check_port(service: &mut Value, ports: &mut Ports<'_>) -> Result<(), String> {
    let asked = spec::int(service, "healthCheckNodePort");
    if asked != 0 {
        return ports
            .take(asked)
            .map_err(|e| format!("failed to allocate requested HealthCheck NodePort {asked}: {e}"));
    }
    let port = ports
        .take_any()
        .map_err(|e| format!("failed to allocate a HealthCheck NodePort 0: {e}"))?;
    service.set_at(&["spec", "healthCheckNodePort"], port.into());
    Ok(())
}

/// What one write was given, and what is to be given back once it is stored.
pub struct Granted {
    allocators: Arc<Allocators>,
    namespace: String,
    name: String,
    dry_run: bool,
    settled: bool,
    addresses: Vec<IpAddr>,
    ports: Vec<i64>,
    later_addresses: Vec<IpAddr>,
    later_ports: Vec<i64>,
}

impl Granted {
    fn new(allocators: &Arc<Allocators>, service: &Value, dry_run: bool) -> Granted {
        Granted {
            allocators: allocators.clone(),
            namespace: meta::namespace(service).to_owned(),
            name: meta::name(service).to_owned(),
            dry_run,
            settled: false,
            addresses: Vec::new(),
            ports: Vec::new(),
            later_addresses: Vec::new(),
            later_ports: Vec::new(),
        }
    }

    /// This, unless a step failed: then what earlier steps took is given back.
    async fn unless(mut self, outcome: StatusResult<()>) -> StatusResult<Granted> {
        match outcome {
            Ok(()) => Ok(self),
            Err(status) => {
                self.give_back().await;
                Err(status)
            }
        }
    }

    async fn give_back(&mut self) {
        self.settled = true;
        if self.dry_run {
            return;
        }
        let (addresses, ports) = (std::mem::take(&mut self.addresses), std::mem::take(&mut self.ports));
        give(&self.allocators, addresses, ports).await;
    }
}

async fn give(allocators: &Allocators, addresses: Vec<IpAddr>, ports: Vec<i64>) {
    for address in addresses {
        allocators.addresses.give_back(address).await;
    }
    allocators.give_ports_back(&ports).await;
}

impl Reservation for Granted {
    fn commit(mut self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.settled = true;
            if !self.dry_run {
                let (addresses, ports) = (
                    std::mem::take(&mut self.later_addresses),
                    std::mem::take(&mut self.later_ports),
                );
                give(&self.allocators, addresses, ports).await;
            }
        })
    }

    fn release(mut self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move { self.give_back().await })
    }
}

impl Drop for Granted {
    /// The request was given up, perhaps while the store was writing: what the service does not hold a while later is
    /// given back.
    fn drop(&mut self) {
        if self.settled || self.dry_run || self.addresses.is_empty() && self.ports.is_empty() {
            return;
        }
        let (allocators, namespace, name) = (self.allocators.clone(), self.namespace.clone(), self.name.clone());
        let (mut addresses, mut ports) = (std::mem::take(&mut self.addresses), std::mem::take(&mut self.ports));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                tokio::time::sleep(OUTCOME_KNOWN).await;
                // if even that fails, the next repair finds them
                let Ok(service) = allocators.service(&namespace, &name).await else {
                    return;
                };
                let service = service.unwrap_or_default();
                addresses.retain(|a| !list(&service, "clusterIPs").contains(&a.to_string().as_str()));
                ports.retain(|p| !held_ports(&service).contains(p));
                give(&allocators, addresses, ports).await;
            });
        }
    }
}

/// The node ports of a service, that of its health check included.
pub(super) fn held_ports(service: &Value) -> Vec<i64> {
    let mut ports = spec::node_ports(service);
    if spec::needs_health_check(service) {
        ports.push(spec::int(service, "healthCheckNodePort"));
    }
    ports.retain(|p| *p != 0);
    ports
}
