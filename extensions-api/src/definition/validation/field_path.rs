//! Paths to fields of a schema, as `selectableFields` and `fieldPath` of rules name them (`cel.ValidFieldPath`).

use triptych_object::Value;

use super::schema_walk::{child, given};

/// Follows a path; gives it in normal form and the schema it leads to.
pub fn follow<'s>(path: &str, schema: &'s Value, brackets: bool) -> Result<(String, &'s Value), String> {
    let mut tokens = Tokens { rest: path };
    let (mut normal, mut at) = (String::new(), schema);
    let end = || "unexpected end of JSON path".to_owned();
    while let Some(token) = tokens.next() {
        match token {
            "[" => {
                if !brackets {
                    return Err("array notation is not allowed".to_owned());
                }
                let token = tokens.next().ok_or_else(end)?;
                let quoted = token.strip_prefix('\'').and_then(|t| t.strip_suffix('\''));
                let Some(quoted) = quoted.filter(|_| token.len() >= 2) else {
                    return Err(format!("expected single quoted string but got {token}"));
                };
                at = step(&unescape(quoted)?, at, &mut normal)?;
                match tokens.next().ok_or_else(end)? {
                    "]" => {}
                    other => return Err(format!("expected ] but got {other}")),
                }
            }
            "." => {
                let name = tokens.next().ok_or_else(end)?;
                at = step(name, at, &mut normal)?;
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        }
    }
    Ok((normal, at))
}

fn step<'s>(name: &str, at: &'s Value, normal: &mut String) -> Result<&'s Value, String> {
    let nowhere = || "does not refer to a valid field".to_owned();
    if let Some(properties) = child(at, "properties") {
        if !normal.is_empty() {
            normal.push('.');
        }
        normal.push_str(name);
        return properties.get(name).ok_or_else(nowhere);
    }
    given(at, "additionalProperties").ok_or_else(nowhere)?;
    normal.push_str(&format!("[{name}]"));
    child(at, "additionalProperties").ok_or_else(nowhere)
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        // A backslash at the end, or before a line break, stands for itself.
        match chars.clone().next() {
            None | Some('\n') => {
                out.push(c);
                continue;
            }
            Some('a') => out.push('\u{7}'),
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('v') => out.push('\u{b}'),
            Some(c @ ('\'' | '\\')) => out.push(c),
            Some(other) => return Err(format!("invalid string literal: invalid escape char \\{other}")),
        }
        chars.next();
    }
    Ok(out)
}

struct Tokens<'t> {
    rest: &'t str,
}

impl<'t> Tokens<'t> {
    fn next(&mut self) -> Option<&'t str> {
        if self.rest.is_empty() {
            return None;
        }
        let end = if self.rest.starts_with('\'') {
            let bytes = self.rest.as_bytes();
            (1..bytes.len())
                .find(|i| bytes[*i] == b'\'' && bytes[*i - 1] != b'\\')
                .map_or(self.rest.len(), |i| i + 1)
        } else {
            match self.rest.find(['.', '[', ']']) {
                Some(0) => 1,
                Some(i) => i,
                None => self.rest.len(),
            }
        };
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_object::json;

    #[test]
    fn paths_lead_to_declared_fields_only() {
        let schema = json::from_slice(
            br#"{"properties":{"spec":{"properties":{"a":{"type":"string"},"m":{"additionalProperties":{"type":"integer"}}}}}}"#,
        )
        .unwrap();
        let go =
            |path: &str, brackets| follow(path, &schema, brackets).map(|(p, s)| format!("{p} {}", s.str_at(&["type"])));
        assert_eq!(go(".spec.a", false).unwrap(), "spec.a string");
        assert_eq!(go(".spec['a']", true).unwrap(), "spec.a string");
        assert_eq!(go(".spec.m.x", true).unwrap(), "spec.m[x] integer");
        assert_eq!(go(".spec['a']", false).unwrap_err(), "array notation is not allowed");
        assert_eq!(go(".spec.b", false).unwrap_err(), "does not refer to a valid field");
        assert_eq!(go("spec", false).unwrap_err(), "expected [ or . but got: spec");
    }

    #[test]
    fn quoted_names_may_have_escapes() {
        let schema =
            json::from_slice(br#"{"properties":{"it's":{"type":"string"},"a\tb":{"type":"number"}}}"#).unwrap();
        let go = |path: &str| follow(path, &schema, true).map(|(_, s)| s.str_at(&["type"]).to_owned());
        assert_eq!(go(r"['it\'s']").unwrap(), "string");
        assert_eq!(go(r"['a\tb']").unwrap(), "number");
        assert_eq!(
            go(r"['a\qb']").unwrap_err(),
            r"invalid string literal: invalid escape char \q"
        );
        assert_eq!(go(r"['a\bb']").unwrap_err(), "does not refer to a valid field");
    }
}
