//! Byte fields: base64 in a document.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// How many bytes a canonical base64 text stands for.
pub fn decoded_len(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|b| *b == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

/// The bytes of a base64 text; empty if it is none.
pub fn decode(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap_or_default()
}

/// The base64 text of some bytes.
pub fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_known_without_decoding() {
        for bytes in ["", "a", "ab", "abc", "abcd"] {
            assert_eq!(decoded_len(&encode(bytes.as_bytes())), bytes.len());
        }
    }
}
