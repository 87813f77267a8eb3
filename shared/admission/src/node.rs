//! What several plugins need to know of nodes.

use triptych_object::{Value, meta};

use crate::lookup::Facts;
use crate::pod_topology_labels::COPIED;

/// What matters of a node.
#[derive(Debug)]
pub struct Node {
    pub(crate) uid: String,
    /// Zone and region, as labels.
    pub(crate) topology: Vec<(&'static str, String)>,
    /// `kubernetes.io/os`
    pub(crate) os: Option<String>,
    /// `status.allocatable`
    pub(crate) allocatable: Value,
    /// `status.declaredFeatures`
    pub(crate) declared_features: Vec<String>,
}

impl Facts for Node {
    fn of(object: &Value) -> Node {
        let copied = |key: &'static str| Some((key, meta::label(object, key)?.to_owned()));
        let features = object.array_at(&["status", "declaredFeatures"]).iter();
        Node {
            uid: meta::uid(object).to_owned(),
            topology: COPIED.into_iter().filter_map(copied).collect(),
            os: meta::label(object, "kubernetes.io/os").map(str::to_owned),
            allocatable: object.at(&["status", "allocatable"]).cloned().unwrap_or_default(),
            declared_features: features.filter_map(Value::as_str).map(str::to_owned).collect(),
        }
    }
}
