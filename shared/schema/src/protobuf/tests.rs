//! Byte-exact pairs of upstream, recorded bodies, and bytes that are no protobuf at all.

use triptych_object::json;

use super::*;
use crate::test_support::everything;

fn kind_of(value: &Value) -> Option<TypeId> {
    crate::test_support::type_of(value.str_at(&["apiVersion"]), value.str_at(&["kind"]))
}

fn without_type(mut value: Value) -> Value {
    if let Some(map) = value.as_object_mut() {
        map.remove("kind");
        map.remove("apiVersion");
    }
    value
}

#[test]
fn pairs_of_json_and_protobuf_are_converted_byte_by_byte() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/facts/protobuf");
    let Ok(files) = std::fs::read_dir(folder) else {
        eprintln!("skipped: no recorded pairs");
        return;
    };
    let schema = &everything().schema;
    let mut compared = 0;
    for file in files
        .flatten()
        .map(|f| f.path())
        .filter(|p| p.extension().is_some_and(|e| e == "json"))
    {
        let value = json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let bytes = std::fs::read(file.with_extension("pb")).unwrap();
        let Some(id) = kind_of(&value) else { continue };
        let encoded = encode_object(schema, id, &value).unwrap();
        assert!(encoded == bytes, "{}: encoded otherwise", file.display());
        let envelope = open(&bytes).unwrap();
        assert_eq!(envelope.kind, value.str_at(&["kind"]));
        let decoded = decode(schema, id, envelope.raw).unwrap();
        assert_eq!(decoded, without_type(value), "{}", file.display());
        compared += 1;
    }
    eprintln!("{compared} pairs compared");
    assert!(compared > 40);
}

#[test]
fn errors_are_worded_as_by_the_generated_code() {
    let schema = &everything().schema;
    let id = schema.named("io.k8s.api.core.v1.ConfigMap").unwrap();
    for (raw, want) in [
        (&b"\xff\xff"[..], "unexpected EOF"),
        (b"\x0f\x01", "proto: wrong wireType = 7 for field ObjectMeta"),
        (b"\x00\x01", "proto: ConfigMap: illegal tag 0 (wire type 0)"),
        (b"\x0a\x02\x3a\x00", "proto: wrong wireType = 2 for field Generation"),
        (b"\x04", "proto: ConfigMap: wiretype end group for non-group"),
        (b"\x7f", "proto: illegal wireType 7"),
        (
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            "proto: negative length found during unmarshaling",
        ),
    ] {
        assert_eq!(decode(schema, id, raw).unwrap_err().to_string(), want, "{raw:x?}");
    }
    assert_eq!(open(b"").unwrap_err().to_string(), "empty data");
    assert_eq!(open(MAGIC).unwrap_err().to_string(), "empty body");
}

#[test]
fn unknown_fields_are_skipped_and_repeated_messages_merged() {
    let schema = &everything().schema;
    let id = schema.named("io.k8s.api.core.v1.ConfigMap").unwrap();
    let raw = b"\x0a\x03\x0a\x01a\xba\x3e\x05extra\x0a\x03\x1a\x01n\x12\x03\x0a\x01k\x20\x07";
    let value = decode(schema, id, raw).unwrap();
    assert_eq!(
        json::to_string(&value),
        r#"{"metadata":{"name":"a","namespace":"n"},"immutable":true,"data":{"k":""}}"#
    );
}

#[test]
fn a_watch_frame_is_a_length_and_an_event() {
    let frame = watch_frame("ADDED", b"k8s\0x");
    assert_eq!(frame, b"\0\0\0\x10\x0a\x05ADDED\x12\x07\x0a\x05k8s\0x");
}

#[test]
fn a_list_holds_its_items_as_they_are() {
    let schema = &everything().schema;
    let list_meta = schema.named("io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta").unwrap();
    let metadata = Value::from([("resourceVersion", "9".into())]);
    let bytes = encode_list(
        schema,
        list_meta,
        "v1",
        "ConfigMapList",
        &metadata,
        &[b"ab".to_vec(), b"c".to_vec()],
    );
    assert_eq!(
        bytes.unwrap(),
        b"k8s\0\x0a\x13\x0a\x02v1\x12\x0dConfigMapList\x12\x10\x0a\x07\x0a\0\x12\x019\x1a\0\x12\x02ab\x12\x01c\x1a\0\x22\0"
    );
}

#[test]
fn random_bytes_never_panic() {
    let schema = &everything().schema;
    let pod = schema.named("io.k8s.api.core.v1.Pod").unwrap();
    let crd = schema
        .named("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition")
        .unwrap();
    let mut state = 1u64;
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) as u8
    };
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..next() % 64)
            .map(|_| if next() & 1 == 0 { next() & 0x1f } else { next() })
            .collect();
        let _ = decode(schema, pod, &bytes);
        let _ = decode(schema, crd, &bytes);
        let _ = open(&[MAGIC, &bytes[..]].concat());
    }
}

#[test]
fn nesting_is_bounded() {
    let schema = &everything().schema;
    let props = schema
        .named("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
        .unwrap();
    // `not` within `not`.
    let mut bytes = Vec::new();
    for _ in 0..2000 {
        let mut out = Back::default();
        out.bytes_field(28, &bytes);
        bytes = out.into_vec();
    }
    assert_eq!(
        decode(schema, props, &bytes).unwrap_err().to_string(),
        "proto: nested too deeply"
    );
}

#[test]
fn recorded_answers_are_encoded_as_recorded() {
    use base64::Engine;
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/replay/stories");
    let Ok(folders) = std::fs::read_dir(folder) else {
        eprintln!("skipped: no recorded stories");
        return;
    };
    let schema = &everything().schema;
    let mut compared = 0;
    for file in folders
        .flatten()
        .flat_map(|f| std::fs::read_dir(f.path()).unwrap().flatten())
    {
        let story = json::from_slice(&std::fs::read(file.path()).unwrap()).unwrap();
        for step in story.array_at(&["steps"]) {
            let text = step.str_at(&["expect", "body", "base64"]);
            let Ok(bytes) = base64::engine::general_purpose::STANDARD.decode(text) else {
                continue;
            };
            let Ok(envelope) = open(&bytes) else { continue };
            let Some(id) = crate::test_support::type_of(&envelope.api_version, &envelope.kind) else {
                continue;
            };
            let mut value = decode(schema, id, envelope.raw).unwrap();
            value.set_at(&["apiVersion"], envelope.api_version.into());
            value.set_at(&["kind"], envelope.kind.into());
            let encoded = encode_object(schema, id, &value).unwrap();
            // Go tells a caBundle that is empty from one that is not there; no client can see that in JSON.
            let empty_bundle = bytes.windows(4).any(|w| w == b"\x12\0\x1a\x19");
            assert!(
                encoded == bytes || empty_bundle,
                "{}: {}",
                file.path().display(),
                json::to_string(&value)
            );
            compared += 1;
        }
    }
    eprintln!("{compared} answers compared");
    assert!(compared > 0);
}
