//! What protobuf and OpenAPI know of built-in named types.

use super::{Name, TypeId};

/// What protobuf and OpenAPI know of a built-in named type.
#[derive(Debug, Default)]
pub struct Message {
    /// There is no protobuf message for it.
    pub json_only: bool,
    /// In Go a slice: JSON is that list, protobuf a message with the items in 1.
    pub wraps_list: bool,
    /// It appears in the OpenAPI documents.
    pub published: bool,
    /// `x-kubernetes-group-version-kind`.
    pub kinds: Vec<Kind>,
    /// `x-kubernetes-unions`.
    pub unions: Vec<Union>,
    /// Embedded structs that protobuf keeps as nested messages.
    pub embedded: Vec<Embedded>,
    /// Has no namespace (`+genclient:nonNamespaced`).
    pub non_namespaced: bool,
    /// Releases that introduced, deprecated and removed the kind.
    pub lifecycle: Option<Box<Lifecycle>>,
}

/// An embedded struct: its fields are flattened in JSON, one nested message in protobuf. The message's content is read
/// from (and written to) the same JSON object by the embedded type's own fields.
#[derive(Clone, Debug)]
pub struct Embedded {
    /// Protobuf field number.
    pub tag: u16,
    /// The embedded type.
    pub ty: TypeId,
    /// The flattened fields that came from it: `fields[start..end]` of the parent.
    pub start: u16,
    /// See `start`.
    pub end: u16,
}

/// A group, version and kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kind {
    /// API group, empty for the core group.
    pub group: Name,
    /// API version.
    pub version: Name,
    /// Kind.
    pub kind: Name,
}

/// One entry of `x-kubernetes-unions`.
#[derive(Clone, Debug)]
pub struct Union {
    /// JSON name of the discriminator.
    pub discriminator: Option<Name>,
    /// JSON field name and its discriminator value.
    pub members: Vec<(Name, Name)>,
}

/// Releases (`1.19`) in a kind's life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lifecycle {
    /// First release.
    pub introduced: Option<Name>,
    /// Release from which using it earns a warning.
    pub deprecated: Option<Name>,
    /// Release that no longer serves it.
    pub removed: Option<Name>,
    /// What to use instead.
    pub replacement: Option<Kind>,
}

/// The constants of a named string type.
#[derive(Debug, Default)]
pub struct Constants {
    /// The values, sorted.
    pub values: Vec<Name>,
    /// Nothing else is allowed, and OpenAPI says so (`+enum`).
    pub closed: bool,
}
