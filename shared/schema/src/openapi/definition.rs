//! JSON schemas of types: what stands in `definitions` (v2) and `components.schemas` (v3).
//!
//! Contract: as kube-openapi writes them. Published types are referred to, anything else stands where it is used. The
//! dialects differ in little: v3 has defaults, lets an IntOrString be either, and wraps a reference that has company in
//! `allOf`; v2 says less so that old clients understand it.

use std::collections::{BTreeSet, VecDeque};

use triptych_object::{Object, Value};

use super::{Describe, IN_EVERY_VERSION, Scope};
use crate::types::{
    Field, Kind, ListKind, Name, Omit, PatchStrategy, PublishedDefault, Schema, Shape, Topology, Type, TypeId,
};

/// Which OpenAPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Swagger 2.0.
    V2,
    /// OpenAPI 3.0.
    V3,
}

impl Dialect {
    /// What a reference to a definition starts with.
    pub fn prefix(self) -> &'static str {
        match self {
            Dialect::V2 => "#/definitions/",
            Dialect::V3 => "#/components/schemas/",
        }
    }

    /// A reference to a definition.
    pub fn reference(self, name: &str) -> Value {
        Value::from([("$ref", text(&format!("{}{name}", self.prefix())))])
    }
}

/// Writes the schemas of one document.
#[derive(Clone, Copy)]
pub struct Definitions<'a> {
    /// The types.
    pub schema: &'a Schema,
    /// Their descriptions.
    pub texts: &'a dyn Describe,
    /// Which OpenAPI.
    pub dialect: Dialect,
    /// Which kinds types have that are in every group-version.
    pub scope: Scope<'a>,
}

impl Definitions<'_> {
    /// Names of the types given and of all they refer to, sorted.
    pub fn closure<'n>(&self, roots: impl IntoIterator<Item = &'n str>) -> BTreeSet<Name> {
        let mut found = BTreeSet::new();
        let mut queue = VecDeque::new();
        for name in roots {
            if let Some(id) = self.schema.named(name)
                && found.insert(Name::Owned(name.to_owned()))
            {
                self.parts(id, &mut queue);
            }
        }
        while let Some(id) = queue.pop_front() {
            let ty = self.schema.get(id);
            match &ty.name {
                Some(name) if published(ty) && !found.insert(name.clone()) => {}
                _ => self.parts(id, &mut queue),
            }
        }
        found
    }

    fn parts(&self, id: TypeId, queue: &mut VecDeque<TypeId>) {
        match &self.schema.get(id).shape {
            Shape::Struct(s) => queue.extend(s.fields.iter().map(|f| f.ty)),
            Shape::List(l) => queue.push_back(l.item),
            Shape::Map(m) => queue.push_back(m.value),
            _ => {}
        }
    }

    /// The definition of a named type; none when there is no such type.
    pub fn definition(&self, name: &str) -> Option<Value> {
        let ty = self.schema.find(name)?;
        let mut out = Object::with_capacity(6);
        if let Some(description) = self.texts.of_type(name).filter(|d| !d.is_empty()) {
            out.insert("description", text(description));
        }
        match &ty.shape {
            Shape::Struct(s) => {
                out.insert("type", text("object"));
                let required: Vec<Value> = s.fields.iter().filter(|f| f.required).map(|f| text(&f.name)).collect();
                if !required.is_empty() {
                    out.insert("required", Value::Array(required));
                }
                if !s.fields.is_empty() {
                    let properties = s.sorted().map(|f| (f.name.to_string(), self.property(name, f)));
                    out.insert("properties", Value::Object(properties.collect()));
                }
                topology(&mut out, s.topology);
            }
            _ => self.shape(&mut out, ty),
        }
        let kinds = self.kinds(name, ty);
        if !kinds.is_empty() {
            let kinds = kinds.iter().map(|k| kind_value(k, true)).collect();
            out.insert("x-kubernetes-group-version-kind", Value::Array(kinds));
        }
        self.unions(&mut out, ty);
        Some(Value::Object(out))
    }

    fn kinds(&self, name: &str, ty: &Type) -> Vec<Kind> {
        let own = ty.message.as_ref().map(|m| m.kinds.as_slice()).unwrap_or_default();
        match own {
            [kind, ..] if IN_EVERY_VERSION.contains(&name) => self.scope.kinds(&kind.kind),
            own => own.to_vec(),
        }
    }

    fn unions(&self, out: &mut Object, ty: &Type) {
        let unions = ty.message.as_ref().map(|m| m.unions.as_slice()).unwrap_or_default();
        if unions.is_empty() {
            return;
        }
        let unions = unions.iter().map(|union| {
            let mut entry = Object::with_capacity(2);
            if let Some(discriminator) = &union.discriminator {
                entry.insert("discriminator", text(discriminator));
            }
            let members = union
                .members
                .iter()
                .map(|(field, value)| (field.to_string(), text(value)));
            entry.insert("fields-to-discriminateBy", Value::Object(members.collect()));
            Value::Object(entry)
        });
        out.insert("x-kubernetes-unions", Value::Array(unions.collect()));
    }

    fn property(&self, owner: &str, field: &Field) -> Value {
        let ty = self.schema.get(field.ty);
        let mut out = Object::with_capacity(6);
        if let Some(description) = self.described(owner, field, ty) {
            out.insert("description", Value::String(description));
        }
        if published(ty) {
            self.refer(&mut out, ty, self.default(field, ty));
        } else {
            self.shape(&mut out, ty);
            if let Some(default) = self.default(field, ty) {
                out.insert("default", default);
            }
        }
        let details = field.details();
        match &ty.shape {
            Shape::List(list) if ty.name.is_none() => list_kind(&mut out, &list.kind),
            Shape::Map(map) if details.topology == Topology::Unmarked => topology(&mut out, map.topology),
            Shape::Bytes if details.topology == Topology::Atomic => list_kind(&mut out, &ListKind::Atomic),
            _ => topology(&mut out, details.topology),
        }
        if let Some(key) = &details.patch.key {
            out.insert("x-kubernetes-patch-merge-key", text(key));
        }
        if let Some(strategy) = strategy(details.patch.strategy) {
            out.insert("x-kubernetes-patch-strategy", text(strategy));
        }
        Value::Object(out)
    }

    /// The field's description; what a closed set of values has of it is a list of them.
    fn described(&self, owner: &str, field: &Field, ty: &Type) -> Option<String> {
        let mut description = self.texts.field(owner, &field.name).unwrap_or_default().to_owned();
        if let Some(constants) = ty.constants.as_ref().filter(|c| c.closed) {
            if !description.is_empty() {
                description.push_str("\n\n");
            }
            description.push_str("Possible enum values:");
            for value in &constants.values {
                description.push_str(&format!("\n - `\"{value}\"`"));
            }
        }
        (!description.is_empty()).then_some(description)
    }

    fn default(&self, field: &Field, ty: &Type) -> Option<Value> {
        if self.dialect == Dialect::V2 {
            return None;
        }
        match &field.details().published_default {
            PublishedDefault::Value(value) => Some(value.clone()),
            PublishedDefault::Nothing => None,
            PublishedDefault::Implied if field.pointer => None,
            PublishedDefault::Implied if matches!(ty.shape, Shape::Struct(_)) => Some(Value::object()),
            PublishedDefault::Implied if field.omit == Omit::Never => zero(ty),
            PublishedDefault::Implied => None,
        }
    }

    /// A reference, in company of what stands in `out` already and of `default`.
    fn refer(&self, out: &mut Object, ty: &Type, default: Option<Value>) {
        let name = ty.name.as_deref().unwrap_or_default();
        let alone = out.is_empty() && default.is_none();
        if let Some(default) = default {
            out.insert("default", default);
        }
        if alone || self.dialect == Dialect::V2 {
            out.insert("$ref", text(&format!("{}{name}", self.dialect.prefix())));
        } else {
            out.insert("allOf", Value::Array(vec![self.dialect.reference(name)]));
        }
    }

    /// The schema of list items and map values, which upstream (unlike 1.37) gives a default of its own.
    fn element(&self, id: TypeId) -> Value {
        let ty = self.schema.get(id);
        let mut out = Object::with_capacity(3);
        let default = match &ty.shape {
            _ if self.dialect == Dialect::V2 => None,
            Shape::Struct(_) => Some(Value::object()),
            _ => zero(ty),
        };
        if published(ty) {
            self.refer(&mut out, ty, default);
        } else {
            self.shape(&mut out, ty);
            if let Some(default) = default {
                out.insert("default", default);
            }
        }
        Value::Object(out)
    }

    /// What the shape alone says.
    fn shape(&self, out: &mut Object, ty: &Type) {
        let mut simple = |kind: &str, format: &str| {
            out.insert("type", text(kind));
            if !format.is_empty() {
                out.insert("format", text(format));
            }
        };
        match &ty.shape {
            Shape::Bool => simple("boolean", ""),
            Shape::Int { bits: 32, .. } => simple("integer", "int32"),
            Shape::Int { .. } => simple("integer", "int64"),
            Shape::Float { bits: 32 } => simple("number", "float"),
            Shape::Float { .. } => simple("number", "double"),
            Shape::String | Shape::Duration => simple("string", ""),
            Shape::Bytes => simple("string", "byte"),
            Shape::Time | Shape::MicroTime => simple("string", "date-time"),
            Shape::Quantity if self.dialect == Dialect::V2 => simple("string", ""),
            Shape::Quantity => either(out, "", ["string", "number"]),
            Shape::IntOrString if self.dialect == Dialect::V2 => simple("string", "int-or-string"),
            Shape::IntOrString => either(out, "int-or-string", ["integer", "string"]),
            Shape::RawExtension | Shape::FieldsV1 => simple("object", ""),
            Shape::Struct(_) => simple("object", ""),
            Shape::List(list) => {
                simple("array", "");
                out.insert("items", self.element(list.item));
            }
            Shape::Map(map) => {
                simple("object", "");
                out.insert("additionalProperties", self.element(map.value));
            }
            Shape::Json | Shape::SchemaOrArray(_) | Shape::SchemaOrBool(_) | Shape::SchemaOrStringArray(_) => {}
        }
        if let Some(constants) = ty.constants.as_ref().filter(|c| c.closed) {
            out.insert("enum", Value::Array(constants.values.iter().map(|v| text(v)).collect()));
        }
    }
}

/// Whether the type is referred to rather than written where it is used.
pub fn published(ty: &Type) -> bool {
    ty.name.is_some() && ty.message.as_ref().is_some_and(|m| m.published)
}

/// `{group, kind, version}`; documents list a type's kinds and name an operation's in different orders.
pub fn kind_value(kind: &Kind, sorted: bool) -> Value {
    let (group, version, kind) = (text(&kind.group), text(&kind.version), text(&kind.kind));
    match sorted {
        true => Value::from([("group", group), ("kind", kind), ("version", version)]),
        false => Value::from([("group", group), ("version", version), ("kind", kind)]),
    }
}

fn either(out: &mut Object, format: &str, types: [&str; 2]) {
    if !format.is_empty() {
        out.insert("format", text(format));
    }
    let types = types.map(|t| Value::from([("type", text(t))]));
    out.insert("oneOf", Value::Array(types.into()));
}

fn zero(ty: &Type) -> Option<Value> {
    match ty.shape {
        Shape::Bool => Some(Value::Bool(false)),
        Shape::Int { .. } | Shape::Float { .. } => Some(Value::Int(0)),
        Shape::String => Some(text("")),
        _ => None,
    }
}

fn list_kind(out: &mut Object, kind: &ListKind) {
    let name = match kind {
        ListKind::Unmarked => return,
        ListKind::Atomic => "atomic",
        ListKind::Set => "set",
        ListKind::Map(keys) => {
            let keys = keys.iter().map(|k| text(k)).collect();
            out.insert("x-kubernetes-list-map-keys", Value::Array(keys));
            "map"
        }
    };
    out.insert("x-kubernetes-list-type", text(name));
}

fn topology(out: &mut Object, topology: Topology) {
    match topology {
        Topology::Unmarked => {}
        Topology::Granular => drop(out.insert("x-kubernetes-map-type", text("granular"))),
        Topology::Atomic => drop(out.insert("x-kubernetes-map-type", text("atomic"))),
    }
}

fn strategy(strategy: PatchStrategy) -> Option<&'static str> {
    match strategy {
        PatchStrategy::Unmarked => None,
        PatchStrategy::Replace => Some("replace"),
        PatchStrategy::Merge => Some("merge"),
        PatchStrategy::RetainKeys => Some("retainKeys"),
        PatchStrategy::MergeRetainKeys => Some("merge,retainKeys"),
    }
}

pub(super) fn text(s: &str) -> Value {
    Value::String(s.to_owned())
}
