//! Webhooks against a real TLS server that answers as told.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpListener;
use triptych_auth::{Authorizer, Decision};
use triptych_client::hook::Calls;
use triptych_object::{Gvk, Gvr, StatusResult, UserInfo, Value, json};
use triptych_registry::admission::{Attributes, Operation, Warnings};
use triptych_storage::cache::{Board, ReadError, Snapshot};
use triptych_storage::{Entry, JsonDecoder, Object, Source};

use super::Webhooks;
use super::mutating::MutatingAdmissionWebhook;
use super::services::{ClusterServices, Service};
use super::validating::ValidatingAdmissionWebhook;
use crate::chain::{Chain, Plugin};
use crate::lookup::fixed::Fixed;
use crate::matching::Namespace;
use crate::testing::{AsItIs, tree};
use triptych_registry::Admission as _;

/// An answer: the response's members besides its uid, or a whole body.
#[derive(Clone)]
enum Answer {
    Response(String),
    Body(u16, String),
    Late,
}

/// A webhook's server.
struct Server {
    url: String,
    port: u16,
    ca: String,
    answers: Mutex<VecDeque<Answer>>,
    asked: Mutex<Vec<Value>>,
}

impl Server {
    async fn start() -> Arc<Server> {
        let names = vec!["127.0.0.1".to_owned(), "hook.n.svc".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let config = rustls::ServerConfig::builder_with_provider(triptych_client::tls::provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = Arc::new(Server {
            url: format!("https://127.0.0.1:{port}/hook"),
            port,
            ca: STANDARD.encode(made.cert.pem()),
            answers: Mutex::default(),
            asked: Mutex::default(),
        });
        let own = server.clone();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (acceptor, own) = (acceptor.clone(), own.clone());
                tokio::spawn(async move {
                    let Ok(tls) = acceptor.accept(tcp).await else { return };
                    let service = service_fn(move |request| own.clone().answer(request));
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(tls), service)
                        .await;
                });
            }
        });
        server
    }

    async fn answer(
        self: Arc<Self>,
        request: hyper::Request<hyper::body::Incoming>,
    ) -> Result<hyper::Response<Full<Bytes>>, Infallible> {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let review = json::from_slice(&body).unwrap();
        let uid = review.str_at(&["request", "uid"]).to_owned();
        let version = review.str_at(&["apiVersion"]).to_owned();
        self.asked.lock().push(review);
        let answer = self.answers.lock().pop_front();
        let (code, body) = match answer {
            None => (200, response(&version, &uid, r#""allowed":true"#)),
            Some(Answer::Response(members)) => (200, response(&version, &uid, &members)),
            Some(Answer::Body(code, body)) => (code, body),
            Some(Answer::Late) => std::future::pending().await,
        };
        let response = hyper::Response::builder().status(code).body(Full::new(body.into()));
        Ok(response.unwrap())
    }

    fn say(&self, members: &str) {
        self.answers.lock().push_back(Answer::Response(members.to_owned()));
    }

    fn say_whole(&self, code: u16, body: &str) {
        self.answers.lock().push_back(Answer::Body(code, body.to_owned()));
    }

    fn times_asked(&self) -> usize {
        self.asked.lock().len()
    }
}

fn response(version: &str, uid: &str, members: &str) -> String {
    format!(r#"{{"kind":"AdmissionReview","apiVersion":"{version}","response":{{"uid":"{uid}",{members}}}}}"#)
}

fn patch(operations: &str) -> String {
    let patch = STANDARD.encode(operations);
    format!(r#""allowed":true,"patchType":"JSONPatch","patch":"{patch}""#)
}

/// Nobody may anything.
struct Nobody;

impl Authorizer for Nobody {
    fn authorize<'a>(&'a self, _: triptych_auth::Attributes<'a>) -> BoxFuture<'a, Decision> {
        Box::pin(std::future::ready(Decision::PASS))
    }
}

struct Configurations(Arc<Board>);

impl Source for Configurations {
    fn board(&self) -> &Arc<Board> {
        &self.0
    }

    fn consistent<'a>(&'a self, _wait: Duration) -> BoxFuture<'a, Result<Snapshot, ReadError>> {
        Box::pin(std::future::ready(self.0.snapshot().ok_or(ReadError::Filling)))
    }
}

/// Webhooks with these texts of JSON, all in one configuration.
fn webhooks(texts: &[String], service_port: u16) -> Webhooks {
    let configuration = format!(r#"{{"metadata":{{"name":"c"}},"webhooks":[{}]}}"#, texts.join(","));
    let entry = Entry {
        key: "/webhookconfigurations/c".into(),
        revision: 1,
        value: configuration.into(),
    };
    let board = Board::new(&[]);
    board.reset([Arc::new(Object::ingest(&entry, &JsonDecoder::default()))], 1);
    let service = format!(
        r#"{{"metadata":{{"name":"hook","namespace":"n"}},"spec":{{"type":"ClusterIP","clusterIP":"127.0.0.1","ports":[{{"port":{service_port}}}]}}}}"#
    );
    let services = ClusterServices(Fixed::<Service>::of(&[&service]));
    let namespace = r#"{"metadata":{"name":"n","labels":{"team":"a"}}}"#;
    Webhooks::new(
        Arc::new(Configurations(board)),
        Calls::new(Arc::new(services), 10, super::AGENT),
        Fixed::<Namespace>::of(&[namespace]),
        Arc::new(Nobody),
    )
}

/// A webhook for everything, with more members.
fn webhook(name: &str, server: &Server, more: &str) -> String {
    let client = format!(r#"{{"url":"{}","caBundle":"{}"}}"#, server.url, server.ca);
    webhook_at(name, &client, more)
}

fn webhook_at(name: &str, client: &str, more: &str) -> String {
    let mut members = vec![
        format!(r#""name":"{name}""#),
        format!(r#""clientConfig":{client}"#),
        r#""rules":[{"operations":["*"],"apiGroups":["*"],"apiVersions":["v1"],"resources":["*"]}]"#.to_owned(),
        r#""sideEffects":"None""#.to_owned(),
        r#""admissionReviewVersions":["v1"]"#.to_owned(),
        r#""timeoutSeconds":1"#.to_owned(),
    ];
    for member in more.split(';').filter(|m| !m.is_empty()) {
        let key = member.split(':').next().unwrap();
        members.retain(|known| !known.starts_with(key));
        members.push(member.to_owned());
    }
    format!("{{{}}}", members.join(","))
}

const OBJECT: &str = r#"{"kind":"Widget","apiVersion":"g/v1","metadata":{"name":"w","namespace":"n"},"spec":{"a":1}}"#;

struct Request {
    operation: Operation,
    version: &'static str,
    dry_run: bool,
}

const CREATE: Request = Request {
    operation: Operation::Create,
    version: "v1",
    dry_run: false,
};

async fn admit(plugin: impl Plugin, request: Request) -> (StatusResult<Value>, Warnings) {
    let (resource, kind) = (
        Gvr::new("g", request.version, "widgets"),
        Gvk::new("g", request.version, "Widget"),
    );
    let (user, model) = (UserInfo::new("u", ["a"]), AsItIs::new(kind.clone()));
    let attributes = Attributes {
        operation: request.operation,
        resource: &resource,
        subresource: "",
        kind: &kind,
        namespace: "n",
        name: "w",
        user: &user,
        dry_run: request.dry_run,
        options: None,
        model: &model,
        deadline: Instant::now() + Duration::from_secs(30),
    };
    let chain = Chain::new(vec![Box::new(plugin)]);
    let mut object = tree(OBJECT);
    object.set_at(&["apiVersion"], format!("g/{}", request.version).into());
    let old = tree(OBJECT);
    let deletes = request.operation == Operation::Delete;
    let mut warnings = Warnings::new();
    let outcome = async {
        let shown = if deletes { None } else { Some(&mut object) };
        chain
            .mutate(&attributes, shown, deletes.then_some(&old), &mut warnings)
            .await?;
        let shown = if deletes { None } else { Some(&object) };
        chain
            .validate(&attributes, shown, deletes.then_some(&old), &mut warnings)
            .await
    };
    let outcome = outcome.await;
    (outcome.map(|()| object), warnings)
}

async fn mutate(texts: &[String]) -> StatusResult<Value> {
    admit(MutatingAdmissionWebhook(webhooks(texts, 1)), CREATE).await.0
}

async fn validate(texts: &[String]) -> StatusResult<Value> {
    admit(ValidatingAdmissionWebhook(webhooks(texts, 1)), CREATE).await.0
}

#[tokio::test]
async fn a_webhook_sees_the_request_and_may_let_it_go_on() {
    let server = Server::start().await;
    validate(&[webhook("a.b.c", &server, "")]).await.unwrap();
    let asked = server.asked.lock()[0].clone();
    let request = asked.get("request").unwrap();
    let json = json::to_string(&asked);
    assert_eq!(request.str_at(&["object", "metadata", "name"]), "w");
    assert_eq!(request.str_at(&["userInfo", "username"]), "u");
    assert_eq!(request.str_at(&["operation"]), "CREATE");
    assert!(json.contains(r#""kind":{"group":"g","version":"v1","kind":"Widget"},"resource":{"group":"g","version":"v1","resource":"widgets"},"requestKind""#));
    assert!(json.contains(r#""oldObject":null,"dryRun":false,"options":null"#));
}

#[tokio::test]
async fn a_refusal_is_told_with_the_webhooks_words_code_and_warnings() {
    let server = Server::start().await;
    for (members, code, message) in [
        (
            r#""allowed":false,"status":{"code":402,"message":"no","reason":"Because"},"warnings":["careful"]"#,
            402,
            "admission webhook \"a.b.c\" denied the request: no",
        ),
        (
            r#""allowed":false,"status":{"reason":"Because"}"#,
            400,
            "admission webhook \"a.b.c\" denied the request: Because",
        ),
        (
            r#""allowed":false"#,
            400,
            "admission webhook \"a.b.c\" denied the request without explanation",
        ),
    ] {
        server.say(members);
        let plugin = ValidatingAdmissionWebhook(webhooks(&[webhook("a.b.c", &server, "")], 1));
        let (outcome, warnings) = admit(plugin, CREATE).await;
        let refusal = outcome.unwrap_err();
        assert_eq!((refusal.code, refusal.message.as_str()), (code, message));
        assert_eq!(warnings.len(), usize::from(code == 402));
    }
}

#[tokio::test]
async fn a_patch_changes_the_object() {
    let server = Server::start().await;
    server.say(&patch(
        r#"[{"op":"add","path":"/spec/b","value":2},{"op":"remove","path":"/spec/a"}]"#,
    ));
    let object = mutate(&[webhook("a.b.c", &server, "")]).await.unwrap();
    assert_eq!(json::to_string(object.get("spec").unwrap()), r#"{"b":2}"#);
    server.say(&patch(r#"[{"op":"remove","path":"/spec/nosuch"}]"#));
    let refusal = mutate(&[webhook("a.b.c", &server, "")]).await.unwrap_err();
    assert_eq!(
        refusal.message,
        "Internal error occurred: error in remove for path: '/spec/nosuch': Unable to remove nonexistent key: nosuch: missing value"
    );
}

#[tokio::test]
async fn answers_that_are_none_are_failed_calls() {
    let server = Server::start().await;
    let cases = [
        (
            "",
            r#"{"kind":"AdmissionReview"}"#,
            "received invalid webhook response: webhook response was absent",
        ),
        (
            "",
            "<html>",
            "failed to call webhook: couldn't get version/kind; json parse error: ",
        ),
        (
            r#""allowed":true,"patch":"W10=""#,
            "",
            "received invalid webhook response: validating webhook may not return response.patch",
        ),
        (
            "",
            r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"x","allowed":true}}"#,
            "received invalid webhook response: expected response.uid=",
        ),
        (
            r#""allowed":"yes""#,
            "",
            "failed to call webhook: json: cannot unmarshal string into Go struct field",
        ),
    ];
    for (members, whole, wanted) in cases {
        if whole.is_empty() {
            server.say(members);
        } else {
            server.say_whole(200, whole);
        }
        let refusal = validate(&[webhook("a.b.c", &server, "")]).await.unwrap_err();
        let prefix = "Internal error occurred: failed calling webhook \"a.b.c\": ";
        let told = refusal.message.strip_prefix(prefix).unwrap();
        assert!(told.starts_with(wanted), "{told}");
        assert_eq!(refusal.code, 500);
    }
}

#[tokio::test]
async fn failures_count_as_the_failure_policy_says() {
    let server = Server::start().await;
    for (failure, told) in [
        (
            Answer::Body(500, "boom".into()),
            "an error on the server (\"boom\") has prevented the request from succeeding",
        ),
        (
            Answer::Body(307, String::new()),
            "the server responded with the status code 307 but did not return more information",
        ),
        (Answer::Late, "context deadline exceeded"),
    ] {
        for policy in ["Fail", "Ignore"] {
            server.answers.lock().push_back(failure.clone());
            let more = format!(r#""failurePolicy":"{policy}""#);
            match validate(&[webhook("a.b.c", &server, &more)]).await {
                Ok(_) => assert_eq!(policy, "Ignore"),
                Err(refusal) => assert!(
                    policy == "Fail" && refusal.message.contains(told),
                    "{}",
                    refusal.message
                ),
            }
        }
    }
}

#[tokio::test]
async fn whom_nobody_vouches_for_is_not_believed() {
    let (server, other) = (Server::start().await, Server::start().await);
    let client = format!(r#"{{"url":"{}","caBundle":"{}"}}"#, server.url, other.ca);
    let refusal = validate(&[webhook_at("a.b.c", &client, "")]).await.unwrap_err();
    assert!(
        refusal
            .message
            .ends_with("tls: failed to verify certificate: x509: certificate signed by unknown authority"),
        "{}",
        refusal.message
    );
    assert_eq!(server.times_asked(), 0);
}

#[tokio::test]
async fn a_service_leads_to_its_webhook() {
    let server = Server::start().await;
    let service = |name: &str, port: u16| {
        format!(
            r#"{{"service":{{"name":"{name}","namespace":"n","port":{port}}},"caBundle":"{}"}}"#,
            server.ca
        )
    };
    let plugin = |client: &str| {
        let texts = [webhook_at("a.b.c", client, "")];
        ValidatingAdmissionWebhook(webhooks(&texts, server.port))
    };
    admit(plugin(&service("hook", server.port)), CREATE).await.0.unwrap();
    assert_eq!(server.times_asked(), 1);
    let told = |outcome: StatusResult<Value>| outcome.unwrap_err().message;
    assert!(told(admit(plugin(&service("nosuch", 1)), CREATE).await.0).ends_with("service \"nosuch\" not found"));
    assert!(
        told(admit(plugin(&service("hook", 1)), CREATE).await.0)
            .ends_with("no service port 1 found for service \"hook\"")
    );
}

#[tokio::test]
async fn selectors_and_rules_say_who_is_asked() {
    let server = Server::start().await;
    for (more, asked) in [
        (r#""namespaceSelector":{"matchLabels":{"team":"a"}}"#, 1),
        (r#""namespaceSelector":{"matchLabels":{"team":"b"}}"#, 0),
        (
            r#""objectSelector":{"matchExpressions":[{"key":"x","operator":"DoesNotExist"}]}"#,
            1,
        ),
        (r#""objectSelector":{"matchLabels":{"x":"y"}}"#, 0),
        (
            r#""rules":[{"operations":["UPDATE"],"apiGroups":["*"],"apiVersions":["*"],"resources":["*"]}]"#,
            0,
        ),
        (
            r#""rules":[{"operations":["CREATE"],"apiGroups":["g"],"apiVersions":["*"],"resources":["widgets"],"scope":"Cluster"}]"#,
            0,
        ),
        (
            r#""rules":[{"operations":["CREATE"],"apiGroups":["g"],"apiVersions":["*"],"resources":["*/status"]}]"#,
            0,
        ),
    ] {
        let before = server.times_asked();
        validate(&[webhook("a.b.c", &server, more)]).await.unwrap();
        assert_eq!(server.times_asked() - before, asked, "{more}");
    }
}

#[tokio::test]
async fn an_equivalent_version_is_shown_as_the_rule_names_it() {
    let server = Server::start().await;
    let in_v2 = || Request {
        version: "v2",
        ..CREATE
    };
    for (policy, asked) in [("Exact", 0), ("Equivalent", 1)] {
        let texts = [webhook("a.b.c", &server, &format!(r#""matchPolicy":"{policy}""#))];
        server.say(&patch(r#"[{"op":"add","path":"/spec/b","value":2}]"#));
        let (outcome, _) = admit(MutatingAdmissionWebhook(webhooks(&texts, 1)), in_v2()).await;
        assert_eq!(outcome.unwrap().str_at(&["apiVersion"]), "g/v2");
        assert_eq!(server.times_asked(), asked);
        server.answers.lock().clear();
    }
    let asked = server.asked.lock()[0].clone();
    assert_eq!(asked.str_at(&["request", "object", "apiVersion"]), "g/v1");
    assert_eq!(asked.str_at(&["request", "kind", "version"]), "v1");
    assert_eq!(asked.str_at(&["request", "requestKind", "version"]), "v2");
}

#[tokio::test]
async fn a_webhook_sees_again_what_was_changed_after_it_if_it_wants_to() {
    let (first, second) = (Server::start().await, Server::start().await);
    for (policy, asked) in [("IfNeeded", 2), ("Never", 1)] {
        let before = (first.times_asked(), second.times_asked());
        let more = format!(r#""reinvocationPolicy":"{policy}""#);
        second.say(&patch(r#"[{"op":"add","path":"/spec/b","value":2}]"#));
        mutate(&[webhook("a.b.c", &first, &more), webhook("d.e.f", &second, &more)])
            .await
            .unwrap();
        assert_eq!(
            (first.times_asked() - before.0, second.times_asked() - before.1),
            (asked, 1)
        );
    }
    assert_eq!(
        first.asked.lock()[1].at(&["request", "object", "spec", "b"]),
        Some(&Value::Int(2))
    );
}

#[tokio::test]
async fn dry_runs_ask_only_webhooks_without_side_effects() {
    let server = Server::start().await;
    let dry = || Request {
        dry_run: true,
        ..CREATE
    };
    let texts = [webhook("a.b.c", &server, r#""sideEffects":"Some""#)];
    let (outcome, _) = admit(ValidatingAdmissionWebhook(webhooks(&texts, 1)), dry()).await;
    let refusal = outcome.unwrap_err();
    assert_eq!(
        (refusal.code, refusal.message.as_str()),
        (400, "admission webhook \"a.b.c\" does not support dry run")
    );
    let texts = [webhook("a.b.c", &server, r#""sideEffects":"NoneOnDryRun""#)];
    admit(ValidatingAdmissionWebhook(webhooks(&texts, 1)), dry())
        .await
        .0
        .unwrap();
    assert_eq!(
        server.asked.lock()[0].at(&["request", "dryRun"]),
        Some(&Value::Bool(true))
    );
}

#[tokio::test]
async fn what_is_deleted_cannot_be_changed() {
    let server = Server::start().await;
    server.say(&patch(r#"[{"op":"add","path":"/spec/b","value":2}]"#));
    let delete = Request {
        operation: Operation::Delete,
        ..CREATE
    };
    let plugin = MutatingAdmissionWebhook(webhooks(&[webhook("a.b.c", &server, "")], 1));
    let refusal = admit(plugin, delete).await.0.unwrap_err();
    assert_eq!(
        refusal.message,
        "Internal error occurred: admission webhook \"a.b.c\" attempted to modify the object, which is not supported for this operation"
    );
    assert_eq!(
        server.asked.lock()[0].str_at(&["request", "oldObject", "metadata", "name"]),
        "w"
    );
}

#[tokio::test]
async fn older_reviews_are_spoken_with_those_who_understand_nothing_else() {
    let server = Server::start().await;
    server.say_whole(
        200,
        r#"{"response":{"allowed":true,"patch":"W3sib3AiOiJhZGQiLCJwYXRoIjoiL3NwZWMvYiIsInZhbHVlIjoyfV0="}}"#,
    );
    let object = mutate(&[webhook(
        "a.b.c",
        &server,
        r#""admissionReviewVersions":["v0","v1beta1"]"#,
    )])
    .await
    .unwrap();
    assert_eq!(object.at(&["spec", "b"]), Some(&Value::Int(2)));
    assert_eq!(
        server.asked.lock()[0].str_at(&["apiVersion"]),
        "admission.k8s.io/v1beta1"
    );
    let refusal = mutate(&[webhook("a.b.c", &server, r#""admissionReviewVersions":["v0"]"#)])
        .await
        .unwrap_err();
    assert!(refusal.message.ends_with(
        "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"
    ));
}

#[tokio::test]
async fn conditions_say_which_requests_are_shown() {
    let server = Server::start().await;
    for (condition, asked) in [
        ("object.spec.a == 1 && request.operation == 'CREATE'", 1),
        ("object.spec.a == 2", 0),
        ("authorizer.group('').resource('pods').check('get').allowed()", 0),
    ] {
        let before = server.times_asked();
        let more = format!(r#""matchConditions":[{{"name":"c","expression":"{condition}"}}]"#);
        validate(&[webhook("a.b.c", &server, &more)]).await.unwrap();
        assert_eq!(server.times_asked() - before, asked, "{condition}");
    }
    let broken = r#""matchConditions":[{"name":"c","expression":"object.nosuch == 1"}]"#;
    let refusal = validate(&[webhook("a.b.c", &server, broken)]).await.unwrap_err();
    assert_eq!(
        refusal.message,
        "widgets.g \"w\" is forbidden: expression 'object.nosuch == 1' resulted in error: no such key: nosuch"
    );
    let ignored = format!(r#"{broken};"failurePolicy":"Ignore""#);
    let before = server.times_asked();
    validate(&[webhook("a.b.c", &server, &ignored)]).await.unwrap();
    assert_eq!(server.times_asked(), before);
}
