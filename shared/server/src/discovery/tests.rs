//! Three publications in a row, asked as clients ask and as tiers ask each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use http_body_util::BodyExt;
use triptych_object::{RequestInfo, UserInfo, Value, json};
use triptych_registry::discovery::Priority;
use triptych_registry::openapi::{Document, Source};
use triptych_registry::{Handler, Request};
use triptych_schema::openapi::Describe;
use triptych_schema::openapi::v2::Swagger;
use triptych_schema::types::Schema;

use super::fetch::{AGGREGATED, Ask, Fetch, Fetched, WAIT};
use super::publication::Published;
use super::{Backing, Own, OwnVersion, Publication, Service};
use crate::claim::{Claim, Claims};

struct Text(&'static str);

impl Source for Text {
    fn v3(&self, _: &dyn Describe) -> Vec<u8> {
        format!(r#"{{"openapi":"3.0.0","info":{{"title":"{}"}}}}"#, self.0).into_bytes()
    }

    fn add_to(&self, whole: &mut Swagger, _: &dyn Describe) {
        let part = format!(r#"{{"paths":{{"/{}":{{}}}}}}"#, self.0);
        whole.merge(part.as_bytes()).unwrap();
    }
}

fn own(group: &str, custom: bool) -> Own {
    let resources = json::from_slice(br#"[{"resource":"things"}]"#).unwrap();
    Own {
        versions: vec![OwnVersion::new(group, "v1", custom, vec![Value::object()], &resources)],
        documents: vec![Document::new(&format!("apis/{group}/v1"), b"1", Text("own"))],
    }
}

/// A tier as the one in front of it reaches it; can be taken away.
struct Tier {
    publication: Arc<Publication>,
    away: AtomicBool,
}

impl Fetch for Tier {
    fn fetch(&self, ask: Ask) -> BoxFuture<'_, Result<Fetched, String>> {
        Box::pin(async move {
            if self.away.load(Ordering::Relaxed) {
                return Err("away".into());
            }
            let mut headers = vec![("accept", ask.accept.to_owned())];
            headers.extend(ask.etag.map(|e| ("if-none-match", e)));
            headers.extend(ask.wait.map(|w| (WAIT, w.to_string())));
            let answer = get_as("system:tier:test", &self.publication, &ask.target, &headers).await;
            Ok(match answer.status {
                200 => Fetched::Document {
                    kind: answer.header("content-type"),
                    etag: Some(answer.header("etag")),
                    body: answer.body,
                },
                304 => Fetched::NotModified,
                code => Fetched::Refused(code),
            })
        })
    }
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    fn header(&self, name: &str) -> String {
        self.headers
            .get(name)
            .map_or(String::new(), |v| v.to_str().unwrap().to_owned())
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

async fn get(of: &Arc<Publication>, target: &str, headers: &[(&'static str, String)]) -> Answer {
    get_as("somebody", of, target, headers).await
}

async fn get_as(user: &str, of: &Arc<Publication>, target: &str, headers: &[(&'static str, String)]) -> Answer {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let headers = headers
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()));
    let request = Request {
        info: RequestInfo::parse("GET", path, query).unwrap(),
        method: Method::GET,
        query: query.to_owned(),
        headers: headers.collect(),
        body: Bytes::new(),
        user: Arc::new(UserInfo::new(user, ["system:authenticated"])),
        deadline: Instant::now() + Duration::from_secs(60),
    };
    let (head, body) = of.handle(request).await.into_parts();
    Answer {
        status: head.status.as_u16(),
        headers: head.headers,
        body: body.collect().await.unwrap().to_bytes(),
    }
}

fn schema() -> Arc<Schema> {
    Arc::new(Schema::new())
}

struct Chain {
    front: Arc<Publication>,
    last: Arc<Publication>,
    middle: Arc<Tier>,
}

/// Three tiers, following each other.
fn chain() -> Chain {
    let behind = |publication: &Arc<Publication>| {
        Arc::new(Tier {
            publication: Arc::clone(publication),
            away: AtomicBool::new(false),
        })
    };
    let last = Publication::new(schema(), "", None);
    last.set_own(own("apiextensions.k8s.io", false));
    let middle = Publication::new(schema(), "10.0.0.1:443", Some(behind(&last)));
    middle.set_own(own("apps", false));
    let middle_tier = behind(&middle);
    let front = Publication::new(
        schema(),
        "10.0.0.1:443",
        Some(Arc::clone(&middle_tier) as Arc<dyn Fetch>),
    );
    front.set_own(own("apiregistration.k8s.io", false));
    for publication in [&last, &middle, &front] {
        tokio::spawn(Arc::clone(publication).run());
    }
    Chain {
        front,
        last,
        middle: middle_tier,
    }
}

async fn until(of: &Arc<Publication>, what: impl Fn(&Arc<super::publication::Merged>) -> bool) {
    let mut merged = of.subscribe();
    let arrived = tokio::time::timeout(Duration::from_secs(5), merged.wait_for(what)).await;
    assert!(arrived.is_ok(), "it never came");
}

async fn settled() -> Chain {
    let chain = chain();
    until(&chain.front, |m| {
        m.snapshot.group("apps").is_some() && m.snapshot.group("apiextensions.k8s.io").is_some()
    })
    .await;
    chain
}

#[tokio::test]
async fn a_group_that_appears_at_the_end_of_the_chain_is_soon_at_its_front() {
    let chain = settled().await;
    let mut both = own("apiextensions.k8s.io", false);
    let more = own("example.com", true);
    both.versions.extend(more.versions);
    both.documents.extend(more.documents);
    let begun = Instant::now();
    chain.last.set_own(both);
    until(&chain.front, |m| m.snapshot.group("example.com").is_some()).await;
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    let answer = get(&chain.front, "/apis/example.com", &[]).await;
    assert!(
        answer
            .text()
            .starts_with(r#"{"kind":"APIGroup","apiVersion":"v1","name":"example.com""#)
    );
    until(&chain.front, |m| {
        String::from_utf8_lossy(&m.index).contains("apis/example.com/v1")
    })
    .await;
    chain.last.set_own(own("apiextensions.k8s.io", false));
    until(&chain.front, |m| m.snapshot.group("example.com").is_none()).await;
}

#[tokio::test]
async fn a_tier_that_is_away_is_reported_and_its_documents_stay() {
    let chain = settled().await;
    chain.middle.away.store(true, Ordering::Relaxed);
    // a question that was waiting is answered by a change
    chain.middle.publication.set_own(own("batch", false));
    let begun = Instant::now();
    while chain.front.trouble().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(5));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let answer = get(&chain.front, "/apis", &[]).await;
    assert!(answer.text().contains("apiextensions.k8s.io"));
    let answer = get(&chain.front, "/openapi/v2", &[]).await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn aggregated_discovery_is_given_to_who_names_it_and_spared_who_has_it() {
    let chain = settled().await;
    let accept = ("accept", AGGREGATED.to_owned());
    let answer = get(&chain.front, "/apis", std::slice::from_ref(&accept)).await;
    assert_eq!(answer.header("content-type"), AGGREGATED);
    assert!(answer.text().ends_with("]}\n"));
    let etag = answer.header("etag");
    let again = |tag: String| [accept.clone(), ("if-none-match", tag)];
    assert_eq!(get(&chain.front, "/apis", &again(etag.clone())).await.status, 304);
    assert_eq!(
        get(&chain.front, "/apis", &again(format!("W/{etag}"))).await.status,
        200
    );
    assert_eq!(get(&chain.front, "/apis", &again("*".into())).await.status, 200);
    let plain = get(&chain.front, "/apis/", &[accept]).await;
    assert_eq!(plain.status, 406, "with a slash there is only the plain form");
    let both = ("accept", format!("{AGGREGATED},application/json"));
    assert_eq!(
        get(&chain.front, "/apis/", &[both]).await.header("content-type"),
        "application/json"
    );
}

#[tokio::test]
async fn refusals_are_worded_by_who_would_have_answered() {
    let chain = settled().await;
    let html = [("accept", "text/html".to_owned())];
    let answer = get(&chain.front, "/api", &html).await;
    assert_eq!(answer.status, 406);
    assert!(
        answer
            .text()
            .contains(r"406: Not Acceptable\n\nAvailable representations: application/json,")
    );
    let answer = get(&chain.front, "/apis", &html).await;
    assert!(
        answer
            .text()
            .contains("only the following media types are accepted: application/json,")
    );
    let pretty = get(&chain.front, "/apis/apps?pretty=1", &[]).await;
    assert!(pretty.text().starts_with("{\n  \"kind\": \"APIGroup\",\n"));
}

#[tokio::test]
async fn a_document_moves_with_its_hash_and_is_immutable_under_it() {
    let chain = settled().await;
    let path = "/openapi/v3/apis/apiregistration.k8s.io/v1";
    let answer = get(&chain.front, path, &[]).await;
    assert_eq!(answer.status, 200);
    let etag = answer.header("etag");
    let hash = etag.trim_matches('"');
    let moved = get(&chain.front, &format!("{path}?hash=ABC"), &[]).await;
    assert_eq!((moved.status, moved.text()), (301, ""));
    assert_eq!(moved.header("location"), format!("{path}?hash={hash}"));
    assert_eq!(moved.header("content-type"), "application/json");
    let found = get(&chain.front, &format!("{path}?hash={hash}"), &[]).await;
    assert_eq!(found.header("cache-control"), "public, immutable");
    assert_eq!(
        get(&chain.front, path, &[("if-none-match", "*".into())]).await.status,
        304
    );
    assert_eq!(
        get(&chain.front, path, &[("accept", "text/html".into())]).await.status,
        406
    );
    let index = get(&chain.front, "/openapi/v3", &[]).await;
    assert_eq!(index.header("content-type"), "text/plain; charset=utf-8");
    assert!(
        index
            .text()
            .contains(&format!(r#""serverRelativeURL":"{path}?hash={hash}""#))
    );
}

#[tokio::test]
async fn the_v2_document_is_that_of_all_tiers() {
    let chain = settled().await;
    let answer = get(&chain.front, "/openapi/v2", &[]).await;
    assert_eq!(answer.header("content-type"), "application/json");
    assert!(answer.text().contains(r#""/own":{}"#));
    let protobuf = (
        "accept",
        "application/com.github.proto-openapi.spec.v2@v1.0+protobuf".to_owned(),
    );
    let answer = get(&chain.front, "/openapi/v2", &[protobuf]).await;
    assert_eq!(
        answer.header("content-type"),
        "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    );
}

#[tokio::test]
async fn only_tiers_may_wait_for_a_change() {
    let chain = settled().await;
    let etag = get(&chain.front, "/openapi/v3", &[]).await.header("etag");
    let ask = [("if-none-match", etag), (WAIT, "20".to_owned())];
    let begun = Instant::now();
    assert_eq!(get(&chain.front, "/openapi/v3", &ask).await.status, 304);
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn an_api_service_nobody_described_is_listed_as_stale() {
    let chain = settled().await;
    let service = |group: &str| Service {
        group: group.into(),
        version: "v1".into(),
        priority: Priority::CUSTOM,
        backing: Backing::Local,
    };
    chain
        .front
        .set_services(vec![service("apps"), service("gone.example.com")]);
    until(&chain.front, |m| m.snapshot.group("gone.example.com").is_some()).await;
    let answer = get(&chain.front, "/apis", &[("accept", AGGREGATED.to_owned())]).await;
    assert!(
        answer
            .text()
            .contains(r#"{"metadata":{"name":"gone.example.com"},"versions":[{"version":"v1","freshness":"Stale"}]}"#)
    );
    let plain = get(&chain.front, "/apis", &[]).await;
    assert!(!plain.text().contains("apiextensions.k8s.io"), "it has no APIService");
}

#[tokio::test]
async fn paths_are_claimed_by_who_serves_them() {
    let chain = settled().await;
    let claimed = |of: &Arc<Publication>, path: &str| match Published(Arc::clone(of))
        .find(&RequestInfo::parse("GET", path, "").unwrap())
    {
        Claim::Path { get_only: true, .. } => "get",
        Claim::Path { .. } => "any",
        Claim::NoSuchResource => "missing",
        Claim::Unclaimed { .. } => "unclaimed",
        _ => "other",
    };
    for (path, front, last) in [
        ("/api", "get", "get"),
        ("/apis/", "any", "any"),
        ("/apis/apps", "any", "unclaimed"),
        ("/apis/apps/v1", "unclaimed", "unclaimed"),
        ("/apis/apiregistration.k8s.io/v1/", "get", "unclaimed"),
        ("/apis/apiregistration.k8s.io/v9", "missing", "unclaimed"),
        ("/apis/apiextensions.k8s.io/v1", "unclaimed", "get"),
        ("/apis/none.example.com", "unclaimed", "unclaimed"),
        ("/openapi/v2", "any", "any"),
        ("/openapi/v3/apis/apps/v1", "unclaimed", "any"),
        ("/openapi/v3/apis/apiregistration.k8s.io/v1", "any", "any"),
        ("/openapi/v3/", "unclaimed", "any"),
        ("/openapi", "unclaimed", "unclaimed"),
    ] {
        assert_eq!(
            (claimed(&chain.front, path), claimed(&chain.last, path)),
            (front, last),
            "{path}"
        );
    }
    let answer = get(&chain.last, "/openapi/v3/none", &[]).await;
    assert_eq!(
        (answer.status, answer.text(), answer.header("content-type")),
        (404, "", String::new())
    );
}
