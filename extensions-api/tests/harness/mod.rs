//! extensions-api alone on a folder of its own and port 0, asked as an administrator.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, WARNING};
use http::{HeaderMap, Method};
use triptych_client::body::{Incoming, Outgoing};
use triptych_client::pool::{Class, Head, Pool};
use triptych_client::tls::Connector;
use triptych_extensions_api::options::Options;
use triptych_extensions_api::{assemble, schema};
use triptych_object::Value;
use triptych_server::Shutdown;

/// How long a state may take to come about.
const PATIENCE: Duration = Duration::from_secs(20);

pub fn json(text: &str) -> Value {
    triptych_object::json::from_slice(text.as_bytes()).unwrap()
}

/// A CRD of `example.com` with one version, a status and a column.
pub fn crd(plural: &str, kind: &str, scope: &str, schema: &str) -> Value {
    json(&format!(
        r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{{"name":"{plural}.example.com"}},
        "spec":{{"group":"example.com","scope":"{scope}","names":{{"plural":"{plural}","kind":"{kind}"}},
        "versions":[{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":{schema}}},
        "subresources":{{"status":{{}}}},
        "additionalPrinterColumns":[{{"name":"Size","type":"integer","jsonPath":".spec.size"}}]}}]}}}}"#
    ))
}

pub struct Answer {
    pub code: u16,
    pub text: String,
    pub body: Value,
    pub warnings: String,
}

impl Answer {
    pub fn message(&self) -> &str {
        self.body.str_at(&["message"])
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code, self.text)
    }
}

pub struct Tier {
    pool: Arc<Pool>,
    shutdown: Shutdown,
    _folder: tempfile::TempDir,
}

fn certificate(folder: &Path) {
    let key = rcgen::KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let certificate = rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
    std::fs::write(folder.join("tls.crt"), certificate.pem()).unwrap();
    std::fs::write(folder.join("tls.key"), key.serialize_pem()).unwrap();
}

impl Tier {
    pub async fn start() -> Tier {
        let folder = tempfile::tempdir().unwrap();
        certificate(folder.path());
        std::fs::write(folder.path().join("tokens"), "secret,admin,1,system:masters\n").unwrap();
        let flag = |name: &str, file: &str| format!("--{name}={}", folder.path().join(file).display());
        let options = Options::try_parse_from([
            "extensions-api".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            "--secure-port=0".to_owned(),
            flag("tls-cert-file", "tls.crt"),
            flag("tls-private-key-file", "tls.key"),
            flag("token-auth-file", "tokens"),
            flag("data-dir", "data"),
            "--authorization-mode=RBAC".to_owned(),
        ])
        .unwrap();
        let table = schema::load().unwrap();
        let settings = options.validate(&table.resources).unwrap();
        let bound = assemble::bind(settings, table, "test".to_owned()).await.unwrap();
        let address = format!("https://localhost:{}", bound.address().port()).parse().unwrap();
        let connector = Connector::new(folder.path().join("tls.crt"), None, &[b"h2"]).unwrap();
        let registry = prometheus::Registry::new();
        let metrics = triptych_client::metrics::Metrics::new(&registry).unwrap();
        let pool = Pool::new(
            "extensions-api",
            vec![address],
            connector,
            metrics.target("extensions-api"),
        );
        let shutdown = Shutdown::default();
        tokio::spawn(bound.run(shutdown.clone()));
        let tier = Tier {
            pool,
            shutdown,
            _folder: folder,
        };
        tier.until("/readyz", |answer| answer.code == 200).await;
        tier
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(http::HeaderName, &str)],
        body: &str,
    ) -> (http::response::Parts, Incoming) {
        let mut all = HeaderMap::new();
        all.insert(AUTHORIZATION, HeaderValue::from_static("Bearer secret"));
        for (name, value) in headers {
            all.insert(name, value.parse().unwrap());
        }
        let head = Head {
            method,
            target: path.parse().unwrap(),
            headers: all,
        };
        let body = if body.is_empty() {
            Outgoing::Empty
        } else {
            Outgoing::Full(body.to_owned().into())
        };
        self.pool.send(Class::Request, head, body).await.unwrap().into_parts()
    }

    async fn ask(&self, method: Method, path: &str, headers: &[(http::HeaderName, &str)], body: &str) -> Answer {
        let (head, incoming) = self.send(method, path, headers, body).await;
        let bytes = incoming.collect(64 * 1024 * 1024).await.unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let warnings = head.headers.get_all(WARNING).iter();
        Answer {
            code: head.status.as_u16(),
            body: triptych_object::json::from_slice(&bytes).unwrap_or(Value::Null),
            text,
            warnings: warnings
                .map(|w| w.to_str().unwrap().to_owned())
                .collect::<Vec<_>>()
                .join("\n"),
        }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, &[], "").await
    }

    pub async fn table(&self, path: &str) -> Answer {
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        self.ask(Method::GET, path, &[(ACCEPT, accept)], "").await
    }

    pub async fn post(&self, path: &str, body: &str) -> Answer {
        self.ask(Method::POST, path, &[(CONTENT_TYPE, "application/json")], body)
            .await
    }

    pub async fn patch(&self, path: &str, kind: &str, body: &str) -> Answer {
        self.ask(Method::PATCH, path, &[(CONTENT_TYPE, kind)], body).await
    }

    pub async fn merge(&self, path: &str, body: &str) -> Answer {
        self.patch(path, "application/merge-patch+json", body).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.ask(Method::DELETE, path, &[], "").await
    }

    pub async fn watch(&self, path: &str) -> Watch {
        let (head, body) = self.send(Method::GET, path, &[], "").await;
        assert_eq!(head.status.as_u16(), 200);
        Watch(body)
    }

    /// Asks until the answer is as wanted.
    pub async fn until(&self, path: &str, wanted: impl Fn(&Answer) -> bool) -> Answer {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.get(path).await;
            if wanted(&answer) {
                return answer;
            }
            assert!(Instant::now() < deadline, "{path} is still {answer}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

    pub async fn define(&self, crd: &Value) -> Answer {
        self.post(Self::DEFINITIONS, &triptych_object::json::to_string(crd))
            .await
    }

    /// Creates a CRD and waits until it is established.
    pub async fn establish(&self, crd: &Value) {
        let made = self.define(crd).await;
        assert_eq!(made.code, 201, "{made}");
        let path = format!("{}/{}", Self::DEFINITIONS, crd.str_at(&["metadata", "name"]));
        self.until(&path, |answer| {
            let mut conditions = answer.body.array_at(&["status", "conditions"]).iter();
            conditions.any(|c| c.str_at(&["type"]) == "Established" && c.str_at(&["status"]) == "True")
        })
        .await;
    }

    /// Replaces the spec of a CRD.
    pub async fn replace_definition(&self, crd: Value) {
        let path = format!("{}/{}", Self::DEFINITIONS, crd.str_at(&["metadata", "name"]));
        let patch = Value::from([("spec", crd.get("spec").unwrap().clone())]);
        let answer = self.merge(&path, &triptych_object::json::to_string(&patch)).await;
        assert_eq!(answer.code, 200, "{answer}");
    }
}

impl Drop for Tier {
    fn drop(&mut self) {
        self.shutdown.trigger();
    }
}

pub struct Watch(Incoming);

impl Watch {
    /// Resolves when the stream ends.
    pub async fn ended(self) {
        let _ = self.0.collect(usize::MAX).await;
    }
}
