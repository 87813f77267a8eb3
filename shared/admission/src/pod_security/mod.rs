//! PodSecurity: pods keep to the security standard that their namespace's labels ask for.
//!
//! Contract: as kube-apiserver's without a configuration file: nothing is exempt, unlabelled namespaces are privileged.
//! Violations of the audit level are not written to the audit log yet: the write path has no place for annotations.

mod checks;
#[cfg(test)]
mod checks_tests;
mod policy;
mod survey;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use triptych_object::field::ErrorList;
use triptych_object::{GroupResource, Gvr, Status, StatusResult, Value, field, meta};
use triptych_registry::admission::{Attributes, Operation, Warnings};
use triptych_storage::Object;

use self::checks::{details, evaluate};
use self::policy::{Level, Policy};
use self::survey::Survey;
use crate::chain::Plugin;
use crate::lookup::{Facts, Find};
use crate::pods;

/// What a namespace's labels ask for.
#[derive(Debug)]
pub struct NamespacePolicy {
    policy: Policy,
    readable: bool,
}

impl Facts for NamespacePolicy {
    fn of(object: &Value) -> NamespacePolicy {
        let (policy, errors) = Policy::of(|key| meta::label(object, key));
        NamespacePolicy {
            policy,
            readable: errors.is_empty(),
        }
    }
}

/// The pods there are.
pub trait Pods: Send + Sync + 'static {
    /// Those of a namespace.
    fn in_namespace(&self, namespace: &str) -> StatusResult<Vec<Arc<Object>>>;
}

/// The plugin.
pub struct PodSecurity {
    /// All namespaces.
    pub namespaces: Arc<dyn Find<NamespacePolicy>>,
    /// All pods.
    pub pods: Arc<dyn Pods>,
}

impl Plugin for PodSecurity {
    fn name(&self) -> &'static str {
        "PodSecurity"
    }

    fn concerns(&self, operation: Operation, resource: &Gvr) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
            && (pods::is(resource, "", "namespaces") || template_path(resource).is_some())
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        old: Option<&'a Value>,
        warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        Box::pin(async move {
            let Some(object) = object else { return Ok(()) };
            if pods::is(attributes.resource, "", "namespaces") {
                return self.namespace(attributes, object, old, warnings).await;
            }
            let Some(path) = template_path(attributes.resource) else {
                return Ok(());
            };
            self.pod(attributes, path, object, old, warnings).await
        })
    }
}

/// Where a resource has its pod or pod template; `None` if it has none.
fn template_path(resource: &Gvr) -> Option<&'static [&'static str]> {
    match (resource.group.as_str(), resource.resource.as_str()) {
        ("", "pods") => Some(&[]),
        ("", "podtemplates") => Some(&["template"]),
        ("", "replicationcontrollers") => Some(&["spec", "template"]),
        ("apps", "replicasets" | "deployments" | "statefulsets" | "daemonsets") => Some(&["spec", "template"]),
        ("batch", "jobs") => Some(&["spec", "template"]),
        ("batch", "cronjobs") => Some(&["spec", "jobTemplate", "spec", "template"]),
        _ => None,
    }
}

/// Subresources of pods that cannot change what a pod may do.
const HARMLESS: [&str; 8] = [
    "exec",
    "attach",
    "binding",
    "eviction",
    "log",
    "portforward",
    "proxy",
    "status",
];

impl PodSecurity {
    async fn pod(
        &self,
        attributes: &Attributes<'_>,
        path: &[&str],
        object: &Value,
        old: Option<&Value>,
        warnings: &mut Warnings,
    ) -> StatusResult<()> {
        let is_pod = path.is_empty();
        let harmless = if is_pod {
            HARMLESS.contains(&attributes.subresource)
        } else {
            !attributes.subresource.is_empty()
        };
        if harmless {
            return Ok(());
        }
        let namespace = match self.namespaces.get("", attributes.namespace).await {
            Ok(Some(namespace)) => namespace,
            // a template does no harm before it becomes a pod
            Ok(None) | Err(_) if !is_pod => return Ok(()),
            Ok(None) | Err(_) => {
                let why = format!("failed to lookup namespace {}", field::quote(attributes.namespace));
                return Err(Status::internal(why));
            }
        };
        let policy = &namespace.policy;
        let anything_goes = if is_pod {
            policy.is_privileged()
        } else {
            policy.warn.level == Level::Privileged && policy.audit.level == Level::Privileged
        };
        if namespace.readable && anything_goes {
            return Ok(());
        }
        if is_pod && old.is_some_and(|old| !is_significant(object, old)) {
            return Ok(());
        }
        let Some((owner, spec)) = object.at(path).and_then(|owner| Some((owner, owner.get("spec")?))) else {
            return Ok(());
        };
        let mut enforced = None;
        if is_pod {
            let violations = evaluate(policy.enforce, owner, spec);
            if !violations.is_empty() {
                let (policy, details) = (policy.enforce.to_string(), details(&violations));
                let why = format!("violates PodSecurity {}: {details}", field::quote(&policy));
                return Err(refuse(attributes, why));
            }
            enforced = Some(policy.enforce);
        }
        if enforced != Some(policy.warn) {
            let violations = evaluate(policy.warn, owner, spec);
            if !violations.is_empty() {
                let (policy, details) = (policy.warn.to_string(), details(&violations));
                warnings.push(format!(
                    "would violate PodSecurity {}: {details}",
                    field::quote(&policy)
                ));
            }
        }
        Ok(())
    }

    async fn namespace(
        &self,
        attributes: &Attributes<'_>,
        object: &Value,
        old: Option<&Value>,
        warnings: &mut Warnings,
    ) -> StatusResult<()> {
        if !attributes.subresource.is_empty() {
            return Ok(());
        }
        let (policy, errors) = Policy::of(|key| meta::label(object, key));
        let Some(old) = old else {
            return valid(attributes, &errors);
        };
        let (old_policy, old_errors) = Policy::of(|key| meta::label(old, key));
        if errors.aggregate() != old_errors.aggregate() {
            valid(attributes, &errors)?;
        }
        let (new, old) = (policy.enforce, old_policy.enforce);
        let relaxed = new.version == old.version && new.level <= old.level;
        if new == old || new.level == Level::Privileged || relaxed {
            return Ok(());
        }
        match self.pods.in_namespace(attributes.name) {
            Ok(pods) => warnings.extend(Survey::of(&pods, new).await.warnings(attributes.name, new)),
            Err(_) => warnings.push("failed to list pods while checking new PodSecurity enforce level".to_owned()),
        }
        Ok(())
    }
}

/// A refusal, or `Ok` if there is nothing to refuse.
fn valid(attributes: &Attributes<'_>, errors: &ErrorList) -> StatusResult<()> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&attributes.kind.group_kind(), attributes.name, errors))
}

fn refuse(attributes: &Attributes<'_>, why: String) -> Box<Status> {
    let Gvr { group, resource, .. } = attributes.resource;
    let resource = GroupResource::new(group.as_str(), resource.as_str());
    Status::forbidden(&resource, attributes.name, why)
}

/// Whether an update changes what a pod does: other containers, or other images in them.
fn is_significant(new: &Value, old: &Value) -> bool {
    let image = |container: &Value| container.str_at(&["image"]).to_owned();
    let changed = |list: &str| {
        let (new, old) = (new.array_at(&["spec", list]), old.array_at(&["spec", list]));
        new.len() != old.len() || new.iter().zip(old).any(|(new, old)| image(new) != image(old))
    };
    if changed("containers") || changed("initContainers") {
        return true;
    }
    let (list, name) = (["spec", "ephemeralContainers"], ["name"]);
    new.array_at(&list).iter().any(|container| {
        let mut old = old.array_at(&list).iter();
        let same = old.find(|old| old.str_at(&name) == container.str_at(&name));
        same.is_none_or(|same| image(same) != image(container))
    })
}

#[cfg(test)]
mod tests;
