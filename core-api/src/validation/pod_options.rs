//! What the rules of a pod depend on besides the pod: the form of the object it is part of, and what a stored pod that
//! is being updated has already, which must stay acceptable (api/pod GetValidationOptionsFromPodSpecAndMeta).
//!
//! Feature gates are those on by default in 1.36; a rule of a gate that is off applies only where a stored pod uses it.

use std::cell::RefCell;

use triptych_object::field::ErrorList;
use triptych_object::{Value, names};

use super::affinity::{AffinityLenience, match_label_keys};
use super::label_selector::{Lenience, label_selector};
use super::{Cursor, check, paths, resource_names, resources, security_context};

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct PodOptions {
    /// A Pod, not a template.
    pub is_pod: bool,
    /// The annotation `controller.kubernetes.io/pod-deletion-cost` may be no number.
    pub invalid_deletion_cost: bool,
    /// Selector and node affinity values that are no label values.
    pub affinity: AffinityLenience,
    /// Huge pages that are no multiple of their size.
    pub indivisible_huge_pages: bool,
    /// Selectors of topology spread constraints may be invalid.
    pub invalid_spread_selector: bool,
    /// `matchLabelKeys` of topology spread constraints follow the older rule.
    pub unmerged_spread_keys: bool,
    /// Token paths that are not local.
    pub non_local_token_path: bool,
    /// Namespaced sysctls together with the host's network or IPC.
    pub host_sysctls: bool,
    /// Any SELinux change policy, not only Recursive.
    pub any_selinux_policy: bool,
    /// Init containers that are no sidecars may have the resize policy RestartContainer.
    pub init_restart_on_resize: bool,
    /// Volume devices in a user namespace.
    pub user_namespace_devices: bool,
    /// The host's network in a user namespace.
    pub user_namespace_host_network: bool,
    /// Tolerations may compare.
    pub toleration_comparisons: bool,
}

/// Every container of a pod's specification: init, ordinary, ephemeral.
pub fn all_containers(spec: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|list| spec.array_at(&[list]))
}

/// As [`all_containers`], with their places.
pub fn containers_at(spec: Cursor<'_>) -> impl Iterator<Item = Cursor<'_>> {
    ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(move |list| spec.field(list).items())
}

impl PodOptions {
    /// Those of a new pod (or pod template).
    pub fn new(is_pod: bool) -> PodOptions {
        PodOptions {
            is_pod,
            ..PodOptions::default()
        }
    }

    /// Those of a pod or template that replaces `old` (an object with `metadata` and `spec`).
    pub fn updating(is_pod: bool, old: Option<&Value>) -> PodOptions {
        let Some(old) = old else {
            return PodOptions::new(is_pod);
        };
        let null = Value::Null;
        let spec = old.get("spec").unwrap_or(&null);
        let host_users_off = spec.get("hostUsers").and_then(Value::as_bool) == Some(false);
        let annotation = old.str_at(&["metadata", "annotations", super::pod_annotations::DELETION_COST]);
        PodOptions {
            is_pod,
            invalid_deletion_cost: !super::pod_annotations::is_deletion_cost(annotation),
            affinity: AffinityLenience {
                selector_values: breaks(spec, |c| {
                    for term in pod_affinity_terms(c) {
                        label_selector(term.field("labelSelector"), Lenience::default());
                        label_selector(term.field("namespaceSelector"), Lenience::default());
                    }
                }),
                node_values: has_invalid_node_values(spec),
            },
            indivisible_huge_pages: uses_indivisible_huge_pages(spec),
            invalid_spread_selector: breaks(spec, |c| {
                for constraint in c.field("topologySpreadConstraints").items() {
                    label_selector(constraint.field("labelSelector"), Lenience::default());
                }
            }),
            unmerged_spread_keys: breaks(spec, |c| {
                for constraint in c.field("topologySpreadConstraints").items() {
                    match_label_keys(constraint, constraint.field("matchLabelKeys"), None);
                }
            }),
            non_local_token_path: token_paths(spec).any(|path| !paths::is_local_non_reserved(path)),
            host_sysctls: spec
                .array_at(&["securityContext", "sysctls"])
                .iter()
                .any(|s| security_context::host_sysctl(spec, s.str_at(&["name"])).is_some()),
            any_selinux_policy: spec.at(&["securityContext", "seLinuxChangePolicy"]).is_some(),
            init_restart_on_resize: spec.array_at(&["initContainers"]).iter().any(|c| {
                let policies = c.array_at(&["resizePolicy"]);
                c.str_at(&["restartPolicy"]) != "Always"
                    && policies
                        .iter()
                        .any(|p| p.str_at(&["restartPolicy"]) == "RestartContainer")
            }),
            user_namespace_devices: host_users_off
                && all_containers(spec).any(|c| !c.array_at(&["volumeDevices"]).is_empty()),
            user_namespace_host_network: host_users_off
                && spec.get("hostNetwork").and_then(Value::as_bool) == Some(true),
            toleration_comparisons: spec
                .array_at(&["tolerations"])
                .iter()
                .any(|t| matches!(t.str_at(&["operator"]), "Lt" | "Gt")),
        }
    }
}

/// Whether rules find anything in a part of a stored object.
fn breaks(part: &Value, rules: impl FnOnce(Cursor<'_>)) -> bool {
    let found = RefCell::new(ErrorList::new());
    check(part, &mut found.borrow_mut(), rules);
    !found.into_inner().is_empty()
}

fn pod_affinity_terms(spec: Cursor<'_>) -> Vec<Cursor<'_>> {
    let affinity = spec.field("affinity");
    let mut terms = Vec::new();
    for pods in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.field(pods);
        terms.extend(pods.field("requiredDuringSchedulingIgnoredDuringExecution").items());
        let preferred = pods.field("preferredDuringSchedulingIgnoredDuringExecution");
        terms.extend(preferred.items().map(|term| term.field("podAffinityTerm")));
    }
    terms
}

fn has_invalid_node_values(spec: &Value) -> bool {
    let path = [
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
    ];
    spec.array_at(&path)
        .iter()
        .flat_map(|term| term.array_at(&["matchExpressions"]))
        .flat_map(|expression| expression.array_at(&["values"]))
        .filter_map(Value::as_str)
        .any(|value| !names::label_value(value).is_empty())
}

fn uses_indivisible_huge_pages(spec: &Value) -> bool {
    let lists = all_containers(spec).flat_map(|c| [c.at(&["resources", "limits"]), c.at(&["resources", "requests"])]);
    lists
        .chain([spec.get("overhead")])
        .flatten()
        .filter_map(Value::as_object)
        .flat_map(|list| list.iter())
        .any(|(name, value)| {
            resource_names::is_huge_pages(name)
                && !resources::huge_page_divisible(name, &resources::quantity(Some(value)))
        })
}

fn token_paths(spec: &Value) -> impl Iterator<Item = &str> {
    spec.array_at(&["volumes"])
        .iter()
        .flat_map(|volume| volume.array_at(&["projected", "sources"]))
        .filter_map(|source| source.get("serviceAccountToken"))
        .map(|token| token.str_at(&["path"]))
}
