//! Sets of field paths: who owns what.
//!
//! A set is a tree of sorted vectors. A node is one path element; it may be a member of the set itself, have members
//! below it, or both. Operations are merges of sorted vectors, as in structured-merge-diff, whose results they equal; a
//! node without membership and without children never occurs.

use std::cmp::Ordering;
use std::fmt;

use triptych_object::Value;
use triptych_object::value::Object;

use super::element::PathElement;

/// A node of a [`FieldSet`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node<'a> {
    /// The path element that leads here.
    pub element: PathElement<'a>,
    /// The path that ends here is in the set.
    pub member: bool,
    /// Paths that go on from here.
    pub children: FieldSet<'a>,
}

impl Node<'_> {
    fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

/// A set of field paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet<'a> {
    nodes: Vec<Node<'a>>,
}

impl<'a> FieldSet<'a> {
    /// The empty set.
    pub const fn new() -> FieldSet<'a> {
        FieldSet { nodes: Vec::new() }
    }

    /// Whether no path is in the set.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The nodes at the top, sorted.
    pub fn nodes(&self) -> &[Node<'a>] {
        &self.nodes
    }

    /// Adds a node while building; [`FieldSet::sort`] must follow unless nodes come in order. Empty nodes are dropped.
    pub fn push(&mut self, element: PathElement<'a>, member: bool, children: FieldSet<'a>) {
        let node = Node {
            element,
            member,
            children,
        };
        if !node.is_empty() {
            self.nodes.push(node);
        }
    }

    /// Brings pushed nodes into order. No two may have the same element.
    pub fn sort(&mut self) {
        if !self.nodes.is_sorted_by(|a, b| a.element <= b.element) {
            self.nodes.sort_unstable_by(|a, b| a.element.cmp(&b.element));
        }
    }

    /// A set of member names, such as `["status"]` or `["metadata", "labels"]`.
    pub fn of_fields(paths: &[&[&'a str]]) -> FieldSet<'a> {
        let mut set = FieldSet::new();
        for path in paths {
            set.insert(&path.iter().map(|name| PathElement::field(name)).collect::<Vec<_>>());
        }
        set
    }

    /// Adds a path.
    pub fn insert(&mut self, path: &[PathElement<'a>]) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        let at = match self.find(first) {
            Ok(at) => at,
            Err(at) => {
                self.nodes.insert(
                    at,
                    Node {
                        element: first.clone(),
                        member: false,
                        children: FieldSet::new(),
                    },
                );
                at
            }
        };
        match rest {
            [] => self.nodes[at].member = true,
            rest => self.nodes[at].children.insert(rest),
        }
    }

    fn find(&self, element: &PathElement<'_>) -> Result<usize, usize> {
        self.nodes.binary_search_by(|node| node.element.cmp(element))
    }

    /// The node of an element.
    pub fn get(&self, element: &PathElement<'_>) -> Option<&Node<'a>> {
        self.find(element).ok().map(|at| &self.nodes[at])
    }

    /// Whether this very path is in the set.
    pub fn has(&self, path: &[PathElement<'_>]) -> bool {
        match path {
            [] => false,
            [last] => self.get(last).is_some_and(|node| node.member),
            [first, rest @ ..] => self.get(first).is_some_and(|node| node.children.has(rest)),
        }
    }

    /// Paths in either set.
    pub fn union(mut self, other: FieldSet<'a>) -> FieldSet<'a> {
        if other.nodes.is_empty() {
            return self;
        }
        if self.nodes.is_empty() {
            return other;
        }
        let mut nodes = Vec::with_capacity(self.nodes.len().max(other.nodes.len()));
        let (mut left, mut right) = (self.nodes.drain(..).peekable(), other.nodes.into_iter().peekable());
        loop {
            let order = match (left.peek(), right.peek()) {
                (Some(l), Some(r)) => l.element.cmp(&r.element),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => break,
            };
            match order {
                Ordering::Less => nodes.extend(left.next()),
                Ordering::Greater => nodes.extend(right.next()),
                Ordering::Equal => {
                    if let (Some(l), Some(r)) = (left.next(), right.next()) {
                        let children = l.children.union(r.children);
                        nodes.push(Node {
                            element: l.element,
                            member: l.member || r.member,
                            children,
                        });
                    }
                }
            }
        }
        FieldSet { nodes }
    }

    /// Paths in any of the sets, which are united in pairs so that many sets cost little more than their size.
    pub fn union_all(mut sets: Vec<FieldSet<'a>>) -> FieldSet<'a> {
        while sets.len() > 1 {
            let mut halved = Vec::with_capacity(sets.len().div_ceil(2));
            let mut rest = sets.into_iter();
            while let Some(one) = rest.next() {
                halved.push(match rest.next() {
                    Some(other) => one.union(other),
                    None => one,
                });
            }
            sets = halved;
        }
        sets.pop().unwrap_or_default()
    }

    /// Paths in both sets.
    pub fn intersection(&self, other: &FieldSet<'_>) -> FieldSet<'a> {
        let mut out = FieldSet::new();
        let mut others = other.nodes.as_slice();
        for node in &self.nodes {
            if let Some(other) = advance(&mut others, &node.element) {
                let children = node.children.intersection(&other.children);
                if (node.member && other.member) || !children.is_empty() {
                    out.push(node.element.clone(), node.member && other.member, children);
                }
            }
        }
        out
    }

    /// Paths that are not in `other`; being below one of its paths does not count.
    pub fn difference(self, other: &FieldSet<'_>) -> FieldSet<'a> {
        self.without(other, |node, other| Node {
            member: node.member && !other.member,
            children: node.children.difference(&other.children),
            element: node.element,
        })
    }

    /// Paths that are neither in `other` nor below one of its paths.
    pub fn recursive_difference(self, other: &FieldSet<'_>) -> FieldSet<'a> {
        self.without(other, |node, other| {
            let children = match other.member {
                true => FieldSet::new(),
                false => node.children.recursive_difference(&other.children),
            };
            Node {
                member: node.member && !other.member,
                children,
                element: node.element,
            }
        })
    }

    /// Changes the nodes that `other` has, too, in place; those that become empty go.
    fn without(mut self, other: &FieldSet<'_>, change: impl Fn(Node<'a>, &Node<'_>) -> Node<'a>) -> FieldSet<'a> {
        if other.is_empty() {
            return self;
        }
        let mut others = other.nodes.as_slice();
        let mut emptied = false;
        for node in &mut self.nodes {
            if let Some(other) = advance(&mut others, &node.element) {
                let taken = Node {
                    element: node.element.clone(),
                    member: false,
                    children: FieldSet::new(),
                };
                *node = change(std::mem::replace(node, taken), other);
                emptied |= node.is_empty();
            }
        }
        if emptied {
            self.nodes.retain(|node| !node.is_empty());
        }
        self
    }

    /// Calls `visit` with every path: those that end at a node's level before those that go on.
    pub fn paths(&self, visit: &mut impl FnMut(&[PathElement<'a>])) {
        self.paths_below(&mut Vec::new(), visit);
    }

    fn paths_below(&self, prefix: &mut Vec<PathElement<'a>>, visit: &mut impl FnMut(&[PathElement<'a>])) {
        for node in self.nodes.iter().filter(|node| node.member) {
            prefix.push(node.element.clone());
            visit(prefix);
            prefix.pop();
        }
        for node in self.nodes.iter().filter(|node| !node.children.is_empty()) {
            prefix.push(node.element.clone());
            node.children.paths_below(prefix, visit);
            prefix.pop();
        }
    }

    /// The same, borrowing nothing.
    pub fn into_owned(self) -> FieldSet<'static> {
        let owned = |node: Node<'a>| Node {
            element: node.element.into_owned(),
            member: node.member,
            children: node.children.into_owned(),
        };
        FieldSet {
            nodes: self.nodes.into_iter().map(owned).collect(),
        }
    }

    /// The FieldsV1 document.
    pub fn to_value(&self) -> Value {
        let mut out = Object::with_capacity(self.nodes.len());
        self.write_nodes(&mut out);
        Value::Object(out)
    }

    fn write_nodes(&self, out: &mut Object) {
        for node in &self.nodes {
            let mut below = Object::with_capacity(node.children.nodes.len() + usize::from(node.member));
            if !node.children.is_empty() {
                if node.member {
                    below.insert(".", Value::object());
                }
                node.children.write_nodes(&mut below);
            }
            out.insert(node.element.text(), Value::Object(below));
        }
    }

    /// Reads a FieldsV1 document.
    pub fn from_value(fields: &'a Value) -> Result<FieldSet<'a>, String> {
        Ok(read(fields)?.1)
    }
}

/// Moves on to `element` in a sorted slice of nodes; its node, if it is there.
fn advance<'n, 'b>(nodes: &mut &'n [Node<'b>], element: &PathElement<'_>) -> Option<&'n Node<'b>> {
    while let Some((first, more)) = nodes.split_first() {
        match first.element.cmp(element) {
            Ordering::Less => *nodes = more,
            Ordering::Equal => return Some(first),
            Ordering::Greater => return None,
        }
    }
    None
}

/// Whether the document says that its own path is a member, and the paths below.
fn read<'a>(fields: &'a Value) -> Result<(bool, FieldSet<'a>), String> {
    let map = match fields {
        Value::Object(map) => map,
        Value::Null => return Ok((true, FieldSet::new())),
        _ => return Err("expect { or n".into()),
    };
    let mut member = false;
    let mut set = FieldSet {
        nodes: Vec::with_capacity(map.len()),
    };
    for (key, below) in map.iter() {
        if key == "." {
            member = true;
            continue;
        }
        let Some(element) = PathElement::parse(key)? else {
            continue;
        };
        let (is_member, children) = read(below)?;
        set.push(element, is_member, children);
    }
    set.sort();
    set.nodes.dedup_by(|later, earlier| {
        let same = later.element == earlier.element;
        if same {
            earlier.member |= later.member;
            let children = std::mem::take(&mut earlier.children).union(std::mem::take(&mut later.children));
            earlier.children = children;
        }
        same
    });
    let leaf = set.is_empty();
    Ok((member || leaf, set))
}

/// A path as conflicts show it: `.spec.containers[name="a"].image`.
pub struct ShownPath<'p, 'a>(pub &'p [PathElement<'a>]);

impl fmt::Display for ShownPath<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| write!(f, "{element}"))
    }
}

/// The paths that a resource or subresource does not let one own: its strategy resets them.
#[derive(Clone, Debug, Default)]
pub struct Filter(FieldSet<'static>);

impl Filter {
    /// A filter from dotted member names (`status`, `metadata.labels`) that do not count, nor what is below them.
    pub fn exclude<'n>(paths: impl IntoIterator<Item = &'n str>) -> Filter {
        let mut set = FieldSet::new();
        for path in paths {
            let path: Vec<_> = path
                .split('.')
                .map(|name| PathElement::Field(name.to_owned().into()))
                .collect();
            set.insert(&path);
        }
        Filter(set)
    }

    /// What of the set counts.
    pub fn apply<'a>(&self, set: FieldSet<'a>) -> FieldSet<'a> {
        if set.is_empty() || self.0.is_empty() {
            set
        } else {
            set.recursive_difference(&self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_object::json;

    fn doc(text: &str) -> Value {
        json::from_slice(text.as_bytes()).unwrap()
    }

    fn check(
        left: &str,
        right: &str,
        operation: impl for<'a> Fn(FieldSet<'a>, FieldSet<'a>) -> FieldSet<'a>,
        want: &str,
    ) {
        let (l, r) = (doc(left), doc(right));
        let out = operation(FieldSet::from_value(&l).unwrap(), FieldSet::from_value(&r).unwrap());
        assert_eq!(json::to_string(&out.to_value()), want, "{left} {right}");
    }

    #[test]
    fn documents_read_back_sorted_and_without_unknown_elements() {
        let v = doc(r#"{"f:b":{},"x:odd":{},"f:a":{"v:1":{},".":{},"f:x":null},"k:{\"name\":\"a\"}":{"f:y":{}}}"#);
        let set = FieldSet::from_value(&v).unwrap();
        assert_eq!(
            json::to_string(&set.to_value()),
            r#"{"f:a":{".":{},"f:x":{},"v:1":{}},"f:b":{},"k:{\"name\":\"a\"}":{"f:y":{}}}"#
        );
        assert!(set.has(&[PathElement::field("a")]));
        assert!(set.has(&[PathElement::field("a"), PathElement::field("x")]));
        assert!(!set.has(&[PathElement::parse("k:{\"name\":\"a\"}").unwrap().unwrap()]));
        assert!(FieldSet::from_value(&doc(r#"{"bad":{}}"#)).is_err());
        assert!(FieldSet::from_value(&doc("[]")).is_err());
    }

    #[test]
    fn a_difference_keeps_what_is_below_a_removed_path() {
        let left = r#"{"f:a":{".":{},"f:x":{},"f:y":{}},"f:b":{}}"#;
        check(
            left,
            r#"{"f:a":{}}"#,
            |l, r| l.difference(&r),
            r#"{"f:a":{"f:x":{},"f:y":{}},"f:b":{}}"#,
        );
        check(
            left,
            r#"{"f:a":{}}"#,
            |l, r| l.recursive_difference(&r),
            r#"{"f:b":{}}"#,
        );
        check(
            left,
            r#"{"f:a":{"f:x":{}}}"#,
            |l, r| l.difference(&r),
            r#"{"f:a":{".":{},"f:y":{}},"f:b":{}}"#,
        );
        check(
            r#"{"f:a":{"f:x":{}}}"#,
            r#"{"f:a":{"f:x":{}}}"#,
            |l, r| l.difference(&r),
            "{}",
        );
    }

    #[test]
    fn unions_and_intersections_go_level_by_level() {
        let (left, right) = (
            r#"{"f:a":{"f:x":{}},"f:c":{}}"#,
            r#"{"f:a":{".":{},"f:y":{}},"f:b":{}}"#,
        );
        check(
            left,
            right,
            |l, r| l.union(r),
            r#"{"f:a":{".":{},"f:x":{},"f:y":{}},"f:b":{},"f:c":{}}"#,
        );
        check(left, right, |l, r| l.intersection(&r), "{}");
        check(left, left, |l, r| l.intersection(&r), left);
    }

    #[test]
    fn paths_of_a_level_come_before_deeper_ones() {
        let v = doc(r#"{"f:a":{"f:x":{}},"f:b":{},"f:c":{".":{},"k:{\"n\":\"1\"}":{".":{},"f:v":{}}}}"#);
        let mut paths = Vec::new();
        FieldSet::from_value(&v)
            .unwrap()
            .paths(&mut |path| paths.push(ShownPath(path).to_string()));
        assert_eq!(paths, [".b", ".c", ".a.x", ".c[n=\"1\"]", ".c[n=\"1\"].v"]);
    }

    #[test]
    fn a_filter_excludes_paths_and_what_is_below() {
        let v = doc(
            r#"{"f:metadata":{"f:labels":{"f:a":{}},"f:name":{}},"f:spec":{"f:x":{}},"f:status":{".":{},"f:y":{}}}"#,
        );
        let set = Filter::exclude(["status", "metadata.labels"]).apply(FieldSet::from_value(&v).unwrap());
        assert_eq!(
            json::to_string(&set.to_value()),
            r#"{"f:metadata":{"f:name":{}},"f:spec":{"f:x":{}}}"#
        );
    }

    /// A set of up to `size` paths of at most three steps over a small alphabet, from a seed.
    fn random(seed: &mut u64, size: u64) -> FieldSet<'static> {
        let mut next = |n: u64| {
            *seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (*seed >> 33) % n
        };
        let mut set = FieldSet::new();
        for _ in 0..next(size + 1) {
            let steps = 1 + next(3);
            let path: Vec<PathElement<'static>> = (0..steps)
                .map(|_| match next(3) {
                    0 => PathElement::Value(super::super::element::Scalar::Int(next(3) as i64)),
                    1 => PathElement::one_key(("name".into(), super::super::element::Scalar::Int(next(3) as i64))),
                    _ => PathElement::field(["a", "b", "c"][next(3) as usize]),
                })
                .collect();
            set.insert(&path);
        }
        set
    }

    fn model(set: &FieldSet<'_>) -> std::collections::BTreeSet<String> {
        let mut paths = std::collections::BTreeSet::new();
        set.paths(&mut |path| {
            paths.insert(path.iter().map(|e| e.text() + "/").collect());
        });
        paths
    }

    #[test]
    fn operations_agree_with_those_on_plain_sets_of_paths() {
        let mut seed = 1;
        for _ in 0..2000 {
            let (a, b) = (random(&mut seed, 8), random(&mut seed, 8));
            let (plain_a, plain_b) = (model(&a), model(&b));
            assert_eq!(model(&a.clone().union(b.clone())), &plain_a | &plain_b);
            assert_eq!(model(&a.intersection(&b)), &plain_a & &plain_b);
            assert_eq!(model(&a.clone().difference(&b)), &plain_a - &plain_b);
            let below = |path: &String| plain_b.iter().any(|other| path.starts_with(other));
            let rest: std::collections::BTreeSet<String> = plain_a.iter().filter(|p| !below(p)).cloned().collect();
            assert_eq!(model(&a.clone().recursive_difference(&b)), rest);
            let document = a.to_value();
            assert_eq!(FieldSet::from_value(&document), Ok(a));
        }
    }
}
