//! Waiting for a tier to become ready, by asking its `/readyz` as the administrator.

use std::time::Duration;

use http::StatusCode;

use crate::client::ApiClient;

/// How often a tier is asked. It answers from memory, and a start should take a fraction of a second.
const INTERVAL: Duration = Duration::from_millis(3);

/// Waits until `/readyz` answers 200. Never returns before; the caller bounds the wait.
pub(crate) async fn until_ready(client: &ApiClient) {
    while !matches!(client.get("/readyz").await, Ok(answer) if answer.status == StatusCode::OK) {
        tokio::time::sleep(INTERVAL).await;
    }
}

/// What a tier says to why it is not ready, for a message.
pub(crate) async fn reason(client: &ApiClient) -> String {
    let answer = tokio::time::timeout(Duration::from_secs(2), client.get("/readyz?verbose")).await;
    match answer {
        Ok(Ok(answer)) => {
            let text = answer.text();
            let failing: Vec<_> = text.lines().filter(|line| line.starts_with("[-]")).collect();
            if failing.is_empty() {
                format!("/readyz answers {}", answer.status)
            } else {
                failing.join("; ")
            }
        }
        Ok(Err(e)) => chain(&e),
        Err(_) => "no answer within 2 s".to_owned(),
    }
}

/// An error with all its sources, joined as `a: b: c`.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let sources = std::iter::successors(Some(error), |e| e.source());
    sources.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
