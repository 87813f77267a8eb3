//! `discovery.k8s.io`: EndpointSlice, a bounded part of a service's endpoints.

use std::collections::HashSet;

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{Value, meta, names};
use triptych_registry::age::age;
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::strategy::{Context, Strategy};

use crate::kinds::Kinds;
use crate::printing::first_three;
use crate::validation::addresses::{endpoint_ip, is_ipv6, legacy_ip};
use crate::validation::{Cursor, check, label_selector};

const MAX_ENDPOINTS: usize = 1000;
const MAX_PORTS: usize = 20000;
const MAX_ADDRESSES: usize = 100;
const MAX_TOPOLOGY_LABELS: usize = 16;
const MAX_HINTS: usize = 8;
const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";

/// Gives the kinds of this group their strategies.
pub fn register(kinds: &mut Kinds) {
    kinds.strategy("discovery.k8s.io", "endpointslices", EndpointSlices);
}

/// The strategy of `endpointslices`.
pub struct EndpointSlices;

impl Strategy for EndpointSlices {
    fn prepare_create(&self, _cx: &Context, new: &mut Value) {
        drop_topology(new, &HashSet::new());
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |slice| whole(slice, true));
    }

    fn prepare_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        if new.get("endpoints") == old.get("endpoints") {
            return;
        }
        let nodes = old.array_at(&["endpoints"]).iter();
        let nodes = nodes.map(|e| e.str_at(&["deprecatedTopology", HOSTNAME_LABEL]).to_owned());
        drop_topology(new, &nodes.filter(|n| !n.is_empty()).collect());
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |slice| {
            // what an older server accepted stays acceptable while it is not touched
            whole(slice, new.get("endpoints") != old.get("endpoints"));
            let kind = slice.field("addressType");
            if kind.str() != old.str_at(&["addressType"]) {
                kind.invalid(kind.str(), "field is immutable");
            }
        });
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Whole
    }

    fn warnings(&self, _cx: &Context, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none() && new.str_at(&["addressType"]) == "FQDN" {
            warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
        }
        let manager = meta::label(new, "endpointslice.kubernetes.io/managed-by");
        if matches!(
            manager,
            Some("endpointslice-controller.k8s.io" | "endpointslicemirroring-controller.k8s.io")
        ) {
            return warnings;
        }
        for (i, endpoint) in new.array_at(&["endpoints"]).iter().enumerate() {
            for (j, address) in endpoint.array_at(&["addresses"]).iter().enumerate() {
                let path = format!("endpoints[{i}].addresses[{j}]");
                warnings.extend(names::ip_warnings(&path, address.as_str().unwrap_or("")));
            }
        }
        warnings
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let port = |port: &Value| match (port.get("port").and_then(Value::as_i64), port.get("name")) {
            (Some(number), _) => number.to_string(),
            (None, Some(name)) => name.as_str().unwrap_or("").to_owned(),
            (None, None) => "*".to_owned(),
        };
        let ports: Vec<String> = object.array_at(&["ports"]).iter().map(port).collect();
        let endpoints = object.array_at(&["endpoints"]).iter();
        let addresses = endpoints.flat_map(|e| e.array_at(&["addresses"]));
        let addresses: Vec<String> = addresses.map(|a| a.as_str().unwrap_or("").to_owned()).collect();
        Some(vec![
            meta::name(object).into(),
            object.str_at(&["addressType"]).into(),
            first_three(&ports).into(),
            first_three(&addresses).into(),
            age(object, now).into(),
        ])
    }
}

/// `v1` has no topology; a node that the old object named in it becomes `nodeName`.
fn drop_topology(slice: &mut Value, known_nodes: &HashSet<String>) {
    let endpoints = slice.get_mut("endpoints").and_then(Value::as_array_mut);
    for endpoint in endpoints.into_iter().flatten() {
        let node = endpoint.str_at(&["deprecatedTopology", HOSTNAME_LABEL]).to_owned();
        let usable = known_nodes.contains(&node) && names::dns1123_subdomain(&node).is_empty();
        if usable && endpoint.get("nodeName").is_none() {
            endpoint.set_at(&["nodeName"], node.into());
        }
        endpoint.remove_at(&["deprecatedTopology"]);
    }
}

fn whole(slice: Cursor<'_>, endpoints_too: bool) {
    let kind = slice.field("addressType");
    match kind.str() {
        "" => kind.required(""),
        "FQDN" | "IPv4" | "IPv6" => {}
        _ => kind.not_supported(&["FQDN", "IPv4", "IPv6"]),
    }
    ports(slice.field("ports"));
    if endpoints_too {
        endpoints(slice.field("endpoints"), kind.str());
    }
}

fn ports(ports: Cursor<'_>) {
    if ports.len() > MAX_PORTS {
        ports.too_many(MAX_PORTS);
        return;
    }
    let mut seen = HashSet::new();
    for port in ports.items() {
        let name = port.field("name");
        if !name.is_empty() {
            name.invalid_text(names::dns1123_label(name.str()));
        }
        if !seen.insert(name.str()) {
            name.duplicate(name.str());
        }
        let protocol = port.field("protocol");
        match protocol.value().map(|_| protocol.str()) {
            None => protocol.required(""),
            Some("TCP" | "UDP" | "SCTP") => {}
            Some(_) => protocol.not_supported(&["SCTP", "TCP", "UDP"]),
        }
        if let Some(app) = port.given("appProtocol") {
            app.invalid_text(names::qualified_name(app.str()));
        }
    }
}

fn endpoints(endpoints: Cursor<'_>, kind: &str) {
    if endpoints.len() > MAX_ENDPOINTS {
        endpoints.too_many(MAX_ENDPOINTS);
        return;
    }
    for endpoint in endpoints.items() {
        let addresses = endpoint.field("addresses");
        if addresses.is_empty() {
            addresses.required("must contain at least 1 address");
        } else if addresses.len() > MAX_ADDRESSES {
            addresses.too_many(MAX_ADDRESSES);
        }
        addresses.items().for_each(|a| address(addresses, a, kind));
        if let Some(node) = endpoint.given("nodeName") {
            node.invalid_text(names::dns1123_subdomain(node.str()));
        }
        let topology = endpoint.field("deprecatedTopology");
        if topology.len() > MAX_TOPOLOGY_LABELS {
            topology.too_many(MAX_TOPOLOGY_LABELS);
        }
        label_selector::labels(topology);
        if let Some(hostname) = endpoint.given("hostname") {
            hostname.invalid_text(names::dns1123_label(hostname.str()));
        }
        if let Some(given) = endpoint.given("hints") {
            hints(given);
        }
    }
}

fn address(addresses: Cursor<'_>, address: Cursor<'_>, kind: &str) {
    let text = address.str();
    match kind {
        "IPv4" if legacy_ip(address, &[]) => {
            if is_ipv6(text) {
                addresses.invalid(text, "must be an IPv4 address");
            }
            endpoint_ip(address);
        }
        "IPv6" => {
            let messages = names::ip(text);
            if messages.is_empty() {
                if !is_ipv6(text) {
                    addresses.invalid(text, "must be an IPv6 address");
                }
                endpoint_ip(address);
            }
            address.invalid_text(messages);
        }
        "FQDN" => domain_name(address),
        _ => {}
    }
}

/// A fully qualified domain name of at least two labels.
fn domain_name(address: Cursor<'_>) {
    let name = address.str();
    if name.is_empty() {
        address.required("");
        return;
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let messages = names::dns1123_subdomain(name);
    if !messages.is_empty() {
        address.invalid(name, messages.join(","));
    } else if !name.contains('.') {
        address.invalid(name, "should be a domain with at least two segments separated by dots");
    } else if let Some(label) = name.split('.').find(|l| !names::dns1123_label(l).is_empty()) {
        address.invalid(label, names::dns1123_label(label).join(","));
    }
}

fn hints(hints: Cursor<'_>) {
    type Rule = fn(&str) -> Vec<String>;
    let of: [(&'static str, Rule); 2] = [("forZones", names::label_value), ("forNodes", names::dns1123_subdomain)];
    for (member, rule) in of {
        let list = hints.field(member);
        if list.len() > MAX_HINTS {
            list.too_many(MAX_HINTS);
            return;
        }
        let mut seen = HashSet::new();
        for hint in list.items() {
            let name = hint.field("name");
            if !seen.insert(name.str()) {
                name.duplicate(name.str());
            }
            name.invalid_text(rule(name.str()));
        }
    }
}
