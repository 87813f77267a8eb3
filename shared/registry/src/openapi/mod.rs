//! The OpenAPI documents of a tier: which there are, under which hash, and how each is made when somebody reads it.
//!
//! Contract: a [`Document`] holds what it is made *of*, not its text. Its hash is that of its ingredients (schema table,
//! code, enabled resources; a CRD's uid and generation), so that the index of thousands of documents is written without
//! making one of them, and an ETag changes only when a document may have changed. Text is made on read; whoever serves
//! it keeps it for seconds, not forever.

mod built_in;
mod custom;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use triptych_object::json;
use triptych_schema::openapi::Describe;
use triptych_schema::openapi::v2::Swagger;

pub use built_in::BuiltIn;
pub use custom::{Crd, Custom};

use crate::discovery::snapshot::hex;

/// What a document is made of.
pub trait Source: Send + Sync {
    /// The v3 document, JSON, with these descriptions of types.
    fn v3(&self, texts: &dyn Describe) -> Vec<u8>;
    /// Adds what the document says to the one v2 document.
    fn add_to(&self, whole: &mut Swagger, texts: &dyn Describe);
}

/// The descriptions that lie compressed in the program; unpacked for the making of a document and dropped after.
pub fn texts() -> Box<dyn Describe> {
    match triptych_descriptions::load() {
        Ok(descriptions) => Box::new(Packed(descriptions)),
        Err(e) => {
            tracing::error!(error = %e, "OpenAPI documents have no descriptions");
            Box::new(())
        }
    }
}

struct Packed(triptych_descriptions::Descriptions);

impl Describe for Packed {
    fn of_type(&self, type_name: &str) -> Option<&str> {
        Some(self.0.of_type(type_name)).filter(|text| !text.is_empty())
    }

    fn field(&self, type_name: &str, field: &str) -> Option<&str> {
        Some(self.0.field(type_name, field)).filter(|text| !text.is_empty())
    }
}

/// One document of `/openapi/v3`.
#[derive(Clone)]
pub struct Document {
    /// Below `/openapi/v3/`, such as `apis/apps/v1`.
    pub path: Arc<str>,
    /// SHA-512 of its ingredients, upper-case hexadecimal.
    pub hash: Arc<str>,
    /// How it is made.
    pub source: Arc<dyn Source>,
}

impl Document {
    /// A document whose hash is that of `ingredients`.
    pub fn new(path: &str, ingredients: &[u8], source: impl Source + 'static) -> Document {
        let mut hashed = path.as_bytes().to_vec();
        hashed.push(0);
        hashed.extend_from_slice(ingredients);
        Document {
            path: path.into(),
            hash: hex(&hashed).into(),
            source: Arc::new(source),
        }
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Document({}, {:.8})", self.path, self.hash)
    }
}

/// Where a document with this hash is to be had, as the index says it.
pub fn relative_url(path: &str, hash: &str) -> String {
    format!("/openapi/v3/{path}?hash={hash}")
}

/// `/openapi/v3`: where each document is to be had.
pub fn index(urls: &BTreeMap<Arc<str>, String>) -> Vec<u8> {
    let mut out = Vec::with_capacity(urls.len() * 220 + 16);
    out.extend_from_slice(br#"{"paths":{"#);
    for (i, (path, url)) in urls.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        json::write_string(&mut out, path);
        out.extend_from_slice(br#":{"serverRelativeURL":"#);
        json::write_string(&mut out, url);
        out.push(b'}');
    }
    out.extend_from_slice(b"}}");
    out
}

/// Reads an index back.
pub fn read_index(text: &[u8]) -> Option<BTreeMap<Arc<str>, String>> {
    let document = json::from_slice(text).ok()?;
    let paths = document.get("paths")?.as_object()?;
    Some(
        paths
            .iter()
            .map(|(path, entry)| (path.into(), entry.str_at(&["serverRelativeURL"]).to_owned()))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_read_back_as_written() {
        let urls: BTreeMap<Arc<str>, String> = [("api/v1", "AB"), ("apis/apps", "CD")]
            .into_iter()
            .map(|(path, hash)| (path.into(), relative_url(path, hash)))
            .collect();
        let text = index(&urls);
        assert_eq!(
            String::from_utf8(text.clone()).unwrap(),
            r#"{"paths":{"api/v1":{"serverRelativeURL":"/openapi/v3/api/v1?hash=AB"},"apis/apps":{"serverRelativeURL":"/openapi/v3/apis/apps?hash=CD"}}}"#
        );
        assert_eq!(read_index(&text).unwrap(), urls);
    }
}
