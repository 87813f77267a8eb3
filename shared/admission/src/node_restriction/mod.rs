//! NodeRestriction: a kubelet changes nothing but its own node and what belongs to the pods that run there. Off by
//! default.
//!
//! Contract: concerns writes of users in `system:nodes` named `system:node:…`; where the Node authorizer can only go by
//! names, this looks into the objects.

mod audience;
mod labels;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use triptych_object::{GroupResource, Gvr, Status, StatusResult, UserInfo, Value, field, meta};
use triptych_registry::Permit;
use triptych_registry::admission::{Attributes, Operation, Warnings};

pub use self::audience::{CsiDriver, PersistentVolume, PersistentVolumeClaim};
use crate::certificates::common_name;
use crate::chain::{Plugin, forbidden};
use crate::lookup::{Facts, Find};
use crate::node::Node;
use crate::pods;

const USER_PREFIX: &str = "system:node:";
const GROUP: &str = "system:nodes";
/// Signers of certificates that kubelets ask for.
const KUBELET_SIGNERS: [&str; 2] = [
    "kubernetes.io/kubelet-serving",
    "kubernetes.io/kube-apiserver-client-kubelet",
];

/// What matters of a pod.
#[derive(Debug)]
pub struct Pod {
    name: String,
    namespace: String,
    uid: String,
    node: String,
    volumes: Vec<Value>,
}

impl Facts for Pod {
    fn of(object: &Value) -> Pod {
        Pod {
            name: meta::name(object).to_owned(),
            namespace: meta::namespace(object).to_owned(),
            uid: meta::uid(object).to_owned(),
            node: object.str_at(&["spec", "nodeName"]).to_owned(),
            volumes: object.array_at(&["spec", "volumes"]).to_vec(),
        }
    }
}

/// The plugin.
pub struct NodeRestriction {
    /// All pods.
    pub pods: Arc<dyn Find<Pod>>,
    /// All nodes.
    pub nodes: Arc<dyn Find<Node>>,
    /// All claims.
    pub claims: Arc<dyn Find<PersistentVolumeClaim>>,
    /// All volumes.
    pub volumes: Arc<dyn Find<PersistentVolume>>,
    /// All CSI drivers.
    pub drivers: Arc<dyn Find<CsiDriver>>,
    /// Who may ask for tokens of which audience.
    pub permit: Arc<dyn Permit>,
}

impl Plugin for NodeRestriction {
    fn name(&self) -> &'static str {
        "NodeRestriction"
    }

    fn concerns(&self, operation: Operation, resource: &Gvr) -> bool {
        operation != Operation::Connect && RESTRICTED.contains(&(resource.group.as_str(), resource.resource.as_str()))
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
        old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        Box::pin(async move {
            let Some(node) = node_of(attributes.user) else {
                return Ok(());
            };
            let write = Write {
                attributes,
                node,
                new: object.as_deref(),
                old,
            };
            if node.is_empty() {
                let user = field::quote(&attributes.user.name);
                return write.refuse(format!("could not determine node from user {user}"));
            }
            self.restrict(&write).await
        })
    }
}

/// Resources of which nodes may not do everything that authorization lets them do.
const RESTRICTED: [(&str, &str); 9] = [
    ("", "pods"),
    ("", "nodes"),
    ("", "persistentvolumeclaims"),
    ("", "serviceaccounts"),
    ("coordination.k8s.io", "leases"),
    ("storage.k8s.io", "csinodes"),
    ("resource.k8s.io", "resourceslices"),
    ("certificates.k8s.io", "certificatesigningrequests"),
    ("certificates.k8s.io", "podcertificaterequests"),
];

/// The node that a user is; empty if it is one without name.
fn node_of(user: &UserInfo) -> Option<&str> {
    user.name.strip_prefix(USER_PREFIX).filter(|_| user.in_group(GROUP))
}

/// What a node wants to do.
struct Write<'a> {
    attributes: &'a Attributes<'a>,
    node: &'a str,
    new: Option<&'a Value>,
    old: Option<&'a Value>,
}

impl Write<'_> {
    fn refusal(&self, why: impl std::fmt::Display) -> Box<Status> {
        forbidden(self.attributes, self.new, why)
    }

    fn refuse(&self, why: impl std::fmt::Display) -> StatusResult<()> {
        Err(self.refusal(why))
    }

    fn allow_if(&self, allowed: bool, why: impl std::fmt::Display) -> StatusResult<()> {
        if allowed { Ok(()) } else { self.refuse(why) }
    }

    /// The node's name as Go quotes it.
    fn quoted(&self) -> String {
        field::quote(self.node)
    }

    fn operation(&self) -> &'static str {
        match self.attributes.operation {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }

    fn new_member(&self, path: &[&str]) -> Option<&Value> {
        self.new?.at(path)
    }

    fn old_member(&self, path: &[&str]) -> Option<&Value> {
        self.old?.at(path)
    }

    fn changes(&self, path: &[&str]) -> bool {
        self.new_member(path) != self.old_member(path)
    }
}

/// What a lister says of an object it does not have.
fn no_such(group: &str, singular: &str, name: &str) -> Box<Status> {
    Status::not_found(&GroupResource::new(group, singular), name)
}

impl NodeRestriction {
    async fn restrict(&self, write: &Write<'_>) -> StatusResult<()> {
        let attributes = write.attributes;
        let subresource = attributes.subresource;
        match (
            attributes.resource.group.as_str(),
            attributes.resource.resource.as_str(),
        ) {
            ("", "pods") => match subresource {
                "" => self.pod(write).await,
                "status" => pod_status(write),
                "eviction" => self.eviction(write).await,
                other => write.refuse(format!(
                    "unexpected pod subresource {}, only 'status' and 'eviction' are allowed",
                    field::quote(other)
                )),
            },
            ("", "nodes") => node(write),
            ("", "persistentvolumeclaims") => match subresource {
                "status" => claim_status(write),
                _ => write.refuse("may only update PVC status"),
            },
            ("", "serviceaccounts") if subresource == "token" => self.token(write).await,
            ("coordination.k8s.io", "leases") => lease(write),
            ("storage.k8s.io", "csinodes") => write.allow_if(
                attributes.name == write.node,
                "can only access CSINode with the same name as the requesting node",
            ),
            ("resource.k8s.io", "resourceslices") => resource_slice(write),
            ("certificates.k8s.io", "certificatesigningrequests") => certificate_request(write),
            ("certificates.k8s.io", "podcertificaterequests") => {
                write.refuse("PodCertificateRequest feature gate is disabled")
            }
            _ => Ok(()),
        }
    }

    async fn pod(&self, write: &Write<'_>) -> StatusResult<()> {
        let node = write.quoted();
        match write.attributes.operation {
            Operation::Create => self.mirror_pod(write).await,
            Operation::Delete => {
                let pod = self.existing_pod(write, write.attributes.name).await?;
                let why = format!("node {node} can only delete pods with spec.nodeName set to itself");
                write.allow_if(pod.node == write.node, why)
            }
            _ => write.refuse(format!(
                "unexpected operation {}, node {node} can only create and delete mirror pods",
                field::quote(write.operation())
            )),
        }
    }

    async fn existing_pod(&self, write: &Write<'_>, name: &str) -> StatusResult<Arc<Pod>> {
        match self.pods.get(write.attributes.namespace, name).await {
            Ok(Some(pod)) => Ok(pod),
            Ok(None) => Err(no_such("", "pod", name)),
            Err(status) => Err(write.refusal(&status.message)),
        }
    }

    async fn mirror_pod(&self, write: &Write<'_>) -> StatusResult<()> {
        let Some(pod) = write.new else { return Ok(()) };
        let node = write.quoted();
        if !pods::is_mirror(pod) {
            let annotation = field::quote(pods::MIRROR);
            return write.refuse(format!(
                "pod does not have {annotation} annotation, node {node} can only create mirror pods"
            ));
        }
        if pod.str_at(&["spec", "nodeName"]) != write.node {
            return write.refuse(format!(
                "node {node} can only create pods with spec.nodeName set to itself"
            ));
        }
        self.owner(write, pod.array_at(&["metadata", "ownerReferences"]))
            .await?;
        match pod.get("spec").map(referenced) {
            Some(Err(why)) => write.refuse(format!("error checking mirror pod for API references: {why}")),
            Some(Ok(Some(what))) => write.refuse(format!("node {node} can not create pods that reference {what}")),
            Some(Ok(None)) | None => Ok(()),
        }
    }

    /// A mirror pod is owned by its node alone.
    async fn owner(&self, write: &Write<'_>, owners: &[Value]) -> StatusResult<()> {
        let node = write.quoted();
        let owner = match owners {
            [owner] => owner,
            [] => {
                return write.refuse(format!(
                    "node {node} can only create pods with an owner reference set to itself"
                ));
            }
            _ => {
                return write.refuse(format!(
                    "node {node} can only create pods with a single owner reference set to itself"
                ));
            }
        };
        let is = |member: &str, value: &str| owner.str_at(&[member]) == value;
        let flag = |member: &str| owner.get(member).and_then(Value::as_bool) == Some(true);
        if !(is("apiVersion", "v1") && is("kind", "Node") && is("name", write.node)) {
            return write.refuse(format!(
                "node {node} can only create pods with an owner reference set to itself"
            ));
        }
        if !flag("controller") {
            return write.refuse(format!(
                "node {node} can only create pods with a controller owner reference set to itself"
            ));
        }
        if flag("blockOwnerDeletion") {
            return write.refuse(format!(
                "node {node} must not set blockOwnerDeletion on an owner reference"
            ));
        }
        let name = write.node;
        let uid = match self.nodes.get("", name).await {
            Ok(Some(node)) => node.uid.clone(),
            Ok(None) => return Err(no_such("", "node", name)),
            Err(status) => {
                let why = &status.message;
                return write.refuse(format!("error looking up node {name} to verify uid: {why}"));
            }
        };
        let named = owner.str_at(&["uid"]);
        write.allow_if(
            named == uid,
            format!("node {name} UID mismatch: expected {named} got {uid}"),
        )
    }

    async fn eviction(&self, write: &Write<'_>) -> StatusResult<()> {
        if write.attributes.operation != Operation::Create {
            return write.refuse(format!("unexpected operation {}", write.operation()));
        }
        let name = match write.attributes.name {
            "" => write.new.map(meta::name).unwrap_or_default(),
            name => name,
        };
        if name.is_empty() {
            return write.refuse("could not determine pod from request data");
        }
        let pod = self.existing_pod(write, name).await?;
        let node = write.node;
        let why = format!("node {node} can only evict pods with spec.nodeName set to itself");
        write.allow_if(pod.node == node, why)
    }

    /// A node gets tokens only for the pods that run on it.
    async fn token(&self, write: &Write<'_>) -> StatusResult<()> {
        let Some(request) = write.new.filter(|_| write.attributes.operation == Operation::Create) else {
            return Ok(());
        };
        let bound = |member: &str| request.str_at(&["spec", "boundObjectRef", member]);
        if bound("apiVersion") != "v1" || bound("kind") != "Pod" || bound("name").is_empty() {
            return write.refuse("node requested token not bound to a pod");
        }
        let uid = bound("uid");
        if uid.is_empty() {
            return write.refuse("node requested token with a pod binding without a uid");
        }
        let pod = self.existing_pod(write, bound("name")).await?;
        if pod.uid != uid {
            return write.refuse(format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
            ));
        }
        if pod.node != write.node {
            return write.refuse("node requested token bound to a pod scheduled on a different node");
        }
        let audiences = request.array_at(&["spec", "audiences"]);
        self.audience(write.attributes, &pod, audiences)
            .await
            .or_else(|why| write.refuse(why))
    }
}

fn pod_status(write: &Write<'_>) -> StatusResult<()> {
    let node = write.quoted();
    if write.attributes.operation != Operation::Update {
        return write.refuse(format!("unexpected operation {}", field::quote(write.operation())));
    }
    let on = write.old.map(|pod| pod.str_at(&["spec", "nodeName"]));
    if on != Some(write.node) {
        return write.refuse(format!(
            "node {node} can only update pod status for pods with spec.nodeName set to itself"
        ));
    }
    if !labels::modified(write.new, write.old).is_empty() {
        return write.refuse(format!("node {node} cannot update labels through pod status"));
    }
    if write.changes(&["status", "resourceClaimStatuses"]) {
        return write.refuse(format!("node {node} cannot update resource claim statues"));
    }
    let extended = write.changes(&["status", "extendedResourceClaimStatus"]);
    write.allow_if(
        !extended,
        format!("node {node} cannot update extended resource claim status"),
    )
}

/// A node's status of a claim is how far resizing has come.
fn claim_status(write: &Write<'_>) -> StatusResult<()> {
    if write.attributes.operation != Operation::Update {
        return write.refuse(format!("unexpected operation {}", field::quote(write.operation())));
    }
    let rest = |claim: Option<&Value>| {
        let mut claim = claim.cloned().unwrap_or_default();
        for path in [
            ["metadata", "resourceVersion"],
            ["metadata", "managedFields"],
            ["status", "capacity"],
            ["status", "conditions"],
            ["status", "allocatedResourceStatuses"],
            ["status", "allocatedResources"],
        ] {
            claim.remove_at(&path);
        }
        claim
    };
    let why = format!(
        "node {} is not allowed to update fields other than status.quantity and status.conditions",
        write.quoted()
    );
    write.allow_if(rest(write.new) == rest(write.old), why)
}

fn node(write: &Write<'_>) -> StatusResult<()> {
    let (own, requested) = (write.quoted(), write.attributes.name);
    if requested != write.node {
        let requested = field::quote(requested);
        return write.refuse(format!("node {own} is not allowed to modify node {requested}"));
    }
    let source = ["spec", "configSource"];
    let modified = labels::modified(write.new, write.old);
    let forbidden = modified.into_iter().filter(|label| labels::is_forbidden(label));
    let forbidden: Vec<&str> = forbidden.collect();
    let listed = forbidden.join(", ");
    match write.attributes.operation {
        Operation::Create => {
            if write.new_member(&source).is_some() {
                return write.refuse(format!(
                    "node {own} is not allowed to create pods with a non-nil configSource"
                ));
            }
            let why = format!("node {own} is not allowed to set the following labels: {listed}");
            write.allow_if(forbidden.is_empty(), why)
        }
        Operation::Update => {
            if write.new_member(&source).is_some() && write.changes(&source) {
                return write.refuse(format!(
                    "node {own} is not allowed to update configSource to a new non-nil configSource"
                ));
            }
            if write.changes(&["spec", "taints"]) {
                return write.refuse(format!("node {own} is not allowed to modify taints"));
            }
            if write.changes(&["metadata", "ownerReferences"]) {
                return write.refuse(format!("node {own} is not allowed to modify ownerReferences"));
            }
            write.allow_if(
                forbidden.is_empty(),
                format!("is not allowed to modify labels: {listed}"),
            )
        }
        _ => Ok(()),
    }
}

fn lease(write: &Write<'_>) -> StatusResult<()> {
    const NAMESPACE: &str = "kube-node-lease";
    if write.attributes.namespace != NAMESPACE {
        let namespace = field::quote(NAMESPACE);
        return write.refuse(format!("can only access leases in the {namespace} system namespace"));
    }
    write.allow_if(
        write.attributes.name == write.node,
        "can only access node lease with the same name as the requesting node",
    )
}

fn resource_slice(write: &Write<'_>) -> StatusResult<()> {
    let path = ["spec", "nodeName"];
    let (node, verb) = match write.attributes.operation {
        Operation::Create => (write.new_member(&path), "create"),
        Operation::Delete => (write.old_member(&path), "delete"),
        _ => return Ok(()),
    };
    write.allow_if(
        node.and_then(Value::as_str) == Some(write.node),
        format!("can only {verb} ResourceSlice with the same NodeName as the requesting node"),
    )
}

fn certificate_request(write: &Write<'_>) -> StatusResult<()> {
    let Some(request) = write.new.filter(|_| write.attributes.operation == Operation::Create) else {
        return Ok(());
    };
    if !KUBELET_SIGNERS.contains(&request.str_at(&["spec", "signerName"])) {
        return Ok(());
    }
    let wanted = format!("{USER_PREFIX}{}", write.node);
    match common_name(request.str_at(&["spec", "request"])) {
        Ok(name) => write.allow_if(name == wanted, format!("can only create a node CSR with CN={wanted}")),
        Err(why) => write.refuse(format!("unable to parse csr: {why}")),
    }
}

/// Volumes that refer to nothing in the API.
const LOCAL_VOLUMES: [&str; 23] = [
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
    // of which only the sources matter
    "projected",
];

/// Volumes that refer to other objects, and how that is told.
const REFERRING_VOLUMES: [(&str, &str); 7] = [
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile", "secrets (via azureFile volumes)"),
];

/// Sources of projected volumes, likewise; none for those that refer to nothing.
const PROJECTED: [(&str, Option<&str>); 6] = [
    ("configMap", Some("configmaps (via projected volumes)")),
    ("secret", Some("secrets (via projected volumes)")),
    ("serviceAccountToken", Some("serviceaccounts (via projected volumes)")),
    ("clusterTrustBundle", Some("clustertrustbundles")),
    ("podCertificate", Some("podcertificates")),
    ("downwardAPI", None),
];

/// Which other objects a pod's spec refers to, if any.
fn referenced(spec: &Value) -> Result<Option<&'static str>, String> {
    if !spec.str_at(&["serviceAccountName"]).is_empty() {
        return Ok(Some("serviceaccounts"));
    }
    if !pods::secret_names(spec).is_empty() {
        return Ok(Some("secrets"));
    }
    if !pods::config_map_names(spec).is_empty() {
        return Ok(Some("configmaps"));
    }
    if !spec.array_at(&["resourceClaims"]).is_empty() {
        return Ok(Some("resourceclaims"));
    }
    for volume in spec.array_at(&["volumes"]) {
        let name = || field::quote(volume.str_at(&["name"]));
        if let Some((_, what)) = REFERRING_VOLUMES.iter().find(|(kind, _)| volume.get(kind).is_some()) {
            return Ok(Some(what));
        }
        if !LOCAL_VOLUMES.iter().any(|kind| volume.get(kind).is_some()) {
            return Err(format!("unknown volume type for volume  {}", name()));
        }
        for source in volume.array_at(&["projected", "sources"]) {
            match PROJECTED.iter().find(|(kind, _)| source.get(kind).is_some()) {
                Some((_, None)) => {}
                Some((_, what)) => return Ok(*what),
                None => return Err(format!("unknown source for projected volume {}", name())),
            }
        }
    }
    Ok(None)
}
