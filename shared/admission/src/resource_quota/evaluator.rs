//! Which writes of a resource quotas look at, and which of a quota's names are about it.

use triptych_object::resource_name::{REQUESTS, is_native};
use triptych_object::{Gvr, Value};
use triptych_registry::admission::{Attributes, Operation};

use super::classes::Classes;
use super::usage;

/// Resources that no quota is about: what is not stored, and events.
const IGNORED: [(&str, &str); 10] = [
    ("", "bindings"),
    ("", "componentstatuses"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("", "events"),
    ("events.k8s.io", "events"),
];

const POD: [&str; 11] = [
    "count/pods",
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
];
const SERVICE: [&str; 4] = [
    "count/services",
    "services",
    "services.nodeports",
    "services.loadbalancers",
];
const CLAIM: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];
const DEVICE_CLASS_REQUESTS: &str = "requests.deviceclass.resource.kubernetes.io/";
const DEVICES: &str = ".deviceclass.resource.k8s.io/devices";

/// How usage of a resource is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evaluator {
    /// Pods: their number and what they compute with.
    Pods,
    /// Services: their number, node ports, load balancers.
    Services,
    /// PersistentVolumeClaims: their number and storage, also by storage class.
    Claims,
    /// ResourceClaims: their number and devices by class.
    ResourceClaims,
    /// Everything else: how many there are.
    Count,
}

/// True for resources that no quota is about.
pub fn is_ignored(resource: &Gvr) -> bool {
    IGNORED.contains(&(resource.group.as_str(), resource.resource.as_str()))
}

impl Evaluator {
    /// That of a resource.
    pub fn of(resource: &Gvr) -> Evaluator {
        match (resource.group.as_str(), resource.resource.as_str()) {
            ("", "pods") => Evaluator::Pods,
            ("", "services") => Evaluator::Services,
            ("", "persistentvolumeclaims") => Evaluator::Claims,
            ("resource.k8s.io", "resourceclaims") => Evaluator::ResourceClaims,
            _ => Evaluator::Count,
        }
    }

    /// Whether a write can change what is used.
    pub fn handles(self, attributes: &Attributes<'_>, new: &Value, old: Option<&Value>) -> bool {
        let create = attributes.operation == Operation::Create;
        let update = attributes.operation == Operation::Update;
        match (self, attributes.subresource) {
            (Evaluator::Pods, "") => create || old.is_some_and(|old| usage::changes_scope(attributes, new, old)),
            (Evaluator::Pods, "resize") => update,
            (Evaluator::Claims, "status") => old.is_some_and(|old| usage::claim_status_counts(new, old)),
            (Evaluator::Services | Evaluator::Claims | Evaluator::ResourceClaims, "") => create || update,
            (Evaluator::Count, "") => create,
            _ => false,
        }
    }

    /// Whether a name in a quota is about this resource.
    pub fn tracks(self, resource: &Gvr, name: &str, classes: &Classes) -> bool {
        match self {
            Evaluator::Pods => {
                POD.contains(&name)
                    || name.starts_with("hugepages-")
                    || name.starts_with("requests.hugepages-")
                    || name.starts_with(REQUESTS) && (!is_native(name) || name.starts_with(DEVICE_CLASS_REQUESTS))
            }
            Evaluator::Services => SERVICE.contains(&name),
            Evaluator::Claims => {
                let of_a_class = |tracked: &&str| {
                    let class = name.strip_suffix(*tracked);
                    class.is_some_and(|class| class.ends_with(".storageclass.storage.k8s.io/"))
                };
                name == "count/persistentvolumeclaims" || CLAIM.contains(&name) || CLAIM.iter().any(of_a_class)
            }
            Evaluator::ResourceClaims => {
                let implied = name.strip_prefix(DEVICE_CLASS_REQUESTS);
                let extended = name.strip_prefix(REQUESTS).filter(|_| !is_native(name));
                name.ends_with(DEVICES)
                    || usage::count_name(&resource.group, &resource.resource) == name
                    || implied.is_some_and(|class| classes.extended_resource(class).is_some())
                    || extended.is_some_and(|resource| classes.stands_for_one(resource))
            }
            Evaluator::Count => usage::counted_as(resource).iter().any(|counted| counted == name),
        }
    }
}
