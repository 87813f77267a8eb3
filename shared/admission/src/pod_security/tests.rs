//! Who is told what: refusals, warnings, and namespaces whose policy changes.

use super::*;
use crate::lookup::fixed::Fixed;
use crate::testing::Write;
use triptych_storage::{Entry, JsonDecoder};

struct Given(Vec<Arc<Object>>);

impl Pods for Given {
    fn in_namespace(&self, _namespace: &str) -> StatusResult<Vec<Arc<Object>>> {
        Ok(self.0.clone())
    }
}

const NAMESPACES: [&str; 4] = [
    r#"{"metadata":{"name":"free"}}"#,
    r#"{"metadata":{"name":"base","labels":{"pod-security.kubernetes.io/enforce":"baseline"}}}"#,
    r#"{"metadata":{"name":"warn","labels":{"pod-security.kubernetes.io/warn":"baseline","pod-security.kubernetes.io/warn-version":"v1.30"}}}"#,
    r#"{"metadata":{"name":"bad","labels":{"pod-security.kubernetes.io/enforce":"x"}}}"#,
];

fn plugin(pods: &[&str]) -> PodSecurity {
    PodSecurity {
        namespaces: Fixed::of(&NAMESPACES),
        pods: Arc::new(Given(pods.iter().map(|pod| object(pod)).collect())),
    }
}

fn object(text: &str) -> Arc<Object> {
    let entry = Entry {
        key: "/pods/n/p".into(),
        revision: 1,
        value: text.to_owned().into(),
    };
    Arc::new(Object::ingest(&entry, &JsonDecoder::default()))
}

fn pod(namespace: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"p","namespace":"{namespace}"}},"spec":{{"hostPID":true,"containers":[{{"name":"c","image":"i"}}]}}}}"#
    )
}

const REFUSAL: &str =
    "pods \"p\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostPID=true)";

#[tokio::test]
async fn a_pod_is_refused_or_warned_of_as_its_namespace_wants() {
    let plugin = plugin(&[]);
    assert_eq!(Write::create("pods", &pod("free")).refusal(&plugin).await, "");
    assert_eq!(Write::create("pods", &pod("base")).refusal(&plugin).await, REFUSAL);
    let (_, warnings) = Write::create("pods", &pod("warn")).admit(&plugin).await.unwrap();
    assert_eq!(
        warnings,
        ["would violate PodSecurity \"baseline:v1.30\": host namespaces (hostPID=true)"]
    );
    let strictest = Write::create("pods", &pod("bad")).refusal(&plugin).await;
    assert!(
        strictest.contains("violates PodSecurity \"restricted:latest\""),
        "{strictest}"
    );
    assert_eq!(
        Write::create("pods", &pod("gone")).refusal(&plugin).await,
        "Internal error occurred: failed to lookup namespace \"gone\""
    );
}

#[tokio::test]
async fn only_updates_that_change_what_runs_are_looked_at() {
    let plugin = plugin(&[]);
    let old = pod("base");
    let other_image = old.replace("\"i\"", "\"j\"");
    assert_eq!(Write::update("pods", &old, &old).refusal(&plugin).await, "");
    assert_eq!(
        Write::update("pods", &other_image, &old).refusal(&plugin).await,
        REFUSAL
    );
    let status = Write::update("pods", &other_image, &old).subresource("status");
    assert_eq!(status.refusal(&plugin).await, "");
    let debugged = old.replace(
        "\"containers\"",
        "\"ephemeralContainers\":[{\"name\":\"e\"}],\"containers\"",
    );
    let debugged = Write::update("pods", &debugged, &old).subresource("ephemeralcontainers");
    assert_eq!(debugged.refusal(&plugin).await, REFUSAL);
}

#[tokio::test]
async fn templates_are_only_warned_of() {
    let plugin = plugin(&[]);
    for (resource, before, after) in [
        ("apps/deployments", r#"{"template":"#, "}"),
        ("batch/cronjobs", r#"{"jobTemplate":{"spec":{"template":"#, "}}}"),
    ] {
        let template = r#"{"spec":{"hostPID":true,"containers":[]}}"#;
        let object = format!(r#"{{"metadata":{{"name":"d","namespace":"base"}},"spec":{before}{template}{after}}}"#);
        let (_, warnings) = Write::create(resource, &object).admit(&plugin).await.unwrap();
        let warning = "would violate PodSecurity \"baseline:latest\": host namespaces (hostPID=true)";
        assert_eq!(warnings, [warning], "{resource}");
    }
    let bare = r#"{"metadata":{"name":"r","namespace":"base"},"spec":{}}"#;
    assert_eq!(Write::create("replicationcontrollers", bare).refusal(&plugin).await, "");
}

#[tokio::test]
async fn a_namespace_with_labels_that_cannot_be_read_is_invalid_unless_it_was_before() {
    let plugin = plugin(&[]);
    let bad = r#"{"kind":"Namespace","metadata":{"name":"n","labels":{"pod-security.kubernetes.io/enforce":"x"}}}"#;
    let good = r#"{"kind":"Namespace","metadata":{"name":"n"}}"#;
    let told = "Namespace \"n\" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"x\": must be one of privileged, baseline, restricted";
    assert_eq!(Write::create("namespaces", bad).refusal(&plugin).await, told);
    assert_eq!(Write::update("namespaces", bad, good).refusal(&plugin).await, told);
    assert_eq!(Write::update("namespaces", bad, bad).refusal(&plugin).await, "");
    assert_eq!(Write::update("namespaces", good, bad).refusal(&plugin).await, "");
}

#[tokio::test]
async fn who_tightens_a_policy_hears_of_the_pods_against_it() {
    let owner = r#""ownerReferences":[{"uid":"u","controller":true}]"#;
    let first = format!(r#"{{"metadata":{{"name":"b",{owner}}},"spec":{{"hostPID":true}}}}"#);
    let second = first.replace("\"b\"", "\"a\"");
    let third = r#"{"metadata":{"name":"c"},"spec":{"hostNetwork":true}}"#;
    let other =
        r#"{"metadata":{"name":"d"},"spec":{"containers":[{"name":"c","securityContext":{"privileged":true}}]}}"#;
    let plugin = plugin(&[&first, &second, third, other]);
    let namespace = |level: &str| {
        format!(r#"{{"metadata":{{"name":"n","labels":{{"pod-security.kubernetes.io/enforce":"{level}"}}}}}}"#)
    };
    let (baseline, privileged) = (namespace("baseline"), namespace("privileged"));
    let write = Write::update("namespaces", &baseline, &privileged);
    let (_, warnings) = write.admit(&plugin).await.unwrap();
    assert_eq!(
        warnings,
        [
            "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "a (and 2 other pods): host namespaces",
            "d: privileged",
        ]
    );
    let write = Write::update("namespaces", &privileged, &baseline);
    assert!(write.admit(&plugin).await.unwrap().1.is_empty());
}
