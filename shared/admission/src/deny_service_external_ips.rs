//! DenyServiceExternalIPs: no service gets an external IP that it did not have before. Off by default.

use futures_util::future::BoxFuture;
use triptych_object::{Gvr, StatusResult, Value};
use triptych_registry::admission::{Attributes, Operation, Warnings};

use crate::chain::{Plugin, forbidden};
use crate::pods;

/// The plugin.
pub struct DenyServiceExternalIPs;

impl Plugin for DenyServiceExternalIPs {
    fn name(&self) -> &'static str {
        "DenyServiceExternalIPs"
    }

    fn concerns(&self, operation: Operation, resource: &Gvr) -> bool {
        matches!(operation, Operation::Create | Operation::Update) && pods::is(resource, "", "services")
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        let path = ["spec", "externalIPs"];
        let had = old.map(|old| old.array_at(&path)).unwrap_or_default();
        let has = object.map(|new| new.array_at(&path)).unwrap_or_default();
        let refused = attributes.subresource.is_empty() && has.iter().any(|ip| !had.contains(ip));
        let done = if refused {
            let why = "Use of external IPs is denied by admission control";
            Err(forbidden(attributes, object, why))
        } else {
            Ok(())
        };
        Box::pin(std::future::ready(done))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;

    #[tokio::test]
    async fn external_ips_may_only_be_kept_or_given_up() {
        let service = |ips: &str| format!(r#"{{"metadata":{{"name":"s"}},"spec":{{"externalIPs":{ips}}}}}"#);
        let refusal = "services \"s\" is forbidden: Use of external IPs is denied by admission control";
        let (none, one, two) = (
            service("[]"),
            service(r#"["1.2.3.4"]"#),
            service(r#"["1.2.3.4","1.2.3.5"]"#),
        );
        for (write, told) in [
            (Write::create("services", &none), ""),
            (Write::create("services", &one), refusal),
            (Write::update("services", &one, &two), ""),
            (Write::update("services", &two, &one), refusal),
        ] {
            assert_eq!(write.refusal(&DenyServiceExternalIPs).await, told);
        }
    }
}
