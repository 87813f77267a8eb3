//! A pod's quality of service class.

use std::collections::BTreeMap;

use triptych_object::{Quantity, Value};

use crate::validation::resources::quantity;

type Sums<'a> = BTreeMap<&'a str, Quantity>;

/// Adds the positive amounts of cpu and memory; how many of the two there are.
fn add<'a>(sums: &mut Sums<'a>, list: Option<&'a Value>) -> usize {
    let mut found = 0;
    for name in ["cpu", "memory"] {
        let Some(value) = list.and_then(|l| l.get(name)) else {
            continue;
        };
        let value = quantity(Some(value));
        if value.sign() > 0 {
            found += 1;
            sums.entry(name).and_modify(|sum| sum.add(&value)).or_insert(value);
        }
    }
    found
}

/// Guaranteed, Burstable or BestEffort, from the resources of the pod as a whole if it has such, else of its containers.
pub fn class(spec: &Value) -> &'static str {
    let (mut requests, mut limits) = (Sums::new(), Sums::new());
    let mut guaranteed = true;
    if let Some(resources) = spec.get("resources") {
        add(&mut requests, resources.get("requests"));
        if let Some(list) = resources.get("limits") {
            guaranteed = add(&mut limits, Some(list)) == 2;
        }
    } else {
        for container in ["containers", "initContainers"]
            .iter()
            .flat_map(|list| spec.array_at(&[list]))
        {
            add(&mut requests, container.at(&["resources", "requests"]));
            guaranteed &= add(&mut limits, container.at(&["resources", "limits"])) == 2;
        }
    }
    if requests.is_empty() && limits.is_empty() {
        return "BestEffort";
    }
    let equal = requests.iter().all(|(name, request)| limits.get(name) == Some(request));
    if guaranteed && equal && requests.len() == limits.len() {
        "Guaranteed"
    } else {
        "Burstable"
    }
}
