//! Base64 as Go's `encoding/base64` reads it: line breaks ignored, and the byte it stumbles over named.

/// The bytes, or the position of the byte that Go's decoder reports.
pub fn decode(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let mut at = 0;
    loop {
        let mut quantum = [0u8; 4];
        let mut filled = 0;
        while filled < 4 {
            let Some(&c) = text.get(at) else {
                return if filled == 0 { Ok(out) } else { Err(at - filled) };
            };
            at += 1;
            match c {
                b'A'..=b'Z' => quantum[filled] = c - b'A',
                b'a'..=b'z' => quantum[filled] = c - b'a' + 26,
                b'0'..=b'9' => quantum[filled] = c - b'0' + 52,
                b'+' => quantum[filled] = 62,
                b'/' => quantum[filled] = 63,
                b'\r' | b'\n' => continue,
                b'=' if filled >= 2 => break,
                _ => return Err(at - 1),
            }
            filled += 1;
        }
        let bytes = u32::from_be_bytes([0, 0, 0, 0])
            | u32::from(quantum[0]) << 18
            | u32::from(quantum[1]) << 12
            | u32::from(quantum[2]) << 6
            | u32::from(quantum[3]);
        let [_, a, b, c] = bytes.to_be_bytes();
        if filled == 4 {
            out.extend([a, b, c]);
            continue;
        }
        at = skip_breaks(text, at);
        if filled == 2 {
            // A second `=` must follow.
            match text.get(at) {
                None => return Err(text.len()),
                Some(b'=') => at = skip_breaks(text, at + 1),
                Some(_) => return Err(at - 1),
            }
        }
        if at < text.len() {
            return Err(at);
        }
        out.push(a);
        if filled == 3 {
            out.push(b);
        }
        return Ok(out);
    }
}

fn skip_breaks(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b'\r' | b'\n')) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn bytes_are_read_and_mistakes_located_as_in_go() {
        for (text, want) in [
            ("", Ok(&b""[..])),
            ("aGVsbG8=", Ok(b"hello")),
            ("aGVs\nbG8=\n", Ok(b"hello")),
            ("YQ==", Ok(b"a")),
            ("YR==", Ok(b"a")),
            ("hello", Err(4)),
            ("YQ=", Err(3)),
            ("YQ", Err(0)),
            ("YQ==x", Err(4)),
            ("YQ=a", Err(2)),
            ("a*==", Err(1)),
            ("=", Err(0)),
            ("aGVs*", Err(4)),
            ("not base64!", Err(3)),
        ] {
            assert_eq!(decode(text.as_bytes()).as_deref(), want.as_ref().map(|b| *b), "{text}");
        }
    }
}
