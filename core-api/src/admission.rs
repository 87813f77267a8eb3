//! The admission plugins of this tier, and what they read.

use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use triptych_admission::certificates::{CertificateApproval, CertificateSigning, CertificateSubjectRestriction};
use triptych_admission::default_ingress_class::DefaultIngressClass;
use triptych_admission::default_storage_class::DefaultStorageClass;
use triptych_admission::default_toleration_seconds::DefaultTolerationSeconds;
use triptych_admission::deny_service_external_ips::DenyServiceExternalIPs;
use triptych_admission::limit_ranger::LimitRanger;
use triptych_admission::lookup::{Facts, Find, Lookup};
use triptych_admission::matching::Namespaces;
use triptych_admission::namespace_lifecycle::{self, Namespace, NamespaceLifecycle};
use triptych_admission::node_restriction::NodeRestriction;
use triptych_admission::persistent_volume_claim_resize::PersistentVolumeClaimResize;
use triptych_admission::pod_resize::{NodeDeclaredFeatureValidator, PodResizeValidator};
use triptych_admission::pod_security::{PodSecurity, Pods};
use triptych_admission::pod_topology_labels::PodTopologyLabels;
use triptych_admission::policy::Policies;
use triptych_admission::policy::mutating::MutatingAdmissionPolicy;
use triptych_admission::policy::params::Params;
use triptych_admission::policy::validating::ValidatingAdmissionPolicy;
use triptych_admission::priority::Priority;
use triptych_admission::resource_quota::{Ledger, ResourceQuota, StatusWriter};
use triptych_admission::runtime_class::RuntimeClass;
use triptych_admission::selection::AdmissionSettings;
use triptych_admission::service_account::ServiceAccount;
use triptych_admission::storage_object_in_use_protection::StorageObjectInUseProtection;
use triptych_admission::taint_nodes_by_condition::TaintNodesByCondition;
use triptych_admission::webhook::mutating::MutatingAdmissionWebhook;
use triptych_admission::webhook::services::ClusterServices;
use triptych_admission::webhook::validating::ValidatingAdmissionWebhook;
use triptych_admission::webhook::{AGENT, MAX_CALLS, Webhooks};
use triptych_admission::{Chain, Plugin};
use triptych_auth::Authorizer;
use triptych_client::hook::Calls;
use triptych_object::{Status, StatusResult, Value, json};
use triptych_registry::Permit;
use triptych_registry::catalogue::Collections;
use triptych_registry::collection::Collection;
use triptych_storage::{Object, View};

use crate::loopback::{Loopback, Target};

/// All plugins that are to run. `own` are this tier's own requests, once there are any.
pub fn chain(
    collections: &Arc<Collections>,
    permit: &Arc<dyn Permit>,
    authorizer: &Arc<dyn Authorizer>,
    params: &Arc<dyn Params>,
    own: &Arc<OnceLock<Loopback>>,
    settings: &AdmissionSettings,
) -> Chain {
    let storage_classes = kept(collections, "storage.k8s.io", "storageclasses");
    let nodes = kept(collections, "", "nodes");
    let mut plugins: Vec<Box<dyn Plugin>> = vec![
        Box::new(NamespaceLifecycle(LocalNamespaces(collections.clone()))),
        Box::new(LimitRanger {
            ranges: kept(collections, "", "limitranges"),
        }),
        Box::new(ServiceAccount {
            accounts: kept(collections, "", "serviceaccounts"),
        }),
        Box::new(NodeRestriction {
            pods: read(collections, "", "pods"),
            nodes: nodes.clone(),
            claims: read(collections, "", "persistentvolumeclaims"),
            volumes: read(collections, "", "persistentvolumes"),
            drivers: read(collections, "storage.k8s.io", "csidrivers"),
            permit: permit.clone(),
        }),
        Box::new(TaintNodesByCondition),
        Box::new(Priority {
            classes: kept(collections, "scheduling.k8s.io", "priorityclasses"),
        }),
        Box::new(DefaultTolerationSeconds {
            not_ready: settings.not_ready_seconds,
            unreachable: settings.unreachable_seconds,
        }),
        Box::new(PodSecurity {
            namespaces: kept(collections, "", "namespaces"),
            pods: Arc::new(LocalPods(collections.clone())),
        }),
        Box::new(DefaultStorageClass {
            classes: storage_classes.clone(),
        }),
        Box::new(StorageObjectInUseProtection),
        Box::new(PersistentVolumeClaimResize {
            classes: storage_classes,
        }),
        Box::new(RuntimeClass {
            classes: kept(collections, "node.k8s.io", "runtimeclasses"),
        }),
        Box::new(CertificateApproval(permit.clone())),
        Box::new(CertificateSigning(permit.clone())),
        Box::new(CertificateSubjectRestriction),
        Box::new(DefaultIngressClass {
            classes: kept(collections, "networking.k8s.io", "ingressclasses"),
        }),
        Box::new(DenyServiceExternalIPs),
        Box::new(PodTopologyLabels { nodes: nodes.clone() }),
        Box::new(NodeDeclaredFeatureValidator { nodes: nodes.clone() }),
        Box::new(PodResizeValidator { nodes }),
    ];
    plugins.extend(webhooks(collections, authorizer));
    plugins.extend(policies(collections, authorizer, params));
    if let Some(quotas) = collections.get("", "resourcequotas") {
        plugins.push(Box::new(ResourceQuota {
            ledger: Ledger::new(quotas.cache.clone(), Arc::new(OwnRequests(own.clone()))),
            classes: Some(kept(collections, "resource.k8s.io", "deviceclasses")),
            now: Timestamp::now,
        }));
    }
    Chain::new(settings.select(plugins))
}

/// Policies, as far as they are served.
fn policies(
    collections: &Arc<Collections>,
    authorizer: &Arc<dyn Authorizer>,
    params: &Arc<dyn Params>,
) -> Vec<Box<dyn Plugin>> {
    let namespaces: Namespaces = kept(collections, "", "namespaces");
    let stored = |resource: &str| Some(collections.get("admissionregistration.k8s.io", resource)?.cache.clone());
    let bound = |policies: &str, bindings: &str| {
        let (policies, bindings) = (stored(policies)?, stored(bindings)?);
        let (namespaces, params) = (namespaces.clone(), params.clone());
        Some(Policies::new(
            policies,
            bindings,
            namespaces,
            params,
            authorizer.clone(),
        ))
    };
    let mut plugins: Vec<Box<dyn Plugin>> = Vec::new();
    if let Some(policies) = bound("mutatingadmissionpolicies", "mutatingadmissionpolicybindings") {
        plugins.push(Box::new(MutatingAdmissionPolicy(policies)));
    }
    if let Some(policies) = bound("validatingadmissionpolicies", "validatingadmissionpolicybindings") {
        plugins.push(Box::new(ValidatingAdmissionPolicy(policies)));
    }
    plugins
}

/// Webhooks, as far as their configurations are served.
fn webhooks(collections: &Arc<Collections>, authorizer: &Arc<dyn Authorizer>) -> Vec<Box<dyn Plugin>> {
    let services = ClusterServices(kept(collections, "", "services"));
    let calls = Calls::new(Arc::new(services), MAX_CALLS, AGENT);
    let namespaces: Namespaces = kept(collections, "", "namespaces");
    let configured = |resource: &str| {
        let collection = collections.get("admissionregistration.k8s.io", resource)?;
        let source = collection.cache.clone();
        Some(Webhooks::new(
            source,
            calls.clone(),
            namespaces.clone(),
            authorizer.clone(),
        ))
    };
    let mut plugins: Vec<Box<dyn Plugin>> = Vec::new();
    if let Some(webhooks) = configured("mutatingwebhookconfigurations") {
        plugins.push(Box::new(MutatingAdmissionWebhook(webhooks)));
    }
    if let Some(webhooks) = configured("validatingwebhookconfigurations") {
        plugins.push(Box::new(ValidatingAdmissionWebhook(webhooks)));
    }
    plugins
}

/// Facts of all objects of a resource, taken once per change; of none, if it is not served.
fn kept<T: Facts>(collections: &Collections, group: &str, resource: &str) -> Arc<Kept<T>> {
    let collection = collections.get(group, resource).cloned();
    let view = collection.as_ref().map(|collection| {
        View::new(collection.cache.clone(), |object| {
            Some(T::of(&json::from_slice(object.bytes()).ok()?))
        })
    });
    Arc::new(Kept {
        read: Read(collection),
        view,
    })
}

/// Facts of single objects, taken when asked for: for resources of which there may be very many.
fn read(collections: &Collections, group: &str, resource: &str) -> Arc<Read> {
    Arc::new(Read(collections.get(group, resource).cloned()))
}

struct Kept<T> {
    read: Read,
    view: Option<View<T>>,
}

impl<T: Facts> Find<T> for Kept<T> {
    fn get<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, StatusResult<Option<Arc<T>>>> {
        let known = self.view.as_ref().and_then(|view| {
            let key = self.read.0.as_ref()?.key(namespace, name).ok()?;
            view.load()?.get(&key).cloned()
        });
        match known {
            Some(known) => Box::pin(std::future::ready(Ok(Some(known)))),
            None => self.read.get(namespace, name),
        }
    }
}

impl<T: Facts> Lookup<T> for Kept<T> {
    fn all(&self, namespace: &str) -> StatusResult<Vec<Arc<T>>> {
        let (Some(view), Some(collection)) = (&self.view, &self.read.0) else {
            return Ok(Vec::new());
        };
        match view.load() {
            Some(view) => Ok(view.range(&collection.scope(namespace)).cloned().collect()),
            None => Err(Status::too_many_requests("storage is (re)initializing", 1)),
        }
    }
}

struct Read(Option<Arc<Collection>>);

impl<T: Facts> Find<T> for Read {
    fn get<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, StatusResult<Option<Arc<T>>>> {
        Box::pin(async move {
            let Some(collection) = &self.0 else {
                return Ok(None);
            };
            // a name that cannot be a key belongs to nothing
            let Ok(key) = collection.key(namespace, name) else {
                return Ok(None);
            };
            let object = match collection.cache.get(&key) {
                Ok(Some(object)) => Some(object),
                _ => collection.get_consistent(&key).await?,
            };
            let Some(object) = object.filter(|o| o.broken().is_none()) else {
                return Ok(None);
            };
            let object: Value = json::from_slice(object.bytes()).map_err(Status::internal)?;
            Ok(Some(Arc::new(T::of(&object))))
        })
    }
}

/// The namespaces of this tier.
struct LocalNamespaces(Arc<Collections>);

impl namespace_lifecycle::Namespaces for LocalNamespaces {
    fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, StatusResult<Namespace>> {
        Box::pin(async move {
            let Some(collection) = self.0.get("", "namespaces") else {
                return Ok(Namespace::Active);
            };
            let key = collection.key("", name)?;
            let known = collection.cache.get(&key).ok().flatten();
            let known = match known {
                Some(object) => Some(object),
                None => collection.get_consistent(&key).await?,
            };
            Ok(match known {
                None => Namespace::Absent,
                Some(object) if object.metadata_field("deletionTimestamp").is_some() => Namespace::Terminating,
                Some(_) => Namespace::Active,
            })
        })
    }
}

/// Writes to this tier through its own registry.
struct OwnRequests(Arc<OnceLock<Loopback>>);

impl StatusWriter for OwnRequests {
    fn write<'a>(&'a self, namespace: &'a str, name: &'a str, quota: &'a Value) -> BoxFuture<'a, StatusResult<Value>> {
        Box::pin(async move {
            let target = Target {
                group: "",
                version: "v1",
                resource: "resourcequotas",
                namespace,
            };
            match self.0.get() {
                Some(own) => own.update_status(target, name, quota).await,
                None => Err(Status::service_unavailable("the server is starting", 1)),
            }
        })
    }
}

/// The pods of this tier.
struct LocalPods(Arc<Collections>);

impl Pods for LocalPods {
    fn in_namespace(&self, namespace: &str) -> StatusResult<Vec<Arc<Object>>> {
        let Some(collection) = self.0.get("", "pods") else {
            return Ok(Vec::new());
        };
        let snapshot = collection.cache.snapshot().map_err(|e| collection.read_error(e))?;
        Ok(snapshot.range(&collection.scope(namespace)).cloned().collect())
    }
}
