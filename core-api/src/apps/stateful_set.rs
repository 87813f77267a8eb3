//! StatefulSet.

use std::collections::BTreeSet;

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{Value, meta};
use triptych_registry::age::age;
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::{Context, Strategy};

use super::workload::{self, TEMPLATE, number};
use crate::core::persistent_volume_claim;
use crate::defaults;
use crate::validation::label_selector::labels;
use crate::validation::pod_options::PodOptions;
use crate::validation::pod_template::{always_restarts, pod_template};
use crate::validation::volume_claim::{ClaimLenience, annotations, claim_spec};
use crate::validation::{Cursor, check, int_or_percent, names as rules, pod_annotations, pod_warnings};

/// The strategy of `statefulsets`.
pub struct StatefulSets;

/// The strategy of `statefulsets/status`.
pub struct Status;

/// Parts that a stored object may have had before their rules.
#[derive(Clone, Copy, Default)]
struct Skip {
    service_name: bool,
    template: bool,
    claim_templates: bool,
}

impl Strategy for StatefulSets {
    fn default(&self, set: &mut Value) {
        defaults::pod_template(set.at_mut(&TEMPLATE));
        let templates = set
            .at_mut(&["spec", "volumeClaimTemplates"])
            .and_then(Value::as_array_mut);
        for template in templates.into_iter().flatten() {
            template.set_at(&["apiVersion"], "v1".into());
            template.set_at(&["kind"], "PersistentVolumeClaim".into());
            persistent_volume_claim::default_lists(template);
        }
        for member in ["whenDeleted", "whenScaled"] {
            let path = ["spec", "persistentVolumeClaimRetentionPolicy", member];
            if set.str_at(&path).is_empty() {
                set.set_at(&path, "Retain".into());
            }
        }
        let rolling = ["spec", "updateStrategy", "rollingUpdate"];
        if set.str_at(&["spec", "updateStrategy", "type"]).is_empty() {
            set.set_at(&["spec", "updateStrategy", "type"], "RollingUpdate".into());
            if set.at(&rolling).is_none() {
                set.set_at(&rolling, Value::object());
            }
        }
        if set.str_at(&["spec", "updateStrategy", "type"]) == "RollingUpdate"
            && let Some(rolling) = set.at_mut(&rolling)
            && rolling.get("partition").is_none()
        {
            rolling.set_at(&["partition"], Value::Int(0));
        }
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        validate(new, errors, &PodOptions::new(false), Skip::default());
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        const FORBIDDEN: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        const MUTABLE: [&str; 7] = [
            "replicas",
            "template",
            "updateStrategy",
            "minReadySeconds",
            "ordinals",
            "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy",
        ];
        let options = workload::options(Some(old), &TEMPLATE);
        let mut skip = Skip {
            service_name: true,
            claim_templates: true,
            template: false,
        };
        let mut found = ErrorList::new();
        validate(old, &mut found, &options, skip);
        skip.template = !found.is_empty();
        validate(new, errors, &options, skip);
        check(new, errors, |c| {
            let fixed = |set: &Value| {
                let mut spec = set.get("spec").cloned().unwrap_or_default();
                MUTABLE.iter().for_each(|member| drop(spec.remove_at(&[member])));
                spec
            };
            if fixed(new) != fixed(old) {
                c.field("spec").forbidden(FORBIDDEN);
            }
        });
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }

    fn warnings(&self, _cx: &Context, new: &Value, old: Option<&Value>) -> Vec<String> {
        const NEGATIVE: &str =
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended";
        let mut warnings = workload::template_warnings(new, old, &TEMPLATE);
        for (i, claim) in new.array_at(&["spec", "volumeClaimTemplates"]).iter().enumerate() {
            let suffix = if old.is_some() { ".Spec" } else { "" };
            if let Some(spec) = claim.get("spec") {
                let path = format!("spec.volumeClaimTemplates[{i}]{suffix}");
                warnings.extend(pod_warnings::claim_spec(spec, &path));
            }
        }
        if number(new, &["spec", "revisionHistoryLimit"]) < 0 {
            warnings.push(NEGATIVE.to_owned());
        }
        warnings
    }

    fn cells(&self, set: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let (ready, desired) = (
            number(set, &["status", "readyReplicas"]),
            number(set, &["spec", "replicas"]),
        );
        let [names, images] = workload::container_cells(set.at(&TEMPLATE));
        Some(vec![
            meta::name(set).into(),
            format!("{ready}/{desired}").into(),
            age(set, now).into(),
            names,
            images,
        ])
    }
}

impl Strategy for Status {
    fn default(&self, set: &mut Value) {
        StatefulSets.default(set);
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        const COUNTS: [&str; 7] = [
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
            "collisionCount",
        ];
        check(new, errors, |c| {
            let status = c.field("status");
            let bounded = [
                "readyReplicas",
                "currentReplicas",
                "updatedReplicas",
                "availableReplicas",
            ];
            workload::counts(status, &COUNTS, &bounded, "status.readyReplicas");
            workload::collision_count(status, old);
        });
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }
}

fn validate(set: &Value, errors: &mut ErrorList, options: &PodOptions, skip: Skip) {
    check(set, errors, |c| spec(c.field("spec"), options, skip));
    if !skip.template && workload::selector_is_valid(set.at(&["spec", "selector"])) {
        check(&complete(set), errors, |c| {
            pod_template(c.field("spec").field("template"), options)
        });
    }
}

fn spec(c: Cursor<'_>, options: &PodOptions, skip: Skip) {
    let policy = c.field("podManagementPolicy");
    match policy.str() {
        "" => policy.required(""),
        "OrderedReady" | "Parallel" => {}
        other => policy.invalid(other, "must be 'OrderedReady' or 'Parallel'"),
    }
    update_strategy(c.field("updateStrategy"));
    if let Some(retention) = c.given("persistentVolumeClaimRetentionPolicy") {
        for member in ["whenDeleted", "whenScaled"] {
            rules::one_of(retention.field(member), &["Retain", "Delete"]);
        }
    }
    if !skip.claim_templates {
        for template in c.field("volumeClaimTemplates").items() {
            claim_spec(template.field("spec"), ClaimLenience::default());
        }
    }
    rules::nonnegative(c.field("replicas"));
    rules::nonnegative(c.field("minReadySeconds"));
    if let Some(ordinals) = c.given("ordinals") {
        rules::nonnegative(ordinals.field("start").standing_for(c.alias("ordinals.start")));
    }
    let service = c.field("serviceName");
    if !skip.service_name && !service.str().is_empty() {
        rules::label(service);
    }
    workload::required_selector(c, "statefulset");
    if workload::usable_selector(c, "") {
        template(c, options);
    }
    always_restarts(c.field("template"), "StatefulSet");
}

fn update_strategy(c: Cursor<'_>) {
    let rolling = c.field("rollingUpdate");
    match c.str_of("type") {
        "" => c.required(""),
        "OnDelete" => {
            if rolling.exists() {
                rolling.invalid(rolling.go_struct(), "only allowed for updateStrategy 'RollingUpdate'");
            }
        }
        "RollingUpdate" => {
            rules::nonnegative(rolling.field("partition"));
            if let Some(unavailable) = rolling.given("maxUnavailable") {
                int_or_percent::positive(unavailable);
                if int_or_percent::amount(unavailable.value()) == 0 {
                    unavailable.invalid(unavailable.shown(), "cannot be 0");
                }
                int_or_percent::at_most_all(unavailable);
            }
        }
        _ => c.invalid(c.go_struct(), "must be 'RollingUpdate' or 'OnDelete'"),
    }
}

fn template(c: Cursor<'_>, options: &PodOptions) {
    let template = c.field("template");
    workload::template_matches(c, template);
    let (metadata, spec) = (template.field("metadata"), template.field("spec"));
    let own = metadata
        .field("annotations")
        .standing_for(template.alias("annotations"));
    labels(metadata.field("labels").standing_for(template.alias("labels")));
    annotations(own);
    pod_annotations::annotations(own, spec, options);
}

/// The set with its template as its pods will be: with a volume for each claim, which replaces one of the same name, and
/// without the hostname that the controller sets.
fn complete(set: &Value) -> Value {
    let mut completed = set.clone();
    let Some(spec) = completed.at_mut(&["spec", "template", "spec"]) else {
        return completed;
    };
    for member in ["subdomain", "hostname"] {
        spec.remove_at(&[member]);
    }
    let templates = set.array_at(&["spec", "volumeClaimTemplates"]);
    let claims: BTreeSet<&str> = templates.iter().map(meta::name).collect();
    if claims.is_empty() {
        return completed;
    }
    let mut volumes: Vec<Value> = claims
        .iter()
        .map(|name| {
            let claim = Value::from([("claimName", (*name).into())]);
            Value::from([("name", (*name).into()), ("persistentVolumeClaim", claim)])
        })
        .collect();
    let own = spec.array_at(&["volumes"]).iter();
    volumes.extend(own.filter(|v| !claims.contains(v.str_at(&["name"]))).cloned());
    spec.set_at(&["volumes"], Value::Array(volumes));
    completed
}
