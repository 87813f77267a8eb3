//! The in-memory form of a schema: one set of types for built-in kinds (read from a [`Table`](crate::table::Table))
//! and for custom resources (imported from a CRD's structural schema).
//!
//! Everything here is plain data that never changes once built. Types live in an arena and refer to each other by
//! [`TypeId`], so recursion needs no reference counting and a schema is a handful of allocations. A CRD's schema
//! stands [on](Schema::on) a shared base (meta/v1 and its friends), which it refers to without copying.
//!
//! List and map topology sits on the (anonymous, interned) list and map types; how a *field* is written, defaulted and
//! patched sits on the field. Members that Go embeds are flattened into their parent, as in JSON; what protobuf must
//! know of the embedding is in [`Message::embedded`].

mod field;
mod message;
mod structural;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use triptych_object::Value;

pub use field::*;
pub use message::*;
pub use structural::*;

/// A name: borrowed from the compiled table for built-ins, owned for custom resources.
pub type Name = Cow<'static, str>;

/// The position of a type in its [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub u32);

/// An arena of types, some of them named; optionally on top of a shared base.
#[derive(Debug, Default)]
pub struct Schema {
    base: Option<Arc<Schema>>,
    first: u32,
    types: Vec<Type>,
    names: HashMap<Name, TypeId>,
}

impl Schema {
    /// An empty schema.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty schema on top of `base`: ids and names of the base keep their meaning.
    pub fn on(base: Arc<Schema>) -> Self {
        let first = base.len() as u32;
        Self {
            base: Some(base),
            first,
            types: Vec::new(),
            names: HashMap::new(),
        }
    }

    /// An empty schema with room for that many types.
    pub fn with_capacity(types: usize) -> Self {
        Self {
            types: Vec::with_capacity(types),
            names: HashMap::with_capacity(types),
            ..Self::default()
        }
    }

    /// Number of types, those of the base included.
    pub fn len(&self) -> usize {
        self.first as usize + self.types.len()
    }

    /// Whether there is no type at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type with this id, which must come from this schema or its base.
    pub fn get(&self, id: TypeId) -> &Type {
        match &self.base {
            Some(base) if id.0 < self.first => base.get(id),
            _ => &self.types[(id.0 - self.first) as usize],
        }
    }

    /// The id of the type with this OpenAPI name, such as `io.k8s.api.core.v1.Pod`.
    pub fn named(&self, name: &str) -> Option<TypeId> {
        self.names
            .get(name)
            .copied()
            .or_else(|| self.base.as_ref()?.named(name))
    }

    /// The type with this OpenAPI name.
    pub fn find(&self, name: &str) -> Option<&Type> {
        self.named(name).map(|id| self.get(id))
    }

    /// Every named type of this schema and its base, in no particular order.
    pub fn all_named(&self) -> Box<dyn Iterator<Item = (&str, TypeId)> + '_> {
        let own = self.names.iter().map(|(name, id)| (&**name, *id));
        match &self.base {
            Some(base) => Box::new(base.all_named().chain(own)),
            None => Box::new(own),
        }
    }

    /// Adds a type, making it findable if it has a name.
    pub fn push(&mut self, ty: Type) -> TypeId {
        let id = TypeId(self.len() as u32);
        if let Some(name) = &ty.name {
            self.names.insert(name.clone(), id);
        }
        self.types.push(ty);
        id
    }

    /// Gives a type of this schema (not of its base) another content; its id stays. For types that refer to themselves.
    pub fn replace(&mut self, id: TypeId, ty: Type) {
        if let Some(name) = &ty.name {
            self.names.insert(name.clone(), id);
        }
        if let Some(slot) =
            id.0.checked_sub(self.first)
                .and_then(|i| self.types.get_mut(i as usize))
        {
            *slot = ty;
        }
    }

    /// Gives back what growing left over. Call once the schema is complete.
    pub fn shrink(&mut self) {
        self.types.shrink_to_fit();
        self.names.shrink_to_fit();
    }

    /// The default that applies to a field when it is absent: its own, or that of its type (structural schemas).
    pub fn default_of<'a>(&'a self, field: &'a Field) -> Option<&'a Value> {
        field
            .details()
            .default
            .as_ref()
            .or_else(|| self.get(field.ty).default.as_deref())
    }

    /// The Go name of a type as it stands in decoding errors: `v1.Container`, `[]v1.Container`, `map[string]string`.
    pub fn go_name(&self, id: TypeId) -> String {
        let ty = self.get(id);
        if let Some(name) = &ty.name {
            return go_name(name).to_owned();
        }
        match &ty.shape {
            Shape::Bool => "bool".into(),
            Shape::Int {
                bits: 32,
                unsigned: false,
            } => "int32".into(),
            Shape::Int {
                bits: 32,
                unsigned: true,
            } => "uint32".into(),
            Shape::Int { unsigned: true, .. } => "uint64".into(),
            Shape::Int { .. } => "int64".into(),
            Shape::Float { bits: 32 } => "float32".into(),
            Shape::Float { .. } => "float64".into(),
            Shape::String => "string".into(),
            Shape::Bytes => "[]uint8".into(),
            Shape::List(list) => format!("[]{}", self.go_name(list.item)),
            Shape::Map(map) => format!("map[{}]{}", self.go_name(map.key), self.go_name(map.value)),
            _ => "interface {}".into(),
        }
    }

    /// The Go name of a field's type, `*int32` for a pointer.
    pub fn go_name_of(&self, field: &Field) -> String {
        let name = self.go_name(field.ty);
        if field.pointer { format!("*{name}") } else { name }
    }
}

/// `v1.Pod` of `io.k8s.api.core.v1.Pod`: a Go package is called like the last element of its path.
fn go_name(openapi: &str) -> &str {
    openapi
        .rmatch_indices('.')
        .nth(1)
        .map_or(openapi, |(dot, _)| &openapi[dot + 1..])
}

/// A type: what shape its JSON has, and what else is known about it.
#[derive(Debug, Default)]
pub struct Type {
    /// OpenAPI name (`io.k8s.api.core.v1.Pod`); none for anonymous lists and maps, plain scalars, and nodes of CRD schemas.
    pub name: Option<Name>,
    /// What it looks like in JSON.
    pub shape: Shape,
    /// `null` is a value of its own (structural schemas).
    pub nullable: bool,
    /// Structural schemas: the default of the property (item, value) that has this type.
    pub default: Option<Box<Value>>,
    /// Structural schemas: constraints on the value.
    pub validation: Option<Box<Validation>>,
    /// Built-ins: what protobuf and OpenAPI must know.
    pub message: Option<Box<Message>>,
    /// Built-ins: a named string type's constants.
    pub constants: Option<Box<Constants>>,
    /// Built-ins: name of the shared rule that validates values of this type (`check(podTemplate)`).
    pub check: Option<Name>,
}

impl Type {
    /// A type of that shape about which nothing else is known.
    pub fn of(shape: Shape) -> Self {
        Self {
            shape,
            ..Self::default()
        }
    }

    /// The struct, when it is one.
    pub fn as_struct(&self) -> Option<&Struct> {
        match &self.shape {
            Shape::Struct(s) => Some(s),
            _ => None,
        }
    }

    /// The list, when it is one.
    pub fn as_list(&self) -> Option<&List> {
        match &self.shape {
            Shape::List(l) => Some(l),
            _ => None,
        }
    }

    /// The map, when it is one.
    pub fn as_map(&self) -> Option<&Map> {
        match &self.shape {
            Shape::Map(m) => Some(m),
            _ => None,
        }
    }

    /// Full protobuf message name (`k8s.io.api.core.v1.Pod`), when there is such a message.
    pub fn proto_name(&self) -> Option<String> {
        let (name, message) = (self.name.as_deref()?, self.message.as_deref()?);
        let path = name.strip_prefix("io.k8s.").unwrap_or(name).replace('-', "_");
        (!message.json_only).then(|| format!("k8s.io.{path}"))
    }
}

/// The JSON shapes there are. `null` is no shape: whether it may stand for a value is the field's or type's business.
#[derive(Debug, Default)]
pub enum Shape {
    /// `true`, `false`.
    Bool,
    /// An integer of 32 or 64 bits.
    Int { bits: u8, unsigned: bool },
    /// A number of 32 or 64 bits.
    Float { bits: u8 },
    /// A string.
    String,
    /// A base64 string; bytes in protobuf.
    Bytes,
    /// resource.Quantity: string or number, kept canonical. Protobuf: message with the string in 1.
    Quantity,
    /// meta/v1 Time: RFC 3339, seconds, UTC; `null` when zero. Protobuf: seconds 1, nanos 2.
    Time,
    /// meta/v1 MicroTime: RFC 3339, six digits, UTC; `null` when zero. Protobuf as Time.
    MicroTime,
    /// meta/v1 Duration: Go's `1m30s`. Protobuf: int64 nanoseconds in 1.
    Duration,
    /// intstr.IntOrString; also `x-kubernetes-int-or-string`. Protobuf: type 1, intVal 2, strVal 3, always all three.
    IntOrString,
    /// runtime.RawExtension: any object, kept as it is. Protobuf: its JSON in 1.
    RawExtension,
    /// Any JSON value: apiextensions JSON (protobuf: its text in 1); a schema node that only preserves unknown fields.
    #[default]
    Json,
    /// meta/v1 FieldsV1: a set of field paths as an object. Protobuf: its JSON in 1.
    FieldsV1,
    /// apiextensions: a schema or a list of schemas. Protobuf: schema 1, jSONSchemas 2.
    SchemaOrArray(TypeId),
    /// apiextensions: a schema or a bool. Protobuf: allows 1, schema 2.
    SchemaOrBool(TypeId),
    /// apiextensions: a schema or a list of strings. Protobuf: schema 1, property 2.
    SchemaOrStringArray(TypeId),
    /// An object with known fields.
    Struct(Struct),
    /// An array.
    List(List),
    /// An object whose keys are data.
    Map(Map),
}

/// How server-side apply treats an object: each member owned on its own, or all or nothing. Unmarked means granular.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Topology {
    /// Nothing said: granular, and no extension in OpenAPI.
    #[default]
    Unmarked,
    /// `granular`, said explicitly.
    Granular,
    /// `atomic`.
    Atomic,
}

/// An object with known fields.
#[derive(Debug, Default)]
pub struct Struct {
    /// Fields in Go order (the order of JSON output), those of embedded structs in their place.
    pub fields: Vec<Field>,
    /// Positions in `fields`, sorted by name.
    by_name: Box<[u16]>,
    /// Granular or atomic.
    pub topology: Topology,
    /// Unknown fields are kept (`x-kubernetes-preserve-unknown-fields`).
    pub preserve_unknown: bool,
    /// `apiVersion`, `kind` and `metadata` are validated and kept as those of a whole object
    /// (`x-kubernetes-embedded-resource`).
    pub embedded_resource: bool,
    /// The schema gave no `type`: values other than objects pass too.
    pub untyped: bool,
}

impl Struct {
    /// A granular struct with these fields.
    pub fn new(fields: Vec<Field>) -> Self {
        let mut by_name: Vec<u16> = (0..fields.len() as u16).collect();
        by_name.sort_by(|a, b| fields[*a as usize].name.cmp(&fields[*b as usize].name));
        Self {
            fields,
            by_name: by_name.into(),
            ..Self::default()
        }
    }

    /// The field with this JSON name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.position(name).map(|i| &self.fields[i])
    }

    /// The position in `fields` of the field with this JSON name.
    pub fn position(&self, name: &str) -> Option<usize> {
        let at = self
            .by_name
            .binary_search_by(|i| (*self.fields[*i as usize].name).cmp(name))
            .ok()?;
        Some(self.by_name[at] as usize)
    }

    /// Fields sorted by name, as OpenAPI lists them.
    pub fn sorted(&self) -> impl Iterator<Item = &Field> {
        self.by_name.iter().map(|i| &self.fields[*i as usize])
    }
}

/// An array.
#[derive(Debug)]
pub struct List {
    /// Type of the items.
    pub item: TypeId,
    /// How items are told apart.
    pub kind: ListKind,
}

/// How server-side apply tells a list's items apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum ListKind {
    /// Nothing said: atomic, and no extension in OpenAPI.
    #[default]
    Unmarked,
    /// One value, owned as a whole.
    Atomic,
    /// Items are their own keys.
    Set,
    /// Items are objects told apart by these fields.
    Map(Box<[Name]>),
}

impl ListKind {
    /// The key fields of an associative list of objects.
    pub fn keys(&self) -> Option<&[Name]> {
        match self {
            ListKind::Map(keys) => Some(keys),
            _ => None,
        }
    }

    /// Whether the list is owned as a whole.
    pub fn is_atomic(&self) -> bool {
        matches!(self, ListKind::Unmarked | ListKind::Atomic)
    }
}

/// An object whose keys are data.
#[derive(Debug)]
pub struct Map {
    /// Type of the keys: string, or a named string type.
    pub key: TypeId,
    /// Type of the values.
    pub value: TypeId,
    /// Granular or atomic.
    pub topology: Topology,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_string(schema: &mut Schema) -> TypeId {
        schema.push(Type::of(Shape::String))
    }

    #[test]
    fn go_names_are_derived_from_openapi_names_and_shapes() {
        let mut schema = Schema::new();
        let string = with_string(&mut schema);
        let container = schema.push(Type {
            name: Some("io.k8s.api.core.v1.Container".into()),
            ..Type::of(Shape::Json)
        });
        let list = schema.push(Type::of(Shape::List(List {
            item: container,
            kind: ListKind::Unmarked,
        })));
        let map = schema.push(Type::of(Shape::Map(Map {
            key: string,
            value: string,
            topology: Topology::Unmarked,
        })));
        assert_eq!(schema.go_name(container), "v1.Container");
        assert_eq!(schema.go_name(list), "[]v1.Container");
        assert_eq!(schema.go_name(map), "map[string]string");
        let int = schema.push(Type::of(Shape::Int {
            bits: 32,
            unsigned: false,
        }));
        assert_eq!(schema.go_name_of(&Field::plain("replicas".into(), int)), "*int32");
    }

    #[test]
    fn a_schema_on_a_base_sees_the_base_and_keeps_its_own_ids() {
        let mut base = Schema::new();
        let meta = base.push(Type {
            name: Some("a.b.ObjectMeta".into()),
            ..Type::of(Shape::Json)
        });
        let mut own = Schema::on(Arc::new(base));
        let root = own.push(Type::of(Shape::Struct(Struct::new(vec![Field::plain(
            "metadata".into(),
            meta,
        )]))));
        assert_eq!(own.named("a.b.ObjectMeta"), Some(meta));
        let field = own.get(root).as_struct().unwrap().field("metadata").unwrap();
        assert_eq!(own.get(field.ty).name.as_deref(), Some("a.b.ObjectMeta"));
        assert_eq!(root, TypeId(1));
    }

    #[test]
    fn fields_are_found_by_name_whatever_their_order() {
        let ty = TypeId(0);
        let s = Struct::new(["z", "a", "m"].map(|n| Field::plain(n.into(), ty)).into());
        assert_eq!(s.position("a"), Some(1));
        assert_eq!(s.position("b"), None);
        assert_eq!(s.sorted().map(|f| &*f.name).collect::<Vec<_>>(), ["a", "m", "z"]);
    }
}
