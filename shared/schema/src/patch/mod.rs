//! The three patches that are not server-side apply: JSON patch, JSON merge patch and strategic merge patch.
//!
//! Contract: each is decoded once from the request's bytes and may then be applied to any number of live objects (a
//! patch is applied again when it loses a race). What comes out is a tree that has still to be decoded, normalised and
//! validated like any body. Strict-decoding findings (`unknown field`, `duplicate field`) are handed to the caller, who
//! knows `fieldValidation`.

pub mod json_patch;
pub mod merge_patch;
pub mod strategic;

use triptych_object::json::{self, OddNumber};
use triptych_object::{Status, Value};

use crate::go_text::{Numbers, type_name};

/// Whether a patch document is read strictly (`fieldValidation` Strict or Warn) or not (Ignore).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Findings are collected; the document must have the right types.
    Strict,
    /// The document is taken as it is.
    Lenient,
}

/// A patch document and what strict reading found in it.
#[derive(Clone, Debug)]
struct Document {
    value: Value,
    findings: Vec<String>,
    numbers: Vec<OddNumber>,
}

impl Document {
    /// Reads JSON, noting duplicate fields.
    fn read(bytes: &[u8], reading: Reading) -> Result<Document, String> {
        let parsed = json::parse(bytes).map_err(|e| e.message)?;
        let findings = match reading {
            Reading::Strict => parsed
                .duplicates
                .iter()
                .map(|d| format!("duplicate field \"{}\"", d.path))
                .collect(),
            Reading::Lenient => Vec::new(),
        };
        Ok(Document {
            value: parsed.value,
            findings,
            numbers: parsed.numbers,
        })
    }
}

/// Go's text for a document (or part of one) of the wrong type.
fn wrong_type(value: &Value, go_type: &str) -> String {
    format!(
        "json: cannot unmarshal {} into Go value of type {go_type}",
        value.type_name()
    )
}

/// The answer to a patch that does not fit the object: its text says nothing, as in Kubernetes.
fn rejected() -> Box<Status> {
    Status::unprocessable("the server rejected our request due to an error in our request")
}

/// `expected a X, but received a Y` with Go's type names.
fn bad_argument(expected: &str, actual: &Value) -> String {
    let actual = match actual {
        Value::Null => "%!s(<nil>)",
        other => type_name(other, Numbers::Integers),
    };
    format!("expected a {expected}, but received a {actual}")
}
