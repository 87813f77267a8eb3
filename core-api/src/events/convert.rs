//! The two forms of an event.
//!
//! Contract: both take and give documents in normal form, with exactly the members that kube-apiserver writes.

use triptych_object::Value;
use triptych_object::value::Object;

/// `events.k8s.io/v1` name, `v1` name, in the order of the latter.
const RENAMED: [(&str, &str); 8] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("reportingController", "reportingComponent"),
    ("reportingInstance", "reportingInstance"),
];

/// Turns an event of the core group into one of `events.k8s.io/v1`.
pub fn from_stored(event: Value) -> Value {
    let Value::Object(members) = event else { return event };
    let mut out = Object::with_capacity(members.len());
    for (name, mut value) in members {
        match name.as_str() {
            "apiVersion" => value = "events.k8s.io/v1".into(),
            "reportingComponent" | "reportingInstance" if value.as_str() == Some("") => continue,
            "series" if value.get("count").is_none() => value.set_at(&["count"], Value::Int(0)),
            _ => {}
        }
        let renamed = RENAMED.iter().find(|(_, old)| *old == name);
        out.insert(renamed.map_or(name.as_str(), |(new, _)| new), value);
    }
    Value::Object(out)
}

/// Turns an event of `events.k8s.io/v1` into one of the core group.
pub fn to_stored(event: Value) -> Value {
    let Value::Object(members) = event else { return event };
    let mut out = Object::with_capacity(members.len() + 2);
    for (name, mut value) in members {
        match name.as_str() {
            "apiVersion" => value = "v1".into(),
            "series" if value.get("count").and_then(Value::as_i64) == Some(0) => drop(value.remove_at(&["count"])),
            _ => {}
        }
        let renamed = RENAMED.iter().find(|(new, _)| *new == name);
        out.insert(renamed.map_or(name.as_str(), |(_, old)| old), value);
    }
    for always in ["reportingComponent", "reportingInstance"] {
        if !out.contains_key(always) {
            out.insert(always, "".into());
        }
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_object::json;

    #[test]
    fn both_forms_say_the_same() {
        let old = json::from_slice(
            br#"{"kind":"Event","apiVersion":"v1","metadata":{"name":"a"},"involvedObject":{"kind":"Pod"},"message":"m",
                "source":{},"firstTimestamp":null,"lastTimestamp":null,"count":2,"eventTime":null,
                "reportingComponent":"","reportingInstance":"","series":{"lastObservedTime":null}}"#,
        )
        .unwrap();
        let new = from_stored(old.clone());
        assert_eq!(
            json::to_string(&new),
            concat!(
                r#"{"kind":"Event","apiVersion":"events.k8s.io/v1","metadata":{"name":"a"},"regarding":{"kind":"Pod"},"#,
                r#""note":"m","deprecatedSource":{},"deprecatedFirstTimestamp":null,"deprecatedLastTimestamp":null,"#,
                r#""deprecatedCount":2,"eventTime":null,"series":{"lastObservedTime":null,"count":0}}"#
            )
        );
        assert_eq!(to_stored(new), old);
    }
}
