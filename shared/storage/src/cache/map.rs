//! The ordered map of a cache: persistent, so that a snapshot costs a pointer and a writer copies only the path it changes.
//!
//! `imbl`'s B-tree behind a type of our own: leaves of many neighbours make scans fast (see the benchmark), and nobody
//! else needs to know.

use std::ops::Bound;
use std::sync::Arc;

use super::object::Object;

/// Objects by key, and by the values of indexed fields.
#[derive(Debug, Clone, Default)]
pub(crate) struct Objects {
    by_key: Tree,
    indexes: Box<[Index]>,
    bytes: usize,
    broken: usize,
}

type Tree = imbl::OrdMap<Arc<str>, Arc<Object>>;

#[derive(Debug, Clone)]
struct Index {
    field: usize,
    /// Keys are `value\0key`.
    entries: Tree,
}

fn index_key(value: &str, key: &str) -> Arc<str> {
    [value, "\0", key].concat().into()
}

impl Objects {
    /// `indexes` are numbers of selectable fields.
    pub(crate) fn indexed_by(indexes: &[usize]) -> Self {
        let indexes = indexes
            .iter()
            .map(|field| Index {
                field: *field,
                entries: Tree::new(),
            })
            .collect();
        Self {
            indexes,
            ..Self::default()
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Memory of the objects, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn broken(&self) -> usize {
        self.broken
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Object>> {
        self.by_key.get(key)
    }

    pub(crate) fn insert(&mut self, object: Arc<Object>) -> Option<Arc<Object>> {
        self.bytes += object.size();
        self.broken += usize::from(object.broken().is_some());
        let previous = self.by_key.insert(object.key().clone(), object.clone());
        for index in &mut self.indexes {
            let value = object.field(index.field).unwrap_or_default();
            if let Some(previous) = &previous {
                let old = previous.field(index.field).unwrap_or_default();
                if old != value {
                    index.entries.remove(&*index_key(&old, object.key()));
                }
            }
            index.entries.insert(index_key(&value, object.key()), object.clone());
        }
        self.forget(previous.as_deref());
        previous
    }

    pub(crate) fn remove(&mut self, key: &str) -> Option<Arc<Object>> {
        let previous = self.by_key.remove(key)?;
        for index in &mut self.indexes {
            let value = previous.field(index.field).unwrap_or_default();
            index.entries.remove(&*index_key(&value, key));
        }
        self.forget(Some(&previous));
        Some(previous)
    }

    fn forget(&mut self, previous: Option<&Object>) {
        if let Some(previous) = previous {
            self.bytes -= previous.size();
            self.broken -= usize::from(previous.broken().is_some());
        }
    }

    /// Objects whose key starts with `prefix` and is at or after `from`.
    pub(crate) fn range<'a>(&'a self, prefix: &'a str, from: &str) -> impl Iterator<Item = &'a Arc<Object>> + 'a {
        scan(&self.by_key, prefix, from)
    }

    /// Objects whose indexed field has this value, by key; `None` when there is no such index.
    pub(crate) fn with_value(&self, field: usize, value: &str) -> Option<Vec<Arc<Object>>> {
        let index = self.indexes.iter().find(|index| index.field == field)?;
        let prefix = [value, "\0"].concat();
        Some(scan(&index.entries, &prefix, "").cloned().collect())
    }
}

fn scan<'a>(tree: &'a Tree, prefix: &'a str, from: &str) -> impl Iterator<Item = &'a Arc<Object>> + 'a {
    let start = if from > prefix { from } else { prefix };
    let bounds = (Bound::Included(start), Bound::Unbounded);
    tree.range::<_, str>(bounds)
        .take_while(move |(key, _)| key.starts_with(prefix))
        .map(|(_, object)| object)
}

#[cfg(test)]
mod tests {
    use super::super::object::FieldPath;
    use super::*;

    fn pod(name: &str, node: &str) -> Arc<Object> {
        let json = format!(r#"{{"metadata":{{}},"spec":{{"nodeName":"{node}"}}}}"#);
        let fields = [FieldPath::dotted("spec.nodeName")];
        Arc::new(Object::from_json(format!("/pods/{name}").into(), 1, json.as_bytes(), &fields).unwrap())
    }

    fn names<'a>(objects: impl IntoIterator<Item = &'a Arc<Object>>) -> Vec<String> {
        objects.into_iter().map(|object| object.name().to_owned()).collect()
    }

    #[test]
    fn an_index_follows_its_field() {
        let mut objects = Objects::indexed_by(&[0]);
        objects.insert(pod("a", "n1"));
        objects.insert(pod("b", "n1"));
        objects.insert(pod("c", "n10"));
        let before = objects.clone();
        objects.insert(pod("a", "n2"));
        objects.remove("/pods/c");
        assert_eq!(names(&objects.with_value(0, "n1").unwrap()), ["b"]);
        assert_eq!(names(&objects.with_value(0, "n2").unwrap()), ["a"]);
        assert!(objects.with_value(0, "n10").unwrap().is_empty());
        assert!(objects.with_value(1, "x").is_none());
        assert_eq!(names(&before.with_value(0, "n1").unwrap()), ["a", "b"]);
    }

    #[test]
    fn ranges_start_at_a_key_and_end_with_the_prefix() {
        let mut objects = Objects::default();
        for name in ["x/a", "x/b", "x/c", "y/a"] {
            objects.insert(pod(name, ""));
        }
        assert_eq!(names(objects.range("/pods/x/", "")), ["a", "b", "c"]);
        assert_eq!(names(objects.range("/pods/x/", "/pods/x/b")), ["b", "c"]);
        assert_eq!(objects.range("/pods/", "").count(), 4);
    }

    #[test]
    fn bytes_are_those_of_what_is_there() {
        let mut objects = Objects::default();
        let size = pod("a", "n").size();
        objects.insert(pod("a", "n"));
        objects.insert(pod("a", "m"));
        assert_eq!(objects.bytes(), size);
        objects.remove("/pods/a");
        assert_eq!((objects.bytes(), objects.len()), (0, 0));
    }
}
