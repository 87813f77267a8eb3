//! From nodes to the tree that JSON would have: scalars resolved, merge keys applied, keys turned into text.
//!
//! Contract: go-yaml v2's decoder into `interface{}` followed by sigs.k8s.io/yaml's conversion. Two keys are the same
//! when Go's values are (so `1` and `"1"` differ there, and the later wins here).

use std::collections::HashMap;

use base64::Engine;

use super::compose::{Content, Document, Node};
use super::resolve::{Resolved, TAG_PREFIX, resolve};
use super::{Error, Parsed};
use crate::field::quote;
use crate::json::{self, MAX_DEPTH};
use crate::value::{Object, Value};

/// Bytes of text that aliases may copy.
const MAX_ALIASED_BYTES: usize = 64 << 20;

/// Decodes a document.
pub(super) fn decode(document: &Document, typed: bool) -> Result<Parsed, Error> {
    let mut decoder = Decoder {
        typed,
        cut: false,
        nodes: &document.nodes,
        inside: Vec::new(),
        strict: Vec::new(),
        decoded: 0,
        aliased: 0,
        aliased_bytes: 0,
        depth: 0,
    };
    let value = decoder.node(0)?;
    let strict =
        (!decoder.strict.is_empty()).then(|| format!("yaml: unmarshal errors:\n  {}", decoder.strict.join("\n  ")));
    Ok(Parsed {
        value,
        strict,
        cut: decoder.cut,
    })
}

/// No more duplicate keys than this are reported.
const MAX_STRICT: usize = 100;

struct Decoder<'a> {
    /// What is nested too deep is left out.
    typed: bool,
    /// Something was.
    cut: bool,
    nodes: &'a [Node],
    /// Aliases being expanded.
    inside: Vec<usize>,
    strict: Vec<String>,
    decoded: u64,
    aliased: u64,
    aliased_bytes: usize,
    depth: usize,
}

/// A map's key as Go has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Text(String),
    Int(i64),
    Float(u64),
    Bool(bool),
}

impl Key {
    /// As JSON has it.
    fn text(&self) -> String {
        match self {
            Key::Text(s) => s.clone(),
            Key::Int(i) => i.to_string(),
            Key::Float(bits) => key_float(f64::from_bits(*bits)),
            Key::Bool(b) => b.to_string(),
        }
    }

    /// Go's `%#v`.
    fn shown(&self) -> String {
        match self {
            Key::Text(s) => quote(s),
            Key::Float(bits) => json::general_float(f64::from_bits(*bits)),
            other => other.text(),
        }
    }
}

/// sigs.k8s.io/yaml writes float keys in single precision.
fn key_float(f: f64) -> String {
    match f {
        f if f.is_nan() => ".nan".to_owned(),
        f if f == f64::INFINITY => ".inf".to_owned(),
        f if f == f64::NEG_INFINITY => "-.inf".to_owned(),
        f => json::general_float32(f as f32),
    }
}

/// How much of a document may come from aliases, by its size (go-yaml's numbers).
fn allowed_alias_ratio(decoded: u64) -> f64 {
    const LOW: f64 = 400_000.0;
    const HIGH: f64 = 4_000_000.0;
    match decoded as f64 {
        d if d <= LOW => 0.99,
        d if d >= HIGH => 0.10,
        d => 0.99 - 0.89 * ((d - LOW) / (HIGH - LOW)),
    }
}

fn excessive() -> Error {
    Error::Yaml("document contains excessive aliasing".to_owned())
}

/// A mapping while it is read: positions of Go's keys, and the members by their text.
#[derive(Default)]
struct Members {
    seen: HashMap<Key, ()>,
    map: Object,
}

impl<'a> Decoder<'a> {
    fn step(&mut self) -> Result<(), Error> {
        self.decoded += 1;
        if !self.inside.is_empty() {
            self.aliased += 1;
        }
        let ratio = self.aliased as f64 / self.decoded as f64;
        if self.aliased > 100 && self.decoded > 1000 && ratio > allowed_alias_ratio(self.decoded) {
            return Err(excessive());
        }
        Ok(())
    }

    /// Goes into an alias for the time of `read`.
    fn aliased<T>(
        &mut self,
        alias: usize,
        read: impl FnOnce(&mut Self, usize) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let Content::Alias { name, target } = &self.nodes[alias].content else {
            return Err(excessive());
        };
        if self.inside.contains(&alias) {
            return Err(Error::Yaml(format!("anchor '{name}' value contains itself")));
        }
        if self.inside.len() >= MAX_DEPTH {
            return Err(Error::Yaml("exceeded max depth".to_owned()));
        }
        self.inside.push(alias);
        let result = read(self, *target);
        self.inside.pop();
        result
    }

    fn node(&mut self, id: usize) -> Result<Value, Error> {
        self.step()?;
        let nodes = self.nodes;
        let node = &nodes[id];
        let nests = matches!(node.content, Content::Sequence(_) | Content::Mapping(_));
        if self.typed && nests && self.depth >= MAX_DEPTH {
            self.cut = true;
            return Ok(Value::Null);
        }
        match &node.content {
            Content::Alias { .. } => self.aliased(id, |d, target| d.node(target)),
            Content::Scalar { value, implicit } => self.scalar(node, value, *implicit),
            Content::Sequence(children) => {
                self.enter()?;
                let items: Result<Vec<Value>, Error> = children.iter().map(|c| self.node(*c)).collect();
                self.depth -= 1;
                items.map(Value::Array)
            }
            Content::Mapping(children) => {
                self.enter()?;
                let mut members = Members::default();
                self.mapping(children, &mut members)?;
                self.depth -= 1;
                members.map.sort();
                Ok(Value::Object(members.map))
            }
        }
    }

    fn enter(&mut self) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Error::Yaml("exceeded max depth".to_owned()));
        }
        Ok(())
    }

    fn copied(&mut self, text: &str) -> Result<(), Error> {
        if !self.inside.is_empty() {
            self.aliased_bytes += text.len();
            if self.aliased_bytes > MAX_ALIASED_BYTES {
                return Err(excessive());
            }
        }
        Ok(())
    }

    fn resolved(&self, node: &Node, text: &str, implicit: bool) -> Result<Resolved, Error> {
        if node.tag.is_empty() && !implicit {
            return Ok(Resolved::Text);
        }
        resolve(&node.tag, text).map_err(Error::Yaml)
    }

    fn scalar(&mut self, node: &Node, text: &str, implicit: bool) -> Result<Value, Error> {
        self.copied(text)?;
        Ok(match self.resolved(node, text, implicit)? {
            Resolved::Null => Value::Null,
            Resolved::Bool(b) => Value::Bool(b),
            Resolved::Int(i) => Value::Int(i),
            Resolved::Uint(u) => Value::Float(u as f64),
            Resolved::Float(f) => number(f)?,
            Resolved::Binary => Value::String(binary(text)?),
            Resolved::Timestamp | Resolved::Merge | Resolved::Text => Value::String(text.to_owned()),
        })
    }

    fn mapping(&mut self, children: &'a [usize], members: &mut Members) -> Result<(), Error> {
        for pair in children.chunks_exact(2) {
            if self.is_merge(pair[0]) {
                self.merge(pair[1], members)?;
                continue;
            }
            let key = self.key(pair[0])?;
            let value = self.node(pair[1])?;
            if members.seen.insert(key.clone(), ()).is_some() && self.strict.len() < MAX_STRICT {
                let line = self.nodes[pair[1]].line + 1;
                self.strict
                    .push(format!("line {line}: key {} already set in map", key.shown()));
            }
            members.map.insert(key.text(), value);
        }
        Ok(())
    }

    fn key(&mut self, id: usize) -> Result<Key, Error> {
        self.step()?;
        let nodes = self.nodes;
        let node = &nodes[id];
        let (text, implicit) = match &node.content {
            Content::Alias { .. } => return self.aliased(id, |d, target| d.key(target)),
            Content::Scalar { value, implicit } => (value, *implicit),
            Content::Sequence(_) => return Err(Error::Yaml("invalid map key: []interface {}{}".to_owned())),
            Content::Mapping(_) => {
                return Err(Error::Yaml(
                    "invalid map key: map[interface {}]interface {}{}".to_owned(),
                ));
            }
        };
        self.copied(text)?;
        let unsupported = |ty: &str, shown: &str| {
            Error::Json(format!(
                "unsupported map key of type: {ty}, key: {shown}, value: interface {{}}(nil)"
            ))
        };
        Ok(match self.resolved(node, text, implicit)? {
            Resolved::Null => return Err(unsupported("%!s(<nil>)", "<nil>")),
            Resolved::Bool(b) => Key::Bool(b),
            Resolved::Int(i) => Key::Int(i),
            Resolved::Uint(u) => return Err(unsupported("uint64", &format!("{u:#x}"))),
            Resolved::Float(f) => Key::Float(f.to_bits()),
            Resolved::Binary => Key::Text(binary(text)?),
            Resolved::Timestamp | Resolved::Merge | Resolved::Text => Key::Text(text.clone()),
        })
    }

    fn is_merge(&self, id: usize) -> bool {
        let node = &self.nodes[id];
        matches!(&node.content, Content::Scalar { value, implicit }
            if value == "<<" && (*implicit || node.tag.strip_prefix(TAG_PREFIX) == Some("merge")))
    }

    /// Merges in place: what stands before is overridden, what comes after overrides.
    fn merge(&mut self, id: usize, members: &mut Members) -> Result<(), Error> {
        let nodes = self.nodes;
        match &nodes[id].content {
            Content::Sequence(items) => {
                // Earlier maps take precedence.
                for item in items.iter().rev() {
                    self.merge_one(*item, members)?;
                }
                Ok(())
            }
            _ => self.merge_one(id, members),
        }
    }

    fn merge_one(&mut self, id: usize, members: &mut Members) -> Result<(), Error> {
        self.step()?;
        let nodes = self.nodes;
        match &nodes[id].content {
            Content::Mapping(children) => {
                self.enter()?;
                self.mapping(children, members)?;
                self.depth -= 1;
                Ok(())
            }
            Content::Alias { target, .. } if matches!(nodes[*target].content, Content::Mapping(_)) => {
                self.aliased(id, |d, target| d.merge_one(target, members))
            }
            _ => Err(Error::Yaml(
                "map merge requires map or sequence of maps as the value".to_owned(),
            )),
        }
    }
}

/// A float as it comes back from JSON: an integer if it is written like one.
fn number(f: f64) -> Result<Value, Error> {
    if !f.is_finite() {
        let shown = if f.is_nan() {
            "NaN"
        } else if f > 0.0 {
            "+Inf"
        } else {
            "-Inf"
        };
        return Err(Error::Json(format!("json: unsupported value: {shown}")));
    }
    let text = json::to_string(&Value::Float(f));
    Ok(text.parse().map_or(Value::Float(f), Value::Int))
}

fn binary(text: &str) -> Result<String, Error> {
    let packed: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(packed)
        .map_err(|_| Error::Yaml("!!binary value contains invalid base64 data".to_owned()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
