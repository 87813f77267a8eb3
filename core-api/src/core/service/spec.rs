//! Reading a service: what its type makes of its fields.

use triptych_object::Value;

/// A text of the specification, empty if absent.
pub fn text<'a>(service: &'a Value, member: &str) -> &'a str {
    service.str_at(&["spec", member])
}

/// A list of texts of the specification.
pub fn list<'a>(service: &'a Value, member: &str) -> Vec<&'a str> {
    let items = service.array_at(&["spec", member]).iter();
    items.map(|v| v.as_str().unwrap_or("")).collect()
}

/// Sets a list of texts; none removes the member.
pub fn set_list(service: &mut Value, member: &str, items: Vec<String>) {
    if items.is_empty() {
        service.remove_at(&["spec", member]);
    } else {
        service.set_at(&["spec", member], items.into());
    }
}

/// Sets a text; an empty one removes the member.
pub fn set_text(service: &mut Value, member: &str, text: &str) {
    if text.is_empty() {
        service.remove_at(&["spec", member]);
    } else {
        service.set_at(&["spec", member], text.into());
    }
}

/// An integer of the specification, 0 if absent.
pub fn int(service: &Value, member: &str) -> i64 {
    service.at(&["spec", member]).and_then(Value::as_i64).unwrap_or(0)
}

/// The service's ports.
pub fn ports(service: &Value) -> &[Value] {
    service.array_at(&["spec", "ports"])
}

/// The service's ports, to change.
pub fn ports_mut(service: &mut Value) -> &mut [Value] {
    let ports = service.at_mut(&["spec", "ports"]).and_then(Value::as_array_mut);
    ports.map_or(&mut [], |p| p.as_mut_slice())
}

/// A port's node port, 0 if it has none.
pub fn node_port(port: &Value) -> i64 {
    port.get("nodePort").and_then(Value::as_i64).unwrap_or(0)
}

/// The node ports of a service, as often as they occur.
pub fn node_ports(service: &Value) -> Vec<i64> {
    ports(service).iter().map(node_port).filter(|p| *p != 0).collect()
}

/// An alias outside the cluster, without addresses and ports of its own.
pub fn is_external_name(service: &Value) -> bool {
    text(service, "type") == "ExternalName"
}

/// Has no address by choice.
pub fn is_headless(service: &Value) -> bool {
    list(service, "clusterIPs") == ["None"]
}

/// Of type LoadBalancer.
pub fn is_load_balancer(service: &Value) -> bool {
    text(service, "type") == "LoadBalancer"
}

/// Of a type that opens ports on nodes.
pub fn has_node_ports(service: &Value) -> bool {
    matches!(text(service, "type"), "NodePort" | "LoadBalancer")
}

/// Ports without a node port get one.
pub fn allocates_node_ports(service: &Value) -> bool {
    match text(service, "type") {
        "NodePort" => true,
        "LoadBalancer" => {
            let wanted = service.at(&["spec", "allocateLoadBalancerNodePorts"]);
            wanted.and_then(Value::as_bool).unwrap_or(true)
        }
        _ => false,
    }
}

/// Needs a node port on which load balancers learn where its endpoints are.
pub fn needs_health_check(service: &Value) -> bool {
    is_load_balancer(service) && text(service, "externalTrafficPolicy") == "Local"
}

/// Can be reached from outside the cluster.
pub fn is_externally_accessible(service: &Value) -> bool {
    has_node_ports(service)
        || text(service, "type") == "ClusterIP" && !service.array_at(&["spec", "externalIPs"]).is_empty()
}
