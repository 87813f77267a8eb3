//! From an APIService's Service to addresses: kube-apiserver's service resolver, over mirrors of Services and
//! EndpointSlices that hold what it needs of each.

use std::sync::Arc;

use triptych_client::Api;
use triptych_client::address::Address;
use triptych_client::hook::service;
use triptych_client::mirror::{Mirror, MirrorConfig};
use triptych_object::{Value, json, meta};
use triptych_storage::Source;

use super::condition::Available;
use super::record::ServiceRef;

const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// Services and their endpoints, mirrored from core-api.
pub struct Network {
    services: Arc<Mirror>,
    slices: Arc<Mirror>,
    to_endpoints: bool,
}

impl Network {
    /// Begins to mirror; runs on the current tokio runtime. With `to_endpoints` requests go to endpoints, not to cluster
    /// IPs.
    pub fn start(core_api: &Api, to_endpoints: bool) -> Network {
        let services = MirrorConfig::new("", "v1", "Service", "services", true).reduced_by(reduce_service);
        let slices = MirrorConfig::new("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", true);
        Network {
            services: Mirror::start(core_api.clone(), services),
            slices: Mirror::start(core_api.clone(), slices.reduced_by(reduce_slice)),
            to_endpoints,
        }
    }

    /// The copies.
    pub fn sources(&self) -> [Arc<dyn Source>; 2] {
        [self.services.clone(), self.slices.clone()]
    }

    /// Whether both were complete once.
    pub fn has_synced(&self) -> bool {
        self.services.has_synced() && self.slices.has_synced()
    }

    fn service(&self, service: &ServiceRef) -> Option<Value> {
        let key = self.services.config().key(&service.namespace, &service.name);
        let object = self.services.snapshot()?.get(&key).cloned()?;
        json::from_slice(object.bytes()).ok()
    }

    fn slices(&self, service: &ServiceRef) -> Vec<Value> {
        let prefix = self.slices.config().key(&service.namespace, "");
        let Some(snapshot) = self.slices.snapshot() else {
            return Vec::new();
        };
        let of_service = snapshot
            .range(&prefix)
            .filter(|o| o.label(SERVICE_LABEL).is_some_and(|name| name == service.name));
        of_service.filter_map(|o| json::from_slice(o.bytes()).ok()).collect()
    }

    /// What can be told of the APIService without asking its server; `None` if nothing is wrong.
    pub fn problem(&self, of: &ServiceRef) -> Option<Available> {
        problem(of, self.service(of).as_ref(), &self.slices(of))
    }

    /// Where the server is.
    pub fn resolve(&self, of: &ServiceRef) -> Result<Vec<Address>, String> {
        let service = self
            .service(of)
            .ok_or_else(|| format!("services {:?} not found", of.name))?;
        let places = if self.to_endpoints {
            endpoints(of, &service, &self.slices(of))?
        } else {
            vec![service::cluster(&service, &of.name, of.port)?]
        };
        let addresses = places
            .iter()
            .map(|(host, port)| Address::named(host, *port, &of.host()));
        addresses.collect::<Result<_, _>>().map_err(|e| e.to_string())
    }
}

fn problem(of: &ServiceRef, service: Option<&Value>, slices: &[Value]) -> Option<Available> {
    let ServiceRef { namespace, name, port } = of;
    let Some(service) = service else {
        let message = format!("service/{name} in {namespace:?} is not present");
        return Some(Available::no("ServiceNotFound", message));
    };
    if service.str_at(&["spec", "type"]) != "ClusterIP" {
        return None;
    }
    let Some(found) = service::port(service, *port) else {
        let message = format!("service/{name} in {namespace:?} is not listening on port {port}");
        return Some(Available::no("ServicePortError", message));
    };
    if slices.is_empty() {
        let message = format!("cannot find endpointslices for service/{name} in {namespace:?}");
        return Some(Available::no("EndpointsNotFound", message));
    }
    let port_name = found.str_at(&["name"]);
    let usable =
        |slice: &Value| slice.array_at(&["endpoints"]).iter().any(is_ready) && slice_port(slice, port_name).is_some();
    if !slices.iter().any(usable) {
        let message = format!(
            "endpointslices for service/{name} in {namespace:?} have no addresses with port name {port_name:?}"
        );
        return Some(Available::no("MissingEndpoints", message));
    }
    None
}

fn is_ready(endpoint: &Value) -> bool {
    endpoint.at(&["conditions", "ready"]).and_then(Value::as_bool) != Some(false)
}

fn slice_port(slice: &Value, name: &str) -> Option<u16> {
    let ports = slice.array_at(&["ports"]).iter();
    let named = ports
        .into_iter()
        .find(|p| p.get("name").and_then(Value::as_str) == Some(name));
    u16::try_from(named?.get("port")?.as_i64()?).ok()
}

/// All ready endpoints, of the Service's first IP family if it has any there.
fn endpoints(of: &ServiceRef, service: &Value, slices: &[Value]) -> Result<Vec<(String, u16)>, String> {
    let kind = service.str_at(&["spec", "type"]);
    if !matches!(kind, "ClusterIP" | "LoadBalancer" | "NodePort") {
        return Err(format!("unsupported service type {kind:?}"));
    }
    let port_name = service::port(service, of.port)
        .ok_or_else(|| service::no_such_port(&of.name, of.port))?
        .str_at(&["name"]);
    let family = service
        .array_at(&["spec", "ipFamilies"])
        .first()
        .and_then(Value::as_str);
    let ready = |slice: &Value| -> Vec<(String, u16)> {
        let Some(port) = slice_port(slice, port_name) else {
            return Vec::new();
        };
        let ready = slice.array_at(&["endpoints"]).iter().filter(|e| is_ready(e));
        let first = ready.filter_map(|e| e.array_at(&["addresses"]).first()?.as_str());
        first.map(|ip| (ip.to_owned(), port)).collect()
    };
    let preferred = |slice: &&Value| family.is_none_or(|f| slice.str_at(&["addressType"]) == f);
    let mut found: Vec<(String, u16)> = slices.iter().filter(preferred).flat_map(ready).collect();
    if found.is_empty() {
        found = slices.iter().flat_map(ready).collect();
    }
    if found.is_empty() {
        return Err(format!("no endpoints available for service {:?}", of.name));
    }
    found.sort_unstable();
    Ok(found)
}

/// Leaves of the metadata what a mirror needs.
pub(super) fn keep_identity(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata") {
        keep_only(metadata, &["name", "namespace", "resourceVersion"]);
    }
}

/// Leaves only these members.
pub(super) fn keep_only(object: &mut Value, members: &[&str]) {
    if let Some(object) = object.as_object_mut() {
        object.retain(|name, _| members.contains(&name));
    }
}

fn reduce_service(service: &mut Value) {
    keep_identity(service);
    keep_only(service, &["kind", "apiVersion", "metadata", "spec"]);
    if let Some(spec) = service.get_mut("spec") {
        keep_only(spec, &["type", "clusterIP", "externalName", "ports", "ipFamilies"]);
    }
}

fn reduce_slice(slice: &mut Value) {
    let name = meta::label(slice, SERVICE_LABEL).map(str::to_owned);
    keep_identity(slice);
    if let Some(name) = name {
        meta::set_label(slice, SERVICE_LABEL, &name);
    }
    keep_only(
        slice,
        &["kind", "apiVersion", "metadata", "addressType", "endpoints", "ports"],
    );
    let endpoints = slice.get_mut("endpoints").and_then(Value::as_array_mut);
    for endpoint in endpoints.into_iter().flatten() {
        keep_only(endpoint, &["addresses", "conditions"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        json::from_slice(text.as_bytes()).unwrap()
    }

    fn reference() -> ServiceRef {
        ServiceRef {
            namespace: "n".into(),
            name: "s".into(),
            port: 443,
        }
    }

    const SERVICE: &str =
        r#"{"spec":{"type":"ClusterIP","clusterIP":"10.0.0.9","ports":[{"name":"https","port":443}]}}"#;
    const SLICE: &str = r#"{"addressType":"IPv4","ports":[{"name":"https","port":8443}],"endpoints":[
        {"addresses":["10.1.0.1"],"conditions":{"ready":false}},{"addresses":["10.1.0.2"]}]}"#;

    #[test]
    fn what_is_missing_is_told_in_kube_apiservers_words() {
        let told = |service: Option<&str>, slices: &[&str]| {
            let slices: Vec<Value> = slices.iter().map(|s| value(s)).collect();
            let found = problem(&reference(), service.map(value).as_ref(), &slices);
            found.map(|a| format!("{}: {}", a.reason, a.message))
        };
        assert_eq!(
            told(None, &[]).unwrap(),
            "ServiceNotFound: service/s in \"n\" is not present"
        );
        let other_port = SERVICE.replace("443", "80");
        assert_eq!(
            told(Some(&other_port), &[]).unwrap(),
            "ServicePortError: service/s in \"n\" is not listening on port 443"
        );
        assert_eq!(
            told(Some(SERVICE), &[]).unwrap(),
            "EndpointsNotFound: cannot find endpointslices for service/s in \"n\""
        );
        let not_ready = SLICE.replace(r#",{"addresses":["10.1.0.2"]}"#, "");
        assert_eq!(
            told(Some(SERVICE), &[&not_ready]).unwrap(),
            "MissingEndpoints: endpointslices for service/s in \"n\" have no addresses with port name \"https\""
        );
        assert_eq!(told(Some(SERVICE), &[&not_ready, SLICE]), None);
        assert_eq!(told(Some(r#"{"spec":{"type":"ExternalName"}}"#), &[]), None);
    }

    #[test]
    fn a_service_is_reached_at_its_cluster_ip_or_its_ready_endpoints() {
        let service = value(SERVICE);
        assert_eq!(
            service::cluster(&service, &reference().name, reference().port),
            Ok(("10.0.0.9".to_owned(), 443))
        );
        assert_eq!(
            endpoints(&reference(), &service, &[value(SLICE)]),
            Ok(vec![("10.1.0.2".to_owned(), 8443)])
        );
        let headless = value(&SERVICE.replace("10.0.0.9", "None"));
        assert_eq!(
            service::cluster(&headless, &reference().name, reference().port),
            Err("cannot route to service with ClusterIP \"None\"".to_owned())
        );
        let external = value(r#"{"spec":{"type":"ExternalName","externalName":"api.example.com"}}"#);
        assert_eq!(
            service::cluster(&external, &reference().name, reference().port),
            Ok(("api.example.com".to_owned(), 443))
        );
        assert!(endpoints(&reference(), &external, &[]).is_err());
    }

    #[test]
    fn a_mirrored_slice_keeps_whose_it_is() {
        let mut slice = value(
            r#"{"metadata":{"name":"a","namespace":"n","resourceVersion":"1","labels":{"kubernetes.io/service-name":"s","x":"y"}},
                "addressType":"IPv4","endpoints":[{"addresses":["1.1.1.1"],"nodeName":"x"}],"ports":[]}"#,
        );
        reduce_slice(&mut slice);
        assert_eq!(meta::label(&slice, SERVICE_LABEL), Some("s"));
        assert_eq!(meta::label(&slice, "x"), None);
        assert!(slice.array_at(&["endpoints"])[0].get("nodeName").is_none());
    }
}
