//! Taking out of a custom resource what its schema does not know.
//!
//! Contract: structural pruning (KEP-1101): unknown members go, but for what `x-kubernetes-preserve-unknown-fields`
//! keeps; `apiVersion`, `kind` and `metadata` of the object and of embedded resources stay. The paths of what was taken
//! out are reported sorted, for `fieldValidation`.

use triptych_object::Value;

use crate::types::{Schema, Shape, Struct, TypeId};

/// No more paths than this are reported.
const MAX_PATHS: usize = 1000;

/// Prunes an object; gives the paths of what was removed, sorted.
pub fn prune(schema: &Schema, root: TypeId, value: &mut Value) -> Vec<String> {
    let mut pruner = Pruner {
        schema,
        path: String::new(),
        removed: Vec::new(),
    };
    pruner.prune(Some(root), value, true);
    pruner.removed.sort();
    pruner.removed
}

fn is_meta(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata")
}

struct Pruner<'s> {
    schema: &'s Schema,
    path: String,
    removed: Vec<String>,
}

impl Pruner<'_> {
    fn record(&mut self, key: &str) {
        if self.removed.len() < MAX_PATHS {
            let dot = if self.path.is_empty() { "" } else { "." };
            self.removed.push(format!("{}{dot}{key}", self.path));
        }
    }

    fn within(&mut self, key: &str, visit: impl FnOnce(&mut Self)) {
        let back = self.path.len();
        if back > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        visit(self);
        self.path.truncate(back);
    }

    fn at(&mut self, index: usize, visit: impl FnOnce(&mut Self)) {
        let back = self.path.len();
        self.path.push_str(&format!("[{index}]"));
        visit(self);
        self.path.truncate(back);
    }

    /// `ty` is none where the schema says nothing, so that all members go.
    fn prune(&mut self, ty: Option<TypeId>, value: &mut Value, whole: bool) {
        let schema = self.schema;
        let shape = ty.map(|ty| &schema.get(ty).shape);
        match value {
            Value::Object(map) => match shape {
                Some(Shape::Json) => {}
                Some(Shape::Struct(s)) => {
                    let keep_meta = whole || s.embedded_resource;
                    map.retain(|key, member| self.keep(s, key, member, keep_meta));
                }
                Some(Shape::Map(m)) => {
                    for (key, member) in map.iter_mut() {
                        self.within(key, |p| p.prune(Some(m.value), member, false));
                    }
                }
                _ => map.retain(|key, _| {
                    self.record(key);
                    false
                }),
            },
            Value::Array(items) => {
                let item_type = match shape {
                    Some(Shape::Json) => return,
                    Some(Shape::Struct(s)) if s.preserve_unknown => return,
                    Some(Shape::List(list)) => Some(list.item),
                    _ => None,
                };
                for (i, item) in items.iter_mut().enumerate() {
                    self.at(i, |p| p.prune(item_type, item, false));
                }
            }
            _ => {}
        }
    }

    fn keep(&mut self, s: &Struct, key: &str, member: &mut Value, keep_meta: bool) -> bool {
        if keep_meta && is_meta(key) {
            return true;
        }
        match s.field(key) {
            Some(field) => {
                self.within(key, |p| p.prune(Some(field.ty), member, false));
                true
            }
            None if s.preserve_unknown => true,
            None => {
                self.record(key);
                false
            }
        }
    }
}
