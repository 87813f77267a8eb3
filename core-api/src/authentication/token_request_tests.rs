//! Tokens on request, and what is refused.

use std::collections::HashMap;

use base64::Engine;
use triptych_auth::authentication::keys::SigningKey;
use triptych_object::json;

use super::*;

struct Fake(HashMap<&'static str, Value>);

impl CoreObjects for Fake {
    fn get<'a>(
        &'a self,
        resource: &'static str,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Value>, String>> {
        let found = self.0.get(format!("{resource}/{namespace}/{name}").as_str()).cloned();
        std::future::ready(Ok(found)).boxed()
    }
}

fn action() -> TokenRequest {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap();
    let key = SigningKey::load(file.path()).unwrap();
    let object = |text: &str| json::from_slice(text.as_bytes()).unwrap();
    TokenRequest {
        issuer: Some(Arc::new(TokenIssuer {
            key,
            issuer: "https://issuer".to_owned(),
            audiences: vec!["api".to_owned()],
            max_expiration: Some(7200),
            extend_expiration: true,
        })),
        objects: Arc::new(Fake(HashMap::from([
            (
                "serviceaccounts/ns/sa",
                object(r#"{"metadata":{"name":"sa","uid":"u1"}}"#),
            ),
            (
                "pods/ns/p",
                object(r#"{"metadata":{"name":"p","uid":"u2"},"spec":{"serviceAccountName":"sa","nodeName":"n"}}"#),
            ),
            (
                "pods/ns/other",
                object(r#"{"metadata":{"name":"other","uid":"u3"},"spec":{"serviceAccountName":"x"}}"#),
            ),
            ("secrets/ns/s", object(r#"{"metadata":{"name":"s","uid":"u4"}}"#)),
            ("nodes//n", object(r#"{"metadata":{"name":"n","uid":"u5"}}"#)),
        ]))),
    }
}

async fn issue(text: &str) -> Result<(Value, Value), String> {
    let request = json::from_slice(text.as_bytes()).unwrap();
    let now = Timestamp::from_second(1_700_000_000).unwrap();
    let answer = action().issue("ns", "sa", now, request).await;
    let answer = answer.map_err(|s| format!("{} {}", s.code, s.message))?;
    let token = answer.str_at(&["status", "token"]);
    let claims = token.split('.').nth(1).unwrap();
    let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(claims).unwrap();
    Ok((answer.clone(), json::from_slice(&claims).unwrap()))
}

#[tokio::test]
async fn a_request_without_wishes_gets_an_hour_towards_the_server() {
    let (mut answer, claims) = issue("{}").await.unwrap();
    answer.remove_at(&["status", "token"]);
    assert_eq!(
        json::to_string(&answer),
        r#"{"metadata":{"name":"sa","namespace":"ns","uid":"u1","creationTimestamp":"2023-11-14T22:13:20Z"},"spec":{"audiences":["api"],"expirationSeconds":3600,"boundObjectRef":null},"status":{"expirationTimestamp":"2023-11-14T23:13:20Z"}}"#
    );
    assert_eq!(claims.at(&["exp"]), Some(&Value::Int(1_700_003_600)));
    assert_eq!(claims.str_at(&["sub"]), "system:serviceaccount:ns:sa");
    assert!(!claims.str_at(&["jti"]).is_empty());
}

#[tokio::test]
async fn a_token_is_bound_to_what_was_asked() {
    let bound = |kind: &str, name: &str| {
        format!(
            r#"{{"spec":{{"expirationSeconds":3607,"boundObjectRef":{{"apiVersion":"v1","kind":"{kind}","name":"{name}"}}}}}}"#
        )
    };
    let (_, claims) = issue(&bound("Pod", "p")).await.unwrap();
    let private = claims.get("kubernetes.io").unwrap();
    assert_eq!(private.str_at(&["pod", "uid"]), "u2");
    assert_eq!(private.str_at(&["node", "uid"]), "u5");
    // The kubelet's default lifetime: the token lives on and warns.
    assert_eq!(private.at(&["warnafter"]), Some(&Value::Int(1_700_003_607)));
    assert_eq!(claims.at(&["exp"]), Some(&Value::Int(1_700_000_000 + 31_536_000)));
    let (_, claims) = issue(&bound("Secret", "s")).await.unwrap();
    assert_eq!(claims.str_at(&["kubernetes.io", "secret", "uid"]), "u4");
    let (_, claims) = issue(&bound("Node", "n")).await.unwrap();
    assert_eq!(claims.str_at(&["kubernetes.io", "node", "uid"]), "u5");
    assert!(claims.at(&["kubernetes.io", "warnafter"]).is_none());
}

#[tokio::test]
async fn a_long_life_is_shortened_to_the_limit() {
    let (answer, claims) = issue(r#"{"spec":{"expirationSeconds":86400}}"#).await.unwrap();
    assert_eq!(answer.at(&["spec", "expirationSeconds"]), Some(&Value::Int(7200)));
    assert_eq!(claims.at(&["exp"]), Some(&Value::Int(1_700_007_200)));
}

#[tokio::test]
async fn what_does_not_fit_is_refused_in_kubernetes_words() {
    for (request, want) in [
        (
            r#"{"metadata":{"name":"x"}}"#,
            r#"422 TokenRequest.authentication.k8s.io "sa" is invalid: metadata.name: Invalid value: "x": must match the service account name if specified"#,
        ),
        (
            r#"{"metadata":{"uid":"x"}}"#,
            r#"409 Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "sa": the UID in the token request (x) does not match the UID of the service account (u1)"#,
        ),
        (
            r#"{"spec":{"expirationSeconds":599}}"#,
            r#"422 TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes"#,
        ),
        (
            r#"{"spec":{"expirationSeconds":4294967297}}"#,
            r#"422 TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds"#,
        ),
        (
            r#"{"spec":{"boundObjectRef":{"apiVersion":"v1","kind":"Secret","name":"gone"}}}"#,
            r#"404 secrets "gone" not found"#,
        ),
        (
            r#"{"spec":{"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"other"}}}"#,
            r#"400 cannot bind token for serviceaccount "sa" to pod running with different serviceaccount name."#,
        ),
        (
            r#"{"spec":{"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"p","uid":"wrong"}}}"#,
            r#"409 Operation cannot be fulfilled on Pod "p": the UID in the bound object reference (wrong) does not match the UID in record. The object might have been deleted and then recreated"#,
        ),
        (
            r#"{"spec":{"boundObjectRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}}}"#,
            "400 cannot bind token to object of type apps/v1, Kind=Deployment",
        ),
    ] {
        assert_eq!(issue(request).await.unwrap_err(), want, "{request}");
    }
}
