//! RFC 6902 as kube-apiserver applies it (evanphx/json-patch v4), deviations from the RFC included: negative indices
//! count from the end, `replace` of an absent member adds it, `test` of an absent member passes for `null`, the text
//! before the first `/` of a path is ignored.
//!
//! A patch that fails is answered with a text that does not say why, so no reasons are kept.

use triptych_object::json::{self, OddNumber};
use triptych_object::value::Object;
use triptych_object::{Status, StatusResult, Value};

use super::{Document, Reading, rejected, wrong_type};

/// A JSON patch may have no more operations.
pub const MAX_OPERATIONS: usize = 10_000;

/// All copies of one patch together may add no more bytes of JSON.
pub const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// All operations of one patch together may shift no more list items.
const MAX_SHIFTED_ITEMS: usize = 100_000_000;

/// What one patch has cost so far.
#[derive(Default)]
struct Cost {
    copied_bytes: usize,
    shifted_items: usize,
}

impl Cost {
    fn copy(&mut self, value: &Value) -> Outcome<()> {
        if !value.is_null() {
            self.copied_bytes += json::to_vec(value).len();
        }
        if self.copied_bytes > MAX_COPIED_BYTES {
            Err(Mismatch::Other)
        } else {
            Ok(())
        }
    }

    fn shift(&mut self, items: usize) -> Outcome<()> {
        self.shifted_items += items;
        if self.shifted_items > MAX_SHIFTED_ITEMS {
            Err(Mismatch::Other)
        } else {
            Ok(())
        }
    }
}

/// A decoded JSON patch.
#[derive(Clone, Debug)]
pub struct JsonPatch {
    operations: Vec<Value>,
    findings: Vec<String>,
    numbers: Vec<OddNumber>,
}

/// A patch that does not fit a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// Why.
    pub text: String,
    /// It is a test that failed.
    pub test_failed: bool,
}

/// Why an operation does not fit a document.
#[derive(Debug)]
enum Mismatch {
    /// Nothing stands where the path leads.
    Missing,
    /// Nothing of this name can be taken away.
    Nonexistent(String),
    /// A list has no such place.
    Index(i64),
    /// What stands there is something else.
    Different,
    /// The operation itself makes no sense, or costs too much.
    Other,
}

impl Mismatch {
    /// The JSON patch library's text.
    fn text(&self, operation: &Value) -> String {
        let op = operation.str_at(&["op"]);
        let path = match (op, self) {
            // the library shows the last part of where it was to be taken from
            ("move", Mismatch::Nonexistent(_) | Mismatch::Index(_)) => {
                operation.str_at(&["from"]).rsplit('/').next().unwrap_or_default()
            }
            _ => operation.str_at(&["path"]),
        };
        match (op, self) {
            ("test", Mismatch::Different) => format!("testing value {path} failed: test failed"),
            ("test", Mismatch::Missing) => {
                format!("test operation does not apply: is missing path: {path}: missing value")
            }
            ("add", Mismatch::Missing) => {
                let path = triptych_object::field::quote(path);
                format!("add operation does not apply: doc is missing path: {path}: missing value")
            }
            ("move" | "copy", Mismatch::Missing) => {
                let from = operation.str_at(&["from"]);
                format!("{op} operation does not apply: doc is missing from path: {from}: missing value")
            }
            (_, Mismatch::Missing) => {
                format!("{op} operation does not apply: doc is missing path: {path}: missing value")
            }
            (_, Mismatch::Nonexistent(key)) => {
                format!("error in {op} for path: '{path}': Unable to remove nonexistent key: {key}: missing value")
            }
            (_, Mismatch::Index(index)) => format!(
                "error in {op} for path: '{path}': Unable to access invalid index: {index}: invalid index referenced"
            ),
            (_, Mismatch::Different | Mismatch::Other) => format!("Unexpected kind: {op}"),
        }
    }
}

type Outcome<T> = Result<T, Mismatch>;

impl JsonPatch {
    /// Reads a patch document: 400 for what is no list of operations, 413 for too many.
    pub fn decode(bytes: &[u8], reading: Reading) -> StatusResult<JsonPatch> {
        let refuse = |text: String| match reading {
            Reading::Strict => Status::bad_request(format!("error decoding patch: {text}")),
            Reading::Lenient => Status::bad_request(text),
        };
        let document = Document::read(bytes, reading).map_err(refuse)?;
        let (list_type, item_type) = match reading {
            Reading::Strict => ("[]handlers.jsonPatchOp", "handlers.jsonPatchOp"),
            Reading::Lenient => ("jsonpatch.Patch", "jsonpatch.Operation"),
        };
        let operations = match document.value {
            Value::Array(operations) => operations,
            Value::Null => Vec::new(),
            other => return Err(refuse(wrong_type(&other, list_type))),
        };
        let mut findings = Vec::new();
        for (i, operation) in operations.iter().enumerate() {
            match operation {
                Value::Object(members) if reading == Reading::Strict => {
                    check_members(i, members, &mut findings).map_err(refuse)?;
                }
                Value::Object(_) | Value::Null => {}
                other => return Err(refuse(wrong_type(other, item_type))),
            }
        }
        findings.extend(document.findings);
        findings
            .iter_mut()
            .for_each(|finding| finding.insert_str(0, "json patch "));
        if operations.len() > MAX_OPERATIONS {
            return Err(Status::too_large(format!(
                "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                operations.len()
            )));
        }
        let numbers = document.numbers.iter().filter_map(|n| placed(n, &operations)).collect();
        Ok(JsonPatch {
            operations,
            findings,
            numbers,
        })
    }

    /// Numbers that were written in another way than ours, at the paths where they end up unless later operations move
    /// them.
    pub fn numbers(&self) -> &[OddNumber] {
        &self.numbers
    }

    /// Strict-decoding errors: `json patch unknown field "[0].extra"`.
    pub fn findings(&self) -> &[String] {
        &self.findings
    }

    /// Sorts the members of the objects that operations went through, as kube-apiserver's patch library leaves them.
    pub fn sort_touched(&self, document: &mut Value) {
        for operation in &self.operations {
            for path in ["path", "from"] {
                let mut at = &mut *document;
                if let Value::Object(map) = at {
                    map.sort();
                }
                for token in operation.str_at(&[path]).split('/').skip(1) {
                    let token = token.replace("~1", "/").replace("~0", "~");
                    let next = match at {
                        Value::Object(map) => map.get_mut(&token),
                        Value::Array(items) => token.parse::<usize>().ok().and_then(|i| items.get_mut(i)),
                        _ => None,
                    };
                    let Some(next) = next else { break };
                    at = next;
                    if let Value::Object(map) = at {
                        map.sort();
                    }
                }
            }
        }
    }

    /// Changes `document`; on failure (422) it is left half-changed.
    pub fn apply(&self, document: &mut Value) -> StatusResult<()> {
        self.try_apply(document).map_err(|_| rejected())
    }

    /// The same; an error says which operation does not fit, in the words of the library that Kubernetes uses.
    pub fn try_apply(&self, document: &mut Value) -> Result<(), Unfit> {
        let mut cost = Cost::default();
        for operation in &self.operations {
            apply_one(document, operation, &mut cost).map_err(|mismatch| Unfit {
                test_failed: matches!(mismatch, Mismatch::Different),
                text: mismatch.text(operation),
            })?;
        }
        Ok(())
    }

    /// Of operations at hand, each an object.
    pub fn of(operations: Vec<Value>) -> JsonPatch {
        JsonPatch {
            operations,
            findings: Vec::new(),
            numbers: Vec::new(),
        }
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }
}

/// A number of an operation's value, at the path to which the operation puts it.
fn placed(number: &OddNumber, operations: &[Value]) -> Option<OddNumber> {
    let (index, within) = number.path.strip_prefix('[')?.split_once("].value")?;
    let operation = operations.get(index.parse::<usize>().ok()?)?;
    let mut path = String::new();
    for token in operation.str_at(&["path"]).split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        if token.bytes().all(|b| b.is_ascii_digit()) {
            path.push_str(&format!("[{token}]"));
        } else {
            path.push_str(if path.is_empty() { "" } else { "." });
            path.push_str(&token);
        }
    }
    path.push_str(within);
    Some(OddNumber {
        path,
        text: number.text.clone(),
    })
}

/// What strict decoding of one operation finds; an error for a member of the wrong type.
fn check_members(index: usize, members: &Object, findings: &mut Vec<String>) -> Result<(), String> {
    for (name, value) in members.iter() {
        match (name, value) {
            ("op" | "path" | "from", Value::String(_) | Value::Null) | ("value", _) => {}
            ("op" | "path" | "from", other) => {
                return Err(format!(
                    "json: cannot unmarshal {} into Go struct field jsonPatchOp.{name} of type string",
                    other.type_name()
                ));
            }
            _ => findings.push(format!("unknown field \"[{index}].{name}\"")),
        }
    }
    Ok(())
}

fn apply_one(document: &mut Value, operation: &Value, cost: &mut Cost) -> Outcome<()> {
    let text = |member: &str| operation.get(member).and_then(Value::as_str).ok_or(Mismatch::Other);
    let value = || operation.get("value").cloned().unwrap_or_default();
    match text("op")? {
        "add" => Place::find(document, text("path")?)?.add(value(), cost),
        "remove" => Place::find(document, text("path")?)?.remove(cost).map(drop),
        "replace" => match text("path")? {
            "" => match value() {
                whole @ (Value::Object(_) | Value::Array(_)) => {
                    *document = whole;
                    Ok(())
                }
                _ => Err(Mismatch::Other),
            },
            path => Place::find(document, path)?.replace(value()),
        },
        "move" => {
            let moved = Place::find(document, text("from")?)?.remove(cost)?;
            Place::find(document, text("path")?)?.add(moved, cost)
        }
        "copy" => {
            let source = Place::find(document, text("from")?)?
                .get()?
                .cloned()
                .unwrap_or_default();
            let target = Place::find(document, text("path")?)?;
            cost.copy(&source)?;
            target.add(source, cost)
        }
        "test" => {
            let path = text("path")?;
            let expected = operation.get("value").unwrap_or(&Value::Null);
            let found = match path {
                "" => Some(&*document),
                path => Place::find(document, path)?.get()?,
            };
            if found.unwrap_or(&Value::Null) == expected {
                Ok(())
            } else {
                Err(Mismatch::Different)
            }
        }
        _ => Err(Mismatch::Other),
    }
}

/// Where a path points to: a container and the last part of the path.
enum Place<'a> {
    Member(&'a mut Object, String),
    Item(&'a mut Vec<Value>, String),
}

impl<'a> Place<'a> {
    fn find(document: &'a mut Value, path: &str) -> Outcome<Place<'a>> {
        let mut parts = path.split('/').skip(1).map(unescape);
        let mut last = parts.next().ok_or(Mismatch::Missing)?;
        let mut here = document;
        for part in parts {
            here = match here {
                Value::Object(map) => map.get_mut(&last).ok_or(Mismatch::Missing)?,
                Value::Array(items) => {
                    let at = index(&last, items.len()).map_err(|_| Mismatch::Missing)?;
                    &mut items[at]
                }
                _ => return Err(Mismatch::Missing),
            };
            last = part;
        }
        match here {
            Value::Object(map) => Ok(Place::Member(map, last)),
            Value::Array(items) => Ok(Place::Item(items, last)),
            _ => Err(Mismatch::Missing),
        }
    }

    fn get(self) -> Outcome<Option<&'a Value>> {
        match self {
            Place::Member(map, key) => Ok(map.get(&key)),
            Place::Item(items, key) => {
                let at = index(&key, items.len())?;
                Ok(Some(&items[at]))
            }
        }
    }

    fn add(self, value: Value, cost: &mut Cost) -> Outcome<()> {
        match self {
            Place::Member(map, key) => {
                map.insert(key, value);
            }
            Place::Item(items, key) if key == "-" => items.push(value),
            Place::Item(items, key) => {
                let at = index(&key, items.len() + 1)?;
                cost.shift(items.len() - at)?;
                items.insert(at, value);
            }
        }
        Ok(())
    }

    fn replace(self, value: Value) -> Outcome<()> {
        match self {
            Place::Member(map, key) => {
                map.insert(key, value);
            }
            Place::Item(items, key) => {
                let at = index(&key, items.len())?;
                items[at] = value;
            }
        }
        Ok(())
    }

    fn remove(self, cost: &mut Cost) -> Outcome<Value> {
        match self {
            Place::Member(map, key) => map.remove(&key).ok_or(Mismatch::Nonexistent(key)),
            Place::Item(items, key) => {
                let at = index(&key, items.len())?;
                cost.shift(items.len() - at)?;
                Ok(items.remove(at))
            }
        }
    }
}

/// Go's `strconv.Atoi`, then: a negative index counts from the end of `length`.
fn index(text: &str, length: usize) -> Outcome<usize> {
    let n: i64 = text.parse().map_err(|_| Mismatch::Missing)?;
    let length = length as i64;
    let at = if n < 0 { n + length } else { n };
    if (0..length).contains(&at) {
        Ok(at as usize)
    } else {
        Err(Mismatch::Index(n))
    }
}

fn unescape(part: &str) -> String {
    if part.contains('~') {
        part.replace("~1", "/").replace("~0", "~")
    } else {
        part.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(document: &str, patch: &str) -> Option<String> {
        let mut document = json::from_slice(document.as_bytes()).unwrap();
        let patch = JsonPatch::decode(patch.as_bytes(), Reading::Strict).unwrap();
        patch.apply(&mut document).ok().map(|()| json::to_string(&document))
    }

    fn one(document: &str, operation: &str) -> Option<String> {
        run(document, &format!("[{operation}]"))
    }

    #[test]
    fn members_and_items_are_added_replaced_and_removed() {
        let doc = r#"{"a":{"k":"v"},"l":[1,2]}"#;
        let cases = [
            (
                r#"{"op":"add","path":"/a/n","value":1}"#,
                Some(r#"{"a":{"k":"v","n":1},"l":[1,2]}"#),
            ),
            (
                r#"{"op":"add","path":"/a/n"}"#,
                Some(r#"{"a":{"k":"v","n":null},"l":[1,2]}"#),
            ),
            (
                r#"{"op":"replace","path":"/a/absent","value":1}"#,
                Some(r#"{"a":{"k":"v","absent":1},"l":[1,2]}"#),
            ),
            (r#"{"op":"remove","path":"/a/absent"}"#, None),
            (r#"{"op":"add","path":"/b/c","value":1}"#, None),
            (
                r#"{"op":"add","path":"/l/-","value":3}"#,
                Some(r#"{"a":{"k":"v"},"l":[1,2,3]}"#),
            ),
            (
                r#"{"op":"add","path":"/l/2","value":3}"#,
                Some(r#"{"a":{"k":"v"},"l":[1,2,3]}"#),
            ),
            (r#"{"op":"add","path":"/l/3","value":3}"#, None),
            (
                r#"{"op":"add","path":"/l/-1","value":3}"#,
                Some(r#"{"a":{"k":"v"},"l":[1,2,3]}"#),
            ),
            (
                r#"{"op":"add","path":"/l/-3","value":3}"#,
                Some(r#"{"a":{"k":"v"},"l":[3,1,2]}"#),
            ),
            (
                r#"{"op":"add","path":"/l/01","value":3}"#,
                Some(r#"{"a":{"k":"v"},"l":[1,3,2]}"#),
            ),
            (r#"{"op":"remove","path":"/l/-1"}"#, Some(r#"{"a":{"k":"v"},"l":[1]}"#)),
            (r#"{"op":"remove","path":"/l/-"}"#, None),
            (r#"{"op":"replace","path":"/l/2","value":1}"#, None),
            (r#"{"op":"add","path":"","value":{}}"#, None),
            (r#"{"op":"replace","path":"","value":{"x":1}}"#, Some(r#"{"x":1}"#)),
            (
                r#"{"op":"move","from":"/l/1","path":"/l/0"}"#,
                Some(r#"{"a":{"k":"v"},"l":[2,1]}"#),
            ),
            (
                r#"{"op":"copy","from":"/a","path":"/b"}"#,
                Some(r#"{"a":{"k":"v"},"l":[1,2],"b":{"k":"v"}}"#),
            ),
            (r#"{"op":"odd","path":"/b"}"#, None),
            ("{}", None),
            ("null", None),
        ];
        for (operation, want) in cases {
            assert_eq!(one(doc, operation).as_deref(), want, "{operation}");
        }
    }

    #[test]
    fn a_test_compares_without_regard_to_member_order() {
        let doc = r#"{"a":{"k":"v","x":1}}"#;
        assert!(one(doc, r#"{"op":"test","path":"/a","value":{"x":1,"k":"v"}}"#).is_some());
        assert!(one(doc, r#"{"op":"test","path":"/a","value":{"k":"v"}}"#).is_none());
        assert!(one(doc, r#"{"op":"test","path":"/absent","value":null}"#).is_some());
        assert!(one(doc, r#"{"op":"test","path":"/absent","value":1}"#).is_none());
    }

    #[test]
    fn slashes_and_tildes_are_escaped_in_paths() {
        let doc = r#"{"a/b":1,"c~1":2}"#;
        assert_eq!(
            one(doc, r#"{"op":"remove","path":"/a~1b"}"#).as_deref(),
            Some(r#"{"c~1":2}"#)
        );
        assert_eq!(
            one(doc, r#"{"op":"remove","path":"/c~01"}"#).as_deref(),
            Some(r#"{"a/b":1}"#)
        );
    }

    #[test]
    fn copies_are_bounded_together() {
        let doc = format!(r#"{{"a":"{}"}}"#, "x".repeat(1024 * 1024));
        let copies = |n: usize| {
            let ops: Vec<_> = (0..n)
                .map(|i| format!(r#"{{"op":"copy","from":"/a","path":"/{i}"}}"#))
                .collect();
            format!("[{}]", ops.join(","))
        };
        assert!(run(&doc, &copies(2)).is_some());
        assert!(run(&doc, &copies(3)).is_none());
    }

    #[test]
    fn shifting_large_lists_is_bounded() {
        let doc = format!(r#"{{"l":[{}0]}}"#, "0,".repeat(20_000));
        let removals = |n: usize| format!("[{}]", vec![r#"{"op":"remove","path":"/l/0"}"#; n].join(","));
        assert!(run(&doc, &removals(1_000)).is_some());
        assert!(run(&doc, &removals(9_000)).is_none());
    }

    #[test]
    fn bad_documents_are_refused_with_gos_words() {
        let text = |patch: &str, reading| JsonPatch::decode(patch.as_bytes(), reading).unwrap_err().message;
        assert_eq!(
            text("{}", Reading::Strict),
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        );
        assert_eq!(
            text("{}", Reading::Lenient),
            "json: cannot unmarshal object into Go value of type jsonpatch.Patch"
        );
        assert_eq!(
            text(r#"[{"op":1}]"#, Reading::Strict),
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"
        );
        let many = format!("[{}{{}}]", "{},".repeat(MAX_OPERATIONS));
        assert_eq!(
            text(&many, Reading::Strict),
            "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
        );
    }

    #[test]
    fn strict_reading_finds_unknown_and_duplicate_fields() {
        let patch = r#"[{"op":"add","extra":1,"path":"/a","path":"/b","value":1}]"#;
        let patch = JsonPatch::decode(patch.as_bytes(), Reading::Strict).unwrap();
        assert_eq!(
            patch.findings(),
            [
                r#"json patch unknown field "[0].extra""#,
                r#"json patch duplicate field "[0].path""#
            ]
        );
    }
}
