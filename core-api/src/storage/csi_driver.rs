//! CSIDriver: what a CSI driver needs and can do.

use std::collections::HashSet;

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{Value, meta};
use triptych_registry::age::age;
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::strategy::{Context, Strategy};

use crate::apps::workload::immutable;
use crate::validation::{Cursor, check, names as rules};

const MIN_TOKEN_SECONDS: i64 = 10 * 60;
const MIN_UPDATE_SECONDS: i64 = 10;

/// The strategy of `csidrivers`.
pub struct CsiDrivers;

impl Strategy for CsiDrivers {
    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |driver| spec(driver.field("spec")));
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |driver| {
            let new = driver.field("spec");
            spec(new);
            let attach = new.field("attachRequired").renamed("attachedRequired");
            immutable(attach, old.at(&["spec", "attachRequired"]));
            immutable(
                new.field("volumeLifecycleModes"),
                old.at(&["spec", "volumeLifecycleModes"]),
            );
        });
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }

    fn warnings(&self, _cx: &Context, new: &Value, old: Option<&Value>) -> Vec<String> {
        const TOKENS: [&str; 2] = ["spec", "tokenRequests"];
        const IN_SECRETS: [&str; 2] = ["spec", "serviceAccountTokenInSecrets"];
        let changed = old.is_none_or(|old| old.at(&TOKENS) != new.at(&TOKENS));
        if changed && !new.array_at(&TOKENS).is_empty() && new.at(&IN_SECRETS).is_none() {
            return vec!["spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes".into()];
        }
        Vec::new()
    }

    fn cells(&self, driver: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let flag = |member: &str, default: bool| {
            let given = driver.at(&["spec", member]).and_then(Value::as_bool);
            Value::Bool(given.unwrap_or(default))
        };
        let modes = driver.array_at(&["spec", "volumeLifecycleModes"]).iter();
        let modes: Vec<&str> = modes.filter_map(Value::as_str).collect();
        let audiences = driver.at(&["spec", "tokenRequests"]).and_then(Value::as_array);
        let audiences = audiences.map(|requests| {
            let audiences: Vec<&str> = requests.iter().map(|r| r.str_at(&["audience"])).collect();
            audiences.join(",")
        });
        Some(vec![
            meta::name(driver).into(),
            flag("attachRequired", true),
            flag("podInfoOnMount", false),
            flag("storageCapacity", false),
            audiences.unwrap_or_else(|| "<unset>".into()).into(),
            flag("requiresRepublish", false),
            if modes.is_empty() {
                "<none>".into()
            } else {
                modes.join(",").into()
            },
            age(driver, now).into(),
        ])
    }
}

fn spec(spec: Cursor<'_>) {
    for (member, shown) in [
        ("attachRequired", "attachedRequired"),
        ("podInfoOnMount", "podInfoOnMount"),
        ("storageCapacity", "storageCapacity"),
    ] {
        if !spec.has(member) {
            spec.field(member).renamed(shown).required("");
        }
    }
    rules::optional_one_of(
        spec.field("fsGroupPolicy"),
        &["File", "None", "ReadWriteOnceWithFSType"],
    );
    token_requests(spec.field("tokenRequests"));
    let modes = spec.field("volumeLifecycleModes");
    for mode in modes.items() {
        // errors name the list; Go does not sort what is supported
        rules::one_of(mode.reported_at(modes), &["Persistent", "Ephemeral"]);
    }
    if !spec.has("seLinuxMount") {
        spec.field("seLinuxMount").required("");
    }
    let period = spec.field("nodeAllocatableUpdatePeriodSeconds");
    if period.exists() && period.int() < MIN_UPDATE_SECONDS {
        period.invalid(period.int(), "must be greater than or equal to 10 seconds");
    }
    let in_secrets = spec.field("serviceAccountTokenInSecrets");
    if in_secrets.exists() && spec.field("tokenRequests").is_empty() {
        in_secrets.invalid(
            in_secrets.shown(),
            "serviceAccountTokenInSecrets is set but no tokenRequests are specified",
        );
    }
}

fn token_requests(requests: Cursor<'_>) {
    let mut audiences = HashSet::new();
    for request in requests.items() {
        let audience = request.field("audience");
        if !audiences.insert(audience.str()) {
            audience.duplicate(audience.str());
            continue;
        }
        let Some(seconds) = request.given("expirationSeconds") else {
            continue;
        };
        if seconds.int() < MIN_TOKEN_SECONDS {
            seconds.invalid(seconds.int(), "may not specify a duration less than 10 minutes");
        }
        if seconds.int() > 1 << 32 {
            seconds.invalid(seconds.int(), "may not specify a duration larger than 2^32 seconds");
        }
    }
}
