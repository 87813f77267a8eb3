//! `Status` as protobuf: the one message that is written where no schema is at hand, because every layer answers it.
//!
//! Contract: bytes equal those of Kubernetes' generated marshalling: fields ascending, scalars of non-pointers always
//! written, in the usual envelope.

use triptych_object::Status;
use triptych_schema::protobuf;

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

/// A `Status` in its envelope.
pub fn enveloped(status: &Status) -> Vec<u8> {
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
    protobuf::wrap("v1", "Status", &out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_have_long_lengths() {
        let mut out = Vec::new();
        bytes(&mut out, 1, &[0; 300]);
        assert_eq!(out[..3], [0x0a, 0xac, 0x02]);
    }
}
