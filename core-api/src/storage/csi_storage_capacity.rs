//! CSIStorageCapacity: how much storage of a class is left in a part of the cluster.

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{Value, meta};
use triptych_registry::strategy::{Context, Strategy};

use crate::apps::workload::{immutable, selector_is_valid};
use crate::core::node_labels;
use crate::validation::label_selector::{Lenience, label_selector};
use crate::validation::{Cursor, check, names as rules, resource_names};

/// The strategy of `csistoragecapacities`.
pub struct CsiStorageCapacities;

impl Strategy for CsiStorageCapacities {
    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |capacity| whole(capacity, Lenience::default()));
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        let invalid_values = !selector_is_valid(old.get("nodeTopology"));
        check(new, errors, |capacity| {
            whole(capacity, Lenience { invalid_values });
            for member in ["nodeTopology", "storageClassName"] {
                immutable(capacity.field(member), old.get(member));
            }
        });
    }

    fn cells(&self, capacity: &Value, _now: Timestamp) -> Option<Vec<Value>> {
        let created = meta::text(capacity, "creationTimestamp");
        Some(vec![meta::name(capacity).into(), created.into()])
    }

    fn warnings(&self, _cx: &Context, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let Some(topology) = new.get("nodeTopology") else {
            return Vec::new();
        };
        let mut warnings = node_labels::of_expressions("nodeTopology", topology);
        let labels = topology.get("matchLabels").and_then(Value::as_object);
        for (label, _) in labels.into_iter().flat_map(|l| l.iter()) {
            if let Some(message) = node_labels::deprecation(label) {
                warnings.push(format!("nodeTopology.matchLabels.{label}: {message}"));
            }
        }
        warnings
    }
}

fn whole(capacity: Cursor<'_>, lenience: Lenience) {
    label_selector(capacity.field("nodeTopology"), lenience);
    rules::subdomain(capacity.field("storageClassName"));
    if let Some(given) = capacity.given("capacity") {
        resource_names::non_negative(given);
    }
}
