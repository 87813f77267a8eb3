//! Reviews from question to answer.

use parking_lot::Mutex;
use triptych_auth::Reason;
use triptych_object::json;

use super::*;

/// Allows `get`, denies `delete`, and remembers what it was asked.
#[derive(Default)]
struct Fake(Mutex<Vec<(UserInfo, RequestInfo)>>);

impl Authorizer for Fake {
    fn authorize<'a>(&'a self, attributes: Attributes<'a>) -> BoxFuture<'a, Decision> {
        self.0
            .lock()
            .push((attributes.user.clone(), attributes.request.clone()));
        let decision = match attributes.request.verb.as_str() {
            "get" => Decision::Allow(Reason::text("because")),
            "delete" => Decision::Deny("never".to_owned()),
            "watch" => Decision::Unavailable("not yet".to_owned()),
            _ => Decision::NoOpinion {
                reason: "no rule".to_owned(),
                error: "a role is missing".to_owned(),
            },
        };
        std::future::ready(decision).boxed()
    }
}

const KINDS: [(Asked, &str); 3] = [
    (Asked::Subject, "SubjectAccessReview"),
    (Asked::Local, "LocalSubjectAccessReview"),
    (Asked::OneSelf, "SelfSubjectAccessReview"),
];

async fn ask(authorizer: &Fake, asked: Asked, spec: &str, metadata: &str) -> Result<String, String> {
    let (_, kind) = KINDS.iter().find(|(a, _)| *a == asked).unwrap();
    let text =
        format!(r#"{{"kind":"{kind}","apiVersion":"authorization.k8s.io/v1","metadata":{metadata},"spec":{spec}}}"#);
    let document = json::from_slice(text.as_bytes()).unwrap();
    let asker = UserInfo::new("me", ["mine"]);
    let answer = review(asked, authorizer, &asker, document).await;
    answer
        .map(|a| json::to_string(a.get("status").unwrap()))
        .map_err(|s| s.message)
}

#[tokio::test]
async fn answers_tell_decision_reason_and_problems() {
    let fake = Fake::default();
    for (verb, want) in [
        ("get", Ok(r#"{"reason":"because","allowed":true}"#)),
        ("delete", Ok(r#"{"reason":"never","allowed":false,"denied":true}"#)),
        (
            "list",
            Ok(r#"{"reason":"no rule","evaluationError":"a role is missing","allowed":false}"#),
        ),
        ("watch", Err("not yet")),
    ] {
        let spec = format!(r#"{{"user":"u","nonResourceAttributes":{{"path":"/x","verb":"{verb}"}}}}"#);
        let answer = ask(&fake, Asked::Subject, &spec, "{}").await;
        assert_eq!(answer.as_deref().map_err(String::as_str), want);
    }
}

#[tokio::test]
async fn the_question_is_put_as_a_request_would_be() {
    let fake = Fake::default();
    let spec = r#"{"user":"u","uid":"7","groups":["g"],"extra":{"Scopes":["a","b"]},"resourceAttributes":{"verb":"get","group":"apps","resource":"deployments","subresource":"scale","name":"d","namespace":"ns"}}"#;
    ask(&fake, Asked::Subject, spec, "{}").await.unwrap();
    let (user, request) = fake.0.lock().pop().unwrap();
    assert_eq!((user.name.as_str(), user.uid.as_str()), ("u", "7"));
    assert_eq!(user.groups, ["g"]);
    assert_eq!(user.extra["Scopes"], ["a", "b"]);
    assert!(request.is_resource);
    let parts = [
        &request.group,
        &request.version,
        &request.resource,
        &request.subresource,
    ];
    assert_eq!(parts, ["apps", "*", "deployments", "scale"]);
    assert_eq!((request.name.as_str(), request.namespace.as_str()), ("d", "ns"));

    ask(
        &fake,
        Asked::OneSelf,
        r#"{"nonResourceAttributes":{"path":"/x","verb":"get"}}"#,
        "{}",
    )
    .await
    .unwrap();
    let (user, request) = fake.0.lock().pop().unwrap();
    assert_eq!(user.name, "me");
    assert_eq!((request.is_resource, request.path.as_str()), (false, "/x"));
}

#[tokio::test]
async fn selectors_reach_the_authorizer_as_far_as_they_are_understood() {
    let fake = Fake::default();
    for (selectors, field, label, ignored) in [
        (r#""fieldSelector":{"rawSelector":"a=b"}"#, Some("a=b"), None, ""),
        (
            r#""fieldSelector":{"rawSelector":"nonsense"}"#,
            None,
            None,
            "spec.resourceAttributes.fieldSelector ignored due to parse error",
        ),
        (
            r#""fieldSelector":{"requirements":[{"key":"a","operator":"In","values":["x,y"]},{"key":"b","operator":"NotIn","values":["z"]}]}"#,
            Some(r"a=x\,y,b!=z"),
            None,
            "",
        ),
        (
            r#""fieldSelector":{"requirements":[{"key":"a","operator":"In","values":["x"]},{"key":"b","operator":"Exists"}]}"#,
            Some("a=x"),
            None,
            "spec.resourceAttributes.fieldSelector partially ignored due to parse error",
        ),
        (
            r#""labelSelector":{"requirements":[{"key":"a","operator":"In","values":["x","y"]},{"key":"b","operator":"DoesNotExist"}]}"#,
            None,
            Some("a in (x,y),!b"),
            "",
        ),
        (
            r#""labelSelector":{"requirements":[{"key":"a","operator":"Weird"}]},"fieldSelector":{"requirements":[{"key":"a","operator":"Weird"}]}"#,
            None,
            None,
            "spec.resourceAttributes.fieldSelector ignored due to parse error; spec.resourceAttributes.labelSelector ignored due to parse error",
        ),
    ] {
        let spec = format!(r#"{{"resourceAttributes":{{"verb":"get","resource":"pods",{selectors}}}}}"#);
        let answer = ask(&fake, Asked::OneSelf, &spec, "{}").await.unwrap();
        let (_, request) = fake.0.lock().pop().unwrap();
        assert_eq!(request.field_selector.as_deref(), field, "{selectors}");
        assert_eq!(request.label_selector.as_deref(), label, "{selectors}");
        let answer = json::from_slice(answer.as_bytes()).unwrap();
        assert_eq!(answer.str_at(&["evaluationError"]), ignored, "{selectors}");
    }
}

#[tokio::test]
async fn questions_that_make_no_sense_are_refused() {
    let fake = Fake::default();
    const POD: &str = r#""resourceAttributes":{"verb":"get","resource":"pods","namespace":"ns"}"#;
    const PATH: &str = r#""nonResourceAttributes":{"path":"/","verb":"get"}"#;
    for (asked, spec, metadata, want) in [
        (Asked::Subject, format!("{{{POD}}}"), "{}", r#"spec.user: Invalid value: "": at least one of user or group must be specified"#),
        (
            Asked::Subject,
            r#"{"user":"u"}"#.to_owned(),
            "{}",
            "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ),
        (
            Asked::Subject,
            format!(r#"{{"user":"u",{POD},{PATH}}}"#),
            "{}",
            r#"spec.nonResourceAttributes: Invalid value: {"Path":"/","Verb":"get"}: cannot be specified in combination with resourceAttributes"#,
        ),
        (
            Asked::Local,
            format!(r#"{{"user":"u",{POD}}}"#),
            r#"{"namespace":"other"}"#,
            r#"spec.resourceAttributes.namespace: Invalid value: "ns": must match metadata.namespace"#,
        ),
        (
            Asked::Local,
            format!(r#"{{"user":"u",{PATH}}}"#),
            r#"{"namespace":"ns"}"#,
            r#"spec.nonResourceAttributes: Invalid value: {"Path":"/","Verb":"get"}: disallowed on this kind of request"#,
        ),
        (
            Asked::OneSelf,
            r#"{"resourceAttributes":{"labelSelector":{}}}"#.to_owned(),
            "{}",
            "spec.resourceAttributes.labelSelector.requirements: Required value: when spec.resourceAttributes.labelSelector is specified, requirements or rawSelector is required",
        ),
        (
            Asked::OneSelf,
            r#"{"resourceAttributes":{"labelSelector":{"rawSelector":"a=b","requirements":[{"key":"a","operator":"Exists"}]}}}"#.to_owned(),
            "{}",
            r#"spec.resourceAttributes.labelSelector.rawSelector: Invalid value: "a=b": may not specified at the same time as requirements"#,
        ),
        (
            Asked::OneSelf,
            r#"{"resourceAttributes":{"fieldSelector":{"requirements":[{"operator":"In"}]}}}"#.to_owned(),
            "{}",
            "[spec.resourceAttributes.fieldSelector.requirements[0].key: Required value: must be specified, spec.resourceAttributes.fieldSelector.requirements[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn']",
        ),
    ] {
        let refused = ask(&fake, asked, &spec, metadata).await.unwrap_err();
        assert_eq!(refused, format!(r#".authorization.k8s.io "" is invalid: {want}"#));
    }
    let named = ask(&fake, Asked::OneSelf, &format!("{{{POD}}}"), r#"{"name":"x"}"#)
        .await
        .unwrap_err();
    assert!(
        named.contains("metadata: Invalid value: ") && named.ends_with("must be empty"),
        "{named}"
    );
}
