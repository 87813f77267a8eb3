//! JSONPath as client-go's `util/jsonpath` has it: what printer columns and kubectl understand.
//!
//! Contract: the same paths parse, and the same values come out in the same order; missing members are no error.
//! Templates (`range`, `end`, text between actions) are not needed for columns: only the first action counts. What a
//! path may find is bounded, so that no column can make a table expensive.

mod compare;
mod parse;

use std::borrow::Cow;

use triptych_object::Value;

/// A path that finds more fails.
const MAX_FOUND: usize = 10_000;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<Node>);

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Text(String),
    Int(i64),
    Float(f64),
    Bool(bool),
    Field(String),
    /// From, to, step; `derived` marks a single index.
    Slice {
        from: Option<i64>,
        to: Option<i64>,
        derived: bool,
        step: Option<i64>,
    },
    Wildcard,
    Recursive,
    Union(Vec<Vec<Node>>),
    Filter {
        left: Vec<Node>,
        operator: Operator,
        right: Vec<Node>,
    },
    /// An identifier that is no field: nothing can be found.
    Identifier,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Exists,
    Less,
    Greater,
    Equal,
    NotEqual,
    LessEqual,
    GreaterEqual,
    Unknown,
}

type Found<'v> = Vec<Cow<'v, Value>>;

impl JsonPath {
    /// Parses a path without braces (`.spec.items[?(@.name=="x")].value`).
    pub fn parse(path: &str) -> Result<JsonPath, String> {
        parse::action(path, 0).map(JsonPath)
    }

    /// What the path finds; an error where a list was needed, an index is out of bounds, or values cannot be compared.
    pub fn find<'v>(&self, value: &'v Value) -> Result<Found<'v>, String> {
        walk_all(&self.0, vec![Cow::Borrowed(value)])
    }
}

fn walk_all<'v>(nodes: &[Node], mut values: Found<'v>) -> Result<Found<'v>, String> {
    for node in nodes {
        values = walk(node, values)?;
        if values.len() > MAX_FOUND {
            return Err("the path finds too much".to_owned());
        }
    }
    Ok(values)
}

fn walk<'v>(node: &Node, values: Found<'v>) -> Result<Found<'v>, String> {
    let constant = |value: Value, n: usize| -> Found<'v> { (0..n).map(|_| Cow::Owned(value.clone())).collect() };
    Ok(match node {
        Node::Text(text) => constant(text.as_str().into(), 1),
        Node::Int(i) => constant(Value::Int(*i), values.len()),
        Node::Float(f) => constant(Value::Float(*f), values.len()),
        Node::Bool(b) => constant(Value::Bool(*b), values.len()),
        Node::Field(name) => values.into_iter().filter_map(|v| member(v, name)).collect(),
        Node::Slice {
            from,
            to,
            derived,
            step,
        } => return slices(values, *from, *to, *derived, *step),
        Node::Wildcard => values.into_iter().flat_map(children).collect(),
        Node::Recursive => {
            let mut found = Vec::new();
            for value in values {
                descend(value, &mut found)?;
            }
            found
        }
        Node::Union(paths) => {
            let mut found = Vec::new();
            for path in paths {
                found.extend(walk_all(path, values.clone())?);
            }
            found
        }
        Node::Filter { left, operator, right } => {
            let mut found = Vec::new();
            for value in values {
                filter(value, left, *operator, right, &mut found)?;
            }
            found
        }
        Node::Identifier => return Err("unrecognized identifier".to_owned()),
    })
}

fn member<'v>(value: Cow<'v, Value>, name: &str) -> Option<Cow<'v, Value>> {
    match value {
        Cow::Borrowed(value) => value.get(name).map(Cow::Borrowed),
        Cow::Owned(value) => value.get(name).cloned().map(Cow::Owned),
    }
}

fn children(value: Cow<'_, Value>) -> Found<'_> {
    match value {
        Cow::Borrowed(Value::Object(map)) => map.values().map(Cow::Borrowed).collect(),
        Cow::Borrowed(Value::Array(items)) => items.iter().map(Cow::Borrowed).collect(),
        Cow::Owned(Value::Object(map)) => map.into_iter().map(|(_, v)| Cow::Owned(v)).collect(),
        Cow::Owned(Value::Array(items)) => items.into_iter().map(Cow::Owned).collect(),
        _ => Vec::new(),
    }
}

fn descend<'v>(value: Cow<'v, Value>, found: &mut Found<'v>) -> Result<(), String> {
    let below = children(value.clone());
    if below.is_empty() {
        return Ok(());
    }
    found.push(value);
    if found.len() > MAX_FOUND {
        return Err("the path finds too much".to_owned());
    }
    below.into_iter().try_for_each(|v| descend(v, found))
}

fn slices<'v>(
    values: Found<'v>,
    from: Option<i64>,
    to: Option<i64>,
    derived: bool,
    step: Option<i64>,
) -> Result<Found<'v>, String> {
    let mut found = Vec::new();
    for value in values {
        if value.is_null() {
            continue;
        }
        let Some(length) = value.as_array().map(|a| a.len() as i64) else {
            return Err(format!("{} is not array or slice", value.type_name()));
        };
        let mut first = from.unwrap_or(0);
        if first < 0 {
            first += length;
        }
        let mut last = to.unwrap_or(length);
        if last < 0 || last == 0 && derived {
            last += length;
        }
        if first == last {
            return Ok(found);
        }
        if first >= length || first < 0 {
            return Err(format!("array index out of bounds: index {first}, length {length}"));
        }
        if last > length || last < 0 {
            return Err(format!(
                "array index out of bounds: index {}, length {length}",
                last - 1
            ));
        }
        if first > last {
            return Err(format!("starting index {first} is greater than ending index {last}"));
        }
        let step = match step {
            Some(step) if step <= 0 => return Err("step must be > 0".to_owned()),
            Some(step) => step as usize,
            None => 1,
        };
        let items = children(value).into_iter();
        found.extend(items.take(last as usize).skip(first as usize).step_by(step));
    }
    Ok(found)
}

fn filter<'v>(
    value: Cow<'v, Value>,
    left: &[Node],
    operator: Operator,
    right: &[Node],
    found: &mut Found<'v>,
) -> Result<(), String> {
    if value.as_array().is_none() {
        return Err("not array or slice and cannot be filtered".to_owned());
    }
    for item in children(value) {
        let lefts = walk_all(left, vec![item.clone()]);
        if operator == Operator::Exists {
            if lefts.is_ok_and(|l| !l.is_empty()) {
                found.push(item);
            }
            continue;
        }
        let (lefts, rights) = (lefts?, walk_all(right, vec![item.clone()])?);
        let (left, right) = match (lefts.as_slice(), rights.as_slice()) {
            ([], _) | (_, []) => continue,
            ([left], [right]) => (left, right),
            _ => return Err("can only compare one element at a time".to_owned()),
        };
        if compare::holds(left, operator, right)? {
            found.push(item);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_object::json;

    fn find(path: &str) -> String {
        let value = json::from_slice(
            br#"{"a":{"b":1,"c.d":"x"},"list":[{"n":"one","v":1},{"n":"two","v":2},{"v":3}],"e":[],"nil":null}"#,
        )
        .unwrap();
        match JsonPath::parse(path).and_then(|p| {
            let found = p.find(&value)?;
            Ok(found.iter().map(|v| json::to_string(v)).collect::<Vec<_>>().join(" "))
        }) {
            Ok(text) => text,
            Err(e) => format!("error: {e}"),
        }
    }

    #[test]
    fn paths_find_what_they_find_in_go() {
        for (path, want) in [
            (".a.b", "1"),
            ("$.a.b", "1"),
            (r".a.c\.d", r#""x""#),
            (".a['b']", "1"),
            (".a.*", r#"1 "x""#),
            (".missing.more", ""),
            (".nil", "null"),
            (".nil.more", ""),
            (".list[0].n", r#""one""#),
            (".list[-1].v", "3"),
            (".list[0:2].v", "1 2"),
            (".list[*].v", "1 2 3"),
            (".list[0,2].v", "1 3"),
            (".list[::2].v", "1 3"),
            (".list[9].v", "error: array index out of bounds: index 9, length 3"),
            (r#".list[?(@.n=="two")].v"#, "2"),
            (".list[?(@.v>1)].v", "2 3"),
            (".list[?(@.n)].v", "1 2"),
            (r#".list[?(@.v=="x")].v"#, "error: incompatible types for comparison"),
            ("..v", "1 2 3"),
            (".e[0]", "error: array index out of bounds: index 0, length 0"),
            (".e[*]", ""),
            (".a[0]", "error: object is not array or slice"),
            (".a[", "error: unterminated array"),
        ] {
            assert_eq!(find(path), want, "{path}");
        }
    }
}
