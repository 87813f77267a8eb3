//! The tier by itself on the embedded store, over a real socket: from a CRD to its objects.
#![allow(clippy::unwrap_used, clippy::expect_used)] // what a helper of a test cannot do fails the test

mod harness;

use harness::{Tier, crd, json};

const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

#[tokio::test]
async fn a_crd_is_established_and_its_objects_are_pruned_defaulted_and_validated() {
    let tier = Tier::start().await;
    tier.establish(&crd("widgets", "Widget", "Namespaced", SCHEMA)).await;

    let made = tier
        .post(
            WIDGETS,
            r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":3,"odd":1}}"#,
        )
        .await;
    assert_eq!(made.code, 201, "{made}");
    assert_eq!(made.body.at(&["spec"]), Some(&json(r#"{"size":3,"color":"red"}"#)));
    assert_eq!(made.body.at(&["metadata", "generation"]), Some(&json("1")));

    let wrong = tier
        .post(
            WIDGETS,
            r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"b"},"spec":{"size":"big"}}"#,
        )
        .await;
    assert_eq!(wrong.code, 422);
    assert_eq!(
        wrong.message(),
        r#"Widget.example.com "b" is invalid: spec.size: Invalid value: "string": spec.size in body must be of type integer: "string""#
    );

    let patched = tier.merge(&format!("{WIDGETS}/a"), r#"{"spec":{"size":4}}"#).await;
    assert_eq!(
        (patched.code, patched.body.at(&["metadata", "generation"])),
        (200, Some(&json("2")))
    );
    let again = tier.merge(&format!("{WIDGETS}/a"), r#"{"spec":{"size":4}}"#).await;
    assert_eq!(
        again.body.at(&["metadata", "resourceVersion"]),
        patched.body.at(&["metadata", "resourceVersion"]),
        "what changes nothing is not written"
    );

    let status = tier
        .merge(
            &format!("{WIDGETS}/a/status"),
            r#"{"status":{"ready":true},"spec":{"size":9}}"#,
        )
        .await;
    assert_eq!(status.body.at(&["status", "ready"]), Some(&json("true")));
    assert_eq!(status.body.at(&["spec", "size"]), Some(&json("4")));

    let list = tier.get(WIDGETS).await;
    assert_eq!(list.body.str_at(&["kind"]), "WidgetList");
    assert_eq!(list.body.array_at(&["items"])[0].str_at(&["kind"]), "Widget");

    let table = tier.table(WIDGETS).await;
    assert_eq!(
        table.body.array_at(&["rows"])[0].get("cells"),
        Some(&json(r#"["a",4]"#))
    );

    let strategic = tier
        .patch(&format!("{WIDGETS}/a"), "application/strategic-merge-patch+json", "{}")
        .await;
    assert_eq!(strategic.code, 415);

    assert_eq!(tier.delete(&format!("{WIDGETS}/a")).await.code, 200);
    assert_eq!(tier.get(&format!("{WIDGETS}/a")).await.code, 404);
}

#[tokio::test]
async fn versions_are_one_object_under_two_names() {
    let tier = Tier::start().await;
    let mut crd = crd("gadgets", "Gadget", "Cluster", SCHEMA);
    let mut other = crd.array_at(&["spec", "versions"])[0].clone();
    other.set_at(&["name"], "v1beta1".into());
    other.set_at(&["storage"], json("false"));
    other.set_at(&["deprecated"], json("true"));
    crd.at_mut(&["spec", "versions"])
        .unwrap()
        .as_array_mut()
        .unwrap()
        .push(other);
    tier.establish(&crd).await;
    let made = tier
        .post(
            "/apis/example.com/v1beta1/gadgets",
            r#"{"apiVersion":"example.com/v1beta1","kind":"Gadget","metadata":{"name":"g"},"spec":{"size":1}}"#,
        )
        .await;
    assert_eq!(
        (made.code, made.body.str_at(&["apiVersion"])),
        (201, "example.com/v1beta1")
    );
    assert!(
        made.warnings
            .contains("example.com/v1beta1 Gadget is deprecated; use example.com/v1 Gadget")
    );
    let read = tier.get("/apis/example.com/v1/gadgets/g").await;
    assert_eq!(read.body.str_at(&["apiVersion"]), "example.com/v1");
    let wrong = tier
        .post(
            "/apis/example.com/v1/gadgets",
            r#"{"apiVersion":"example.com/v1beta1","kind":"Gadget","metadata":{"name":"h"}}"#,
        )
        .await;
    assert_eq!(
        wrong.message(),
        "the API version in the data (example.com/v1beta1) does not match the expected API version (example.com/v1)"
    );
}

#[tokio::test]
async fn a_schema_that_changes_shows_stored_objects_in_its_own_light() {
    let tier = Tier::start().await;
    let mut crd = crd("widgets", "Widget", "Namespaced", SCHEMA);
    tier.establish(&crd).await;
    let object = r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":3}}"#;
    assert_eq!(tier.post(WIDGETS, object).await.code, 201);
    let narrower = json(
        r#"{"type":"object","properties":{"spec":{"type":"object","properties":{"color":{"type":"string"},"shape":{"type":"string","default":"round"}}}}}"#,
    );
    crd.at_mut(&["spec", "versions"]).unwrap().as_array_mut().unwrap()[0]
        .set_at(&["schema", "openAPIV3Schema"], narrower);
    tier.replace_definition(crd).await;
    let read = tier
        .until(&format!("{WIDGETS}/a"), |answer| {
            answer.body.at(&["spec", "shape"]).is_some()
        })
        .await;
    assert_eq!(
        read.body.at(&["spec"]),
        Some(&json(r#"{"color":"red","shape":"round"}"#))
    );
}

#[tokio::test]
async fn a_deleted_crd_takes_its_objects_with_it_but_waits_for_finalizers() {
    let tier = Tier::start().await;
    tier.establish(&crd("widgets", "Widget", "Namespaced", SCHEMA)).await;
    let object =
        r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","finalizers":["x.test/hold"]}}"#;
    assert_eq!(tier.post(WIDGETS, object).await.code, 201);
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
    let deleted = tier.delete(path).await;
    assert_eq!(
        deleted.body.at(&["metadata", "finalizers"]),
        Some(&json(r#"["customresourcecleanup.apiextensions.k8s.io"]"#))
    );
    tier.until(&format!("{WIDGETS}/a"), |answer| {
        answer.body.at(&["metadata", "deletionTimestamp"]).is_some()
    })
    .await;
    let refused = tier
        .post(
            WIDGETS,
            r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"b"}}"#,
        )
        .await;
    assert_eq!(refused.code, 403, "{refused}");
    tier.merge(&format!("{WIDGETS}/a"), r#"{"metadata":{"finalizers":null}}"#)
        .await;
    tier.until(path, |answer| answer.code == 404).await;
    assert_eq!(
        tier.until(WIDGETS, |answer| answer.code == 404).await.text,
        "404 page not found\n"
    );
}

#[tokio::test]
async fn a_watch_ends_when_the_schema_changes() {
    let tier = Tier::start().await;
    let mut crd = crd("widgets", "Widget", "Namespaced", SCHEMA);
    tier.establish(&crd).await;
    let watch = tier.watch(&format!("{WIDGETS}?watch=1")).await;
    crd.set_at(&["spec", "names", "shortNames"], json(r#"["wd"]"#));
    tier.replace_definition(crd).await;
    tokio::time::timeout(std::time::Duration::from_secs(10), watch.ended())
        .await
        .unwrap();
}

#[tokio::test]
async fn rules_are_compiled_with_the_definition_and_hold_for_its_objects() {
    let tier = Tier::start().await;
    let schema = |rule: &str| {
        format!(
            r#"{{"type":"object","properties":{{"spec":{{"type":"object","properties":{{"n":{{"type":"integer"}}}},"x-kubernetes-validations":[{{"rule":"{rule}"}}]}}}}}}"#
        )
    };
    let answer = tier
        .define(&crd("widgets", "Widget", "Namespaced", &schema("self.m > 1")))
        .await;
    assert_eq!(answer.code, 422, "{answer}");
    assert!(answer.message().contains("undefined field 'm'"), "{answer}");
    tier.establish(&crd("widgets", "Widget", "Namespaced", &schema("self.n > 1")))
        .await;
    let widget = |n: i64| {
        format!(r#"{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"name":"w{n}"}},"spec":{{"n":{n}}}}}"#)
    };
    assert_eq!(tier.post(WIDGETS, &widget(2)).await.code, 201);
    let answer = tier.post(WIDGETS, &widget(1)).await;
    assert!(answer.message().contains("failed rule: self.n > 1"), "{answer}");
}

const SCHEMA: &str = r#"{"type":"object","properties":{"spec":{"type":"object","properties":{
    "size":{"type":"integer"},"color":{"type":"string","default":"red"}}},
    "status":{"type":"object","properties":{"ready":{"type":"boolean"}}}}}"#;
