//! What controllers, claims and discovery need of a CRD: read once per change from its cached text.

use bytes::Bytes;
use triptych_object::{Value, json};
use triptych_storage::Object;

use super::conditions;

/// `spec.names` or `status.acceptedNames`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Plural, lower case.
    pub plural: String,
    /// Singular, lower case.
    pub singular: String,
    /// Short names.
    pub short_names: Vec<String>,
    /// Kind of the objects.
    pub kind: String,
    /// Kind of lists of them.
    pub list_kind: String,
    /// Categories.
    pub categories: Vec<String>,
}

fn texts(value: &Value, path: &[&str]) -> Vec<String> {
    let items = value.array_at(path).iter();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

impl Names {
    /// Reads the names of a document.
    pub fn read(value: Option<&Value>) -> Names {
        let Some(value) = value else { return Names::default() };
        let text = |name: &str| value.str_at(&[name]).to_owned();
        Names {
            plural: text("plural"),
            singular: text("singular"),
            short_names: texts(value, &["shortNames"]),
            kind: text("kind"),
            list_kind: text("listKind"),
            categories: texts(value, &["categories"]),
        }
    }

    /// As a document writes them, members in the order of the type.
    pub fn to_value(&self) -> Value {
        let mut out = triptych_object::Object::new();
        out.insert("plural", self.plural.as_str().into());
        let mut optional = |name: &str, text: &str| {
            if !text.is_empty() {
                out.insert(name, text.into());
            }
        };
        optional("singular", &self.singular);
        if !self.short_names.is_empty() {
            out.insert("shortNames", self.short_names.clone().into());
        }
        out.insert("kind", self.kind.as_str().into());
        if !self.list_kind.is_empty() {
            out.insert("listKind", self.list_kind.as_str().into());
        }
        if !self.categories.is_empty() {
            out.insert("categories", self.categories.clone().into());
        }
        Value::Object(out)
    }
}

/// One entry of `spec.versions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// `v1`.
    pub name: String,
    /// Clients may use it.
    pub served: bool,
    /// Objects are stored in it.
    pub storage: bool,
    /// Has `/status`.
    pub status: bool,
    /// Has `/scale`.
    pub scale: bool,
}

/// A CRD in short.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// `<plural>.<group>`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// API group.
    pub group: String,
    /// Its objects live in namespaces.
    pub namespaced: bool,
    /// The names it asks for.
    pub wanted: Names,
    /// The names it has.
    pub accepted: Names,
    /// Versions in the order of the spec.
    pub versions: Vec<Version>,
    /// Versions in which objects may lie in the store.
    pub stored_versions: Vec<String>,
    /// Condition NamesAccepted.
    pub names_accepted: bool,
    /// Condition Established.
    pub established: bool,
    /// Condition Terminating.
    pub terminating: bool,
    /// `metadata.deletionTimestamp` is set.
    pub deleted: bool,
    /// The whole CRD as cached.
    pub object: Bytes,
}

impl Summary {
    /// Reads a cached CRD; `None` for what cannot be read.
    pub fn of(object: &Object) -> Option<Summary> {
        let crd = json::from_slice(object.bytes()).ok()?;
        Some(Summary {
            object: object.bytes().clone(),
            ..Summary::read(&crd)
        })
    }

    /// Reads a document.
    pub fn read(crd: &Value) -> Summary {
        let flag = |value: &Value, name: &str| value.get(name).and_then(Value::as_bool).unwrap_or(false);
        let has = |version: &Value, name: &str| version.at(&["subresources", name]).is_some_and(|s| !s.is_null());
        let versions = crd.array_at(&["spec", "versions"]).iter().map(|v| Version {
            name: v.str_at(&["name"]).to_owned(),
            served: flag(v, "served"),
            storage: flag(v, "storage"),
            status: has(v, "status"),
            scale: has(v, "scale"),
        });
        Summary {
            name: triptych_object::meta::name(crd).to_owned(),
            uid: triptych_object::meta::uid(crd).to_owned(),
            generation: triptych_object::meta::generation(crd),
            group: crd.str_at(&["spec", "group"]).to_owned(),
            namespaced: crd.str_at(&["spec", "scope"]) == "Namespaced",
            wanted: Names::read(crd.at(&["spec", "names"])),
            accepted: Names::read(crd.at(&["status", "acceptedNames"])),
            versions: versions.collect(),
            stored_versions: texts(crd, &["status", "storedVersions"]),
            names_accepted: conditions::is_true(crd, "NamesAccepted"),
            established: conditions::is_true(crd, "Established"),
            terminating: conditions::is_true(crd, "Terminating"),
            deleted: triptych_object::meta::deletion_timestamp(crd).is_some(),
            object: Bytes::new(),
        }
    }

    /// Whether clients may use a version.
    pub fn serves(&self, version: &str) -> bool {
        self.versions.iter().any(|v| v.served && v.name == version)
    }

    /// The version in which objects are stored.
    pub fn storage_version(&self) -> Option<&Version> {
        self.versions.iter().find(|v| v.storage)
    }
}
