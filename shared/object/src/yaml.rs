//! YAML in and out, as Kubernetes reads and writes it.
//!
//! Contract: [`parse`] gives what `sigs.k8s.io/yaml` makes of a document before it is decoded as JSON: the first
//! document of the stream, scalars resolved by go-yaml v2 (YAML 1.1 booleans, octal numbers, timestamps as text), merge
//! keys applied, keys turned into text and sorted, the last of two equal keys kept. Error texts are go-yaml's; those of
//! syntax are libyaml's, whose scanner and grammar are kept. [`to_string`] writes what
//! `sigs.k8s.io/yaml` marshals.
//!
//! Bounds: nesting ([`crate::json::MAX_DEPTH`]), expansion of aliases (go-yaml's own ratio, and a budget of bytes,
//! since text is copied here). No input panics.
//!
//! Crates were rejected: the serde-based ones resolve scalars by YAML 1.2, have other texts and none reports duplicate
//! keys without failing; libyaml-safer, which has the texts, panics on a block scalar at the end of a file.

mod compose;
mod cursor;
mod decode;
mod emit;
mod reader;
mod resolve;
mod scan;

use crate::value::Value;

pub use emit::to_string;

/// Why a text is no YAML, or none that JSON could express.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// go-yaml could not read it; its text begins with `yaml: `.
    #[error("yaml: {0}")]
    Yaml(String),
    /// It cannot be JSON (a map's key is a list, a number is not finite).
    #[error("{0}")]
    Json(String),
}

/// A document and what strict reading would have said about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The first document; `null` if there is none.
    pub value: Value,
    /// go-yaml's text about keys that stand twice in one map: `yaml: unmarshal errors:\n  line 3: key "a" already set in map`.
    pub strict: Option<String>,
    /// What was nested deeper than [`crate::json::MAX_DEPTH`] was left out: `null` stands for it.
    pub cut: bool,
}

/// Reads the first document of a stream.
pub fn parse(bytes: &[u8]) -> Result<Parsed, Error> {
    read(bytes, false)
}

/// The same for a document that will be decoded into structs: what is nested too deep is left out, since no struct is
/// that deep. Whoever keeps free-form parts must look at [`Parsed::cut`].
pub fn parse_typed(bytes: &[u8]) -> Result<Parsed, Error> {
    read(bytes, true)
}

fn read(bytes: &[u8], typed: bool) -> Result<Parsed, Error> {
    let document = compose::compose(&reader::text(bytes)?)?;
    let Some(document) = document else {
        return Ok(Parsed {
            value: Value::Null,
            strict: None,
            cut: false,
        });
    };
    decode::decode(&document, typed)
}

/// Reads the first document, not caring about duplicate keys.
pub fn from_slice(bytes: &[u8]) -> Result<Value, Error> {
    parse(bytes).map(|p| p.value)
}

#[cfg(test)]
mod tests;
