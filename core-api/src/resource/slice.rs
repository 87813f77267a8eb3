//! ResourceSlice: devices that a driver offers in a part of the cluster.

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{Value, meta};
use triptych_registry::age::age;
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::strategy::{Context, Strategy};

use super::defaults;
use super::device::{self, device};
use super::texts::{driver, pool, unique, within};
use crate::apps::workload::immutable;
use crate::validation::affinity::node_selector;
use crate::validation::{Cursor, check, names as rules};

const MAX_DEVICES: usize = 128;
/// With taints, counters or lists of attributes.
const MAX_ADVANCED_DEVICES: usize = 64;
const MAX_COUNTER_SETS: usize = 8;
const ONE_PLACE: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";

/// The strategy of `resourceslices`.
pub struct Slices;

impl Strategy for Slices {
    fn default(&self, slice: &mut Value) {
        defaults::taints(slice);
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |slice| spec(slice.field("spec"), None));
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |slice| spec(slice.field("spec"), old.get("spec")));
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }

    fn warnings(&self, _cx: &Context, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let driver = new.str_at(&["spec", "driver"]);
        if driver == driver.to_lowercase() {
            return Vec::new();
        }
        let driver = triptych_object::field::quote(driver);
        vec![format!(
            "spec.driver: driver names should be lowercase; {driver} contains uppercase characters"
        )]
    }

    fn cells(&self, slice: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let spec = |path: &[&str]| slice.get("spec").map_or("", |s| s.str_at(path)).into();
        Some(vec![
            meta::name(slice).into(),
            spec(&["nodeName"]),
            spec(&["driver"]),
            spec(&["pool", "name"]),
            age(slice, now).into(),
        ])
    }
}

fn spec(spec: Cursor<'_>, old: Option<&Value>) {
    driver(spec.field("driver"));
    let own_pool = spec.field("pool");
    pool(own_pool.field("name"));
    let (count, generation) = (own_pool.field("resourceSliceCount"), own_pool.field("generation"));
    if count.int() <= 0 {
        count.invalid(count.int(), "must be greater than zero");
    }
    if generation.int() < 0 {
        generation.invalid(generation.int(), "must be greater than or equal to zero");
    }
    if let Some(old) = old {
        immutable(own_pool.field("name"), old.at(&["pool", "name"]));
        for member in ["driver", "nodeName"] {
            immutable(spec.field(member), old.get(member));
        }
    }
    place(spec);
    let (devices, counters) = (spec.field("devices"), spec.field("sharedCounters"));
    if devices.exists() && counters.exists() {
        spec.invalid("", "only one of `sharedCounters` or `devices` is allowed");
    }
    let max = if devices.items().any(device::is_advanced) {
        MAX_ADVANCED_DEVICES
    } else {
        MAX_DEVICES
    };
    if within(devices, max) {
        let before = old.map(|o| o.array_at(&["devices"])).unwrap_or(&[]);
        let selects = spec.is_true_of("perDeviceNodeSelection");
        for item in devices.items() {
            let same = before.iter().find(|d| d.str_at(&["name"]) == item.str_of("name"));
            device(item, same, selects);
        }
        unique(devices, |device| device.str_of("name"));
    }
    if within(counters, MAX_COUNTER_SETS) {
        for set in counters.items() {
            rules::required_label(set.field("name"));
            device::counters(set.field("counters"));
        }
        unique(counters, |set| set.str_of("name"));
    }
}

/// Where the devices are: exactly one of four ways to say it.
fn place(spec: Cursor<'_>) {
    let mut set = Vec::new();
    if let Some(node) = spec.given("nodeName") {
        if node.is_empty() {
            node.invalid("", "must be either unset or set to a non-empty string");
        } else {
            set.push("`nodeName`");
            rules::subdomain(node);
        }
    }
    if let Some(selector) = spec.given("nodeSelector") {
        set.push("`nodeSelector`");
        node_selector(selector, false);
        let terms = selector.field("nodeSelectorTerms");
        if terms.len() != 1 {
            let shown = if terms.is_empty() {
                terms.shown()
            } else {
                terms.go_struct()
            };
            terms.invalid(shown, "must have exactly one node selector term");
        }
    }
    for (member, name) in [
        ("allNodes", "`allNodes`"),
        ("perDeviceNodeSelection", "`perDeviceNodeSelection`"),
    ] {
        match spec.bool_of(member) {
            Some(true) => set.push(name),
            Some(false) => spec.field(member).invalid(false, "must be either unset or set to true"),
            None => {}
        }
    }
    match set.len() {
        0 => spec.required(ONE_PLACE),
        1 => {}
        _ => spec.invalid(
            format!("{{{}}}", set.join(", ")),
            format!("{ONE_PLACE}, but multiple fields are set"),
        ),
    }
}
