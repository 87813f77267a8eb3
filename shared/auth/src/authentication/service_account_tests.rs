//! Tokens from issue to refusal.

use std::io::Write;

use futures_util::FutureExt;
use triptych_object::json;

use super::super::issuer::{Binding, OpenIdDocuments, Reference, TokenContent, TokenIssuer};
use super::super::keys::SigningKey;
use super::*;

/// Objects by `resource/namespace/name`.
#[derive(Default)]
struct Fake(std::collections::HashMap<String, Value>);

impl Fake {
    fn with(mut self, key: &str, object: &str) -> Fake {
        self.0
            .insert(key.to_owned(), json::from_slice(object.as_bytes()).unwrap());
        self
    }
}

impl CoreObjects for Fake {
    fn get<'a>(
        &'a self,
        resource: &'static str,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Value>, String>> {
        std::future::ready(Ok(self.0.get(&format!("{resource}/{namespace}/{name}")).cloned())).boxed()
    }
}

fn key(algorithm: &'static rcgen::SignatureAlgorithm) -> SigningKey {
    let pair = rcgen::KeyPair::generate_for(algorithm).unwrap();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(pair.serialize_pem().as_bytes()).unwrap();
    SigningKey::load(file.path()).unwrap()
}

fn issuer(key: SigningKey) -> TokenIssuer {
    TokenIssuer {
        key,
        issuer: "https://issuer".to_owned(),
        audiences: vec!["api".to_owned()],
        max_expiration: None,
        extend_expiration: true,
    }
}

fn reference(name: &str, uid: &str) -> Option<Reference> {
    Some(Reference {
        name: name.to_owned(),
        uid: uid.to_owned(),
    })
}

const NOW: i64 = 1_700_000_000;

fn content() -> TokenContent {
    TokenContent {
        namespace: "ns".to_owned(),
        account: reference("sa", "u1").unwrap(),
        audiences: vec!["api".to_owned()],
        issued_at: NOW,
        expires_in: 3600,
        id: "jti-1".to_owned(),
        ..TokenContent::default()
    }
}

fn account() -> Fake {
    Fake::default().with("serviceaccounts/ns/sa", r#"{"metadata":{"uid":"u1"}}"#)
}

fn accepting(issuer: &TokenIssuer, objects: Fake) -> ServiceAccountTokens {
    ServiceAccountTokens::new(
        vec![issuer.issuer.clone()],
        vec![issuer.key.public.clone()],
        issuer.audiences.clone(),
        Bound::Local(Arc::new(objects)),
    )
}

async fn judge(tokens: &ServiceAccountTokens, token: &str, now: i64) -> Result<Arc<UserInfo>, String> {
    match tokens.judge(token, &["api".to_owned()], now).await {
        TokenVerdict::Known { user, .. } => Ok(user),
        TokenVerdict::Bad(why) => Err(why),
        other => Err(format!("{other:?}")),
    }
}

#[tokio::test]
async fn every_kind_of_key_signs_and_verifies() {
    for algorithm in [
        &rcgen::PKCS_RSA_SHA256,
        &rcgen::PKCS_ECDSA_P256_SHA256,
        &rcgen::PKCS_ECDSA_P384_SHA384,
        &rcgen::PKCS_ECDSA_P521_SHA512,
    ] {
        let issuer = issuer(key(algorithm));
        let token = issuer.issue(&content()).unwrap();
        let user = judge(&accepting(&issuer, account()), &token, NOW + 1).await.unwrap();
        assert_eq!(user.name, "system:serviceaccount:ns:sa");
        assert_eq!(user.uid, "u1");
        assert_eq!(user.groups, ["system:serviceaccounts", "system:serviceaccounts:ns"]);
        assert_eq!(user.extra[CREDENTIAL_ID], ["JTI=jti-1"]);
        let jwk = issuer.key.public.jwk().unwrap();
        assert_eq!(jwk.str_at(&["alg"]), issuer.key.public.algorithm());
        assert_eq!(jwk.str_at(&["kid"]), issuer.key.public.id);
    }
}

#[tokio::test]
async fn a_token_fails_for_the_reason_kubernetes_gives() {
    let issuer = issuer(key(&rcgen::PKCS_ECDSA_P256_SHA256));
    let token = issuer.issue(&content()).unwrap();
    let tokens = accepting(&issuer, account());
    let expired = judge(&tokens, &token, NOW + 3600 + LEEWAY + 1).await;
    assert_eq!(expired.unwrap_err(), "service account token has expired");
    let early = judge(&tokens, &token, NOW - LEEWAY - 1).await;
    assert_eq!(early.unwrap_err(), "service account token is not valid yet");

    let gone = judge(&accepting(&issuer, Fake::default()), &token, NOW).await;
    assert_eq!(gone.unwrap_err(), r#"serviceaccounts "sa" not found"#);
    let again = Fake::default().with("serviceaccounts/ns/sa", r#"{"metadata":{"uid":"u2"}}"#);
    let again = judge(&accepting(&issuer, again), &token, NOW).await;
    assert_eq!(again.unwrap_err(), "service account UID (u2) does not match claim (u1)");
    let deleting = r#"{"metadata":{"uid":"u1","deletionTimestamp":"2020-01-01T00:00:00Z"}}"#;
    let deleting = Fake::default().with("serviceaccounts/ns/sa", deleting);
    let deleting = judge(&accepting(&issuer, deleting), &token, NOW).await;
    assert_eq!(deleting.unwrap_err(), "service account ns/sa has been deleted");

    let elsewhere = tokens.judge(&token, &["other".to_owned()], NOW).await;
    let want = r#"token audiences ["api"] is invalid for the target audiences ["other"]"#;
    assert_eq!(elsewhere, TokenVerdict::Bad(want.to_owned()));
}

#[tokio::test]
async fn forged_tokens_are_refused() {
    let issuer = issuer(key(&rcgen::PKCS_ECDSA_P256_SHA256));
    let other = self::issuer(key(&rcgen::PKCS_ECDSA_P256_SHA256));
    let tokens = accepting(&issuer, account());
    let token = issuer.issue(&content()).unwrap();
    let [header, claims, signature] = token.split('.').collect::<Vec<_>>()[..] else {
        panic!()
    };
    let encode = |json: &str| {
        use base64::Engine;
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(json)
    };
    let admin = encode(r#"{"iss":"https://issuer","sub":"system:serviceaccount:kube-system:admin","aud":"api"}"#);
    for (what, token) in [
        ("other claims", format!("{header}.{admin}.{signature}")),
        ("no algorithm", format!("{}.{claims}.", encode(r#"{"alg":"none"}"#))),
        (
            "a shared secret",
            format!("{}.{claims}.{signature}", encode(r#"{"alg":"HS256"}"#)),
        ),
        (
            "another algorithm",
            format!("{}.{claims}.{signature}", encode(r#"{"alg":"ES384"}"#)),
        ),
        ("another key", other.issue(&content()).unwrap()),
    ] {
        assert!(judge(&tokens, &token, NOW).await.is_err(), "{what}");
    }
    for (what, token) in [
        ("nothing", String::new()),
        ("two parts", format!("{header}.{claims}")),
        ("four parts", format!("{token}.x")),
        ("no base64", "?.?.?".to_owned()),
        (
            "another issuer",
            format!("{header}.{}.{signature}", encode(r#"{"iss":"x"}"#)),
        ),
        ("no object", format!("{header}.{}.{signature}", encode("[]"))),
        (
            "a critical extension",
            format!("{}.{claims}.{signature}", encode(r#"{"alg":"ES256","crit":["b64"]}"#)),
        ),
    ] {
        let verdict = tokens.judge(&token, &["api".to_owned()], NOW).await;
        assert_eq!(verdict, TokenVerdict::Unknown, "{what}");
    }
}

#[tokio::test]
async fn a_bound_token_dies_with_what_it_is_bound_to() {
    let issuer = issuer(key(&rcgen::PKCS_ECDSA_P256_SHA256));
    let object = |uid: &str| format!(r#"{{"metadata":{{"uid":"{uid}"}}}}"#);
    for (kind, at, binding) in [
        (
            "secret",
            "secrets/ns/x",
            Binding {
                secret: reference("x", "u9"),
                ..Binding::default()
            },
        ),
        (
            "pod",
            "pods/ns/x",
            Binding {
                pod: reference("x", "u9"),
                node: reference("n", "u8"),
                ..Binding::default()
            },
        ),
        (
            "node",
            "nodes//x",
            Binding {
                node: reference("x", "u9"),
                ..Binding::default()
            },
        ),
    ] {
        let token = issuer.issue(&TokenContent { binding, ..content() }).unwrap();
        let alive = accepting(&issuer, account().with(at, &object("u9")));
        let user = judge(&alive, &token, NOW).await.unwrap();
        if kind == "pod" {
            assert_eq!(user.extra["authentication.kubernetes.io/pod-uid"], ["u9"]);
            assert_eq!(user.extra["authentication.kubernetes.io/node-name"], ["n"]);
        }
        let gone = judge(&accepting(&issuer, account()), &token, NOW).await;
        assert_eq!(gone.unwrap_err(), "service account token has been invalidated");
        let again = judge(&accepting(&issuer, account().with(at, &object("u10"))), &token, NOW).await;
        assert_eq!(
            again.unwrap_err(),
            format!("{kind} UID (u10) does not match service account {kind} ref claim (u9)")
        );
    }
}

#[test]
fn claims_are_those_of_kubernetes() {
    let issuer = issuer(key(&rcgen::PKCS_ECDSA_P256_SHA256));
    let binding = Binding {
        pod: reference("p", "u2"),
        node: reference("n", ""),
        ..Binding::default()
    };
    let content = TokenContent {
        binding,
        warn_after: 3607,
        ..content()
    };
    let token = issuer.issue(&content).unwrap();
    let claims = Unverified::parse(&token)
        .unwrap()
        .verify(std::slice::from_ref(&issuer.key.public))
        .unwrap();
    assert_eq!(
        json::to_string(&claims.0),
        r#"{"aud":["api"],"exp":1700003600,"iat":1700000000,"iss":"https://issuer","jti":"jti-1","kubernetes.io":{"namespace":"ns","node":{"name":"n"},"pod":{"name":"p","uid":"u2"},"serviceaccount":{"name":"sa","uid":"u1"},"warnafter":1700003607},"nbf":1700000000,"sub":"system:serviceaccount:ns:sa"}"#
    );
}

#[test]
fn only_a_pods_default_token_is_extended() {
    let issuer = issuer(key(&rcgen::PKCS_ECDSA_P256_SHA256));
    let own = ["api".to_owned()];
    assert_eq!(issuer.lifetime(3607, true, &own), (31_536_000, 3607));
    assert_eq!(issuer.lifetime(3607, false, &own), (3607, 0));
    assert_eq!(issuer.lifetime(3600, true, &own), (3600, 0));
    assert_eq!(issuer.lifetime(3607, true, &["vault".to_owned()]), (3607, 0));
}

#[tokio::test]
async fn a_token_kept_in_a_secret_must_be_the_one_stored() {
    let issuer = TokenIssuer {
        issuer: LEGACY_ISSUER.to_owned(),
        ..issuer(key(&rcgen::PKCS_ECDSA_P256_SHA256))
    };
    let claims = Value::from([
        ("iss", LEGACY_ISSUER.into()),
        ("sub", "system:serviceaccount:ns:sa".into()),
        ("kubernetes.io/serviceaccount/namespace", "ns".into()),
        ("kubernetes.io/serviceaccount/secret.name", "s".into()),
        ("kubernetes.io/serviceaccount/service-account.name", "sa".into()),
        ("kubernetes.io/serviceaccount/service-account.uid", "u1".into()),
    ]);
    let token = super::super::jwt::sign(&issuer.key, &claims).unwrap();
    use base64::Engine;
    let stored = base64::engine::general_purpose::STANDARD.encode(&token);
    let secret = |extra: &str| format!(r#"{{"metadata":{{"uid":"u3"{extra}}},"data":{{"token":"{stored}"}}}}"#);
    let with = |secret: &str| accepting(&issuer, account().with("secrets/ns/s", secret));
    assert!(judge(&with(&secret("")), &token, NOW).await.is_ok());
    let invalid = secret(r#","labels":{"kubernetes.io/legacy-token-invalid-since":"2024-01-01"}"#);
    assert!(
        judge(&with(&invalid), &token, NOW)
            .await
            .unwrap_err()
            .contains("has been marked invalid")
    );
    let other = judge(&with(r#"{"data":{"token":"eA=="}}"#), &token, NOW).await;
    assert_eq!(other.unwrap_err(), "Token does not match server's copy");
    let none = judge(&accepting(&issuer, account()), &token, NOW).await;
    assert_eq!(none.unwrap_err(), "Token has been invalidated");
}

#[test]
fn discovery_documents_name_issuer_and_keys() {
    let key = key(&rcgen::PKCS_ECDSA_P256_SHA256);
    let keys = [key.public];
    let documents = OpenIdDocuments::new("https://issuer", "https://server/openid/v1/jwks", &keys).unwrap();
    assert_eq!(
        documents.configuration,
        r#"{"issuer":"https://issuer","jwks_uri":"https://server/openid/v1/jwks","response_types_supported":["id_token"],"subject_types_supported":["public"],"id_token_signing_alg_values_supported":["ES256"]}"#
    );
    let set = json::from_slice(&documents.keys).unwrap();
    assert_eq!(set.array_at(&["keys"])[0].str_at(&["kid"]), keys[0].id);
    for issuer in ["http://issuer", "https://issuer?x", "https://issuer#x"] {
        assert!(
            OpenIdDocuments::new(issuer, "https://server", &keys).is_err(),
            "{issuer}"
        );
    }
}
