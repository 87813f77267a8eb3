//! PodResizeValidator and NodeDeclaredFeatureValidator: a running pod changes only to what its node can do.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use triptych_object::{Cause, Gvr, Quantity, Status, StatusResult, Value, field, meta};
use triptych_registry::admission::{Attributes, Operation, Warnings};

use crate::amounts;
use crate::chain::{Plugin, forbidden};
use crate::lookup::Find;
use crate::node::Node;
use crate::pods;

/// A resized pod must fit its node, which must run Linux.
pub struct PodResizeValidator {
    /// All nodes.
    pub nodes: Arc<dyn Find<Node>>,
}

impl Plugin for PodResizeValidator {
    fn name(&self) -> &'static str {
        "PodResizeValidator"
    }

    fn concerns(&self, operation: Operation, resource: &Gvr) -> bool {
        operation == Operation::Update && pods::is(resource, "", "pods")
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        Box::pin(async move {
            let (Some(pod), Some(old), "resize") = (object, old, attributes.subresource) else {
                return Ok(());
            };
            let Some(name) = node_if_changed(pod, old) else {
                return Ok(());
            };
            let node = node(&*self.nodes, attributes, pod, name).await?;
            if let Some(os) = node.os.as_deref().filter(|os| *os != "linux") {
                let (name, os) = (field::quote(name), field::quote(os));
                let why = format!("pod resize is only supported on linux nodes, node {name} is {os}");
                return Err(with_cause(forbidden(attributes, object, why), "UnsupportedPlatform"));
            }
            match excess(pod, &node) {
                Some(why) => Err(with_cause(forbidden(attributes, object, why), "NodeCapacity")),
                None => Ok(()),
            }
        })
    }
}

/// The node of a pod whose spec changed.
fn node_if_changed<'a>(pod: &'a Value, old: &Value) -> Option<&'a str> {
    let node = pod.str_at(&["spec", "nodeName"]);
    (!node.is_empty() && meta::generation(pod) != meta::generation(old)).then_some(node)
}

async fn node(nodes: &dyn Find<Node>, attributes: &Attributes<'_>, pod: &Value, name: &str) -> StatusResult<Arc<Node>> {
    let quoted = field::quote(name);
    match nodes.get("", name).await {
        Ok(Some(node)) => Ok(node),
        Ok(None) => Err(forbidden(attributes, Some(pod), format!("node {quoted} not found"))),
        Err(status) => {
            let why = format!("failed to get node {quoted}: {}", status.message);
            Err(forbidden(attributes, Some(pod), why))
        }
    }
}

fn with_cause(status: Box<Status>, reason: &str) -> Box<Status> {
    let cause = Cause {
        reason: reason.into(),
        message: String::new(),
        field: String::new(),
    };
    let details = status.details.clone().map(|mut details| {
        details.causes.push(cause);
        details
    });
    status.with_details(details)
}

/// What a pod asks for beyond what its node has.
fn excess(pod: &Value, node: &Node) -> Option<String> {
    let spec = pod.get("spec")?;
    let whole = |name: &str| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
    let mut requests = amounts::of_pod(spec, "requests", whole);
    amounts::add(&mut requests, &amounts::amounts(spec.get("overhead")));
    let allocatable = amounts::amounts(Some(&node.allocatable));
    type Show = fn(&Quantity) -> i64;
    let shown: [(&str, Show); 2] = [("cpu", Quantity::milli_value), ("memory", Quantity::value)];
    let beyond = shown.into_iter().filter_map(|(name, show)| {
        let requested = requests.get(name).cloned().unwrap_or_else(Quantity::zero);
        let has = allocatable.get(name).cloned().unwrap_or_else(Quantity::zero);
        let (requested, has) = (requested > has).then(|| (show(&requested), show(&has)))?;
        Some(format!("{name}, requested: {requested}, allocatable: {has}"))
    });
    let beyond: Vec<String> = beyond.collect();
    if beyond.is_empty() {
        return None;
    }
    let beyond = beyond.join("; ");
    Some(format!("node didn't have enough allocatable resources: {beyond}"))
}

/// A changed pod must not need what its node does not declare to support.
pub struct NodeDeclaredFeatureValidator {
    /// All nodes.
    pub nodes: Arc<dyn Find<Node>>,
}

impl Plugin for NodeDeclaredFeatureValidator {
    fn name(&self) -> &'static str {
        "NodeDeclaredFeatureValidator"
    }

    fn concerns(&self, operation: Operation, resource: &Gvr) -> bool {
        operation == Operation::Update && pods::is(resource, "", "pods")
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        Box::pin(async move {
            let (Some(pod), Some(old), "" | "resize") = (object, old, attributes.subresource) else {
                return Ok(());
            };
            let Some(name) = node_if_changed(pod, old) else {
                return Ok(());
            };
            let needed = needed(pod, old);
            if needed.is_empty() {
                return Ok(());
            }
            let node = node(&*self.nodes, attributes, pod, name).await?;
            let has = |feature: &&str| node.declared_features.iter().any(|f| f == feature);
            let missing: Vec<&str> = needed.into_iter().filter(|feature| !has(feature)).collect();
            if missing.is_empty() {
                return Ok(());
            }
            let (missing, name) = (missing.join(", "), field::quote(name));
            let why = format!("pod update requires features {missing} which are not available on node {name}");
            Err(forbidden(attributes, object, why))
        })
    }
}

/// The features that a node must have for a pod to change so.
fn needed(pod: &Value, old: &Value) -> Vec<&'static str> {
    let mut needed = Vec::new();
    let resources = ["spec", "resources"];
    if pod.at(&resources) != old.at(&resources) {
        needed.push("InPlacePodLevelResourcesVerticalScaling");
    }
    let init = ["spec", "initContainers"];
    let changed = |(new, old): (&Value, &Value)| {
        old.str_at(&["restartPolicy"]) != "Always" && new.get("resources") != old.get("resources")
    };
    if pod.array_at(&init).iter().zip(old.array_at(&init)).any(changed) {
        needed.push("InPlacePodVerticalScalingInitContainers");
    }
    needed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::fixed::Fixed;
    use crate::testing::Write;

    fn nodes() -> Arc<Fixed<Node>> {
        Fixed::of(&[
            r#"{"metadata":{"name":"a","labels":{"kubernetes.io/os":"linux"}},"status":{"allocatable":{"cpu":"1","memory":"1Gi"},"declaredFeatures":["InPlacePodLevelResourcesVerticalScaling"]}}"#,
            r#"{"metadata":{"name":"w","labels":{"kubernetes.io/os":"windows"}},"status":{"allocatable":{"cpu":"9"}}}"#,
        ])
    }

    fn pod(node: &str, generation: u32, cpu: &str, whole: &str) -> String {
        format!(
            r#"{{"metadata":{{"name":"p","generation":{generation}}},"spec":{{"nodeName":"{node}"{whole},"containers":[{{"name":"c","resources":{{"requests":{{"cpu":"{cpu}"}}}}}}]}}}}"#
        )
    }

    #[tokio::test]
    async fn a_pod_is_resized_only_to_what_its_node_has() {
        let plugin = PodResizeValidator { nodes: nodes() };
        for (node, generation, cpu, why) in [
            ("a", 2, "1", ""),
            ("", 2, "5", ""),
            ("a", 1, "5", ""),
            (
                "a",
                2,
                "1500m",
                "node didn't have enough allocatable resources: cpu, requested: 1500, allocatable: 1000",
            ),
            (
                "w",
                2,
                "1",
                "pod resize is only supported on linux nodes, node \"w\" is \"windows\"",
            ),
            ("gone", 2, "1", "node \"gone\" not found"),
        ] {
            let (new, old) = (pod(node, generation, cpu, ""), pod(node, 1, "1", ""));
            let refusal = Write::update("pods", &new, &old)
                .subresource("resize")
                .refusal(&plugin)
                .await;
            let told = refusal.strip_prefix("pods \"p\" is forbidden: ").unwrap_or(&refusal);
            assert_eq!(told, why);
        }
    }

    #[tokio::test]
    async fn a_refusal_names_its_cause() {
        let plugin = PodResizeValidator { nodes: nodes() };
        let (new, old) = (pod("a", 2, "5", ""), pod("a", 1, "1", ""));
        let write = Write::update("pods", &new, &old).subresource("resize");
        let status = write.admit(&plugin).await.unwrap_err();
        assert_eq!(status.details.unwrap().causes[0].reason, "NodeCapacity");
    }

    #[tokio::test]
    async fn a_pod_changes_only_as_its_node_declares_to_support() {
        let plugin = NodeDeclaredFeatureValidator { nodes: nodes() };
        let whole = r#","resources":{"requests":{"cpu":"1"}}"#;
        for (node, whole, why) in [
            ("a", whole, ""),
            ("w", "", ""),
            (
                "w",
                whole,
                "pods \"p\" is forbidden: pod update requires features InPlacePodLevelResourcesVerticalScaling which are not available on node \"w\"",
            ),
        ] {
            let (new, old) = (pod(node, 2, "1", whole), pod(node, 1, "1", ""));
            let write = Write::update("pods", &new, &old).subresource("resize");
            assert_eq!(write.refusal(&plugin).await, why);
        }
    }
}
