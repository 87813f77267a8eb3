//! kubectl's `last-applied-configuration` annotation: the bridge from client-side to server-side apply.

use triptych_object::value::Object;
use triptych_object::{Value, json, meta};

use super::set::FieldSet;
use super::typed::Typed;

/// The annotation in which kubectl's client-side apply keeps the configuration it applied.
pub const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// All annotations of an object together may have no more bytes.
const MAX_ANNOTATION_BYTES: usize = 256 * 1024;

/// The fields that the last client-side apply set and that still have the value it set: conflicts in them are none.
pub fn explained(typed: Typed<'_>, live: &Value, api_version: &str) -> Option<FieldSet<'static>> {
    let text = meta::annotation(live, ANNOTATION).filter(|text| !text.is_empty())?;
    typed.validate(live, false).ok()?;
    let last = json::from_slice(text.as_bytes()).ok()?;
    if last.str_at(&["apiVersion"]) != api_version || last.str_at(&["kind"]).is_empty() {
        return None;
    }
    typed.validate(&last, false).ok()?;
    let changes = typed.compare(&last, live).ok()?;
    let same = typed
        .field_set(&last)
        .difference(&changes.modified)
        .difference(&changes.added)
        .difference(&changes.removed);
    Some(same.into_owned())
}

/// Writes the applied configuration into the annotation if the object has one.
pub fn refresh(object: &mut Value, config: &Value) {
    if meta::annotation(object, ANNOTATION).is_none_or(str::is_empty) {
        return;
    }
    let mut config = config.clone();
    if let Some(Value::Object(annotations)) = config.at_mut(&["metadata", "annotations"]) {
        annotations.remove(ANNOTATION);
    }
    sort(&mut config);
    let text = json::to_string(&config) + "\n";
    let Some(Value::Object(annotations)) = object.at_mut(&["metadata", "annotations"]) else {
        return;
    };
    annotations.insert(ANNOTATION, text.into());
    let size: usize = annotations
        .iter()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    if size > MAX_ANNOTATION_BYTES {
        annotations.remove(ANNOTATION);
    }
}

/// Go writes maps sorted.
fn sort(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.iter_mut().for_each(|(_, member)| sort(member));
            Object::sort(map);
        }
        Value::Array(items) => items.iter_mut().for_each(sort),
        _ => {}
    }
}
