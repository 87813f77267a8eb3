//! The model of a custom resource in one version.
//!
//! Contract: bodies are read as unstructured objects are: any kind of the group is accepted here and refused by
//! validation; pruning and the decoding of metadata happen where kube-apiserver's schema coercer does them.

use std::sync::Arc;

use triptych_object::{GroupVersion, Gvk, Value, json, meta, yaml};
use triptych_registry::builtin::{completed, type_meta};
use triptych_registry::model::{DecodeError, Decoded, Model, Stored};
use triptych_registry::negotiate::{self, Format, Offer};
use triptych_schema::decode::{Reader, StrictError};
use triptych_schema::types::{Schema, TypeId};

use super::kind::{CustomKind, KindVersion};

/// A custom resource in one version.
pub struct CustomModel {
    gvk: Gvk,
    kind: Arc<CustomKind>,
    version: usize,
    deprecation: Option<String>,
}

impl CustomModel {
    /// The version with this number, and the warning if it is deprecated; `None` if there is no such version.
    pub fn new(kind: Arc<CustomKind>, version: usize, deprecation: Option<String>) -> Option<CustomModel> {
        let name = kind.versions.get(version)?.name.clone();
        Some(CustomModel {
            gvk: Gvk::new(kind.group.as_str(), name, kind.kind.as_str()),
            kind,
            version,
            deprecation,
        })
    }

    fn own(&self) -> &KindVersion {
        &self.kind.versions[self.version]
    }

    /// Prunes and decodes metadata, for documents of this kind in any of its versions; for all others nothing but
    /// metadata is looked at.
    fn coerce(&self, document: &mut Value) -> Result<Vec<StrictError>, String> {
        if let Some(version) = self.kind.version_of(document) {
            return self.kind.coerce(version, document, false).map_err(|e| e.0);
        }
        let gv: GroupVersion = document.str_at(&["apiVersion"]).parse()?;
        let unknown_version = gv.group == self.kind.group && document.str_at(&["kind"]) == self.kind.kind;
        let mut strict = self.kind.decode_metadata(self.version, document).map_err(|e| e.0)?;
        if unknown_version && !self.kind.preserve_unknown {
            strict.extend(keep_only_metadata(document));
        }
        Ok(strict)
    }

    fn finish(&self, mut document: Value, mut strict: Vec<StrictError>) -> Result<Decoded, DecodeError> {
        let said = type_meta(&document).map_err(|message| DecodeError { gvk: None, message })?;
        let gvk = completed(said.clone(), &self.gvk);
        let refuse = |message: String| DecodeError {
            gvk: Some(gvk.clone()),
            message,
        };
        if said.kind.is_empty() {
            let text = json::to_string(&document);
            return Err(DecodeError {
                gvk: Some(gvk).filter(|_| !document.is_null()),
                message: format!("Object 'Kind' is missing in '{text}'"),
            });
        }
        strict.extend(self.coerce(&mut document).map_err(refuse)?);
        Ok(Decoded {
            gvk: meta::gvk(&document),
            document,
            strict: strict.iter().map(ToString::to_string).collect(),
        })
    }
}

/// What pruning by no schema at all leaves.
fn keep_only_metadata(document: &mut Value) -> Vec<StrictError> {
    let mut removed = Vec::new();
    if let Some(map) = document.as_object_mut() {
        map.retain(|key, _| {
            let kept = matches!(key, "apiVersion" | "kind" | "metadata");
            if !kept {
                removed.push(key.to_owned());
            }
            kept
        });
    }
    removed.sort();
    removed.into_iter().map(StrictError::Unknown).collect()
}

/// Orders the members of all objects by name.
pub(super) fn sort_members(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(sort_members),
        Value::Object(map) => {
            map.sort();
            map.iter_mut().for_each(|(_, member)| sort_members(member));
        }
        _ => {}
    }
}

impl Model for CustomModel {
    fn gvk(&self) -> &Gvk {
        &self.gvk
    }

    fn list_kind(&self) -> String {
        self.kind.list_kind.clone()
    }

    fn schema(&self) -> (&Schema, TypeId) {
        (&self.own().types.schema, self.own().types.root)
    }

    fn schema_of(&self, api_version: &str) -> Option<(&Schema, TypeId)> {
        let version = self.kind.versions.iter().find(|v| v.api_version == api_version)?;
        Some((&version.types.schema, version.types.root))
    }

    fn convert(&self, document: &Value, api_version: &str) -> Result<Value, String> {
        if !self.kind.versions.iter().any(|v| v.api_version == api_version) {
            let from = document.str_at(&["apiVersion"]);
            return Err(format!(
                "request to convert CR from an invalid group/version: {from} to {api_version}"
            ));
        }
        let mut converted = document.clone();
        converted.set_at(&["apiVersion"], api_version.into());
        Ok(converted)
    }

    fn deprecation(&self) -> Option<String> {
        self.deprecation.clone()
    }

    fn versions(&self) -> Vec<String> {
        let served = self.kind.versions.iter().filter(|version| version.served);
        served.map(|version| version.api_version.clone()).collect()
    }

    fn offer(&self) -> Offer {
        negotiate::CUSTOM
    }

    fn bare_items(&self) -> bool {
        false
    }

    fn merges_strategically(&self) -> bool {
        false
    }

    fn decode_body(&self, format: Format, body: &[u8]) -> Result<Decoded, DecodeError> {
        let refuse = |message: String| DecodeError { gvk: None, message };
        match format {
            Format::Yaml => {
                let parsed = yaml::parse(body).map_err(|e| refuse(e.to_string()))?;
                let strict = parsed.strict.map(StrictError::Other).into_iter().collect();
                self.finish(parsed.value, strict)
            }
            _ => {
                let parsed = json::parse(body)
                    .map_err(|e| refuse(format!("couldn't get version/kind; json parse error: {e}")))?;
                let duplicates = parsed.duplicates.into_iter().map(|d| StrictError::Duplicate(d.path));
                self.finish(parsed.value, duplicates.collect())
            }
        }
    }

    fn decode(&self, document: &mut Value, _reader: Reader<'_>) -> Result<Vec<String>, String> {
        type_meta(document)?;
        let found = self.coerce(document)?;
        Ok(found.iter().map(ToString::to_string).collect())
    }

    fn decode_applied(&self, document: &mut Value) -> Result<(), String> {
        type_meta(document)?;
        // nothing is pruned: what the schema does not know was refused, and what is null is for validation to judge
        self.kind
            .decode_metadata(self.version, document)
            .map(|_| ())
            .map_err(|e| e.0)
    }

    fn default(&self, document: &mut Value) {
        if let Some(version) = self.kind.version_of(document) {
            self.kind.default(version, document);
        }
    }

    fn stored(&self) -> Stored {
        if self.kind.mixed {
            Stored::Converted
        } else if self.version == self.kind.storage {
            Stored::AsIs
        } else if self.own().as_stored {
            Stored::OtherApiVersion
        } else {
            Stored::Converted
        }
    }

    fn from_stored(&self, mut document: Value) -> Value {
        self.kind.convert(self.version, &mut document);
        document
    }

    fn to_stored(&self, mut document: Value) -> Value {
        self.kind.convert(self.kind.storage, &mut document);
        // in the order in which Go writes what has no type, so that equal objects are equal bytes
        sort_members(&mut document);
        document
    }

    fn encode(&self, document: &Value, format: Format) -> Option<Vec<u8>> {
        match format {
            Format::Json => Some(json::to_vec(document)),
            Format::Yaml => Some(yaml::to_string(document).into_bytes()),
            Format::Protobuf => None,
        }
    }
}
