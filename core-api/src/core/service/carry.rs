//! What an update leaves out although it is allocated, and what a change of type leaves behind.

use std::collections::{BTreeSet, HashMap};

use triptych_object::Value;

use super::spec::{self, list, node_port, set_list, set_text, text};

/// Makes `clusterIPs` follow `clusterIP` for clients that know only the latter.
pub fn normalise_cluster_ips(new: &mut Value, old: Option<&Value>) {
    let single = text(new, "clusterIP").to_owned();
    let owned = |service: &Value| {
        list(service, "clusterIPs")
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let many = owned(new);
    let Some(old) = old else {
        if !single.is_empty() && many.is_empty() {
            set_list(new, "clusterIPs", vec![single]);
        }
        return;
    };
    let (old_single, old_many) = (text(old, "clusterIP"), owned(old));
    if !old_many.is_empty() && many.is_empty() && old_single == single {
        set_list(new, "clusterIPs", old_many.clone());
    }
    if old_single != single && owned(new) == old_many {
        // the client cleared or changed the one field and left the other as it was
        let cleared = !old_single.is_empty() && single.is_empty();
        let follows = if cleared { Vec::new() } else { vec![single] };
        set_list(new, "clusterIPs", follows);
    }
}

/// Keeps allocated values that the client did not send, so that sending a service again changes nothing.
pub fn keep_allocated(new: &mut Value, old: &Value) {
    if !spec::is_external_name(old) && !spec::is_external_name(new) {
        if text(new, "clusterIP").is_empty() {
            let old = text(old, "clusterIP").to_owned();
            set_text(new, "clusterIP", &old);
        }
        if list(new, "clusterIPs").is_empty() {
            let old = list(old, "clusterIPs").into_iter().map(str::to_owned).collect();
            set_list(new, "clusterIPs", old);
        }
    }
    let keeps = |service: &Value| spec::has_node_ports(service) && spec::allocates_node_ports(service);
    if keeps(old) && keeps(new) {
        keep_node_ports(new, old);
    }
    if spec::needs_health_check(old)
        && spec::needs_health_check(new)
        && spec::int(new, "healthCheckNodePort") == 0
        && spec::int(old, "healthCheckNodePort") != 0
    {
        new.set_at(
            &["spec", "healthCheckNodePort"],
            spec::int(old, "healthCheckNodePort").into(),
        );
    }
}

/// A port without a node port gets that of the old port of its name, unless the client gave it to another.
fn keep_node_ports(new: &mut Value, old: &Value) {
    let in_new: BTreeSet<i64> = spec::node_ports(new).into_iter().collect();
    let kept: BTreeSet<i64> = spec::node_ports(old)
        .into_iter()
        .filter(|p| in_new.contains(p))
        .collect();
    let by_name: HashMap<&str, i64> = spec::ports(old)
        .iter()
        .map(|port| (port.str_at(&["name"]), node_port(port)))
        .collect();
    for port in spec::ports_mut(new) {
        let before = by_name.get(port.str_at(&["name"])).copied().unwrap_or(0);
        if node_port(port) == 0 && before != 0 && !kept.contains(&before) {
            port.set_at(&["nodePort"], before.into());
        }
    }
}

/// Drops what the new type has no use for, where the client did not touch it.
pub fn drop_left_behind(new: &mut Value, old: &Value) {
    let same = |new: &Value, member: &str| new.at(&["spec", member]) == old.at(&["spec", member]);
    if !spec::is_external_name(old) && spec::is_external_name(new) {
        if same(new, "clusterIP") && same(new, "clusterIPs") {
            new.remove_at(&["spec", "clusterIP"]);
            new.remove_at(&["spec", "clusterIPs"]);
        }
        for member in ["ipFamilies", "ipFamilyPolicy"] {
            if same(new, member) {
                new.remove_at(&["spec", member]);
            }
        }
    }
    if spec::has_node_ports(old) && !spec::has_node_ports(new) {
        let before: BTreeSet<i64> = spec::node_ports(old).into_iter().collect();
        if spec::node_ports(new).iter().all(|p| before.contains(p)) {
            for port in spec::ports_mut(new) {
                port.remove_at(&["nodePort"]);
            }
        }
    }
    if spec::needs_health_check(old) && !spec::needs_health_check(new) && same(new, "healthCheckNodePort") {
        new.remove_at(&["spec", "healthCheckNodePort"]);
    }
    if spec::is_load_balancer(old) && !spec::is_load_balancer(new) {
        for member in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if same(new, member) {
                new.remove_at(&["spec", member]);
            }
        }
    }
    if spec::is_externally_accessible(old) && !spec::is_externally_accessible(new) && same(new, "externalTrafficPolicy")
    {
        new.remove_at(&["spec", "externalTrafficPolicy"]);
    }
    if !spec::is_external_name(old) && spec::is_external_name(new) && same(new, "internalTrafficPolicy") {
        new.remove_at(&["spec", "internalTrafficPolicy"]);
    }
    if !spec::is_load_balancer(new) {
        new.set_at(&["status", "loadBalancer"], Value::object());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_object::json;

    fn service(text: &str) -> Value {
        json::from_slice(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_service_sent_again_without_what_was_allocated_keeps_it() {
        let old = service(
            r#"{"spec":{"type":"NodePort","clusterIP":"10.0.0.5","clusterIPs":["10.0.0.5"],"ports":[{"name":"a","port":80,"nodePort":30001}]}}"#,
        );
        let mut new = service(r#"{"spec":{"type":"NodePort","ports":[{"name":"a","port":81}]}}"#);
        keep_allocated(&mut new, &old);
        assert_eq!(list(&new, "clusterIPs"), ["10.0.0.5"]);
        assert_eq!(spec::node_ports(&new), [30001]);
    }

    #[test]
    fn a_service_that_becomes_an_alias_loses_its_addresses() {
        let old = service(
            r#"{"spec":{"type":"ClusterIP","clusterIP":"10.0.0.5","clusterIPs":["10.0.0.5"],"ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack"}}"#,
        );
        let mut new = old.clone();
        new.set_at(&["spec", "type"], "ExternalName".into());
        drop_left_behind(&mut new, &old);
        assert_eq!(new.at(&["spec"]), Some(&Value::from([("type", "ExternalName".into())])));
    }
}
