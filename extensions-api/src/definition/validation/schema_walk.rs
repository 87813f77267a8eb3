//! Looking through an `openAPIV3Schema` as it stands in a CRD: a tree in normal form, zero values left out.

use triptych_object::Value;

/// A text member; empty if absent.
pub fn text<'v>(schema: &'v Value, name: &str) -> &'v str {
    schema.str_at(&[name])
}

/// A boolean member; false if absent.
pub fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool).unwrap_or(false)
}

/// A member that is there.
pub fn given<'v>(schema: &'v Value, name: &str) -> Option<&'v Value> {
    schema.get(name).filter(|v| !v.is_null())
}

/// A member that is a schema.
pub fn child<'v>(schema: &'v Value, name: &str) -> Option<&'v Value> {
    schema.get(name).filter(|v| v.as_object().is_some())
}

/// The schemas of `allOf`, `anyOf`, `oneOf`.
pub fn list<'v>(schema: &'v Value, name: &str) -> &'v [Value] {
    schema.array_at(&[name])
}

/// The schemas of `properties` and its like, with their names.
pub fn map<'v>(schema: &'v Value, name: &str) -> impl Iterator<Item = (&'v str, &'v Value)> {
    schema
        .get(name)
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(|m| m.iter())
}

/// Whether a schema or one inside it satisfies `holds`.
pub fn any(schema: &Value, holds: &dyn Fn(&Value) -> bool) -> bool {
    if holds(schema) {
        return true;
    }
    let inside = |name| child(schema, name).is_some_and(|s| any(s, holds));
    let listed = |name| list(schema, name).iter().any(|s| any(s, holds));
    let mapped = |name| map(schema, name).any(|(_, s)| s.as_object().is_some() && any(s, holds));
    inside("items")
        || listed("items")
        || listed("allOf")
        || listed("anyOf")
        || listed("oneOf")
        || inside("not")
        || mapped("properties")
        || inside("additionalProperties")
        || mapped("patternProperties")
        || inside("additionalItems")
        || mapped("definitions")
        || mapped("dependencies")
}

/// Whether any schema of a CRD in internal shape satisfies `holds`.
pub fn any_of_spec(spec: &Value, holds: &dyn Fn(&Value) -> bool) -> bool {
    all_of_spec(spec).any(|schema| any(schema, holds))
}

/// All whole schemas of a CRD in internal shape.
pub fn all_of_spec(spec: &Value) -> impl Iterator<Item = &Value> {
    let common = spec.at(&["validation", "openAPIV3Schema"]);
    let versions = spec.array_at(&["versions"]).iter();
    common
        .into_iter()
        .chain(versions.filter_map(|v| v.at(&["schema", "openAPIV3Schema"])))
        .filter(|s| !s.is_null())
}
