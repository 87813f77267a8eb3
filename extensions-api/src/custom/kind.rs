//! What all versions of a custom resource share: their schemas, and how a stored object becomes one of today.
//!
//! Contract: whatever is read is pruned and defaulted by the schema of the version it is in; in another version it is the
//! same object under another `apiVersion`, pruned by that version's schema. Where a webhook converts, every version is a
//! kind of its own that stores what it shows ([`CustomKind::storing`]), over a store that converts.

use std::sync::Arc;

use bytes::Bytes;
use triptych_object::{GroupVersion, Value, json};
use triptych_schema::custom::{Coercion, coerce};
use triptych_schema::decode::{DecodeError, StrictError};
use triptych_schema::structural::{Structural, apply_defaults};
use triptych_schema::types::Schema;
use triptych_storage::FieldPath;
use triptych_storage::cache::Decoder;

use crate::rules::Validator;

/// One version's schema.
pub struct KindVersion {
    /// `v1`.
    pub name: String,
    /// `<group>/<version>`.
    pub api_version: String,
    /// Its types.
    pub types: Structural,
    /// It is served.
    pub served: bool,
    /// Its rules, if it has any.
    pub rules: Option<Validator>,
    /// Its schema is that of the stored version.
    pub as_stored: bool,
}

/// A custom resource's kind in all its versions.
pub struct CustomKind {
    /// API group.
    pub group: String,
    /// Kind of the objects.
    pub kind: String,
    /// Kind of lists of them.
    pub list_kind: String,
    /// Unknown fields are kept (`spec.preserveUnknownFields` of CRDs from before 1.16).
    pub preserve_unknown: bool,
    /// In the order of the spec.
    pub versions: Vec<KindVersion>,
    /// Number of the version in which objects are stored.
    pub storage: usize,
    /// Objects may also lie in the store in other versions: each is shown as what it is stored as.
    pub mixed: bool,
}

impl CustomKind {
    /// Reads a CRD (v1); its types stand on `base`. `None` if it has no stored version.
    pub fn of(crd: &Value, base: &Arc<Schema>) -> Option<CustomKind> {
        let group = crd.str_at(&["spec", "group"]).to_owned();
        let versions = crd.array_at(&["spec", "versions"]);
        let is_stored = |v: &Value| v.get("storage").and_then(Value::as_bool) == Some(true);
        let storage = versions.iter().position(is_stored)?;
        let schema_of = |v: &Value| v.at(&["schema", "openAPIV3Schema"]).cloned();
        let stored = versions.get(storage).and_then(schema_of);
        let versions = versions.iter().map(|version| {
            let name = version.str_at(&["name"]).to_owned();
            let schema = schema_of(version);
            KindVersion {
                api_version: format!("{group}/{name}"),
                name,
                served: version.get("served").and_then(Value::as_bool) == Some(true),
                as_stored: schema == stored,
                rules: schema.as_ref().and_then(|s| Validator::new(s, true)),
                types: Structural::import(base.clone(), &schema.unwrap_or_else(anything)),
            }
        });
        let lies_in = crd.array_at(&["status", "storedVersions"]);
        let storage_name = crd.array_at(&["spec", "versions"])[storage].str_at(&["name"]);
        Some(CustomKind {
            mixed: lies_in.iter().any(|v| v.as_str() != Some(storage_name)),
            kind: crd.str_at(&["status", "acceptedNames", "kind"]).to_owned(),
            list_kind: crd.str_at(&["status", "acceptedNames", "listKind"]).to_owned(),
            preserve_unknown: crd.at(&["spec", "preserveUnknownFields"]).and_then(Value::as_bool) == Some(true),
            versions: versions.collect(),
            storage,
            group,
        })
    }

    /// The same kind, its objects stored in another version and in no other.
    pub fn storing(crd: &Value, base: &Arc<Schema>, version: usize) -> Option<CustomKind> {
        let kind = CustomKind::of(crd, base)?;
        Some(CustomKind {
            storage: version,
            mixed: false,
            ..kind
        })
    }

    /// The number of the version that a document says it is in, if it is of this kind at all.
    pub fn version_of(&self, document: &Value) -> Option<usize> {
        let gv: GroupVersion = document.str_at(&["apiVersion"]).parse().ok()?;
        if gv.group != self.group || document.str_at(&["kind"]) != self.kind {
            return None;
        }
        self.versions.iter().position(|v| v.name == gv.version)
    }

    /// Prunes a document by a version's schema and decodes its metadata.
    pub fn coerce(
        &self,
        version: usize,
        document: &mut Value,
        drop_malformed: bool,
    ) -> Result<Vec<StrictError>, DecodeError> {
        let Some(version) = self.versions.get(version) else {
            return Ok(Vec::new());
        };
        let coercion = Coercion {
            preserve_unknown: self.preserve_unknown,
            drop_malformed,
        };
        coerce(&version.types.schema, version.types.root, document, coercion)
    }

    /// Decodes metadata (that of embedded objects included) and leaves the rest.
    pub fn decode_metadata(&self, version: usize, document: &mut Value) -> Result<Vec<StrictError>, DecodeError> {
        let Some(version) = self.versions.get(version) else {
            return Ok(Vec::new());
        };
        let coercion = Coercion {
            preserve_unknown: true,
            drop_malformed: false,
        };
        coerce(&version.types.schema, version.types.root, document, coercion)
    }

    /// Sets a version's defaults.
    pub fn default(&self, version: usize, document: &mut Value) {
        if let Some(version) = self.versions.get(version) {
            apply_defaults(&version.types.schema, version.types.root, document);
        }
    }

    /// Makes a document one of another version.
    pub fn convert(&self, to: usize, document: &mut Value) {
        let Some(version) = self.versions.get(to) else { return };
        if document.str_at(&["apiVersion"]) == version.api_version {
            return;
        }
        document.set_at(&["apiVersion"], version.api_version.as_str().into());
        // metadata was decoded before; what is malformed in embedded objects stays as it is
        let _ = self.coerce(to, document, true);
    }

    /// A stored document as one of today's stored version (or, where versions are mixed, of its own).
    fn today(&self, document: &mut Value) -> Result<(), DecodeError> {
        let version = self.version_of(document).unwrap_or(self.storage);
        self.coerce(version, document, true)?;
        self.default(version, document);
        if !self.mixed {
            self.convert(self.storage, document);
        }
        Ok(())
    }
}

/// The schema of a version that has none.
fn anything() -> Value {
    Value::from([
        ("type", "object".into()),
        ("x-kubernetes-preserve-unknown-fields", Value::Bool(true)),
    ])
}

/// Reads stored custom resources.
pub struct StoredObjects {
    /// Their kind.
    pub kind: Arc<CustomKind>,
    /// What selectors may name.
    pub fields: Vec<FieldPath>,
    /// They come pruned and defaulted, from a store that converts.
    pub complete: bool,
}

impl Decoder for StoredObjects {
    fn decode(&self, _key: &str, value: &Bytes) -> Result<Bytes, String> {
        if value.starts_with(b"k8s\0") {
            return Err("the stored value is not JSON".into());
        }
        let stored = json::from_slice(value).map_err(|e| e.message)?;
        if self.complete {
            return Ok(value.clone());
        }
        let mut document = stored.clone();
        self.kind.today(&mut document).map_err(|e| e.0)?;
        if document == stored {
            return Ok(value.clone());
        }
        Ok(json::to_vec(&document).into())
    }

    fn selectable_fields(&self) -> &[FieldPath] {
        &self.fields
    }
}
