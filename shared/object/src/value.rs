//! The document tree: what JSON, YAML and protobuf decode to and what every engine above works on.
//!
//! Contract: an [`Object`] keeps document order and finds a key in constant time however many keys it has, so that no
//! input makes a merge quadratic. Numbers follow Go's `json` decoding into `interface{}` as Kubernetes configures it:
//! an integer that fits is `Int`, everything else is `Float`. A tree is built while writing only; reads serve bytes.
//!
//! `serde_json::Value` was rejected: it sorts or hashes keys, hides number identity behind a feature, and its index
//! operator panics.

use std::collections::HashMap;
use std::fmt;

/// A JSON-like value.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number written without fraction or exponent that fits 64 bits.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// Text.
    String(String),
    /// A list.
    Array(Vec<Value>),
    /// A map in document order.
    Object(Object),
}

impl Value {
    /// An empty object.
    pub fn object() -> Value {
        Value::Object(Object::new())
    }

    /// The JSON name of this value's type as Go's decoder says it: `object`, `array`, `string`, `number`, `bool`, `null`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Int(_) | Value::Float(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        }
    }

    /// True for `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The text, if this is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(s) => Some(s),
            _ => None,
        }
    }

    /// The boolean, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// The integer, if this is one (or a float without fraction that fits).
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Int(i) => Some(*i),
            Value::Float(f) if f.fract() == 0.0 && f.abs() < 9.0e15 => Some(*f as i64),
            _ => None,
        }
    }

    /// The number as a float, if this is a number.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Int(i) => Some(*i as f64),
            Value::Float(f) => Some(*f),
            _ => None,
        }
    }

    /// The list, if this is one.
    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Value::Array(a) => Some(a),
            _ => None,
        }
    }

    /// The list to change, if this is one.
    pub fn as_array_mut(&mut self) -> Option<&mut Vec<Value>> {
        match self {
            Value::Array(a) => Some(a),
            _ => None,
        }
    }

    /// The map, if this is one.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Value::Object(o) => Some(o),
            _ => None,
        }
    }

    /// The map to change, if this is one.
    pub fn as_object_mut(&mut self) -> Option<&mut Object> {
        match self {
            Value::Object(o) => Some(o),
            _ => None,
        }
    }

    /// The member `key` of a map; `None` for other types and absent keys.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.as_object()?.get(key)
    }

    /// The member `key` of a map, to change.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.as_object_mut()?.get_mut(key)
    }

    /// Follows member names downwards: `v.at(&["spec", "nodeName"])`.
    pub fn at(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(self, |v, key| v.get(key))
    }

    /// Follows member names downwards, to change.
    pub fn at_mut(&mut self, path: &[&str]) -> Option<&mut Value> {
        path.iter().try_fold(self, |v, key| v.get_mut(key))
    }

    /// The text at a path, empty if absent or not text (Go's zero value).
    pub fn str_at(&self, path: &[&str]) -> &str {
        self.at(path).and_then(Value::as_str).unwrap_or("")
    }

    /// The list at a path, empty if absent or not a list.
    pub fn array_at(&self, path: &[&str]) -> &[Value] {
        self.at(path).and_then(Value::as_array).unwrap_or(&[])
    }

    /// Sets the member at a path, making maps on the way; a non-map on the way is replaced.
    pub fn set_at(&mut self, path: &[&str], value: Value) {
        let mut here = self;
        for key in path {
            if !matches!(here, Value::Object(_)) {
                *here = Value::object();
            }
            let Value::Object(map) = here else { return };
            here = map.entry(key);
        }
        *here = value;
    }

    /// Removes and returns the member at a path.
    pub fn remove_at(&mut self, path: &[&str]) -> Option<Value> {
        let (last, parents) = path.split_last()?;
        self.at_mut(parents)?.as_object_mut()?.remove(last)
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Value::Bool(b)
    }
}

impl From<i64> for Value {
    fn from(i: i64) -> Self {
        Value::Int(i)
    }
}

impl From<&str> for Value {
    fn from(s: &str) -> Self {
        Value::String(s.to_owned())
    }
}

impl From<String> for Value {
    fn from(s: String) -> Self {
        Value::String(s)
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(v: Vec<T>) -> Self {
        Value::Array(v.into_iter().map(Into::into).collect())
    }
}

impl From<Object> for Value {
    fn from(o: Object) -> Self {
        Value::Object(o)
    }
}

impl<const N: usize> From<[(&str, Value); N]> for Value {
    fn from(members: [(&str, Value); N]) -> Self {
        Value::Object(members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
    }
}

/// Above this many members an object keeps an index from key to position.
const INDEXED_FROM: usize = 16;

/// Up to this many members an object keeps their order when one is removed.
pub const ORDERED_UP_TO: usize = 1024;

/// A map that keeps document order.
#[derive(Clone, Default)]
pub struct Object {
    entries: Vec<(String, Value)>,
    index: Option<HashMap<String, usize>>,
}

impl Object {
    /// An empty map.
    pub fn new() -> Object {
        Object::default()
    }

    /// An empty map with room for `n` members.
    pub fn with_capacity(n: usize) -> Object {
        Object {
            entries: Vec::with_capacity(n),
            index: None,
        }
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn position(&self, key: &str) -> Option<usize> {
        match &self.index {
            Some(index) => index.get(key).copied(),
            None => self.entries.iter().position(|(k, _)| k == key),
        }
    }

    /// The member `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.position(key).map(|i| &self.entries[i].1)
    }

    /// The member `key`, to change.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.position(key).map(|i| &mut self.entries[i].1)
    }

    /// True if `key` is a member.
    pub fn contains_key(&self, key: &str) -> bool {
        self.position(key).is_some()
    }

    /// Sets `key`, keeping its place if it was there; returns what it replaced.
    pub fn insert(&mut self, key: impl Into<String>, value: Value) -> Option<Value> {
        let key = key.into();
        match self.position(&key) {
            Some(i) => Some(std::mem::replace(&mut self.entries[i].1, value)),
            None => {
                self.push(key, value);
                None
            }
        }
    }

    /// Adds a member that is known not to be there yet, without looking.
    pub fn push_new(&mut self, key: String, value: Value) {
        debug_assert!(!self.contains_key(&key));
        self.push(key, value);
    }

    fn push(&mut self, key: String, value: Value) {
        if let Some(index) = &mut self.index {
            index.insert(key.clone(), self.entries.len());
        }
        self.entries.push((key, value));
        if self.index.is_none() && self.entries.len() > INDEXED_FROM {
            self.reindex();
        }
    }

    fn reindex(&mut self) {
        self.index = (self.entries.len() > INDEXED_FROM).then(|| {
            self.entries
                .iter()
                .enumerate()
                .map(|(i, (k, _))| (k.clone(), i))
                .collect()
        });
    }

    /// The member `key`, set to `null` at the end if it was absent.
    pub fn entry(&mut self, key: &str) -> &mut Value {
        let at = match self.position(key) {
            Some(i) => i,
            None => {
                self.push(key.to_owned(), Value::Null);
                self.entries.len() - 1
            }
        };
        &mut self.entries[at].1
    }

    /// Removes `key`, keeping the order of the others; of more than [`ORDERED_UP_TO`] members the last one takes its
    /// place, so that taking apart a large object is not quadratic.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let at = self.position(key)?;
        let Some(index) = &mut self.index else {
            return Some(self.entries.remove(at).1);
        };
        index.remove(key);
        if self.entries.len() > ORDERED_UP_TO {
            let (_, value) = self.entries.swap_remove(at);
            if let Some((moved, _)) = self.entries.get(at) {
                index.insert(moved.clone(), at);
            }
            return Some(value);
        }
        let (_, value) = self.entries.remove(at);
        if self.entries.len() > INDEXED_FROM {
            index.values_mut().filter(|i| **i > at).for_each(|i| *i -= 1);
        } else {
            self.index = None;
        }
        Some(value)
    }

    /// Keeps the members for which `keep` is true.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &mut Value) -> bool) {
        self.entries.retain_mut(|(k, v)| keep(k, v));
        self.reindex();
    }

    /// Members in document order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> + DoubleEndedIterator {
        self.entries.iter().map(|(k, v)| (k.as_str(), v))
    }

    /// Members in document order, values to change.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = (&str, &mut Value)> {
        self.entries.iter_mut().map(|(k, v)| (k.as_str(), v))
    }

    /// Names in document order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.entries.iter().map(|(k, _)| k.as_str())
    }

    /// Values in document order.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &Value> {
        self.entries.iter().map(|(_, v)| v)
    }

    /// Sorts the members by name, as Go writes its maps.
    pub fn sort(&mut self) {
        self.entries.sort_by(|a, b| a.0.cmp(&b.0));
        self.reindex();
    }
}

impl PartialEq for Object {
    /// Order does not matter.
    fn eq(&self, other: &Object) -> bool {
        self.len() == other.len() && self.iter().all(|(k, v)| other.get(k) == Some(v))
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl FromIterator<(String, Value)> for Object {
    /// A later member replaces an earlier one of the same name.
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(members: I) -> Object {
        let mut map = Object::new();
        for (k, v) in members {
            map.insert(k, v);
        }
        map
    }
}

impl IntoIterator for Object {
    type Item = (String, Value);
    type IntoIter = std::vec::IntoIter<(String, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_object_keeps_order_and_finds_its_members() {
        let mut map = Object::new();
        for i in 0..100 {
            map.insert(format!("k{i}"), Value::Int(i));
        }
        map.remove("k50");
        map.insert("k3", Value::Int(-3));
        assert_eq!(map.len(), 99);
        assert_eq!(map.get("k99"), Some(&Value::Int(99)));
        assert_eq!(map.get("k50"), None);
        assert_eq!(map.keys().nth(3), Some("k3"));
        assert_eq!(map.keys().nth(50), Some("k51"));
    }

    #[test]
    fn an_object_of_any_size_can_be_taken_apart() {
        for size in [10, INDEXED_FROM + 3, ORDERED_UP_TO + 3] {
            let mut map: Object = (0..size).map(|i| (format!("k{i}"), Value::Int(i as i64))).collect();
            for i in (0..size).map(|i| (i * 7 + 3) % size) {
                let removed = map.remove(&format!("k{i}"));
                assert!(removed.is_none_or(|v| v == Value::Int(i as i64)));
                assert!(map.iter().all(|(key, value)| map.get(key) == Some(value)));
            }
            assert_eq!(map.len(), map.keys().count());
        }
    }

    #[test]
    fn setting_a_path_makes_the_maps_on_the_way() {
        let mut v = Value::Null;
        v.set_at(&["spec", "nodeName"], "a".into());
        assert_eq!(v.str_at(&["spec", "nodeName"]), "a");
        assert_eq!(v.remove_at(&["spec", "nodeName"]), Some("a".into()));
        assert_eq!(v.at(&["spec"]), Some(&Value::object()));
    }
}
