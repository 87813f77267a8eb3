//! From a CRD's structural schema (an `openAPIV3Schema`) to types.
//!
//! Contract: the schema was validated as structural when the CRD was written; what is not structural is left out, never
//! refused. Formats that the server does not know are dropped, as it drops them. Plain scalars are shared, so that the
//! types of a CRD take little more room than its text.

mod default;

use std::collections::HashMap;
use std::sync::Arc;

use triptych_object::Value;

use crate::types::{
    Field, List, ListKind, Map, Name, NestedValidation, Pattern, Rule, Schema, Shape, Struct, Topology, Type, TypeId,
    Validation,
};

pub use default::{apply_defaults, prune_nulls};

/// Schemas are not followed deeper than this.
const MAX_DEPTH: usize = 500;

/// A CRD version's types.
#[derive(Debug)]
pub struct Structural {
    /// Its types, on top of the shared ones.
    pub schema: Schema,
    /// The type of the object as a whole.
    pub root: TypeId,
}

impl Structural {
    /// Imports a schema (`spec.versions[].schema.openAPIV3Schema`).
    pub fn import(base: Arc<Schema>, props: &Value) -> Structural {
        let mut importer = Importer {
            schema: Schema::on(base),
            plain: HashMap::new(),
        };
        let root = importer.node(props, 0);
        let mut schema = importer.schema;
        schema.shrink();
        Structural { schema, root }
    }
}

struct Importer {
    schema: Schema,
    /// Types about which nothing is known but their shape, by that.
    plain: HashMap<&'static str, TypeId>,
}

fn flag(node: &Value, name: &str) -> bool {
    node.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn name(node: &Value, member: &str) -> Option<Name> {
    node.get(member)
        .and_then(Value::as_str)
        .filter(|s| !s.is_empty())
        .map(|s| Name::Owned(s.to_owned()))
}

fn names(node: &Value, member: &str) -> Vec<Name> {
    node.array_at(&[member])
        .iter()
        .filter_map(Value::as_str)
        .map(|s| Name::Owned(s.to_owned()))
        .collect()
}

impl Importer {
    fn node(&mut self, node: &Value, depth: usize) -> TypeId {
        if depth > MAX_DEPTH {
            return self.shared("");
        }
        let shape = self.shape(node, depth);
        let nullable = flag(node, "nullable");
        let default = node.get("default").filter(|d| !d.is_null()).cloned().map(Box::new);
        let validation = validation(node, node.str_at(&["type"])).map(Box::new);
        if default.is_none() && validation.is_none() && !nullable {
            let plain = match shape {
                Shape::Bool => "boolean",
                Shape::Int { .. } => "integer",
                Shape::Float { .. } => "number",
                Shape::String => "string",
                Shape::IntOrString => "int-or-string",
                _ => "",
            };
            if !plain.is_empty() {
                return self.shared(plain);
            }
        }
        self.schema.push(Type {
            nullable,
            default,
            validation,
            ..Type::of(shape)
        })
    }

    fn shared(&mut self, plain: &'static str) -> TypeId {
        if let Some(id) = self.plain.get(plain) {
            return *id;
        }
        let id = self.schema.push(Type::of(match plain {
            "boolean" => Shape::Bool,
            "integer" => Shape::Int {
                bits: 64,
                unsigned: false,
            },
            "number" => Shape::Float { bits: 64 },
            "string" => Shape::String,
            "int-or-string" => Shape::IntOrString,
            _ => Shape::Struct(untyped()),
        }));
        self.plain.insert(plain, id);
        id
    }

    fn shape(&mut self, node: &Value, depth: usize) -> Shape {
        if flag(node, "x-kubernetes-int-or-string") {
            return Shape::IntOrString;
        }
        let topology = match node.str_at(&["x-kubernetes-map-type"]) {
            "atomic" => Topology::Atomic,
            "granular" => Topology::Granular,
            _ => Topology::Unmarked,
        };
        match node.str_at(&["type"]) {
            "boolean" => return Shape::Bool,
            "integer" => {
                return Shape::Int {
                    bits: 64,
                    unsigned: false,
                };
            }
            "number" => return Shape::Float { bits: 64 },
            "string" => return Shape::String,
            "array" => {
                let item = match node.get("items") {
                    Some(items @ Value::Object(_)) => self.node(items, depth + 1),
                    _ => self.shared(""),
                };
                let kind = match node.str_at(&["x-kubernetes-list-type"]) {
                    "map" => ListKind::Map(names(node, "x-kubernetes-list-map-keys").into()),
                    "set" => ListKind::Set,
                    "atomic" => ListKind::Atomic,
                    _ => ListKind::Unmarked,
                };
                return Shape::List(List { item, kind });
            }
            _ => {}
        }
        match node.get("additionalProperties") {
            Some(values @ Value::Object(_)) => {
                let value = self.node(values, depth + 1);
                return Shape::Map(Map {
                    key: self.shared("string"),
                    value,
                    topology,
                });
            }
            // Whatever the values are, nothing is known of what they contain.
            Some(Value::Bool(true)) => {
                return Shape::Map(Map {
                    key: self.shared("string"),
                    value: self.shared(""),
                    topology,
                });
            }
            _ => {}
        }
        let mut fields = Vec::new();
        if let Some(properties) = node.get("properties").and_then(Value::as_object) {
            let required = names(node, "required");
            for (key, property) in properties.iter() {
                let ty = self.node(property, depth + 1);
                let mut field = Field::plain(Name::Owned(key.to_owned()), ty);
                field.required = required.iter().any(|r| *r == key);
                fields.push(field);
            }
        }
        let mut shape = Struct::new(fields);
        shape.topology = topology;
        shape.preserve_unknown = flag(node, "x-kubernetes-preserve-unknown-fields");
        shape.embedded_resource = flag(node, "x-kubernetes-embedded-resource");
        shape.untyped = node.str_at(&["type"]).is_empty();
        Shape::Struct(shape)
    }
}

fn untyped() -> Struct {
    let mut shape = Struct::new(Vec::new());
    shape.untyped = true;
    shape
}

const STRING_FORMATS: [&str; 24] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
];

/// A format that is checked; the server knows no other and says nothing about them.
pub fn is_known_format(format: &str, type_name: &str) -> bool {
    match type_name {
        "" | "string" => {
            let normal = format.replace('-', "");
            STRING_FORMATS.contains(&normal.as_str()) || matches!(normal.as_str(), "k8sshortname" | "k8slongname")
        }
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// The constraints of a node; none if it has none.
fn validation(node: &Value, type_name: &str) -> Option<Validation> {
    let number = |member: &str| node.get(member).and_then(Value::as_f64);
    let count = |member: &str| node.get(member).and_then(Value::as_i64);
    let nested = |member: &str| -> Vec<NestedValidation> { node.array_at(&[member]).iter().map(nested).collect() };
    let validation = Validation {
        pattern: name(node, "pattern").map(Pattern::new),
        format: name(node, "format").filter(|f| is_known_format(f, type_name)),
        minimum: number("minimum"),
        exclusive_minimum: flag(node, "exclusiveMinimum"),
        maximum: number("maximum"),
        exclusive_maximum: flag(node, "exclusiveMaximum"),
        multiple_of: number("multipleOf"),
        min_length: count("minLength"),
        max_length: count("maxLength"),
        min_items: count("minItems"),
        max_items: count("maxItems"),
        unique_items: flag(node, "uniqueItems"),
        min_properties: count("minProperties"),
        max_properties: count("maxProperties"),
        enum_values: node.array_at(&["enum"]).to_vec(),
        required: names(node, "required"),
        all_of: nested("allOf"),
        any_of: nested("anyOf"),
        one_of: nested("oneOf"),
        not: node
            .get("not")
            .filter(|n| !n.is_null())
            .map(|n| Box::new(self::nested(n))),
        rules: node.array_at(&["x-kubernetes-validations"]).iter().map(rule).collect(),
    };
    let bare = validation.pattern.is_none()
        && validation.format.is_none()
        && validation.minimum.is_none()
        && validation.maximum.is_none()
        && validation.multiple_of.is_none()
        && validation.min_length.is_none()
        && validation.max_length.is_none()
        && validation.min_items.is_none()
        && validation.max_items.is_none()
        && !validation.unique_items
        && validation.min_properties.is_none()
        && validation.max_properties.is_none()
        && validation.enum_values.is_empty()
        && validation.required.is_empty()
        && validation.all_of.is_empty()
        && validation.any_of.is_empty()
        && validation.one_of.is_empty()
        && validation.not.is_none()
        && validation.rules.is_empty();
    (!bare).then_some(validation)
}

fn rule(node: &Value) -> Rule {
    Rule {
        rule: name(node, "rule").unwrap_or_default(),
        message: name(node, "message"),
        message_expression: name(node, "messageExpression"),
        reason: name(node, "reason"),
        field_path: name(node, "fieldPath"),
        optional_old_self: node.get("optionalOldSelf").and_then(Value::as_bool),
    }
}

fn nested(node: &Value) -> NestedValidation {
    let child = |member: &str| match node.get(member) {
        Some(child @ Value::Object(_)) => Some(Box::new(nested(child))),
        _ => None,
    };
    let properties = node.get("properties").and_then(Value::as_object);
    NestedValidation {
        validation: validation(node, node.str_at(&["type"])).unwrap_or_default(),
        type_name: name(node, "type"),
        properties: properties
            .into_iter()
            .flat_map(|p| p.iter())
            .map(|(key, property)| (Name::Owned(key.to_owned()), nested(property)))
            .collect(),
        items: child("items"),
        additional_properties: child("additionalProperties"),
    }
}
