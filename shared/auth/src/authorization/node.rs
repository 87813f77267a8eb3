//! The Node authorizer (KEP 279): a kubelet sees what the pods on its node need, and its own objects.
//!
//! Contract: it speaks only of users `system:node:<name>` in group `system:nodes`, and never denies. What it cannot see
//! of a new object (create) is the business of the NodeRestriction admission plugin.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use triptych_object::selector::FieldSelector;
use triptych_object::{RequestInfo, UserInfo, field};

use super::confirm::Refresh;
use super::node_graph::{NodeGraph, Related};
use super::resolver::{RuleResolver, UserRules};
use super::rules::PolicyRule;
use crate::authorizer::{Attributes, Authorizer, Decision, Reason};

/// Authorizes nodes.
pub struct NodeAuthorizer {
    graph: Arc<NodeGraph>,
    rules: Vec<PolicyRule>,
    confirm: Option<Arc<dyn Refresh>>,
}

/// The node a user is: `None` for other users, empty for a node without name.
pub fn node_identity(user: &UserInfo) -> Option<&str> {
    let name = user.name.strip_prefix("system:node:")?;
    user.in_group("system:nodes").then_some(name)
}

const YES: Decision = Decision::Allow(Reason::NONE);

impl NodeAuthorizer {
    /// `rules` are those of the cluster role `system:node`: what every node may do.
    pub fn new(graph: Arc<NodeGraph>, rules: Vec<PolicyRule>) -> NodeAuthorizer {
        NodeAuthorizer {
            graph,
            rules,
            confirm: None,
        }
    }

    /// The same; `refresh` brings the graph up to its sources before a missing relation counts.
    pub fn confirmed(mut self, refresh: Arc<dyn Refresh>) -> NodeAuthorizer {
        self.confirm = Some(refresh);
        self
    }

    fn decide(&self, user: &UserInfo, request: &RequestInfo) -> Decision {
        let Some(node) = node_identity(user) else {
            return Decision::PASS;
        };
        if node.is_empty() {
            return Decision::pass(format!("unknown node for user {}", field::quote(&user.name)));
        }
        if request.is_resource {
            let q = Question {
                node,
                request,
                graph: &self.graph,
            };
            match (request.group.as_str(), request.resource.as_str()) {
                ("", "secrets") => return q.read_namespaced(Related::Secret),
                ("", "configmaps") => return q.read_namespaced(Related::ConfigMap),
                ("", "persistentvolumeclaims") if request.subresource == "status" => {
                    return q.update_status(Related::PersistentVolumeClaim);
                }
                ("", "persistentvolumeclaims") => return q.get(Related::PersistentVolumeClaim),
                ("", "persistentvolumes") => return q.get(Related::PersistentVolume),
                ("resource.k8s.io", "resourceclaims") => return q.get(Related::ResourceClaim),
                ("storage.k8s.io", "volumeattachments") => return q.get(Related::VolumeAttachment),
                ("", "serviceaccounts") => return q.service_account(),
                ("coordination.k8s.io", "leases") => return q.lease(),
                ("storage.k8s.io", "csinodes") => return q.csi_node(),
                ("resource.k8s.io", "resourceslices") => return q.resource_slice(),
                ("", "nodes") => return q.node(),
                ("", "pods") => return q.pod(),
                // Only with the gate PodCertificateRequest, which is off.
                ("certificates.k8s.io", "podcertificaterequests") => return Decision::PASS,
                _ => {}
            }
        }
        if self.rules.iter().any(|r| r.allows(request)) {
            return YES;
        }
        Decision::PASS
    }
}

struct Question<'a> {
    node: &'a str,
    request: &'a RequestInfo,
    graph: &'a NodeGraph,
}

impl Question<'_> {
    fn verb(&self) -> &str {
        &self.request.verb
    }

    fn subresource(&self) -> &str {
        &self.request.subresource
    }

    /// True if a field selector restricts the request to this node.
    fn selects_node(&self, selected: &str) -> bool {
        let selector = self.request.field_selector.as_deref().map(FieldSelector::parse);
        let Some(Ok(selector)) = selector else { return false };
        let mut terms = selector.terms.iter();
        terms.any(|t| t.field == selected && t.equal && t.value == self.node)
    }

    fn related(&self, kind: Related) -> Decision {
        if self.request.name.is_empty() {
            return Decision::pass("No Object name found");
        }
        self.reachable(kind)
    }

    fn reachable(&self, kind: Related) -> Decision {
        if self
            .graph
            .reaches(kind, &self.request.namespace, &self.request.name, self.node)
        {
            return YES;
        }
        Decision::pass(format!("{NO_RELATION} '{}' and this object", self.node))
    }

    fn update_status(&self, kind: Related) -> Decision {
        match self.verb() {
            "update" | "patch" => self.related(kind),
            _ => Decision::pass("can only get/update/patch this type"),
        }
    }

    fn get(&self, kind: Related) -> Decision {
        if self.verb() != "get" {
            return Decision::pass("can only get individual resources of this type");
        }
        if !self.subresource().is_empty() {
            return Decision::pass("cannot get subresource");
        }
        self.related(kind)
    }

    fn read_namespaced(&self, kind: Related) -> Decision {
        if !matches!(self.verb(), "get" | "list" | "watch") {
            return Decision::pass("can only read resources of this type");
        }
        if !self.subresource().is_empty() {
            return Decision::pass("cannot read subresource");
        }
        if self.request.namespace.is_empty() {
            return Decision::pass("can only read namespaced object of this type");
        }
        self.related(kind)
    }

    fn service_account(&self) -> Decision {
        if self.verb() == "get" && self.subresource().is_empty() {
            return self.read_namespaced(Related::ServiceAccount);
        }
        if self.verb() != "create" || self.request.name.is_empty() {
            return Decision::pass("can only create tokens for individual service accounts");
        }
        if self.subresource() != "token" {
            return Decision::pass("can only create token subresource of serviceaccount");
        }
        self.reachable(Related::ServiceAccount)
    }

    fn lease(&self) -> Decision {
        if !matches!(self.verb(), "get" | "create" | "update" | "patch" | "delete") {
            return Decision::pass("can only get, create, update, patch, or delete a node lease");
        }
        if self.request.namespace != "kube-node-lease" {
            return Decision::pass(r#"can only access leases in the "kube-node-lease" system namespace"#);
        }
        if self.verb() != "create" && self.request.name != self.node {
            return Decision::pass("can only access node lease with the same name as the requesting node");
        }
        YES
    }

    fn csi_node(&self) -> Decision {
        if !matches!(self.verb(), "get" | "create" | "update" | "patch" | "delete") {
            return Decision::pass("can only get, create, update, patch, or delete a CSINode");
        }
        if !self.subresource().is_empty() {
            return Decision::pass("cannot authorize CSINode subresources");
        }
        if self.verb() != "create" && self.request.name != self.node {
            return Decision::pass("can only access CSINode with the same name as the requesting node");
        }
        YES
    }

    fn resource_slice(&self) -> Decision {
        if !self.subresource().is_empty() {
            return Decision::pass("cannot authorize ResourceSlice subresources");
        }
        match self.verb() {
            "create" => YES,
            "get" | "update" | "patch" | "delete" => self.related(Related::ResourceSlice),
            "watch" | "list" | "deletecollection" if self.selects_node("spec.nodeName") => YES,
            "watch" | "list" | "deletecollection" => {
                Decision::pass("can only list/watch/deletecollection resourceslices with nodeName field selector")
            }
            _ => Decision::pass(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection",
            ),
        }
    }

    fn node(&self) -> Decision {
        match (self.subresource(), self.verb()) {
            ("", "create" | "update" | "patch") | ("status", "update" | "patch") => YES,
            // By name, not by the graph: a kubelet looks for its Node before it has created it.
            ("", "get" | "list" | "watch") => match self.request.name.as_str() {
                name if name == self.node => YES,
                "" => Decision::pass(format!(
                    "node '{}' cannot read all nodes, only its own Node object",
                    self.node
                )),
                other => Decision::pass(format!(
                    "node '{}' cannot read '{other}', only its own Node object",
                    self.node
                )),
            },
            _ => Decision::PASS,
        }
    }

    fn pod(&self) -> Decision {
        match (self.subresource(), self.verb()) {
            ("", "get") => self.get(Related::Pod),
            ("", "list" | "watch") if self.selects_node("spec.nodeName") => YES,
            ("", "list" | "watch") if !self.request.name.is_empty() => self.related(Related::Pod),
            ("", "list" | "watch") => Decision::pass("can only list/watch pods with spec.nodeName field selector"),
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => YES,
            _ => Decision::PASS,
        }
    }
}

impl Authorizer for NodeAuthorizer {
    fn authorize<'a>(&'a self, attributes: Attributes<'a>) -> BoxFuture<'a, Decision> {
        let Attributes { user, request } = attributes;
        let decision = self.decide(user, request);
        match &self.confirm {
            Some(confirm) if is_missing_relation(&decision) => async move {
                confirm.refresh().await;
                self.decide(user, request)
            }
            .boxed(),
            _ => std::future::ready(decision).boxed(),
        }
    }
}

/// How a refusal begins that one more pod would undo.
const NO_RELATION: &str = "no relationship found between node";

fn is_missing_relation(decision: &Decision) -> bool {
    matches!(decision, Decision::NoOpinion { reason, .. } if reason.starts_with(NO_RELATION))
}

impl RuleResolver for NodeAuthorizer {
    fn rules_for(&self, user: &UserInfo, _namespace: &str) -> UserRules {
        match node_identity(user) {
            None => UserRules::default(),
            Some(_) => UserRules {
                rules: Vec::new(),
                incomplete: true,
                errors: vec!["node authorizer does not support user rule resolution".to_owned()],
            },
        }
    }
}

#[cfg(test)]
#[path = "node_tests.rs"]
mod tests;
