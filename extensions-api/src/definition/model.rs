//! The model of CRDs: a built-in kind that lies in the store in another version.

use bytes::Bytes;
use triptych_object::{Empties, Gvk, Value, json};
use triptych_registry::builtin::BuiltIn;
use triptych_registry::model::{DecodeError, Decoded, Model};
use triptych_registry::negotiate::{Format, Offer};
use triptych_schema::decode::Reader;
use triptych_schema::types::{Schema, TypeId};

use super::stored::to_stored;

/// `apiextensions.k8s.io/v1` CustomResourceDefinition.
pub struct DefinitionModel(pub BuiltIn);

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
        self.0.decode_body(format, body)
    }

    fn decode(&self, document: &mut Value, reader: Reader<'_>) -> Result<Vec<String>, String> {
        self.0.decode(document, reader)
    }

    fn decode_applied(&self, document: &mut Value) -> Result<(), String> {
        self.0.decode_applied(document)
    }

    fn default(&self, document: &mut Value) {
        self.0.default(document);
    }

    fn settle(&self, document: &mut Value) -> Empties {
        self.0.settle(document)
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
