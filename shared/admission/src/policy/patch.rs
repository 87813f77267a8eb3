//! How a mutating policy changes an object: an applied configuration or a JSON patch, both made by an expression.
//!
//! Contract: a configuration is merged as server-side apply merges, without owners; it may not set parts of what is
//! owned as a whole. A JSON patch whose test fails changes nothing.

use triptych_cel::Value as Cel;
use triptych_cel::value::Struct;
use triptych_object::{Gvk, Status, Value, field};
use triptych_registry::model::Model;
use triptych_schema::managed::typed::Typed;
use triptych_schema::patch::json_patch::JsonPatch;

/// Why an object was not changed.
#[derive(Debug)]
pub enum Failure {
    /// The policy's failure, to be treated as it says.
    Policy(String),
    /// The request's.
    Request(Box<Status>),
}

fn policy(why: impl Into<String>) -> Failure {
    Failure::Policy(why.into())
}

/// Applies the configuration that an expression came to.
pub fn apply(model: &dyn Model, kind: &Gvk, object: &Value, configuration: &Cel<'_>) -> Result<Value, Failure> {
    let Cel::Struct(configured) = configuration else {
        return Err(policy(format!(
            "unsupported return type from ApplyConfiguration expression: {}",
            configuration.type_name()
        )));
    };
    check_names(configured)?;
    let mut patch = configuration
        .to_json()
        .ok_or_else(|| policy("invalid return type: the configuration cannot be written as JSON"))?;
    let version = kind.group_version().to_string();
    patch.set_at(&["apiVersion"], version.as_str().into());
    patch.set_at(&["kind"], kind.kind.as_str().into());
    let error = |what: &str, why: String| policy(format!("error applying patch: {what}: {why}"));
    let Some((schema, ty)) = model.schema_of(&version) else {
        let why = format!("no type of {version}, Kind={} is known", kind.kind);
        return Err(error("failed to convert patch object to typed object", why));
    };
    let typed = Typed::object(schema, ty);
    typed
        .validate(&patch, false)
        .map_err(|e| error("failed to convert patch object to typed object", e.to_string()))?;
    let atomics = typed.atomics(&patch);
    if !atomics.is_empty() {
        let why = format!("may not mutate atomic arrays, maps or structs: {}", atomics.join(", "));
        return Err(error("invalid ApplyConfiguration", why));
    }
    typed
        .validate(object, true)
        .map_err(|e| error("failed to convert original object to typed object", e.to_string()))?;
    typed
        .merge(object, &patch)
        .map_err(|e| error("failed to merge patch", e.to_string()))
}

/// Applies the JSON patch that an expression came to.
pub fn json_patch(object: &Value, operations: &Cel<'_>) -> Result<Value, Failure> {
    let Cel::List(list) = operations else {
        return Err(policy(
            "type mismatch: JSONPatchType.expression should evaluate to array",
        ));
    };
    let mut read = Vec::with_capacity(list.len());
    for operation in list.iter() {
        let operation = operation.map_err(|e| policy(e.to_string()))?;
        read.push(operation_of(&operation)?);
    }
    let mut patched = object.clone();
    match JsonPatch::of(read).try_apply(&mut patched) {
        Ok(()) => Ok(patched),
        Err(unfit) if unfit.test_failed => Ok(object.clone()),
        Err(unfit) => Err(policy(format!("JSON Patch: {}", unfit.text))),
    }
}

fn operation_of(operation: &Cel<'_>) -> Result<Value, Failure> {
    let Cel::Struct(operation) = operation else {
        let kind = operation.type_name();
        return Err(policy(format!(
            "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch, got element of {kind}"
        )));
    };
    let text = |name: &str| operation.get(name).and_then(Cel::as_str).unwrap_or("");
    let mut out = vec![("op", Value::from(text("op"))), ("path", text("path").into())];
    if !text("from").is_empty() {
        out.push(("from", text("from").into()));
    }
    if let Some(value) = operation.get("value") {
        if let Cel::Struct(object) = value {
            check_names(object)?;
        }
        let value = value.to_json().ok_or_else(|| {
            policy(format!(
                "JSONPath valueExpression evaluated to a type that could not marshal to JSON: {}",
                value.type_name()
            ))
        })?;
        out.push(("value", whole_numbers(value)));
    }
    let members = out.into_iter().map(|(name, value)| (name.to_owned(), value));
    Ok(Value::Object(members.collect()))
}

/// Numbers that are whole are written so.
fn whole_numbers(value: Value) -> Value {
    match value {
        #[allow(clippy::cast_possible_truncation)] // within what both can say exactly
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 9.0e15 => Value::Int(number as i64),
        Value::Array(items) => Value::Array(items.into_iter().map(whole_numbers).collect()),
        Value::Object(members) => {
            let members = members.into_iter().map(|(name, value)| (name, whole_numbers(value)));
            Value::Object(members.collect())
        }
        other => other,
    }
}

/// An object's type must be named as the path to where it stands.
fn check_names(root: &Struct<'_>) -> Result<(), Failure> {
    let mut problems = Vec::new();
    check_struct(root, &root.name, &mut problems);
    if problems.is_empty() {
        return Ok(());
    }
    Err(policy(format!("type mismatch: {}", problems.join("\n"))))
}

fn check_struct(object: &Struct<'_>, path: &str, problems: &mut Vec<String>) {
    if *object.name != *path {
        let (name, path) = (field::quote(&object.name), field::quote(path));
        problems.push(format!(
            "unexpected type name {name}, expected {path}, which matches field name path from root Object type"
        ));
    }
    for (name, value) in &object.fields {
        check_value(value, &format!("{path}.{name}"), problems);
    }
}

fn check_value(value: &Cel<'_>, path: &str, problems: &mut Vec<String>) {
    match value {
        Cel::Struct(object) => check_struct(object, path, problems),
        Cel::List(list) => {
            for item in list.iter().flatten() {
                check_value(&item, path, problems);
            }
        }
        Cel::Map(map) => {
            for key in map.keys() {
                if let Some(Ok(value)) = map.get(&key) {
                    check_value(&value, path, problems);
                }
            }
        }
        _ => {}
    }
}
