//! What the cluster is told of this server: the Service `kubernetes` and its endpoints, and how API servers behind
//! APIServices recognise this one.
//!
//! Contract: everything is written through core-api, as `kube-apiserver`, again and again, by any number of replicas at
//! once. Start hooks wait for the first success for at most [`FIRST`], because readiness must not depend on another tier
//! for ever. A loopback address is never published.

pub mod authentication;
pub mod endpoints;
pub mod service;

use std::future::Future;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;
use triptych_client::Api;
use triptych_object::StatusResult;
use triptych_server::lifecycle::{Lifecycle, Phase};

use authentication::RequestHeader;
use endpoints::Endpoints;

/// A start hook waits no longer than this for what it starts.
const FIRST: Duration = Duration::from_secs(5);
/// After the first failure; doubled by each further one, up to a round's interval.
const FIRST_RETRY: Duration = Duration::from_millis(20);
/// Between rounds of the Service and its endpoints; less than a lease lasts.
const ENDPOINT_INTERVAL: Duration = Duration::from_secs(10);
/// Between rounds of the ConfigMap.
const AUTHENTICATION_INTERVAL: Duration = Duration::from_secs(60);
/// Longest time to take back what was published.
const LEAVE: Duration = Duration::from_secs(2);

/// Publishes this server.
pub struct FrontDoor {
    /// core-api.
    pub core_api: Api,
    /// What is listened on, once it is.
    pub port: Arc<OnceLock<u16>>,
    /// Endpoints; none if this server has no address that others can reach.
    pub endpoints: Option<Endpoints>,
    /// How servers behind APIServices recognise this one; none without front proxies.
    pub request_header: Option<RequestHeader>,
}

/// True for an address at which others can reach this server.
pub fn may_be_published(ip: &IpAddr) -> bool {
    !ip.is_loopback() && !ip.is_unspecified()
}

impl FrontDoor {
    /// Keeps the Service `kubernetes` and its endpoints, for ever. `done` hears of the first success of the Service.
    pub async fn keep_service(self: Arc<Self>, lifecycle: Lifecycle, done: watch::Sender<bool>) {
        let Some(port) = wait_for(&self.port).await else { return };
        let service = rounds(
            ENDPOINT_INTERVAL,
            &done,
            || service::ensure(&self.core_api, port),
            "Service kubernetes",
        );
        let Some(endpoints) = &self.endpoints else {
            return service.await;
        };
        let published = async {
            // requests come as soon as an endpoint is there
            lifecycle.reached(Phase::Serving).await;
            let unheard = watch::Sender::new(false);
            let publish = rounds(
                ENDPOINT_INTERVAL,
                &unheard,
                || endpoints.publish(&self.core_api, port),
                "endpoints of kubernetes",
            );
            tokio::select! {
                () = publish => {}
                () = lifecycle.reached(Phase::ShuttingDown) => self.leave().await,
            }
        };
        tokio::join!(service, published);
    }

    /// Keeps this tier's part of the ConfigMap `extension-apiserver-authentication`, for ever.
    pub async fn keep_authentication(self: Arc<Self>, done: watch::Sender<bool>) {
        let Some(request_header) = &self.request_header else {
            done.send_replace(true);
            return;
        };
        let ensure = || request_header.ensure(&self.core_api);
        rounds(
            AUTHENTICATION_INTERVAL,
            &done,
            ensure,
            "extension-apiserver-authentication",
        )
        .await;
    }

    /// Takes this server out of the endpoints; does nothing the second time.
    pub async fn leave(&self) {
        let (Some(endpoints), Some(port)) = (&self.endpoints, self.port.get()) else {
            return;
        };
        match tokio::time::timeout(LEAVE, endpoints.leave(&self.core_api, *port)).await {
            Ok(Ok(())) => {}
            Ok(Err(status)) => tracing::info!(why = status.message, "endpoint not removed, its lease will expire"),
            Err(_) => tracing::info!("endpoint not removed in time, its lease will expire"),
        }
    }
}

/// A start hook that ends with the first success, or in the end without.
pub async fn first(mut done: watch::Receiver<bool>) -> Result<(), String> {
    let _ = tokio::time::timeout(FIRST, done.wait_for(|done| *done)).await;
    Ok(())
}

async fn wait_for(port: &OnceLock<u16>) -> Option<u16> {
    for _ in 0..1000 {
        if let Some(port) = port.get() {
            return Some(*port);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    None
}

/// Repeats `round` at an interval, sooner after failures, which are told once.
async fn rounds<F: Future<Output = StatusResult<()>>>(
    interval: Duration,
    done: &watch::Sender<bool>,
    round: impl Fn() -> F,
    what: &str,
) {
    let mut failures = 0;
    loop {
        let pause = match round().await {
            Ok(()) => {
                failures = 0;
                done.send_replace(true);
                interval
            }
            Err(status) => {
                if failures == 8 {
                    tracing::info!(why = status.message, "cannot write {what} yet, trying on");
                }
                failures += 1;
                FIRST_RETRY.saturating_mul(1 << failures.min(10)).min(interval)
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// What runs when the tier stops.
pub fn on_stop(front_door: Arc<FrontDoor>) -> BoxFuture<'static, ()> {
    Box::pin(async move { front_door.leave().await })
}
