//! `--token-auth-file`: tokens and users in comma-separated lines.
//!
//! Contract: at least three columns (token, user name, user uid) and optionally a quoted, comma-separated list of groups;
//! quoting as in RFC 4180, as Go's `encoding/csv` reads it. Read once, at start.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use triptych_object::UserInfo;

use super::token::{TokenAuthenticator, TokenVerdict, intersect};

/// A token file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// It cannot be read.
    #[error("cannot read the token file {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A line is malformed.
    #[error("token file '{path}', record {record}: {why}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        record: usize,
        /// What is wrong.
        why: String,
    },
}

/// The tokens of a file.
#[derive(Debug)]
pub struct TokenFile {
    tokens: HashMap<String, Arc<UserInfo>>,
    audiences: Vec<String>,
}

impl TokenFile {
    /// Reads a file; its tokens are good towards `audiences`.
    pub fn load(path: &Path, audiences: Vec<String>) -> Result<TokenFile, TokenFileError> {
        let text = std::fs::read_to_string(path).map_err(|source| TokenFileError::Read {
            path: path.to_owned(),
            source,
        })?;
        TokenFile::parse(&text, audiences).map_err(|(record, why)| TokenFileError::Parse {
            path: path.to_owned(),
            record,
            why,
        })
    }

    fn parse(text: &str, audiences: Vec<String>) -> Result<TokenFile, (usize, String)> {
        let mut tokens = HashMap::new();
        for (index, record) in records(text)?.into_iter().enumerate() {
            let [token, name, uid, rest @ ..] = record.as_slice() else {
                let why = format!(
                    "must have at least 3 columns (token, user name, user uid), found {}",
                    record.len()
                );
                return Err((index + 1, why));
            };
            if token.is_empty() {
                tracing::warn!(record = index + 1, "empty token in the token file");
                continue;
            }
            let groups = rest.first().map(|g| g.split(',').map(str::to_owned).collect());
            let user = UserInfo {
                name: name.clone(),
                uid: uid.clone(),
                groups: groups.unwrap_or_default(),
                ..UserInfo::default()
            };
            if tokens.insert(token.clone(), Arc::new(user)).is_some() {
                tracing::warn!(record = index + 1, "duplicate token in the token file");
            }
        }
        Ok(TokenFile { tokens, audiences })
    }

    fn judge(&self, token: &str, audiences: &[String]) -> TokenVerdict {
        let audiences = intersect(&self.audiences, audiences);
        match self.tokens.get(token) {
            Some(user) if !audiences.is_empty() || self.audiences.is_empty() => TokenVerdict::Known {
                user: user.clone(),
                audiences,
            },
            _ => TokenVerdict::Unknown,
        }
    }
}

impl TokenAuthenticator for TokenFile {
    fn authenticate_token<'a>(&'a self, token: &'a str, audiences: &'a [String]) -> BoxFuture<'a, TokenVerdict> {
        std::future::ready(self.judge(token, audiences)).boxed()
    }
}

/// Splits RFC 4180 text into records; blank lines are skipped. An error names its record.
fn records(text: &str) -> Result<Vec<Vec<String>>, (usize, String)> {
    let mut records = Vec::new();
    let mut record = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if record.is_empty()
            && let Some(after) = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n'))
        {
            rest = after;
            continue;
        }
        let (field, after) = field(rest).map_err(|why| (records.len() + 1, why.to_owned()))?;
        record.push(field);
        match after.strip_prefix(',') {
            // A comma at the very end starts one more, empty field.
            Some("") => {
                record.push(String::new());
                rest = "";
            }
            Some(after) => {
                rest = after;
                continue;
            }
            None => {
                rest = after
                    .strip_prefix("\r\n")
                    .or_else(|| after.strip_prefix('\n'))
                    .unwrap_or(after)
            }
        }
        records.push(std::mem::take(&mut record));
    }
    Ok(records)
}

/// One field and what comes after it: a comma, a line end or nothing.
fn field(text: &str) -> Result<(String, &str), &'static str> {
    let Some(mut quoted) = text.strip_prefix('"') else {
        let end = text.find([',', '\n']).unwrap_or(text.len());
        let end = if text[..end].ends_with('\r') && text[end..].starts_with('\n') {
            end - 1
        } else {
            end
        };
        if text[..end].contains('"') {
            return Err("bare \" in non-quoted field");
        }
        return Ok((text[..end].to_owned(), &text[end..]));
    };
    let mut field = String::new();
    loop {
        let (before, after) = quoted
            .split_once('"')
            .ok_or("extraneous or missing \" in quoted-field")?;
        field.push_str(before);
        match after.strip_prefix('"') {
            Some(after) => {
                field.push('"');
                quoted = after;
            }
            None if after.is_empty() || after.starts_with([',', '\n']) || after.starts_with("\r\n") => {
                return Ok((field, after));
            }
            None => return Err("extraneous or missing \" in quoted-field"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_read_with_their_groups() {
        let text = "t1,ann,1\r\n\nt2,bob,2,\"a,b\"\nt3,\"c \"\"x\"\"\",3,\n,nobody,0\n";
        let file = TokenFile::parse(text, vec!["api".to_owned()]).unwrap();
        assert_eq!(file.tokens.len(), 3);
        assert_eq!(file.tokens["t1"].groups, Vec::<String>::new());
        assert_eq!(file.tokens["t2"].groups, ["a", "b"]);
        assert_eq!(file.tokens["t3"].name, "c \"x\"");
        assert_eq!(file.tokens["t3"].groups, [""]);
    }

    #[test]
    fn malformed_records_are_named() {
        for (text, record) in [("a,b", 1), ("a,b,c\nx,\"y,z", 2), ("a,b\"c,d", 1), ("a,\"b\"c,d", 1)] {
            assert_eq!(TokenFile::parse(text, Vec::new()).unwrap_err().0, record, "{text}");
        }
    }

    #[test]
    fn a_token_is_good_towards_the_servers_audiences_only() {
        let file = TokenFile::parse("t,ann,1", vec!["api".to_owned()]).unwrap();
        let judge = |token: &str, audience: &str| file.judge(token, &[audience.to_owned()]);
        assert!(matches!(judge("t", "api"), TokenVerdict::Known { .. }));
        assert_eq!(judge("t", "other"), TokenVerdict::Unknown);
        assert_eq!(judge("u", "api"), TokenVerdict::Unknown);
    }
}
