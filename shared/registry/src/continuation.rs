//! The `continue` token of a paged list: where the page ended and at which revision, as kube-apiserver encodes it.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use triptych_object::{Status, StatusResult, Value, json};

/// Where a list goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// First key that may be listed, relative to the list's scope.
    pub start: String,
    /// Revision of the first page; -1 means the newest.
    pub revision: i64,
}

impl Continuation {
    /// Reads a token.
    pub fn decode(token: &str) -> StatusResult<Continuation> {
        let refuse = |why: String| Status::bad_request(format!("invalid continue token: {why}"));
        let malformed = |why: &dyn std::fmt::Display| refuse(format!("continue key is not valid: {why}"));
        let data = URL_SAFE_NO_PAD.decode(token.replace(['\r', '\n'], "")).map_err(|e| {
            let at = match e {
                base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => at,
                _ => token.len(),
            };
            malformed(&format!("illegal base64 data at input byte {at}"))
        })?;
        let value = json::from_slice(&data).map_err(|e| malformed(&e))?;
        if value.as_object().is_none() && !value.is_null() {
            let kind = value.type_name();
            return Err(malformed(&format!(
                "json: cannot unmarshal {kind} into Go value of type storage.continueToken"
            )));
        }
        for (member, want) in [("v", "string"), ("rv", "int64"), ("start", "string")] {
            let Some(found) = value.get(member) else { continue };
            let fits = match want {
                "string" => found.as_str().is_some(),
                _ => matches!(found, Value::Int(_)),
            };
            if !fits && !found.is_null() {
                let kind = found.type_name();
                return Err(malformed(&format!(
                    "json: cannot unmarshal {kind} into Go struct field continueToken.{member} of type {want}"
                )));
            }
        }
        let version = value.str_at(&["v"]);
        if version != "meta.k8s.io/v1" {
            return Err(malformed(&format!(
                "server does not recognize this encoded version {version}"
            )));
        }
        let revision = value.get("rv").and_then(Value::as_i64).unwrap_or(0);
        if revision == 0 {
            return Err(malformed(
                &"incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ));
        }
        let start = value.str_at(&["start"]);
        if start.is_empty() {
            return Err(malformed(&"encoded start key empty (version meta.k8s.io/v1)"));
        }
        let key = start.strip_prefix('/').unwrap_or(start);
        // a key that climbs out of its scope, or one that a path cleaner would change, was not made by a server
        if key.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(malformed(&start));
        }
        Ok(Continuation {
            start: key.to_owned(),
            revision,
        })
    }

    /// The token for going on after `last`, a key relative to the list's scope.
    pub fn after(last: &str, revision: i64) -> String {
        Continuation::at(&format!("{last}\0"), revision)
    }

    /// The token for going on at `start`.
    pub fn at(start: &str, revision: i64) -> String {
        let token = Value::from([
            ("v", "meta.k8s.io/v1".into()),
            ("rv", Value::Int(revision)),
            ("start", start.into()),
        ]);
        URL_SAFE_NO_PAD.encode(json::to_vec(&token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_on_right_after_the_last_key() {
        let c = Continuation::decode(&Continuation::after("ns/a", 7)).unwrap();
        assert_eq!(
            c,
            Continuation {
                start: "ns/a\0".into(),
                revision: 7
            }
        );
    }

    #[test]
    fn forged_tokens_are_refused() {
        for start in ["../x\0", "a//b", "a/./b"] {
            let token = Continuation::at(start, 5);
            assert_eq!(Continuation::decode(&token).unwrap_err().code, 400, "{start:?}");
        }
        let e = Continuation::decode("e30").unwrap_err();
        assert!(
            e.message.ends_with("server does not recognize this encoded version "),
            "{e}"
        );
    }
}
