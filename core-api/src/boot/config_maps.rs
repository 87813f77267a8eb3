//! ConfigMaps in `kube-system` by which others learn about this control plane.

use triptych_object::{StatusResult, Value};

use super::create_missing;
use crate::loopback::{Loopback, Target};

const NAMESPACE: &str = "kube-system";

const CONFIG_MAPS: Target<'static> = Target {
    group: "",
    version: "v1",
    resource: "configmaps",
    namespace: NAMESPACE,
};

const AUTHENTICATION: &str = "extension-apiserver-authentication";
const TOKEN_TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";
const CLIENT_CA: &str = "client-ca-file";

fn config_map(name: &str, data: Value) -> Value {
    Value::from([
        ("kind", "ConfigMap".into()),
        ("apiVersion", "v1".into()),
        (
            "metadata",
            Value::from([("name", name.into()), ("namespace", NAMESPACE.into())]),
        ),
        ("data", data),
    ])
}

/// Publishes the CA of client certificates; the aggregator adds what it says about its front proxy.
pub async fn ensure_client_ca(objects: &Loopback, client_ca: Option<String>) -> StatusResult<()> {
    let Some(client_ca) = client_ca else { return Ok(()) };
    let client_ca = client_ca.as_str();
    let wanted = config_map(AUTHENTICATION, Value::from([(CLIENT_CA, client_ca.into())]));
    loop {
        let mut found = create_missing(objects, CONFIG_MAPS, &wanted).await?;
        if found.str_at(&["data", CLIENT_CA]) == client_ca {
            return Ok(());
        }
        found.set_at(&["data", CLIENT_CA], client_ca.into());
        match objects.update(CONFIG_MAPS, AUTHENTICATION, &found).await {
            // another replica, or the aggregator, was faster
            Err(status) if matches!(&*status.reason, "Conflict" | "NotFound") => {}
            outcome => return outcome.map(drop),
        }
    }
}

/// Notes since when the use of legacy service account tokens is recorded.
pub async fn ensure_token_tracking(objects: &Loopback, today: &str) -> StatusResult<()> {
    let wanted = config_map(TOKEN_TRACKING, Value::from([("since", today.into())]));
    create_missing(objects, CONFIG_MAPS, &wanted).await?;
    Ok(())
}
