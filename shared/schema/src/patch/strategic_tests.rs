//! Strategic merge patch against a small hand-made type.

use super::*;
use crate::types::{Field, FieldDetails, List, ListKind, Map, Struct, Topology, Type};
use triptych_object::json;

fn marked(name: &'static str, ty: TypeId, strategy: PatchStrategy, key: Option<&'static str>) -> Field {
    let patch = Patch {
        strategy,
        key: key.map(Into::into),
    };
    let details = FieldDetails {
        patch,
        ..FieldDetails::default()
    };
    Field {
        details: Some(Box::new(details)),
        ..Field::plain(name.into(), ty)
    }
}

/// A type with a keyed list, a set, a plain list, a map, and a struct with `retainKeys`.
fn fixture() -> (Schema, TypeId) {
    let mut schema = Schema::new();
    let string = schema.push(Type::of(Shape::String));
    let int = schema.push(Type::of(Shape::Int {
        bits: 32,
        unsigned: false,
    }));
    let strings = schema.push(Type::of(Shape::List(List {
        item: string,
        kind: ListKind::Set,
    })));
    let map = schema.push(Type::of(Shape::Map(Map {
        key: string,
        value: string,
        topology: Topology::Unmarked,
    })));
    let item = Struct::new(vec![
        Field::plain("name".into(), string),
        Field::plain("value".into(), string),
        marked("inner", strings, PatchStrategy::Merge, None),
    ]);
    let item = schema.push(Type {
        name: Some("io.k8s.api.core.v1.Item".into()),
        ..Type::of(Shape::Struct(item))
    });
    let items = schema.push(Type::of(Shape::List(List {
        item,
        kind: ListKind::Unmarked,
    })));
    let strategy = Struct::new(vec![
        Field::plain("type".into(), string),
        Field::plain("rolling".into(), map),
    ]);
    let strategy = schema.push(Type::of(Shape::Struct(strategy)));
    let root = Struct::new(vec![
        marked("items", items, PatchStrategy::Merge, Some("name")),
        marked("set", strings, PatchStrategy::Merge, None),
        Field::plain("list".into(), items),
        Field::plain("labels".into(), map),
        Field::plain("count".into(), int),
        marked("strategy", strategy, PatchStrategy::RetainKeys, None),
        marked("selector", strategy, PatchStrategy::Replace, None),
    ]);
    let root = schema.push(Type {
        name: Some("io.k8s.api.core.v1.Root".into()),
        ..Type::of(Shape::Struct(root))
    });
    (schema, root)
}

fn run(document: &str, patch: &str) -> Result<String, (u16, String)> {
    let (schema, root) = fixture();
    let mut document = json::from_slice(document.as_bytes()).unwrap();
    let patch = StrategicPatch::decode(patch.as_bytes(), Reading::Strict).unwrap();
    match patch.apply(&schema, root, &mut document) {
        Ok(()) => Ok(json::to_string(&document)),
        Err(status) => Err((status.code, status.message)),
    }
}

fn same(document: &str, patch: &str, want: &str) {
    assert_eq!(run(document, patch).as_deref(), Ok(want), "{patch}");
}

#[test]
fn items_merge_by_key_and_new_ones_follow_the_patch() {
    let doc = r#"{"items":[{"name":"a","value":"1"},{"name":"b"}]}"#;
    same(
        doc,
        r#"{"items":[{"name":"c"},{"name":"a","value":"2"}]}"#,
        r#"{"items":[{"name":"c"},{"name":"a","value":"2"},{"name":"b"}]}"#,
    );
    same(doc, r#"{"items":[{"name":"b","value":null}]}"#, doc);
}

#[test]
fn items_are_deleted_and_lists_replaced_by_directive() {
    let doc = r#"{"items":[{"name":"a"},{"name":"b"}]}"#;
    same(
        doc,
        r#"{"items":[{"$patch":"delete","name":"a"}]}"#,
        r#"{"items":[{"name":"b"}]}"#,
    );
    same(
        doc,
        r#"{"items":[{"$patch":"replace"},{"name":"x"}]}"#,
        r#"{"items":[{"name":"x"}]}"#,
    );
    assert_eq!(
        run(doc, r#"{"items":[{"$patch":"odd","name":"a"}]}"#),
        Err((500, "unknown patch type: odd in map: map[$patch:odd name:a]".into()))
    );
}

#[test]
fn lists_without_strategy_are_replaced() {
    same(
        r#"{"list":[{"name":"a"}]}"#,
        r#"{"list":[{"name":"b"}]}"#,
        r#"{"list":[{"name":"b"}]}"#,
    );
}

#[test]
fn primitive_lists_merge_as_sets_and_lose_what_is_named() {
    let doc = r#"{"set":["a","b"]}"#;
    same(doc, r#"{"set":["c","a"]}"#, r#"{"set":["c","a","b"]}"#);
    same(doc, r#"{"$deleteFromPrimitiveList/set":["a","x"]}"#, r#"{"set":["b"]}"#);
    assert_eq!(
        run(doc, r#"{"set":[1]}"#),
        Err((500, "list element types are not identical: [[a b] [1]]".into()))
    );
    assert_eq!(
        run(doc, r#"{"$deleteFromPrimitiveList":["a"]}"#),
        Err((400, "invalid patch format of primitive list".into()))
    );
}

#[test]
fn set_element_order_arranges_the_merged_list() {
    let doc = r#"{"items":[{"name":"a"},{"name":"server"},{"name":"b"}]}"#;
    same(
        doc,
        r#"{"$setElementOrder/items":[{"name":"b"},{"name":"a"}]}"#,
        r#"{"items":[{"name":"server"},{"name":"b"},{"name":"a"}]}"#,
    );
    same(
        r#"{"set":["a","s","b"]}"#,
        r#"{"$setElementOrder/set":["b","n","a"],"set":["n"]}"#,
        r#"{"set":["s","b","n","a"]}"#,
    );
    let (code, text) = run(
        doc,
        r#"{"$setElementOrder/items":[{"name":"a"},{"name":"b"}],"items":[{"name":"c"}]}"#,
    )
    .unwrap_err();
    assert_eq!(code, 500);
    assert!(text.starts_with("The order in patch list:\n[map[name:c]]\n doesn't match $setElementOrder list:"));
    assert_eq!(
        run(doc, r#"{"$setElementOrder":[]}"#),
        Err((400, "invalid patch format of setElementOrder list".into()))
    );
}

#[test]
fn retain_keys_clears_what_it_does_not_list() {
    let doc = r#"{"strategy":{"type":"Rolling","rolling":{"max":"1"}}}"#;
    same(
        doc,
        r#"{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}"#,
        r#"{"strategy":{"type":"Recreate"}}"#,
    );
    assert_eq!(
        run(doc, r#"{"strategy":{"$retainKeys":["rolling"],"type":"Recreate"}}"#),
        Err((400, "invalid patch format of retainKeys".into()))
    );
}

#[test]
fn maps_merge_replace_and_are_deleted() {
    let doc = r#"{"labels":{"a":"1","b":"2"},"selector":{"type":"x"}}"#;
    same(
        doc,
        r#"{"labels":{"a":null,"c":"3"}}"#,
        r#"{"labels":{"b":"2","c":"3"},"selector":{"type":"x"}}"#,
    );
    same(
        doc,
        r#"{"labels":{"$patch":"replace","c":"3"}}"#,
        r#"{"labels":{"c":"3"},"selector":{"type":"x"}}"#,
    );
    same(
        doc,
        r#"{"labels":{"$patch":"delete"}}"#,
        r#"{"labels":{},"selector":{"type":"x"}}"#,
    );
    same(
        doc,
        r#"{"selector":{"rolling":{}}}"#,
        r#"{"labels":{"a":"1","b":"2"},"selector":{"rolling":{}}}"#,
    );
    same("{}", r#"{"labels":{"a":null,"b":"1"}}"#, r#"{"labels":{"b":"1"}}"#);
}

#[test]
fn what_the_type_does_not_know_is_an_error_only_where_lists_or_maps_merge() {
    same(r#"{"odd":1}"#, r#"{"odd":2}"#, r#"{"odd":2}"#);
    assert_eq!(
        run(r#"{"odd":{}}"#, r#"{"odd":{}}"#),
        Err((
            500,
            "unable to find api field in struct Root for the json field \"odd\"".into()
        ))
    );
    assert_eq!(
        run(r#"{"labels":{"a":{}}}"#, r#"{"labels":{"a":{}}}"#),
        Err((
            500,
            "merging an object in json but data type is not struct, instead is: map".into()
        ))
    );
}

#[test]
fn items_without_merge_key_are_named() {
    assert_eq!(
        run(r#"{"items":[{"name":"a"}]}"#, r#"{"items":[{"value":"x"}]}"#),
        Err((
            500,
            "map: map[value:x] does not contain declared merge key: name".into()
        ))
    );
}

#[test]
fn a_document_that_is_no_map_is_refused() {
    let text = StrategicPatch::decode(b"[]", Reading::Strict).unwrap_err().message;
    assert_eq!(
        text,
        "json: cannot unmarshal array into Go value of type map[string]interface {}"
    );
}
