//! Admission that users configure, on real processes: webhooks, policies and quotas act in every tier, wherever what they
//! read is kept.
#![allow(clippy::unwrap_used, clippy::expect_used)] // what a helper of a test cannot do fails the test

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::{Value, json};
use triptych_local::client::{Answer, ApiClient};
use triptych_local::cluster::Cluster;
use triptych_tests::hook::Hook;
use triptych_tests::{crd, eventually};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn create(client: &ApiClient, path: &str, body: &Value) -> Answer {
    client.send_json(Method::POST, path, body).await.unwrap()
}

async fn created(client: &ApiClient, path: &str, body: &Value) {
    let answer = create(client, path, body).await;
    assert_eq!(answer.status, 201, "{path}: {}", answer.text());
}

fn judged(review: &Value) -> Value {
    let request = &review["request"];
    let patch = json!([{"op": "add", "path": "/metadata/labels/seen", "value": request["resource"]["resource"]}]);
    let mut response = if request["object"]["metadata"]["labels"]["hook"] == "refuse" {
        json!({"allowed": false, "status": {"code": 418, "message": "no such thing"}})
    } else {
        json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string())})
    };
    response["uid"] = request["uid"].clone();
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response})
}

/// A webhook that labels what it sees, and refuses what asks for it.
struct Webhook {
    hook: Hook,
    asked: Arc<AtomicUsize>,
}

impl Webhook {
    async fn start() -> Webhook {
        let asked = Arc::<AtomicUsize>::default();
        let counted = asked.clone();
        let answer = move |review: Value| {
            counted.fetch_add(1, Ordering::SeqCst);
            judged(&review)
        };
        let hook = Hook::start(Arc::new(answer)).await.unwrap();
        Webhook { hook, asked }
    }

    fn configuration(&self) -> Value {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "labels"},
            "webhooks": [{
                "name": "labels.example.com",
                "clientConfig": {"url": self.hook.url, "caBundle": self.hook.ca_bundle},
                "objectSelector": {"matchExpressions": [{"key": "hook", "operator": "Exists"}]},
                "rules": [{"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }],
        })
    }
}

#[tokio::test]
async fn a_webhook_sees_what_every_tier_stores() {
    let cluster = Cluster::builder().embedded().start().await.unwrap();
    let client = cluster.client().clone();
    let webhook = Webhook::start().await;
    created(&client, CRDS, &crd("hooks.example.com")).await;
    let widgets = "/apis/hooks.example.com/v1/namespaces/default/widgets";
    eventually("widgets are served", async || {
        client.get(widgets).await.unwrap().status == 200
    })
    .await;
    created(
        &client,
        &format!("{POLICIES}/mutatingwebhookconfigurations"),
        &webhook.configuration(),
    )
    .await;

    let labelled = |kind: &str, version: &str, name: &str, spec: Value| json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": {"hook": "yes"}}, "spec": spec});
    let service = json!({"group": "x.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1,
        "service": {"name": "x", "namespace": "default"}, "insecureSkipTLSVerify": true});
    let api_services = "/apis/apiregistration.k8s.io/v1/apiservices";
    for (path, resource, object) in [
        (
            CONFIG_MAPS,
            "configmaps",
            json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a", "labels": {"hook": "yes"}}}),
        ),
        (
            widgets,
            "widgets",
            labelled("Widget", "hooks.example.com/v1", "a", json!({})),
        ),
        (
            api_services,
            "apiservices",
            labelled("APIService", "apiregistration.k8s.io/v1", "v1.x.example.com", service),
        ),
    ] {
        let path = format!("{path}?dryRun=All");
        // the other tiers hear of the configuration a moment later
        eventually(resource, async || {
            let answer = create(&client, &path, &object).await;
            assert_eq!(answer.status, 201, "{}", answer.text());
            answer.json().unwrap()["metadata"]["labels"]["seen"] == resource
        })
        .await;
    }

    let refused =
        json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "b", "labels": {"hook": "refuse"}}});
    let answer = create(&client, CONFIG_MAPS, &refused).await;
    assert_eq!(answer.status, 418);
    assert_eq!(
        answer.json().unwrap()["message"],
        "admission webhook \"labels.example.com\" denied the request: no such thing"
    );
    let asked = webhook.asked.load(Ordering::SeqCst);
    let unlabelled = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c"}});
    created(&client, CONFIG_MAPS, &unlabelled).await;
    assert_eq!(webhook.asked.load(Ordering::SeqCst), asked);
    cluster.finish(&[]).await.unwrap();
}

/// A policy that allows as many keys in `data` or `spec` as its parameter says, and its binding.
fn policy(
    name: &str,
    group: &str,
    resource: &str,
    param_kind: Value,
    count: &str,
    limit: &str,
) -> [(String, Value); 2] {
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "paramKind": param_kind,
            "matchConstraints": {"resourceRules": [
                {"operations": ["CREATE"], "apiGroups": [group], "apiVersions": ["*"], "resources": [resource]}]},
            "matchConditions": [{"name": "ours", "expression": "object.metadata.name.startsWith('limited')"}],
            "validations": [{"expression": format!("{count} <= {limit}"), "message": "too many"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {
            "policyName": name,
            "validationActions": ["Deny"],
            "paramRef": {"name": "limit", "namespace": "default", "parameterNotFoundAction": "Deny"},
        },
    });
    [
        (format!("{POLICIES}/validatingadmissionpolicies"), policy),
        (format!("{POLICIES}/validatingadmissionpolicybindings"), binding),
    ]
}

#[tokio::test]
async fn a_new_namespace_lies_in_itself() {
    let cluster = Cluster::builder().embedded().start().await.unwrap();
    let client = cluster.client().clone();
    let [mut policy, mut binding] = policy("own", "", "namespaces", Value::Null, "1", "0");
    policy.1["spec"]["validations"] =
        json!([{"expression": "request.namespace != object.metadata.name", "message": "it does"}]);
    binding.1["spec"].as_object_mut().unwrap().remove("paramRef");
    for (path, object) in [policy, binding] {
        created(&client, &path, &object).await;
    }
    let limited = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "limited"}});
    eventually("the policy is in force", async || {
        let answer = create(&client, "/api/v1/namespaces?dryRun=All", &limited).await;
        answer.status == 422 && answer.text().contains("denied request: it does")
    })
    .await;
    cluster.finish(&[]).await.unwrap();
}

#[tokio::test]
async fn a_policy_reads_its_parameters_from_whichever_tier_has_them() {
    let cluster = Cluster::builder().embedded().start().await.unwrap();
    let client = cluster.client().clone();
    let mut definition = crd("policies.example.com");
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    created(&client, CRDS, &definition).await;
    let widgets = "/apis/policies.example.com/v1/namespaces/default/widgets";
    eventually("widgets are served", async || {
        client.get(widgets).await.unwrap().status == 200
    })
    .await;
    let widget = |name: &str, spec: Value| json!({"apiVersion": "policies.example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec});
    let config_map = |name: &str, data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
    created(&client, widgets, &widget("limit", json!({"max": 1}))).await;
    created(&client, CONFIG_MAPS, &config_map("limit", json!({"max": "1"}))).await;
    let by_widget = json!({"apiVersion": "policies.example.com/v1", "kind": "Widget"});
    let by_config_map = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let policies = [
        policy(
            "maps",
            "",
            "configmaps",
            by_widget,
            "size(object.data)",
            "params.spec.max",
        ),
        policy(
            "widgets",
            "policies.example.com",
            "widgets",
            by_config_map,
            "size(object.spec)",
            "int(params.data.max)",
        ),
    ];
    for (path, object) in policies.iter().flatten() {
        created(&client, path, object).await;
    }
    for (path, few, many) in [
        (
            CONFIG_MAPS,
            config_map("limited-1", json!({"a": "1"})),
            config_map("limited-2", json!({"a": "1", "b": "2"})),
        ),
        (
            widgets,
            widget("limited-1", json!({"a": 1})),
            widget("limited-2", json!({"a": 1, "b": 2})),
        ),
    ] {
        let tried = format!("{path}?dryRun=All");
        eventually("the policy is in force", async || {
            let answer = create(&client, &tried, &many).await;
            answer.status == 422 && answer.text().contains("denied request: too many")
        })
        .await;
        created(&client, path, &few).await;
    }
    cluster.finish(&[]).await.unwrap();
}

#[tokio::test]
async fn a_quota_holds_against_many_at_once_in_every_tier() {
    let cluster = Cluster::builder().embedded().start().await.unwrap();
    let client = cluster.client().clone();
    created(&client, CRDS, &crd("quotas.example.com")).await;
    let widgets = "/apis/quotas.example.com/v1/namespaces/default/widgets";
    eventually("widgets are served", async || {
        client.get(widgets).await.unwrap().status == 200
    })
    .await;
    let hard = json!({"count/configmaps": "10", "count/widgets.quotas.example.com": "10"});
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}});
    created(&client, quotas, &quota).await;
    // as the quota controller would
    let mut filled = client.get(&format!("{quotas}/q")).await.unwrap().json().unwrap();
    filled["status"] =
        json!({"hard": hard, "used": {"count/configmaps": "0", "count/widgets.quotas.example.com": "0"}});
    let path = format!("{quotas}/q/status");
    assert_eq!(client.send_json(Method::PUT, &path, &filled).await.unwrap().status, 200);

    let object = |kind: &str, version: &str, name: String| json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
    eventually("extensions-api knows the quota", async || {
        let probe = object("Widget", "quotas.example.com/v1", "probe".into());
        create(&client, &format!("{widgets}?dryRun=All"), &probe).await;
        let used = client.get(&format!("{quotas}/q")).await.unwrap().json().unwrap();
        used["status"]["used"]["count/widgets.quotas.example.com"] == "0"
    })
    .await;
    for (path, kind, version) in [
        (CONFIG_MAPS, "ConfigMap", "v1"),
        (widgets, "Widget", "quotas.example.com/v1"),
    ] {
        let attempts = (0..30).map(|i| {
            let (client, object) = (client.clone(), object(kind, version, format!("o{i}")));
            async move { create(&client, path, &object).await.status.as_u16() }
        });
        let codes = futures_util::future::join_all(attempts).await;
        assert_eq!(
            codes.iter().filter(|code| **code == 201).count(),
            10,
            "{kind}: {codes:?}"
        );
        assert_eq!(
            codes.iter().filter(|code| **code == 403).count(),
            20,
            "{kind}: {codes:?}"
        );
    }
    cluster.finish(&[]).await.unwrap();
}
