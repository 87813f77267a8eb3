//! A struct's fields: how Go writes them, what applies when they are absent, how they are patched.

use triptych_object::Value;

use super::{Name, Topology, TypeId};

/// What happens to a zero value when Go writes the field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Omit {
    /// Always written; a nil pointer, list or map as `null`.
    Never,
    /// `omitempty`: dropped when false, 0, "", nil or an empty list or map. A struct that is no pointer is still written.
    #[default]
    Empty,
    /// `omitzero`: dropped when the zero value, structs included.
    Zero,
    /// Both.
    EmptyAndZero,
}

impl Omit {
    /// Whether `omitempty` applies.
    pub fn empty(self) -> bool {
        matches!(self, Omit::Empty | Omit::EmptyAndZero)
    }

    /// Whether `omitzero` applies.
    pub fn zero(self) -> bool {
        matches!(self, Omit::Zero | Omit::EmptyAndZero)
    }
}

/// A member of a struct.
#[derive(Clone, Debug)]
pub struct Field {
    /// JSON name.
    pub name: Name,
    /// Its type.
    pub ty: TypeId,
    /// Protobuf field number; 0 when it is not (at this level) in protobuf.
    pub tag: u16,
    /// A Go pointer: absent and zero differ.
    pub pointer: bool,
    /// How zero is written.
    pub omit: Omit,
    /// In OpenAPI's list of required fields.
    pub required: bool,
    /// What only some fields have.
    pub details: Option<Box<FieldDetails>>,
}

static NO_DETAILS: FieldDetails = FieldDetails {
    default: None,
    published_default: PublishedDefault::Implied,
    patch: Patch {
        strategy: PatchStrategy::Unmarked,
        key: None,
    },
    topology: Topology::Unmarked,
    gates: Vec::new(),
    check: None,
};

impl Field {
    /// A field of a structural schema: written when present, no protobuf.
    pub fn plain(name: Name, ty: TypeId) -> Self {
        Self {
            name,
            ty,
            tag: 0,
            pointer: true,
            omit: Omit::Empty,
            required: false,
            details: None,
        }
    }

    /// What only some fields have; all unset when this one has none of it.
    pub fn details(&self) -> &FieldDetails {
        self.details.as_deref().unwrap_or(&NO_DETAILS)
    }

    /// The default that applies when the field is absent (built-ins; see [`Schema::default_of`]).
    pub fn default(&self) -> Option<&Value> {
        self.details().default.as_ref()
    }

    /// How strategic merge patch treats it.
    pub fn patch(&self) -> &Patch {
        &self.details().patch
    }
}

/// What only some fields have.
#[derive(Clone, Debug, Default)]
pub struct FieldDetails {
    /// Applied when the field is absent (for a non-pointer: zero). Conditional defaults are code, not here.
    pub default: Option<Value>,
    /// What OpenAPI publishes as default, where that does not follow from the field.
    pub published_default: PublishedDefault,
    /// Strategic merge patch.
    pub patch: Patch,
    /// Overrides the type's own topology (`x-kubernetes-map-type` at the field).
    pub topology: Topology,
    /// Feature gates the field belongs to; its default applies only while they are on.
    pub gates: Vec<Name>,
    /// Name of the shared rule that validates it.
    pub check: Option<Name>,
}

/// What OpenAPI publishes as a field's default.
#[derive(Clone, Debug, Default)]
pub enum PublishedDefault {
    /// `{}` for a [`Shape::Struct`] that is no pointer, the zero of a bool, number or string that is always written and
    /// no pointer; else nothing.
    #[default]
    Implied,
    /// Nothing, although the rule says something.
    Nothing,
    /// This.
    Value(Value),
}

/// A field's strategic merge patch markers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// `patchStrategy`.
    pub strategy: PatchStrategy,
    /// `patchMergeKey`: the field that tells items apart; a list of scalars has none.
    pub key: Option<Name>,
}

/// `patchStrategy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PatchStrategy {
    /// Nothing said: lists are replaced, objects merged.
    #[default]
    Unmarked,
    /// `replace`.
    Replace,
    /// `merge`.
    Merge,
    /// `retainKeys`.
    RetainKeys,
    /// `merge,retainKeys`.
    MergeRetainKeys,
}

impl PatchStrategy {
    /// Whether list items are merged by key (or as a set).
    pub fn merges(self) -> bool {
        matches!(self, PatchStrategy::Merge | PatchStrategy::MergeRetainKeys)
    }

    /// Whether fields that `$retainKeys` does not name are cleared.
    pub fn retains_keys(self) -> bool {
        matches!(self, PatchStrategy::RetainKeys | PatchStrategy::MergeRetainKeys)
    }
}
