//! Services as webhooks are reached through them.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use triptych_client::hook::{Services, service};
use triptych_object::Value;

use crate::lookup::{Facts, Find};

/// What is needed of a Service.
pub struct Service(Value);

impl Facts for Service {
    fn of(object: &Value) -> Service {
        let spec = |member: &str| object.at(&["spec", member]).cloned().unwrap_or_default();
        let members = ["type", "clusterIP", "externalName", "ports"].map(|member| (member, spec(member)));
        Service(Value::from([("spec", Value::from(members))]))
    }
}

/// Services by their cluster IPs.
pub struct ClusterServices(pub Arc<dyn Find<Service>>);

impl Services for ClusterServices {
    fn resolve<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        port: u16,
    ) -> BoxFuture<'a, Result<(String, u16), String>> {
        Box::pin(async move {
            let found = self.0.get(namespace, name).await.map_err(|status| status.message)?;
            let found = found.ok_or_else(|| format!("service {name:?} not found"))?;
            service::cluster(&found.0, name, port)
        })
    }
}
