//! From bytes to characters: encodings, byte order marks, and what may not stand in a YAML stream.

use std::borrow::Cow;

use super::Error;

/// The text of a stream, by its byte order mark UTF-16 or else UTF-8; refuses control characters.
pub(super) fn text(bytes: &[u8]) -> Result<Cow<'_, str>, Error> {
    let text = match bytes {
        [0xff, 0xfe, rest @ ..] => Cow::Owned(utf16(rest, u16::from_le_bytes)?),
        [0xfe, 0xff, rest @ ..] => Cow::Owned(utf16(rest, u16::from_be_bytes)?),
        [0xef, 0xbb, 0xbf, rest @ ..] => Cow::Borrowed(utf8(rest)?),
        bytes => Cow::Borrowed(utf8(bytes)?),
    };
    if !text.chars().all(is_allowed) {
        return Err(Error::Yaml("control characters are not allowed".to_owned()));
    }
    Ok(text)
}

fn is_allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}'
        | '\u{10000}'..)
}

fn utf8(bytes: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(bytes).map_err(|e| {
        let lead = bytes.get(e.valid_up_to()).copied().unwrap_or(0);
        let message = match (lead, e.error_len()) {
            (_, None) => "incomplete UTF-8 octet sequence",
            (0x80..=0xbf | 0xf8..=0xff, _) => "invalid leading UTF-8 octet",
            (0xc0 | 0xc1, _) => "invalid length of a UTF-8 sequence",
            _ => "invalid trailing UTF-8 octet",
        };
        Error::Yaml(message.to_owned())
    })
}

fn utf16(bytes: &[u8], read: fn([u8; 2]) -> u16) -> Result<String, Error> {
    let (units, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Error::Yaml("incomplete UTF-16 character".to_owned()));
    }
    char::decode_utf16(units.iter().map(|u| read(*u)))
        .collect::<Result<String, _>>()
        .map_err(|e| {
            let low = (0xdc00..0xe000).contains(&e.unpaired_surrogate());
            Error::Yaml(
                if low {
                    "unexpected low surrogate area"
                } else {
                    "expected low surrogate area"
                }
                .to_owned(),
            )
        })
}
