//! Decoding with the schemas of this repository, and against recorded answers.

use triptych_object::json;

use super::*;
use crate::test_support::everything;

fn id(name: &str) -> TypeId {
    everything().schema.named(name).unwrap()
}

const POD: &str = "io.k8s.api.core.v1.Pod";

fn decoded(kind: &str, text: &str) -> Result<(String, Vec<String>), String> {
    let parsed = json::parse(text.as_bytes()).unwrap();
    let source = Source {
        duplicates: &parsed.duplicates,
        numbers: &parsed.numbers,
    };
    let mut value = parsed.value;
    decode(&everything().schema, id(kind), &mut value, source, "")
        .map(|strict| {
            (
                json::to_string(&value),
                strict.iter().map(ToString::to_string).collect(),
            )
        })
        .map_err(|e| e.to_string())
}

#[test]
fn zeros_and_nulls_are_written_as_go_writes_them() {
    let (pod, _) = decoded(POD, r#"{"kind":"Pod","spec":{"hostNetwork":false,"volumes":null,"nodeName":"","containers":[{"name":"a","tty":false,"ports":null}]}}"#).unwrap();
    assert_eq!(
        pod,
        r#"{"kind":"Pod","metadata":{},"spec":{"containers":[{"name":"a","resources":{}}]},"status":{}}"#
    );
    let (role, _) = decoded("io.k8s.api.rbac.v1.Role", "{}").unwrap();
    assert_eq!(role, r#"{"metadata":{},"rules":null}"#);
    let (deployment, _) = decoded("io.k8s.api.apps.v1.Deployment", r#"{"spec":{"replicas":0}}"#).unwrap();
    assert_eq!(
        deployment,
        r#"{"metadata":{},"spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"strategy":{}},"status":{}}"#
    );
}

#[test]
fn what_is_empty_stays_until_it_is_settled_and_is_noted_then() {
    let schema = &everything().schema;
    let ty = id("io.k8s.api.rbac.v1.Role");
    let mut role = json::from_slice(br#"{"metadata":{"labels":{},"managedFields":[]},"rules":[]}"#).unwrap();
    decode(schema, ty, &mut role, Source::default(), "").unwrap();
    assert_eq!(
        json::to_string(&role),
        r#"{"metadata":{"labels":{},"managedFields":[]},"rules":[]}"#
    );
    let empties = settle(schema, ty, &mut role);
    assert_eq!(
        json::to_string(&role),
        r#"{"metadata":{"managedFields":[]},"rules":[]}"#
    );
    assert_eq!(empties.at("metadata.labels"), Some(&Value::object()));
    assert_eq!(empties.at("rules"), Some(&Value::Array(Vec::new())));
    assert!(empties.always_written());
    normalise(schema, ty, &mut role).unwrap();
    assert_eq!(json::to_string(&role), r#"{"metadata":{},"rules":null}"#);
}

#[test]
fn empty_values_within_lists_and_maps_are_noted_with_their_path() {
    let schema = &everything().schema;
    let mut pod = json::from_slice(br#"{"spec":{"containers":[{"name":"a","args":[]}]}}"#).unwrap();
    decode(schema, id(POD), &mut pod, Source::default(), "").unwrap();
    let empties = settle(schema, id(POD), &mut pod);
    assert!(empties.at("spec.containers[0].args").is_some());
    assert!(!empties.always_written());
    assert!(
        pod.at(&["spec", "containers"]).unwrap().as_array().unwrap()[0]
            .get("args")
            .is_none()
    );
}

#[test]
fn scalars_become_canonical() {
    let (pod, _) = decoded(POD, r#"{"spec":{"containers":[{"name":"a","resources":{"limits":{"memory":"1024Ki","cpu":0.5}},"livenessProbe":{"httpGet":{"port":80}}}]},"metadata":{"creationTimestamp":"2024-01-01T01:00:00+01:00","labels":{"b":"1","a":"2"}}}"#).unwrap();
    assert_eq!(
        pod,
        r#"{"metadata":{"creationTimestamp":"2024-01-01T00:00:00Z","labels":{"a":"2","b":"1"}},"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"500m","memory":"1Mi"}},"livenessProbe":{"httpGet":{"port":80}}}]},"status":{}}"#
    );
    let (secret, _) = decoded("io.k8s.api.core.v1.Secret", r#"{"data":{"a":"YR==","b":null}}"#).unwrap();
    assert_eq!(secret, r#"{"metadata":{},"data":{"a":"YQ==","b":""}}"#);
}

#[test]
fn wrong_types_are_worded_as_in_go() {
    for (kind, text, want) in [
        (
            POD,
            r#"{"spec":{"containers":"x"}}"#,
            "json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            POD,
            r#"{"spec":{"volumes":[{"name":"a","emptyDir":5}]}}"#,
            "json: cannot unmarshal number into Go struct field Volume.spec.volumes.VolumeSource.emptyDir of type v1.EmptyDirVolumeSource",
        ),
        (
            POD,
            r#"[]"#,
            "json: cannot unmarshal array into Go value of type v1.Pod",
        ),
        (
            POD,
            r#"{"spec":{"priority":1.5,"containers":"x"}}"#,
            "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            POD,
            r#"{"spec":{"priority":3000000000}}"#,
            "json: cannot unmarshal number 3000000000 into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            POD,
            r#"{"spec":{"priority":"x"},"metadata":{"creationTimestamp":5}}"#,
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
        (
            POD,
            r#"{"spec":{"overhead":{"cpu":"1mi"}}}"#,
            "unable to parse quantity's suffix",
        ),
        (
            POD,
            r#"{"spec":{"overhead":5}}"#,
            "json: cannot unmarshal number into Go struct field PodSpec.spec.overhead of type v1.ResourceList",
        ),
        (
            POD,
            r#"{"spec":{"containers":[{"livenessProbe":{"httpGet":{"port":true}}}]}}"#,
            "json: cannot unmarshal bool into Go struct field HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32",
        ),
        (
            "io.k8s.api.core.v1.Secret",
            r#"{"data":{"a":"hello"}}"#,
            "illegal base64 data at input byte 4",
        ),
        (
            "io.k8s.api.core.v1.Secret",
            r#"{"data":{"a":true}}"#,
            "json: cannot unmarshal bool into Go struct field Secret.data of type []uint8",
        ),
    ] {
        assert_eq!(decoded(kind, text).unwrap_err(), want, "{text}");
    }
}

#[test]
fn strict_errors_come_in_document_order() {
    let (_, strict) = decoded("io.k8s.api.core.v1.ConfigMap", r#"{"metadata":{"name":"a","odd":1},"data":{"k":"1","k":"2"},"odd":{"x":1},"Data":{},"kind":"a","odd":1,"kind":"b"}"#).unwrap();
    assert_eq!(
        strict,
        [
            "unknown field \"metadata.odd\"",
            "duplicate field \"data.k\"",
            "unknown field \"odd\"",
            "unknown field \"Data\"",
            "duplicate field \"kind\""
        ]
    );
}

#[test]
fn normalising_twice_changes_nothing() {
    let text = r#"{"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"1000m"}}}],"tolerations":[{"tolerationSeconds":0}]}}"#;
    let mut once = json::from_slice(text.as_bytes()).unwrap();
    normalise(&everything().schema, id(POD), &mut once).unwrap();
    let mut twice = once.clone();
    normalise(&everything().schema, id(POD), &mut twice).unwrap();
    assert_eq!(json::to_string(&once), json::to_string(&twice));
}

/// What was sent, and what the recorded server said about it.
struct Recorded {
    file: String,
    body: json::Parsed,
    expect: Value,
}

fn recorded_writes() -> Vec<Recorded> {
    let stories = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/replay/stories");
    let Ok(folders) = std::fs::read_dir(stories) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for file in folders
        .flatten()
        .flat_map(|f| std::fs::read_dir(f.path()).unwrap().flatten())
    {
        let story = json::parse(&std::fs::read(file.path()).unwrap()).unwrap();
        for (i, step) in story.value.array_at(&["steps"]).iter().enumerate() {
            let body = match step.get("body") {
                Some(Value::String(text)) => json::parse(text.as_bytes()).ok(),
                Some(body) => {
                    let prefix = format!("steps[{i}].body.");
                    let own = |n: &json::OddNumber| {
                        let path = n.path.strip_prefix(&prefix)?.to_owned();
                        Some(json::OddNumber {
                            path,
                            text: n.text.clone(),
                        })
                    };
                    let numbers = story.numbers.iter().filter_map(own).collect();
                    Some(json::Parsed {
                        cut: false,
                        value: body.clone(),
                        duplicates: Vec::new(),
                        numbers,
                    })
                }
                None => None,
            };
            let media = step.str_at(&["headers", "Content-Type"]);
            let json = media.is_empty() || media.contains("json");
            let write = matches!(step.str_at(&["do"]), "POST" | "PUT");
            if let (Some(body), true, true) = (body, json, write)
                && !step.str_at(&["path"]).contains(".example.com/")
            {
                let expect = step.get("expect").cloned().unwrap_or_default();
                found.push(Recorded {
                    file: file.path().display().to_string(),
                    body,
                    expect,
                });
            }
        }
    }
    found
}

/// The type of an object by its `apiVersion` and `kind`.
fn type_of(value: &Value) -> Option<TypeId> {
    crate::test_support::type_of(value.str_at(&["apiVersion"]), value.str_at(&["kind"]))
}

fn without_times(text: &str) -> String {
    static TIME: std::sync::OnceLock<regex::Regex> = std::sync::OnceLock::new();
    let pattern = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?";
    TIME.get_or_init(|| regex::Regex::new(pattern).unwrap())
        .replace_all(text, "<time>")
        .into_owned()
}

#[test]
fn recorded_answers_are_normal_already() {
    let (mut compared, mut wrong) = (0, Vec::new());
    for recorded in recorded_writes() {
        let Some(body) = recorded.expect.get("body") else {
            continue;
        };
        let Some(id) = type_of(body).filter(|_| body.str_at(&["kind"]) != "Status") else {
            continue;
        };
        let text = json::to_string(body).replace("\\u003ctime\\u003e", "2026-01-01T00:00:00.000000Z");
        let mut value = json::from_slice(text.as_bytes()).unwrap();
        match normalise(&everything().schema, id, &mut value) {
            Ok(()) => compared += 1,
            // A placeholder stands for a number.
            Err(e) if e.0.contains("cannot unmarshal string") && text.contains("\\u003c") => continue,
            Err(e) => panic!("{}: {e}", recorded.file),
        }
        let got = json::from_slice(without_times(&json::to_string(&value)).as_bytes()).unwrap();
        // A pointer to the zero time is written as null, which reads back as no pointer.
        if got != *body && !text.contains("\"deletionTimestamp\":null") {
            wrong.push(format!(
                "{}\n   want {}\n   got  {}",
                recorded.file,
                json::to_string(body),
                json::to_string(&got)
            ));
        }
    }
    eprintln!("{compared} recorded answers compared");
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn recorded_mistakes_are_answered_as_recorded() {
    let (mut compared, mut wrong) = (0, Vec::new());
    for recorded in recorded_writes() {
        let message = recorded.expect.str_at(&["body", "message"]);
        let Some((_, want)) = message.split_once(" cannot be handled as a ") else {
            continue;
        };
        let want = want.split_once(": ").unwrap().1;
        // Whether the kind is the one expected here is asked elsewhere.
        if want.starts_with("converting ") {
            continue;
        }
        let parsed = recorded.body;
        let source = Source {
            duplicates: &parsed.duplicates,
            numbers: &parsed.numbers,
        };
        let mut value = parsed.value;
        let Some(id) = type_of(&value) else { continue };
        let got = match decode(&everything().schema, id, &mut value, source, "") {
            Ok(strict) => strict_text(&strict),
            Err(e) => e.to_string(),
        };
        compared += 1;
        if without_times(&got) != without_times(want) {
            wrong.push(format!("{}\n   want {want}\n   got  {got}", recorded.file));
        }
    }
    eprintln!("{compared} recorded mistakes compared");
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_was_accepted_decodes_with_the_recorded_warnings() {
    let field_warnings = regex::Regex::new(r#"299 - "((?:unknown|duplicate) field (?:[^"\\]|\\.)*)""#).unwrap();
    let (mut compared, mut wrong) = (0, Vec::new());
    for recorded in recorded_writes() {
        let status = recorded.expect.get("status").and_then(Value::as_i64).unwrap_or(0);
        if !matches!(status, 200 | 201) {
            continue;
        }
        let parsed = recorded.body;
        let source = Source {
            duplicates: &parsed.duplicates,
            numbers: &parsed.numbers,
        };
        let mut value = parsed.value;
        let Some(id) = type_of(&value) else { continue };
        let warnings = recorded.expect.str_at(&["headers", "Warning"]);
        let want: Vec<String> = field_warnings
            .captures_iter(warnings)
            .map(|c| c[1].replace("\\\"", "\""))
            .collect();
        compared += 1;
        match decode(&everything().schema, id, &mut value, source, "") {
            Ok(strict) => {
                let got: Vec<String> = strict.iter().map(ToString::to_string).collect();
                if got != want && !want.is_empty() {
                    wrong.push(format!("{}\n   want {want:?}\n   got  {got:?}", recorded.file));
                }
            }
            Err(e) => wrong.push(format!("{}: {e}", recorded.file)),
        }
    }
    eprintln!("{compared} recorded objects compared");
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_unstructured_converter_has_rules_and_words_of_its_own() {
    let converted = |text: &str| {
        let mut value = json::from_slice(text.as_bytes()).unwrap();
        decode_tree(&everything().schema, id(POD), &mut value, Reader::Converter)
            .map(|strict| (json::to_string(&value), strict))
            .map_err(|e| e.to_string())
    };
    for (text, want) in [
        (r#"{"spec":{"priority":"1"}}"#, "unrecognized type: int32"),
        (r#"{"spec":{"priority":1.5}}"#, "cannot convert float64 to int32"),
        (r#"{"spec":{"nodeName":1}}"#, "cannot convert int64 to string"),
        (r#"{"spec":{"nodeName":true}}"#, "unrecognized type: string"),
        (r#"{"spec":{"containers":{}}}"#, "cannot restore slice from map"),
        (r#"{"spec":[]}"#, "cannot restore struct from: slice"),
        (r#"{"metadata":{"labels":"x"}}"#, "cannot restore map from string"),
        (
            r#"{"metadata":{"creationTimestamp":1}}"#,
            "json: cannot unmarshal number into Go value of type string",
        ),
    ] {
        assert_eq!(converted(text).unwrap_err(), want, "{text}");
    }
    let (pod, strict) = converted(r#"{"spec":{"priority":2.0,"z":1,"b":2}}"#).unwrap();
    assert_eq!(
        pod,
        r#"{"metadata":{},"spec":{"containers":null,"priority":2},"status":{}}"#
    );
    assert_eq!(strict[0].to_string(), r#"unknown field "spec.b""#);
}

#[test]
fn numbers_of_a_patch_show_as_they_were_written() {
    let mut value = json::from_slice(br#"{"spec":{"priority":2.5}}"#).unwrap();
    let numbers = [json::OddNumber {
        path: "spec.priority".into(),
        text: "2.50".into(),
    }];
    let error = decode_tree(&everything().schema, id(POD), &mut value, Reader::Json(&numbers)).unwrap_err();
    assert!(error.0.contains("cannot unmarshal number 2.50 into"), "{error}");
}

#[test]
fn a_pointer_to_the_zero_time_stays_as_null() {
    let schema = &everything().schema;
    let mut pod = json::from_slice(br#"{"metadata":{"deletionTimestamp":"0001-01-01T00:00:00Z"}}"#).unwrap();
    decode(schema, id(POD), &mut pod, Source::default(), "").unwrap();
    normalise(schema, id(POD), &mut pod).unwrap();
    assert_eq!(
        json::to_string(pod.get("metadata").unwrap()),
        r#"{"deletionTimestamp":null}"#
    );
    let mut pod = json::from_slice(br#"{"metadata":{"deletionTimestamp":null}}"#).unwrap();
    decode(schema, id(POD), &mut pod, Source::default(), "").unwrap();
    assert_eq!(json::to_string(pod.get("metadata").unwrap()), "{}");
}
