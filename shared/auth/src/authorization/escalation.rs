//! Nobody may grant what they do not hold (escalation checks of RBAC writes).
//!
//! Contract: members of `system:masters` may; so may who is allowed the verb `escalate` on the role, or `bind` on the role
//! that a binding names. Everybody else must hold every rule of the role. Texts are kube-apiserver's. The checks come
//! after mutating admission and before validation.

use std::sync::Arc;

use triptych_object::user::MASTERS;
use triptych_object::{GroupResource, RequestInfo, Status, StatusResult, UserInfo, Value, meta};

use super::index::{RbacIndex, RoleRef};
use super::rules::{PolicyRule, TooMany, missing, quoted};
use crate::authorizer::{Attributes, Authorizer, Decision};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Checks writes of roles and bindings.
#[derive(Clone)]
pub struct EscalationCheck {
    index: Arc<RbacIndex>,
    authorizer: Arc<dyn Authorizer>,
}

/// A write of a role or binding, as its registry sees it.
#[derive(Clone, Copy)]
pub struct RbacWrite<'a> {
    /// Who writes.
    pub user: &'a UserInfo,
    /// `roles`, `clusterroles`, `rolebindings` or `clusterrolebindings`.
    pub resource: &'a str,
    /// Empty for cluster-scoped resources.
    pub namespace: &'a str,
    /// The name in the request's path; empty for a create by POST.
    pub name: &'a str,
    /// What is to be written.
    pub new: &'a Value,
    /// What is there; `None` for a create.
    pub old: Option<&'a Value>,
}

impl RbacWrite<'_> {
    fn group_resource(&self) -> GroupResource {
        GroupResource::new(GROUP, self.resource)
    }

    fn forbidden(&self, why: &str) -> Box<Status> {
        Status::forbidden(&self.group_resource(), meta::name(self.new), why)
    }

    /// True if the garbage collector might have made this update: only owners, finalizers and managed fields change.
    fn changes_only_what_collectors_change(&self) -> bool {
        let Some(old) = self.old else { return false };
        let comparable = |object: &Value| {
            let mut object = object.clone();
            for member in ["ownerReferences", "finalizers", "managedFields", "selfLink"] {
                object.remove_at(&["metadata", member]);
            }
            object
        };
        comparable(self.new) == comparable(old)
    }
}

impl EscalationCheck {
    /// Rules are held as `index` says, `escalate` and `bind` are asked of `authorizer`.
    pub fn new(index: Arc<RbacIndex>, authorizer: Arc<dyn Authorizer>) -> EscalationCheck {
        EscalationCheck { index, authorizer }
    }

    /// Checks a write of any of the four kinds.
    pub async fn check(&self, write: RbacWrite<'_>) -> StatusResult<()> {
        match write.resource {
            "roles" | "clusterroles" => self.check_role(write).await,
            "rolebindings" | "clusterrolebindings" => self.check_binding(write).await,
            _ => Ok(()),
        }
    }

    async fn check_role(&self, write: RbacWrite<'_>) -> StatusResult<()> {
        if write.user.in_group(MASTERS) || self.may(&write, "escalate", write.resource, write.name).await {
            return Ok(());
        }
        if write.changes_only_what_collectors_change() {
            return Ok(());
        }
        self.must_hold(&write, &PolicyRule::of_role(write.new))?;
        let aggregates = |role: &Value| !role.array_at(&["aggregationRule", "clusterRoleSelectors"]).is_empty();
        if (aggregates(write.new) || write.old.is_some_and(aggregates))
            && self.must_hold(&write, &everything()).is_err()
        {
            return Err(write.forbidden("must have cluster-admin privileges to use the aggregationRule"));
        }
        Ok(())
    }

    async fn check_binding(&self, write: RbacWrite<'_>) -> StatusResult<()> {
        if write.user.in_group(MASTERS) || write.changes_only_what_collectors_change() {
            return Ok(());
        }
        let role = RoleRef::of_binding(write.new);
        let bound = match role.kind.as_str() {
            "ClusterRole" => Some("clusterroles"),
            "Role" => Some("roles"),
            _ => None,
        };
        if let Some(bound) = bound
            && self.may(&write, "bind", bound, &role.name).await
        {
            return Ok(());
        }
        let Some(_) = bound else {
            let kind = triptych_object::field::quote(&role.kind);
            return Err(Status::unknown(format!("unsupported role reference kind: {kind}")));
        };
        // kube-apiserver words the missing role with the request's own resource.
        let rules = self
            .index
            .role_rules(&role, write.namespace)
            .map_err(|_| Status::not_found(&write.group_resource(), &role.name))?;
        self.must_hold(&write, &rules)
    }

    /// True if the user is allowed `verb` on a role by name.
    async fn may(&self, write: &RbacWrite<'_>, verb: &str, resource: &str, name: &str) -> bool {
        let request = RequestInfo {
            is_resource: true,
            verb: verb.to_owned(),
            group: GROUP.to_owned(),
            version: "*".to_owned(),
            namespace: write.namespace.to_owned(),
            resource: resource.to_owned(),
            name: name.to_owned(),
            ..RequestInfo::default()
        };
        let attributes = Attributes {
            user: write.user,
            request: &request,
        };
        matches!(self.authorizer.authorize(attributes).await, Decision::Allow(_))
    }

    fn must_hold(&self, write: &RbacWrite<'_>, wanted: &[PolicyRule]) -> StatusResult<()> {
        let (held, errors) = self.index.rules_for(write.user, write.namespace);
        let missing = match missing(&held, wanted) {
            Ok(missing) if missing.is_empty() => return Ok(()),
            Ok(missing) => missing,
            Err(TooMany) => {
                return Err(write.forbidden("the rules name more permissions than can be compared with those held"));
            }
        };
        let mut lines: Vec<String> = missing.iter().map(ToString::to_string).collect();
        lines.sort();
        lines.dedup();
        let mut why = format!(
            "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            triptych_object::field::quote(&write.user.name),
            quoted(&write.user.groups),
            lines.join("\n")
        );
        if !errors.is_empty() {
            let errors = triptych_object::field::aggregate(errors);
            why.push_str(&format!("; resolution errors: [{errors}]"));
        }
        Err(write.forbidden(&why))
    }
}

/// The rules of `cluster-admin`.
fn everything() -> [PolicyRule; 2] {
    let all = || vec!["*".to_owned()];
    [
        PolicyRule {
            verbs: all(),
            api_groups: all(),
            resources: all(),
            ..PolicyRule::default()
        },
        PolicyRule {
            verbs: all(),
            non_resource_urls: all(),
            ..PolicyRule::default()
        },
    ]
}

#[cfg(test)]
#[path = "escalation_tests.rs"]
mod tests;
