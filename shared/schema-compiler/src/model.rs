//! What the texts mean, every name resolved: the mirror image of `triptych_schema::types`, ready to be written.

/// A position in [`Model::types`].
pub type Id = u32;

/// Everything the texts say.
#[derive(Debug, Default)]
pub struct Model {
    pub types: Vec<Type>,
    pub resources: Vec<Resource>,
}

/// A type; anonymous ones (scalars, lists, maps) are interned.
#[derive(Debug, Default)]
pub struct Type {
    pub name: Option<String>,
    pub shape: Shape,
    pub message: Option<Message>,
    /// Closed, and the values.
    pub constants: Option<(bool, Vec<String>)>,
    pub check: Option<String>,
}

/// The shapes; a plain one is its code in the table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Shape {
    Plain(u8),
    /// One of apiextensions' unions of a schema and something: code and the schema's type.
    SchemaOr(u8, Id),
    /// Topology, and fields kept beside for hashing's sake.
    Struct(Topology),
    List(Id, ListKind),
    Map(Id, Id, Topology),
}

impl Default for Shape {
    fn default() -> Self {
        Self::Plain(JSON)
    }
}

/// Words of plain shapes, by code. The first nine are also type names in fields.
pub const PLAIN: [&str; 17] = [
    "bool",
    "int32",
    "int64",
    "uint32",
    "uint64",
    "float",
    "double",
    "string",
    "bytes",
    "quantity",
    "time",
    "microTime",
    "duration",
    "intOrString",
    "rawExtension",
    "json",
    "fieldsV1",
];
/// How many of [`PLAIN`] a field may name.
pub const SCALARS: usize = 9;
/// Code of strings.
pub const STRING: u8 = 7;
const JSON: u8 = 15;
/// Words of the schema unions; their codes follow those of [`PLAIN`].
pub const SCHEMA_OR: [&str; 3] = ["schemaOrArray", "schemaOrBool", "schemaOrStringArray"];

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Topology {
    #[default]
    Unmarked,
    Granular,
    Atomic,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum ListKind {
    #[default]
    Unmarked,
    Atomic,
    Set,
    Map(Vec<String>),
}

#[derive(Debug, Default)]
pub struct Message {
    pub json_only: bool,
    pub wraps_list: bool,
    pub published: bool,
    pub cluster: bool,
    pub kinds: Vec<Kind>,
    pub unions: Vec<Union>,
    pub fields: Vec<Field>,
    pub embedded: Vec<Embedded>,
    /// Introduced, deprecated, removed.
    pub releases: [Option<String>; 3],
    pub instead: Option<Kind>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Kind {
    pub group: String,
    pub version: String,
    pub kind: String,
}

#[derive(Debug)]
pub struct Union {
    pub discriminator: Option<String>,
    /// Field and discriminator value.
    pub members: Vec<(String, String)>,
}

#[derive(Debug)]
pub struct Embedded {
    pub tag: u16,
    pub ty: Id,
    pub start: usize,
    pub end: usize,
}

#[derive(Debug, Clone, Default)]
pub struct Field {
    pub name: String,
    pub ty: Id,
    pub tag: u16,
    pub pointer: bool,
    pub required: bool,
    pub omit_empty: bool,
    pub omit_zero: bool,
    pub default: Option<serde_json::Value>,
    /// Some(None): nothing is published.
    pub published: Option<Option<serde_json::Value>>,
    /// Position in [`STRATEGIES`], and merge key.
    pub patch: (u8, Option<String>),
    pub topology: Topology,
    pub gates: Vec<String>,
    pub check: Option<String>,
}

/// Patch strategies by code; 0 is unmarked.
pub const STRATEGIES: [&str; 5] = ["", "replace", "merge", "retainKeys", "merge+retainKeys"];

#[derive(Debug, Default)]
pub struct Resource {
    pub kind: Kind,
    pub plural: String,
    pub namespaced: bool,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub verbs: u8,
    pub key: String,
    pub stored: Option<Kind>,
    pub needs_config: bool,
    pub gates: Vec<String>,
    pub introduced: Option<String>,
    pub removed: Option<String>,
    pub columns: Vec<Column>,
    pub select: Vec<String>,
    pub never_set: Vec<String>,
    pub first_generation: u8,
    pub generation: Vec<String>,
    pub name_rule: u8,
    pub name_limit: Option<u16>,
    /// Bits in the order of [`FLAGS`].
    pub flags: u8,
    pub clear_on_create: Vec<String>,
    pub clear_on_update: Vec<String>,
    pub keep_on_update: Vec<String>,
    pub reset: Vec<String>,
    pub subresources: Vec<Subresource>,
}

/// Verbs by bit.
pub const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];
/// Name rules by code.
pub const NAME_RULES: [&str; 6] = ["subdomain", "label", "path", "loose", "ip", "composed"];
/// Resource flags by bit.
pub const FLAGS: [&str; 7] = [
    "createOnUpdate",
    "unconditionalUpdate",
    "graceful",
    "returnsObject",
    "ttl",
    "orphan",
    "nodependents",
];

#[derive(Debug, Default)]
pub struct Column {
    pub name: String,
    pub kind: String,
    pub format: String,
    pub priority: u8,
}

#[derive(Debug, Default)]
pub struct Subresource {
    pub name: String,
    pub kind: Kind,
    pub verbs: u8,
    pub form: Form,
    pub keep: Vec<String>,
    pub except: Vec<String>,
    pub reset: Vec<String>,
    pub generation: Vec<String>,
}

#[derive(Debug, Default)]
pub enum Form {
    #[default]
    Object,
    Action(Kind),
    Connect(Vec<String>),
    Stream,
}
