//! The two protobuf messages that are written where no schema is at hand: `Status`, which every layer answers with, and
//! `WatchEvent`, which frames a watch.
//!
//! Contract: bytes equal those of Kubernetes' generated marshalling: fields ascending, scalars of non-pointers always
//! written. A `Status` stands in a `runtime.Unknown` envelope after `k8s\0`; a watch frame is a bare message after its
//! length in four bytes, big end first.

use triptych_object::Status;

/// Begins every enveloped document.
pub const MAGIC: &[u8; 4] = b"k8s\0";

fn varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn bytes(out: &mut Vec<u8>, field: u8, value: &[u8]) {
    out.push(field << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn number(out: &mut Vec<u8>, field: u8, value: u64) {
    out.push(field << 3);
    varint(out, value);
}

/// A document's message in its envelope.
pub fn envelope(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut type_meta = Vec::new();
    bytes(&mut type_meta, 1, api_version.as_bytes());
    bytes(&mut type_meta, 2, kind.as_bytes());
    let mut out = MAGIC.to_vec();
    bytes(&mut out, 1, &type_meta);
    bytes(&mut out, 2, message);
    bytes(&mut out, 3, b"");
    bytes(&mut out, 4, b"");
    out
}

/// A `Status` in its envelope.
pub fn status(status: &Status) -> Vec<u8> {
    let mut list_meta = Vec::new();
    for (field, text) in [(1, ""), (2, ""), (3, status.continue_token.as_str())] {
        bytes(&mut list_meta, field, text.as_bytes());
    }
    let mut out = Vec::new();
    bytes(&mut out, 1, &list_meta);
    bytes(&mut out, 2, if status.is_failure() { b"Failure" } else { b"Success" });
    bytes(&mut out, 3, status.message.as_bytes());
    bytes(&mut out, 4, status.reason.as_bytes());
    if let Some(details) = &status.details {
        let mut inner = Vec::new();
        bytes(&mut inner, 1, details.name.as_bytes());
        bytes(&mut inner, 2, details.group.as_bytes());
        bytes(&mut inner, 3, details.kind.as_bytes());
        for cause in &details.causes {
            let mut one = Vec::new();
            bytes(&mut one, 1, cause.reason.as_bytes());
            bytes(&mut one, 2, cause.message.as_bytes());
            bytes(&mut one, 3, cause.field.as_bytes());
            bytes(&mut inner, 4, &one);
        }
        number(&mut inner, 5, details.retry_after_seconds.into());
        bytes(&mut inner, 6, details.uid.as_bytes());
        bytes(&mut out, 5, &inner);
    }
    number(&mut out, 6, status.shown_code().into());
    envelope("v1", "Status", &out)
}

/// One event of a watch; `object` is enveloped.
pub fn watch_frame(kind: &str, object: &[u8]) -> Vec<u8> {
    let mut raw = Vec::with_capacity(object.len() + 8);
    bytes(&mut raw, 1, object);
    let mut event = Vec::with_capacity(raw.len() + 16);
    bytes(&mut event, 1, kind.as_bytes());
    bytes(&mut event, 2, &raw);
    let mut out = Vec::with_capacity(event.len() + 4);
    out.extend_from_slice(&(event.len() as u32).to_be_bytes());
    out.extend_from_slice(&event);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_begins_with_its_length() {
        let frame = watch_frame("ADDED", b"x");
        assert_eq!(frame, [0, 0, 0, 12, 0x0a, 5, b'A', b'D', b'D', b'E', b'D', 0x12, 3, 0x0a, 1, b'x']);
    }

    #[test]
    fn long_values_have_long_lengths() {
        let mut out = Vec::new();
        bytes(&mut out, 1, &[0; 300]);
        assert_eq!(out[..3], [0x0a, 0xac, 0x02]);
    }
}
