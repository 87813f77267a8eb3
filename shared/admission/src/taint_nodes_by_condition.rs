//! TaintNodesByCondition: a new node takes no pods until the node controller finds it ready.

use futures_util::future::BoxFuture;
use triptych_object::{Gvr, StatusResult, Value};
use triptych_registry::admission::{Attributes, Operation, Warnings};

use crate::chain::Plugin;
use crate::pods;
use crate::service_account::push;

/// The plugin.
pub struct TaintNodesByCondition;

impl Plugin for TaintNodesByCondition {
    fn name(&self) -> &'static str {
        "TaintNodesByCondition"
    }

    fn concerns(&self, operation: Operation, resource: &Gvr) -> bool {
        operation == Operation::Create && pods::is(resource, "", "nodes")
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
        _old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        if let Some(node) = object.filter(|_| attributes.subresource.is_empty()) {
            let (key, effect) = ("node.kubernetes.io/not-ready", "NoSchedule");
            let mut taints = node.array_at(&["spec", "taints"]).iter();
            if !taints.any(|t| t.str_at(&["key"]) == key && t.str_at(&["effect"]) == effect) {
                if node.get("spec").is_none() {
                    node.set_at(&["spec"], Value::object());
                }
                if let Some(spec) = node.get_mut("spec") {
                    let taint = Value::from([("key", key.into()), ("effect", effect.into())]);
                    push(spec, "taints", taint);
                }
            }
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;
    use triptych_object::json;

    #[tokio::test]
    async fn a_new_node_is_tainted_once() {
        let taint = r#"{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"}"#;
        for (before, after) in [
            ("{}".to_owned(), format!(r#"{{"spec":{{"taints":[{taint}]}}}}"#)),
            (
                r#"{"spec":{"taints":[{"key":"a"}]}}"#.to_owned(),
                format!(r#"{{"spec":{{"taints":[{{"key":"a"}},{taint}]}}}}"#),
            ),
            (
                format!(r#"{{"spec":{{"taints":[{taint}]}}}}"#),
                format!(r#"{{"spec":{{"taints":[{taint}]}}}}"#),
            ),
        ] {
            let (node, _) = Write::create("nodes", &before)
                .admit(&TaintNodesByCondition)
                .await
                .unwrap();
            assert_eq!(json::to_string(&node), after);
        }
    }
}
