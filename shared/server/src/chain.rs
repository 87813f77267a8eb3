//! The handler chain: everything that happens to a request between its connection and who answers it, in this order.
//!
//! ```text
//! serve       panic guard, audit id, common headers, compression, request metrics
//! admit       request line, drain, request info, deadline, authentication, route
//!   forward     unclaimed and there is a next tier: as this user, unread
//!   own         deadline around: impersonation, flow control, authorization, body, then who answers
//! ```
//!
//! Contract: a request is authenticated by every tier it passes; it is impersonated, limited and authorized exactly once,
//! by the tier that serves it. The last tier treats what nobody claims as its own: authorization comes before its 404.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode};
use hyper::body::Incoming;
use triptych_auth::authenticator::Credentials;
use triptych_auth::forbidden::forbidden;
use triptych_auth::impersonation::{self, Modes};
use triptych_auth::{Attributes, Authenticator, Authorizer, Decision, Identity};
use triptych_client::pool::{Class, Pool};
use triptych_object::user::ANONYMOUS;
use triptych_object::{RequestInfo, Status, UserInfo};
use triptych_registry::{Handler, Request};

use crate::answer::{Asked, Refusal};
use crate::body::Body;
use crate::claim::{Claim, Claims};
use crate::connection::{Connection, InUse};
use crate::discovery::fetch::WAIT;
use crate::forward::{Forwarded, forward};
use crate::health::is_health_path;
use crate::inflight::{Inflight, Place};
use crate::lifecycle::{Lifecycle, Phase};
use crate::metrics::{Metrics, Route};
use crate::read::Bodies;
use crate::tasks::Tasks;
use crate::{answer, deadline, headers, respond, target};

pub(crate) const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// What the chain is made of.
pub struct Links {
    /// Who asks.
    pub authenticator: Arc<dyn Authenticator>,
    /// Whether they may.
    pub authorizer: Arc<dyn Authorizer>,
    /// Who answers.
    pub claims: Arc<dyn Claims>,
    /// The next tier; none at the end of the chain.
    pub next: Option<Arc<Pool>>,
    /// How many at once.
    pub inflight: Inflight,
    /// Request metrics.
    pub metrics: Arc<Metrics>,
    /// The tier's phase.
    pub lifecycle: Lifecycle,
    /// What shutdown waits for.
    pub tasks: Tasks,
    /// Settings of the request path.
    pub settings: Settings,
}

/// Settings of the request path.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `--request-timeout`.
    pub request_timeout: Duration,
    /// `--goaway-chance`.
    pub goaway_chance: f64,
    /// `--shutdown-watch-termination-grace-period`.
    pub watch_grace: Duration,
    /// `--strict-transport-security-directives`, joined; none sends no such header.
    pub strict_transport_security: Option<HeaderValue>,
}

/// The chain of one tier.
pub struct Chain {
    links: Links,
    modes: Modes,
    bodies: Bodies,
}

/// Under what a request is counted.
pub(crate) enum Counted {
    /// Its method alone: it was refused before anybody knew what it is about, or is nobody's.
    Unknown,
    /// A resource or path of this tier.
    Route(Arc<Route>),
    /// Not here: whoever answered has counted it.
    Elsewhere,
}

/// What is known about a request while it is answered.
pub(crate) struct Exchange {
    pub(crate) started: Instant,
    pub(crate) audit_id: HeaderValue,
    pub(crate) asked: Asked,
    /// What it is counted under.
    pub(crate) counted: Counted,
    pub(crate) long_running: bool,
    /// Its time to answer.
    limit: Duration,
    pub(crate) place: Option<Place>,
}

type Outcome = Result<Response<Body>, Refusal>;

/// A request whose user and route are known.
struct Own {
    parts: Parts,
    body: Incoming,
    info: RequestInfo,
    user: Arc<UserInfo>,
    claim: Claim,
}

impl Chain {
    /// A chain of these links.
    pub fn new(links: Links) -> Arc<Chain> {
        Arc::new(Chain {
            links,
            modes: Modes::default(),
            bodies: Bodies::default(),
        })
    }

    pub(crate) fn lifecycle(&self) -> &Lifecycle {
        &self.links.lifecycle
    }

    pub(crate) fn tasks(&self) -> &Tasks {
        &self.links.tasks
    }

    pub(crate) fn watch_grace(&self) -> Duration {
        self.links.settings.watch_grace
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.links.metrics
    }

    /// Answers one request; never fails.
    pub(crate) async fn serve(
        &self,
        connection: &Arc<Connection>,
        request: http::Request<Incoming>,
    ) -> Result<Response<Body>, Infallible> {
        let in_use = connection.begin();
        let mut exchange = Exchange {
            started: Instant::now(),
            audit_id: answer::audit_id(request.headers()),
            asked: Asked::of(&request),
            counted: Counted::Unknown,
            long_running: false,
            limit: self.links.settings.request_timeout,
            place: None,
        };
        let admitted = AssertUnwindSafe(self.admit(connection, request, &mut exchange)).catch_unwind();
        let response = match admitted.await {
            Ok(Ok(response)) => response,
            Ok(Err(refusal)) => refusal.answer(&exchange.asked),
            Err(panic) => {
                self.links.metrics.panics.inc();
                tracing::error!(
                    panic = answer::panic_text(&*panic),
                    path = exchange.asked.path(),
                    "a request caused a panic"
                );
                answer::panicked()
            }
        };
        if connection.http2 && answer::by_chance(self.links.settings.goaway_chance) {
            connection.close_gracefully();
        }
        Ok(self.finish(exchange, response, in_use))
    }

    fn terminated(&self, exchange: &Exchange, code: u16) {
        if let Counted::Route(route) = &exchange.counted {
            self.links.metrics.terminated(route, code);
        }
    }

    fn finish(&self, exchange: Exchange, response: Response<Body>, mut in_use: InUse) -> Response<Body> {
        let settings = &self.links.settings;
        let mut response = answer::finish(&exchange, response, settings.strict_transport_security.as_ref());
        if exchange.long_running && response.status() == StatusCode::OK {
            in_use.mark_long_running();
            let cutoff = answer::at_drain(self.links.lifecycle.clone(), settings.watch_grace);
            response = response.map(|body| body.until(cutoff));
        }
        let end = answer::End::new(exchange, &response, Arc::clone(&self.links.metrics), in_use);
        response.map(|body| body.then(Box::new(end)))
    }

    /// From the request line to the route.
    async fn admit(
        &self,
        connection: &Arc<Connection>,
        request: http::Request<Incoming>,
        exchange: &mut Exchange,
    ) -> Outcome {
        let (mut parts, body) = request.into_parts();
        let path = target::path(&parts).map_err(|why| {
            connection.close_gracefully();
            Refusal::Answer(answer::bad_request(why))
        })?;
        if self.links.lifecycle.phase() >= Phase::Draining && !is_health_path(&path) {
            connection.close_gracefully();
            return Err(Refusal::Answer(answer::shutting_down()));
        }
        let query = parts.uri.query().unwrap_or("");
        let info = RequestInfo::parse(parts.method.as_str(), &path, query)
            .map_err(|why| answer::internal_text(&parts.uri, &format!("failed to create RequestInfo: {why}")))?;
        exchange.long_running = deadline::is_long_running(&info);
        if !exchange.long_running {
            exchange.limit = deadline::of_request(query, self.links.settings.request_timeout)?;
        }
        let user = self.authenticate(connection, &parts).await?;

        let mut claim = self.links.claims.find(&info);
        let to = match &claim {
            Claim::Forward(to) => Some(to),
            Claim::Unclaimed { .. } => self.links.next.as_ref(),
            _ => None,
        };
        if let Some(to) = to {
            let to = Arc::clone(to);
            return self.forward(connection, &to, parts, body, &info, &user, exchange).await;
        }
        if let Claim::Unclaimed { .. } = claim {
            // who claims may have learned of it since; what it knows when the time is over has to do
            let _ = tokio::time::timeout(exchange.limit, self.links.claims.refresh(&info)).await;
            claim = self.links.claims.find(&info);
        }
        headers::remove_identity(&mut parts.headers);
        if matches!(claim, Claim::Resource(_) | Claim::Path { .. } | Claim::Proxy(_)) {
            exchange.counted = Counted::Route(self.links.metrics.route(&info, &parts.method, &parts.headers));
        }
        let own = Own {
            parts,
            body,
            info,
            user,
            claim,
        };
        if exchange.long_running {
            return self.own(connection, own, exchange).await;
        }
        let limit = tokio::time::Instant::from_std(exchange.started + exchange.limit);
        // A neighbour that only waits for news does not hold up the end.
        let waits = own.parts.headers.contains_key(WAIT);
        let answered = async {
            tokio::select! {
                outcome = self.own(connection, own, exchange) => outcome,
                () = self.links.lifecycle.reached(Phase::Draining), if waits => {
                    Err(Refusal::Answer(answer::shutting_down()))
                }
            }
        };
        match tokio::time::timeout_at(limit, answered).await {
            Ok(outcome) => outcome,
            Err(_) => {
                self.terminated(exchange, 504);
                Err(deadline::exceeded().into())
            }
        }
    }

    async fn authenticate(&self, connection: &Connection, parts: &Parts) -> Result<Arc<UserInfo>, Refusal> {
        let credentials = Credentials {
            certificates: &connection.certificates,
            connection: &connection.identity,
            headers: &parts.headers,
            peer: connection.peer,
        };
        match self.links.authenticator.authenticate(credentials).await {
            Identity::User(user) => {
                self.links.metrics.authenticated_as(&user.name);
                // HTTP/2 is cheap to abuse: who is nobody gets one request per connection, as from kube-apiserver;
                // a front proxy (it shows a certificate) passes on nobody's requests too
                if connection.http2 && connection.certificates.is_empty() && user.name == ANONYMOUS {
                    connection.close_gracefully();
                }
                Ok(user)
            }
            Identity::Unauthorized(why) => {
                self.links.metrics.unauthenticated.inc();
                tracing::info!(peer = %connection.peer, why, "unable to authenticate the request");
                if connection.http2 && connection.certificates.is_empty() {
                    connection.close_gracefully();
                }
                Err(Status::unauthorized().into())
            }
            Identity::Unavailable(why) => Err(Status::service_unavailable(why, 1).into()),
        }
    }

    #[allow(clippy::too_many_arguments)] // one step of one path: bundling its inputs would only rename them
    async fn forward(
        &self,
        connection: &Connection,
        to: &Pool,
        parts: Parts,
        body: Incoming,
        info: &RequestInfo,
        user: &Arc<UserInfo>,
        exchange: &mut Exchange,
    ) -> Outcome {
        let request = Forwarded {
            parts,
            body,
            user,
            connection,
            audit_id: &exchange.audit_id,
            class: class(info),
        };
        let response = forward(to, &self.links.tasks, request).await?;
        // whoever answered has counted it
        exchange.counted = Counted::Elsewhere;
        Ok(response)
    }

    /// What is done once, by the tier that serves the request.
    async fn own(&self, connection: &Arc<Connection>, own: Own, exchange: &mut Exchange) -> Outcome {
        let Own {
            mut parts,
            body,
            info,
            mut user,
            claim,
        } = own;
        if let Some(wanted) = impersonation::wanted(&parts.headers)? {
            let authorizer = &*self.links.authorizer;
            let effective = Box::pin(self.modes.impersonate(authorizer, &user, &wanted, &info));
            user = Arc::new(effective.await?);
            impersonation::remove_headers(&mut parts.headers);
        }
        if !exchange.long_running {
            match self.links.inflight.enter(&user, &info).await {
                Ok(place) => exchange.place = Some(place),
                Err(()) => {
                    self.terminated(exchange, 429);
                    return Err(Refusal::Answer(answer::too_many_requests()));
                }
            }
        }
        self.authorize(&user, &info).await?;

        match claim {
            Claim::Resource(handler) => self.resource(&*handler, parts, body, info, user, exchange).await,
            Claim::Path { get_only: true, .. } if parts.method != Method::GET => {
                Err(Status::method_not_allowed().into())
            }
            Claim::Path { handler, .. } => {
                let request = self.request(parts, info, user, bytes::Bytes::new(), exchange);
                Ok(handler.handle(request).await.map(Body::from))
            }
            Claim::Proxy(proxy) => {
                let target = proxy.target().map_err(|answer| Refusal::Answer(*answer))?;
                Box::pin(self.forward(connection, &target, parts, body, &info, &user, exchange)).await
            }
            // forwarded before, unless a refresh has just found it
            Claim::Forward(to) => Box::pin(self.forward(connection, &to, parts, body, &info, &user, exchange)).await,
            Claim::NoSuchResource => Err(Status::no_such_resource().into()),
            Claim::Unclaimed { certain: true } => Err(Refusal::Answer(respond::page_not_found())),
            Claim::Unclaimed { certain: false } => Err(answer::not_yet_known().into()),
        }
    }

    async fn authorize(&self, user: &UserInfo, info: &RequestInfo) -> Result<(), Refusal> {
        let attributes = Attributes { user, request: info };
        let why = match self.links.authorizer.authorize(attributes).await {
            Decision::Allow(_) => {
                self.links.metrics.allowed.inc();
                return Ok(());
            }
            Decision::Unavailable(why) => return Err(Status::service_unavailable(why, 1).into()),
            Decision::Deny(reason) => reason,
            Decision::NoOpinion { reason, error } if reason.is_empty() => error,
            Decision::NoOpinion { reason, .. } => reason,
        };
        self.links.metrics.denied.inc();
        Err(forbidden(user, info, &why).into())
    }

    async fn resource(
        &self,
        handler: &dyn Handler,
        parts: Parts,
        body: Incoming,
        info: RequestInfo,
        user: Arc<UserInfo>,
        exchange: &Exchange,
    ) -> Outcome {
        let connects = matches!(info.subresource.as_str(), "proxy" | "exec" | "attach" | "portforward");
        let known = matches!(
            parts.method,
            Method::GET | Method::POST | Method::PUT | Method::PATCH | Method::DELETE
        );
        if !known && !connects {
            return Err(Status::method_not_allowed().into());
        }
        let whole = if parts.method == Method::GET {
            None
        } else {
            Some(Box::pin(self.bodies.read(&parts.headers, body)).await?)
        };
        let bytes = whole.as_ref().map(|w| w.bytes.clone()).unwrap_or_default();
        let request = self.request(parts, info, user, bytes, exchange);
        Ok(handler.handle(request).await.map(Body::from))
    }

    fn request(
        &self,
        parts: Parts,
        info: RequestInfo,
        user: Arc<UserInfo>,
        body: bytes::Bytes,
        exchange: &Exchange,
    ) -> Request {
        Request {
            info,
            query: parts.uri.query().unwrap_or("").to_owned(),
            method: parts.method,
            headers: parts.headers,
            body,
            user,
            deadline: exchange.started + exchange.limit,
        }
    }
}
fn class(info: &RequestInfo) -> Class {
    match info.verb.as_str() {
        "watch" => Class::Watch,
        "list" | "deletecollection" if info.is_resource => Class::Bulk,
        _ if info.path.starts_with("/openapi/") => Class::Bulk,
        _ => Class::Request,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size<F>(_: impl Fn(&'static Chain, &'static Arc<Connection>, http::Request<Incoming>) -> F) -> usize {
        std::mem::size_of::<F>()
    }

    #[test]
    fn what_is_moved_for_every_request_is_small() {
        let bytes = size(|chain, connection, request| chain.serve(connection, request));
        assert!(
            bytes < 6 * 1024,
            "a request's future has {bytes} bytes: box what is rare in it"
        );
    }
}
