//! What several plugins need to know of pods.

use triptych_object::{Gvr, Value, meta};
use triptych_registry::admission::Attributes;

/// The annotation of a pod that mirrors one a kubelet runs on its own account.
pub const MIRROR: &str = "kubernetes.io/config.mirror";

/// The lists of containers, in the order in which they are visited.
pub const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Whether a resource is this one.
pub fn is(resource: &Gvr, group: &str, plural: &str) -> bool {
    resource.group == group && resource.resource == plural
}

/// Whether a write is of pods themselves, not of a subresource.
pub fn is_pod(attributes: &Attributes<'_>) -> bool {
    is(attributes.resource, "", "pods") && attributes.subresource.is_empty()
}

/// Whether a pod mirrors one of a kubelet.
pub fn is_mirror(pod: &Value) -> bool {
    meta::annotation(pod, MIRROR).is_some()
}

/// The containers of one of the lists.
pub fn containers<'a>(spec: &'a Value, list: &str) -> &'a [Value] {
    spec.array_at(&[list])
}

/// All containers of a pod's spec.
pub fn all_containers(spec: &Value) -> impl Iterator<Item = &Value> {
    CONTAINER_LISTS.into_iter().flat_map(|list| containers(spec, list))
}

/// Where a volume source names a secret, besides projected volumes.
const SECRET_IN_SOURCE: [(&str, &[&str]); 10] = [
    ("azureFile", &["secretName"]),
    ("cephfs", &["secretRef", "name"]),
    ("cinder", &["secretRef", "name"]),
    ("flexVolume", &["secretRef", "name"]),
    ("rbd", &["secretRef", "name"]),
    ("secret", &["secretName"]),
    ("scaleIO", &["secretRef", "name"]),
    ("iscsi", &["secretRef", "name"]),
    ("storageos", &["secretRef", "name"]),
    ("csi", &["nodePublishSecretRef", "name"]),
];

/// The names of all secrets that a pod's spec names.
pub fn secret_names(spec: &Value) -> Vec<&str> {
    let pull = spec.array_at(&["imagePullSecrets"]).iter().map(|s| s.str_at(&["name"]));
    let named = all_containers(spec).flat_map(|c| names_in_environment(c, "secretRef", "secretKeyRef"));
    let mounted = spec.array_at(&["volumes"]).iter().flat_map(|volume| {
        let direct = SECRET_IN_SOURCE
            .iter()
            .filter_map(|(source, path)| Some(volume.get(source)?.str_at(path)));
        direct.chain(projected(volume, "secret"))
    });
    pull.chain(named)
        .chain(mounted)
        .filter(|name| !name.is_empty())
        .collect()
}

/// The names of all config maps that a pod's spec names.
pub fn config_map_names(spec: &Value) -> Vec<&str> {
    let named = all_containers(spec).flat_map(|c| names_in_environment(c, "configMapRef", "configMapKeyRef"));
    let mounted = spec.array_at(&["volumes"]).iter().flat_map(|volume| {
        let direct = volume.get("configMap").map(|source| source.str_at(&["name"]));
        direct.into_iter().chain(projected(volume, "configMap"))
    });
    named.chain(mounted).filter(|name| !name.is_empty()).collect()
}

fn names_in_environment<'a>(container: &'a Value, whole: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    let from = container
        .array_at(&["envFrom"])
        .iter()
        .map(move |e| e.str_at(&[whole, "name"]));
    let single = container
        .array_at(&["env"])
        .iter()
        .map(move |e| e.str_at(&["valueFrom", key, "name"]));
    from.chain(single)
}

fn projected<'a>(volume: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a str> {
    let sources = volume.array_at(&["projected", "sources"]).iter();
    sources.map(move |source| source.str_at(&[kind, "name"]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    #[test]
    fn secrets_are_found_wherever_a_pod_may_name_one() {
        let spec = tree(
            r#"{"imagePullSecrets":[{"name":"a"},{}],
            "initContainers":[{"env":[{"valueFrom":{"secretKeyRef":{"name":"b"}}}]}],
            "containers":[{"envFrom":[{"secretRef":{"name":"c"}},{"configMapRef":{"name":"m"}}]}],
            "volumes":[{"csi":{"nodePublishSecretRef":{"name":"d"}}},{"projected":{"sources":[{"secret":{"name":"e"}}]}},
            {"secret":{"secretName":"f"}},{"configMap":{"name":"n"}}]}"#,
        );
        assert_eq!(secret_names(&spec), ["a", "b", "c", "d", "e", "f"]);
        assert_eq!(config_map_names(&spec), ["m", "n"]);
    }
}
