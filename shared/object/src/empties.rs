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

    /// Puts what was empty below `path` back into a copy of the value that stands there.
    pub fn restore(&self, path: &str, value: &mut Value) {
        for (place, empty) in &self.places {
            let Some(rest) = place.strip_prefix(path).filter(|rest| rest.starts_with(['.', '['])) else {
                continue;
            };
            let Some((parents, last)) = rest.rsplit_once('.') else {
                continue;
            };
            if let Some(Value::Object(map)) = descend(value, parents)
                && !map.contains_key(last)
            {
                map.insert(last, empty.clone());
            }
        }
    }

    /// True if some are of fields that are written even when empty.
    pub fn always_written(&self) -> bool {
        self.always_written
    }
}

/// The value at a path like `.a[0].b[key]` below another.
fn descend<'v>(value: &'v mut Value, path: &str) -> Option<&'v mut Value> {
    let mut at = value;
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(member) = rest.strip_prefix('.') {
            let end = member.find(['.', '[']).unwrap_or(member.len());
            at = at.get_mut(&member[..end])?;
            rest = &member[end..];
        } else {
            let (key, after) = rest.strip_prefix('[')?.split_once(']')?;
            at = match at {
                Value::Array(items) => items.get_mut(key.parse::<usize>().ok()?)?,
                other => other.get_mut(key)?,
            };
            rest = after;
        }
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn what_was_empty_below_a_place_comes_back_to_be_shown() {
        let mut empties = Empties::default();
        for path in [
            "a.list",
            "a.items[1].args",
            "a.map[k/x.y].list",
            "ab.list",
            "a.gone.list",
        ] {
            empties.note(path, Value::Array(Vec::new()), false);
        }
        let mut value = json::from_slice(br#"{"items":[{},{}],"map":{"k/x.y":{}}}"#).unwrap();
        empties.restore("a", &mut value);
        assert_eq!(
            json::to_string(&value),
            r#"{"items":[{},{"args":[]}],"map":{"k/x.y":{"list":[]}},"list":[]}"#
        );
    }
}
