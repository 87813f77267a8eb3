//! Maps: views of a document's objects, and maps made while evaluating.
//!
//! Contract: of an object whose schema names its members only those can be seen, under their escaped names; a `null` member of such an object
//! is absent. Numbers of any type that are equal are one key.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use triptych_object as object;

use super::{Found, Text, Value};
use crate::declared::{Declared, Members};
use crate::error::EvalError;

/// A map.
#[derive(Clone, Debug)]
pub enum Map<'a> {
    /// A document's object.
    View(&'a object::Object, Option<&'a Declared>),
    /// Made while evaluating.
    Built(Arc<Built<'a>>),
}

/// A key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// true or false
    Bool(bool),
    /// An integer, unsigned ones that fit too.
    Int(i64),
    /// An unsigned integer beyond those.
    Uint(u64),
    /// A text.
    String(Arc<str>),
}

impl Key {
    /// The key that a value is; `None` for what cannot be one.
    pub fn of(value: &Value<'_>) -> Option<Key> {
        Some(match value {
            Value::Bool(b) => Key::Bool(*b),
            Value::Int(i) => Key::Int(*i),
            Value::Uint(u) => i64::try_from(*u).map_or(Key::Uint(*u), Key::Int),
            Value::Double(d) if d.fract() == 0.0 && d.abs() < 9.2e18 => Key::Int(*d as i64),
            Value::String(Text::Shared(text)) => Key::String(text.clone()),
            Value::String(text) => Key::String((**text).into()),
            _ => return None,
        })
    }

    fn value<'a>(&self) -> Value<'a> {
        match self {
            Key::Bool(b) => Value::Bool(*b),
            Key::Int(i) => Value::Int(*i),
            Key::Uint(u) => Value::Uint(*u),
            Key::String(text) => Value::string(text.clone()),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Bool(b) => write!(f, "{b}"),
            Key::Int(i) => write!(f, "{i}"),
            Key::Uint(u) => write!(f, "{u}"),
            Key::String(text) => f.write_str(text),
        }
    }
}

/// A map made while evaluating: members in the order they were added.
#[derive(Clone, Debug, Default)]
pub struct Built<'a> {
    entries: Vec<(Value<'a>, Value<'a>)>,
    index: HashMap<Key, usize>,
}

impl<'a> Built<'a> {
    /// Adds a member; false if the key is there already.
    pub fn insert(&mut self, key: Value<'a>, value: Value<'a>) -> Result<bool, EvalError> {
        let Some(at) = Key::of(&key) else {
            return Err(EvalError::new(format!("unsupported key type: {}", key.type_name())));
        };
        if self.index.contains_key(&at) {
            return Ok(false);
        }
        self.index.insert(at, self.entries.len());
        self.entries.push((key, value));
        Ok(true)
    }
}

impl<'a> Map<'a> {
    /// A document's object.
    pub(crate) fn view(members: &'a object::Object, declared: Option<&'a Declared>) -> Map<'a> {
        Map::View(members, declared)
    }

    /// A map of these members.
    pub fn new(built: Built<'a>) -> Map<'a> {
        Map::Built(Arc::new(built))
    }

    /// How many members there are, also those that cannot be seen.
    pub fn len(&self) -> usize {
        match self {
            Map::View(members, _) => members.len(),
            Map::Built(built) => built.entries.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A member; an error if it is not of its schema's type.
    pub fn get(&self, key: &Key) -> Option<Found<'a>> {
        match (self, key) {
            (Map::Built(built), key) => Some(Ok(built.entries.get(*built.index.get(key)?)?.1.clone())),
            (Map::View(members, declared), Key::String(name)) => member(members, *declared, name),
            (Map::View(..), _) => None,
        }
    }

    /// A member by its name.
    pub fn member(&self, name: &str) -> Option<Found<'a>> {
        match self {
            Map::View(members, declared) => member(members, *declared, name),
            Map::Built(_) => self.get(&Key::String(name.into())),
        }
    }

    /// Finds what an index finds: an error for a key that a document's object cannot have.
    pub fn find(&self, key: &Value<'a>) -> Result<Option<Value<'a>>, EvalError> {
        if let (Map::View(_, Some(_)), false) = (self, matches!(key, Value::String(_))) {
            return Err(EvalError::no_such_overload());
        }
        Key::of(key).and_then(|key| self.get(&key)).transpose()
    }

    /// The names of the members that can be seen, as keys.
    pub fn keys(&self) -> Vec<Key> {
        match self {
            Map::Built(built) => built.entries.iter().filter_map(|(k, _)| Key::of(k)).collect(),
            Map::View(members, declared) => members
                .keys()
                .filter_map(|name| visible(*declared, name))
                .map(Key::String)
                .collect(),
        }
    }

    /// The keys as values.
    pub fn key_values(&self) -> Vec<Value<'a>> {
        match self {
            Map::Built(built) => built.entries.iter().map(|(k, _)| k.clone()).collect(),
            Map::View(members, declared) => members
                .keys()
                .filter_map(|name| match declared.map(|d| d.members()) {
                    None | Some(Members::Values(_)) => Some(Value::String(Text::Borrowed(name))),
                    _ => visible(*declared, name).map(Value::string),
                })
                .collect(),
        }
    }

    /// The members, to add to; no copy is made if nobody else has it.
    pub(crate) fn into_built(self) -> Result<Built<'a>, EvalError> {
        match self {
            Map::Built(built) => Ok(Arc::unwrap_or_clone(built)),
            view => {
                let mut built = Built::default();
                for key in view.keys() {
                    if let Some(value) = view.get(&key) {
                        built.insert(key.value(), value?)?;
                    }
                }
                Ok(built)
            }
        }
    }
}

fn visible(declared: Option<&Declared>, name: &str) -> Option<Arc<str>> {
    match declared.map(|d| d.members()) {
        None | Some(Members::Values(_)) => Some(name.into()),
        Some(Members::Named(fields)) => {
            fields.get(name)?;
            Some(crate::escape::escape(name).unwrap_or_else(|| name.to_owned()).into())
        }
        Some(Members::None) => None,
    }
}

fn member<'a>(members: &'a object::Object, declared: Option<&'a Declared>, name: &str) -> Option<Found<'a>> {
    match declared.map(|d| d.members()) {
        None => Some(Ok(Value::of(members.get(name)?))),
        Some(Members::Values(values)) => Some(values.view(members.get(name)?)),
        Some(Members::Named(fields)) => {
            let name = crate::escape::unescape(name)?;
            let value = members.get(&name).filter(|v| !v.is_null())?;
            Some(fields.get(&*name)?.view(value))
        }
        Some(Members::None) => None,
    }
}
