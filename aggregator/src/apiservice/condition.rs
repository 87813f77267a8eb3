//! The condition `Available` of an APIService.

use jiff::Timestamp;
use triptych_object::{Value, time};

/// What the condition says, besides when it last changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Available {
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// One word.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

impl Available {
    /// One of our tiers serves it.
    pub fn local() -> Available {
        Available {
            status: "True",
            reason: "Local",
            message: "Local APIServices are always available".to_owned(),
        }
    }

    /// The server behind it answers.
    pub fn passed() -> Available {
        Available {
            status: "True",
            reason: "Passed",
            message: "all checks passed".to_owned(),
        }
    }

    /// It cannot be used.
    pub fn no(reason: &'static str, message: String) -> Available {
        Available {
            status: "False",
            reason,
            message,
        }
    }

    /// True if the object's condition says so already.
    pub fn is_told_by(&self, object: &Value) -> bool {
        find(object).is_some_and(|c| {
            let text = |member| c.str_at(&[member]);
            (text("status"), text("reason"), text("message")) == (self.status, self.reason, self.message.as_str())
        })
    }

    /// Sets the condition; its time changes only with its status.
    pub fn set(&self, object: &mut Value, now: Timestamp) {
        let since = match find(object) {
            Some(before) if before.str_at(&["status"]) == self.status => {
                before.get("lastTransitionTime").cloned().unwrap_or_default()
            }
            _ => time::rfc3339(now).into(),
        };
        let condition = Value::from([
            ("type", "Available".into()),
            ("status", self.status.into()),
            ("lastTransitionTime", since),
            ("reason", self.reason.into()),
            ("message", self.message.as_str().into()),
        ]);
        let conditions = object.at_mut(&["status", "conditions"]).and_then(Value::as_array_mut);
        match conditions {
            Some(conditions) => match conditions.iter_mut().find(|c| is_available(c)) {
                Some(before) => *before = condition,
                None => conditions.push(condition),
            },
            None => object.set_at(&["status", "conditions"], Value::Array(vec![condition])),
        }
    }
}

fn is_available(condition: &Value) -> bool {
    condition.str_at(&["type"]) == "Available"
}

/// The condition of an APIService, if it has one.
pub fn find(object: &Value) -> Option<&Value> {
    object
        .array_at(&["status", "conditions"])
        .iter()
        .find(|c| is_available(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_changes_only_with_the_status() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let mut object = Value::object();
        let no = Available::no("ServiceNotFound", "gone".into());
        no.set(&mut object, at(1));
        assert!(no.is_told_by(&object));
        Available::no("MissingEndpoints", "none".into()).set(&mut object, at(2));
        let condition = find(&object).unwrap();
        assert_eq!(condition.str_at(&["lastTransitionTime"]), "1970-01-01T00:00:01Z");
        assert_eq!(condition.str_at(&["reason"]), "MissingEndpoints");
        Available::passed().set(&mut object, at(3));
        let condition = find(&object).unwrap();
        assert_eq!(condition.str_at(&["lastTransitionTime"]), "1970-01-01T00:00:03Z");
        assert_eq!(object.array_at(&["status", "conditions"]).len(), 1);
    }
}
