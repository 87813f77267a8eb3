//! Parts of a CRD as Go's internal types look in JSON: what error texts show as bad values.
//!
//! Contract: all members, Go's names, in the order of the structs; `null` for what is absent.

use triptych_object::{Object, Value};

use super::schema_walk::{list, map};

enum Form {
    Text,
    Flag,
    /// A pointer to a plain value, or a value that is kept as it is.
    Plain,
    Schema,
    Schemas,
    SchemaMap,
    SchemaOrArray,
    SchemaOrBool,
    Dependencies,
    Docs,
    Rules,
}

/// JSONSchemaProps: JSON name, Go's name.
const SCHEMA: [(&str, &str, Form); 44] = [
    ("id", "ID", Form::Text),
    ("$schema", "Schema", Form::Text),
    ("$ref", "Ref", Form::Plain),
    ("description", "Description", Form::Text),
    ("type", "Type", Form::Text),
    ("nullable", "Nullable", Form::Flag),
    ("format", "Format", Form::Text),
    ("title", "Title", Form::Text),
    ("default", "Default", Form::Plain),
    ("maximum", "Maximum", Form::Plain),
    ("exclusiveMaximum", "ExclusiveMaximum", Form::Flag),
    ("minimum", "Minimum", Form::Plain),
    ("exclusiveMinimum", "ExclusiveMinimum", Form::Flag),
    ("maxLength", "MaxLength", Form::Plain),
    ("minLength", "MinLength", Form::Plain),
    ("pattern", "Pattern", Form::Text),
    ("maxItems", "MaxItems", Form::Plain),
    ("minItems", "MinItems", Form::Plain),
    ("uniqueItems", "UniqueItems", Form::Flag),
    ("multipleOf", "MultipleOf", Form::Plain),
    ("enum", "Enum", Form::Plain),
    ("maxProperties", "MaxProperties", Form::Plain),
    ("minProperties", "MinProperties", Form::Plain),
    ("required", "Required", Form::Plain),
    ("items", "Items", Form::SchemaOrArray),
    ("allOf", "AllOf", Form::Schemas),
    ("oneOf", "OneOf", Form::Schemas),
    ("anyOf", "AnyOf", Form::Schemas),
    ("not", "Not", Form::Schema),
    ("properties", "Properties", Form::SchemaMap),
    ("additionalProperties", "AdditionalProperties", Form::SchemaOrBool),
    ("patternProperties", "PatternProperties", Form::SchemaMap),
    ("dependencies", "Dependencies", Form::Dependencies),
    ("additionalItems", "AdditionalItems", Form::SchemaOrBool),
    ("definitions", "Definitions", Form::SchemaMap),
    ("externalDocs", "ExternalDocs", Form::Docs),
    ("example", "Example", Form::Plain),
    (
        "x-kubernetes-preserve-unknown-fields",
        "XPreserveUnknownFields",
        Form::Plain,
    ),
    ("x-kubernetes-embedded-resource", "XEmbeddedResource", Form::Flag),
    ("x-kubernetes-int-or-string", "XIntOrString", Form::Flag),
    ("x-kubernetes-list-map-keys", "XListMapKeys", Form::Plain),
    ("x-kubernetes-list-type", "XListType", Form::Plain),
    ("x-kubernetes-map-type", "XMapType", Form::Plain),
    ("x-kubernetes-validations", "XValidations", Form::Rules),
];

/// Members of a schema in the order of the struct: JSON name, Go's name.
pub fn schema_members() -> impl Iterator<Item = (&'static str, &'static str)> {
    SCHEMA.iter().map(|(json, go, _)| (*json, *go))
}

/// A schema.
pub fn schema(value: &Value) -> Value {
    let members = SCHEMA.iter().map(|(json, go, form)| {
        let given = value.get(json).filter(|v| !v.is_null());
        ((*go).to_owned(), member(form, given, value, json))
    });
    Value::Object(members.collect())
}

fn member(form: &Form, given: Option<&Value>, schema_value: &Value, name: &str) -> Value {
    let Some(given) = given else {
        return match form {
            Form::Text => "".into(),
            Form::Flag => Value::Bool(false),
            _ => Value::Null,
        };
    };
    match form {
        Form::Text | Form::Flag | Form::Plain => given.clone(),
        Form::Schema => schema(given),
        Form::Schemas => Value::Array(list(schema_value, name).iter().map(schema).collect()),
        Form::SchemaMap => sorted(map(schema_value, name).map(|(k, v)| (k, schema(v)))),
        Form::SchemaOrArray => schema_or_array(given),
        Form::SchemaOrBool => schema_or_bool(given),
        Form::Dependencies => sorted(map(schema_value, name).map(|(k, v)| (k, dependency(v)))),
        Form::Docs => Value::from([
            ("Description", given.str_at(&["description"]).into()),
            ("URL", given.str_at(&["url"]).into()),
        ]),
        Form::Rules => Value::Array(list(schema_value, name).iter().map(rule).collect()),
    }
}

fn sorted<'v>(members: impl Iterator<Item = (&'v str, Value)>) -> Value {
    let mut members: Vec<(String, Value)> = members.map(|(k, v)| (k.to_owned(), v)).collect();
    members.sort_by(|a, b| a.0.cmp(&b.0));
    Value::Object(members.into_iter().collect())
}

/// `items`.
pub fn schema_or_array(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::from([
            ("Schema", Value::Null),
            ("JSONSchemas", Value::Array(items.iter().map(schema).collect())),
        ]),
        other => Value::from([("Schema", schema(other)), ("JSONSchemas", Value::Null)]),
    }
}

fn schema_or_bool(value: &Value) -> Value {
    match value {
        Value::Bool(allows) => Value::from([("Allows", Value::Bool(*allows)), ("Schema", Value::Null)]),
        other => Value::from([("Allows", Value::Bool(true)), ("Schema", schema(other))]),
    }
}

fn dependency(value: &Value) -> Value {
    match value {
        Value::Array(_) => Value::from([("Schema", Value::Null), ("Property", value.clone())]),
        other => Value::from([("Schema", schema(other)), ("Property", Value::Null)]),
    }
}

/// An entry of `x-kubernetes-validations`.
pub fn rule(value: &Value) -> Value {
    let text = |name: &str| Value::from(value.str_at(&[name]));
    let pointer = |name: &str| value.get(name).cloned().unwrap_or(Value::Null);
    Value::from([
        ("Rule", text("rule")),
        ("Message", text("message")),
        ("MessageExpression", text("messageExpression")),
        ("Reason", pointer("reason")),
        ("FieldPath", text("fieldPath")),
        ("OptionalOldSelf", pointer("optionalOldSelf")),
    ])
}

/// `spec.versions` in internal shape; `null` for none.
pub fn versions(value: Option<&Value>) -> Value {
    let Some(Value::Array(versions)) = value else {
        return Value::Null;
    };
    Value::Array(versions.iter().map(version).collect())
}

fn version(value: &Value) -> Value {
    let flag = |name: &str| Value::Bool(value.get(name).and_then(Value::as_bool).unwrap_or(false));
    let given = |name: &str| value.get(name).filter(|v| !v.is_null());
    let validation = given("schema").map(|s| {
        let inner = s.get("openAPIV3Schema").filter(|v| !v.is_null());
        Value::from([("OpenAPIV3Schema", inner.map(schema).unwrap_or(Value::Null))])
    });
    let items = |name: &str, form: fn(&Value) -> Value| match given(name) {
        Some(Value::Array(items)) => Value::Array(items.iter().map(form).collect()),
        _ => Value::Null,
    };
    Value::from([
        ("Name", value.str_at(&["name"]).into()),
        ("Served", flag("served")),
        ("Storage", flag("storage")),
        ("Deprecated", flag("deprecated")),
        (
            "DeprecationWarning",
            given("deprecationWarning").cloned().unwrap_or(Value::Null),
        ),
        ("Schema", validation.unwrap_or(Value::Null)),
        (
            "Subresources",
            given("subresources").map(subresources).unwrap_or(Value::Null),
        ),
        ("AdditionalPrinterColumns", items("additionalPrinterColumns", column)),
        (
            "SelectableFields",
            items("selectableFields", |f| {
                Value::from([("JSONPath", f.str_at(&["jsonPath"]).into())])
            }),
        ),
    ])
}

fn subresources(value: &Value) -> Value {
    let given = |name: &str| value.get(name).filter(|v| !v.is_null());
    let scale = given("scale").map(|s| {
        Value::from([
            ("SpecReplicasPath", s.str_at(&["specReplicasPath"]).into()),
            ("StatusReplicasPath", s.str_at(&["statusReplicasPath"]).into()),
            (
                "LabelSelectorPath",
                s.get("labelSelectorPath").cloned().unwrap_or(Value::Null),
            ),
        ])
    });
    Value::from([
        (
            "Status",
            given("status")
                .map(|_| Value::Object(Object::new()))
                .unwrap_or(Value::Null),
        ),
        ("Scale", scale.unwrap_or(Value::Null)),
    ])
}

fn column(value: &Value) -> Value {
    let text = |name: &str| Value::from(value.str_at(&[name]));
    Value::from([
        ("Name", text("name")),
        ("Type", text("type")),
        ("Format", text("format")),
        ("Description", text("description")),
        (
            "Priority",
            Value::Int(value.get("priority").and_then(Value::as_i64).unwrap_or(0)),
        ),
        ("JSONPath", text("jsonPath")),
    ])
}
