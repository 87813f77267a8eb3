//! What a claim asks for: requests of devices, constraints between them, configuration for drivers.

use std::collections::{BTreeMap, BTreeSet};

use triptych_object::Value;

use super::selector;
use super::texts::{device_class, driver, fully_qualified, raw_object, toleration, unique, within};
use crate::validation::{Cursor, names as rules};

const MAX_REQUESTS: usize = 32;
const MAX_CONSTRAINTS: usize = 32;
/// How many configurations a claim or class may have.
pub const MAX_CONFIGURATIONS: usize = 32;
const MAX_SELECTORS: usize = 32;
const MAX_ALTERNATIVES: usize = 8;
const MAX_PARAMETERS_BYTES: usize = 10 * 1024;
const NO_REQUEST: &str =
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";

/// The names of a claim's requests with those of their alternatives.
pub struct Names<'a>(BTreeMap<&'a str, BTreeSet<&'a str>>);

impl<'a> Names<'a> {
    /// Those of a DeviceClaim.
    pub fn of(devices: Option<&'a Value>) -> Names<'a> {
        let requests = devices.map(|d| d.array_at(&["requests"])).unwrap_or(&[]).iter();
        let alternatives = |request: &'a Value| {
            let list = request.array_at(&["firstAvailable"]).iter();
            list.map(|r| r.str_at(&["name"])).collect()
        };
        Names(requests.map(|r| (r.str_at(&["name"]), alternatives(r))).collect())
    }

    fn has(&self, name: &str) -> bool {
        match name.split_once('/') {
            None => self.0.contains_key(name),
            Some((request, alternative)) => self.0.get(request).is_some_and(|a| a.contains(alternative)),
        }
    }

    /// A reference to a request.
    pub fn check(&self, reference: Cursor<'_>) {
        let name = reference.str();
        let segments: Vec<&str> = name.split('/').collect();
        if segments.len() > 2 {
            return reference.invalid(name, NO_REQUEST);
        }
        for segment in segments {
            for message in triptych_object::names::dns1123_label(segment) {
                reference.invalid(segment, message);
            }
        }
        if !self.has(name) {
            reference.invalid(name, NO_REQUEST);
        }
    }

    /// A list of references.
    pub fn check_all(&self, list: Cursor<'_>) {
        if within(list, MAX_REQUESTS) {
            list.items().for_each(|reference| self.check(reference));
            unique(list, Cursor::str);
        }
    }
}

/// A DeviceClaim.
pub fn device_claim(devices: Cursor<'_>) {
    let names = Names::of(devices.value());
    let requests = devices.field("requests");
    if within(requests, MAX_REQUESTS) {
        requests.items().for_each(request);
        unique(requests, |request| request.str_of("name"));
    }
    let constraints = devices.field("constraints");
    if within(constraints, MAX_CONSTRAINTS) {
        constraints.items().for_each(|c| constraint(c, &names));
    }
    let configurations = devices.field("config");
    if within(configurations, MAX_CONFIGURATIONS) {
        for configuration in configurations.items() {
            names.check_all(configuration.field("requests"));
            device_configuration(configuration);
        }
    }
}

fn request(request: Cursor<'_>) {
    rules::label(request.field("name"));
    let alternatives = request.field("firstAvailable");
    match (request.given("exactly"), alternatives.is_empty()) {
        (None, true) => request.required("exactly one of `exactly` or `firstAvailable` is required"),
        (Some(_), false) => request.invalid(
            Value::Null,
            "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
        ),
        (Some(exactly), true) => exact(exactly),
        (None, false) => {
            if within(alternatives, MAX_ALTERNATIVES) {
                for alternative in alternatives.items() {
                    rules::label(alternative.field("name"));
                    exact(alternative);
                }
                unique(alternatives, |a| a.str_of("name"));
            }
        }
    }
}

/// What an exact request and an alternative have in common.
fn exact(request: Cursor<'_>) {
    device_class(request.field("deviceClassName"));
    selectors(request.field("selectors"));
    let (mode, count) = (request.field("allocationMode"), request.field("count"));
    match mode.str() {
        "All" if count.int() != 0 => count.invalid(count.int(), "must not be specified when allocationMode is 'All'"),
        "All" => {}
        "ExactCount" if count.int() <= 0 => count.invalid(count.int(), "must be greater than zero"),
        "ExactCount" => {}
        _ => mode.not_supported(&["All", "ExactCount"]),
    }
    request.field("tolerations").items().for_each(toleration);
}

/// Selectors of devices.
pub fn selectors(list: Cursor<'_>) {
    if !within(list, MAX_SELECTORS) {
        return;
    }
    for item in list.items() {
        match item.given("cel") {
            None => item.field("cel").required(""),
            Some(cel) => selector::expression(cel.field("expression")),
        }
    }
}

fn constraint(constraint: Cursor<'_>, names: &Names<'_>) {
    names.check_all(constraint.field("requests"));
    if let Some(attribute) = constraint.given("matchAttribute") {
        fully_qualified(attribute);
    } else if let Some(attribute) = constraint.given("distinctAttribute") {
        fully_qualified(attribute);
    } else {
        constraint.required(
            "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set",
        );
    }
}

/// Configuration for the driver of a device.
pub fn device_configuration(configuration: Cursor<'_>) {
    match configuration.given("opaque") {
        None => configuration.field("opaque").required(""),
        Some(opaque) => {
            driver(opaque.field("driver"));
            raw_object(opaque.field("parameters"), MAX_PARAMETERS_BYTES);
        }
    }
}

/// The request, by number, that wants access for administrators.
pub fn admin_request(devices: Option<&Value>) -> Option<usize> {
    let requests = devices?.array_at(&["requests"]);
    let wants = |request: &Value| request.at(&["exactly", "adminAccess"]).and_then(Value::as_bool) == Some(true);
    requests.iter().position(wants)
}
