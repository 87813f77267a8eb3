//! Validation of custom resources against their schema, in the words of kube-openapi.
//!
//! Contract: [`value`] says what `kube-openapi/pkg/validation/validate` says of the same schema and value, turned into
//! field errors as apiextensions-apiserver does, ratcheting on update included (KEP-4008: what did not change is not
//! held against the object). [`list_types`] finds duplicates in sets and associative lists, [`embedded`] checks embedded
//! resources. Where Go's order is that of a map, it is the document's here. Errors are bounded by [`ErrorList`].

mod formats;
mod found;
mod lists;
mod scalars;
mod schema;

use triptych_object::Value;
use triptych_object::field::{Error, ErrorList};

use crate::types::{Schema, Shape, TypeId};

pub use formats::check as has_format;
pub use lists::list_types;

/// Validates a value; `old` is the stored one on update, `prefix` the path of the value in its object, if it is a part.
pub fn value(schema: &Schema, root: TypeId, value: &Value, old: Option<&Value>, prefix: Option<&str>) -> ErrorList {
    schema::validate(schema, root, value, old, prefix)
}

/// Validates `apiVersion`, `kind` and `metadata` of embedded resources; `check_metadata` validates an ObjectMeta.
pub fn embedded(
    schema: &Schema,
    root: TypeId,
    value: &Value,
    prefix: &str,
    check_metadata: &dyn Fn(&Value, &str, &mut ErrorList),
) -> ErrorList {
    let mut errors = ErrorList::new();
    visit_embedded(schema, root, value, prefix, &mut |resource, path| {
        check_resource(resource, path, check_metadata, &mut errors);
    });
    errors
}

/// Validates a value that is a resource, whatever its type says of it, as [`embedded`] does those in it.
pub fn resource(
    schema: &Schema,
    root: TypeId,
    value: &Value,
    prefix: &str,
    check_metadata: &dyn Fn(&Value, &str, &mut ErrorList),
) -> ErrorList {
    let mut errors = ErrorList::new();
    if !matches!(&schema.get(root).shape, Shape::Struct(s) if s.embedded_resource) {
        check_resource(value, prefix, check_metadata, &mut errors);
    }
    errors.append(embedded(schema, root, value, prefix, check_metadata));
    errors
}

fn child(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

fn visit_embedded(schema: &Schema, ty: TypeId, value: &Value, path: &str, visit: &mut dyn FnMut(&Value, &str)) {
    match (&schema.get(ty).shape, value) {
        (Shape::Struct(s), Value::Object(map)) => {
            if s.embedded_resource {
                visit(value, path);
            }
            for (key, member) in map.iter() {
                if let Some(field) = s.field(key) {
                    visit_embedded(schema, field.ty, member, &child(path, key), visit);
                }
            }
        }
        (Shape::Map(m), Value::Object(map)) => {
            for (key, member) in map.iter() {
                visit_embedded(schema, m.value, member, &format!("{path}[{key}]"), visit);
            }
        }
        (Shape::List(list), Value::Array(items)) => {
            for (i, item) in items.iter().enumerate() {
                visit_embedded(schema, list.item, item, &format!("{path}[{i}]"), visit);
            }
        }
        _ => {}
    }
}

fn check_resource(
    resource: &Value,
    path: &str,
    check_metadata: &dyn Fn(&Value, &str, &mut ErrorList),
    errors: &mut ErrorList,
) {
    for key in ["apiVersion", "kind"] {
        if resource.get(key).is_none() {
            errors.push(Error::required(child(path, key), ""));
        }
    }
    match resource.get("apiVersion") {
        None => {}
        Some(Value::String(v)) if v.is_empty() => {
            errors.push(Error::invalid(
                child(path, "apiVersion"),
                v.as_str(),
                "must not be empty",
            ));
        }
        Some(Value::String(v)) if v.matches('/').count() > 1 => {
            let detail = format!("unexpected GroupVersion string: {v}");
            errors.push(Error::invalid(child(path, "apiVersion"), v.as_str(), detail));
        }
        Some(Value::String(_)) => {}
        Some(other) => errors.push(Error::invalid(
            child(path, "apiVersion"),
            other.clone(),
            "must be a string",
        )),
    }
    match resource.get("kind") {
        None => {}
        Some(Value::String(kind)) if kind.is_empty() => {
            errors.push(Error::invalid(child(path, "kind"), "", "must not be empty"));
        }
        Some(Value::String(kind)) => {
            let messages = triptych_object::names::dns1035_label(&kind.to_lowercase());
            if !messages.is_empty() {
                let detail = format!(
                    "may have mixed case, but should otherwise match: {}",
                    messages.join(",")
                );
                errors.push(Error::invalid(child(path, "kind"), kind.as_str(), detail));
            }
        }
        Some(other) => errors.push(Error::invalid(child(path, "kind"), other.clone(), "must be a string")),
    }
    if let Some(metadata) = resource.get("metadata") {
        check_metadata(metadata, &child(path, "metadata"), errors);
    }
}

#[cfg(test)]
mod tests;
