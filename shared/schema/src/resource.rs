//! What a built-in resource is and can do, as data: the `resource` lines of the schema texts.
//!
//! The registry serves a resource by this record alone; a strategy adds only what cannot be said here. Custom
//! resources build the same record from their CRD.

use crate::types::{Kind, Name};

/// One resource in one group-version.
#[derive(Clone, Debug, Default)]
pub struct Resource {
    /// API group, empty for the core group.
    pub group: Name,
    /// API version it is served in.
    pub version: Name,
    /// Plural, lower case.
    pub resource: Name,
    /// Kind of its objects.
    pub kind: Name,
    /// Singular, lower case.
    pub singular: Name,
    /// Short names.
    pub short_names: Vec<Name>,
    /// Categories (`all`).
    pub categories: Vec<Name>,
    /// Lives in a namespace.
    pub namespaced: bool,
    /// What can be done with it.
    pub verbs: Verbs,
    /// Its subresources, sorted by name.
    pub subresources: Vec<Subresource>,
    /// Key of the collection below the store's prefix, such as `/pods` (kube-apiserver's `/registry/pods`); empty when
    /// nothing is stored. A namespaced object adds `/<namespace>/<name>`, any other `/<name>`.
    pub key: Name,
    /// Group, version and kind of the stored form.
    pub storage: Option<Kind>,
    /// What the server is started with to have it; empty: served by default.
    pub needs: Vec<Need>,
    /// Release that first served it in this version.
    pub introduced: Option<Name>,
    /// Release that no longer serves it.
    pub removed: Option<Name>,
    /// Table columns, `Name` first.
    pub columns: Vec<Column>,
    /// Field labels that LIST and WATCH can select by.
    pub selectable: Vec<Name>,
    /// Field labels that are accepted but that no object has: they match as empty.
    pub never_set: Vec<Name>,
    /// What a name may look like.
    pub name_rule: NameRule,
    /// Longest name, where shorter than the rule's own limit.
    pub name_limit: Option<u16>,
    /// metadata.generation of a new object: 0 (not written) or 1.
    pub first_generation: u8,
    /// Fields (mostly top-level) whose change raises metadata.generation.
    pub generation: Vec<Name>,
    /// PUT and apply may create.
    pub create_on_update: bool,
    /// PUT without resourceVersion overwrites.
    pub unconditional_update: bool,
    /// DELETE waits for a grace period.
    pub graceful_delete: bool,
    /// DELETE answers the object, not a Status, when it is gone at once.
    pub delete_returns_object: bool,
    /// Objects expire.
    pub ttl: bool,
    /// What becomes of dependents by default.
    pub dependents: Dependents,
    /// Paths cleared on create.
    pub clear_on_create: Vec<Name>,
    /// Paths cleared on update.
    pub clear_on_update: Vec<Name>,
    /// Paths that keep their old value on update.
    pub keep_on_update: Vec<Name>,
    /// Paths that server-side apply through the main resource ignores.
    pub reset: Vec<Name>,
}

impl Resource {
    /// The subresource of that name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Served unless switched off.
    pub fn on_by_default(&self) -> bool {
        self.needs.is_empty()
    }
}

/// What a resource that is off by default needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// `--runtime-config=<group>/<version>`: that of the resource itself.
    RuntimeConfig,
    /// `--feature-gates=<gate>=true`.
    FeatureGate(Name),
}

/// A subresource.
#[derive(Clone, Debug, Default)]
pub struct Subresource {
    /// Last path element.
    pub name: Name,
    /// What can be done with it.
    pub verbs: Verbs,
    /// Its kind in discovery, and what is read and written unless said otherwise.
    pub kind: Kind,
    /// What it is.
    pub form: SubresourceForm,
    /// Paths that keep their old value.
    pub keep: Vec<Name>,
    /// `keep` paths ending in `.*`: members that may nevertheless change.
    pub except: Vec<Name>,
    /// Paths that server-side apply through it ignores.
    pub reset: Vec<Name>,
    /// Top-level fields whose change raises metadata.generation.
    pub generation: Vec<Name>,
}

/// What kind of thing a subresource is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SubresourceForm {
    /// Another view of the object (or a projection of it, such as Scale).
    #[default]
    Object,
    /// POST of a `Subresource::kind` that answers this kind (binding, eviction, token); the URL's name goes into the object.
    Action(Kind),
    /// A connection with these HTTP methods, proxied or upgraded.
    Connect(Vec<Name>),
    /// A text stream (log).
    Stream,
}

/// A set of API verbs.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Verbs(pub u8);

/// Names of the verbs, sorted as discovery lists them; bit `i` of [`Verbs`] is `VERBS[i]`.
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

impl Verbs {
    /// Create, delete, deletecollection, get, list, patch, update, watch.
    pub const ALL: Self = Self(0xff);

    /// Whether the verb is in the set; false for what is no verb of [`VERBS`].
    pub fn contains(self, verb: &str) -> bool {
        VERBS
            .iter()
            .position(|v| *v == verb)
            .is_some_and(|i| self.0 & (1 << i) != 0)
    }

    /// The set with one more verb; none when there is no such verb.
    pub fn with(self, verb: &str) -> Option<Self> {
        VERBS.iter().position(|v| *v == verb).map(|i| Self(self.0 | 1 << i))
    }

    /// The verbs, sorted.
    pub fn iter(self) -> impl Iterator<Item = &'static str> {
        VERBS
            .iter()
            .enumerate()
            .filter(move |(i, _)| self.0 & (1 << i) != 0)
            .map(|(_, v)| *v)
    }
}

impl std::fmt::Debug for Verbs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A column of a Table; how its cells are computed is code.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    /// Header.
    pub name: Name,
    /// OpenAPI type: `string`, `integer`, `number`, `boolean`, `date`.
    pub kind: Name,
    /// OpenAPI format, often empty; `name` for the name.
    pub format: Name,
    /// 0: always shown; above: only `-o wide`.
    pub priority: i32,
    /// Path of the field below the object, for columns that a CRD declares.
    pub json_path: Option<Name>,
}

/// What an object's name may look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameRule {
    /// RFC 1123 subdomain.
    #[default]
    Subdomain,
    /// RFC 1123 label.
    Label,
    /// Anything that is one path segment (RBAC).
    PathSegment,
    /// Letters, digits, `-`, `.`, `_`.
    Loose,
    /// An IP address in its canonical form.
    Ip,
    /// Made of the object's own fields, checked by its strategy.
    Composed,
}

/// Default garbage collection of dependents on DELETE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dependents {
    /// Deleted in the background.
    #[default]
    Background,
    /// Orphaned.
    Orphan,
    /// The resource takes no part in garbage collection.
    Unsupported,
}
