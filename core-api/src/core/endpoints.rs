//! Endpoints: addresses and ports of a service, superseded by EndpointSlice.

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::names;
use triptych_object::{Value, meta};
use triptych_registry::age::age;
use triptych_registry::strategy::{Context, Strategy};

use crate::validation::addresses::{endpoint_ip, legacy_ip};
use crate::validation::port_numbers::protocol;
use crate::validation::{Cursor, check};

/// The strategy of `endpoints`.
pub struct EndpointsLists;

impl Strategy for EndpointsLists {
    fn deprecation(&self) -> Option<&'static str> {
        Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |endpoints| subsets(endpoints.field("subsets")));
    }

    fn validate_update(&self, cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        // what an older server accepted stays acceptable while it is not touched
        if new.get("subsets") != old.get("subsets") {
            self.validate_create(cx, new, errors);
        }
    }

    fn warnings(&self, _cx: &Context, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let controller = meta::label(new, "endpoints.kubernetes.io/managed-by") == Some("endpoint-controller");
        if controller {
            return Vec::new();
        }
        let mut warnings = Vec::new();
        for (i, subset) in new.array_at(&["subsets"]).iter().enumerate() {
            for member in ["addresses", "notReadyAddresses"] {
                for (j, address) in subset.array_at(&[member]).iter().enumerate() {
                    let path = format!("subsets[{i}].{member}[{j}].ip");
                    warnings.extend(names::ip_warnings(&path, address.str_at(&["ip"])));
                }
            }
        }
        warnings
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(vec![
            meta::name(object).into(),
            summary(object).into(),
            age(object, now).into(),
        ])
    }
}

/// The first three addresses with their ports.
fn summary(endpoints: &Value) -> String {
    const SHOWN: usize = 3;
    let subsets = endpoints.array_at(&["subsets"]);
    if subsets.is_empty() {
        return "<none>".to_owned();
    }
    let mut list = Vec::new();
    let mut count = 0;
    for subset in subsets {
        let addresses = subset.array_at(&["addresses"]);
        let ports = subset.array_at(&["ports"]);
        count += addresses.len() * ports.len().max(1);
        if ports.is_empty() {
            list.extend(addresses.iter().map(|a| a.str_at(&["ip"]).to_owned()).take(SHOWN));
        }
        for port in ports {
            let port = port.get("port").and_then(Value::as_i64).unwrap_or(0);
            let with_port = |a: &Value| match a.str_at(&["ip"]) {
                v6 if v6.contains(':') => format!("[{v6}]:{port}"),
                v4 => format!("{v4}:{port}"),
            };
            list.extend(addresses.iter().map(with_port).take(SHOWN));
        }
    }
    list.truncate(SHOWN);
    let list = list.join(",");
    if count > SHOWN {
        format!("{list} + {} more...", count - SHOWN)
    } else {
        list
    }
}

fn subsets(subsets: Cursor<'_>) {
    for subset in subsets.items() {
        let (ready, not_ready) = (subset.field("addresses"), subset.field("notReadyAddresses"));
        if ready.is_empty() && not_ready.is_empty() {
            subset.required("must specify `addresses` or `notReadyAddresses`");
        }
        ready.items().chain(not_ready.items()).for_each(address);
        let ports = subset.field("ports");
        let named = ports.len() > 1;
        ports.items().for_each(|p| port(p, named));
    }
}

fn address(address: Cursor<'_>) {
    let ip = address.field("ip");
    legacy_ip(ip, &[]);
    let hostname = address.field("hostname");
    if !hostname.is_empty() {
        hostname.invalid_text(names::dns1123_label(hostname.str()));
    }
    if let Some(node) = address.given("nodeName") {
        node.invalid_text(names::dns1123_subdomain(node.str()));
    }
    endpoint_ip(ip);
}

fn port(port: Cursor<'_>, named: bool) {
    let name = port.field("name");
    if !name.is_empty() {
        name.invalid_text(names::dns1123_label(name.str()));
    } else if named {
        name.required("");
    }
    let number = port.field("port");
    for message in names::port_num(number.int()) {
        number.invalid(number.int(), message);
    }
    protocol(port.field("protocol"));
    if let Some(app) = port.given("appProtocol") {
        app.invalid_text(names::qualified_name(app.str()));
    }
}
