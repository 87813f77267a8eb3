//! CronJob.

use jiff::Timestamp;
use triptych_object::field::{Error, ErrorList};
use triptych_object::{Value, meta};
use triptych_registry::age::{age, since};
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::{Context, Strategy};

use super::job::spec_warnings;
use super::job_spec::job_spec;
use super::schedule;
use crate::apps::workload;
use crate::validation::pod_options::PodOptions;
use crate::validation::{Cursor, check, names as rules};
use crate::{defaults, printing};

const TEMPLATE: [&str; 4] = ["spec", "jobTemplate", "spec", "template"];

/// The strategy of `cronjobs`.
pub struct CronJobs;

/// The strategy of `cronjobs/status`.
pub struct Status;

impl Strategy for CronJobs {
    fn default(&self, job: &mut Value) {
        defaults::pod_template(job.at_mut(&TEMPLATE));
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |job| {
            spec(job.field("spec"), None, &PodOptions::new(false))
        });
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |job| {
            spec(
                job.field("spec"),
                old.get("spec"),
                &workload::options(Some(old), &TEMPLATE),
            );
        });
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }

    fn warnings(&self, _cx: &Context, new: &Value, old: Option<&Value>) -> Vec<String> {
        const TZ: &str = "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details";
        let mut warnings = Vec::new();
        if old.is_none() {
            warnings.extend(workload::name_warning(new));
        }
        if old.is_none_or(|old| meta::generation(old) != meta::generation(new)) {
            warnings.extend(spec_warnings(
                new.at(&["spec", "jobTemplate", "spec"]),
                "spec.jobTemplate.spec",
            ));
        }
        if old.is_some() && new.str_at(&["spec", "schedule"]).contains("TZ") {
            warnings.push(TZ.to_owned());
        }
        warnings
    }

    fn cells(&self, job: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let last = match job.str_at(&["status", "lastScheduleTime"]) {
            "" => "<none>".to_owned(),
            time => since(time, now),
        };
        let suspended = match job.at(&["spec", "suspend"]).and_then(Value::as_bool) {
            Some(true) => "True",
            Some(false) => "False",
            None => "<unset>",
        };
        let zone = job
            .at(&["spec", "timeZone"])
            .and_then(Value::as_str)
            .unwrap_or("<none>");
        let [names, images] = workload::container_cells(job.at(&TEMPLATE));
        let selector = printing::label_selector(job.at(&["spec", "jobTemplate", "spec", "selector"]));
        Some(vec![
            meta::name(job).into(),
            job.str_at(&["spec", "schedule"]).into(),
            zone.into(),
            suspended.into(),
            Value::Int(job.array_at(&["status", "active"]).len() as i64),
            last.into(),
            age(job, now).into(),
            names,
            images,
            selector.into(),
        ])
    }
}

impl Strategy for Status {
    fn default(&self, job: &mut Value) {
        CronJobs.default(job);
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::None
    }
}

fn spec(c: Cursor<'_>, old: Option<&Value>, options: &PodOptions) {
    schedule_and_zone(c, old);
    rules::nonnegative(c.field("startingDeadlineSeconds"));
    rules::required_one_of(c.field("concurrencyPolicy"), &["Allow", "Forbid", "Replace"]);
    let job = c.field("jobTemplate").field("spec");
    job_spec(job, options);
    let selector = job.field("selector");
    if selector.exists() {
        selector.invalid(selector.shown(), "`selector` will be auto-generated");
    }
    let manual = job.field("manualSelector");
    if manual.is_true() {
        manual.push(Error::not_supported(manual.path(), true, &["nil", "false"]));
    }
    rules::nonnegative(c.field("successfulJobsHistoryLimit"));
    rules::nonnegative(c.field("failedJobsHistoryLimit"));
}

fn schedule_and_zone(c: Cursor<'_>, old: Option<&Value>) {
    let (schedule, zone) = (c.field("schedule"), c.field("timeZone"));
    if schedule.str().is_empty() {
        schedule.required("");
    } else {
        if let Err(e) = schedule::check(schedule.str()) {
            schedule.invalid(schedule.str(), e);
        }
        let stored = old.is_some_and(|old| old.str_at(&["schedule"]).contains("TZ"));
        match (schedule.str().contains("TZ"), stored) {
            (true, true) if zone.exists() => {
                let detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
                schedule.invalid(schedule.str(), detail);
            }
            (true, false) => {
                let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
                schedule.invalid(schedule.str(), detail);
            }
            _ => {}
        }
    }
    if zone.exists() && old.is_none_or(|old| old.get("timeZone") != zone.value()) {
        time_zone(zone);
    }
}

fn time_zone(c: Cursor<'_>) {
    const EXPLICIT: &str = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
    let name = c.str();
    if name.is_empty() {
        return c.invalid("", "timeZone must be nil or non-empty string");
    }
    let fine = |part: &str| {
        let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'+');
        !matches!(part, "." | "..")
            && !part.starts_with('-')
            && (1..=14).contains(&part.len())
            && part.bytes().all(known)
    };
    if !name.split('/').all(fine) {
        return c.invalid(name, format!("unknown time zone {name}"));
    }
    if name.eq_ignore_ascii_case("local") {
        c.invalid(name, EXPLICIT);
    }
    if let Err(e) = schedule::load_location(name) {
        c.invalid(name, e);
    }
}
