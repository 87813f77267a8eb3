//! A JobSpec, in jobs and in the templates of cron jobs.

use std::collections::HashSet;

use triptych_object::field::{Error, quote};
use triptych_object::names;

use super::indexes;
use crate::validation::pod_options::PodOptions;
use crate::validation::pod_template::pod_template;
use crate::validation::{Cursor, names as rules};

/// Limits of indexed jobs.
const MAX_INDEXED: i64 = 100_000;
/// Completions above which parallelism has a lower limit.
const MANY_COMPLETIONS: i64 = 100_000;
const PARALLELISM_OF_MANY: i64 = 10_000;

/// What jobs and templates of jobs have in common.
pub fn job_spec(c: Cursor<'_>, options: &PodOptions) {
    const NUMBERS: [&str; 7] = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    NUMBERS.iter().for_each(|name| rules::nonnegative(c.field(name)));
    if c.has("maxFailedIndexes") && !c.has("backoffLimitPerIndex") {
        c.field("backoffLimitPerIndex")
            .required("when maxFailedIndexes is specified");
    }
    if let Some(manager) = c.given("managedBy") {
        domain_prefixed_path(manager);
        if manager.str().len() > 63 {
            manager.too_long(63);
        }
    }
    completion_mode(c);
    if c.has("podFailurePolicy") {
        failure_policy(c);
    }
    if let Some(policy) = c.given("successPolicy") {
        if is_indexed(c) {
            success_policy(policy, c.field("completions").int());
        } else {
            policy.invalid(policy.go_struct(), "requires indexed completion mode");
        }
    }
    replacement_policy(c);
    pod_template(c.field("template"), options);
    restart_policy(c);
}

fn is_indexed(c: Cursor<'_>) -> bool {
    c.str_of("completionMode") == "Indexed"
}

fn domain_prefixed_path(c: Cursor<'_>) {
    const DETAIL: &str = "must be a domain-prefixed path (such as \"acme.io/foo\")";
    let text = c.str();
    if text.is_empty() {
        return c.required("");
    }
    let Some((host, path)) = text
        .split_once('/')
        .filter(|(host, path)| !host.is_empty() && !path.is_empty())
    else {
        return c.invalid(text, DETAIL);
    };
    for message in names::dns1123_subdomain(host) {
        c.invalid(host, message);
    }
    for message in names::http_path(path) {
        c.invalid(path, message);
    }
}

fn completion_mode(c: Cursor<'_>) {
    rules::optional_one_of(c.field("completionMode"), &["NonIndexed", "Indexed"]);
    let (completions, parallelism, failed) = (
        c.field("completions"),
        c.field("parallelism"),
        c.field("maxFailedIndexes"),
    );
    if is_indexed(c) {
        if !completions.exists() {
            completions.required("when completion mode is Indexed");
        }
        if parallelism.int() > MAX_INDEXED {
            let detail = format!("must be less than or equal to {MAX_INDEXED} when completion mode is Indexed");
            parallelism.invalid(parallelism.int(), detail);
        }
        if completions.exists() && failed.exists() && failed.int() > completions.int() {
            failed.invalid(failed.int(), "must be less than or equal to completions");
        }
        if failed.int() > MAX_INDEXED {
            failed.invalid(failed.int(), format!("must be less than or equal to {MAX_INDEXED}"));
        }
        if completions.int() > MANY_COMPLETIONS && c.has("backoffLimitPerIndex") {
            many_completions(parallelism, failed);
        }
    }
    if matches!(c.str_of("completionMode"), "" | "NonIndexed") {
        for member in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if let Some(member) = c.given(member) {
                member.invalid(member.int(), "requires indexed completion mode");
            }
        }
    }
}

fn many_completions<'a>(parallelism: Cursor<'a>, failed: Cursor<'a>) {
    if !failed.exists() {
        failed.required(format!(
            "must be specified when completions is above {MANY_COMPLETIONS}"
        ));
    }
    for limited in [parallelism, failed] {
        let limit = PARALLELISM_OF_MANY;
        if limited.int() > limit {
            let detail = format!(
                "must be less than or equal to {limit} when completions are above {MANY_COMPLETIONS} and used with backoff limit per index"
            );
            limited.invalid(limited.int(), detail);
        }
    }
}

fn replacement_policy(c: Cursor<'_>) {
    let policy = c.field("podReplacementPolicy");
    let supported: &[&str] = if c.has("podFailurePolicy") {
        &["Failed"]
    } else {
        &["Failed", "TerminatingOrFailed"]
    };
    rules::optional_one_of(policy, supported);
}

fn restart_policy(c: Cursor<'_>) {
    let policy = c.field("template").field("spec").field("restartPolicy");
    match policy.str() {
        "Always" | "" => policy.required("valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if c.has("podFailurePolicy") => {
            policy.invalid(
                "OnFailure",
                "only \"Never\" is supported when podFailurePolicy is specified",
            );
        }
        "OnFailure" | "Never" => {}
        _ => policy.not_supported(&["OnFailure", "Never"]),
    }
}

/// `valid values: ["A" "B"]`, as Go prints a list of strings.
fn required_choice(c: Cursor<'_>, supported: &[&str]) {
    if c.str().is_empty() {
        let listed: Vec<String> = supported.iter().map(|s| quote(s)).collect();
        c.required(format!("valid values: [{}]", listed.join(" ")));
    } else {
        rules::one_of(c, supported);
    }
}

fn failure_policy(spec: Cursor<'_>) {
    const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
    let pod = spec.field("template").field("spec");
    let containers: HashSet<&str> = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| pod.field(list).items())
        .map(|c| c.str_of("name"))
        .collect();
    let list = spec.field("podFailurePolicy").field("rules");
    if list.len() > 20 {
        list.too_many(20);
    }
    for rule in list.items() {
        let action = rule.field("action");
        if action.str() == "FailIndex" {
            if !spec.has("backoffLimitPerIndex") {
                action.invalid("FailIndex", "requires the backoffLimitPerIndex to be set");
            }
        } else {
            required_choice(action, &ACTIONS);
        }
        let (codes, conditions) = (rule.field("onExitCodes"), rule.field("onPodConditions"));
        if codes.exists() {
            exit_codes(codes, &containers);
        }
        pod_conditions(conditions);
        let detail = match (codes.exists(), conditions.is_empty()) {
            (true, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
            (false, true) => "specifying one of OnExitCodes and OnPodConditions is required",
            _ => continue,
        };
        rule.push(Error::invalid_unshown(rule.path(), detail));
    }
}

fn pod_conditions(c: Cursor<'_>) {
    if c.len() > 20 {
        c.too_many(20);
    }
    for pattern in c.items() {
        rules::qualified(pattern.field("type"));
        required_choice(pattern.field("status"), &["False", "True", "Unknown"]);
    }
}

fn exit_codes(c: Cursor<'_>, containers: &HashSet<&str>) {
    const CONTAINER: &str = "must be one of the container or initContainer names in the pod template";
    required_choice(c.field("operator"), &["In", "NotIn"]);
    if let Some(container) = c.given("containerName")
        && !containers.contains(container.str())
    {
        container.invalid(container.str(), CONTAINER);
    }
    let values = c.field("values");
    if values.is_empty() {
        values.invalid(values.shown(), "at least one value is required");
    } else if values.len() > 255 {
        values.too_many(255);
    }
    let mut seen = HashSet::new();
    for value in values.items() {
        if c.str_of("operator") == "In" && value.int() == 0 {
            value.invalid(0, "must not be 0 for the In operator");
        }
        if !seen.insert(value.int()) {
            value.duplicate(value.int());
        }
    }
    let numbers: Vec<i64> = values.items().map(Cursor::int).collect();
    if !numbers.is_sorted() {
        values.invalid(values.shown(), "must be ordered");
    }
}

fn success_policy(c: Cursor<'_>, completions: i64) {
    let list = c.field("rules");
    if list.is_empty() {
        list.required("at least one rules must be specified when the successPolicy is specified");
    }
    if list.len() > 20 {
        list.too_many(20);
    }
    for rule in list.items() {
        let (count, set) = (rule.field("succeededCount"), rule.field("succeededIndexes"));
        if !count.exists() && !set.exists() {
            rule.required("at least one of succeededCount or succeededIndexes must be specified");
        }
        let mut total = 0;
        if set.exists() {
            if set.str().len() > 64 * 1024 {
                set.too_long(64 * 1024);
            }
            match indexes::count(set.str(), completions) {
                Ok(number) => total = number,
                Err(e) => set.invalid(set.str(), format!("error parsing succeededIndexes: {e}")),
            }
        }
        if !count.exists() {
            continue;
        }
        rules::nonnegative(count);
        if count.int() > completions {
            let detail = format!("must be less than or equal to {completions} (the number of specified completions)");
            count.invalid(count.int(), detail);
        }
        if set.exists() && count.int() > total {
            let detail = format!(
                "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            );
            count.invalid(count.int(), detail);
        }
    }
}
