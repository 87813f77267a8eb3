//! Passing a request on to the next tier, or to the server behind an APIService, unread.
//!
//! Contract: bodies stream both ways with back-pressure; an upgrade becomes a raw stream both ways on a connection of its
//! own; a client that goes away cancels the request behind, and the other way round. If there is no answer the client
//! gets 503, with `Retry-After` only where trying again cannot do the same thing twice.

use std::sync::Arc;

use http::header::{CONNECTION, UPGRADE};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use triptych_client::body::Outgoing;
use triptych_client::pool::{Class, Error, Head, Pool};
use triptych_object::{Status, UserInfo};

use crate::answer::Refusal;
use crate::body::Body;
use crate::chain::AUDIT_ID;
use crate::connection::Connection;
use crate::headers;
use crate::tasks::Tasks;

/// What is passed on.
pub(crate) struct Forwarded<'a> {
    pub(crate) parts: Parts,
    pub(crate) body: Incoming,
    pub(crate) user: &'a Arc<UserInfo>,
    pub(crate) connection: &'a Connection,
    pub(crate) audit_id: &'a HeaderValue,
    pub(crate) class: Class,
}

/// Sends the request to `pool` as `user` and passes the answer back; `Err` is an answer made here.
pub(crate) async fn forward(pool: &Pool, tasks: &Tasks, request: Forwarded<'_>) -> Result<Response<Body>, Refusal> {
    let Forwarded {
        mut parts,
        body,
        user,
        connection,
        audit_id,
        class,
    } = request;
    let upgrade = upgrade_wanted(&parts);
    let headers = &mut parts.headers;
    headers::remove_hop_by_hop(headers);
    headers::remove_identity(headers);
    let Some(remote_user) = connection.remote_user(user) else {
        return Err(Status::internal("the user's name cannot be passed on").into());
    };
    remote_user.write(headers);
    headers::append_forwarded_for(headers, connection.peer.ip());
    headers.insert(AUDIT_ID, audit_id.clone());
    headers::remove_connection_specific(headers);
    let target = parts
        .uri
        .path_and_query()
        .cloned()
        .unwrap_or(PathAndQuery::from_static("/"));
    if let Some(protocol) = upgrade {
        return Box::pin(upgraded(pool, tasks, parts, target, protocol)).await;
    }
    let head = Head {
        method: parts.method,
        target,
        headers: parts.headers,
    };
    let body = if hyper::body::Body::is_end_stream(&body) {
        Outgoing::Empty
    } else {
        Outgoing::Streamed(body)
    };
    let answer = pool.send(class, head, body).await.map_err(|e| unanswered(&e))?;
    let (mut head, body) = answer.into_parts();
    headers::remove_hop_by_hop(&mut head.headers);
    head.version = Version::default();
    head.extensions.clear();
    Ok(Response::from_parts(head, body.into()))
}

/// The protocol that an HTTP/1.1 request wants to go on with.
fn upgrade_wanted(parts: &Parts) -> Option<HeaderValue> {
    if parts.version != Version::HTTP_11 {
        return None;
    }
    let named = parts.headers.get_all(CONNECTION).iter().filter_map(|v| v.to_str().ok());
    let wanted = named
        .flat_map(|v| v.split(','))
        .any(|t| t.trim().eq_ignore_ascii_case("upgrade"));
    wanted.then(|| parts.headers.get(UPGRADE).cloned()).flatten()
}

async fn upgraded(
    pool: &Pool,
    tasks: &Tasks,
    mut parts: Parts,
    target: PathAndQuery,
    protocol: HeaderValue,
) -> Result<Response<Body>, Refusal> {
    let client = parts.extensions.remove::<hyper::upgrade::OnUpgrade>();
    set_upgrade(&mut parts.headers, protocol);
    let head = Head {
        method: parts.method,
        target,
        headers: parts.headers,
    };
    let mut answer = pool.upgrade(head).await.map_err(|e| unanswered(&e))?;
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        let (mut head, body) = answer.into_parts();
        headers::remove_hop_by_hop(&mut head.headers);
        head.extensions.clear();
        return Ok(Response::from_parts(
            head,
            triptych_client::body::Incoming::http1(body).into(),
        ));
    }
    let server = hyper::upgrade::on(&mut answer);
    tasks.spawn("upgraded connection", async move {
        let Some(client) = client else { return };
        let (Ok(client), Ok(server)) = tokio::join!(client, server) else {
            return;
        };
        let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
        // either side's end or failure ends both
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    });
    let protocol = answer.headers().get(UPGRADE).cloned();
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let mut headers = std::mem::take(answer.headers_mut());
    headers::remove_hop_by_hop(&mut headers);
    if let Some(protocol) = protocol {
        set_upgrade(&mut headers, protocol);
    }
    *response.headers_mut() = headers;
    Ok(response)
}

fn set_upgrade(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, protocol);
}

/// The answer when the other server gave none.
fn unanswered(error: &Error) -> Refusal {
    if let Error::Body(_) = error {
        return Status::bad_request(error.to_string()).into();
    }
    tracing::info!(error = error as &dyn std::error::Error, "not forwarded");
    let retry = u32::from(error.nothing_sent());
    Status::service_unavailable(
        format!("the server is currently unable to handle the request: {error}"),
        retry,
    )
    .into()
}
