//! The model of CRDs: a built-in kind that lies in the store in another version.

use bytes::Bytes;
use triptych_object::{Gvk, Value, json, yaml};
use triptych_registry::builtin::BuiltIn;
use triptych_registry::model::{DecodeError, Decoded, Model};
use triptych_registry::negotiate::{Format, Offer};
use triptych_schema::types::{Schema, TypeId};

use super::stored::to_stored;

/// `apiextensions.k8s.io/v1` CustomResourceDefinition.
pub struct DefinitionModel(pub BuiltIn);

const VERSIONS: [&str; 2] = ["spec", "versions"];

fn is_empty_list(value: Option<&Value>) -> bool {
    value.and_then(Value::as_array).is_some_and(<[Value]>::is_empty)
}

/// An empty list of versions is not the same as none in a kind that is stored as JSON, as refusals show.
fn restore_no_versions(said: Option<&Value>, document: &mut Value) {
    if is_empty_list(said.and_then(|said| said.at(&VERSIONS))) {
        document.set_at(&VERSIONS, Value::Array(Vec::new()));
    }
}

impl Model for DefinitionModel {
    fn gvk(&self) -> &Gvk {
        self.0.gvk()
    }

    fn schema(&self) -> (&Schema, TypeId) {
        self.0.schema()
    }

    fn schema_of(&self, api_version: &str) -> Option<(&Schema, TypeId)> {
        self.0.schema_of(api_version)
    }

    fn offer(&self) -> Offer {
        self.0.offer()
    }

    fn bare_items(&self) -> bool {
        true
    }

    fn merges_strategically(&self) -> bool {
        true
    }

    fn decode_body(&self, format: Format, body: &[u8]) -> Result<Decoded, DecodeError> {
        let mut decoded = self.0.decode_body(format, body)?;
        if decoded.document.at(&VERSIONS).is_none_or(Value::is_null) {
            let said = match format {
                Format::Json => json::from_slice(body).ok(),
                Format::Yaml => yaml::from_slice(body).ok(),
                Format::Protobuf => None,
            };
            restore_no_versions(said.as_ref(), &mut decoded.document);
        }
        Ok(decoded)
    }

    fn decode(&self, document: &mut Value) -> Result<Vec<String>, String> {
        let said = is_empty_list(document.at(&VERSIONS)).then(|| document.clone());
        let strict = self.0.decode(document)?;
        restore_no_versions(said.as_ref(), document);
        Ok(strict)
    }

    fn default(&self, document: &mut Value) {
        self.0.default(document);
    }

    fn encode_stored(&self, document: &Value) -> Bytes {
        json::to_vec(&to_stored(document)).into()
    }

    fn stores_another_form(&self) -> bool {
        true
    }

    fn encode(&self, document: &Value, format: Format) -> Option<Vec<u8>> {
        self.0.encode(document, format)
    }
}
