//! `status.conditions` of a CRD.

use jiff::Timestamp;
use triptych_object::{Value, time};

/// What a step of a controller wants to be so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `NamesAccepted`, `Established` …
    pub kind: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// One word.
    pub reason: String,
    /// For people.
    pub message: String,
}

impl Condition {
    /// A condition.
    pub fn new(kind: &'static str, holds: bool, reason: impl Into<String>, message: impl Into<String>) -> Condition {
        Condition {
            kind,
            status: if holds { "True" } else { "False" },
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// True if the CRD says the same, times aside.
    pub fn is_in(&self, crd: &Value) -> bool {
        find(crd, self.kind).is_some_and(|have| {
            have.str_at(&["status"]) == self.status
                && have.str_at(&["reason"]) == self.reason
                && have.str_at(&["message"]) == self.message
        })
    }

    /// Puts it into the CRD; the time of transition moves only with the status.
    pub fn set(&self, crd: &mut Value, now: Timestamp) {
        let path = ["status", "conditions"];
        let now = time::rfc3339(now);
        if crd.at(&path).and_then(Value::as_array).is_none() {
            crd.set_at(&path, Value::Array(Vec::new()));
        }
        let Some(list) = crd.at_mut(&path).and_then(Value::as_array_mut) else {
            return;
        };
        let existing = list.iter_mut().find(|c| c.str_at(&["type"]) == self.kind);
        let Some(condition) = existing else {
            list.push(Value::from([
                ("type", self.kind.into()),
                ("status", self.status.into()),
                ("lastTransitionTime", now.into()),
                ("reason", self.reason.as_str().into()),
                ("message", self.message.as_str().into()),
            ]));
            return;
        };
        if condition.str_at(&["status"]) != self.status || condition.str_at(&["lastTransitionTime"]).is_empty() {
            condition.set_at(&["lastTransitionTime"], now.into());
        }
        condition.set_at(&["status"], self.status.into());
        condition.set_at(&["reason"], self.reason.as_str().into());
        condition.set_at(&["message"], self.message.as_str().into());
    }
}

/// A condition of a CRD.
pub fn find<'v>(crd: &'v Value, kind: &str) -> Option<&'v Value> {
    let conditions = crd.array_at(&["status", "conditions"]);
    conditions.iter().find(|c| c.str_at(&["type"]) == kind)
}

/// Whether a condition is there and true.
pub fn is_true(crd: &Value, kind: &str) -> bool {
    find(crd, kind).is_some_and(|c| c.str_at(&["status"]) == "True")
}

/// Takes a condition out.
pub fn remove(crd: &mut Value, kind: &str) {
    let conditions = crd.at_mut(&["status", "conditions"]);
    if let Some(list) = conditions.and_then(Value::as_array_mut) {
        list.retain(|c| c.str_at(&["type"]) != kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_transition_moves_only_with_the_status() {
        let mut crd = Value::object();
        Condition::new("A", true, "R", "m").set(&mut crd, Timestamp::UNIX_EPOCH);
        let later = Timestamp::from_second(100).unwrap_or_default();
        Condition::new("A", true, "S", "n").set(&mut crd, later);
        assert_eq!(
            find(&crd, "A").map(|c| c.str_at(&["lastTransitionTime"])),
            Some("1970-01-01T00:00:00Z")
        );
        Condition::new("A", false, "S", "n").set(&mut crd, later);
        assert_eq!(
            find(&crd, "A").map(|c| c.str_at(&["lastTransitionTime"])),
            Some("1970-01-01T00:01:40Z")
        );
        assert!(!is_true(&crd, "A"));
    }
}
