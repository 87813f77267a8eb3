//! Defaults that depend on other fields.

use jiff::Timestamp;
use triptych_object::{Value, time};

/// One device is wanted where a number of them is but does not say which.
pub fn requests(devices: Option<&mut Value>) {
    let requests = devices
        .and_then(|d| d.get_mut("requests"))
        .and_then(Value::as_array_mut);
    for request in requests.into_iter().flatten() {
        if let Some(exactly) = request.get_mut("exactly") {
            count(exactly);
        }
        let alternatives = request.get_mut("firstAvailable").and_then(Value::as_array_mut);
        alternatives.into_iter().flatten().for_each(count);
    }
}

fn count(request: &mut Value) {
    let none = request.get("count").and_then(Value::as_i64).unwrap_or(0) == 0;
    if none && request.str_at(&["allocationMode"]) == "ExactCount" {
        request.set_at(&["count"], Value::Int(1));
    }
}

/// Taints are as old as the request that sets them.
pub fn taints(slice: &mut Value) {
    let devices = slice.at_mut(&["spec", "devices"]).and_then(Value::as_array_mut);
    for device in devices.into_iter().flatten() {
        let taints = device.get_mut("taints").and_then(Value::as_array_mut);
        for taint in taints.into_iter().flatten() {
            if taint.get("timeAdded").is_none_or(Value::is_null) && taint.as_object().is_some() {
                taint.set_at(&["timeAdded"], time::rfc3339(Timestamp::now()).into());
            }
        }
    }
}
