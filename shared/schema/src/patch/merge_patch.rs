//! RFC 7386 (JSON merge patch) as kube-apiserver applies it (evanphx/json-patch v4): `null` deletes, objects merge,
//! everything else replaces; nulls of an added object are dropped, those inside a replacing list's objects stay.

use triptych_object::json::OddNumber;
use triptych_object::value::Object;
use triptych_object::{Status, StatusResult, Value};

use super::{Document, Reading, wrong_type};

/// A decoded merge patch.
#[derive(Clone, Debug)]
pub struct MergePatch {
    document: Value,
    findings: Vec<String>,
    numbers: Vec<OddNumber>,
}

impl MergePatch {
    /// Reads a patch document; 400 for what is none.
    pub fn decode(bytes: &[u8], reading: Reading) -> StatusResult<MergePatch> {
        let invalid = || Status::bad_request("Invalid JSON Patch");
        let document = Document::read(bytes, reading).map_err(|text| match reading {
            Reading::Strict => Status::bad_request(format!("error decoding patch: {text}")),
            Reading::Lenient => invalid(),
        })?;
        match (&document.value, reading) {
            (Value::Object(_), _) | (Value::Array(_), Reading::Lenient) => {}
            (Value::Null, _) | (_, Reading::Lenient) => return Err(invalid()),
            (other, Reading::Strict) => {
                let text = wrong_type(other, "map[string]interface {}");
                return Err(Status::bad_request(format!("error decoding patch: {text}")));
            }
        }
        Ok(MergePatch {
            document: document.value,
            findings: document.findings,
            numbers: document.numbers,
        })
    }

    /// Strict-decoding errors: `duplicate field "data.k"`.
    pub fn findings(&self) -> &[String] {
        &self.findings
    }

    /// Numbers that were written in another way than ours, at the paths where they end up.
    pub fn numbers(&self) -> &[OddNumber] {
        &self.numbers
    }

    /// Sorts the members of the objects that the patch looked into, as kube-apiserver's patch library leaves them.
    pub fn sort_touched(&self, document: &mut Value) {
        sort_touched(document, &self.document);
    }

    /// Changes `document`. A patch that is a list (lenient reading only) takes its place.
    pub fn apply(&self, document: &mut Value) {
        match (document, &self.document) {
            (Value::Object(map), Value::Object(patch)) => merge(map, patch),
            (document, patch) => *document = without_nulls(patch),
        }
    }
}

fn sort_touched(document: &mut Value, patch: &Value) {
    let (Value::Object(map), Value::Object(patch)) = (document, patch) else {
        return;
    };
    map.sort();
    for (key, value) in patch.iter() {
        if let Some(member) = map.get_mut(key) {
            sort_touched(member, value);
        }
    }
}

fn merge(target: &mut Object, patch: &Object) {
    for (key, value) in patch.iter() {
        if value.is_null() {
            target.remove(key);
            continue;
        }
        match (target.get_mut(key), value) {
            (Some(Value::Object(current)), Value::Object(value)) => merge(current, value),
            (Some(current @ Value::Object(_)), value) => *current = value.clone(),
            (Some(current), value) => *current = without_nulls(value),
            (None, value) => {
                target.insert(key, without_nulls(value));
            }
        }
    }
}

/// A copy without null members; null items of lists stay.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(_, v)| !v.is_null())
                .map(|(k, v)| (k.to_owned(), without_nulls(v)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_object::json;

    fn run(document: &str, patch: &str) -> String {
        let mut document = json::from_slice(document.as_bytes()).unwrap();
        MergePatch::decode(patch.as_bytes(), Reading::Strict)
            .unwrap()
            .apply(&mut document);
        json::to_string(&document)
    }

    #[test]
    fn null_deletes_objects_merge_and_the_rest_replaces() {
        let doc = r#"{"a":{"b":1,"c":2},"l":[1]}"#;
        for (patch, want) in [
            (r#"{"a":{"b":null}}"#, r#"{"a":{"c":2},"l":[1]}"#),
            (
                r#"{"a":{"d":{"x":null,"y":1}}}"#,
                r#"{"a":{"b":1,"c":2,"d":{"y":1}},"l":[1]}"#,
            ),
            (r#"{"a":[{"x":null}]}"#, r#"{"a":[{"x":null}],"l":[1]}"#),
            (r#"{"l":[{"x":null},null]}"#, r#"{"a":{"b":1,"c":2},"l":[{},null]}"#),
            (r#"{"l":null,"absent":null}"#, r#"{"a":{"b":1,"c":2}}"#),
            ("{}", doc),
        ] {
            assert_eq!(run(doc, patch), want, "{patch}");
        }
    }

    #[test]
    fn bad_documents_are_refused_with_gos_words() {
        let text = |patch: &str, reading| MergePatch::decode(patch.as_bytes(), reading).unwrap_err().message;
        for (patch, strict, lenient) in [
            ("null", "Invalid JSON Patch", "Invalid JSON Patch"),
            (
                "5",
                "error decoding patch: json: cannot unmarshal number into Go value of type map[string]interface {}",
                "Invalid JSON Patch",
            ),
            (
                "{",
                "error decoding patch: unexpected end of JSON input",
                "Invalid JSON Patch",
            ),
        ] {
            assert_eq!(text(patch, Reading::Strict), strict);
            assert_eq!(text(patch, Reading::Lenient), lenient);
        }
        assert!(MergePatch::decode(b"[]", Reading::Lenient).is_ok());
    }

    #[test]
    fn duplicate_fields_are_found() {
        let patch = MergePatch::decode(br#"{"data":{"k":"1","k":"2"}}"#, Reading::Strict).unwrap();
        assert_eq!(patch.findings(), [r#"duplicate field "data.k""#]);
    }
}
