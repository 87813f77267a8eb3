//! PriorityClass: names for the priorities of pods. Two classes of the system always exist.

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{GroupResource, Status, StatusResult, Value, meta};
use triptych_registry::age::age;
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::strategy::{Context, Strategy};

use crate::apps::workload::{immutable, number};
use crate::validation::{Cursor, check, names as rules};

const SYSTEM_PREFIX: &str = "system-";
const HIGHEST_FOR_USERS: i64 = 1_000_000_000;

/// The system's classes: name, value, description.
pub const SYSTEM_CLASSES: [(&str, i64, &str); 2] = [
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];

/// The strategy of `priorityclasses`.
pub struct PriorityClasses;

impl Strategy for PriorityClasses {
    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |class| {
            let value = class.field("value");
            if meta::name(new).starts_with(SYSTEM_PREFIX) {
                known(class);
            } else if value.int() > HIGHEST_FOR_USERS {
                value.forbidden(format!(
                    "maximum allowed value of a user defined priority is {HIGHEST_FOR_USERS}"
                ));
            }
            if let Some(policy) = class.given("preemptionPolicy") {
                rules::required_one_of(policy, &["PreemptLowerPriority", "Never"]);
            }
        });
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |class| {
            if class.field("value").int() != number(old, &["value"]) {
                class.field("value").forbidden("may not be changed in an update.");
            }
            immutable(class.field("preemptionPolicy"), old.get("preemptionPolicy"));
        });
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }

    fn validate_delete(&self, _cx: &Context, class: &Value) -> StatusResult<()> {
        let name = meta::name(class);
        if SYSTEM_CLASSES.iter().all(|(system, ..)| *system != name) {
            return Ok(());
        }
        let resource = GroupResource::new(super::GROUP, "priorityclasses");
        let why = "this is a system priority class and cannot be deleted";
        Err(Status::forbidden(&resource, name, why))
    }

    fn cells(&self, class: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let global = class.get("globalDefault").and_then(Value::as_bool);
        Some(vec![
            meta::name(class).into(),
            Value::Int(number(class, &["value"])),
            Value::Bool(global == Some(true)),
            age(class, now).into(),
            class.str_at(&["preemptionPolicy"]).into(),
        ])
    }
}

/// A class with the system's prefix must be one of the system's.
fn known(class: Cursor<'_>) {
    let name = class.field("metadata").field("name");
    let why = match SYSTEM_CLASSES.iter().find(|(known, ..)| *known == name.str()) {
        None => format!("{} is not a known system priority class", name.str()),
        Some((known, value, _)) if class.field("value").int() != *value => {
            format!("value of {known} PriorityClass must be {value}")
        }
        Some((known, ..)) if class.is_true_of("globalDefault") => {
            format!("globalDefault of {known} PriorityClass must be false")
        }
        Some(_) => return,
    };
    name.forbidden(format!(
        "priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {why}"
    ));
}
