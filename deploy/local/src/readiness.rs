//! Waiting for a tier to become ready, by asking its `/readyz` as the administrator.

use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::join_all;
use http::StatusCode;

use crate::client::{ApiClient, ClientError};
use crate::kubeconfig::server_url;
use crate::tier::{Instance, Wiring};

/// How often a tier is asked. It answers from memory, and a start should take a fraction of a second.
const INTERVAL: Duration = Duration::from_millis(3);

/// Waits until every process of `wiring` is ready, all asked at once. `Err` names the first that is not in time.
pub(crate) async fn all_ready(wiring: &Wiring, within: Duration) -> Result<(), NotReady> {
    let client = |instance: Instance| {
        let url = wiring.address(instance).map(server_url).unwrap_or_default();
        ApiClient::administrator(&wiring.layout, &url).map(|client| (instance, client))
    };
    let clients = wiring.instances().map(client).collect::<Result<Vec<_>, _>>()?;
    let all = join_all(clients.iter().map(|(_, client)| until_ready(client)));
    if tokio::time::timeout(within, all).await.is_ok() {
        return Ok(());
    }
    for (instance, client) in clients {
        if let Some(reason) = reason(&client).await {
            return Err(NotReady::InTime {
                instance,
                within,
                reason,
                log: wiring.layout.log(instance),
            });
        }
    }
    Ok(())
}

/// Why the tiers are not ready.
#[derive(Debug, thiserror::Error)]
pub enum NotReady {
    /// One did not become ready in time.
    #[error("{instance} is not ready after {} s: {reason} (see {})", within.as_secs(), log.display())]
    InTime {
        /// The first that is not.
        instance: Instance,
        /// How long was waited.
        within: Duration,
        /// What it says.
        reason: String,
        /// Its log.
        log: PathBuf,
    },
    /// They cannot be asked.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// Waits until `/readyz` answers 200. Never returns before; the caller bounds the wait.
pub(crate) async fn until_ready(client: &ApiClient) {
    while !matches!(client.get("/readyz").await, Ok(answer) if answer.status == StatusCode::OK) {
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Why a tier is not ready, for a message; `None` when it is.
async fn reason(client: &ApiClient) -> Option<String> {
    let answer = tokio::time::timeout(Duration::from_secs(2), client.get("/readyz?verbose")).await;
    match answer {
        Ok(Ok(answer)) if answer.status == StatusCode::OK => None,
        Ok(Ok(answer)) => {
            let text = answer.text();
            let failing: Vec<_> = text.lines().filter(|line| line.starts_with("[-]")).collect();
            let status = || format!("/readyz answers {}", answer.status);
            Some(if failing.is_empty() {
                status()
            } else {
                failing.join("; ")
            })
        }
        Ok(Err(e)) => Some(chain(&e)),
        Err(_) => Some("no answer within 2 s".to_owned()),
    }
}

/// An error with all its sources, joined as `a: b: c`.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let sources = std::iter::successors(Some(error), |e| e.source());
    sources.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
