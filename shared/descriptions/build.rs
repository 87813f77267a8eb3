//! Collects the descriptions that the `k8s-openapi` crate carries in its schemas into one compressed blob.
//!
//! The blob is a sequence of types sorted by name: name, description, number of fields, then name and description of each
//! field, sorted; strings and numbers prefixed by four bytes of little-endian length or value. Only this crate builds
//! `k8s-openapi`, so that nothing else waits for it.

use std::io::Write;
use std::path::Path;

use k8s_openapi::schemars::SchemaGenerator;
use serde_json::Value;

/// Brings the listed kinds, and with them every type they use, into the generator.
macro_rules! kinds {
    ($generator:ident: $($($module:ident)::+ :: {$($kind:ident),+ $(,)?};)+) => {
        $({
            use k8s_openapi::$($module)::+ as module;
            $( $generator.subschema_for::<module::$kind>(); )+
        })+
    };
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let mut generator = SchemaGenerator::default();
    kinds! { generator:
        api::admissionregistration::v1::{MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration};
        api::admissionregistration::v1alpha1::{MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding};
        api::admissionregistration::v1beta1::{MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding};
        api::apiserverinternal::v1alpha1::{StorageVersion};
        api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
        api::authentication::v1::{SelfSubjectReview, TokenRequest, TokenReview};
        api::authorization::v1::{LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview};
        api::autoscaling::v1::{HorizontalPodAutoscaler, Scale};
        api::autoscaling::v2::{HorizontalPodAutoscaler};
        api::batch::v1::{CronJob, Job};
        api::certificates::v1::{CertificateSigningRequest};
        api::certificates::v1alpha1::{ClusterTrustBundle};
        api::certificates::v1beta1::{ClusterTrustBundle, PodCertificateRequest};
        api::coordination::v1::{Lease};
        api::coordination::v1alpha2::{LeaseCandidate};
        api::coordination::v1beta1::{LeaseCandidate};
        api::core::v1::{Binding, ComponentStatus, ConfigMap, Endpoints, Event, LimitRange, Namespace, Node, PersistentVolume, Pod, PodTemplate, ReplicationController, ResourceQuota, Secret, Service, ServiceAccount};
        api::discovery::v1::{EndpointSlice};
        api::events::v1::{Event};
        api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
        api::networking::v1::{IPAddress, Ingress, IngressClass, NetworkPolicy, ServiceCIDR};
        api::networking::v1beta1::{IPAddress, ServiceCIDR};
        api::node::v1::{RuntimeClass};
        api::policy::v1::{Eviction, PodDisruptionBudget};
        api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
        api::resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
        api::resource::v1alpha3::{DeviceTaintRule, ResourcePoolStatusRequest};
        api::resource::v1beta1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
        api::resource::v1beta2::{DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
        api::scheduling::v1::{PriorityClass};
        api::scheduling::v1alpha2::{PodGroup, Workload};
        api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass};
        api::storage::v1beta1::{VolumeAttributesClass};
        api::storagemigration::v1beta1::{StorageVersionMigration};
        apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition};
        apimachinery::pkg::apis::meta::v1::{APIGroupList, APIResourceList, APIVersions, Patch, Status};
        apimachinery::pkg::version::{Info};
        kube_aggregator::pkg::apis::apiregistration::v1::{APIService};
    }
    let mut blob = Vec::new();
    // The map is sorted by name.
    for (name, schema) in generator.definitions() {
        let properties = schema.get("properties").and_then(Value::as_object);
        let mut fields: Vec<_> = properties.into_iter().flatten().collect();
        fields.sort_by_key(|(name, _)| name.as_str());
        string(&mut blob, name);
        string(&mut blob, description(schema));
        number(&mut blob, fields.len());
        for (name, schema) in fields {
            string(&mut blob, name);
            string(&mut blob, description(schema));
        }
    }
    let out = std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
    let file = std::fs::File::create(Path::new(&out).join("descriptions.bin"))?;
    let mut encoder = flate2::write::DeflateEncoder::new(file, flate2::Compression::best());
    encoder.write_all(&blob)?;
    encoder.finish()?.flush()?;
    Ok(())
}

fn description(schema: &Value) -> &str {
    schema.get("description").and_then(Value::as_str).unwrap_or_default()
}

fn number(blob: &mut Vec<u8>, n: usize) {
    blob.extend_from_slice(&(n as u32).to_le_bytes());
}

fn string(blob: &mut Vec<u8>, text: &str) {
    number(blob, text.len());
    blob.extend_from_slice(text.as_bytes());
}
