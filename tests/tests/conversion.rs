//! Two versions of a custom resource with a conversion webhook between them: each is read, written and watched as itself.
#![allow(clippy::unwrap_used, clippy::expect_used)] // what a helper of a test cannot do fails the test

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Method;
use serde_json::{Value, json};
use triptych_local::client::ApiClient;
use triptych_local::cluster::Cluster;
use triptych_tests::eventually;
use triptych_tests::hook::{Answer, Hook};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const V1: &str = "/apis/conversion.example.com/v1/namespaces/default/boxes";
const V2: &str = "/apis/conversion.example.com/v2/namespaces/default/boxes";

/// `size: 2x3` in v1 is `width: 2, height: 3` in v2.
fn converted(mut object: Value, to: &str) -> Value {
    let spec = &object["spec"];
    object["spec"] = match spec["size"].as_str().and_then(|size| size.split_once('x')) {
        Some((width, height)) => {
            json!({"width": width.parse::<u32>().unwrap(), "height": height.parse::<u32>().unwrap()})
        }
        None => json!({"size": format!("{}x{}", spec["width"], spec["height"])}),
    };
    object["apiVersion"] = json!(to);
    // who an object is is not the webhook's to change
    object["metadata"]["generation"] = json!(99);
    object["metadata"]["annotations"]["converted-to"] = json!(to);
    object
}

fn webhook(fails: Arc<AtomicBool>) -> Answer {
    Arc::new(move |review| {
        let request = &review["request"];
        let to = request["desiredAPIVersion"].as_str().unwrap_or_default();
        let objects: Vec<Value> = match request["objects"].as_array() {
            Some(objects) if !fails.load(Ordering::Relaxed) => {
                objects.iter().map(|o| converted(o.clone(), to)).collect()
            }
            _ => Vec::new(),
        };
        let result = match objects.is_empty() {
            false => json!({"status": "Success"}),
            true => json!({"status": "Failed", "message": "no boxes today"}),
        };
        json!({
            "apiVersion": review["apiVersion"], "kind": "ConversionReview",
            "response": {"uid": request["uid"], "result": result, "convertedObjects": objects},
        })
    })
}

fn definition(hook: &Hook) -> Value {
    let version = |name: &str, storage: bool, spec: Value| {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}});
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}})
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "boxes.conversion.example.com"},
        "spec": {
            "group": "conversion.example.com", "scope": "Namespaced", "names": {"plural": "boxes", "kind": "Box"},
            "versions": [
                version("v1", true, json!({"size": {"type": "string"}})),
                version("v2", false, json!({"width": {"type": "integer"}, "height": {"type": "integer"}})),
            ],
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": {"url": hook.url, "caBundle": hook.ca_bundle},
            }},
        },
    })
}

async fn get(client: &ApiClient, path: &str) -> Value {
    let answer = client.get(path).await.unwrap();
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json().unwrap()
}

#[tokio::test]
async fn each_version_is_read_written_and_watched_as_itself() {
    let fails = Arc::new(AtomicBool::new(false));
    let hook = Hook::start(webhook(fails.clone())).await.unwrap();
    let cluster = Cluster::builder().embedded().start().await.unwrap();
    let client = cluster.client();
    let defined = client.send_json(Method::POST, CRDS, &definition(&hook)).await.unwrap();
    assert_eq!(defined.status, 201, "{}", defined.text());
    eventually("both versions are served", async || {
        client.get(V1).await.is_ok_and(|a| a.status == 200) && client.get(V2).await.is_ok_and(|a| a.status == 200)
    })
    .await;

    let old = json!({"apiVersion": "conversion.example.com/v1", "kind": "Box", "metadata": {"name": "old"}, "spec": {"size": "2x3"}});
    let new = json!({"apiVersion": "conversion.example.com/v2", "kind": "Box", "metadata": {"name": "new"}, "spec": {"width": 4, "height": 5}});
    assert_eq!(client.send_json(Method::POST, V1, &old).await.unwrap().status, 201);
    let created = client.send_json(Method::POST, V2, &new).await.unwrap();
    assert_eq!(created.status, 201, "{}", created.text());
    assert_eq!(created.json().unwrap()["spec"], json!({"width": 4, "height": 5}));

    let read = get(client, &format!("{V2}/old")).await;
    assert_eq!(read["spec"], json!({"width": 2, "height": 3}));
    assert_eq!(
        read["metadata"]["generation"], 1,
        "only labels and annotations are taken from a webhook"
    );
    assert_eq!(
        read["metadata"]["annotations"]["converted-to"],
        "conversion.example.com/v2"
    );
    assert_eq!(get(client, &format!("{V1}/new")).await["spec"], json!({"size": "4x5"}));
    for (path, version) in [(V1, "v1"), (V2, "v2")] {
        let list = get(client, path).await;
        let items = list["items"].as_array().unwrap();
        assert_eq!(items.len(), 2);
        let api_version = format!("conversion.example.com/{version}");
        assert!(
            items.iter().all(|item| item["apiVersion"] == api_version.as_str()),
            "{list}"
        );
    }

    let from = get(client, V2).await["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut lines = client
        .watch(&format!("{V2}?watch=true&resourceVersion={from}"))
        .await
        .unwrap();
    let patched = client
        .send_json(Method::PATCH, &format!("{V1}/old"), &json!({"spec": {"size": "7x8"}}))
        .await
        .unwrap();
    assert_eq!(patched.status, 200, "{}", patched.text());
    let event = lines.next().await.unwrap().unwrap();
    assert_eq!(
        (&event["type"], &event["object"]["spec"]),
        (&json!("MODIFIED"), &json!({"width": 7, "height": 8}))
    );
    let patched = client
        .send_json(Method::PATCH, &format!("{V2}/old"), &json!({"spec": {"height": 9}}))
        .await
        .unwrap();
    assert_eq!(patched.status, 200, "{}", patched.text());
    assert_eq!(get(client, &format!("{V1}/old")).await["spec"], json!({"size": "7x9"}));

    // The webhook fails: nothing that needs it is written, all that does not goes on.
    fails.store(true, Ordering::Relaxed);
    let refused = client
        .send_json(Method::PATCH, &format!("{V2}/old"), &json!({"spec": {"height": 1}}))
        .await
        .unwrap();
    assert_eq!(refused.status, 500, "{}", refused.text());
    let why = refused.json().unwrap()["message"].as_str().unwrap().to_owned();
    assert_eq!(
        why,
        "conversion webhook for conversion.example.com/v1, Kind=Box failed: no boxes today"
    );
    assert_eq!(get(client, &format!("{V1}/old")).await["spec"], json!({"size": "7x9"}));
    let patched = client
        .send_json(Method::PATCH, &format!("{V1}/new"), &json!({"spec": {"size": "1x1"}}))
        .await
        .unwrap();
    assert_eq!(patched.status, 200, "{}", patched.text());
    fails.store(false, Ordering::Relaxed);
    eventually("the other version follows again", async || {
        client
            .get(&format!("{V2}/new"))
            .await
            .is_ok_and(|a| a.json().is_ok_and(|o| o["spec"] == json!({"width": 1, "height": 1})))
    })
    .await;
    assert_eq!(client.delete(&format!("{V2}/new")).await.unwrap().status, 200);
    assert_eq!(client.get(&format!("{V1}/new")).await.unwrap().status, 404);
    cluster.finish(&[]).await.unwrap();
}
