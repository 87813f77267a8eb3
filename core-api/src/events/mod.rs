//! Events in both of their versions: `v1`, in which they are stored, and `events.k8s.io/v1`, which renames fields and
//! validates strictly.

mod convert;
mod rules;

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{Value, meta};
use triptych_registry::age::since;
use triptych_registry::builtin::Conversion;
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::strategy::{Context, Strategy};

pub use convert::{from_stored, to_stored};

use crate::kinds::Kinds;
use crate::validation::check;

/// Gives events their strategies.
pub fn register(kinds: &mut Kinds) {
    kinds.strategy("", "events", OldEvents);
    kinds.strategy("events.k8s.io", "events", NewEvents);
    kinds.conversion("events.k8s.io", "v1", "events", BetweenVersions);
    kinds.field("", "events", "source", &["source.component", "reportingComponent"]);
    kinds.field("", "events", "reportingController", &["reportingComponent"]);
    for (label, paths) in REGARDING {
        kinds.field("", "events", label, paths);
    }
}

/// Field labels of `events.k8s.io/v1` and where they lie in what is stored.
const REGARDING: [(&str, &[&str]); 7] = [
    ("regarding.apiVersion", &["involvedObject.apiVersion"]),
    ("regarding.fieldPath", &["involvedObject.fieldPath"]),
    ("regarding.kind", &["involvedObject.kind"]),
    ("regarding.name", &["involvedObject.name"]),
    ("regarding.namespace", &["involvedObject.namespace"]),
    ("regarding.resourceVersion", &["involvedObject.resourceVersion"]),
    ("regarding.uid", &["involvedObject.uid"]),
];

struct BetweenVersions;

impl Conversion for BetweenVersions {
    fn from_stored(&self, document: Value) -> Value {
        from_stored(document)
    }

    fn to_stored(&self, document: Value) -> Value {
        to_stored(document)
    }
}

/// The strategy of `events` in the core group: nothing but the rules of old.
pub struct OldEvents;

/// The strategy of `events` in `events.k8s.io`.
pub struct NewEvents;

impl Strategy for OldEvents {
    fn cached(&self) -> bool {
        false
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |event| rules::legacy(event, "reportingComponent"));
    }

    fn validate_update(&self, cx: &Context, new: &Value, _old: &Value, errors: &mut ErrorList) {
        self.validate_create(cx, new, errors);
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::None
    }

    fn meta_checks_on_create(&self) -> bool {
        false
    }

    fn standard_finalizers(&self) -> bool {
        false
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(cells(object, now))
    }
}

impl Strategy for NewEvents {
    fn cached(&self) -> bool {
        false
    }

    /// They are stored as events of core.
    fn group_in_texts(&self) -> Option<&'static str> {
        Some("")
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(&to_stored(new.clone()), errors, |event| {
            rules::legacy(event, "reportingController");
            rules::strict(event);
        });
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        let old = to_stored(old.clone());
        check(&to_stored(new.clone()), errors, |event| {
            rules::legacy(event, "reportingController");
            rules::unchanged(event, &old);
        });
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(cells(&to_stored(object.clone()), now))
    }
}

fn cells(event: &Value, now: Timestamp) -> Vec<Value> {
    let text = |path: &[&str]| event.str_at(path).to_owned();
    let first_of = |a: &[&str], b: &[&str]| if event.str_at(a).is_empty() { text(b) } else { text(a) };
    let first = since(&first_of(&["firstTimestamp"], &["eventTime"]), now);
    let count = event.get("count").and_then(Value::as_i64).unwrap_or(0);
    let (last, count) = match event.get("series") {
        Some(series) => (
            since(series.str_at(&["lastObservedTime"]), now),
            series.get("count").and_then(Value::as_i64).unwrap_or(0),
        ),
        None => {
            let last = event.str_at(&["lastTimestamp"]);
            let last = if last.is_empty() {
                first.clone()
            } else {
                since(last, now)
            };
            (last, if count == 0 { 1 } else { count })
        }
    };
    let mut target = text(&["involvedObject", "kind"]).to_lowercase();
    let name = event.str_at(&["involvedObject", "name"]);
    if !name.is_empty() {
        target = format!("{target}/{name}");
    }
    let mut source = first_of(&["source", "component"], &["reportingComponent"]);
    let instance = first_of(&["source", "host"], &["reportingInstance"]);
    if !instance.is_empty() {
        source = format!("{source}, {instance}");
    }
    vec![
        last.into(),
        text(&["type"]).into(),
        text(&["reason"]).into(),
        target.into(),
        text(&["involvedObject", "fieldPath"]).into(),
        source.into(),
        event.str_at(&["message"]).trim().into(),
        first.into(),
        Value::Int(count),
        meta::name(event).into(),
    ]
}
