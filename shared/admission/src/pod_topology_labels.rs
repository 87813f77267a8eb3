//! PodTopologyLabels: a pod bears the zone and region of the node it is bound to.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use triptych_object::{Gvr, StatusResult, Value, meta};
use triptych_registry::admission::{Attributes, Operation, Warnings};

use crate::chain::Plugin;
use crate::lookup::Find;
use crate::node::Node;
use crate::pods;

/// The labels that go from node to pod.
pub(crate) const COPIED: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

/// The plugin.
pub struct PodTopologyLabels {
    /// All nodes.
    pub nodes: Arc<dyn Find<Node>>,
}

impl Plugin for PodTopologyLabels {
    fn name(&self) -> &'static str {
        "PodTopologyLabels"
    }

    fn concerns(&self, operation: Operation, resource: &Gvr) -> bool {
        operation == Operation::Create && pods::is(resource, "", "pods")
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
        _old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        Box::pin(async move {
            let Some(object) = object else { return Ok(()) };
            let node = match attributes.subresource {
                "" => object.str_at(&["spec", "nodeName"]),
                // a binding hands its labels on to the pod
                "binding" if object.str_at(&["target", "kind"]) == "Node" => object.str_at(&["target", "name"]),
                _ => "",
            };
            if node.is_empty() {
                return Ok(());
            }
            if let Some(node) = self.nodes.get("", node).await? {
                for (key, value) in &node.topology {
                    meta::set_label(object, key, value);
                }
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::fixed::Fixed;
    use crate::testing::Write;
    use triptych_object::json;

    #[tokio::test]
    async fn pods_and_bindings_get_the_labels_of_their_node() {
        let plugin = PodTopologyLabels {
            nodes: Fixed::of(&[
                r#"{"metadata":{"name":"n","labels":{"topology.kubernetes.io/zone":"z","topology.kubernetes.io/other":"o"}}}"#,
            ]),
        };
        let labels = r#"{"topology.kubernetes.io/zone":"z"}"#;
        let pod = |text| Write::create("pods", text);
        for (write, after) in [
            (pod(r#"{"spec":{"nodeName":"n"}}"#), Some(labels)),
            (
                pod(r#"{"metadata":{"labels":{"topology.kubernetes.io/zone":"mine"}},"spec":{"nodeName":"n"}}"#),
                Some(labels),
            ),
            (pod(r#"{"spec":{"nodeName":"unknown"}}"#), None),
            (pod(r#"{"spec":{}}"#), None),
            (
                pod(r#"{"target":{"kind":"Node","name":"n"}}"#).subresource("binding"),
                Some(labels),
            ),
            (
                pod(r#"{"target":{"kind":"Other","name":"n"}}"#).subresource("binding"),
                None,
            ),
        ] {
            let (object, _) = write.admit(&plugin).await.unwrap();
            let found = object.at(&["metadata", "labels"]).map(json::to_string);
            assert_eq!(found.as_deref(), after);
        }
    }
}
