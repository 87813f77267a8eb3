//! Schemas from before structural ones were demanded: condition NonStructuralSchema says what is wrong with them.

use triptych_object::Value;
use triptych_object::field::{Error, ErrorList};

use super::Surroundings;
use crate::definition::conditions::{self, Condition};
use crate::definition::validation::structural;

/// Sets or takes away the condition.
pub fn step(crd: &mut Value, around: &Surroundings<'_>) {
    match violations(crd) {
        None => conditions::remove(crd, "NonStructuralSchema"),
        Some(condition) if condition.is_in(crd) => {}
        Some(condition) => condition.set(crd, around.now),
    }
}

fn violations(crd: &Value) -> Option<Condition> {
    let mut errors = ErrorList::new();
    if crd.at(&["spec", "preserveUnknownFields"]).and_then(Value::as_bool) == Some(true) {
        errors.push(Error::invalid("spec.preserveUnknownFields", true, "must be false"));
    }
    for (i, version) in crd.array_at(&["spec", "versions"]).iter().enumerate() {
        let Some(schema) = version.at(&["schema", "openAPIV3Schema"]).filter(|s| !s.is_null()) else {
            continue;
        };
        if let Err(why) = structural::convertible(schema) {
            let name = version.str_at(&["name"]);
            return Some(Condition {
                kind: "NonStructuralSchema",
                status: "Unknown",
                reason: "StructuralError".to_owned(),
                message: format!("failed to check validation schema for version {name}: {why}"),
            });
        }
        let path = format!("spec.versions[{i}].schema.openAPIV3Schema");
        errors.append(structural::check(schema, &path));
    }
    if errors.is_empty() {
        return None;
    }
    Some(Condition::new(
        "NonStructuralSchema",
        true,
        "Violations",
        errors.aggregate(),
    ))
}
