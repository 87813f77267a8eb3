//! CSINode: the CSI drivers on a node.

use std::collections::HashSet;

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{Value, meta, names};
use triptych_registry::age::age;
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::strategy::{Context, Strategy};

use crate::validation::volume_sources::csi_driver_name;
use crate::validation::{Cursor, check, names as rules};

const MAX_NODE_ID: usize = 256;

/// The strategy of `csinodes`.
pub struct CsiNodes;

impl Strategy for CsiNodes {
    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |node| drivers(node.field("spec").field("drivers")));
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |node| {
            let list = node.field("spec").field("drivers");
            drivers(list);
            for before in old.array_at(&["spec", "drivers"]) {
                let same = list.items().filter(|d| d.str_of("name") == before.str_at(&["name"]));
                same.for_each(|driver| unchanged(driver, before, list));
            }
        });
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Whole
    }

    fn cells(&self, node: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(vec![
            meta::name(node).into(),
            Value::Int(node.array_at(&["spec", "drivers"]).len() as i64),
            age(node, now).into(),
        ])
    }
}

/// Nothing but what is allocatable may change about a driver.
fn unchanged(driver: Cursor<'_>, before: &Value, list: Cursor<'_>) {
    let without = |value: &Value| {
        let mut value = value.clone();
        value.remove_at(&["allocatable"]);
        value
    };
    if driver.value().map(without) != Some(without(before)) {
        let mut shown = driver.go_struct();
        shown.set_at(&["Allocatable"], Value::Null);
        list.invalid(shown, "field is immutable");
    }
}

fn drivers(drivers: Cursor<'_>) {
    let mut seen = HashSet::new();
    for driver in drivers.items() {
        let (name, id) = (driver.field("name"), driver.field("nodeID"));
        csi_driver_name(name);
        if id.is_empty() {
            id.required("");
        }
        if id.len() > MAX_NODE_ID {
            id.invalid(id.str(), format!("must be {MAX_NODE_ID} characters or less"));
        }
        rules::nonnegative(driver.field("allocatable").field("count"));
        if !seen.insert(name.str()) {
            name.duplicate(name.str());
        }
        topology_keys(driver);
    }
}

/// Errors about keys name the driver.
fn topology_keys(driver: Cursor<'_>) {
    let mut seen = HashSet::new();
    for key in driver.field("topologyKeys").items() {
        if key.is_empty() {
            driver.required("");
        }
        if !seen.insert(key.str()) {
            driver.duplicate(key.str());
        }
        for message in names::qualified_name(key.str()) {
            driver.invalid(key.str(), message);
        }
    }
}
