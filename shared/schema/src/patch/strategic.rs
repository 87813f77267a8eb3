//! Strategic merge patch: a merge patch that knows the Go type it patches, so that lists merge by key.
//!
//! Contract: results, order of list items and error texts are those of k8s.io/apimachinery/pkg/util/strategicpatch with
//! `MergeParallelList` and `IgnoreUnmatchedNulls`, as the API server calls it. Directives: `$patch: delete|replace|merge`,
//! `$retainKeys`, `$deleteFromPrimitiveList/<list>`, `$setElementOrder/<list>`. Custom resources know no strategy: the
//! caller refuses their patches (415).
//!
//! Work is linear in patch and object: items are found through a map from merge key to position, where Go scans.

use std::collections::{HashMap, HashSet};

use triptych_object::field::quote;
use triptych_object::value::Object;
use triptych_object::{Status, StatusResult, Value};

use super::{Document, Reading, bad_argument, rejected, wrong_type};
use crate::go_text::{Numbers, plain, plain_list, type_name};
use crate::types::{Patch, PatchStrategy, Schema, Shape, TypeId};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// Why a patch does not apply; decides the HTTP code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The patch is malformed: 400.
    #[error("{0}")]
    Malformed(&'static str),
    /// Lists of lists: 422 without a reason.
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// Whatever Kubernetes answers as an unknown error: 500.
    #[error("{0}")]
    Other(String),
}

impl Error {
    /// The answer to the client.
    pub fn status(&self) -> Box<Status> {
        match self {
            Error::Malformed(text) => Status::bad_request(*text),
            Error::ListOfLists => rejected(),
            Error::Other(text) => Status::unknown(text.clone()),
        }
    }
}

const BAD_PRIMITIVE_LIST: Error = Error::Malformed("invalid patch format of primitive list");
const BAD_RETAIN_KEYS: Error = Error::Malformed("invalid patch format of retainKeys");
const BAD_ELEMENT_ORDER: Error = Error::Malformed("invalid patch format of setElementOrder list");

fn other<T>(text: impl Into<String>) -> Result<T, Error> {
    Err(Error::Other(text.into()))
}

/// A decoded strategic merge patch.
#[derive(Clone, Debug)]
pub struct StrategicPatch {
    document: Object,
    findings: Vec<String>,
}

impl StrategicPatch {
    /// Reads a patch document; 400 for what is none.
    pub fn decode(bytes: &[u8], reading: Reading) -> StatusResult<StrategicPatch> {
        let document = Document::read(bytes, reading).map_err(Status::bad_request)?;
        match document.value {
            Value::Object(map) => Ok(StrategicPatch {
                document: map,
                findings: document.findings,
            }),
            Value::Null => Ok(StrategicPatch {
                document: Object::new(),
                findings: document.findings,
            }),
            other => Err(Status::bad_request(wrong_type(&other, "map[string]interface {}"))),
        }
    }

    /// Strict-decoding errors: `duplicate field "data.k"`.
    pub fn findings(&self) -> &[String] {
        &self.findings
    }

    /// The patch as Go's `%+v` prints it, for `patch: Invalid value: "map[…]": …`.
    pub fn go_text(&self) -> String {
        plain(&Value::Object(self.document.clone()), Numbers::Integers)
    }

    /// Changes `document`, an object of type `ty`; on failure it is left half-changed.
    pub fn apply(&self, schema: &Schema, ty: TypeId, document: &mut Value) -> StatusResult<()> {
        let original = match std::mem::take(document) {
            Value::Object(map) => map,
            _ => Object::new(),
        };
        let merged = merge_map(original, &self.document, At { schema, ty }).map_err(|e| e.status())?;
        *document = Value::Object(merged);
        Ok(())
    }
}

/// A place in the type the patch follows.
#[derive(Clone, Copy)]
struct At<'s> {
    schema: &'s Schema,
    ty: TypeId,
}

impl<'s> At<'s> {
    fn shape(self) -> &'s Shape {
        &self.schema.get(self.ty).shape
    }

    /// Go's `reflect.Kind` of the type.
    fn kind(self) -> &'static str {
        match self.shape() {
            Shape::Bool => "bool",
            Shape::Int { bits: 32, .. } => "int32",
            Shape::Int { .. } | Shape::Duration => "int64",
            Shape::Float { .. } => "float64",
            Shape::String => "string",
            Shape::Map(_) => "map",
            Shape::List(_) | Shape::Bytes => "slice",
            _ => "struct",
        }
    }

    /// Type and patch markers of a member; finds names whatever their case, as Go does.
    fn member(self, name: &str) -> Result<(At<'s>, &'s Patch), Error> {
        let missing = || {
            let go_name = self.schema.go_name(self.ty);
            let go_name = go_name.rsplit('.').next().unwrap_or_default().to_owned();
            let name = quote(name);
            Error::Other(format!(
                "unable to find api field in struct {go_name} for the json field {name}"
            ))
        };
        match self.shape() {
            Shape::Struct(fields) => {
                let field = fields
                    .field(name)
                    .or_else(|| fields.fields.iter().find(|f| f.name.eq_ignore_ascii_case(name)))
                    .ok_or_else(missing)?;
                Ok((At { ty: field.ty, ..self }, field.patch()))
            }
            _ if self.kind() == "struct" => Err(missing()),
            _ => other(format!(
                "merging an object in json but data type is not struct, instead is: {}",
                self.kind()
            )),
        }
    }

    /// The same for a member that holds a list: the type is that of the items.
    fn list_member(self, name: &str) -> Result<(At<'s>, &'s Patch), Error> {
        let (member, patch) = self.member(name)?;
        match member.shape() {
            Shape::List(list) => {
                let item = At { ty: list.item, ..self };
                if item.kind() == "slice" {
                    other("unexpected slice of slice")
                } else {
                    Ok((item, patch))
                }
            }
            _ => other(format!("expected slice or array type, but got: {}", self.kind())),
        }
    }
}

fn merge_map(mut original: Object, patch: &Object, at: At<'_>) -> Result<Object, Error> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => Ok(patch
                .iter()
                .filter(|(k, _)| *k != DIRECTIVE)
                .map(|(k, v)| (k.to_owned(), v.clone()))
                .collect()),
            Some("delete") => Ok(Object::new()),
            _ => Err(unknown_directive(directive, patch)),
        };
    }
    retain_keys(&mut original, patch)?;
    let done = merge_ordered_lists(&mut original, patch, at)?;
    for (name, value) in patch.iter() {
        if name == RETAIN_KEYS || name.starts_with(SET_ORDER) || done.contains(name) {
            continue;
        }
        let (key, deletes) = match name.strip_prefix(DELETE_FROM) {
            Some(rest) => (rest.strip_prefix('/').ok_or(BAD_PRIMITIVE_LIST)?, true),
            None => (name, false),
        };
        merge_member(&mut original, key, value, deletes, at)?;
    }
    Ok(original)
}

fn unknown_directive(directive: &Value, patch: &Object) -> Error {
    let shown = match directive {
        Value::String(s) => s.clone(),
        odd => format!(
            "%!s({}={})",
            type_name(odd, Numbers::Integers),
            plain(odd, Numbers::Integers)
        ),
    };
    let map = plain(&Value::Object(patch.clone()), Numbers::Integers);
    Error::Other(format!("unknown patch type: {shown} in map: {map}"))
}

fn merge_member(original: &mut Object, key: &str, patch: &Value, deletes: bool, at: At<'_>) -> Result<(), Error> {
    if patch.is_null() {
        original.remove(key);
        return Ok(());
    }
    let merged = match (original.get_mut(key), patch) {
        (None, _) if deletes => return Ok(()),
        (Some(Value::Object(current)), Value::Object(patch)) => {
            let (member, markers) = at.member(key)?;
            match markers.strategy {
                PatchStrategy::Replace => Some(Value::Object(patch.clone())),
                _ => Some(Value::Object(merge_map(std::mem::take(current), patch, member)?)),
            }
        }
        (Some(Value::Array(current)), Value::Array(patch)) => {
            let (item, markers) = at.list_member(key)?;
            Some(Value::Array(merge_list_as(
                std::mem::take(current),
                patch,
                item,
                markers,
                deletes,
            )?))
        }
        (Some(current), patch) if same_scalar_type(current, patch) => strip_directives(patch, false),
        (Some(_), _) if deletes => return Ok(()),
        (_, patch) => strip_directives(patch, true),
    };
    match merged {
        Some(value) => {
            original.insert(key, value);
        }
        None => {
            original.remove(key);
        }
    }
    Ok(())
}

fn same_scalar_type(a: &Value, b: &Value) -> bool {
    !matches!(a, Value::Object(_) | Value::Array(_) | Value::Null)
        && std::mem::discriminant(a) == std::mem::discriminant(b)
}

/// A copy without anything that carries a `$patch` (none at all if it does itself) and, if asked, without null members.
fn strip_directives(value: &Value, nulls_too: bool) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => Some(Value::Object(
            map.iter()
                .filter(|(_, v)| !(nulls_too && v.is_null()))
                .filter_map(|(k, v)| Some((k.to_owned(), strip_directives(v, nulls_too)?)))
                .collect(),
        )),
        Value::Array(items) => Some(Value::Array(
            items
                .iter()
                .filter_map(|item| strip_directives(item, nulls_too))
                .collect(),
        )),
        scalar => Some(scalar.clone()),
    }
}

/// `$retainKeys`: drops members it does not list; every member of the patch must be listed.
fn retain_keys(original: &mut Object, patch: &Object) -> Result<(), Error> {
    let Some(directive) = patch.get(RETAIN_KEYS) else {
        return Ok(());
    };
    let kept: HashSet<&str> = directive
        .as_array()
        .ok_or(BAD_RETAIN_KEYS)?
        .iter()
        .filter_map(Value::as_str)
        .collect();
    for (name, value) in patch.iter() {
        let exempt =
            name == RETAIN_KEYS || value.is_null() || name.starts_with(DELETE_FROM) || name.starts_with(SET_ORDER);
        if !exempt && !kept.contains(name) {
            return Err(BAD_RETAIN_KEYS);
        }
    }
    original.retain(|name, _| kept.contains(name));
    Ok(())
}

/// Handles every `$setElementOrder/<list>` together with its list; returns the names of the patch's lists now merged.
fn merge_ordered_lists<'p>(original: &mut Object, patch: &'p Object, at: At<'_>) -> Result<HashSet<&'p str>, Error> {
    let mut done = HashSet::new();
    for (name, order) in patch.iter() {
        let Some(rest) = name.strip_prefix(SET_ORDER) else {
            continue;
        };
        let order = expect_list(order)?;
        let key = rest.strip_prefix('/').ok_or(BAD_ELEMENT_ORDER)?;
        let live = original.get(key).map(expect_list).transpose()?;
        let patched = patch.get(key).map(expect_list).transpose()?;
        let (item, markers) = at.list_member(key)?;
        let merge_key = markers.key.as_deref();
        check_order(patched.unwrap_or_default(), order, merge_key)?;
        let live_order: Vec<Value> = live.unwrap_or_default().to_vec();
        let merged = match (live.is_some(), patched) {
            (false, None) => continue,
            (true, None) => live_order.clone(),
            (false, Some(patched)) => patched.iter().filter_map(|v| strip_directives(v, false)).collect(),
            (true, Some(patched)) => merge_list_as(live_order.clone(), patched, item, markers, false)?,
        };
        let maps = element_kind(&[&live_order, patched.unwrap_or_default()])? == Kind::Map;
        let sorted = arrange(merged, order, &live_order, merge_key, maps)?;
        original.insert(key, Value::Array(sorted));
        done.extend(patch.keys().find(|name| *name == key));
    }
    Ok(done)
}

fn expect_list(value: &Value) -> Result<&[Value], Error> {
    value
        .as_array()
        .ok_or_else(|| Error::Other(bad_argument("[]interface {}", value)))
}

/// The items of the patch must stand in the order that `$setElementOrder` gives, and be part of it.
fn check_order(patch: &[Value], order: &[Value], merge_key: Option<&str>) -> Result<(), Error> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut wanted = order.iter();
    for item in patch {
        if merge_key.is_some() && item.as_object().is_none() {
            return other(bad_argument("map[string]interface {}", item));
        }
        if item.get(DIRECTIVE).is_some() {
            continue;
        }
        loop {
            let Some(next) = wanted.next() else {
                return other(format!(
                    "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
                    plain_list(patch, Numbers::Integers),
                    plain_list(order, Numbers::Integers)
                ));
            };
            let equal = match merge_key {
                Some(key) => key_of(item, key)? == key_of(next, key)?,
                None => item == next,
            };
            if equal {
                break;
            }
        }
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Map,
    Scalar,
}

/// All items must have one type, which may not be a list.
fn element_kind(lists: &[&[Value]]) -> Result<Kind, Error> {
    let mismatch = || {
        let lists: Vec<String> = lists.iter().map(|list| plain_list(list, Numbers::Integers)).collect();
        other(format!("list element types are not identical: [{}]", lists.join(" ")))
    };
    let mut items = lists.iter().flat_map(|list| list.iter());
    let Some(first) = items.next() else {
        return other("no elements in any of the given slices");
    };
    match first {
        Value::Array(_) => return Err(Error::ListOfLists),
        Value::Null => return mismatch(),
        _ => {}
    }
    if items.any(|item| std::mem::discriminant(item) != std::mem::discriminant(first)) {
        return mismatch();
    }
    Ok(if matches!(first, Value::Object(_)) {
        Kind::Map
    } else {
        Kind::Scalar
    })
}

fn merge_list_as(
    live: Vec<Value>,
    patch: &[Value],
    item: At<'_>,
    markers: &Patch,
    deletes: bool,
) -> Result<Vec<Value>, Error> {
    if markers.strategy.merges() || deletes {
        merge_list(live, patch, item, markers.key.as_deref(), deletes)
    } else {
        Ok(patch.to_vec())
    }
}

fn merge_list(
    live: Vec<Value>,
    patch: &[Value],
    item: At<'_>,
    merge_key: Option<&str>,
    deletes: bool,
) -> Result<Vec<Value>, Error> {
    if live.is_empty() && patch.is_empty() {
        return Ok(live);
    }
    if element_kind(&[&live, patch])? == Kind::Scalar {
        if deletes {
            let gone: HashSet<Key<'_>> = patch.iter().filter_map(Key::of).collect();
            return Ok(live
                .into_iter()
                .filter(|v| !Key::of(v).is_some_and(|key| gone.contains(&key)))
                .collect());
        }
        let merged = without_duplicates(live.iter().chain(patch));
        return arrange(merged, patch, &live, merge_key, false);
    }
    let Some(merge_key) = merge_key else {
        return other(format!("cannot merge lists without merge key for {}", item.kind()));
    };
    let special = apply_special_items(live, patch, merge_key)?;
    let merged = merge_items(special.live.clone(), &special.patch, item, merge_key)?;
    arrange_maps(merged, &special.patch, &special.live, merge_key)
}

/// Live and patch items after the items with `$patch` were taken out of the patch and heeded.
struct Special<'p> {
    live: Vec<Value>,
    patch: Vec<&'p Value>,
}

fn apply_special_items<'p>(live: Vec<Value>, patch: &'p [Value], merge_key: &str) -> Result<Special<'p>, Error> {
    let mut plain_items = Vec::new();
    let mut deleted = HashSet::new();
    let mut replace = false;
    for item in patch {
        let Some(map) = item.as_object() else { continue };
        match map.get(DIRECTIVE) {
            None => plain_items.push(item),
            Some(Value::String(directive)) if directive == "delete" => {
                deleted.extend(Key::of(key_of(item, merge_key)?));
            }
            Some(Value::String(directive)) if directive == "replace" => replace = true,
            Some(Value::String(directive)) if directive == "merge" => {
                return other("merging lists cannot yet be specified in the patch");
            }
            Some(odd) => return Err(unknown_directive(odd, map)),
        }
    }
    if replace {
        let live = plain_items.into_iter().cloned().collect();
        return Ok(Special {
            live,
            patch: Vec::new(),
        });
    }
    let mut live = live;
    if !deleted.is_empty() {
        live.retain(|item| {
            !item
                .get(merge_key)
                .and_then(Key::of)
                .is_some_and(|key| deleted.contains(&key))
        });
    }
    Ok(Special {
        live,
        patch: plain_items,
    })
}

fn merge_items(mut live: Vec<Value>, patch: &[&Value], item: At<'_>, merge_key: &str) -> Result<Vec<Value>, Error> {
    let mut position: HashMap<OwnedKey, usize> = HashMap::with_capacity(live.len());
    for (i, item) in live.iter().enumerate() {
        if let Some(key) = item.get(merge_key).and_then(OwnedKey::of) {
            position.entry(key).or_insert(i);
        }
    }
    for patch in patch {
        let Value::Object(map) = patch else { continue };
        let key = OwnedKey::of(key_of(patch, merge_key)?);
        match key
            .as_ref()
            .and_then(|key| position.get(key))
            .and_then(|i| live.get_mut(*i))
        {
            Some(found) => {
                let Value::Object(current) = std::mem::take(found) else {
                    continue;
                };
                *found = Value::Object(merge_map(current, map, item)?);
            }
            None => {
                if let Some(key) = key {
                    position.insert(key, live.len());
                }
                live.push((*patch).clone());
            }
        }
    }
    Ok(live)
}

/// The merge key of a map; its absence is an error that shows the map.
fn key_of<'v>(item: &'v Value, merge_key: &str) -> Result<&'v Value, Error> {
    let map = item
        .as_object()
        .ok_or_else(|| Error::Other(bad_argument("map[string]interface {}", item)))?;
    map.get(merge_key).ok_or_else(|| {
        let shown = plain(item, Numbers::Integers);
        Error::Other(format!("map: {shown} does not contain declared merge key: {merge_key}"))
    })
}

fn without_duplicates<'v>(items: impl Iterator<Item = &'v Value>) -> Vec<Value> {
    let mut seen = HashSet::new();
    items
        .filter(|v| Key::of(v).is_none_or(|key| seen.insert(key)))
        .cloned()
        .collect()
}

fn arrange(
    merged: Vec<Value>,
    order: &[Value],
    live: &[Value],
    merge_key: Option<&str>,
    maps: bool,
) -> Result<Vec<Value>, Error> {
    match merge_key {
        Some(key) if maps => arrange_maps(merged, &order.iter().collect::<Vec<_>>(), live, key),
        _ => {
            let order = ranks(order.iter(), Some);
            let live = ranks(live.iter(), Some);
            Ok(interleave(merged, |v| Some(v), &order, &live))
        }
    }
}

fn arrange_maps(merged: Vec<Value>, order: &[&Value], live: &[Value], merge_key: &str) -> Result<Vec<Value>, Error> {
    for item in merged.iter().chain(order.iter().copied()).chain(live) {
        key_of(item, merge_key)?;
    }
    let (deleted, merged): (Vec<_>, Vec<_>) = merged
        .into_iter()
        .partition(|item| item.get(DIRECTIVE).and_then(Value::as_str) == Some("delete"));
    let order = ranks(order.iter().copied(), |v| v.get(merge_key));
    let live = ranks(live.iter(), |v| v.get(merge_key));
    let mut all = interleave(merged, |v| v.get(merge_key), &order, &live);
    all.extend(deleted);
    Ok(all)
}

type Ranks<'v> = HashMap<Key<'v>, usize>;

fn ranks<'v>(items: impl Iterator<Item = &'v Value>, key: impl Fn(&'v Value) -> Option<&'v Value>) -> Ranks<'v> {
    let mut ranks = HashMap::new();
    for (i, item) in items.enumerate() {
        if let Some(key) = key(item).and_then(Key::of) {
            ranks.entry(key).or_insert(i);
        }
    }
    ranks
}

/// Puts items that the patch orders into that order, the others into the live order, and then both together: an item
/// only the server knows stands before the first patch item that comes after it in the live list.
fn interleave(
    merged: Vec<Value>,
    key: impl Fn(&Value) -> Option<&Value>,
    order: &Ranks<'_>,
    live: &Ranks<'_>,
) -> Vec<Value> {
    let rank = |item: &Value, ranks: &Ranks<'_>| key(item).and_then(Key::of).and_then(|k| ranks.get(&k).copied());
    let (mut ordered, mut rest): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| rank(item, order).is_some());
    ordered.sort_by_cached_key(|item| rank(item, order));
    rest.sort_by_cached_key(|item| rank(item, live));
    let mut all = Vec::with_capacity(ordered.len() + rest.len());
    let (mut left, mut right) = (rest.into_iter().peekable(), ordered.into_iter().peekable());
    loop {
        let from_left = match (left.peek(), right.peek()) {
            (Some(l), Some(r)) => match (rank(l, live), rank(r, live)) {
                (Some(l), Some(r)) => l < r,
                _ => false,
            },
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => return all,
        };
        all.extend(if from_left { left.next() } else { right.next() });
    }
}

/// A scalar that can be looked up; lists and maps equal nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key<'v> {
    Bool(bool),
    Int(i64),
    Float(u64),
    Text(&'v str),
}

impl<'v> Key<'v> {
    fn of(value: &'v Value) -> Option<Key<'v>> {
        match value {
            Value::Bool(b) => Some(Key::Bool(*b)),
            Value::Int(i) => Some(Key::Int(*i)),
            Value::Float(f) => Some(Key::Float(f.to_bits())),
            Value::String(s) => Some(Key::Text(s)),
            _ => None,
        }
    }
}

/// The same, for a map that outlives the items it was made from.
#[derive(PartialEq, Eq, Hash)]
enum OwnedKey {
    Bool(bool),
    Int(i64),
    Float(u64),
    Text(String),
}

impl OwnedKey {
    fn of(value: &Value) -> Option<OwnedKey> {
        Key::of(value).map(|key| match key {
            Key::Bool(b) => OwnedKey::Bool(b),
            Key::Int(i) => OwnedKey::Int(i),
            Key::Float(f) => OwnedKey::Float(f),
            Key::Text(s) => OwnedKey::Text(s.to_owned()),
        })
    }
}

#[cfg(test)]
#[path = "strategic_tests.rs"]
mod tests;
