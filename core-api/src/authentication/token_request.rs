//! TokenRequest: a new token for a service account (`serviceaccounts/token`).
//!
//! Contract: the token is bound to the account and, if asked, to a pod, node or secret that exists now under the uid the
//! request may name. A pod's token also tells its node. Nothing is stored.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use jiff::Timestamp;
use triptych_auth::authentication::issuer::{Binding, Reference, TokenContent, TokenIssuer};
use triptych_auth::authentication::service_account::CoreObjects;
use triptych_object::field::{Error, ErrorList, quote};
use triptych_object::{GroupKind, GroupResource, GroupVersion, Status, StatusResult, Value, meta, time};
use triptych_registry::{Action, ActionContext, Answer};

use super::GROUP;

/// No token lives shorter (seconds).
const MIN_SECONDS: i64 = 10 * 60;
/// What a request that does not say gets (seconds).
const DEFAULT_SECONDS: i64 = 60 * 60;

/// Answers `serviceaccounts/token`.
pub struct TokenRequest {
    /// Signs; `None` without a signing key.
    pub issuer: Option<Arc<TokenIssuer>>,
    /// Accounts, pods, nodes and secrets.
    pub objects: Arc<dyn CoreObjects>,
}

impl Action for TokenRequest {
    fn run<'a>(&'a self, cx: &'a ActionContext<'a>, document: Value) -> BoxFuture<'a, StatusResult<Answer>> {
        let info = &cx.request.info;
        async move {
            let answer = self.issue(&info.namespace, &info.name, cx.now, document).await?;
            Ok(Answer::Document(answer))
        }
        .boxed()
    }
}

impl TokenRequest {
    async fn issue(&self, namespace: &str, name: &str, now: Timestamp, mut request: Value) -> StatusResult<Value> {
        let Some(issuer) = &self.issuer else {
            return Err(Status::no_such_resource());
        };
        for (member, have, what) in [
            ("name", name, "must match the service account name if specified"),
            (
                "namespace",
                namespace,
                "must match the service account namespace if specified",
            ),
        ] {
            let said = meta::text(&request, member);
            if !said.is_empty() && said != have {
                return Err(invalid(name, Error::invalid(format!("metadata.{member}"), said, what)));
            }
        }
        let account = self.get("serviceaccounts", namespace, name).await?;
        let uid = meta::uid(&account);
        let asked_uid = meta::uid(&request);
        if !asked_uid.is_empty() && asked_uid != uid {
            return Err(Status::conflict(
                &GroupResource::new(GROUP, "TokenRequest"),
                name,
                format!(
                    "the UID in the token request ({asked_uid}) does not match the UID of the service account ({uid})"
                ),
            ));
        }
        let mut audiences = texts(&request, &["spec", "audiences"]);
        if audiences.is_empty() {
            audiences.clone_from(&issuer.audiences);
        }
        let seconds = request.at(&["spec", "expirationSeconds"]).and_then(Value::as_i64);
        let mut seconds = seconds.unwrap_or(DEFAULT_SECONDS);
        check_lifetime(seconds)?;
        let binding = self.binding(namespace, name, &request).await?;
        seconds = issuer.max_expiration.map_or(seconds, |max| seconds.min(max));

        let (expires_in, warn_after) = issuer.lifetime(seconds, binding.pod.is_some(), &audiences);
        let content = TokenContent {
            namespace: namespace.to_owned(),
            account: reference(&account),
            binding,
            audiences: audiences.clone(),
            issued_at: now.as_second(),
            expires_in,
            warn_after,
            id: uuid::Uuid::new_v4().to_string(),
        };
        let token = issuer
            .issue(&content)
            .map_err(|e| Status::internal(format!("failed to generate token: {e}")))?;

        for (member, text) in [("name", name), ("namespace", namespace), ("uid", uid)] {
            meta::set_text(&mut request, member, text);
        }
        meta::set_text(&mut request, "creationTimestamp", time::rfc3339(now));
        request.set_at(&["spec", "audiences"], audiences.into());
        request.set_at(&["spec", "expirationSeconds"], Value::Int(seconds));
        if request.at(&["spec", "boundObjectRef"]).is_none() {
            request.set_at(&["spec", "boundObjectRef"], Value::Null);
        }
        // Sooner than the token itself may expire: this is when it is to be renewed.
        let expiration = now
            .checked_add(Duration::from_secs(seconds.unsigned_abs()))
            .map_err(|e| Status::internal(format!("failed to generate token: {e}")))?;
        let status = Value::from([
            ("token", token.into()),
            ("expirationTimestamp", time::rfc3339(expiration).into()),
        ]);
        request.set_at(&["status"], status);
        Ok(request)
    }

    /// What the token is to be bound to besides its account.
    async fn binding(&self, namespace: &str, account: &str, request: &Value) -> StatusResult<Binding> {
        let mut binding = Binding::default();
        let Some(bound) = request.at(&["spec", "boundObjectRef"]).filter(|b| !b.is_null()) else {
            return Ok(binding);
        };
        let (kind, name) = (bound.str_at(&["kind"]), bound.str_at(&["name"]));
        let gv: GroupVersion = bound.str_at(&["apiVersion"]).parse().unwrap_or_default();
        let object = match (gv.group.as_str(), kind) {
            ("", "Pod") => {
                let pod = self.get("pods", namespace, name).await?;
                if pod.str_at(&["spec", "serviceAccountName"]) != account {
                    return Err(Status::bad_request(format!(
                        "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
                        quote(account)
                    )));
                }
                binding.pod = Some(reference(&pod));
                binding.node = self.node_of(&pod).await?;
                pod
            }
            ("", "Node") => {
                let node = self.get("nodes", "", name).await?;
                binding.node = Some(reference(&node));
                node
            }
            ("", "Secret") => {
                let secret = self.get("secrets", namespace, name).await?;
                binding.secret = Some(reference(&secret));
                secret
            }
            _ => {
                let gvk = gv.kind(kind);
                return Err(Status::bad_request(format!(
                    "cannot bind token to object of type {gvk}"
                )));
            }
        };
        let uid = bound.str_at(&["uid"]);
        if !uid.is_empty() && uid != meta::uid(&object) {
            return Err(Status::conflict(
                &GroupResource::new(gv.group, kind),
                name,
                format!(
                    "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
                ),
            ));
        }
        Ok(binding)
    }

    /// The node a pod is on; one that is not known is named without uid.
    async fn node_of(&self, pod: &Value) -> StatusResult<Option<Reference>> {
        let name = pod.str_at(&["spec", "nodeName"]);
        if name.is_empty() {
            return Ok(None);
        }
        let node = self.objects.get("nodes", "", name).await.map_err(Status::internal)?;
        Ok(Some(node.as_ref().map_or_else(
            || Reference {
                name: name.to_owned(),
                uid: String::new(),
            },
            reference,
        )))
    }

    async fn get(&self, resource: &'static str, namespace: &str, name: &str) -> StatusResult<Value> {
        let found = self
            .objects
            .get(resource, namespace, name)
            .await
            .map_err(Status::internal)?;
        found.ok_or_else(|| Status::not_found(&GroupResource::new("", resource), name))
    }
}

fn invalid(name: &str, error: Error) -> Box<Status> {
    let errors: ErrorList = [error].into_iter().collect();
    Status::invalid(&GroupKind::new(GROUP, "TokenRequest"), name, &errors)
}

fn check_lifetime(seconds: i64) -> StatusResult<()> {
    const FIELD: &str = "spec.expirationSeconds";
    if seconds < MIN_SECONDS {
        let error = Error::invalid(FIELD, seconds, "may not specify a duration less than 10 minutes");
        return Err(invalid("", error));
    }
    if seconds > 1 << 32 {
        let error = Error::invalid(FIELD, seconds, "may not specify a duration larger than 2^32 seconds");
        return Err(invalid("", error));
    }
    Ok(())
}

fn reference(object: &Value) -> Reference {
    Reference {
        name: meta::name(object).to_owned(),
        uid: meta::uid(object).to_owned(),
    }
}

fn texts(document: &Value, path: &[&str]) -> Vec<String> {
    let list = document.array_at(path).iter();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
#[path = "token_request_tests.rs"]
mod tests;
