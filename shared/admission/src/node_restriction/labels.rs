//! Which labels a node may give itself: those that kubelets report, and those that mean nothing to Kubernetes. With others
//! it could draw workloads to itself.

use std::collections::BTreeSet;

use triptych_object::Value;
use triptych_object::value::Object;

const KUBELET_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];
const KUBELET_NAMESPACES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];
const RESTRICTED_NAMESPACE: &str = "node-restriction.kubernetes.io";

/// The keys of labels that one object has and the other has not, or with another value.
pub fn modified<'a>(new: Option<&'a Value>, old: Option<&'a Value>) -> BTreeSet<&'a str> {
    let labels = |object: Option<&'a Value>| object?.at(&["metadata", "labels"])?.as_object();
    let (new, old) = (labels(new), labels(old));
    let differing = |a: Option<&'a Object>, b: Option<&'a Object>| {
        let entries = a.into_iter().flat_map(|map| map.iter());
        entries
            .filter(move |(key, value)| b.and_then(|b| b.get(key)) != Some(value))
            .map(|(key, _)| key)
    };
    differing(new, old).chain(differing(old, new)).collect()
}

/// Whether a node may not touch a label.
pub fn is_forbidden(label: &str) -> bool {
    let namespace = label.split_once('/').map_or("", |(namespace, _)| namespace);
    if is_within(namespace, RESTRICTED_NAMESPACE) {
        return true;
    }
    let kubernetes = is_within(namespace, "kubernetes.io") || is_within(namespace, "k8s.io");
    let reported = KUBELET_LABELS.contains(&label) || KUBELET_NAMESPACES.iter().any(|n| is_within(namespace, n));
    kubernetes && !reported
}

fn is_within(namespace: &str, domain: &str) -> bool {
    let rest = namespace.strip_suffix(domain);
    rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    #[test]
    fn a_node_may_set_what_kubelets_report_and_what_is_not_kubernetes_own() {
        for (label, forbidden) in [
            ("mine", false),
            ("example.com/role", false),
            ("kubernetes.io/hostname", false),
            ("node.kubernetes.io/anything", false),
            ("a.kubelet.kubernetes.io/b", false),
            ("node-role.kubernetes.io/control-plane", true),
            ("kubernetes.io/other", true),
            ("x.k8s.io/y", true),
            ("notk8s.io/y", false),
            ("node-restriction.kubernetes.io/a", true),
            ("b.node-restriction.kubernetes.io/a", true),
        ] {
            assert_eq!(is_forbidden(label), forbidden, "{label}");
        }
    }

    #[test]
    fn labels_that_came_went_or_changed_are_modified() {
        let new = tree(r#"{"metadata":{"labels":{"same":"1","changed":"1","came":"1"}}}"#);
        let old = tree(r#"{"metadata":{"labels":{"same":"1","changed":"2","went":"1"}}}"#);
        let found: Vec<&str> = modified(Some(&new), Some(&old)).into_iter().collect();
        assert_eq!(found, ["came", "changed", "went"]);
    }
}
