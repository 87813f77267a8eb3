//! Descriptions of the built-in types and their fields, as `kubectl explain` and the OpenAPI documents show them.
//!
//! They come at build time from the `k8s-openapi` crate (see `build.rs`) and lie compressed in the program. [`load`]
//! unpacks all of them, a megabyte or two, so that a document can be built; drop them right after.

use std::io::Read;
use std::ops::Range;

use flate2::read::DeflateDecoder;

static BLOB: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptions.bin"));

/// Descriptions by type and field name; a lookup is a binary search.
#[derive(Debug)]
pub struct Descriptions {
    text: String,
    types: Vec<Entry>,
    fields: Vec<[Range<u32>; 2]>,
}

#[derive(Debug)]
struct Entry {
    name: Range<u32>,
    description: Range<u32>,
    /// Its fields, in `Descriptions::fields`.
    fields: Range<u32>,
}

/// The blob in the program is not what the build script wrote.
#[derive(Debug, thiserror::Error)]
pub enum DescriptionsError {
    /// It does not unpack to text.
    #[error("descriptions cannot be unpacked")]
    Unpack(#[from] std::io::Error),
    /// It ends in the middle of something.
    #[error("descriptions are damaged at byte {0}")]
    Damaged(usize),
}

/// Unpacks the descriptions.
pub fn load() -> Result<Descriptions, DescriptionsError> {
    Descriptions::unpack(BLOB)
}

impl Descriptions {
    fn unpack(blob: &[u8]) -> Result<Self, DescriptionsError> {
        let mut packed = Vec::new();
        DeflateDecoder::new(blob).read_to_end(&mut packed)?;
        let mut reader = Reader {
            bytes: &packed,
            at: 0,
            text: String::with_capacity(packed.len()),
        };
        let (mut types, mut fields) = (Vec::new(), Vec::new());
        while reader.at < packed.len() {
            let (name, description) = (reader.string()?, reader.string()?);
            let start = fields.len() as u32;
            for _ in 0..reader.number()? {
                fields.push([reader.string()?, reader.string()?]);
            }
            types.push(Entry {
                name,
                description,
                fields: start..fields.len() as u32,
            });
        }
        let mut text = reader.text;
        text.shrink_to_fit();
        Ok(Self { text, types, fields })
    }

    fn text(&self, range: &Range<u32>) -> &str {
        &self.text[range.start as usize..range.end as usize]
    }

    fn entry(&self, type_name: &str) -> Option<&Entry> {
        let at = self
            .types
            .binary_search_by(|entry| self.text(&entry.name).cmp(type_name))
            .ok()?;
        self.types.get(at)
    }

    /// What the type with this OpenAPI name is; empty when nothing is said of it.
    pub fn of_type(&self, type_name: &str) -> &str {
        self.entry(type_name).map_or("", |entry| self.text(&entry.description))
    }

    /// What a field of that type (JSON name) is for; empty when nothing is said of it. Fields of embedded structs
    /// are described where they are embedded, too.
    pub fn field(&self, type_name: &str, field_name: &str) -> &str {
        let Some(entry) = self.entry(type_name) else {
            return self.of_list(type_name, field_name);
        };
        let fields = &self.fields[entry.fields.start as usize..entry.fields.end as usize];
        match fields.binary_search_by(|[name, _]| self.text(name).cmp(field_name)) {
            Ok(at) => self.text(&fields[at][1]),
            Err(_) => "",
        }
    }

    /// `k8s-openapi` has one generic list type and says nothing of `PodList` and its like: what all kinds share is known
    /// all the same.
    fn of_list(&self, type_name: &str, field_name: &str) -> &str {
        match (type_name.strip_suffix("List"), field_name) {
            (Some(item), "apiVersion" | "kind") if self.entry(item).is_some() => self.field(item, field_name),
            (Some(item), "metadata") if self.entry(item).is_some() => "Standard list metadata.",
            (Some(item), "items") if self.entry(item).is_some() => "List of objects.",
            _ => "",
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    text: String,
}

impl Reader<'_> {
    fn take(&mut self, length: usize) -> Result<&[u8], DescriptionsError> {
        let damaged = DescriptionsError::Damaged(self.at);
        let end = self.at.checked_add(length);
        let taken = end.and_then(|end| self.bytes.get(self.at..end)).ok_or(damaged)?;
        self.at += length;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32, DescriptionsError> {
        let at = self.at;
        let bytes = self.take(4)?.try_into().map_err(|_| DescriptionsError::Damaged(at))?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn string(&mut self) -> Result<Range<u32>, DescriptionsError> {
        let length = self.number()? as usize;
        let at = self.at;
        let bytes = self.take(length)?;
        let text = str::from_utf8(bytes)
            .map_err(|_| DescriptionsError::Damaged(at))?
            .to_owned();
        let start = self.text.len() as u32;
        self.text.push_str(&text);
        Ok(start..self.text.len() as u32)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
