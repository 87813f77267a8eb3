//! Kubernetes' protobuf: objects to bytes and back, driven by the schema; no generated code.
//!
//! Contract: bytes equal those of the Go types' gogo-generated marshalers (fields ascending, every non-pointer scalar and
//! message written, map entries sorted by key), and decoding gives the tree that Go would write as JSON. On the wire and
//! in the store an object stands in an envelope: `k8s\0`, then `runtime.Unknown` with apiVersion, kind and the object.
//! Decoding is bounded in depth and in the number of values, skips what it does not know, and words its errors as the
//! generated code does.

mod encode;
mod read;
mod wire;

use triptych_object::Value;

use crate::types::{Schema, TypeId};
use wire::{Back, Reader};

/// What every enveloped object begins with.
pub const MAGIC: &[u8; 4] = b"k8s\0";

/// Why bytes are no object, or a tree cannot be bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub String);

impl Error {
    fn new(text: impl Into<String>) -> Error {
        Error(text.into())
    }

    fn eof() -> Error {
        Error::new("unexpected EOF")
    }
}

/// `runtime.Unknown`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// May be empty: then the request says it.
    pub api_version: String,
    /// May be empty: then the request says it.
    pub kind: String,
    /// The object.
    pub raw: &'a [u8],
    /// Empty.
    pub content_encoding: String,
    /// Empty for protobuf.
    pub content_type: String,
}

/// Takes the envelope off.
pub fn open(bytes: &[u8]) -> Result<Envelope<'_>, Error> {
    if bytes.is_empty() {
        return Err(Error::new("empty data"));
    }
    let Some(unknown) = bytes.strip_prefix(MAGIC) else {
        return Err(Error::new(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
        ));
    };
    if unknown.is_empty() {
        return Err(Error::new("empty body"));
    }
    let mut envelope = Envelope::default();
    let mut r = Reader::new(unknown, "Unknown");
    while let Some((tag, wire)) = r.key()? {
        match tag {
            1 => {
                let mut meta = Reader::new(r.bytes(wire, "TypeMeta")?, "TypeMeta");
                while let Some((tag, wire)) = meta.key()? {
                    match tag {
                        1 => envelope.api_version = meta.text(wire, "APIVersion")?,
                        2 => envelope.kind = meta.text(wire, "Kind")?,
                        _ => meta.skip(wire)?,
                    }
                }
            }
            2 => envelope.raw = r.bytes(wire, "Raw")?,
            3 => envelope.content_encoding = r.text(wire, "ContentEncoding")?,
            4 => envelope.content_type = r.text(wire, "ContentType")?,
            _ => r.skip(wire)?,
        }
    }
    Ok(envelope)
}

/// Decodes an object's own bytes. Its `kind` and `apiVersion` are not among them.
pub fn decode(schema: &Schema, ty: TypeId, raw: &[u8]) -> Result<Value, Error> {
    read::message(schema, ty, raw)
}

/// Encodes an object without its envelope.
pub fn encode(schema: &Schema, ty: TypeId, value: &Value) -> Result<Vec<u8>, Error> {
    let mut out = Back::default();
    encode::message(&mut out, schema, ty, value)?;
    Ok(out.into_vec())
}

/// Encodes an object with its envelope, which takes `apiVersion` and `kind` from it.
pub fn encode_object(schema: &Schema, ty: TypeId, value: &Value) -> Result<Vec<u8>, Error> {
    let mut out = Back::default();
    let end = begin_envelope(&mut out);
    encode::message(&mut out, schema, ty, value)?;
    finish_envelope(&mut out, end, value.str_at(&["apiVersion"]), value.str_at(&["kind"]));
    Ok(out.into_vec())
}

/// Encodes a list of objects that are bytes already (without envelope); `metadata` is a ListMeta.
pub fn encode_list(
    schema: &Schema,
    list_meta: TypeId,
    api_version: &str,
    kind: &str,
    metadata: &Value,
    items: &[Vec<u8>],
) -> Result<Vec<u8>, Error> {
    let mut out = Back::with_capacity(items.iter().map(|i| i.len() + 6).sum::<usize>() + 256);
    let end = begin_envelope(&mut out);
    for item in items.iter().rev() {
        out.bytes_field(2, item);
    }
    let meta_end = out.len();
    encode::message(&mut out, schema, list_meta, metadata)?;
    out.close(1, meta_end);
    finish_envelope(&mut out, end, api_version, kind);
    Ok(out.into_vec())
}

/// Puts an object's own bytes into an envelope.
pub fn wrap(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut out = Back::with_capacity(raw.len() + 64);
    let end = begin_envelope(&mut out);
    out.prepend(raw);
    finish_envelope(&mut out, end, api_version, kind);
    out.into_vec()
}

/// One event of a watch stream: a length, then WatchEvent with the enveloped object.
pub fn watch_frame(event_type: &str, enveloped: &[u8]) -> Vec<u8> {
    let mut out = Back::with_capacity(enveloped.len() + 64);
    out.bytes_field(1, enveloped);
    out.close(2, 0);
    out.bytes_field(1, event_type.as_bytes());
    let length = u32::try_from(out.len()).unwrap_or(u32::MAX);
    out.prepend(&length.to_be_bytes());
    out.into_vec()
}

/// What stands after the object; gives the position that its length counts from.
fn begin_envelope(out: &mut Back) -> usize {
    out.bytes_field(4, b"");
    out.bytes_field(3, b"");
    out.len()
}

fn finish_envelope(out: &mut Back, end: usize, api_version: &str, kind: &str) {
    out.close(2, end);
    let end = out.len();
    out.bytes_field(2, kind.as_bytes());
    out.bytes_field(1, api_version.as_bytes());
    out.close(1, end);
    out.prepend(MAGIC);
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
