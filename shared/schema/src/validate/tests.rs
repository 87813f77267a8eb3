//! Custom resources of the recorded stories, and cases beside them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use triptych_object::json;

use super::*;
use crate::custom::{Coercion, coerce};
use crate::decode::{StrictError, strict_text};
use crate::structural::{Structural, apply_defaults};
use crate::types::Schema;

/// The types that CRDs stand on.
fn base() -> Arc<Schema> {
    use std::sync::OnceLock;
    static BASE: OnceLock<Arc<Schema>> = OnceLock::new();
    BASE.get_or_init(|| {
        let text = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("text");
        let sources = triptych_schema_compiler::read(&[text]).unwrap();
        let bytes = triptych_schema_compiler::compile(&sources).unwrap_or_else(|p| panic!("{p}"));
        Arc::new(crate::Table::load(bytes.leak()).unwrap().schema)
    })
    .clone()
}

fn import(schema: &str) -> Structural {
    Structural::import(base(), &json::from_slice(schema.as_bytes()).unwrap())
}

fn errors(schema: &str, value_text: &str) -> Vec<String> {
    let s = import(schema);
    let v = json::from_slice(value_text.as_bytes()).unwrap();
    value(&s.schema, s.root, &v, None, None)
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn what_did_not_change_is_not_held_against_the_object() {
    let s = import(
        r#"{"type":"object","properties":{"a":{"type":"string","maxLength":2},"l":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","properties":{"k":{"type":"string"},"n":{"type":"integer","minimum":5}}}}}}"#,
    );
    let parse = |text: &str| json::from_slice(text.as_bytes()).unwrap();
    let old = parse(r#"{"a":"long","l":[{"k":"x","n":1},{"k":"y","n":2}]}"#);
    let check = |new: &str| -> Vec<String> {
        value(&s.schema, s.root, &parse(new), Some(&old), None)
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    assert_eq!(
        check(r#"{"a":"long","l":[{"k":"y","n":2},{"k":"x","n":1}]}"#),
        Vec::<String>::new()
    );
    assert_eq!(
        check(r#"{"a":"longer","l":[{"k":"x","n":3},{"k":"y","n":2}]}"#),
        [
            "a: Too long: may not be more than 2 bytes",
            "l[0].n: Invalid value: 3: l[0].n in body should be greater than or equal to 5"
        ]
    );
}

#[test]
fn deep_alternatives_report_the_one_that_matched_best() {
    let schema = r#"{"type":"object","properties":{"f":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"anyOf":[{"required":["c"]},{"properties":{"a":{"minimum":3}}}]}}}"#;
    assert_eq!(
        errors(schema, r#"{"f":{"a":1}}"#),
        [
            r#"<nil>: Invalid value: "": "f" must validate at least one schema (anyOf)"#,
            "f.a: Invalid value: 1: f.a in body should be greater than or equal to 3"
        ]
    );
    assert_eq!(errors(schema, r#"{"f":{"a":3}}"#), Vec::<String>::new());
}

#[test]
fn formats_accept_what_go_accepts() {
    for (format, good, bad) in [
        (
            "uri",
            &["http://a/b", "/a", "mailto:x", "http://[::1]:80/"][..],
            &["", "a b", "a", "http://a:b/", "/%zz"][..],
        ),
        (
            "email",
            &["a@b", "A B <a.b@c.d>", "\"x y\"@b"],
            &["a", "a@", "@b", "a..b@c"],
        ),
        ("hostname", &["a", "a.example.com", "a-b"], &["a-b.c", "", "-a"]),
        (
            "mac",
            &["01:23:45:67:89:ab", "0123.4567.89ab"],
            &["01:23", "0123456789ab"],
        ),
        (
            "uuid",
            &[
                "0FD7B6C4-5A3E-4A7B-9F62-1B2C3D4E5F60",
                "0fd7b6c45a3e4a7b9f621b2c3d4e5f60",
            ],
            &["x", "0fd7b6c4-5a3e4a7b-9f62-1b2c3d4e5f6"],
        ),
        ("creditcard", &["4111-1111-1111-1111"], &["4111-1111-1111-1112"]),
        ("isbn", &["0321751043", "978-0321751041"], &["123", "0321751044"]),
        ("byte", &["YQ=="], &["YQ", ""]),
        ("date", &["2024-02-29"], &["2023-02-29", "2024-1-1"]),
        (
            "date-time",
            &["2024-02-29T12:00:00Z", "2024-02-29t12:00:00.5+01:00"],
            &["2024-02-29", "2024-02-29T24:00:00Z"],
        ),
        ("duration", &["1h", "3 days", "22 ns"], &["abc", "1"]),
        ("rgbcolor", &["rgb(1, 2,255)"], &["rgb(1,2,256)"]),
        ("k8s-short-name", &["a-b"], &["A", "a.b"]),
    ] {
        for text in good {
            assert_eq!(formats::check(format, text), Some(true), "{format} {text}");
        }
        for text in bad {
            assert_eq!(formats::check(format, text), Some(false), "{format} {text}");
        }
    }
    assert_eq!(formats::check("unheard-of", "x"), None);
}

#[test]
fn duplicates_in_sets_and_associative_lists_are_found() {
    let s = import(
        r#"{"type":"object","properties":{"s":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},"m":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","properties":{"k":{"type":"string"}}}}}}"#,
    );
    let v = json::from_slice(br#"{"s":["a","b","a","a"],"m":[{"k":"x"},{},{"k":"x","y":1},{}]}"#).unwrap();
    let found: Vec<String> = list_types(&s.schema, s.root, &v, "")
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        found,
        [
            r#"s[2]: Duplicate value: "a""#,
            r#"m[2]: Duplicate value: {"k":"x"}"#,
            "m[3]: Duplicate value: {}"
        ]
    );
}

#[test]
fn defaults_apply_at_every_level_and_nulls_go() {
    let s = import(
        r#"{"type":"object","properties":{"a":{"type":"object","default":{},"properties":{"b":{"type":"integer","default":3},"n":{"type":"string","nullable":true,"default":"x"},"o":{"type":"string"}}},"m":{"type":"object","additionalProperties":{"type":"object","properties":{"c":{"type":"string","default":"d"}}}}}}"#,
    );
    let mut v = json::from_slice(
        br#"{"kind":"K","metadata":{"name":"x","odd":1},"a":{"b":null,"n":null,"o":null,"z":1},"m":{"k":{}}}"#,
    )
    .unwrap();
    let strict = coerce(&s.schema, s.root, &mut v, Coercion::default()).unwrap();
    assert_eq!(
        strict,
        [
            StrictError::Unknown("metadata.odd".into()),
            StrictError::Unknown("a.z".into())
        ]
    );
    apply_defaults(&s.schema, s.root, &mut v);
    assert_eq!(
        json::to_string(&v),
        r#"{"kind":"K","metadata":{"name":"x"},"a":{"b":3,"n":null},"m":{"k":{"c":"d"}}}"#
    );
}

/// As the stories write what differs between runs.
fn placeholders(text: &str) -> String {
    let uid = regex::Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").unwrap();
    let time = regex::Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ").unwrap();
    time.replace_all(&uid.replace_all(text, "<uid>"), "<time>").into_owned()
}

/// A story's CRDs as they were when it made them, and what it then created.
#[test]
fn recorded_custom_resources_are_judged_as_recorded() {
    let stories = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/replay/stories/cr");
    let Ok(files) = std::fs::read_dir(stories) else {
        eprintln!("skipped: no recorded stories");
        return;
    };
    let (mut compared, mut wrong) = (0, Vec::new());
    for file in files.flatten() {
        // Rules, metadata and updates are judged elsewhere.
        let name = file.file_name().into_string().unwrap();
        if ["cel-", "life-", "ratchet-"]
            .iter()
            .any(|elsewhere| name.starts_with(elsewhere))
        {
            continue;
        }
        let text = std::fs::read_to_string(file.path())
            .unwrap()
            .replace("${id}", "ID")
            .replace("${ns}", "NS");
        let story = json::parse(text.as_bytes()).unwrap();
        let mut types: HashMap<(String, String), Structural> = HashMap::new();
        for step in story.value.array_at(&["steps"]) {
            let body = match step.get("body") {
                Some(Value::String(text)) => json::parse(text.as_bytes()).ok(),
                Some(body) => Some(json::Parsed {
                    cut: false,
                    value: body.clone(),
                    duplicates: Vec::new(),
                    numbers: Vec::new(),
                }),
                None => None,
            };
            let (Some(body), "POST") = (body, step.str_at(&["do"])) else {
                continue;
            };
            let mut value = body.value;
            let kind = value.str_at(&["kind"]).to_owned();
            if kind == "CustomResourceDefinition" {
                let (group, kind) = (
                    value.str_at(&["spec", "group"]),
                    value.str_at(&["spec", "names", "kind"]),
                );
                for version in value.array_at(&["spec", "versions"]) {
                    let schema = version.at(&["schema", "openAPIV3Schema"]).cloned().unwrap_or_default();
                    let api_version = format!("{group}/{}", version.str_at(&["name"]));
                    types.insert((api_version, kind.to_owned()), Structural::import(base(), &schema));
                }
                continue;
            }
            let Some(s) = types.get(&(value.str_at(&["apiVersion"]).to_owned(), kind)) else {
                continue;
            };
            let expect = step.get("expect").cloned().unwrap_or_default();
            let status = expect.get("status").and_then(Value::as_i64).unwrap_or(0);
            let message = expect.str_at(&["body", "message"]).to_owned();
            let outcome = coerce(&s.schema, s.root, &mut value, Coercion::default());
            let mut found: BTreeSet<String> = BTreeSet::new();
            let mut expected: BTreeSet<String> = BTreeSet::new();
            match outcome {
                Err(e) => drop(found.insert(e.0)),
                Ok(mut strict) => {
                    strict.splice(
                        0..0,
                        body.duplicates.iter().map(|d| StrictError::Duplicate(d.path.clone())),
                    );
                    if step.str_at(&["path"]).contains("fieldValidation=Strict") && !strict.is_empty() {
                        found.insert(strict_text(&strict));
                    } else {
                        apply_defaults(&s.schema, s.root, &mut value);
                        let mut all = super::value(&s.schema, s.root, &value, None, None);
                        all.append(list_types(&s.schema, s.root, &value, ""));
                        all.append(embedded(&s.schema, s.root, &value, "", &|_, _, _| {}));
                        found.extend(all.iter().map(|e| format!("{}: {}", e.field, e.body())));
                    }
                }
            }
            if status == 422 {
                for cause in expect.array_at(&["body", "details", "causes"]) {
                    expected.insert(format!("{}: {}", cause.str_at(&["field"]), cause.str_at(&["message"])));
                }
            } else if let Some((_, text)) = message.split_once(" cannot be handled as a ") {
                expected.insert(text.split_once(": ").unwrap().1.to_owned());
            } else if status != 201 {
                continue;
            }
            compared += 1;
            let found: BTreeSet<String> = found.iter().map(|e| placeholders(e)).collect();
            // Metadata of embedded resources is the caller's business.
            expected.retain(|e| !e.contains(".metadata."));
            if found != expected {
                wrong.push(format!(
                    "{}\n   want {expected:?}\n   got  {found:?}",
                    file.path().display()
                ));
            }
        }
    }
    eprintln!("{compared} custom resources compared");
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
}
