//! Which objects a node needs: those its pods name, the volumes behind their claims, and what bears the node's name.
//!
//! Contract: fed object by object, or brought up to its sources by whoever asks. A pod counts once it is bound to a node; a mirror pod, which a node may
//! create itself, gives access to nothing but itself. Readers hold a short lock, never across waiting.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::RwLock;
use triptych_object::{Value, meta};
use triptych_storage::Source;
use triptych_storage::cache::Mark;

use super::follow::{News, news};

/// What a node may be related to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Related {
    /// `secrets`
    Secret,
    /// `configmaps`
    ConfigMap,
    /// `persistentvolumeclaims`
    PersistentVolumeClaim,
    /// `persistentvolumes`
    PersistentVolume,
    /// `resourceclaims`
    ResourceClaim,
    /// `volumeattachments`
    VolumeAttachment,
    /// `serviceaccounts`
    ServiceAccount,
    /// `resourceslices`
    ResourceSlice,
    /// `pods`
    Pod,
}

/// The kinds whose objects make relations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GraphSource {
    /// `pods`
    Pod,
    /// `persistentvolumes`
    PersistentVolume,
    /// `volumeattachments`
    VolumeAttachment,
    /// `resourceslices`
    ResourceSlice,
}

type Vertex = (Related, String, String);
/// From what is needed to what needs it.
type Edge = (Vertex, Vertex);

#[derive(Debug, Default)]
struct Graph {
    needed_by: HashMap<Vertex, HashSet<Vertex>>,
    /// The edges that each source made, to be undone with it.
    made_by: HashMap<Vertex, Vec<Edge>>,
    /// The node of what is on one.
    node: HashMap<Vertex, String>,
    /// Up to where each source is in here.
    marks: Vec<Option<Mark>>,
}

/// The relations of all nodes.
#[derive(Default)]
pub struct NodeGraph {
    graph: RwLock<Graph>,
    sources: Vec<(GraphSource, Arc<dyn Source>)>,
}

impl NodeGraph {
    /// Without relations.
    pub fn new() -> NodeGraph {
        NodeGraph::default()
    }

    /// Relations that follow these sources.
    pub fn following(sources: Vec<(GraphSource, Arc<dyn Source>)>) -> NodeGraph {
        let graph = Graph {
            marks: vec![None; sources.len()],
            ..Graph::default()
        };
        NodeGraph {
            graph: RwLock::new(graph),
            sources,
        }
    }

    /// Applies a change of an object; `None` deletes it.
    pub fn apply(&self, source: GraphSource, namespace: &str, name: &str, object: Option<&Value>) {
        self.graph.write().apply(source, namespace, name, object);
    }

    /// Forgets all that objects of a kind said, before a new list of them is applied.
    pub fn clear(&self, source: GraphSource) {
        self.graph.write().clear(source);
    }

    /// Brings the relations up to their sources.
    fn look(&self) {
        let snapshots: Vec<_> = self.sources.iter().map(|(_, s)| s.snapshot()).collect();
        let marks = snapshots.iter().map(|s| s.as_ref().map(|s| s.mark()));
        if marks.eq(self.graph.read().marks.iter().copied()) {
            return;
        }
        let mut graph = self.graph.write();
        for (i, (source, objects)) in self.sources.iter().enumerate() {
            let Some(snapshot) = objects.snapshot() else { continue };
            if graph.marks[i] == Some(snapshot.mark()) {
                continue;
            }
            let since = graph.marks[i];
            news(&snapshot, since, *source == GraphSource::Pod, |news| match news {
                News::Forget => graph.clear(*source),
                News::Object {
                    namespace,
                    name,
                    object,
                } => graph.apply(*source, namespace, name, object.as_ref()),
            });
            graph.marks[i] = Some(snapshot.mark());
        }
    }

    /// True if the object is needed on the node.
    pub fn reaches(&self, kind: Related, namespace: &str, name: &str, node: &str) -> bool {
        self.look();
        let graph = self.graph.read();
        let start = (kind, namespace.to_owned(), name.to_owned());
        let mut seen = HashSet::from([&start]);
        let mut open = vec![&start];
        while let Some(vertex) = open.pop() {
            if graph.node.get(vertex).is_some_and(|n| n == node) {
                return true;
            }
            let next = graph.needed_by.get(vertex).into_iter().flatten();
            open.extend(next.filter(|v| seen.insert(v)));
        }
        false
    }
}

impl GraphSource {
    fn vertex(self) -> Related {
        match self {
            GraphSource::Pod => Related::Pod,
            GraphSource::PersistentVolume => Related::PersistentVolume,
            GraphSource::VolumeAttachment => Related::VolumeAttachment,
            GraphSource::ResourceSlice => Related::ResourceSlice,
        }
    }
}

impl Graph {
    fn apply(&mut self, source: GraphSource, namespace: &str, name: &str, object: Option<&Value>) {
        let vertex = (source.vertex(), namespace.to_owned(), name.to_owned());
        let node = match source {
            GraphSource::PersistentVolume => "",
            _ => object.map_or("", |o| o.str_at(&["spec", "nodeName"])),
        };
        let mut edges = Vec::new();
        match object {
            Some(pod) if source == GraphSource::Pod && !node.is_empty() => pod_edges(&vertex, pod, &mut edges),
            Some(volume) if source == GraphSource::PersistentVolume => volume_edges(&vertex, volume, &mut edges),
            _ => {}
        }
        self.set(vertex, node, edges);
    }

    fn clear(&mut self, source: GraphSource) {
        let known = self.made_by.keys().chain(self.node.keys());
        let gone: HashSet<Vertex> = known.filter(|v| v.0 == source.vertex()).cloned().collect();
        for vertex in gone {
            self.set(vertex, "", Vec::new());
        }
    }

    fn set(&mut self, vertex: Vertex, node: &str, edges: Vec<Edge>) {
        for (from, to) in self.made_by.remove(&vertex).unwrap_or_default() {
            if let Some(targets) = self.needed_by.get_mut(&from) {
                targets.remove(&to);
                if targets.is_empty() {
                    self.needed_by.remove(&from);
                }
            }
        }
        for (from, to) in &edges {
            self.needed_by.entry(from.clone()).or_default().insert(to.clone());
        }
        if node.is_empty() {
            self.node.remove(&vertex);
        } else {
            self.node.insert(vertex.clone(), node.to_owned());
        }
        if !edges.is_empty() {
            self.made_by.insert(vertex, edges);
        }
    }
}

/// Everything a pod names, needed by the pod.
fn pod_edges(pod: &Vertex, object: &Value, edges: &mut Vec<Edge>) {
    if meta::annotation(object, "kubernetes.io/config.mirror").is_some() {
        return;
    }
    let (_, namespace, pod_name) = pod;
    let mut need = |kind: Related, name: &str| {
        if !name.is_empty() {
            edges.push(((kind, namespace.clone(), name.to_owned()), pod.clone()));
        }
    };
    need(Related::ServiceAccount, object.str_at(&["spec", "serviceAccountName"]));
    for secret in object.array_at(&["spec", "imagePullSecrets"]) {
        need(Related::Secret, secret.str_at(&["name"]));
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in object.array_at(&["spec", list]) {
            for source in container.array_at(&["envFrom"]) {
                need(Related::Secret, source.str_at(&["secretRef", "name"]));
                need(Related::ConfigMap, source.str_at(&["configMapRef", "name"]));
            }
            for variable in container.array_at(&["env"]) {
                need(Related::Secret, variable.str_at(&["valueFrom", "secretKeyRef", "name"]));
                need(
                    Related::ConfigMap,
                    variable.str_at(&["valueFrom", "configMapKeyRef", "name"]),
                );
            }
        }
    }
    for volume in object.array_at(&["spec", "volumes"]) {
        need(Related::Secret, volume.str_at(&["azureFile", "secretName"]));
        for source in ["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"] {
            need(Related::Secret, volume.str_at(&[source, "secretRef", "name"]));
        }
        need(Related::Secret, volume.str_at(&["secret", "secretName"]));
        need(Related::Secret, volume.str_at(&["csi", "nodePublishSecretRef", "name"]));
        need(Related::ConfigMap, volume.str_at(&["configMap", "name"]));
        for source in volume.array_at(&["projected", "sources"]) {
            need(Related::Secret, source.str_at(&["secret", "name"]));
            need(Related::ConfigMap, source.str_at(&["configMap", "name"]));
        }
        let claim = volume.str_at(&["persistentVolumeClaim", "claimName"]);
        need(Related::PersistentVolumeClaim, claim);
        if volume.get("ephemeral").is_some_and(|e| !e.is_null()) {
            let claim = format!("{pod_name}-{}", volume.str_at(&["name"]));
            need(Related::PersistentVolumeClaim, &claim);
        }
    }
    for claim in object.array_at(&["spec", "resourceClaims"]) {
        match claim.str_at(&["resourceClaimName"]) {
            "" => {
                // Made from a template: the status tells under which name.
                let statuses = object.array_at(&["status", "resourceClaimStatuses"]).iter();
                for status in statuses.filter(|s| s.str_at(&["name"]) == claim.str_at(&["name"])) {
                    need(Related::ResourceClaim, status.str_at(&["resourceClaimName"]));
                }
            }
            name => need(Related::ResourceClaim, name),
        }
    }
    let extended = object.str_at(&["status", "extendedResourceClaimStatus", "resourceClaimName"]);
    need(Related::ResourceClaim, extended);
}

/// A bound volume, needed by its claim, and the secrets that mounting it takes.
fn volume_edges(volume: &Vertex, object: &Value, edges: &mut Vec<Edge>) {
    let Some(claim) = object.at(&["spec", "claimRef"]).filter(|c| !c.is_null()) else {
        return;
    };
    let claim_namespace = claim.str_at(&["namespace"]);
    let claim = (
        Related::PersistentVolumeClaim,
        claim_namespace.to_owned(),
        claim.str_at(&["name"]).to_owned(),
    );
    edges.push((volume.clone(), claim));
    let mut need = |namespace: &str, name: &str| {
        if !name.is_empty() {
            edges.push(((Related::Secret, namespace.to_owned(), name.to_owned()), volume.clone()));
        }
    };
    let spec = |path: &[&str]| object.get("spec").map_or("", |s| s.str_at(path));
    let or_claims = |namespace: &'_ str| {
        if namespace.is_empty() {
            claim_namespace
        } else {
            namespace
        }
        .to_owned()
    };
    need(
        &or_claims(spec(&["azureFile", "secretNamespace"])),
        spec(&["azureFile", "secretName"]),
    );
    for source in ["cephfs", "flexVolume", "rbd", "scaleIO", "iscsi"] {
        need(
            &or_claims(spec(&[source, "secretRef", "namespace"])),
            spec(&[source, "secretRef", "name"]),
        );
    }
    for source in ["cinder", "storageos"] {
        need(
            spec(&[source, "secretRef", "namespace"]),
            spec(&[source, "secretRef", "name"]),
        );
    }
    for reference in ["nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"] {
        need(
            spec(&["csi", reference, "namespace"]),
            spec(&["csi", reference, "name"]),
        );
    }
}
