//! Which part of the old object a part of the new one was, and whether it changed.
//!
//! Contract: as apiserver's `CorrelatedObject`: members by name, items of associative lists by their keys, nothing else; what the schema does not know
//! has no counterpart. Whether a part is unchanged is found out once, so that many failing rules cost no more than one look at the object.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use triptych_object::Value;

/// A part of the new object with its counterpart.
pub struct Correlated<'a> {
    old: &'a Value,
    new: &'a Value,
    schema: &'a Value,
    unchanged: OnceCell<bool>,
    items: OnceCell<Option<Keyed<'a>>>,
    children: RefCell<HashMap<Child, Option<Rc<Correlated<'a>>>>>,
}

#[derive(PartialEq, Eq, Hash)]
enum Child {
    Member(String),
    Item(usize),
}

/// The old items of an associative list by their keys.
pub struct Keyed<'a> {
    keys: &'a [Value],
    items: HashMap<String, &'a Value>,
}

impl<'a> Keyed<'a> {
    /// The items of an old list; `None` if its schema does not tell them apart.
    pub fn of(schema: &'a Value, old: &'a [Value]) -> Option<Keyed<'a>> {
        let keys = schema.array_at(&["x-kubernetes-list-map-keys"]);
        let is_map = schema.str_at(&["type"]) == "array" && schema.str_at(&["x-kubernetes-list-type"]) == "map";
        if !is_map || keys.is_empty() || old.is_empty() {
            return None;
        }
        let mut items = HashMap::new();
        for item in old {
            if let Some(key) = composite(item, keys) {
                items.entry(key).or_insert(item);
            }
        }
        Some(Keyed { keys, items })
    }

    /// The old item with the keys of a new one.
    pub fn get(&self, item: &Value) -> Option<&'a Value> {
        self.items.get(&composite(item, self.keys)?).copied()
    }
}

fn composite(item: &Value, keys: &[Value]) -> Option<String> {
    let mut all = String::new();
    for key in keys {
        let value = item.get(key.as_str()?)?;
        match value {
            Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::String(_) => {
                all.push_str(value.type_name());
                all.push_str(&triptych_object::json::to_string(value));
                all.push('\0');
            }
            _ => return None,
        }
    }
    Some(all)
}

impl<'a> Correlated<'a> {
    /// Whole objects.
    pub fn new(new: &'a Value, old: &'a Value, schema: &'a Value) -> Rc<Correlated<'a>> {
        Rc::new(Correlated {
            old,
            new,
            schema,
            unchanged: OnceCell::new(),
            items: OnceCell::new(),
            children: RefCell::default(),
        })
    }

    fn child(&self, at: Child, find: impl FnOnce() -> Option<Rc<Correlated<'a>>>) -> Option<Rc<Correlated<'a>>> {
        if let Some(known) = self.children.borrow().get(&at) {
            return known.clone();
        }
        let found = find();
        self.children.borrow_mut().insert(at, found.clone());
        found
    }

    /// A member, if both objects have it and the schema knows it.
    pub fn member(&self, name: &str) -> Option<Rc<Correlated<'a>>> {
        self.child(Child::Member(name.to_owned()), || {
            let (old, new) = (self.old.get(name)?, self.new.get(name)?);
            let own = self.schema.at(&["properties", name]);
            let schema = own.or_else(|| {
                self.schema
                    .get("additionalProperties")
                    .filter(|s| s.as_object().is_some())
            });
            Some(Correlated::new(new, old, schema?))
        })
    }

    /// An item, if its list is associative and there was one with its keys.
    pub fn item(&self, index: usize) -> Option<Rc<Correlated<'a>>> {
        self.child(Child::Item(index), || {
            let new = self.new.as_array()?.get(index)?;
            let old = self.old.as_array()?;
            let keyed = self.items.get_or_init(|| Keyed::of(self.schema, old)).as_ref()?;
            Some(Correlated::new(new, keyed.get(new)?, self.schema.get("items")?))
        })
    }

    /// Whether nothing in it changed.
    pub fn is_unchanged(&self) -> bool {
        *self.unchanged.get_or_init(|| self.compare())
    }

    fn compare(&self) -> bool {
        match (self.old, self.new) {
            (Value::Null, Value::Null) => true,
            (Value::Array(old), Value::Array(new)) => {
                if old.len() != new.len() {
                    return false;
                }
                let associative = self.schema.str_at(&["x-kubernetes-list-type"]) == "map";
                match associative {
                    true => (0..new.len()).all(|i| self.item(i).is_some_and(|item| item.is_unchanged())),
                    false => old == new,
                }
            }
            (Value::Object(old), Value::Object(new)) => {
                old.len() == new.len()
                    && new
                        .keys()
                        .all(|name| self.member(name).is_some_and(|member| member.is_unchanged()))
            }
            (old, new) => old == new,
        }
    }
}

/// What of the old object a failing rule is held against.
#[derive(Clone, Default)]
pub struct Ratchet<'a> {
    current: Option<Rc<Correlated<'a>>>,
    parent: Option<Rc<Correlated<'a>>>,
}

impl<'a> Ratchet<'a> {
    /// At the root of an update.
    pub fn new(correlated: Rc<Correlated<'a>>) -> Ratchet<'a> {
        Ratchet {
            current: Some(correlated),
            parent: None,
        }
    }

    /// Whether the part, or what is nearest around it, did not change: then a failing rule is only warned of.
    pub fn tolerates(&self) -> bool {
        self.current
            .as_ref()
            .or(self.parent.as_ref())
            .is_some_and(|c| c.is_unchanged())
    }

    /// At a member.
    pub fn member(&self, name: &str) -> Ratchet<'a> {
        match &self.current {
            None => self.clone(),
            Some(_) if self.parent.is_none() && matches!(name, "apiVersion" | "kind") => Ratchet::default(),
            Some(current) => Ratchet {
                current: current.member(name),
                parent: Some(current.clone()),
            },
        }
    }

    /// At an item.
    pub fn item(&self, index: usize) -> Ratchet<'a> {
        match &self.current {
            None => self.clone(),
            Some(current) => Ratchet {
                current: current.item(index),
                parent: Some(current.clone()),
            },
        }
    }
}
