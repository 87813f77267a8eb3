//! Service: what its type means, the addresses and ports it is given, and who proxies to it.

mod addresses;
mod allocation;
mod carry;
mod families;
mod node_ports;
mod repair;
mod rules;
mod spec;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{StatusResult, Value, json, meta};
use triptych_registry::age::age;
use triptych_registry::collection::Collection;
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::strategy::{Context, Reservation, Strategy};
use triptych_storage::{Expect, Write};

pub use addresses::DEFAULT_RANGE;
pub use allocation::Allocators;
pub use repair::Repair;

use crate::kinds::Kinds;
use crate::networking::ingress;
use crate::printing;
use crate::validation::check;
use spec::{list, text};

/// Gives services their strategies; `allocators` is shared by all of them.
pub fn register(kinds: &mut Kinds, context: &crate::context::Context) {
    let allocators = Allocators::new(context);
    let endpoints = context.collection("", "endpoints").cloned();
    let services = Services { allocators, endpoints };
    kinds.subresource("", "services", "status", Status(services.clone()));
    kinds.strategy("", "services", services);
}

/// The strategy of `services`.
#[derive(Clone)]
pub struct Services {
    allocators: Arc<Allocators>,
    endpoints: Option<Arc<Collection>>,
}

/// The strategy of `services/status`.
pub struct Status(Services);

impl Strategy for Services {
    fn default(&self, service: &mut Value) {
        default(service);
    }

    fn begin<'a>(
        &'a self,
        cx: &'a Context,
        new: &'a mut Value,
        old: Option<&'a Value>,
    ) -> BoxFuture<'a, StatusResult<Option<Box<dyn Reservation>>>> {
        Box::pin(async move {
            let granted = match old {
                None => {
                    carry::normalise_cluster_ips(new, None);
                    self.allocators.create(cx, new).await?
                }
                Some(old) => {
                    carry::keep_allocated(new, old);
                    carry::normalise_cluster_ips(new, Some(old));
                    self.allocators.update(cx, new, old).await?
                }
            };
            // kube-apiserver stores it and leaves it out whenever it reads the service
            if text(new, "type") == "ExternalName" {
                new.remove_at(&["spec", "internalTrafficPolicy"]);
            }
            let granted: Box<dyn Reservation> = Box::new(granted);
            Ok(Some(granted))
        })
    }

    fn prepare_create(&self, _cx: &Context, new: &mut Value) {
        new.set_at(&["status"], Value::from([("loadBalancer", Value::object())]));
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |service| rules::whole(service, None));
    }

    fn prepare_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        let status = old.get("status").cloned().unwrap_or_else(Value::object);
        new.set_at(&["status"], status);
        carry::drop_left_behind(new, old);
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |service| {
            rules::change(service, old);
            rules::whole(service, Some(old));
        });
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }

    fn warnings(&self, _cx: &Context, new: &Value, _old: Option<&Value>) -> Vec<String> {
        rules::warnings(new)
    }

    fn after_delete<'a>(&'a self, _cx: &'a Context, object: &'a Value) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.delete_endpoints(meta::namespace(object), meta::name(object)).await;
            self.allocators.release(object).await;
        })
    }

    fn cells(&self, service: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let or_none = |text: String| if text.is_empty() { "<none>".to_owned() } else { text };
        let ports = spec::ports(service).iter().map(|port| {
            let (number, protocol) = (
                port.get("port").and_then(Value::as_i64).unwrap_or(0),
                port.str_at(&["protocol"]),
            );
            match spec::node_port(port) {
                0 => format!("{number}/{protocol}"),
                node_port => format!("{number}:{node_port}/{protocol}"),
            }
        });
        let ports = ports.collect::<Vec<_>>().join(",");
        let address = list(service, "clusterIPs").first().copied().unwrap_or("").to_owned();
        Some(vec![
            meta::name(service).into(),
            text(service, "type").into(),
            or_none(address).into(),
            external_address(service).into(),
            or_none(ports).into(),
            age(service, now).into(),
            printing::labels(service.at(&["spec", "selector"])).into(),
        ])
    }
}

impl Services {
    /// The Endpoints of a service go with it, so that a new one of its name does not inherit them.
    async fn delete_endpoints(&self, namespace: &str, name: &str) {
        let Some(endpoints) = &self.endpoints else { return };
        let Ok(key) = endpoints.key(namespace, name) else {
            return;
        };
        while let Ok((Some(object), _)) = endpoints.get_live(&key).await {
            // one that finalizers hold is none of ours to remove
            let held = json::from_slice(object.bytes()).is_ok_and(|o| meta::finalizers(&o).next().is_some());
            let write = Write {
                key: &key,
                expect: Expect::Revision(object.revision()),
                put: None,
                ttl: None,
            };
            if held
                || !matches!(
                    endpoints.store.write(write).await,
                    Err(triptych_storage::WriteError::Conflict(_))
                )
            {
                return;
            }
        }
    }
}

impl Strategy for Status {
    fn default(&self, service: &mut Value) {
        default(service);
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |service| rules::status(service, old));
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }

    fn warnings(&self, _cx: &Context, new: &Value, _old: Option<&Value>) -> Vec<String> {
        ingress::balancer_warnings(new)
    }

    fn after_delete<'a>(&'a self, cx: &'a Context, object: &'a Value) -> BoxFuture<'a, ()> {
        // taking the last finalizer through the status deletes as well
        self.0.after_delete(cx, object)
    }
}

fn default(service: &mut Value) {
    let kind = text(service, "type").to_owned();
    let affinity = text(service, "sessionAffinity").to_owned();
    match affinity.as_str() {
        "None" => drop(service.remove_at(&["spec", "sessionAffinityConfig"])),
        "ClientIP" => {
            const TIMEOUT: [&str; 4] = ["spec", "sessionAffinityConfig", "clientIP", "timeoutSeconds"];
            if service.at(&TIMEOUT).is_none() {
                let timeout = Value::from([("timeoutSeconds", Value::Int(10800))]);
                service.set_at(&["spec", "sessionAffinityConfig"], Value::from([("clientIP", timeout)]));
            }
        }
        _ => {}
    }
    for port in spec::ports_mut(service) {
        let unset = match port.get("targetPort") {
            None | Some(Value::Int(0)) => true,
            Some(value) => value.as_str() == Some(""),
        };
        if let (true, Some(number)) = (unset, port.get("port").cloned()) {
            port.set_at(&["targetPort"], number);
        }
    }
    if spec::is_externally_accessible(service) && text(service, "externalTrafficPolicy").is_empty() {
        service.set_at(&["spec", "externalTrafficPolicy"], "Cluster".into());
    }
    let internal = service.at(&["spec", "internalTrafficPolicy"]).is_some();
    if !internal && matches!(kind.as_str(), "NodePort" | "LoadBalancer" | "ClusterIP") {
        service.set_at(&["spec", "internalTrafficPolicy"], "Cluster".into());
    }
    if kind != "LoadBalancer" {
        return;
    }
    if service.at(&["spec", "allocateLoadBalancerNodePorts"]).is_none() {
        service.set_at(&["spec", "allocateLoadBalancerNodePorts"], true.into());
    }
    let ingress = service
        .at_mut(&["status", "loadBalancer", "ingress"])
        .and_then(Value::as_array_mut);
    for item in ingress.into_iter().flatten() {
        if !item.str_at(&["ip"]).is_empty() && item.get("ipMode").is_none() {
            item.set_at(&["ipMode"], "VIP".into());
        }
    }
}

fn external_address(service: &Value) -> String {
    let own = list(service, "externalIPs").join(",");
    match text(service, "type") {
        "ClusterIP" | "NodePort" if own.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => own,
        "LoadBalancer" => match (printing::load_balancer(service), own) {
            (balancer, own) if balancer.is_empty() && own.is_empty() => "<pending>".to_owned(),
            (balancer, own) if balancer.is_empty() => own,
            (balancer, own) if own.is_empty() => balancer,
            (balancer, own) => format!("{balancer},{own}"),
        },
        "ExternalName" => text(service, "externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}
