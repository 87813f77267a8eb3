//! `matchLabelKeys` and `mismatchLabelKeys`: on create, the pod's own values of these labels go into the selectors of
//! affinity terms and topology spread constraints (KEP-3633, KEP-3243).

use triptych_object::Value;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Completes every selector of the pod.
pub fn merge_label_keys(pod: &mut Value) {
    let Some(labels) = pod.at(&["metadata", "labels"]).cloned() else {
        return;
    };
    for pods in ["podAffinity", "podAntiAffinity"] {
        for term in items(pod, &["spec", "affinity", pods, REQUIRED]) {
            merge(term, &labels);
        }
        for term in items(pod, &["spec", "affinity", pods, PREFERRED]) {
            if let Some(term) = term.get_mut("podAffinityTerm") {
                merge(term, &labels);
            }
        }
    }
    for constraint in items(pod, &["spec", "topologySpreadConstraints"]) {
        merge(constraint, &labels);
    }
}

fn items<'a>(pod: &'a mut Value, path: &[&str]) -> impl Iterator<Item = &'a mut Value> {
    pod.at_mut(path).and_then(Value::as_array_mut).into_iter().flatten()
}

fn merge(term: &mut Value, labels: &Value) {
    let mut added = Vec::new();
    for (keys, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in term.array_at(&[keys]).iter().filter_map(Value::as_str) {
            if let Some(value) = labels.get(key) {
                added.push(Value::from([
                    ("key", key.into()),
                    ("operator", operator.into()),
                    ("values", Value::Array(vec![value.clone()])),
                ]));
            }
        }
    }
    if added.is_empty() {
        return;
    }
    let Some(selector) = term.get_mut("labelSelector") else {
        return;
    };
    let mut expressions = selector.array_at(&["matchExpressions"]).to_vec();
    expressions.append(&mut added);
    selector.set_at(&["matchExpressions"], Value::Array(expressions));
}
