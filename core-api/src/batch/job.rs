//! Job.

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use triptych_object::field::{Error, ErrorList, quote};
use triptych_object::{StatusResult, Value, meta, names, time};
use triptych_registry::age::{age, human_duration};
use triptych_registry::options::Delete;
use triptych_registry::strategy::Reservation;
use triptych_registry::{Context, Strategy};

use super::job_spec::job_spec;
use crate::apps::workload::{self, TEMPLATE, immutable, number};
use crate::validation::label_selector::{self, Lenience, label_selector};
use crate::validation::pod_options::PodOptions;
use crate::validation::pod_template::{matches_selector, selects_template};
use crate::validation::{Cursor, check};
use crate::{defaults, printing};

const JOB_NAME: &str = "batch.kubernetes.io/job-name";
const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
const LEGACY_JOB_NAME: &str = "job-name";
const LEGACY_CONTROLLER_UID: &str = "controller-uid";

/// The strategy of `jobs`.
pub struct Jobs;

/// What a job's rules depend on besides the job.
struct Options {
    pod: PodOptions,
    selector: Lenience,
    /// The labels with a domain are required; jobs from before 1.27 have only the others.
    prefixed_labels: bool,
    /// Node affinity, node selector, tolerations, scheduling gates, labels and annotations of the template may change.
    mutable_scheduling: bool,
    /// Resources of the template's containers may change.
    mutable_resources: bool,
}

impl Options {
    fn of(old: Option<&Value>) -> Options {
        let pod = workload::options(old, &TEMPLATE);
        let Some(old) = old else {
            return Options {
                pod,
                selector: Lenience::default(),
                prefixed_labels: true,
                mutable_scheduling: false,
                mutable_resources: false,
            };
        };
        let expressions = old.array_at(&["spec", "selector", "matchExpressions"]).iter();
        let mut values = expressions
            .flat_map(|e| e.array_at(&["values"]))
            .filter_map(Value::as_str);
        let invalid_values = pod.affinity.selector_values || values.any(|value| !names::label_value(value).is_empty());
        let label = |key: &str| old.at(&["spec", "template", "metadata", "labels", key]).is_some();
        let at_rest = is_true(old, &["spec", "suspend"])
            && (old.at(&["status", "startTime"]).is_none() || condition(old, "Suspended"))
            && number(old, &["status", "active"]) == 0;
        Options {
            pod,
            selector: Lenience { invalid_values },
            prefixed_labels: label(JOB_NAME) && label(CONTROLLER_UID),
            mutable_scheduling: at_rest,
            mutable_resources: at_rest,
        }
    }
}

fn is_true(object: &Value, path: &[&str]) -> bool {
    object.at(path).and_then(Value::as_bool) == Some(true)
}

/// Whether a job's condition is true.
pub fn condition(job: &Value, kind: &str) -> bool {
    let mut conditions = job.array_at(&["status", "conditions"]).iter();
    conditions.any(|c| c.str_at(&["type"]) == kind && c.str_at(&["status"]) == "True")
}

/// A job without labels gets those of its template.
fn label_as_template(job: &mut Value) {
    let own = job.at(&["metadata", "labels"]).and_then(Value::as_object);
    if own.is_none_or(|labels| labels.is_empty())
        && let Some(labels) = job.at(&["spec", "template", "metadata", "labels"]).cloned()
    {
        job.set_at(&["metadata", "labels"], labels);
    }
}

impl Strategy for Jobs {
    fn default(&self, job: &mut Value) {
        defaults::pod_template(job.at_mut(&TEMPLATE));
        let absent = |job: &Value, member: &str| job.at(&["spec", member]).is_none();
        if absent(job, "completions") && absent(job, "parallelism") {
            job.set_at(&["spec", "completions"], Value::Int(1));
        }
        let backoff = if absent(job, "backoffLimitPerIndex") {
            6
        } else {
            i64::from(i32::MAX)
        };
        let replacement = if absent(job, "podFailurePolicy") {
            "TerminatingOrFailed"
        } else {
            "Failed"
        };
        let values: [(&str, Value); 6] = [
            ("parallelism", Value::Int(1)),
            ("backoffLimit", Value::Int(backoff)),
            ("completionMode", "NonIndexed".into()),
            ("suspend", Value::Bool(false)),
            ("podReplacementPolicy", replacement.into()),
            ("manualSelector", Value::Bool(false)),
        ];
        for (member, value) in values {
            if absent(job, member) {
                job.set_at(&["spec", member], value);
            }
        }
        label_as_template(job);
    }

    fn prepare_create(&self, _cx: &Context, new: &mut Value) {
        if is_true(new, &["spec", "manualSelector"]) {
            return;
        }
        let (name, uid) = (meta::name(new).to_owned(), meta::uid(new).to_owned());
        // labels that were defaulted are the template's very map in Go, which changes with it; equal ones count as such
        let labels = new.at(&["metadata", "labels"]);
        let shared = labels.is_some() && labels == new.at(&["spec", "template", "metadata", "labels"]);
        for (key, value) in [
            (LEGACY_JOB_NAME, &name),
            (JOB_NAME, &name),
            (LEGACY_CONTROLLER_UID, &uid),
            (CONTROLLER_UID, &uid),
        ] {
            let path = ["spec", "template", "metadata", "labels", key];
            if new.at(&path).is_none() {
                new.set_at(&path, value.as_str().into());
            }
        }
        let path = ["spec", "selector", "matchLabels", CONTROLLER_UID];
        if new.at(&path).is_none() {
            new.set_at(&path, uid.into());
        }
        for path in [
            &["spec", "template", "metadata", "labels"][..],
            &["spec", "selector", "matchLabels"],
        ] {
            if let Some(labels) = new.at_mut(path).and_then(Value::as_object_mut) {
                labels.sort();
            }
        }
        if shared && let Some(labels) = new.at(&["spec", "template", "metadata", "labels"]).cloned() {
            new.set_at(&["metadata", "labels"], labels);
        }
    }

    fn reserve<'a>(
        &'a self,
        _cx: &'a Context,
        new: &'a mut Value,
        _old: Option<&'a Value>,
    ) -> BoxFuture<'a, StatusResult<Option<Box<dyn Reservation>>>> {
        // what comes back from the store is defaulted, and now the template has labels
        label_as_template(new);
        Box::pin(std::future::ready(Ok(None)))
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |job| whole(job, &Options::of(None)));
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |job| {
            let options = Options::of(Some(old));
            whole(job, &options);
            update(job, old, &options);
        });
    }

    fn unknown_field_label(&self, label: &str) -> Option<String> {
        Some(format!("field label {} not supported for Job", quote(label)))
    }

    fn delete_warnings(&self, options: &Delete) -> Vec<String> {
        const ORPHANS: &str = "child pods are preserved by default when jobs are deleted; set \
            propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning";
        if options.propagation.is_some() || options.orphan_dependents.is_some() {
            return Vec::new();
        }
        vec![ORPHANS.to_owned()]
    }

    fn warnings(&self, _cx: &Context, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none() {
            warnings.extend(workload::name_warning(new));
        } else if old.is_some_and(|old| meta::generation(old) == meta::generation(new)) {
            return warnings;
        }
        warnings.extend(spec_warnings(new.get("spec"), "spec"));
        warnings
    }

    fn cells(&self, job: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let status = [
            ("Complete", "Complete"),
            ("Failed", "Failed"),
            ("", "Terminating"),
            ("Suspended", "Suspended"),
            ("FailureTarget", "FailureTarget"),
            ("SuccessCriteriaMet", "SuccessCriteriaMet"),
        ];
        let holds = |kind: &str| match kind {
            "" => meta::deletion_timestamp(job).is_some(),
            kind => first_condition(job, kind),
        };
        let status = status
            .iter()
            .find(|(kind, _)| holds(kind))
            .map_or("Running", |(_, shown)| *shown);
        let succeeded = number(job, &["status", "succeeded"]);
        let parallelism = number(job, &["spec", "parallelism"]);
        let completions = match job.at(&["spec", "completions"]).and_then(Value::as_i64) {
            Some(completions) => format!("{succeeded}/{completions}"),
            None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
            None => format!("{succeeded}/1"),
        };
        let at = |member| time::parse_rfc3339(job.str_at(&["status", member]));
        let duration = at("startTime").map_or(String::new(), |start| {
            human_duration(at("completionTime").unwrap_or(now).duration_since(start).as_secs())
        });
        let [names, images] = workload::container_cells(job.at(&TEMPLATE));
        Some(vec![
            meta::name(job).into(),
            status.into(),
            completions.into(),
            duration.into(),
            age(job, now).into(),
            names,
            images,
            printing::label_selector(job.at(&["spec", "selector"])).into(),
        ])
    }
}

/// Whether the first condition of a type is true.
fn first_condition(job: &Value, kind: &str) -> bool {
    let mut conditions = job.array_at(&["status", "conditions"]).iter();
    conditions
        .find(|c| c.str_at(&["type"]) == kind)
        .is_some_and(|c| c.str_at(&["status"]) == "True")
}

/// Warnings about a JobSpec at `path`.
pub fn spec_warnings(spec: Option<&Value>, path: &str) -> Vec<String> {
    let Some(spec) = spec else { return Vec::new() };
    let mut warnings = Vec::new();
    let indexed = spec.str_at(&["completionMode"]) == "Indexed";
    if indexed && number(spec, &["completions"]) > 100_000 && number(spec, &["parallelism"]) > 10_000 {
        warnings.push(format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        ));
    }
    let template = crate::validation::pod_warnings::template(spec.get("template"), &format!("{path}.template"));
    warnings.extend(template);
    warnings
}

fn whole(job: Cursor<'_>, options: &Options) {
    let (metadata, spec) = (job.field("metadata"), job.field("spec"));
    generated_selector(job, options.prefixed_labels);
    selected_spec(spec, options);
    let completions = spec.field("completions").int();
    if spec.str_of("completionMode") == "Indexed" && completions > 0 {
        let name = metadata.field("name");
        let longest = format!("{}-{}", name.str(), completions - 1);
        if !names::dns1123_label(&longest).is_empty() {
            let detail = format!("will not able to create pod with invalid DNS label: {longest}");
            name.invalid(name.str(), detail);
        }
    }
}

fn selected_spec(spec: Cursor<'_>, options: &Options) {
    job_spec(spec, &options.pod);
    let (selector, template) = (spec.field("selector"), spec.field("template"));
    if selector.exists() {
        label_selector(selector, options.selector);
    } else {
        selector.required("");
    }
    if workload::selector_is_valid(selector.value()) {
        matches_selector(template, selects_template(selector.value(), template.value()));
    }
}

fn generated_selector(job: Cursor<'_>, prefixed: bool) {
    let spec = job.field("spec");
    let selector = spec.field("selector");
    if spec.is_true_of("manualSelector") || !selector.exists() {
        return;
    }
    let metadata = job.field("metadata");
    let (name, uid) = (metadata.str_of("name"), metadata.str_of("uid"));
    if uid.is_empty() {
        metadata.field("uid").required("");
    }
    let mut expected = vec![(LEGACY_CONTROLLER_UID, uid), (LEGACY_JOB_NAME, name)];
    if prefixed {
        expected.extend([(CONTROLLER_UID, uid), (JOB_NAME, name)]);
    }
    let labels = spec.field("template").field("metadata").field("labels");
    for (key, value) in &expected {
        let label = labels.key(key);
        if !label.exists() {
            label.required(format!("must be '{value}'"));
        } else if label.str() != *value {
            label.invalid(labels.shown(), format!("must be '{value}'"));
        }
    }
    let expected = expected
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).into()))
        .collect();
    if workload::selector_is_valid(selector.value())
        && label_selector::matches(selector.value(), Some(&expected)) == Ok(false)
    {
        selector.invalid(selector.shown(), "`selector` not auto-generated");
    }
}

fn update(job: Cursor<'_>, old: &Value, options: &Options) {
    let spec = job.field("spec");
    let null = Value::Null;
    let old_spec = old.get("spec").unwrap_or(&null);
    selected_spec(spec, options);
    completions(spec, old_spec);
    immutable(spec.field("selector"), old_spec.get("selector"));
    template(spec, old_spec, options);
    for member in ["completionMode", "backoffLimitPerIndex", "managedBy"] {
        immutable(spec.field(member), old_spec.get(member));
    }
    for member in ["podFailurePolicy", "successPolicy"] {
        let c = spec.field(member);
        if c.value() != old_spec.get(member) {
            let shown = if c.exists() { c.go_struct() } else { Value::Null };
            c.invalid(shown, "field is immutable");
        }
    }
}

fn completions(spec: Cursor<'_>, old: &Value) {
    let c = spec.field("completions");
    if spec.str_of("completionMode") != "Indexed" {
        return immutable(c, old.get("completions"));
    }
    if c.value() != old.get("completions") && c.exists() && c.int() != spec.field("parallelism").int() {
        c.invalid(c.int(), "can only be modified in tandem with spec.parallelism");
    }
}

fn template(spec: Cursor<'_>, old: &Value, options: &Options) {
    let c = spec.field("template");
    let (Some(new), Some(old_template)) = (c.value(), old.get("template")) else {
        return;
    };
    let mut allowed = old_template.clone();
    if options.mutable_scheduling {
        copy(&mut allowed, new, &["spec", "affinity", "nodeAffinity"]);
        let no_affinity = |t: &Value| {
            t.at(&["spec", "affinity"])
                .and_then(Value::as_object)
                .is_some_and(|a| a.is_empty())
        };
        if no_affinity(&allowed) && new.at(&["spec", "affinity"]).is_none() {
            allowed.remove_at(&["spec", "affinity"]);
        } else if allowed.at(&["spec", "affinity"]).is_none() && no_affinity(new) {
            allowed.set_at(&["spec", "affinity"], Value::object());
        }
        for path in [
            &["spec", "nodeSelector"][..],
            &["spec", "tolerations"],
            &["metadata", "annotations"],
            &["metadata", "labels"],
            &["spec", "schedulingGates"],
        ] {
            copy(&mut allowed, new, path);
        }
    }
    let suspended = old.get("suspend").and_then(Value::as_bool) == Some(true);
    if !suspended || !options.mutable_resources {
        if *new != allowed {
            c.invalid(c.go_struct(), "field is immutable");
        }
        return;
    }
    for list in ["containers", "initContainers"] {
        let news = new.array_at(&["spec", list]);
        let Some(olds) = allowed.at_mut(&["spec", list]).and_then(Value::as_array_mut) else {
            continue;
        };
        if olds.len() != news.len() {
            continue;
        }
        for (old, new) in olds
            .iter_mut()
            .zip(news)
            .filter(|(o, n)| o.str_at(&["name"]) == n.str_at(&["name"]))
        {
            copy(old, new, &["resources"]);
        }
    }
    if new.get("spec") != allowed.get("spec") {
        let place = Error::invalid("", c.field("spec").go_struct(), "field is immutable");
        c.push(Error {
            field: format!("{}.spec", c.path()),
            ..place
        });
    }
}

fn copy(to: &mut Value, from: &Value, path: &[&str]) {
    match from.at(path) {
        Some(value) => to.set_at(path, value.clone()),
        None => drop(to.remove_at(path)),
    }
}
