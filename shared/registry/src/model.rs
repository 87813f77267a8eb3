//! What is done to the documents of one kind in one version, whatever the kind: the seam between the verbs and the
//! schema engine.
//!
//! Contract: a document given to `default` has been through `decode`, one given to `validate` or a strategy's other
//! methods has been through `settle` as well. A built-in kind's model is [`crate::builtin::BuiltIn`]; `extensions-api` makes one for each version of a CRD.

use bytes::Bytes;
use triptych_object::field::ErrorList;
use triptych_object::{Empties, Gvk, Value};
use triptych_schema::decode::Reader;
use triptych_schema::types::{Schema, TypeId};
use triptych_storage::Object;

use crate::negotiate::{Format, Offer};

/// How a stored object becomes one of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It is one.
    AsIs,
    /// All but its `apiVersion` is (custom resources converted by strategy None).
    OtherApiVersion,
    /// It must be converted.
    Converted,
}

/// A body that was decoded.
#[derive(Clone, Debug)]
pub struct Decoded {
    /// The document, defaults not yet set and not yet settled.
    pub document: Value,
    /// What it says it is; absent parts are the endpoint's.
    pub gvk: Gvk,
    /// Unknown and duplicate fields, in Go's words, in document order.
    pub strict: Vec<String>,
}

/// Why a body could not be decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecodeError {
    /// What the body says it is, if that much could be read.
    pub gvk: Option<Gvk>,
    /// Go's text.
    pub message: String,
}

/// One kind in one version.
pub trait Model: Send + Sync + 'static {
    /// Group, version, kind.
    fn gvk(&self) -> &Gvk;

    /// Kind of the list (`PodList`).
    fn list_kind(&self) -> String {
        format!("{}List", self.gvk().kind)
    }

    /// The types, for merging, apply and protobuf.
    fn schema(&self) -> (&Schema, TypeId);

    /// The types of another version of the same kind, for owners that wrote in it.
    fn schema_of(&self, api_version: &str) -> Option<(&Schema, TypeId)> {
        (api_version == self.gvk().group_version().to_string()).then(|| self.schema())
    }

    /// The document in another version of the same kind.
    fn convert(&self, document: &Value, api_version: &str) -> Result<Value, String> {
        if document.str_at(&["apiVersion"]) == api_version {
            return Ok(document.clone());
        }
        Err(format!("no conversion to {api_version}"))
    }

    /// The `apiVersion`s in which the same objects are served, this one's among them.
    fn versions(&self) -> Vec<String> {
        vec![self.gvk().group_version().to_string()]
    }

    /// The warning that every answer about a deprecated kind carries.
    fn deprecation(&self) -> Option<String> {
        None
    }

    /// What can be answered.
    fn offer(&self) -> Offer;

    /// True if lists leave out `kind` and `apiVersion` of their items, as those of built-in kinds do.
    fn bare_items(&self) -> bool;

    /// True if strategic merge patch is understood.
    fn merges_strategically(&self) -> bool;

    /// Reads a body: what it is, its content in normal form, and what a strict reader objects to.
    fn decode_body(&self, format: Format, body: &[u8]) -> Result<Decoded, DecodeError>;

    /// Reads a tree as [`decode_body`](Self::decode_body) reads a body: known fields, canonical values, no nulls. Unknown fields are
    /// dropped and returned as strict errors (`unknown field "spec.x"`), in document order.
    fn decode(&self, document: &mut Value, reader: Reader<'_>) -> Result<Vec<String>, String>;

    /// What stands at a path that was cleared: nothing, or what is written even if it is empty (`status: {}`).
    fn cleared(&self, _path: &[&str]) -> Option<Value> {
        None
    }

    /// Brings what server-side apply merged into the form it is kept in.
    fn decode_applied(&self, document: &mut Value) -> Result<(), String> {
        self.decode(document, Reader::Converter).map(|_| ())
    }

    /// Sets what is absent and has a default.
    fn default(&self, document: &mut Value);

    /// Drops what is empty and not written from a decoded and defaulted document, and tells what that was.
    fn settle(&self, _document: &mut Value) -> Empties {
        Empties::default()
    }

    /// Makes of a settled document what the way through the store makes of it: empty becomes `null`.
    fn through_store(&self, _document: &mut Value) {}

    /// Makes an object of this kind, in the form that strategies see, of a tree that admission changed.
    fn reread(&self, document: &mut Value) -> Result<(), String> {
        self.decode(document, Reader::Json(&[]))?;
        self.default(document);
        self.settle(document);
        self.through_store(document);
        Ok(())
    }

    /// Finishes what a strategy prepared: fields whose feature is off are dropped, and members that are always there come
    /// back as zero values.
    fn finish(&self, _new: &mut Value, _old: Option<&Value>) {}

    /// Annotations that are fields inside the server: tables and metadata alone do not show them.
    fn internal_annotations(&self) -> &'static [&'static str] {
        &[]
    }

    /// Checks against the schema, before the strategy does.
    fn validate(&self, _new: &Value, _old: Option<&Value>, _errors: &mut ErrorList) {}

    /// How stored objects become this version's.
    fn stored(&self) -> Stored {
        Stored::AsIs
    }

    /// Turns a stored document into this version's.
    #[allow(clippy::wrong_self_convention)] // a conversion of documents, not of models
    fn from_stored(&self, document: Value) -> Value {
        document
    }

    /// Turns a document of this version into the stored one.
    fn to_stored(&self, document: Value) -> Value {
        document
    }

    /// The bytes put into the store for a document of the stored version.
    fn encode_stored(&self, document: &Value) -> Bytes {
        Bytes::from(triptych_object::json::to_vec(document))
    }

    /// True if the bytes put into the store are others than the cache shows, so that comparing them says nothing.
    fn stores_another_form(&self) -> bool {
        false
    }

    /// A document of this version in another format than JSON; `None` if the format cannot carry it.
    fn encode(&self, document: &Value, format: Format) -> Option<Vec<u8>>;

    /// The document of this version in an object of the cache.
    fn document(&self, object: &Object) -> Result<Value, String> {
        let value = triptych_object::json::from_slice(object.bytes()).map_err(|e| e.message)?;
        Ok(match self.stored() {
            Stored::AsIs => value,
            _ => self.from_stored(value),
        })
    }
}
