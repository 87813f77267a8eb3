//! The only cached form of an object: one immutable JSON text plus a small header.
//!
//! The text is the decoded form of the stored value with `"resourceVersion":"N"` spliced in as the first member of
//! `metadata` and with `kind` and `apiVersion` in front, so that GET writes it as it is, LIST items of built-in kinds are
//! the text from `after_kind` on, and PartialObjectMetadata is a slice. Labels and selectable fields are byte ranges
//! into the text, read when a selector asks: nothing is kept twice.

use std::borrow::Cow;
use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;

use super::layout::Layout;
use super::scan::{Members, ScanError, Span, scalar, unescape};
use crate::store::{Entry, Revision};

/// A field that selectors may name, and where its value is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPath {
    /// The name in a field selector, such as `spec.nodeName`.
    pub name: Box<str>,
    /// Member names from the object's top; the first path that holds a non-empty scalar wins.
    pub paths: Vec<Vec<Box<str>>>,
}

impl FieldPath {
    /// A field that is named as the path it lies at (`spec.nodeName`).
    pub fn dotted(path: &str) -> Self {
        Self::at(path, &[path])
    }

    /// A field that lies at the first of `paths` (dotted) that holds a value.
    pub fn at(name: &str, paths: &[&str]) -> Self {
        let paths = paths
            .iter()
            .map(|path| path.split('.').map(Box::from).collect())
            .collect();
        Self {
            name: name.into(),
            paths,
        }
    }
}

/// What the registry knows about a resource's stored values.
pub trait Decoder: Send + Sync {
    /// The JSON of a stored value in the form reads are answered with (decoded, converted, defaulted, pruned). A value
    /// that needs nothing is returned as it came. The error is what a GET of the object will say.
    fn decode(&self, key: &str, value: &Bytes) -> Result<Bytes, String>;
    /// The fields that selectors and indexes may use; `Object::field` counts in this order. At most 60 paths in all.
    fn selectable_fields(&self) -> &[FieldPath];
}

/// Takes stored JSON as it is and refuses anything else.
#[derive(Debug, Default, Clone)]
pub struct JsonDecoder {
    /// The fields that selectors may use.
    pub fields: Vec<FieldPath>,
}

impl Decoder for JsonDecoder {
    fn decode(&self, _key: &str, value: &Bytes) -> Result<Bytes, String> {
        if value.starts_with(b"k8s\0") {
            Err("the stored value is not JSON".into())
        } else {
            Ok(value.clone())
        }
    }

    fn selectable_fields(&self) -> &[FieldPath] {
        &self.fields
    }
}

/// One object as the cache holds it. Immutable; shared as `Arc<Object>`.
#[derive(Debug, Clone)]
pub struct Object {
    key: Arc<str>,
    revision: Revision,
    bytes: Bytes,
    metadata: Span,
    labels: Span,
    after_kind: u32,
    fields: Box<[Span]>,
    broken: Option<Box<str>>,
}

const REVISION_OPEN: &[u8] = b"\"resourceVersion\":\"";

impl Object {
    /// Makes the cached form of a stored entry. Never fails: what cannot be decoded becomes a broken object.
    pub fn ingest(entry: &Entry, decoder: &dyn Decoder) -> Self {
        let built = decoder.decode(&entry.key, &entry.value).and_then(|json| {
            Self::from_json(entry.key.clone(), entry.revision, &json, decoder.selectable_fields())
                .map_err(|problem| problem.to_string())
        });
        built.unwrap_or_else(|problem| Self::without_text(entry.key.clone(), entry.revision, problem.into()))
    }

    pub(crate) fn without_text(key: Arc<str>, revision: Revision, problem: Box<str>) -> Self {
        Self {
            key,
            revision,
            bytes: Bytes::new(),
            metadata: Span::default(),
            labels: Span::default(),
            after_kind: 0,
            fields: Box::default(),
            broken: Some(problem),
        }
    }

    /// Makes the cached form of JSON text that is already in the form reads are answered with.
    pub fn from_json(
        key: Arc<str>,
        revision: Revision,
        json: &[u8],
        fields: &[FieldPath],
    ) -> Result<Self, InvalidObject> {
        let json = json.trim_ascii_end();
        if json.len() > u32::MAX as usize / 2 {
            return Err(InvalidObject::TooLarge);
        }
        let layout = Layout::scan(json, fields)?;
        if layout.is_canonical() {
            return Self::splice(key, revision, json, layout);
        }
        // Rare: a foreign writer's member order, or a resourceVersion that should not have been stored.
        let json = layout.rewritten(json)?;
        let layout = Layout::scan(&json, fields)?;
        Self::splice(key, revision, &json, layout)
    }

    fn splice(key: Arc<str>, revision: Revision, json: &[u8], layout: Layout) -> Result<Self, InvalidObject> {
        let metadata = layout.metadata.ok_or(InvalidObject::NoMetadata)?;
        let at = metadata.start as usize;
        let mut out = Vec::with_capacity(json.len() + REVISION_OPEN.len() + 22);
        out.extend_from_slice(&json[..=at]);
        write_revision(&mut out, revision);
        if layout.metadata_has_members {
            out.push(b',');
        }
        out.extend_from_slice(&json[at + 1..]);
        // Exact allocations only: what is cached is cached a million times.
        out.shrink_to_fit();
        let by = (out.len() - json.len()) as i64;
        Ok(Self {
            key,
            revision,
            bytes: out.into(),
            metadata: metadata.shifted(at, by),
            labels: layout.labels.shifted(at, by),
            after_kind: layout.after_kind as u32,
            fields: layout.fields.into_iter().map(|span| span.shifted(at, by)).collect(),
            broken: None,
        })
    }

    /// The same object under another revision: what a DELETED event shows.
    pub fn with_revision(&self, revision: Revision) -> Self {
        if self.broken.is_some() {
            return Self {
                revision,
                ..self.clone()
            };
        }
        let at = self.metadata.start as usize;
        let old_end = self.revision_end();
        let mut out = Vec::with_capacity(self.bytes.len() + 20);
        out.extend_from_slice(&self.bytes[..=at]);
        write_revision(&mut out, revision);
        out.extend_from_slice(&self.bytes[old_end..]);
        let by = out.len() as i64 - self.bytes.len() as i64;
        Self {
            key: self.key.clone(),
            revision,
            bytes: out.into(),
            metadata: self.metadata.shifted(at, by),
            labels: self.labels.shifted(at, by),
            after_kind: self.after_kind,
            fields: self.fields.iter().map(|span| span.shifted(at, by)).collect(),
            broken: None,
        }
    }

    /// The key in the store, relative to it: `/pods/default/web-0`.
    pub fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// The resourceVersion.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The whole object as JSON, resourceVersion included. Empty for a broken one.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Why the stored value cannot be shown, if so.
    pub fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// The text after `{"kind":…,"apiVersion":…,`: with a `{` in front it is the object without them.
    pub fn after_kind(&self) -> Bytes {
        self.bytes.slice(self.after_kind as usize..)
    }

    /// Offset of `after_kind` in `bytes`.
    pub fn after_kind_offset(&self) -> usize {
        self.after_kind as usize
    }

    /// `metadata` as JSON, braces included.
    pub fn metadata(&self) -> Bytes {
        self.bytes
            .slice(self.metadata.start as usize..self.metadata.end as usize)
    }

    /// The last segment of the key.
    pub fn name(&self) -> &str {
        self.key.rsplit('/').next().unwrap_or(&self.key)
    }

    /// `metadata.namespace`; empty for cluster-scoped objects.
    pub fn namespace(&self) -> Cow<'_, str> {
        self.metadata_field("namespace").unwrap_or_default()
    }

    /// A scalar member of `metadata`, such as `uid` or `deletionTimestamp`.
    pub fn metadata_field(&self, name: &str) -> Option<Cow<'_, str>> {
        let mut members = Members::new(&self.bytes, self.metadata.start as usize).ok()?;
        while let Ok(Some(member)) = members.next() {
            if member.name.of(&self.bytes) == name.as_bytes() {
                return Some(unescape(scalar(&self.bytes, member.value)?.of(&self.bytes)));
            }
        }
        None
    }

    /// The labels, in the order they are written in.
    pub fn labels(&self) -> Labels<'_> {
        let members = if self.labels.is_empty() {
            None
        } else {
            Members::new(self.labels.of(&self.bytes), 0).ok()
        };
        Labels {
            text: self.labels.of(&self.bytes),
            members,
        }
    }

    /// One label's value.
    pub fn label(&self, key: &str) -> Option<Cow<'_, str>> {
        self.labels().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The value of the declared selectable field number `index`; `None` when the object has none there.
    pub fn field(&self, index: usize) -> Option<Cow<'_, str>> {
        let span = self.fields.get(index)?;
        if span.is_empty() {
            None
        } else {
            Some(unescape(span.of(&self.bytes)))
        }
    }

    /// Whether `json`, an encoding without resourceVersion, says byte for byte what this object says.
    pub fn is_same_as(&self, json: &[u8]) -> bool {
        if self.broken.is_some() {
            return false;
        }
        let at = self.metadata.start as usize + 1;
        let mut rest = self.revision_end();
        if self.bytes.get(rest) == Some(&b',') {
            rest += 1;
        }
        json.len() == at + self.bytes.len() - rest && json[..at] == self.bytes[..at] && json[at..] == self.bytes[rest..]
    }

    /// Bytes of memory this object takes, roughly.
    pub fn size(&self) -> usize {
        self.bytes.len() + self.key.len() + self.fields.len() * size_of::<Span>() + size_of::<Self>() + 64
    }

    /// The position after the spliced resourceVersion's closing quote.
    fn revision_end(&self) -> usize {
        let digits = self.revision.checked_ilog10().unwrap_or(0) as usize + 1;
        self.metadata.start as usize + 1 + REVISION_OPEN.len() + digits + 1
    }
}

fn write_revision(out: &mut Vec<u8>, revision: Revision) {
    out.extend_from_slice(REVISION_OPEN);
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{revision}");
    out.push(b'"');
}

/// Why JSON text is not an object of the API.
#[derive(Debug, thiserror::Error)]
pub enum InvalidObject {
    /// It is not a JSON object.
    #[error("{0}")]
    Syntax(String),
    /// It has no `metadata`.
    #[error("the object has no metadata")]
    NoMetadata,
    /// It is larger than a span can address.
    #[error("the object is too large")]
    TooLarge,
}

impl From<ScanError> for InvalidObject {
    fn from(error: ScanError) -> Self {
        Self::Syntax(error.to_string())
    }
}

/// Iterates over labels.
pub struct Labels<'a> {
    text: &'a [u8],
    members: Option<Members<'a>>,
}

impl<'a> Iterator for Labels<'a> {
    type Item = (Cow<'a, str>, Cow<'a, str>);

    fn next(&mut self) -> Option<Self::Item> {
        let member = self.members.as_mut()?.next().ok()??;
        let value = scalar(self.text, member.value).unwrap_or_default();
        Some((unescape(member.name.of(self.text)), unescape(value.of(self.text))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(json: &str, revision: Revision) -> Object {
        let fields = [
            FieldPath::dotted("spec.nodeName"),
            FieldPath::at("source", &["source.component", "reporter"]),
        ];
        Object::from_json("/pods/default/a".into(), revision, json.as_bytes(), &fields).unwrap()
    }

    fn text(object: &Object) -> &str {
        std::str::from_utf8(object.bytes()).unwrap()
    }

    const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"default","labels":{"x":"1","y":"\"2"},"uid":"u"},"spec":{"nodeName":"n1"},"status":{}}"#;

    #[test]
    fn the_resource_version_is_the_first_member_of_metadata() {
        let pod = object(POD, 42);
        assert_eq!(
            text(&pod),
            POD.replace(r#""metadata":{"#, r#""metadata":{"resourceVersion":"42","#)
        );
        assert_eq!(
            text(&object(r#"{"metadata":{}}"#, 7)),
            r#"{"metadata":{"resourceVersion":"7"}}"#
        );
    }

    #[test]
    fn slices_labels_and_fields_are_found() {
        let pod = object(POD, 42);
        assert!(pod.after_kind().starts_with(br#""metadata":{"#));
        assert!(pod.metadata().starts_with(br#"{"resourceVersion":"42","name""#) && pod.metadata().ends_with(b"}"));
        assert_eq!(
            pod.labels().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>(),
            ["x=1", "y=\"2"]
        );
        assert_eq!(pod.label("y").unwrap(), "\"2");
        assert_eq!(pod.label("z"), None);
        assert_eq!(pod.field(0).unwrap(), "n1");
        assert_eq!(pod.field(1), None);
        assert_eq!(
            (pod.name(), &*pod.namespace(), &*pod.metadata_field("uid").unwrap()),
            ("a", "default", "u")
        );
    }

    #[test]
    fn the_first_path_that_holds_a_value_wins() {
        let event = object(r#"{"metadata":{},"reporter":"r","source":{"component":"c"}}"#, 1);
        assert_eq!(event.field(1).unwrap(), "c");
        let event = object(r#"{"metadata":{},"reporter":"r","source":{"component":""}}"#, 1);
        assert_eq!(event.field(1).unwrap(), "r");
    }

    #[test]
    fn another_revision_changes_nothing_else() {
        let pod = object(POD, 9);
        for revision in [3, 10, 1234567] {
            let other = pod.with_revision(revision);
            let fresh = object(POD, revision);
            assert_eq!(text(&other), text(&fresh));
            assert_eq!(other.field(0), fresh.field(0));
            assert_eq!(other.labels().count(), 2);
            assert_eq!(other.metadata(), fresh.metadata());
        }
        let empty = object(r#"{"metadata":{},"a":1}"#, 9).with_revision(10);
        assert_eq!(text(&empty), r#"{"metadata":{"resourceVersion":"10"},"a":1}"#);
    }

    #[test]
    fn a_foreign_member_order_and_a_stored_resource_version_are_put_right() {
        let odd = r#"{ "apiVersion":"v1", "metadata":{"resourceVersion":"3","name":"a"}, "kind":"Pod", "spec":{} }"#;
        let pod = object(odd, 5);
        assert_eq!(
            text(&pod),
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"5","name":"a"},"spec":{}}"#
        );
        assert!(pod.after_kind().starts_with(b"\"metadata\""));
        let other_way = object(r#"{"apiVersion":"v1","kind":"Pod","metadata":{}}"#, 5);
        assert!(other_way.after_kind().starts_with(b"\"metadata\""));
    }

    #[test]
    fn equal_content_is_recognised_without_its_revision() {
        let pod = object(POD, 42);
        assert!(pod.is_same_as(POD.as_bytes()));
        assert!(!pod.is_same_as(POD.replace("n1", "n2").as_bytes()));
        assert!(!pod.is_same_as(b"{}"));
        assert!(object(r#"{"metadata":{}}"#, 7).is_same_as(br#"{"metadata":{}}"#));
    }

    #[test]
    fn what_cannot_be_decoded_becomes_a_broken_object() {
        let decoder = JsonDecoder::default();
        for value in ["k8s\0x", "{\"kind\":\"Pod\"", "{}", "null", "{\"metadata\":3}"] {
            let entry = Entry {
                key: "/pods/a".into(),
                revision: 3,
                value: Bytes::from_static(value.as_bytes()),
            };
            let object = Object::ingest(&entry, &decoder);
            assert!(object.broken().is_some(), "{value}");
            assert_eq!(object.with_revision(4).revision(), 4);
        }
    }

    #[test]
    fn damaged_text_is_an_error_and_never_a_panic() {
        let fields = [
            FieldPath::dotted("spec.nodeName"),
            FieldPath::dotted("metadata.labels.x"),
        ];
        let odd = POD.replace(r#""uid":"u""#, r#""resourceVersion":"3""#);
        for text in [POD, &odd] {
            for at in 0..text.len() {
                assert!(Object::from_json("/a".into(), 1, &text.as_bytes()[..at], &fields).is_err());
                for byte in b"\"\\{}[],: x\0\xff" {
                    let mut damaged = text.as_bytes().to_vec();
                    damaged[at] = *byte;
                    if let Ok(object) = Object::from_json("/a".into(), 1, &damaged, &fields) {
                        let other = object.with_revision(1000);
                        let _ = (
                            other.labels().count(),
                            other.field(0),
                            other.metadata_field("uid"),
                            other.after_kind(),
                        );
                        assert!(other.metadata().starts_with(br#"{"resourceVersion":"1000""#));
                    }
                }
            }
        }
    }
}
