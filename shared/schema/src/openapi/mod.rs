//! OpenAPI: what is served, as `kubectl explain`, `kubectl apply` and code generators read it.
//!
//! Contract: [`operation`] turns resource records into routes, [`definition`] turns types into JSON schemas, [`v3`] and
//! [`v2`] put both together into the documents kube-apiserver serves at `/openapi/v3/<group-version>` and
//! `/openapi/v2`. Everything is built on demand from the tables, path by path and type by type into JSON text, so that
//! no document is ever held as a tree; [`proto`] turns that text into gnostic's protobuf form just so. [`custom`] does
//! the same for a version of a CRD.
//!
//! Descriptions of types and fields come from a [`Describe`]; those of query parameters, which no schema has, are ours.

pub mod custom;
pub mod definition;
pub mod members;
mod naming;
pub mod operation;
pub mod parameter;
pub mod proto;
pub mod v2;
pub mod v3;

use crate::types::Kind;

/// Where descriptions of types and fields come from.
pub trait Describe: Send + Sync {
    /// What the type with this OpenAPI name is.
    fn of_type(&self, type_name: &str) -> Option<&str>;
    /// What the field of the type with this OpenAPI name is.
    fn field(&self, type_name: &str, field: &str) -> Option<&str>;
}

/// No descriptions at all.
impl Describe for () {
    fn of_type(&self, _: &str) -> Option<&str> {
        None
    }

    fn field(&self, _: &str, _: &str) -> Option<&str> {
        None
    }
}

/// The `x-kubernetes-group-version-kind` of types that every group-version has, such as DeleteOptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    /// The document of one group-version: that and the core group's.
    Version(&'a str, &'a str),
    /// The merged document: those of every server in the chain.
    Everything,
    /// A custom resource's document: those that client libraries know.
    Clients,
}

impl Scope<'_> {
    fn kinds(self, kind: &str) -> Vec<Kind> {
        let named = |group: &str, version: &str| Kind {
            group: group.to_owned().into(),
            version: version.to_owned().into(),
            kind: kind.to_owned().into(),
        };
        match self {
            Scope::Version("", version) => vec![named("", version)],
            Scope::Version(group, version) => vec![named("", "v1"), named(group, version)],
            Scope::Everything | Scope::Clients => GROUP_VERSIONS
                .iter()
                .filter(|(_, servers_only, _)| !servers_only || self == Scope::Everything)
                .flat_map(|(group, _, versions)| versions.iter().map(|v| named(group, v)))
                .collect(),
        }
    }
}

/// Kinds that are registered in every group-version.
const IN_EVERY_VERSION: [&str; 2] = [
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent",
];

type Versions = &'static [&'static str];

/// Every group-version whose types Kubernetes has, served or not; whether client libraries do without it.
const GROUP_VERSIONS: [(&str, bool, Versions); 26] = [
    ("", false, &["v1"]),
    ("admission.k8s.io", true, &["v1", "v1beta1"]),
    ("admissionregistration.k8s.io", false, &["v1", "v1alpha1", "v1beta1"]),
    ("apiextensions.k8s.io", true, &["v1", "v1beta1"]),
    ("apiregistration.k8s.io", true, &["v1", "v1beta1"]),
    ("apps", false, &["v1", "v1beta1", "v1beta2"]),
    ("authentication.k8s.io", false, &["v1", "v1alpha1", "v1beta1"]),
    ("authorization.k8s.io", false, &["v1", "v1beta1"]),
    ("autoscaling", false, &["v1", "v2"]),
    ("batch", false, &["v1", "v1beta1"]),
    ("certificates.k8s.io", false, &["v1", "v1alpha1", "v1beta1"]),
    ("coordination.k8s.io", false, &["v1", "v1alpha2", "v1beta1"]),
    ("discovery.k8s.io", false, &["v1", "v1beta1"]),
    ("events.k8s.io", false, &["v1", "v1beta1"]),
    ("extensions", false, &["v1beta1"]),
    (
        "flowcontrol.apiserver.k8s.io",
        false,
        &["v1", "v1beta1", "v1beta2", "v1beta3"],
    ),
    ("imagepolicy.k8s.io", true, &["v1alpha1"]),
    ("internal.apiserver.k8s.io", false, &["v1alpha1"]),
    ("networking.k8s.io", false, &["v1", "v1beta1"]),
    ("node.k8s.io", false, &["v1", "v1alpha1", "v1beta1"]),
    ("policy", false, &["v1", "v1beta1"]),
    ("rbac.authorization.k8s.io", false, &["v1", "v1alpha1", "v1beta1"]),
    ("resource.k8s.io", false, &["v1", "v1alpha3", "v1beta1", "v1beta2"]),
    ("scheduling.k8s.io", false, &["v1", "v1alpha2", "v1beta1"]),
    ("storage.k8s.io", false, &["v1", "v1alpha1", "v1beta1"]),
    ("storagemigration.k8s.io", false, &["v1beta1"]),
];
