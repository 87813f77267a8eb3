//! Lists and maps that a document names and leaves empty.
//!
//! Contract: Go keeps an empty list apart from none until it is encoded. Our normal form does not, so what it drops is
//! noted here for the two things that still tell them apart: the bad value in an error's text (`[]`, not `null`), and
//! which fields a write owns. Keeping the empty values in the tree instead would make every comparison of two trees
//! decide whether nothing equals empty.

use crate::value::Value;

/// Where empty lists, maps and bytes stood.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Empties {
    places: Vec<(String, Value)>,
    always_written: bool,
}

impl Empties {
    /// No more than this are noted.
    const LIMIT: usize = 1000;

    /// Notes an empty value at a path like `spec.containers[0].args`; `always_written` if it stays in the document.
    pub fn note(&mut self, path: &str, value: Value, always_written: bool) {
        self.always_written |= always_written;
        if self.places.len() < Self::LIMIT {
            self.places.push((path.to_owned(), value));
        }
    }

    /// What stood at a path, if it was empty.
    pub fn at(&self, path: &str) -> Option<&Value> {
        self.places
            .iter()
            .find(|(place, _)| place == path)
            .map(|(_, value)| value)
    }

    /// True if some are of fields that are written even when empty.
    pub fn always_written(&self) -> bool {
        self.always_written
    }
}
