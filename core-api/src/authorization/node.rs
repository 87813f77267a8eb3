//! The Node authorizer over this tier's own objects.

use std::sync::Arc;

use triptych_auth::authorization::node::NodeAuthorizer;
use triptych_auth::authorization::node_graph::{GraphSource, NodeGraph};
use triptych_registry::catalogue::Collections;
use triptych_storage::Source;

use crate::access::confirm;
use crate::rbac::policy::cluster_role_rules;

/// Authorizes nodes by the pods, volumes, attachments and slices of this tier, and by the rules of `system:node`.
pub fn node_authorizer(collections: &Collections) -> NodeAuthorizer {
    let sources = [
        (GraphSource::Pod, "", "pods"),
        (GraphSource::PersistentVolume, "", "persistentvolumes"),
        (GraphSource::VolumeAttachment, "storage.k8s.io", "volumeattachments"),
        (GraphSource::ResourceSlice, "resource.k8s.io", "resourceslices"),
    ];
    let source = |(source, group, resource)| {
        let collection = collections.get(group, resource)?;
        Some((source, collection.cache.clone() as Arc<dyn Source>))
    };
    let sources: Vec<_> = sources.into_iter().filter_map(source).collect();
    let confirm = confirm(sources.iter().map(|(_, s)| s.clone()).collect());
    let graph = Arc::new(NodeGraph::following(sources));
    NodeAuthorizer::new(graph, cluster_role_rules("system:node")).confirmed(confirm)
}
