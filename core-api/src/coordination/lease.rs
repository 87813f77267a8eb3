//! Lease: who leads, and for how long without being heard.

use jiff::Timestamp;
use triptych_object::field::{Error, ErrorList};
use triptych_object::{Value, meta, names};
use triptych_registry::age::age;
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::strategy::{Context, Strategy};

use crate::features::is_on;
use crate::validation::{Cursor, check};

/// The strategy of `leases`.
pub struct Leases;

impl Strategy for Leases {
    fn prepare_create(&self, _cx: &Context, new: &mut Value) {
        drop_disabled(new, None);
    }

    fn prepare_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        drop_disabled(new, Some(old));
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |lease| spec(lease.field("spec")));
    }

    fn validate_update(&self, cx: &Context, new: &Value, _old: &Value, errors: &mut ErrorList) {
        self.validate_create(cx, new, errors);
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }

    fn standard_finalizers(&self) -> bool {
        false
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(vec![
            meta::name(object).into(),
            object.str_at(&["spec", "holderIdentity"]).into(),
            age(object, now).into(),
        ])
    }
}

/// Takes away the fields of coordinated leader election, which is off, unless they are in use.
fn drop_disabled(lease: &mut Value, old: Option<&Value>) {
    if is_on("CoordinatedLeaderElection") {
        return;
    }
    for member in ["strategy", "preferredHolder"] {
        let path = ["spec", member];
        if old.is_none_or(|old| old.at(&path).is_none()) {
            lease.remove_at(&path);
        }
    }
}

fn spec(spec: Cursor<'_>) {
    if let Some(seconds) = spec.given("leaseDurationSeconds")
        && seconds.int() <= 0
    {
        seconds.invalid(seconds.int(), "must be greater than 0");
    }
    if let Some(transitions) = spec.given("leaseTransitions")
        && transitions.int() < 0
    {
        transitions.invalid(transitions.int(), "must be greater than or equal to 0");
    }
    if let Some(named) = spec.given("strategy") {
        strategy(named);
    }
    if !spec.str_of("preferredHolder").is_empty() && spec.str_of("strategy").is_empty() {
        spec.field("preferredHolder")
            .forbidden("may only be specified if `strategy` is defined");
    }
}

/// A coordination strategy: Kubernetes' own, or one with a domain. Errors name the field twice, as upstream's do.
pub fn strategy(named: Cursor<'_>) {
    let path = || format!("{}.strategy", named.path());
    if !named.str().contains('/') {
        const OWN: [&str; 1] = ["OldestEmulationVersion"];
        if !OWN.contains(&named.str()) {
            named.push(Error::not_supported(path(), named.str(), &OWN));
        }
        return;
    }
    for message in names::qualified_name(named.str()) {
        named.push(Error::invalid(path(), named.str(), message));
    }
}
