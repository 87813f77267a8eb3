//! Who wins when a request carries several credentials, good and bad.

use std::net::{Ipv4Addr, SocketAddr};

use http::HeaderMap;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls_pki_types::CertificateDer;

use super::token::TokenUnion;
use super::token_file::TokenFile;
use super::trust::{Authorities, FrontProxyTrust};
use super::*;
use crate::authenticator::ConnectionIdentity;

struct World {
    authentication: Authentication,
    client: CertificateDer<'static>,
    proxy: CertificateDer<'static>,
    stranger: CertificateDer<'static>,
}

fn world() -> World {
    let dir = tempfile::TempDir::new().unwrap();
    let make = |file: &str, name: &str| {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, file);
        let key = KeyPair::generate().unwrap();
        let path = dir.path().join(file);
        std::fs::write(&path, params.self_signed(&key).unwrap().pem()).unwrap();
        let issuer = Issuer::new(params, key);
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let leaf = params.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap();
        (Authorities::load(path).unwrap(), leaf.der().clone())
    };
    let (clients, client) = make("clients", "ann");
    let (proxies, proxy) = make("proxies", "aggregator");
    let (_, stranger) = make("strangers", "ann");
    std::fs::write(dir.path().join("tokens"), "tok,bob,1,devs\n").unwrap();
    let tokens = TokenFile::load(&dir.path().join("tokens"), vec!["api".to_owned()]).unwrap();
    let front_proxy = FrontProxyTrust {
        authorities: proxies,
        allowed_names: vec!["aggregator".to_owned()],
    };
    World {
        authentication: Authentication {
            trust: Arc::new(Trust::new(Some(clients), Some(front_proxy))),
            request_headers: RequestHeaders::default(),
            tokens: Some(Arc::new(TokenUnion::new(vec![Box::new(tokens)]))),
            audiences: vec!["api".to_owned()],
            anonymous: Some(Arc::new(UserInfo::anonymous())),
        },
        client,
        proxy,
        stranger,
    }
}

async fn ask(world: &World, certificate: Option<&CertificateDer<'static>>, headers: &[(&'static str, &str)]) -> String {
    let headers: HeaderMap = headers
        .iter()
        .map(|(k, v)| (http::HeaderName::from_static(k), v.parse().unwrap()))
        .collect();
    let certificates: Vec<_> = certificate.cloned().into_iter().collect();
    let identity = world
        .authentication
        .authenticate(Credentials {
            certificates: &certificates,
            connection: &ConnectionIdentity::default(),
            headers: &headers,
            peer: SocketAddr::from((Ipv4Addr::LOCALHOST, 1)),
        })
        .await;
    match identity {
        Identity::User(user) => format!("{} {}", user.name, user.groups.join(",")),
        Identity::Unauthorized(_) => "401".to_owned(),
        Identity::Unavailable(_) => "503".to_owned(),
    }
}

#[tokio::test]
async fn the_first_good_credential_counts_and_a_bad_one_is_never_anonymous() {
    let w = world();
    let (good, bad) = (("authorization", "Bearer tok"), ("authorization", "Bearer nope"));
    let asserted = ("x-remote-user", "root");
    let masters = ("x-remote-group", "system:masters");
    let (client, proxy, stranger) = (Some(&w.client), Some(&w.proxy), Some(&w.stranger));
    for (what, certificate, headers, want) in [
        ("nothing", None, vec![], "system:anonymous system:unauthenticated"),
        ("a token", None, vec![good], "bob devs,system:authenticated"),
        ("a bad token", None, vec![bad], "401"),
        ("a client", client, vec![], "ann system:authenticated"),
        (
            "a client with a bad token",
            client,
            vec![bad],
            "ann system:authenticated",
        ),
        ("a stranger", stranger, vec![], "401"),
        (
            "a stranger with a good token",
            stranger,
            vec![good],
            "bob devs,system:authenticated",
        ),
        ("a stranger with a bad token", stranger, vec![bad], "401"),
        (
            "anybody's headers",
            None,
            vec![asserted, masters],
            "system:anonymous system:unauthenticated",
        ),
        (
            "a client's headers",
            client,
            vec![asserted, masters],
            "ann system:authenticated",
        ),
        ("a stranger's headers", stranger, vec![asserted, masters], "401"),
        (
            "a proxy's headers",
            proxy,
            vec![asserted, masters],
            "root system:masters,system:authenticated",
        ),
        (
            "a proxy without headers",
            proxy,
            vec![],
            "system:anonymous system:unauthenticated",
        ),
        (
            "a proxy for nobody",
            proxy,
            vec![
                ("x-remote-user", "system:anonymous"),
                ("x-remote-group", "system:unauthenticated"),
            ],
            "system:anonymous system:unauthenticated",
        ),
    ] {
        assert_eq!(ask(&w, certificate, &headers).await, want, "{what}");
    }
}

#[tokio::test]
async fn without_anonymous_a_request_needs_a_credential() {
    let mut w = world();
    w.authentication.anonymous = None;
    assert_eq!(ask(&w, None, &[]).await, "401");
}

#[tokio::test]
async fn a_review_tells_what_a_token_is_worth() {
    let w = world();
    let tokens = w.authentication.tokens.as_deref().unwrap();
    let review = async |token: &str, audience: &str| {
        triptych_object::json::to_string(&review::review_token(tokens, token, &[audience.to_owned()]).await)
    };
    assert_eq!(
        review("tok", "api").await,
        r#"{"authenticated":true,"user":{"username":"bob","uid":"1","groups":["devs","system:authenticated"]},"audiences":["api"]}"#
    );
    let bad = r#"{"user":{},"error":"invalid bearer token"}"#;
    assert_eq!(review("nope", "api").await, bad);
    assert_eq!(review("tok", "other").await, bad);
}
