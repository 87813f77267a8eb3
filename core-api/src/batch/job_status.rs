//! `jobs/status`: what a job controller reports must make sense (KEP-4368).

use std::collections::HashSet;

use triptych_object::field::{Error, ErrorList};
use triptych_object::{Value, time};
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::{Context, Strategy};

use super::indexes;
use super::job::{Jobs, condition};
use crate::apps::workload::number;
use crate::validation::{Cursor, check, names as rules};

/// The strategy of `jobs/status`.
pub struct Status;

impl Strategy for Status {
    fn default(&self, job: &mut Value) {
        Jobs.default(job);
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |job| {
            let status = job.field("status");
            counters(status);
            let change = Change { new, old };
            conditions(status, &change);
            times(status, &change);
            finished(status, &change);
            completion_indexes(status, &change);
            progress(status, &change);
        });
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }
}

/// A status before and after: most rules apply only when what they are about changed.
struct Change<'a> {
    new: &'a Value,
    old: &'a Value,
}

fn is_finished(job: &Value) -> bool {
    condition(job, "Complete") || condition(job, "Failed")
}

impl Change<'_> {
    fn has(&self, kind: &str) -> bool {
        condition(self.new, kind)
    }

    fn had(&self, kind: &str) -> bool {
        condition(self.old, kind)
    }

    fn condition_changed(&self, kind: &str) -> bool {
        self.has(kind) != self.had(kind)
    }

    fn changed(&self, member: &str) -> bool {
        self.new.at(&["status", member]) != self.old.at(&["status", member])
    }

    fn finished_changed(&self) -> bool {
        is_finished(self.new) != is_finished(self.old)
    }
}

/// An error about the conditions as a whole.
fn about_conditions(status: Cursor<'_>, detail: impl Into<String>) {
    let c = status.field("conditions");
    c.push(Error::invalid_unshown(c.path(), detail));
}

fn counters(status: Cursor<'_>) {
    for member in ["active", "succeeded", "failed", "ready", "terminating"] {
        rules::nonnegative(status.field(member));
    }
    let pods = status.field("uncountedTerminatedPods");
    let mut seen = HashSet::new();
    for uid in ["succeeded", "failed"]
        .into_iter()
        .flat_map(|list| pods.field(list).items())
    {
        if uid.str().is_empty() {
            uid.invalid("", "must not be empty");
        } else if !seen.insert(uid.str()) {
            uid.duplicate(uid.str());
        }
    }
}

fn conditions(status: Cursor<'_>, change: &Change<'_>) {
    let (complete, failed) = (change.has("Complete"), change.has("Failed"));
    let (target, met) = (change.has("FailureTarget"), change.has("SuccessCriteriaMet"));
    let changed = |kind: &str| change.condition_changed(kind);
    if complete && failed && (changed("Complete") || changed("Failed")) {
        about_conditions(status, "cannot set Complete=True and Failed=true conditions");
    }
    if complete && target && (changed("Complete") || changed("FailureTarget")) {
        about_conditions(status, "cannot set Complete=True and FailureTarget=true conditions");
    }
    if failed && !target && (changed("Failed") || change.changed("failedIndexes")) {
        about_conditions(
            status,
            "cannot set Failed=True condition without the FailureTarget=true condition",
        );
    }
    if complete && !met && (changed("Complete") || changed("SuccessCriteriaMet")) {
        about_conditions(
            status,
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        );
    }
    if met && failed {
        about_conditions(status, "cannot set SuccessCriteriaMet=True and Failed=true conditions");
    }
    if met && target {
        about_conditions(
            status,
            "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
        );
    }
    if complete && !met && change.new.at(&["spec", "successPolicy"]).is_some() {
        about_conditions(
            status,
            "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
        );
    }
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if change.had(kind) && !change.has(kind) {
            about_conditions(status, format!("cannot disable the terminal {kind}=True condition"));
        }
    }
    if change.had("SuccessCriteriaMet") && !met {
        about_conditions(status, "cannot disable the SuccessCriteriaMet=True condition");
    }
    if change.had("Complete") && !change.had("SuccessCriteriaMet") && met {
        about_conditions(
            status,
            "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions",
        );
    }
}

fn times(status: Cursor<'_>, change: &Change<'_>) {
    let (start, completion) = (status.field("startTime"), status.field("completionTime"));
    let complete = change.has("Complete");
    if change.condition_changed("Complete") || change.changed("completionTime") {
        if completion.exists() && !complete {
            let detail = "cannot set completionTime when there is no Complete=True condition";
            completion.invalid(completion.shown(), detail);
        }
        if !completion.exists() && complete {
            completion.required("completionTime is required for Complete jobs");
        }
    }
    let (started, completed) = (time::parse_rfc3339(start.str()), time::parse_rfc3339(completion.str()));
    let reversed = started.zip(completed).is_some_and(|(s, c)| c < s);
    if reversed && (change.changed("startTime") || change.changed("completionTime")) {
        completion.invalid(completion.shown(), "must be equal to or after `startTime`");
    }
    let before = |member| change.old.at(&["status", member]);
    if completion.exists() && before("completionTime").is_some() && change.changed("completionTime") {
        completion.invalid(completion.shown(), "field is immutable");
    }
    let resuming = change.had("Suspended")
        && change
            .new
            .array_at(&["status", "conditions"])
            .iter()
            .any(|c| c.str_at(&["type"]) == "Suspended" && c.str_at(&["status"]) == "False");
    let suspended = change.new.at(&["spec", "suspend"]).and_then(Value::as_bool) == Some(true);
    if change.changed("startTime") && !resuming && before("startTime").is_some() && !suspended {
        start.invalid(start.shown(), "field is immutable for unsuspended job once set");
    }
}

fn finished(status: Cursor<'_>, change: &Change<'_>) {
    if !is_finished(change.new) {
        return;
    }
    let applies = |member: &str| change.finished_changed() || change.changed(member);
    for (member, detail) in [
        ("active", "active>0 is invalid for finished job"),
        ("terminating", "terminating>0 is invalid for finished job"),
    ] {
        let c = status.field(member);
        if applies(member) && c.int() > 0 {
            c.invalid(c.int(), detail);
        }
    }
    let suspended = change.new.at(&["spec", "suspend"]).and_then(Value::as_bool) == Some(true);
    let nothing_to_do = suspended && change.new.at(&["spec", "completions"]).and_then(Value::as_i64) == Some(0);
    let start = status.field("startTime");
    if applies("startTime") && !nothing_to_do && !start.exists() {
        start.required("startTime is required for finished job");
    }
    let pods = status.field("uncountedTerminatedPods");
    if applies("uncountedTerminatedPods") && (!pods.field("failed").is_empty() || !pods.field("succeeded").is_empty()) {
        pods.invalid(pods.go_struct(), "must be empty for finished job");
    }
}

fn completion_indexes(status: Cursor<'_>, change: &Change<'_>) {
    let (completed, failed) = (status.field("completedIndexes"), status.field("failedIndexes"));
    let spec = |member| change.new.at(&["spec", member]);
    let completions = spec("completions").and_then(Value::as_i64);
    let per_index = spec("backoffLimitPerIndex").is_some();
    let unreadable = |c: Cursor<'_>, name: &str| {
        if let Some(Err(e)) = completions.map(|n| indexes::count(c.str(), n)) {
            c.invalid(c.str(), format!("error parsing {name}: {e}"));
        }
    };
    if change.changed("completedIndexes") {
        unreadable(completed, "completedIndexes");
        if !completed.str().is_empty() && change.new.str_at(&["spec", "completionMode"]) != "Indexed" {
            let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
            completed.invalid(completed.str(), detail);
        }
    }
    if change.changed("failedIndexes") && failed.exists() {
        if per_index {
            unreadable(failed, "failedIndexes");
        } else {
            let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            failed.invalid(failed.str(), detail);
        }
    }
    if (change.changed("failedIndexes") || change.changed("completedIndexes"))
        && failed.exists()
        && let Some(index) = completions.and_then(|n| indexes::overlap(completed.str(), failed.str(), n))
    {
        let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
        failed.invalid(failed.str(), detail);
    }
}

fn progress(status: Cursor<'_>, change: &Change<'_>) {
    let (ready, active) = (status.field("ready"), status.field("active").int());
    if (change.changed("ready") || change.changed("active")) && ready.int() > active {
        ready.invalid(ready.int(), "cannot set more ready pods than active");
    }
    let spec = |member| change.new.at(&["spec", member]);
    let indexed = change.new.str_at(&["spec", "completionMode"]) == "Indexed";
    let elastic = indexed && spec("completions") == spec("parallelism");
    for (member, applies) in [("failed", true), ("succeeded", !elastic)] {
        let c = status.field(member);
        if applies && c.int() < number(change.old, &["status", member]) {
            c.invalid(c.int(), format!("cannot decrease the {member} counter"));
        }
    }
}
