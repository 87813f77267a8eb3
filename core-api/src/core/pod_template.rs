//! PodTemplate.

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{Value, meta};
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::{Context, Strategy};

use crate::apps::workload;
use crate::validation::check;
use crate::validation::pod_options::PodOptions;
use crate::validation::pod_template::pod_template;
use crate::{defaults, printing};

/// The strategy of `podtemplates`.
pub struct PodTemplates;

impl Strategy for PodTemplates {
    fn default(&self, object: &mut Value) {
        defaults::pod_template(object.get_mut("template"));
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |c| {
            pod_template(c.field("template"), &PodOptions::new(false))
        });
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |c| {
            pod_template(c.field("template"), &workload::options(Some(old), &["template"]));
        });
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }

    fn warnings(&self, _cx: &Context, new: &Value, old: Option<&Value>) -> Vec<String> {
        workload::template_warnings(new, old, &["template"])
    }

    fn cells(&self, object: &Value, _now: Timestamp) -> Option<Vec<Value>> {
        let [names, images] = workload::container_cells(object.get("template"));
        let labels = printing::labels(object.at(&["template", "metadata", "labels"]));
        Some(vec![meta::name(object).into(), names, images, labels.into()])
    }
}
