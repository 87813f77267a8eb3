//! DefaultTolerationSeconds: a pod that says nothing of it stays five minutes on a node that is lost.

use futures_util::future::BoxFuture;
use triptych_object::{Gvr, StatusResult, Value};
use triptych_registry::admission::{Attributes, Operation, Warnings};

use crate::chain::Plugin;
use crate::pods;
use crate::service_account::push;

/// The plugin.
pub struct DefaultTolerationSeconds {
    /// `--default-not-ready-toleration-seconds`
    pub not_ready: i64,
    /// `--default-unreachable-toleration-seconds`
    pub unreachable: i64,
}

impl Plugin for DefaultTolerationSeconds {
    fn name(&self) -> &'static str {
        "DefaultTolerationSeconds"
    }

    fn concerns(&self, operation: Operation, resource: &Gvr) -> bool {
        matches!(operation, Operation::Create | Operation::Update) && pods::is(resource, "", "pods")
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
        _old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        if let Some(spec) = object
            .filter(|_| pods::is_pod(attributes))
            .and_then(|pod| pod.get_mut("spec"))
        {
            let taints = [
                ("node.kubernetes.io/not-ready", self.not_ready),
                ("node.kubernetes.io/unreachable", self.unreachable),
            ];
            let missing: Vec<_> = taints
                .into_iter()
                .filter(|(taint, _)| !tolerates(spec, taint))
                .collect();
            for (taint, seconds) in missing {
                let toleration = Value::from([
                    ("key", taint.into()),
                    ("operator", "Exists".into()),
                    ("effect", "NoExecute".into()),
                    ("tolerationSeconds", seconds.into()),
                ]);
                push(spec, "tolerations", toleration);
            }
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Whether a pod says anything of a NoExecute taint.
fn tolerates(spec: &Value, taint: &str) -> bool {
    let either = |text: &str, wanted: &str| text.is_empty() || text == wanted;
    spec.array_at(&["tolerations"])
        .iter()
        .any(|t| either(t.str_at(&["key"]), taint) && either(t.str_at(&["effect"]), "NoExecute"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;

    async fn keys(tolerations: &str) -> Vec<String> {
        let plugin = DefaultTolerationSeconds {
            not_ready: 300,
            unreachable: 300,
        };
        let pod = format!(r#"{{"spec":{{"tolerations":{tolerations}}}}}"#);
        let (pod, _) = Write::create("pods", &pod).admit(&plugin).await.unwrap();
        let tolerations = pod.array_at(&["spec", "tolerations"]).iter();
        tolerations
            .map(|t| t.str_at(&["key"]).trim_start_matches("node.kubernetes.io/").to_owned())
            .collect()
    }

    #[tokio::test]
    async fn what_a_pod_tolerates_already_is_not_added() {
        assert_eq!(keys("[]").await, ["not-ready", "unreachable"]);
        let own = r#"[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute"}]"#;
        assert_eq!(keys(own).await, ["not-ready", "unreachable"]);
        let other_effect = r#"[{"key":"node.kubernetes.io/unreachable","effect":"NoSchedule"}]"#;
        assert_eq!(keys(other_effect).await, ["unreachable", "not-ready", "unreachable"]);
        assert_eq!(keys(r#"[{"operator":"Exists"}]"#).await, [""]);
    }
}
