//! Lists: views of a document's lists, and lists made while evaluating.

use std::sync::Arc;

use triptych_object as object;

use super::{Found, Value, view};
use crate::declared::{Declared, ListKind};

/// A list.
#[derive(Clone, Debug)]
pub struct List<'a> {
    items: Items<'a>,
    /// How its items are told apart, and with it what `==` and `+` mean.
    pub(crate) kind: &'a ListKind,
}

#[derive(Clone, Debug)]
enum Items<'a> {
    View(&'a [object::Value], Option<&'a Declared>),
    Built(Arc<Vec<Value<'a>>>),
}

impl<'a> List<'a> {
    /// A list of values.
    pub fn new(items: Vec<Value<'a>>) -> List<'a> {
        List {
            items: Items::Built(Arc::new(items)),
            kind: &ListKind::Plain,
        }
    }

    /// A document's list whose items have this schema.
    pub(crate) fn view(items: &'a [object::Value], declared: Option<&'a Declared>) -> List<'a> {
        List {
            items: Items::View(items, declared),
            kind: &ListKind::Plain,
        }
    }

    /// The same items told apart in another way.
    pub(crate) fn with_kind(self, kind: &'a ListKind) -> List<'a> {
        List { kind, ..self }
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        match &self.items {
            Items::View(items, _) => items.len(),
            Items::Built(items) => items.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An item; an error if it is not of its schema's type.
    pub fn get(&self, index: usize) -> Option<Found<'a>> {
        match &self.items {
            Items::View(items, declared) => Some(view(items.get(index)?, *declared)),
            Items::Built(items) => items.get(index).cloned().map(Ok),
        }
    }

    /// All items.
    pub fn iter(&self) -> impl Iterator<Item = Found<'a>> + '_ {
        (0..self.len()).filter_map(|i| self.get(i))
    }

    /// This list's items, to add to; no copy is made if nobody else has it.
    pub(crate) fn into_items(self) -> Result<Vec<Value<'a>>, crate::EvalError> {
        match self.items {
            Items::Built(items) => Ok(Arc::unwrap_or_clone(items)),
            Items::View(..) => self.iter().collect(),
        }
    }
}
