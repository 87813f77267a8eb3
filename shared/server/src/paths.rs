//! The paths that every tier has: the index at `/`, `/metrics`, `/version`.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use triptych_object::{Status, Value, json};
use triptych_registry::{Handler, Request, Response};

use crate::claim::Claims;
use crate::metrics::Metrics;
use crate::respond;

/// The version of Kubernetes that this server is.
pub const KUBERNETES_VERSION: &str = "v1.36.2";

/// Lists the paths of all claims and of whoever else is asked, sorted.
pub struct Index {
    /// This tier's.
    pub claims: Arc<dyn Claims>,
    /// The next tier's, as last heard.
    pub others: Arc<dyn Fn() -> Vec<String> + Send + Sync>,
}

impl Handler for Index {
    fn handle(&self, _request: Request) -> BoxFuture<'_, Response> {
        let paths: BTreeSet<String> = self.claims.paths().into_iter().chain((self.others)()).collect();
        let mut text = String::from("{\n  \"paths\": [");
        for (i, path) in paths.iter().enumerate() {
            let mut quoted = Vec::new();
            json::write_string(&mut quoted, path);
            text.push_str(if i == 0 { "\n    " } else { ",\n    " });
            text.push_str(&String::from_utf8_lossy(&quoted));
        }
        text.push_str("\n  ]\n}");
        Box::pin(std::future::ready(respond::json(StatusCode::OK, text)))
    }
}

/// Everything that is counted, in Prometheus' text form.
pub struct MetricsPage(pub Arc<Metrics>);

impl Handler for MetricsPage {
    fn handle(&self, _request: Request) -> BoxFuture<'_, Response> {
        let mut response = respond::text(self.0.text());
        let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        Box::pin(std::future::ready(response))
    }
}

/// `/version`.
pub struct Version {
    /// What was built, for `gitCommit`.
    pub build: String,
}

impl Handler for Version {
    fn handle(&self, request: Request) -> BoxFuture<'_, Response> {
        let answer = match acceptable(&request.headers, &["application/json"]) {
            Ok(()) => respond::json(StatusCode::OK, self.document()),
            Err(status) => respond::failure(&status, &request.headers, &request.query),
        };
        Box::pin(std::future::ready(answer))
    }
}

impl Version {
    fn document(&self) -> String {
        let platform = format!("{}/{}", std::env::consts::OS, go_arch());
        let fields = [
            ("major", "1"),
            ("minor", "36"),
            ("emulationMajor", "1"),
            ("emulationMinor", "36"),
            ("minCompatibilityMajor", "1"),
            ("minCompatibilityMinor", "35"),
            ("gitVersion", KUBERNETES_VERSION),
            ("gitCommit", &self.build),
            ("gitTreeState", "clean"),
            ("buildDate", "1970-01-01T00:00:00Z"),
            ("goVersion", ""),
            ("compiler", "rustc"),
            ("platform", &platform),
        ];
        let lines: Vec<String> = fields
            .iter()
            .map(|(key, value)| format!("  \"{key}\": {}", json::to_string(&Value::from(*value))))
            .collect();
        format!("{{\n{}\n}}", lines.join(",\n"))
    }
}

fn go_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// go-restful's verdict on `Accept`, for a route that produces only these types.
pub fn acceptable(headers: &HeaderMap, produces: &[&str]) -> Result<(), Box<Status>> {
    let Some(accept) = headers
        .get(ACCEPT)
        .and_then(|v| v.to_str().ok())
        .filter(|a| !a.is_empty())
    else {
        return Ok(());
    };
    let fits = accept.split(',').any(|part| {
        let range = part.split(';').next().unwrap_or("").trim();
        range == "*/*" || produces.contains(&range)
    });
    if fits {
        return Ok(());
    }
    let available = produces.join(", ");
    let message = format!("406: Not Acceptable\n\nAvailable representations: {available}");
    Err(Status::not_acceptable(message).with_details(Some(Default::default())))
}
