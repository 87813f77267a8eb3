//! Going over what is nested too deep, without recursion: its syntax is checked, its content is left out.

use super::{GO_MAX_DEPTH, MAX_DEPTH, Parser, Result1};
use crate::value::Value;

impl Parser<'_> {
    /// Reads a value below [`MAX_DEPTH`]; `null` in its place.
    pub(super) fn skip(&mut self) -> Result1<Value> {
        // what is open: true for a map
        let mut open: Vec<bool> = Vec::new();
        loop {
            self.space();
            let begins = self.peek();
            match begins {
                Some(b'{' | b'[') => {
                    if MAX_DEPTH + open.len() >= GO_MAX_DEPTH {
                        return Err(self.unexpected("exceeded max depth"));
                    }
                    self.at += 1;
                    self.space();
                    let is_map = begins == Some(b'{');
                    if self.peek() == Some(if is_map { b'}' } else { b']' }) {
                        self.at += 1;
                    } else {
                        open.push(is_map);
                        if is_map {
                            self.skip_key()?;
                        }
                        continue;
                    }
                }
                // scalars nest no deeper
                _ => drop(self.value()?),
            }
            if self.close(&mut open)? {
                return Ok(Value::Null);
            }
        }
    }

    fn skip_key(&mut self) -> Result1<()> {
        self.space();
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("looking for beginning of object key string"));
        }
        self.string()?;
        self.space();
        if self.peek() != Some(b':') {
            return Err(self.unexpected("after object key"));
        }
        self.at += 1;
        Ok(())
    }

    /// After a value: closes what ends here; true if all of it did, false if another value follows.
    fn close(&mut self, open: &mut Vec<bool>) -> Result1<bool> {
        while let Some(is_map) = open.last().copied() {
            self.space();
            match (self.peek(), is_map) {
                (Some(b','), true) => {
                    self.at += 1;
                    self.skip_key()?;
                    return Ok(false);
                }
                (Some(b','), false) => {
                    self.at += 1;
                    return Ok(false);
                }
                (Some(b'}'), true) | (Some(b']'), false) => {
                    self.at += 1;
                    open.pop();
                }
                (_, true) => return Err(self.unexpected("after object key:value pair")),
                (_, false) => return Err(self.unexpected("after array element")),
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{depth, parse, parse_typed};

    fn lists(depth: usize) -> String {
        format!("{}{}", "[".repeat(depth), "]".repeat(depth))
    }

    #[test]
    fn what_is_too_deep_is_left_out_up_to_the_depth_that_go_refuses() {
        for (levels, cut) in [(MAX_DEPTH, false), (MAX_DEPTH + 1, true), (GO_MAX_DEPTH, true)] {
            let parsed = parse_typed(lists(levels).as_bytes()).unwrap();
            assert_eq!((parsed.cut, depth(&parsed.value)), (cut, MAX_DEPTH), "{levels}");
        }
        let error = parse_typed(lists(GO_MAX_DEPTH + 1).as_bytes()).unwrap_err();
        assert_eq!(error.message, "invalid character '[' exceeded max depth");
        assert!(parse(lists(MAX_DEPTH + 1).as_bytes()).is_err());
    }

    #[test]
    fn what_is_left_out_must_be_json_too() {
        let deep = |inner: &str| format!("{}{inner}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        let inner = r#"{"a":[1,{"b":"]"},[]],"c":{},"d":null}"#;
        assert!(parse_typed(deep(inner).as_bytes()).unwrap().cut);
        for (inner, message) in [
            (r#"[1 2]"#, "invalid character '2' after array element"),
            (r#"{"a" 1}"#, "invalid character '1' after object key"),
            (
                r#"{1}"#,
                "invalid character '1' looking for beginning of object key string",
            ),
            (r#"{"a":1 2}"#, "invalid character '2' after object key:value pair"),
            (r#"[1,]"#, "invalid character ']' looking for beginning of value"),
        ] {
            assert_eq!(
                parse_typed(deep(inner).as_bytes()).unwrap_err().message,
                message,
                "{inner}"
            );
        }
    }
}
