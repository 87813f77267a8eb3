//! Admission policies: rules in CEL that users write to refuse or change writes.
//!
//! - [`definition`]: policies and bindings;
//! - [`params`]: the objects that bindings name;
//! - [`validating`], [`mutating`]: the two plugins, [`patch`]: how an object is changed.
//!
//! Contract: a policy acts only through its bindings. What cannot be told (a parameter that is missing, an expression
//! that fails) refuses the request unless the policy's failure policy is Ignore. Policies never see policies.

pub mod definition;
pub mod mutating;
pub mod params;
pub mod patch;
#[cfg(test)]
mod tests;
pub mod validating;

use std::sync::Arc;
use std::time::{Duration, Instant};

use triptych_auth::Authorizer;
use triptych_object::{GroupResource, Gvr, Status, StatusResult, Value, json};
use triptych_registry::admission::Attributes;
use triptych_storage::{Source, View};

use self::definition::{Binding, Policy};
use self::params::{Missing, Params};
use crate::chain::forbidden;
use crate::matching::{Invocation, Namespaces};

/// Requests wait so long for policies that are not known yet.
const UNTIL_READY: Duration = Duration::from_secs(10);
const READY_POLL: Duration = Duration::from_millis(10);

/// What policies never see: reviews, and what configures policies.
const EXCLUDED: [(&str, &str); 10] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"),
];

/// Policies of one of the two kinds, and what they need.
pub struct Policies {
    policies: View<Policy>,
    bindings: View<Binding>,
    namespaces: Namespaces,
    params: Arc<dyn Params>,
    authorizer: Arc<dyn Authorizer>,
}

/// A policy that wants to see a request, through one of its bindings.
struct Selected {
    policy: Arc<Policy>,
    /// None where something is wrong with the policy itself.
    binding: Option<Arc<Binding>>,
    /// As what the request is shown and with which parameters, or what is wrong.
    outcome: Result<(Invocation, Vec<Option<Value>>), String>,
}

impl Policies {
    /// Over policies and bindings of one kind.
    pub fn new(
        policies: Arc<dyn Source>,
        bindings: Arc<dyn Source>,
        namespaces: Namespaces,
        params: Arc<dyn Params>,
        authorizer: Arc<dyn Authorizer>,
    ) -> Policies {
        Policies {
            policies: View::new(policies, |object| {
                Some(Policy::of(&json::from_slice(object.bytes()).ok()?))
            }),
            bindings: View::new(bindings, |object| {
                Some(Binding::of(&json::from_slice(object.bytes()).ok()?))
            }),
            namespaces,
            params,
            authorizer,
        }
    }

    /// True if no policy can concern a resource.
    fn none(&self, resource: &Gvr) -> bool {
        EXCLUDED.contains(&(resource.group.as_str(), resource.resource.as_str()))
            || self.bindings.load().is_some_and(|known| known.is_empty())
    }

    /// All policies that want to see a request, with their bindings, by name.
    async fn select(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> StatusResult<Vec<Selected>> {
        let (policies, bindings) = self.ready(attributes, object).await?;
        let mut all = Vec::new();
        for (_, policy) in policies.iter() {
            let mut bound = bindings.iter().map(|(_, binding)| binding);
            if bound.any(|binding| binding.policy == policy.name) {
                let bound = bindings.iter().map(|(_, binding)| binding);
                let bound = bound.filter(|binding| binding.policy == policy.name);
                self.select_one(policy, bound, attributes, object, old, &mut all).await;
            }
        }
        Ok(all)
    }

    async fn select_one(
        &self,
        policy: &Arc<Policy>,
        bindings: impl Iterator<Item = &Arc<Binding>> + Send,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
        all: &mut Vec<Selected>,
    ) {
        let mut wrong = |binding: Option<&Arc<Binding>>, why: String| {
            all.push(Selected {
                policy: policy.clone(),
                binding: binding.cloned(),
                outcome: Err(why),
            });
        };
        let shown = match policy.criteria.find(attributes, object, old, &self.namespaces).await {
            Ok(Some(shown)) => shown,
            Ok(None) => return,
            Err(status) => return wrong(None, format!("failed to configure policy: {}", status.message)),
        };
        let store = match &policy.param_kind {
            Some(kind) => Some(self.params.store(kind).await),
            None => None,
        };
        if let Some(Err(Missing::Unknown(why))) = &store {
            return wrong(None, format!("failed to configure policy: {why}"));
        }
        for binding in bindings {
            let wanted = match &binding.criteria {
                Some(criteria) => criteria.find(attributes, object, old, &self.namespaces).await,
                None => Ok(Some(shown.clone())),
            };
            let outcome = match wanted {
                Ok(None) => continue,
                Ok(Some(_)) => params::collect(store.as_ref(), policy, binding, attributes.namespace).await,
                Err(status) => Err(status.message),
            };
            all.push(Selected {
                policy: policy.clone(),
                binding: Some(binding.clone()),
                outcome: outcome
                    .map(|params| (shown.clone(), params))
                    .map_err(|why| format!("failed to configure binding: {why}")),
            });
        }
    }

    async fn ready(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> StatusResult<(
        Arc<triptych_storage::cache::Derived<Policy>>,
        Arc<triptych_storage::cache::Derived<Binding>>,
    )> {
        let deadline = attributes.deadline.min(Instant::now() + UNTIL_READY);
        loop {
            if let (Some(policies), Some(bindings)) = (self.policies.load(), self.bindings.load()) {
                return Ok((policies, bindings));
            }
            if Instant::now() >= deadline {
                return Err(forbidden(attributes, object, "not yet ready to handle request"));
            }
            // the first fill is rare enough to be polled for
            tokio::time::sleep(READY_POLL).await;
        }
    }

    /// The request's namespace as expressions see it.
    async fn namespace(&self, attributes: &Attributes<'_>) -> StatusResult<Option<Value>> {
        let kind = attributes.kind;
        let itself = kind.group.is_empty() && kind.version == "v1" && kind.kind == "Namespace";
        if attributes.namespace.is_empty() || itself {
            return Ok(None);
        }
        let found = self.namespaces.get("", attributes.namespace).await?;
        let found =
            found.ok_or_else(|| Status::not_found(&GroupResource::new("", "namespaces"), attributes.namespace))?;
        Ok(Some(shown_namespace(&found.0)))
    }
}

/// A namespace without what expressions do not see.
fn shown_namespace(namespace: &Value) -> Value {
    const METADATA: [&str; 12] = [
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "finalizers",
    ];
    let mut shown = namespace.clone();
    if let Some(members) = shown.as_object_mut() {
        members.retain(|name, _| matches!(name, "metadata" | "spec" | "status"));
    }
    if let Some(metadata) = shown.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| METADATA.contains(&name));
    }
    shown
}
