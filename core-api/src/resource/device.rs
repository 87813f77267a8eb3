//! A device in a slice: its attributes and capacity, what it takes from others, where it can be used.

use std::sync::LazyLock;

use regex::Regex;
use triptych_object::Value;

use super::capacity::capacities;
use super::texts::{binding_conditions, qualified, taint, unique, within};
use crate::validation::affinity::node_selector;
use crate::validation::{Cursor, names as rules};

const MAX_PROPERTIES: usize = 32;
const MAX_ATTRIBUTE_VALUES: usize = 48;
const MAX_VALUE_BYTES: usize = 64;
const MAX_TAINTS: usize = 16;
const MAX_CONSUMPTIONS: usize = 2;
const MAX_COUNTERS: usize = 32;
const ONE_NODE_CHOICE: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
/// Kinds of attributes with the names of Go's fields.
const KINDS: [(&str, &str); 8] = [
    ("int", "IntValue"),
    ("bool", "BoolValue"),
    ("string", "StringValue"),
    ("version", "VersionValue"),
    ("ints", "IntValues"),
    ("bools", "BoolValues"),
    ("strings", "StringValues"),
    ("versions", "VersionValues"),
];
const LISTS: [&str; 4] = ["bools", "ints", "strings", "versions"];

static SEMANTIC_VERSION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    const NUMBER: &str = r"(0|[1-9]\d*)";
    const PREVIEW: &str = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)";
    const BUILD: &str = "[0-9a-zA-Z-]+";
    let pattern = format!(r"^{NUMBER}\.{NUMBER}\.{NUMBER}(-{PREVIEW}(\.{PREVIEW})*)?(\+{BUILD}(\.{BUILD})*)?$");
    Regex::new(&pattern).ok()
});

/// Slices with such devices may have fewer of them.
pub fn is_advanced(device: Cursor<'_>) -> bool {
    let lists = |attribute: Cursor<'_>| LISTS.iter().any(|list| attribute.has(list));
    !device.field("taints").is_empty()
        || !device.field("consumesCounters").is_empty()
        || device.field("attributes").entries().any(|(_, a)| lists(a))
}

/// A device, which was `old` before; `selects` if devices say themselves where they can be used.
pub fn device(device: Cursor<'_>, old: Option<&Value>, selects: bool) {
    rules::label(device.field("name"));
    let (properties, capacity) = (device.field("attributes"), device.field("capacity"));
    let count = properties.len() + capacity.len();
    if count > MAX_PROPERTIES {
        let detail = format!("the total number of attributes and capacities must not exceed {MAX_PROPERTIES}");
        device.invalid(count as i64, detail);
    }
    let values: usize = properties.entries().map(|(_, a)| attribute_values(a)).sum();
    if values > MAX_ATTRIBUTE_VALUES {
        let detail = format!("the total number of attribute values must not exceed {MAX_ATTRIBUTE_VALUES}");
        device.invalid(values as i64, detail);
    }
    for (name, value) in properties.entries() {
        qualified(properties, name);
        attribute(value);
    }
    capacities(capacity, device.is_true_of("allowMultipleAllocations"));
    let taints = device.field("taints");
    let same_taints = old.is_some_and(|old| old.get("taints") == taints.value());
    if !same_taints && within(taints, MAX_TAINTS) {
        taints.items().for_each(taint);
    }
    let consumptions = device.field("consumesCounters");
    if within(consumptions, MAX_CONSUMPTIONS) {
        for consumption in consumptions.items() {
            rules::required_label(consumption.field("counterSet"));
            counters(consumption.field("counters"));
        }
        unique(consumptions, |c| c.str_of("counterSet"));
    }
    nodes(device, selects);
    binding_conditions(device);
}

/// Counters by name.
pub fn counters(counters: Cursor<'_>) {
    if counters.is_empty() {
        return counters.required("");
    }
    if within(counters, MAX_COUNTERS) {
        for (name, _) in counters.entries() {
            for message in triptych_object::names::dns1123_label(name) {
                counters.invalid(name, message);
            }
        }
    }
}

fn attribute_values(attribute: Cursor<'_>) -> usize {
    let listed: usize = LISTS.iter().map(|list| attribute.field(list).len()).sum();
    listed.max(1)
}

fn attribute(attribute: Cursor<'_>) {
    const EXACTLY_ONE: &str = "exactly one value must be specified";
    if let Some(text) = attribute.given("string") {
        short(text);
    }
    if let Some(text) = attribute.given("version") {
        version(text);
    }
    for list in LISTS {
        if let Some(list) = attribute.given(list)
            && list.is_empty()
        {
            list.invalid(list.shown(), "must not be empty if specified");
        }
    }
    attribute.field("strings").items().for_each(short);
    attribute.field("versions").items().for_each(version);
    match KINDS.iter().filter(|(kind, _)| attribute.has(kind)).count() {
        0 => attribute.invalid("", EXACTLY_ONE),
        1 => {}
        _ => {
            let value = |kind: &'static str| attribute.field(kind).shown();
            let shown: triptych_object::value::Object = KINDS
                .iter()
                .map(|(kind, name)| ((*name).to_owned(), value(kind)))
                .collect();
            attribute.invalid(Value::Object(shown), EXACTLY_ONE);
        }
    }
}

fn short(text: Cursor<'_>) {
    if text.len() > MAX_VALUE_BYTES {
        text.too_long(MAX_VALUE_BYTES);
    }
}

fn version(text: Cursor<'_>) {
    if !SEMANTIC_VERSION.as_ref().is_some_and(|p| p.is_match(text.str())) {
        text.invalid(text.str(), "must be a string compatible with semver.org spec 2.0.0");
    }
    short(text);
}

/// Where the device can be used.
fn nodes(device: Cursor<'_>, selects: bool) {
    let (name, selector, all) = (
        device.given("nodeName"),
        device.given("nodeSelector"),
        device.given("allNodes"),
    );
    if !selects {
        if name.is_some() || selector.is_some() || all.is_some() {
            device.invalid(
                Value::Null,
                "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec",
            );
        }
        return;
    }
    let mut set = Vec::new();
    if let Some(name) = name {
        if name.is_empty() {
            name.invalid("", "must not be empty");
        } else {
            set.push("`nodeName`");
            rules::subdomain(name);
        }
    }
    if let Some(selector) = selector {
        set.push("`nodeSelector`");
        node_selector(selector, false);
    }
    if let Some(all) = all {
        if all.is_true() {
            set.push("`allNodes`");
        } else {
            all.invalid(false, "must be either unset or set to true");
        }
    }
    match set.len() {
        0 => device.required(ONE_NODE_CHOICE),
        1 => {}
        _ => device.invalid(format!("{{{}}}", set.join(", ")), ONE_NODE_CHOICE),
    }
}
