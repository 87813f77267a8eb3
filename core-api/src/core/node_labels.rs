//! Labels of nodes that should no longer be used, for warnings (pkg/api/node).

use triptych_object::Value;

/// What to say about a label, if it is deprecated.
pub fn deprecation(label: &str) -> Option<&'static str> {
    Some(match label {
        "beta.kubernetes.io/arch" => "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
        "beta.kubernetes.io/os" => "deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "failure-domain.beta.kubernetes.io/region" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        }
        "beta.kubernetes.io/instance-type" => {
            "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => "deprecated since v1.22; use Taints and Tolerations instead",
        "node-role.kubernetes.io/master" => "use \"node-role.kubernetes.io/control-plane\" instead",
        _ => return None,
    })
}

/// Warnings about the expressions of a node selector term, or of a label selector for nodes, at `path`.
pub fn of_expressions(path: &str, term: &Value) -> Vec<String> {
    let expressions = term.array_at(&["matchExpressions"]).iter().enumerate();
    let warn = |(i, expression): (usize, &Value)| {
        let key = expression.str_at(&["key"]);
        Some(format!(
            "{path}.matchExpressions[{i}].key: {key} is {}",
            deprecation(key)?
        ))
    };
    expressions.filter_map(warn).collect()
}
