//! Field management on a small kind whose schema text stands here.

use super::*;
use crate::table::Table;
use crate::types::TypeId;
use triptych_object::json;
use triptych_schema_compiler::{Source, compile};

const TEXT: &str = r#"
package io.k8s.api.test.v1
group test/v1

Widget kind
  kind        -  string
  apiVersion  -  string
  metadata    1  Meta
  spec        2  Spec
  status      3  Status

Meta
  name             1  string
  namespace        2  string
  uid              3  string
  labels           4  {string}
  annotations      5  {string}
  ownerReferences  6  [Owner]    map(uid)
  finalizers       7  [string]   set
  managedFields    8  [Free]     atomic

Owner
  uid   1  string!
  name  2  string!

Spec
  replicas  1  int32?
  text      2  string
  flag      3  bool?
  ports     4  [Port]     map(port protocol)
  tags      5  [string]   set
  args      6  [string]   atomic
  point     7  Point
  inner     8  Inner?
  free      9  Free
  size      10 Size

Port
  name      1  string
  port      2  int32!
  protocol  3  string   = TCP published

Point atomic
  x  1  int32
  y  2  int32

Inner
  a  1  string
  b  2  string

Status
  phase  1  string

Free : json
Size : quantity
"#;

struct Widgets {
    table: Table,
    ty: TypeId,
    filter: Filter,
}

impl Widgets {
    fn new() -> Widgets {
        let source = Source {
            path: "test".into(),
            text: TEXT.into(),
        };
        let table = Table::load(compile(&[source]).unwrap_or_else(|p| panic!("{p}")).leak()).unwrap();
        let ty = table.schema.named("io.k8s.api.test.v1.Widget").unwrap();
        Widgets {
            table,
            ty,
            filter: Filter::exclude(["status"]),
        }
    }
}

impl Kind for Widgets {
    /// v2 is the same as v1, v3 is no longer served.
    fn typed(&self, api_version: &str) -> Option<Typed<'_>> {
        matches!(api_version, "test/v1" | "test/v2").then(|| Typed::object(&self.table.schema, self.ty))
    }

    /// v2 calls `text` what is `inner.a` in v1 (and the other way round).
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        let mut out = object.clone();
        out.set_at(&["apiVersion"], api_version.into());
        let (text, a) = (out.remove_at(&["spec", "text"]), out.remove_at(&["spec", "inner", "a"]));
        if let Some(text) = text {
            out.set_at(&["spec", "inner", "a"], text);
        }
        if let Some(a) = a {
            out.set_at(&["spec", "text"], a);
        }
        Ok(out)
    }

    fn reset(&self, _api_version: &str) -> Option<&Filter> {
        Some(&self.filter)
    }

    fn empty(&self) -> Result<Value, String> {
        Ok(doc(
            r#"{"kind":"Widget","apiVersion":"test/v1","metadata":{},"spec":{},"status":{}}"#,
        ))
    }

    fn finish(&self, merged: Value) -> Result<Value, String> {
        if merged.str_at(&["spec", "size"]) == "bad" {
            Err("no quantity".into())
        } else {
            Ok(merged)
        }
    }
}

const NOW: &str = "2026-01-01T00:00:00Z";
const LATER: &str = "2026-01-02T00:00:00Z";

fn doc(text: &str) -> Value {
    json::from_slice(text.as_bytes()).unwrap()
}

fn widget(spec: &str) -> Value {
    doc(&format!(
        r#"{{"apiVersion":"test/v1","kind":"Widget","metadata":{{"name":"a"}},"spec":{spec}}}"#
    ))
}

/// The owners of an object: `manager/operation: fields`.
fn owners(object: &Value) -> Vec<String> {
    entries::list_of(object)
        .iter()
        .map(|entry| {
            let text = |member| entry.str_at(&[member]);
            let subresource = match text("subresource") {
                "" => String::new(),
                sub => format!("({sub})"),
            };
            let fields = json::to_string(entry.get("fieldsV1").unwrap_or(&Value::Null));
            format!("{}{subresource}/{}: {fields}", text("manager"), text("operation"))
        })
        .collect()
}

struct Store {
    kind: Widgets,
    live: Value,
}

impl Store {
    fn new() -> Store {
        let kind = Widgets::new();
        let live = kind.empty().unwrap();
        Store { kind, live }
    }

    fn with(&self, subresource: &'static str, act: impl FnOnce(&FieldManager<'_>)) {
        let gvk = triptych_object::GroupVersion::new("test", "v1").kind("Widget");
        act(&FieldManager {
            kind: &self.kind,
            gvk: &gvk,
            api_version: "test/v1",
            subresource,
        });
    }

    fn put(&mut self, manager: &str, mut object: Value, now: &str) -> Vec<String> {
        let live = std::mem::take(&mut self.live);
        self.with("", |fields| fields.update(&live, &mut object, manager, now));
        object.set_at(&["metadata", "uid"], "u".into());
        self.live = object;
        owners(&self.live)
    }

    fn apply(&mut self, manager: &str, spec: &str, force: bool, now: &str) -> Result<Vec<String>, Box<Status>> {
        self.apply_object(manager, &widget(spec), force, now)
    }

    fn apply_object(
        &mut self,
        manager: &str,
        config: &Value,
        force: bool,
        now: &str,
    ) -> Result<Vec<String>, Box<Status>> {
        let mut result = Err(Status::internal("not run"));
        self.with("", |fields| {
            result = fields.apply(&self.live, config, manager, force, now)
        });
        let mut object = result?;
        object.set_at(&["metadata", "uid"], "u".into());
        self.live = object;
        Ok(owners(&self.live))
    }

    fn spec(&self) -> String {
        json::to_string(self.live.get("spec").unwrap_or(&Value::Null))
    }
}

#[test]
fn a_create_owns_what_differs_from_an_empty_object() {
    let mut store = Store::new();
    let object = doc(
        r#"{"apiVersion":"test/v1","kind":"Widget","metadata":{"name":"a","labels":{"l":"1"},"finalizers":["f"]},
            "spec":{"replicas":1,"ports":[{"port":80,"protocol":"TCP"}],"tags":["x"],"args":["a"],"point":{"x":1},"inner":{},"free":{"k":{"l":[1]}}},
            "status":{"phase":"On"}}"#,
    );
    assert_eq!(
        store.put("curl", object, NOW),
        [concat!(
            r#"curl/Update: {"f:metadata":{"f:finalizers":{".":{},"v:\"f\"":{}},"f:labels":{".":{},"f:l":{}}},"#,
            r#""f:spec":{"f:args":{},"f:free":{".":{},"f:k":{".":{},"f:l":{}}},"f:inner":{},"f:point":{},"#,
            r#""f:ports":{".":{},"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{},"f:protocol":{}}},"#,
            r#""f:replicas":{},"f:tags":{".":{},"v:\"x\"":{}}}}"#
        )]
    );
    let entry = &entries::list_of(&store.live)[0];
    assert_eq!(
        entry.keys(),
        ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1"]
    );
}

trait Keys {
    fn keys(&self) -> Vec<&str>;
}

impl Keys for Value {
    fn keys(&self) -> Vec<&str> {
        self.as_object().unwrap().keys().collect()
    }
}

#[test]
fn an_update_takes_what_it_changes_and_forgets_what_is_gone() {
    let mut store = Store::new();
    store.put(
        "one",
        widget(r#"{"text":"a","replicas":1,"inner":{"a":"x","b":"y"}}"#),
        NOW,
    );
    let mut next = widget(r#"{"text":"b","inner":{"a":"x"}}"#);
    next.set_at(&["metadata", "uid"], "u".into());
    assert_eq!(
        store.put("two", next, LATER),
        [
            r#"one/Update: {"f:spec":{"f:inner":{".":{},"f:a":{}}}}"#,
            r#"two/Update: {"f:spec":{"f:text":{}}}"#
        ]
    );
    assert_eq!(entries::list_of(&store.live)[0].str_at(&["time"]), NOW);
}

#[test]
fn objects_nobody_manages_stay_so_until_the_first_apply() {
    let mut store = Store::new();
    store.live = widget(r#"{"text":"a"}"#);
    store.live.set_at(&["metadata", "uid"], "u".into());
    let next = store.live.clone();
    assert!(store.put("one", next, NOW).is_empty());
    assert_eq!(
        store.apply("me", r#"{"replicas":2}"#, false, LATER).unwrap(),
        [
            r#"me/Apply: {"f:spec":{"f:replicas":{}}}"#,
            r#"before-first-apply/Update: {"f:spec":{"f:text":{}}}"#
        ]
    );
}

#[test]
fn a_request_may_reset_or_edit_managers_but_not_through_a_subresource() {
    let mut store = Store::new();
    store.put("one", widget(r#"{"text":"a"}"#), NOW);
    let live = store.live.clone();
    let mut next = live.clone();
    next.set_at(&["metadata", "managedFields"], Value::Array(vec![Value::object()]));
    let mut through_status = next.clone();
    store.with("status", |fields| {
        fields.update(&live, &mut through_status, "two", LATER)
    });
    assert_eq!(owners(&through_status).len(), 1);
    assert!(store.put("two", next, LATER).is_empty());
    store.live = live.clone();
    let mut next = live;
    let edited = r#"[{"manager":"x","operation":"Update","apiVersion":"test/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:text":{}}}}]"#;
    next.set_at(&["metadata", "managedFields"], doc(edited));
    next.set_at(&["spec", "replicas"], Value::Int(1));
    assert_eq!(
        store.put("two", next, LATER),
        [
            r#"x/Update: {"f:spec":{"f:text":{}}}"#,
            r#"two/Update: {"f:spec":{"f:replicas":{}}}"#
        ]
    );
}

#[test]
fn what_an_applier_drops_is_removed_unless_others_own_it() {
    let mut store = Store::new();
    store
        .apply(
            "one",
            r#"{"text":"a","replicas":1,"ports":[{"port":1,"name":"p"},{"port":2}]}"#,
            false,
            NOW,
        )
        .unwrap();
    store.apply("two", r#"{"replicas":1}"#, false, NOW).unwrap();
    assert_eq!(
        store.apply("one", r#"{"ports":[{"port":2}]}"#, false, LATER).unwrap(),
        [
            r#"two/Apply: {"f:spec":{"f:replicas":{}}}"#,
            r#"one/Apply: {"f:spec":{"f:ports":{"k:{\"port\":2,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}"#,
        ]
    );
    assert_eq!(store.spec(), r#"{"replicas":1,"ports":[{"port":2}]}"#);
}

#[test]
fn changing_what_others_own_is_a_conflict_unless_forced() {
    let mut store = Store::new();
    store.put("put", widget(r#"{"text":"a","replicas":1}"#), NOW);
    store
        .apply("one", r#"{"ports":[{"port":1,"name":"p"}]}"#, false, NOW)
        .unwrap();
    let status = store.apply("two", r#"{"text":"b"}"#, false, LATER).unwrap_err();
    assert_eq!(status.code, 409);
    assert_eq!(
        status.message,
        r#"Apply failed with 1 conflict: conflict with "put" using test/v1: .spec.text"#
    );
    let status = store
        .apply(
            "two",
            r#"{"text":"b","replicas":2,"ports":[{"port":1,"name":"q"}]}"#,
            false,
            LATER,
        )
        .unwrap_err();
    assert_eq!(
        status.message,
        concat!(
            "Apply failed with 3 conflicts: conflicts with \"one\":\n- .spec.ports[port=1,protocol=\"TCP\"].name\n",
            "conflicts with \"put\" using test/v1:\n- .spec.replicas\n- .spec.text"
        )
    );
    let details = status.details.unwrap();
    assert_eq!(details.causes[0].reason, "FieldManagerConflict");
    assert_eq!(details.causes[0].message, r#"conflict with "one""#);
    assert_eq!(details.causes[1].field, ".spec.replicas");
    assert_eq!(
        store.apply("two", r#"{"text":"b"}"#, true, LATER).unwrap(),
        [
            r#"one/Apply: {"f:spec":{"f:ports":{"k:{\"port\":1,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{}}}}}"#,
            r#"two/Apply: {"f:spec":{"f:text":{}}}"#,
            r#"put/Update: {"f:spec":{"f:replicas":{}}}"#,
        ]
    );
}

#[test]
fn applying_the_same_again_changes_nothing() {
    let mut store = Store::new();
    store.apply("one", r#"{"text":"a"}"#, false, NOW).unwrap();
    let before = store.live.clone();
    store.apply("one", r#"{"text":"a"}"#, false, LATER).unwrap();
    assert_eq!(store.live, before);
}

#[test]
fn an_apply_must_fit_kind_and_type() {
    let mut store = Store::new();
    let refused = |store: &mut Store, config: &str| {
        let status = store.apply_object("one", &doc(config), false, NOW).unwrap_err();
        (status.code, status.message)
    };
    let typed = |problem: &str| {
        (
            500,
            format!("failed to create typed patch object (/a; test/v1, Kind=Widget): {problem}"),
        )
    };
    for (config, want) in [
        (
            r#"{"apiVersion":"test/v2","kind":"Widget"}"#,
            (400, "invalid object type: test/v2, Kind=Widget".to_owned()),
        ),
        (
            r#"{"apiVersion":"test/v1","kind":"Widget","metadata":{"managedFields":[]}}"#,
            (400, "metadata.managedFields must be nil".to_owned()),
        ),
    ] {
        assert_eq!(refused(&mut store, config), want);
    }
    for (spec, problem) in [
        (r#"{"odd":1}"#, ".spec.odd: field not declared in schema"),
        (
            r#"{"text":5}"#,
            ".spec.text: expected string, got &value.valueUnstructured{Value:5}",
        ),
        (
            r#"{"replicas":"1"}"#,
            ".spec.replicas: expected numeric (int or float), got string",
        ),
        (r#"{"flag":"1"}"#, ".spec.flag: expected boolean, got &{1}"),
        (r#"{"size":{}}"#, ".spec.size: expected any scalar, got &{map[]}"),
        (r#"{"inner":"text"}"#, ".spec.inner: expected map, got &{text}"),
        (r#"{"ports":{"a":1}}"#, ".spec.ports: expected list, got &{map[a:1]}"),
        (
            r#"{"tags":["a","a"]}"#,
            ".spec.tags: duplicate entries for key [=\"a\"]",
        ),
        (
            r#"{"ports":[{"port":1},{"port":1,"protocol":"TCP"}]}"#,
            ".spec.ports: duplicate entries for key [port=1,protocol=\"TCP\"]",
        ),
        (
            r#"{"tags":[{}]}"#,
            ".spec.tags: element 0: associative list without keys has an element that's a map type",
        ),
        (
            r#"{"text":1,"flag":1}"#,
            "errors:\n  .spec.text: expected string, got &value.valueUnstructured{Value:1}\n  .spec.flag: expected boolean, got &{1}",
        ),
    ] {
        assert_eq!(
            refused(&mut store, &json::to_string(&widget(spec))),
            typed(problem),
            "{spec}"
        );
    }
    assert_eq!(
        refused(&mut store, &json::to_string(&widget(r#"{"size":"bad"}"#))),
        (
            500,
            "failed to convert new object (/a; test/v1, Kind=Widget) to proper version: no quantity".to_owned()
        )
    );
}

#[test]
fn items_keep_the_applied_order_among_them_and_live_ones_their_place() {
    let mut store = Store::new();
    store.put("put", widget(r#"{"tags":["a","b","c","d"]}"#), NOW);
    store.apply("one", r#"{"tags":["d","x","b"]}"#, false, NOW).unwrap();
    assert_eq!(store.spec(), r#"{"tags":["a","c","d","x","b"]}"#);
}

#[test]
fn equal_items_are_owned_together() {
    let mut store = Store::new();
    let managers = store.put("put", widget(r#"{"tags":["a","a","b"]}"#), NOW);
    assert_eq!(
        managers,
        [r#"put/Update: {"f:spec":{"f:tags":{".":{},"v:\"a\"":{},"v:\"b\"":{}}}}"#]
    );
    let managers = store.put("two", widget(r#"{"tags":["a","b"]}"#), LATER);
    assert_eq!(
        managers,
        [
            r#"put/Update: {"f:spec":{"f:tags":{".":{},"v:\"b\"":{}}}}"#,
            r#"two/Update: {"f:spec":{"f:tags":{"v:\"a\"":{}}}}"#
        ]
    );
}

#[test]
fn what_others_recorded_in_another_version_is_compared_in_that_version() {
    let mut store = Store::new();
    let managers = r#"[{"manager":"old","operation":"Update","apiVersion":"test/v2","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:text":{},"f:replicas":{}}}},
        {"manager":"gone","operation":"Update","apiVersion":"test/v3","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:text":{}}}}]"#;
    let mut live = widget(r#"{"inner":{"a":"x"},"replicas":1}"#);
    live.set_at(&["metadata", "uid"], "u".into());
    live.set_at(&["metadata", "managedFields"], doc(managers));
    store.live = live;
    let status = store.apply("one", r#"{"inner":{"a":"y"}}"#, false, LATER).unwrap_err();
    assert_eq!(
        status.message,
        r#"Apply failed with 1 conflict: conflict with "old" using test/v2: .spec.text"#
    );
    assert_eq!(
        store.apply("one", r#"{"inner":{"a":"y"}}"#, true, LATER).unwrap(),
        [
            r#"one/Apply: {"f:spec":{"f:inner":{"f:a":{}}}}"#,
            r#"old/Update: {"f:spec":{"f:replicas":{}}}"#
        ]
    );
}

#[test]
fn more_than_ten_updaters_are_merged_into_one() {
    let mut store = Store::new();
    let mut labels = Vec::new();
    for i in 0..12 {
        labels.push(format!(r#""l{i:02}":"x""#));
        let object = format!(
            r#"{{"apiVersion":"test/v1","kind":"Widget","metadata":{{"name":"a","labels":{{{}}}}},"spec":{{}}}}"#,
            labels.join(",")
        );
        store.put(&format!("m{i:02}"), doc(&object), &format!("2026-01-01T00:00:{i:02}Z"));
    }
    let names: Vec<_> = entries::list_of(&store.live)
        .iter()
        .map(|e| e.str_at(&["manager"]).to_owned())
        .collect();
    assert_eq!(
        names,
        [
            "ancient-changes",
            "m03",
            "m04",
            "m05",
            "m06",
            "m07",
            "m08",
            "m09",
            "m10",
            "m11"
        ]
    );
    let ancient = &entries::list_of(&store.live)[0];
    assert_eq!(ancient.str_at(&["time"]), "2026-01-01T00:00:02Z");
}

#[test]
fn kubectl_may_take_what_its_last_client_side_apply_set() {
    let mut store = Store::new();
    let last =
        r#"{\"apiVersion\":\"test/v1\",\"kind\":\"Widget\",\"metadata\":{\"name\":\"a\"},\"spec\":{\"text\":\"a\"}}"#;
    let object = format!(
        r#"{{"apiVersion":"test/v1","kind":"Widget","metadata":{{"name":"a","annotations":{{"{}":"{last}"}}}},"spec":{{"text":"a","replicas":1}}}}"#,
        last_applied::ANNOTATION
    );
    store.put("kubectl-client-side-apply", doc(&object), NOW);
    assert!(store.apply("other", r#"{"text":"b"}"#, false, LATER).is_err());
    let status = store
        .apply("kubectl", r#"{"text":"b","replicas":2}"#, false, LATER)
        .unwrap_err();
    assert_eq!(
        status.message,
        r#"Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using test/v1: .spec.replicas"#
    );
    store.apply("kubectl", r#"{"text":"b"}"#, false, LATER).unwrap();
    assert_eq!(
        meta::annotation(&store.live, last_applied::ANNOTATION),
        Some(
            "{\"apiVersion\":\"test/v1\",\"kind\":\"Widget\",\"metadata\":{\"name\":\"a\"},\"spec\":{\"text\":\"b\"}}\n"
        )
    );
}

#[test]
fn types_that_turned_atomic_are_owned_as_a_whole() {
    let mut store = Store::new();
    let mut live = widget(r#"{"point":{"x":1,"y":2},"args":["a"]}"#);
    live.set_at(&["metadata", "uid"], "u".into());
    let managers = r#"[{"manager":"old","operation":"Apply","apiVersion":"test/v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:point":{"f:x":{}},"f:args":{".":{},"v:\"a\"":{}}}}}]"#;
    live.set_at(&["metadata", "managedFields"], doc(managers));
    store.live = live.clone();
    assert_eq!(
        store.put("put", live, LATER),
        [r#"old/Apply: {"f:spec":{"f:args":{},"f:point":{}}}"#]
    );
}

#[test]
fn new_timestamps_alone_are_no_change() {
    let with = |time: &str, text: &str| {
        let mut object = widget(&format!(r#"{{"text":"{text}"}}"#));
        let entry = format!(
            r#"[{{"manager":"m","operation":"Update","apiVersion":"test/v1","time":"{time}","fieldsType":"FieldsV1","fieldsV1":{{}}}}]"#
        );
        object.set_at(&["metadata", "managedFields"], doc(&entry));
        object
    };
    let old = with(NOW, "a");
    let mut new = with(LATER, "a");
    keep_old_times(&old, &mut new);
    assert_eq!(new, old);
    let mut new = with(LATER, "b");
    keep_old_times(&old, &mut new);
    assert_eq!(entries::list_of(&new)[0].str_at(&["time"]), LATER);
}

#[test]
fn the_deepest_document_fits_a_worker_threads_stack() {
    let depth = json::MAX_DEPTH - 10;
    let deep = move |leaf: &str| format!("{}{leaf}{}", r#"{"k":"#.repeat(depth), "}".repeat(depth));
    let run = move || {
        let mut store = Store::new();
        let spec = |leaf: &str| format!(r#"{{"free":{}}}"#, deep(leaf));
        store.put("put", widget(&spec("1")), NOW);
        store.apply("one", &spec("1"), false, NOW).unwrap();
        assert!(store.apply("one", &spec("2"), false, LATER).is_err());
        store.apply("one", &spec("2"), true, LATER).unwrap();
        store.apply("one", r#"{"text":"a"}"#, true, LATER).unwrap();
    };
    let stack = if cfg!(debug_assertions) { 16 } else { 2 } * 1024 * 1024;
    std::thread::Builder::new()
        .stack_size(stack)
        .spawn(run)
        .unwrap()
        .join()
        .unwrap();
}
