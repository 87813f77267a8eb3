//! Reading and writing `metadata` on a tree.
//!
//! Contract: readers give Go's zero values for absent or mistyped members; writers keep what they do not touch. These
//! functions know `ObjectMeta`'s names and nothing of any kind.

use crate::gvk::{GroupVersion, Gvk};
use crate::value::{Object, Value};

/// An object's `apiVersion` and `kind`; empty parts if absent.
pub fn gvk(object: &Value) -> Gvk {
    let gv: GroupVersion = object.str_at(&["apiVersion"]).parse().unwrap_or_default();
    gv.kind(object.str_at(&["kind"]))
}

/// Text member of `metadata`, empty if absent.
pub fn text<'a>(object: &'a Value, member: &str) -> &'a str {
    object.str_at(&["metadata", member])
}

/// `metadata.name`.
pub fn name(object: &Value) -> &str {
    text(object, "name")
}

/// `metadata.namespace`.
pub fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

/// `metadata.uid`.
pub fn uid(object: &Value) -> &str {
    text(object, "uid")
}

/// `metadata.resourceVersion`.
pub fn resource_version(object: &Value) -> &str {
    text(object, "resourceVersion")
}

/// `metadata.generation`, 0 if absent.
pub fn generation(object: &Value) -> i64 {
    object
        .at(&["metadata", "generation"])
        .and_then(Value::as_i64)
        .unwrap_or(0)
}

/// `metadata.deletionTimestamp`, if set.
pub fn deletion_timestamp(object: &Value) -> Option<&str> {
    Some(text(object, "deletionTimestamp")).filter(|t| !t.is_empty())
}

/// `metadata.deletionGracePeriodSeconds`, if set.
pub fn deletion_grace_period(object: &Value) -> Option<i64> {
    object
        .at(&["metadata", "deletionGracePeriodSeconds"])
        .and_then(Value::as_i64)
}

/// `metadata.finalizers`.
pub fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    object
        .array_at(&["metadata", "finalizers"])
        .iter()
        .filter_map(Value::as_str)
}

/// One label.
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.at(&["metadata", "labels"])?.get(key)?.as_str()
}

/// One annotation.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.at(&["metadata", "annotations"])?.get(key)?.as_str()
}

/// The `metadata` map, made if absent.
pub fn metadata_mut(object: &mut Value) -> &mut Object {
    if !matches!(object.get("metadata"), Some(Value::Object(_))) {
        object.set_at(&["metadata"], Value::object());
    }
    match object.get_mut("metadata") {
        Some(Value::Object(o)) => o,
        _ => unreachable!("set just above"),
    }
}

/// Sets a text member of `metadata`; an empty text removes it.
pub fn set_text(object: &mut Value, member: &str, text: impl Into<String>) {
    let text = text.into();
    let meta = metadata_mut(object);
    if text.is_empty() {
        meta.remove(member);
    } else {
        meta.insert(member, Value::String(text));
    }
}

/// Sets `metadata.generation`; 0 removes it.
pub fn set_generation(object: &mut Value, generation: i64) {
    let meta = metadata_mut(object);
    if generation == 0 {
        meta.remove("generation");
    } else {
        meta.insert("generation", Value::Int(generation));
    }
}

/// Sets `metadata.finalizers`; none removes the member.
pub fn set_finalizers(object: &mut Value, finalizers: Vec<String>) {
    let meta = metadata_mut(object);
    if finalizers.is_empty() {
        meta.remove("finalizers");
    } else {
        meta.insert("finalizers", finalizers.into());
    }
}

/// Sets a label.
pub fn set_label(object: &mut Value, key: &str, value: &str) {
    object.set_at(&["metadata", "labels", key], value.into());
}

/// Sets an annotation.
pub fn set_annotation(object: &mut Value, key: &str, value: &str) {
    object.set_at(&["metadata", "annotations", key], value.into());
}

/// Removes an annotation, and the map with its last one.
pub fn remove_annotation(object: &mut Value, key: &str) {
    object.remove_at(&["metadata", "annotations", key]);
    if object
        .at(&["metadata", "annotations"])
        .and_then(Value::as_object)
        .is_some_and(Object::is_empty)
    {
        object.remove_at(&["metadata", "annotations"]);
    }
}
