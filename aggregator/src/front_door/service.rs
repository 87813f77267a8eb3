//! The Service `kubernetes`: the first address of the cluster's service range, forwarding to this server's port.

use triptych_client::Api;
use triptych_object::{Status, StatusResult, Value};

const SERVICES: &str = "/api/v1/namespaces/default/services";
/// The ServiceCIDR that core-api makes of its `--service-cluster-ip-range`.
const SERVICE_CIDR: &str = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes";

/// Creates the Service if there is none. One that is there is left as it is, as kube-apiserver does.
pub async fn ensure(core_api: &Api, port: u16) -> StatusResult<()> {
    if core_api.find(&format!("{SERVICES}/kubernetes")).await?.is_some() {
        return Ok(());
    }
    let range = core_api.get(SERVICE_CIDR).await?;
    let range = range.array_at(&["spec", "cidrs"]).first().and_then(Value::as_str);
    let address = range
        .and_then(first_address)
        .ok_or_else(|| Status::internal("the ServiceCIDR kubernetes names no range"))?;
    match core_api.create(SERVICES, &service(&address, port)).await {
        Err(status) if status.reason != "AlreadyExists" => Err(status),
        _ => Ok(()),
    }
}

fn service(address: &str, port: u16) -> Value {
    let labels = Value::from([("component", "apiserver".into()), ("provider", "kubernetes".into())]);
    let metadata = Value::from([
        ("name", "kubernetes".into()),
        ("namespace", "default".into()),
        ("labels", labels),
    ]);
    let https = Value::from([
        ("name", "https".into()),
        ("protocol", "TCP".into()),
        ("port", 443.into()),
        ("targetPort", i64::from(port).into()),
    ]);
    let spec = Value::from([
        ("ports", Value::Array(vec![https])),
        ("clusterIP", address.into()),
        ("type", "ClusterIP".into()),
        ("sessionAffinity", "None".into()),
        ("ipFamilyPolicy", "SingleStack".into()),
    ]);
    Value::from([
        ("apiVersion", "v1".into()),
        ("kind", "Service".into()),
        ("metadata", metadata),
        ("spec", spec),
    ])
}

/// The address after a range's own.
fn first_address(range: &str) -> Option<String> {
    let (base, _) = range.split_once('/')?;
    let next = match base.parse().ok()? {
        std::net::IpAddr::V4(ip) => std::net::Ipv4Addr::from(u32::from(ip).checked_add(1)?).to_string(),
        std::net::IpAddr::V6(ip) => std::net::Ipv6Addr::from(u128::from(ip).checked_add(1)?).to_string(),
    };
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_has_the_first_address_of_the_range() {
        assert_eq!(first_address("10.0.0.0/24").as_deref(), Some("10.0.0.1"));
        assert_eq!(first_address("fd00:10::/108").as_deref(), Some("fd00:10::1"));
        assert_eq!(first_address("x/8"), None);
    }
}
