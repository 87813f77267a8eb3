//! Pod templates, and what every controller demands of its template.

use triptych_object::Value;

use super::label_selector::{self, labels};
use super::pod_options::PodOptions;
use super::pod_spec::pod_spec;
use super::volume_claim::annotations;
use super::{Cursor, pod_annotations};

/// A PodTemplateSpec. Errors about its labels and annotations stand at `template.labels`, as kube-apiserver has it.
pub fn pod_template(c: Cursor<'_>, options: &PodOptions) {
    let (metadata, spec) = (c.field("metadata"), c.field("spec"));
    let own = metadata.field("annotations").standing_for(c.alias("annotations"));
    labels(metadata.field("labels").standing_for(c.alias("labels")));
    annotations(own);
    pod_annotations::annotations(own, spec, options);
    pod_spec(spec, None, options);
    pod_annotations::agree_with_fields(own, spec);
    if !spec.field("ephemeralContainers").is_empty() {
        spec.field("ephemeralContainers")
            .forbidden("ephemeral containers not allowed in pod template");
    }
}

/// A template's labels must match the selector of its controller.
pub fn matches_selector(template: Cursor<'_>, matches: bool) {
    if !matches {
        let labels = template.field("metadata").field("labels");
        labels.invalid(labels.shown(), "`selector` does not match template `labels`");
    }
}

/// Pods of most controllers run for ever.
pub fn always_restarts(template: Cursor<'_>, controller: &str) {
    let spec = template.field("spec");
    let policy = spec.field("restartPolicy");
    if policy.str() != "Always" {
        policy.not_supported(&["Always"]);
    }
    if let Some(deadline) = spec.given("activeDeadlineSeconds") {
        deadline.forbidden(format!("activeDeadlineSeconds in {controller} is not Supported"));
    }
}

/// Whether a controller's selector (a LabelSelector) matches its template; true if the selector is invalid.
pub fn selects_template(selector: Option<&Value>, template: Option<&Value>) -> bool {
    let labels = template
        .and_then(|t| t.at(&["metadata", "labels"]))
        .and_then(Value::as_object);
    label_selector::matches(selector, labels).unwrap_or(true)
}
