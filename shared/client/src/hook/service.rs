//! Where a Service leads (kube-apiserver's cluster resolver).

use triptych_object::Value;

/// The port of a Service with this number.
pub fn port(service: &Value, number: u16) -> Option<&Value> {
    let mut ports = service.array_at(&["spec", "ports"]).iter();
    ports.find(|port| port.get("port").and_then(Value::as_i64) == Some(i64::from(number)))
}

/// Why a Service has no such port.
pub fn no_such_port(name: &str, number: u16) -> String {
    format!("no service port {number} found for service {name:?}")
}

/// The host and port that a Service's port is reached under from within the cluster.
pub fn cluster(service: &Value, name: &str, number: u16) -> Result<(String, u16), String> {
    match service.str_at(&["spec", "type"]) {
        kind @ ("ClusterIP" | "LoadBalancer" | "NodePort") => {
            let ip = service.str_at(&["spec", "clusterIP"]);
            if kind == "ClusterIP" && ip == "None" {
                return Err(r#"cannot route to service with ClusterIP "None""#.to_owned());
            }
            port(service, number).ok_or_else(|| no_such_port(name, number))?;
            Ok((ip.to_owned(), number))
        }
        "ExternalName" => Ok((service.str_at(&["spec", "externalName"]).to_owned(), number)),
        other => Err(format!("unsupported service type {other:?}")),
    }
}
