//! Operations on dotted paths of a document, as the resource records name them: clear, keep the old value, compare.
//!
//! A path's step is a member name; `name[0]` goes into every item of a list (the records were made from objects with
//! one item each); a last step `*` is every member.

use triptych_object::Value;

fn steps(path: &str) -> Vec<&str> {
    path.split('.')
        .flat_map(|step| step.split_inclusive('['))
        .map(|s| s.trim_end_matches('['))
        .filter(|s| !s.is_empty())
        .collect()
}

fn is_index(step: &str) -> bool {
    step.ends_with(']')
}

/// Removes what a path names.
pub fn clear(document: &mut Value, path: &str) {
    fn go(value: &mut Value, steps: &[&str]) {
        let Some((first, rest)) = steps.split_first() else {
            return;
        };
        if is_index(first) {
            for item in value.as_array_mut().into_iter().flatten() {
                go(item, rest);
            }
        } else if rest.is_empty() {
            if let Some(map) = value.as_object_mut() {
                if *first == "*" {
                    map.retain(|_, _| false)
                } else {
                    drop(map.remove(first))
                }
            }
        } else if let Some(member) = value.get_mut(first) {
            go(member, rest);
        }
    }
    go(document, &steps(path));
}

/// Puts the old value back at a path (or removes it, if there was none). A path ending in `.*` restores every member
/// but those in `except`.
pub fn keep(new: &mut Value, old: &Value, path: &str, except: &[&str]) {
    let steps = steps(path);
    let Some((last, parents)) = steps.split_last() else {
        return;
    };
    if *last == "*" {
        let empty = triptych_object::value::Object::new();
        let before = old.at(parents).and_then(Value::as_object).unwrap_or(&empty);
        if new.at(parents).and_then(Value::as_object).is_none() {
            if before.is_empty() {
                return;
            }
            new.set_at(parents, Value::object());
        }
        let Some(map) = new.at_mut(parents).and_then(Value::as_object_mut) else {
            return;
        };
        map.retain(|k, _| except.contains(&k) || before.contains_key(k));
        for (k, v) in before.iter().filter(|(k, _)| !except.contains(k)) {
            map.insert(k, v.clone());
        }
        return;
    }
    if steps.iter().any(|s| is_index(s)) {
        keep_items(new, old, &steps);
        return;
    }
    match old.at(&steps) {
        Some(before) => new.set_at(&steps, before.clone()),
        None => drop(new.remove_at(&steps)),
    }
}

/// Item by item, by position.
fn keep_items(new: &mut Value, old: &Value, steps: &[&str]) {
    let Some((first, rest)) = steps.split_first() else {
        *new = old.clone();
        return;
    };
    if is_index(first) {
        let before = old.as_array().unwrap_or(&[]);
        for (i, item) in new.as_array_mut().into_iter().flatten().enumerate() {
            keep_items(item, before.get(i).unwrap_or(&Value::Null), rest);
        }
    } else if rest.is_empty() {
        match (new.as_object_mut(), old.get(first)) {
            (Some(map), Some(before)) => drop(map.insert(*first, before.clone())),
            (Some(map), None) => drop(map.remove(first)),
            _ => {}
        }
    } else if let Some(member) = new.get_mut(first) {
        keep_items(member, old.get(first).unwrap_or(&Value::Null), rest);
    }
}

/// True if the two documents differ at a path; absent, null and empty count as equal (semantic equality).
pub fn differs(new: &Value, old: &Value, path: &str) -> bool {
    let steps = steps(path);
    let (a, b) = (new.at(&steps), old.at(&steps));
    let nothing = |v: Option<&Value>| match v {
        None | Some(Value::Null) => true,
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(map)) => map.is_empty(),
        Some(_) => false,
    };
    a != b && !(nothing(a) && nothing(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_object::json;

    fn parse(text: &str) -> Value {
        json::from_slice(text.as_bytes()).unwrap()
    }

    #[test]
    fn clearing_goes_into_every_item() {
        let mut v = parse(r#"{"spec":{"c":[{"a":1,"b":2},{"a":3}],"x":1}}"#);
        clear(&mut v, "spec.c[0].a");
        clear(&mut v, "spec.x");
        assert_eq!(v, parse(r#"{"spec":{"c":[{"b":2},{}]}}"#));
    }

    #[test]
    fn keeping_restores_or_removes() {
        let old = parse(r#"{"spec":{"a":1,"b":2},"status":{"x":1}}"#);
        let mut new = parse(r#"{"spec":{"a":9,"c":3},"other":1}"#);
        keep(&mut new, &old, "status", &[]);
        keep(&mut new, &old, "other", &[]);
        keep(&mut new, &old, "spec.*", &["a"]);
        assert_eq!(new, parse(r#"{"spec":{"a":9,"b":2},"status":{"x":1}}"#));
    }
}
