//! Conditional defaults of pod specifications, in pods and in templates (pkg/apis/core/v1 defaults and conversion).

use triptych_object::Value;
use triptych_object::value::Object;

use super::image::pull_policy;
use crate::validation::resources::quantity;

/// Members of a volume that are no source.
const VOLUME_NAME: &str = "name";

/// A PodTemplateSpec.
pub fn pod_template(template: Option<&mut Value>) {
    if let Some(spec) = template.and_then(|t| t.get_mut("spec")) {
        pod_spec(spec);
    }
}

/// A PodSpec.
pub fn pod_spec(spec: &mut Value) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            if container.str_at(&["imagePullPolicy"]).is_empty() {
                let policy = pull_policy(container.str_at(&["image"]));
                container.set_at(&["imagePullPolicy"], policy.into());
            }
            if let Some(resources) = container.get_mut("resources") {
                requirements(resources);
            }
        }
    }
    for volume in spec
        .get_mut("volumes")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        self::volume(volume);
    }
    if let Some(overhead) = spec.get_mut("overhead") {
        resource_list(overhead);
    }
    if let Some(resources) = spec.get_mut("resources") {
        requirements(resources);
    }
    service_account(spec);
}

/// A PodStatus.
pub fn pod_status(status: &mut Value) {
    const LISTS: [&[&str]; 3] = [
        &["allocatedResources"],
        &["resources", "limits"],
        &["resources", "requests"],
    ];
    resource_lists(status, &LISTS);
    for list in [
        "initContainerStatuses",
        "containerStatuses",
        "ephemeralContainerStatuses",
    ] {
        let containers = status.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            resource_lists(container, &LISTS);
        }
    }
}

fn volume(volume: &mut Value) {
    let Some(map) = volume.as_object_mut() else { return };
    if !map.keys().any(|member| member != VOLUME_NAME) {
        map.insert("emptyDir", Value::object());
    }
    if let Some(image) = volume.get_mut("image")
        && image.str_at(&["pullPolicy"]).is_empty()
    {
        let policy = pull_policy(image.str_at(&["reference"]));
        image.set_at(&["pullPolicy"], policy.into());
    }
    if let Some(resources) = volume.at_mut(&["ephemeral", "volumeClaimTemplate", "spec", "resources"]) {
        requirements(resources);
    }
}

/// `serviceAccount` is the old name of `serviceAccountName`: both are always written.
fn service_account(spec: &mut Value) {
    let name = match spec.str_at(&["serviceAccountName"]) {
        "" => spec.str_at(&["serviceAccount"]).to_owned(),
        name => name.to_owned(),
    };
    if name.is_empty() {
        return;
    }
    for member in ["serviceAccountName", "serviceAccount"] {
        spec.set_at(&[member], name.as_str().into());
    }
}

/// `limits` and `requests` in thousandths.
pub fn requirements(resources: &mut Value) {
    for member in ["limits", "requests"] {
        if let Some(list) = resources.get_mut(member) {
            resource_list(list);
        }
    }
}

/// The ResourceLists at these paths of an object.
pub fn resource_lists(object: &mut Value, paths: &[&[&str]]) {
    for path in paths {
        if let Some(list) = object.at_mut(path) {
            resource_list(list);
        }
    }
}

/// A ResourceList: quantities are rounded up to thousandths.
pub fn resource_list(list: &mut Value) {
    for (_, value) in list.as_object_mut().map(Object::iter_mut).into_iter().flatten() {
        let mut rounded = quantity(Some(value));
        if !rounded.round_up(-3) {
            *value = rounded.to_string().into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_object::json;

    #[test]
    fn a_volume_without_source_is_an_empty_directory() {
        let mut spec = json::from_slice(br#"{"volumes":[{"name":"a"},{"name":"b","hostPath":{"path":"/"}}]}"#).unwrap();
        pod_spec(&mut spec);
        assert_eq!(
            json::to_string(&spec),
            r#"{"volumes":[{"name":"a","emptyDir":{}},{"name":"b","hostPath":{"path":"/"}}]}"#
        );
    }

    #[test]
    fn the_old_name_of_the_service_account_counts_when_the_new_is_absent() {
        let mut spec = json::from_slice(br#"{"serviceAccount":"a"}"#).unwrap();
        pod_spec(&mut spec);
        assert_eq!(spec.str_at(&["serviceAccountName"]), "a");
    }

    #[test]
    fn quantities_are_rounded_up_to_thousandths() {
        let mut list = json::from_slice(br#"{"cpu":"100u","memory":"1Gi"}"#).unwrap();
        resource_list(&mut list);
        assert_eq!(json::to_string(&list), r#"{"cpu":"1m","memory":"1Gi"}"#);
    }
}
