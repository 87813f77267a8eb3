//! What a claim got: devices, who uses them, and what drivers say of them.

use std::collections::HashSet;

use triptych_object::{Value, names};

use super::requests::{MAX_CONFIGURATIONS, Names, device_configuration};
use super::texts::{binding_conditions, driver, pool, raw_object, uid, unique, within};
use crate::validation::affinity::node_selector;
use crate::validation::conditions::conditions;
use crate::validation::{Cursor, names as rules};

const MAX_CONSUMERS: usize = 256;
const MAX_RESULTS: usize = 32;
const MAX_CONDITIONS: usize = 8;
const MAX_DATA_BYTES: usize = 10 * 1024;
const MAX_ADDRESSES: usize = 16;
const MAX_INTERFACE_NAME: usize = 256;
const MAX_HARDWARE_ADDRESS: usize = 128;

/// Driver, pool, device and share.
type DeviceId<'a> = [&'a str; 4];

fn id(device: &Value) -> DeviceId<'_> {
    ["driver", "pool", "device", "shareID"].map(|member| device.str_at(&[member]))
}

fn shown_id(device: &Value) -> Value {
    let [driver, pool, device, share] = id(device);
    Value::from([
        ("Driver", driver.into()),
        ("Pool", pool.into()),
        ("Device", device.into()),
        ("ShareID", share.into()),
    ])
}

fn allocated(claim: &Value) -> HashSet<DeviceId<'_>> {
    let results = claim.array_at(&["status", "allocation", "devices", "results"]);
    results.iter().map(id).collect()
}

/// What drivers said of devices that are no longer allocated goes.
pub fn drop_deallocated(new: &mut Value, old: &Value) {
    let still = allocated(new);
    let gone: HashSet<DeviceId<'_>> = allocated(old).difference(&still).copied().collect();
    if gone.is_empty() {
        return;
    }
    let kept: Vec<Value> = new
        .array_at(&["status", "devices"])
        .iter()
        .filter(|d| !gone.contains(&id(d)))
        .cloned()
        .collect();
    if kept.is_empty() {
        new.remove_at(&["status", "devices"]);
    } else {
        new.set_at(&["status", "devices"], kept.into());
    }
}

/// The status of a claim that was `old`.
pub fn status(claim: Cursor<'_>, old: &Value) {
    let status = claim.field("status");
    let names = Names::of(claim.field("spec").field("devices").value());
    let consumers = status.field("reservedFor");
    if within(consumers, MAX_CONSUMERS) {
        for consumer in consumers.items() {
            for member in ["resource", "name", "uid"] {
                rules::required(consumer.field(member));
            }
        }
        unique(consumers, |consumer| consumer.str_of("uid"));
    }
    let devices = status.field("devices");
    let ids = allocated(claim.root());
    devices.items().for_each(|device| device_status(device, &ids));
    let mut seen = HashSet::new();
    for device in devices.items() {
        if let Some(value) = device.value()
            && !seen.insert(id(value))
        {
            device.duplicate(shown_id(value));
        }
    }
    let allocation = status.given("allocation");
    if !consumers.is_empty() {
        reserved(claim, consumers, allocation.is_some(), old);
    }
    match (allocation, old.at(&["status", "allocation"])) {
        (Some(allocation), Some(before)) => {
            if allocation.value() != Some(before) {
                allocation.invalid(allocation.go_struct(), "field is immutable");
            }
        }
        (Some(allocation), None) => result(allocation, &names),
        (None, _) => {}
    }
}

fn reserved(claim: Cursor<'_>, consumers: Cursor<'_>, is_allocated: bool, old: &Value) {
    if !is_allocated {
        return consumers.forbidden("may not be specified when `allocated` is not set");
    }
    let deleting = claim.field("metadata").has("deletionTimestamp");
    let before = old.array_at(&["status", "reservedFor"]);
    let is_new = |consumer: Cursor<'_>| consumer.value().is_some_and(|c| !before.contains(c));
    if deleting && consumers.items().any(is_new) {
        consumers
            .forbidden("new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set");
    }
}

fn result(allocation: Cursor<'_>, requests: &Names<'_>) {
    let devices = allocation.field("devices");
    let results = devices.field("results");
    if within(results, MAX_RESULTS) {
        for result in results.items() {
            requests.check(result.field("request"));
            driver(result.field("driver"));
            pool(result.field("pool"));
            rules::label(result.field("device"));
            binding_conditions(result);
            if let Some(share) = result.given("shareID") {
                uid(share);
            }
        }
    }
    let configurations = devices.field("config");
    if within(configurations, 2 * MAX_CONFIGURATIONS) {
        for configuration in configurations.items() {
            // in the order in which Go names them
            rules::required_one_of(configuration.field("source"), &["FromClaim", "FromClass"]);
            requests.check_all(configuration.field("requests"));
            device_configuration(configuration);
        }
    }
    if let Some(selector) = allocation.given("nodeSelector") {
        node_selector(selector, false);
    }
}

fn device_status(device: Cursor<'_>, allocated: &HashSet<DeviceId<'_>>) {
    driver(device.field("driver"));
    pool(device.field("pool"));
    rules::label(device.field("device"));
    if let Some(share) = device.given("shareID") {
        uid(share);
    }
    if let Some(value) = device.value()
        && !allocated.contains(&id(value))
    {
        device.invalid(shown_id(value), "must be an allocated device in the claim");
    }
    let list = device.field("conditions");
    if list.len() > MAX_CONDITIONS {
        list.too_many(MAX_CONDITIONS);
    }
    conditions(list);
    if let Some(data) = device.given("data") {
        raw_object(data, MAX_DATA_BYTES);
    }
    let network = device.field("networkData");
    for (member, max) in [
        ("interfaceName", MAX_INTERFACE_NAME),
        ("hardwareAddress", MAX_HARDWARE_ADDRESS),
    ] {
        if network.field(member).len() > max {
            network.field(member).too_long(max);
        }
    }
    let addresses = network.field("ips");
    if within(addresses, MAX_ADDRESSES) {
        for address in addresses.items() {
            address.invalid_text(names::interface_address(address.str()));
        }
        unique(addresses, Cursor::str);
    }
}

/// The result, by number, that gives access for administrators.
pub fn admin_result(claim: &Value) -> Option<usize> {
    let results = claim.array_at(&["status", "allocation", "devices", "results"]);
    let grants = |result: &Value| result.get("adminAccess").and_then(Value::as_bool) == Some(true);
    results.iter().position(grants)
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_object::json;

    #[test]
    fn what_was_said_of_deallocated_devices_goes() {
        let old = json::from_slice(
            br#"{"status":{"allocation":{"devices":{"results":[{"driver":"d","pool":"p","device":"a"},{"driver":"d","pool":"p","device":"b"}]}},
                "devices":[{"driver":"d","pool":"p","device":"a"},{"driver":"d","pool":"p","device":"b"}]}}"#,
        )
        .unwrap();
        let mut new = old.clone();
        new.at_mut(&["status", "allocation", "devices", "results"])
            .and_then(Value::as_array_mut)
            .unwrap()
            .pop();
        drop_deallocated(&mut new, &old);
        let devices = new.array_at(&["status", "devices"]);
        assert_eq!(devices.len(), 1);
        assert_eq!(devices[0].str_at(&["device"]), "a");
        new.remove_at(&["status", "allocation"]);
        drop_deallocated(&mut new, &old);
        assert!(new.at(&["status", "devices"]).is_none());
    }
}
