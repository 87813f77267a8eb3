//! StorageClass: how volumes of a class are provisioned.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{Value, meta};
use triptych_registry::age::age;
use triptych_registry::strategy::{Context, Strategy};

use super::parameters::{driver_name, parameters};
use crate::apps::workload::immutable;
use crate::core::node_labels;
use crate::validation::{Cursor, check, names as rules};

const IS_DEFAULT: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

/// The strategy of `storageclasses`.
pub struct StorageClasses;

impl Strategy for StorageClasses {
    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, whole);
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |class| {
            whole(class);
            for member in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
                immutable(class.field(member), old.get(member));
            }
        });
    }

    fn warnings(&self, _cx: &Context, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        for (i, term) in new.array_at(&["allowedTopologies"]).iter().enumerate() {
            for (j, expression) in term.array_at(&["matchLabelExpressions"]).iter().enumerate() {
                if let Some(message) = node_labels::deprecation(expression.str_at(&["key"])) {
                    warnings.push(format!(
                        "allowedTopologies[{i}].matchLabelExpressions[{j}].key: {message}"
                    ));
                }
            }
        }
        warnings
    }

    fn cells(&self, class: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let mut name = meta::name(class).to_owned();
        if IS_DEFAULT
            .iter()
            .any(|key| meta::annotation(class, key) == Some("true"))
        {
            name.push_str(" (default)");
        }
        let or = |member: &str, default: &str| class.get(member).cloned().unwrap_or_else(|| default.into());
        Some(vec![
            name.into(),
            class.str_at(&["provisioner"]).into(),
            or("reclaimPolicy", "Delete"),
            or("volumeBindingMode", "Immediate"),
            class.get("allowVolumeExpansion").cloned().unwrap_or(Value::Bool(false)),
            age(class, now).into(),
        ])
    }
}

fn whole(class: Cursor<'_>) {
    driver_name(class.field("provisioner"));
    parameters(class.field("parameters"));
    let policy = class.field("reclaimPolicy");
    if !policy.is_empty() {
        rules::one_of(policy, &["Delete", "Retain"]);
    }
    let mode = class.field("volumeBindingMode");
    match mode.exists() {
        true => rules::one_of(mode, &["Immediate", "WaitForFirstConsumer"]),
        false => mode.required(""),
    }
    allowed_topologies(class.field("allowedTopologies"));
}

/// Keys with the values that a node may have there.
type Topology<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

fn allowed_topologies(terms: Cursor<'_>) {
    // kube-apiserver compares with as many empty topologies as there are terms, besides those before
    let mut before: Vec<Topology<'_>> = vec![Topology::new(); terms.len()];
    for term in terms.items() {
        let topology = topology(term);
        for _ in before.iter().filter(|b| **b == topology) {
            term.field("matchLabelExpressions").duplicate("");
        }
        before.push(topology);
    }
}

fn topology(term: Cursor<'_>) -> Topology<'_> {
    let mut topology = Topology::new();
    for requirement in term.field("matchLabelExpressions").items() {
        let (key, values) = (requirement.field("key"), requirement.field("values"));
        if values.is_empty() {
            values.required("");
        }
        let mut set = BTreeSet::new();
        for value in values.items() {
            if !set.insert(value.str()) {
                value.duplicate(value.str());
            }
        }
        rules::qualified(key);
        if topology.insert(key.str(), set).is_some() {
            key.duplicate(key.str());
        }
    }
    topology
}
