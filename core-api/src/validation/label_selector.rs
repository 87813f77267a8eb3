//! Labels and label selectors (k8s.io/apimachinery/pkg/apis/meta/v1/validation).

use triptych_object::value::Object;
use triptych_object::{Value, names};

use super::{Cursor, names as rules};

/// What a label selector may have that a new one may not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lenience {
    /// Values that are no label values, because a stored object has such.
    pub invalid_values: bool,
}

/// A map of labels; every error names the map.
pub fn labels(c: Cursor<'_>) {
    let Some(map) = c.value().and_then(Value::as_object) else {
        return;
    };
    for (key, value) in map.iter() {
        for message in names::qualified_name(key) {
            c.invalid(key, message);
        }
        let value = value.as_str().unwrap_or("");
        for message in names::label_value(value) {
            c.invalid(value, message);
        }
    }
}

/// A label selector, which may be absent.
pub fn label_selector(c: Cursor<'_>, lenience: Lenience) {
    if !c.exists() {
        return;
    }
    labels(c.field("matchLabels"));
    for requirement in c.field("matchExpressions").items() {
        let values = requirement.field("values");
        let operator = requirement.field("operator");
        match operator.str() {
            "In" | "NotIn" if values.is_empty() => {
                values.required("must be specified when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => operator.invalid(other, "not a valid selector operator"),
        }
        rules::qualified(requirement.field("key"));
        if !lenience.invalid_values {
            for value in values.items() {
                value.invalid_text(names::label_value(value.str()));
            }
        }
    }
}

/// True if a selector selects everything: it is there but has no conditions.
pub fn is_empty(selector: Option<&Value>) -> bool {
    selector.is_some_and(|s| {
        s.get("matchLabels")
            .and_then(Value::as_object)
            .is_none_or(Object::is_empty)
            && s.array_at(&["matchExpressions"]).is_empty()
    })
}

/// Whether labels match a selector (`metav1.LabelSelectorAsSelector`): an absent one matches nothing. `Err` if it is no
/// valid selector.
pub fn matches(selector: Option<&Value>, labels: Option<&Object>) -> Result<bool, String> {
    let Some(selector) = selector.filter(|s| !s.is_null()) else {
        return Ok(false);
    };
    let get = |key: &str| labels.and_then(|l| l.get(key)).and_then(Value::as_str);
    if let Some(map) = selector.get("matchLabels").and_then(Value::as_object) {
        for (key, value) in map.iter() {
            if get(key) != value.as_str() {
                return Ok(false);
            }
        }
    }
    for requirement in selector.array_at(&["matchExpressions"]) {
        let have = get(requirement.str_at(&["key"]));
        let listed = || {
            let mut values = requirement.array_at(&["values"]).iter().filter_map(Value::as_str);
            values.any(|v| Some(v) == have)
        };
        let holds = match requirement.str_at(&["operator"]) {
            "In" => have.is_some() && listed(),
            "NotIn" => have.is_none() || !listed(),
            "Exists" => have.is_some(),
            "DoesNotExist" => have.is_none(),
            other => {
                return Err(format!(
                    "{} is not a valid label selector operator",
                    triptych_object::field::quote(other)
                ));
            }
        };
        if !holds {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether labels have all of a map (`labels.Set.AsSelector`); an empty map matches everything.
pub fn map_matches(selector: Option<&Value>, labels: Option<&Object>) -> bool {
    let Some(map) = selector.and_then(Value::as_object) else {
        return true;
    };
    map.iter()
        .all(|(key, value)| labels.and_then(|l| l.get(key)) == Some(value))
}
