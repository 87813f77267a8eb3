//! PEM as Go's `encoding/pem` finds it: the next well-formed block, whatever stands around it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// What stands after `BEGIN`.
    pub label: String,
    /// It had lines `Key: value`.
    pub has_headers: bool,
    /// The decoded content.
    pub bytes: Vec<u8>,
}

/// The well-formed blocks of a text in order.
pub fn blocks(text: &[u8]) -> Vec<Block> {
    let text = String::from_utf8_lossy(text);
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        match block(&lines[at..]) {
            Some((block, length)) => {
                found.push(block);
                at += length;
            }
            None => at += 1,
        }
    }
    found
}

/// A block that begins with the first of these lines, and how many lines it has.
fn block(lines: &[&str]) -> Option<(Block, usize)> {
    let label = lines.first()?.strip_prefix("-----BEGIN ")?.strip_suffix("-----")?;
    let end = format!("-----END {label}-----");
    let length = lines.iter().position(|line| *line == end)?;
    let body = &lines[1..length];
    if body.iter().any(|line| line.starts_with("-----BEGIN ")) {
        return None;
    }
    let headers = body.iter().take_while(|line| line.contains(':')).count();
    let content: String = body[headers..].concat();
    let bytes = STANDARD.decode(content.replace([' ', '\t'], "")).ok()?;
    let block = Block {
        label: label.to_owned(),
        has_headers: headers > 0,
        bytes,
    };
    Some((block, length + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_block_is_passed_over() {
        let text =
            "x\n-----BEGIN A-----\n!!\n-----END A-----\n-----BEGIN B-----\r\nk: v\r\n\r\nYWI=\r\n-----END B-----\n";
        let block = Block {
            label: "B".into(),
            has_headers: true,
            bytes: b"ab".to_vec(),
        };
        assert_eq!(blocks(text.as_bytes()), [block]);
        assert_eq!(blocks(b"-----BEGIN A-----\nYWI=\n"), []);
    }
}
