//! Node: taints, capacity, addresses, and what may be set only once.

use std::collections::{BTreeSet, HashSet};

use jiff::Timestamp;
use triptych_object::field::{Error, ErrorList};
use triptych_object::names;
use triptych_object::value::Object;
use triptych_object::{Value, json, meta};
use triptych_registry::age::age;
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::strategy::{Context, Strategy};

use crate::defaults;
use crate::validation::addresses::legacy_cidr;
use crate::validation::{Cursor, check, resource_names};

/// The strategy of `nodes`.
pub struct Nodes;

/// The strategy of `nodes/status`.
pub struct Status;

impl Strategy for Nodes {
    fn default(&self, node: &mut Value) {
        defaults::resource_lists(node, &[&["status", "capacity"], &["status", "allocatable"]]);
        if let (None, Some(capacity)) = (node.at(&["status", "allocatable"]), node.at(&["status", "capacity"])) {
            let capacity = capacity.clone();
            node.set_at(&["status", "allocatable"], capacity);
        }
        sync_pod_cidrs(node);
    }

    fn prepare_create(&self, _cx: &Context, new: &mut Value) {
        new.remove_at(&["spec", "configSource"]);
        new.remove_at(&["status", "config"]);
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, whole);
    }

    fn prepare_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        if old.at(&["spec", "configSource"]).is_none() {
            new.remove_at(&["spec", "configSource"]);
        }
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |node| {
            whole(node);
            change(node, old);
        });
    }

    fn warnings(&self, _cx: &Context, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if new.at(&["spec", "configSource"]).is_some() {
            warnings.push("spec.configSource: the feature is removed".to_owned());
        }
        if !new.str_at(&["spec", "externalID"]).is_empty() {
            warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
        }
        for (i, cidr) in new.array_at(&["spec", "podCIDRs"]).iter().enumerate() {
            warnings.extend(names::cidr_warnings(
                &format!("spec.podCIDRs[{i}]"),
                cidr.as_str().unwrap_or(""),
            ));
        }
        warnings
    }

    fn cells(&self, node: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let ready = node
            .array_at(&["status", "conditions"])
            .iter()
            .rfind(|c| c.str_at(&["type"]) == "Ready")
            .map(|c| c.str_at(&["status"]));
        let mut status = match ready {
            Some("True") => "Ready",
            Some(_) => "NotReady",
            None => "Unknown",
        }
        .to_owned();
        if node.at(&["spec", "unschedulable"]).and_then(Value::as_bool) == Some(true) {
            status.push_str(",SchedulingDisabled");
        }
        let info = |member: &str| node.str_at(&["status", "nodeInfo", member]);
        let known = |text: &str| {
            if text.is_empty() {
                "<unknown>".to_owned()
            } else {
                text.to_owned()
            }
        };
        let mut kernel = known(info("kernelVersion"));
        if !info("architecture").is_empty() {
            kernel.push_str(&format!(" ({})", info("architecture")));
        }
        Some(vec![
            meta::name(node).into(),
            status.into(),
            roles(node).into(),
            age(node, now).into(),
            info("kubeletVersion").into(),
            address(node, "InternalIP").into(),
            address(node, "ExternalIP").into(),
            known(info("osImage")).into(),
            kernel.into(),
            known(info("containerRuntimeVersion")).into(),
        ])
    }
}

impl Strategy for Status {
    fn default(&self, node: &mut Value) {
        Nodes.default(node);
    }

    fn prepare_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        if old.at(&["status", "config"]).is_none() {
            new.remove_at(&["status", "config"]);
        }
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |node| change(node, old));
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }
}

/// `podCIDR` is the first of `podCIDRs`; a client that knows only one of them sets both.
fn sync_pod_cidrs(node: &mut Value) {
    let single = node.str_at(&["spec", "podCIDR"]).to_owned();
    let first = node
        .array_at(&["spec", "podCIDRs"])
        .first()
        .and_then(Value::as_str)
        .map(str::to_owned);
    match first {
        None if !single.is_empty() => node.set_at(&["spec", "podCIDRs"], vec![single].into()),
        Some(first) if single.is_empty() => node.set_at(&["spec", "podCIDR"], first.into()),
        Some(first) if first != single => node.set_at(&["spec", "podCIDRs"], vec![single].into()),
        _ => {}
    }
}

fn address(node: &Value, kind: &str) -> String {
    let addresses = node.array_at(&["status", "addresses"]);
    let found = addresses.iter().find(|a| a.str_at(&["type"]) == kind);
    found.map_or("<none>", |a| a.str_at(&["address"])).to_owned()
}

fn roles(node: &Value) -> String {
    let labels = node.at(&["metadata", "labels"]).and_then(Value::as_object);
    let mut roles = BTreeSet::new();
    for (key, value) in labels.into_iter().flat_map(Object::iter) {
        let role = match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => role,
            None if key == "kubernetes.io/role" => value.as_str().unwrap_or(""),
            None => "",
        };
        if !role.is_empty() {
            roles.insert(role);
        }
    }
    if roles.is_empty() {
        return "<none>".to_owned();
    }
    roles.into_iter().collect::<Vec<_>>().join(",")
}

/// `ValidateNode`, metadata apart.
fn whole(node: Cursor<'_>) {
    let spec = node.field("spec");
    annotations(node);
    taints(spec.field("taints"));
    resources(node);
    if let Some(capacity) = node.field("status").field("nodeInfo").field("swap").i64_of("capacity")
        && capacity <= 0
    {
        let detail = "must be greater than zero";
        node.push(Error::invalid("metadata.nodeSwapStatus.capacity", capacity, detail));
    }
    declared_features(node.field("status").field("declaredFeatures"));
    let cidrs = spec.field("podCIDRs");
    for cidr in cidrs.items() {
        legacy_cidr(cidr, cidr.str(), &[]);
    }
    if cidrs.len() > 1 {
        let parsed: Option<Vec<bool>> = cidrs
            .items()
            .map(|c| names::parse_cidr(c.str()).map(|(a, _)| a.is_ipv6()))
            .collect();
        match parsed {
            None => cidrs.internal(format!(
                "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDRs: {}",
                cidrs.items().map(|c| c.str()).collect::<Vec<_>>().join(" ")
            )),
            Some(families) if families.len() > 2 || families[0] == families[1] => {
                cidrs.invalid(cidrs.shown(), "may specify no more than one CIDR for each IP family");
            }
            Some(_) => {}
        }
    }
}

/// `ValidateNodeUpdate`, metadata apart.
fn change(node: Cursor<'_>, old: &Value) {
    annotations(node);
    resources(node);
    let (spec, status) = (node.field("spec"), node.field("status"));
    declared_features(status.field("declaredFeatures"));
    let mut seen: Vec<&Value> = Vec::new();
    for address in status.field("addresses").items() {
        let Some(value) = address.value() else { continue };
        if seen.contains(&value) {
            address.duplicate(address.go_struct());
        }
        seen.push(value);
    }
    let cidrs = spec.field("podCIDRs");
    let (have, had) = (
        spec.root().array_at(&["spec", "podCIDRs"]),
        old.array_at(&["spec", "podCIDRs"]),
    );
    const CIDRS: &str = "node updates may not change podCIDR except from \"\" to valid";
    if !had.is_empty() {
        if have.len() != had.len() {
            cidrs.forbidden(CIDRS);
        } else {
            have.iter()
                .zip(had)
                .filter(|(a, b)| a != b)
                .for_each(|_| cidrs.forbidden(CIDRS));
        }
    }
    let provider = old.str_at(&["spec", "providerID"]);
    if !provider.is_empty() && provider != spec.str_of("providerID") {
        spec.field("providerID")
            .forbidden("node updates may not change providerID except from \"\" to valid");
    }
    taints(spec.field("taints"));
    if old.str_at(&["spec", "externalID"]) != spec.str_of("externalID") {
        spec.field("externalID").forbidden("may not be updated");
    }
}

/// Taints of the spec are reported below `metadata`, where kube-apiserver looks for them.
fn taints(taints: Cursor<'_>) {
    let shown = taints.items().map(|t| t.go_struct()).collect::<Vec<_>>();
    let items: Vec<&Value> = taints.items().filter_map(|t| t.value()).collect();
    check_taints(taints, "metadata.taints", &items, &shown);
}

fn check_taints(at: Cursor<'_>, path: &str, taints: &[&Value], shown: &[Value]) {
    let mut seen = HashSet::new();
    for (i, taint) in taints.iter().enumerate() {
        let path = |member: &str| format!("{path}[{i}]{member}");
        let text = |member: &str| taint.str_at(&[member]);
        for message in names::qualified_name(text("key")) {
            at.push(Error::invalid(path(".key"), text("key"), message));
        }
        let messages = names::label_value(text("value"));
        if !messages.is_empty() {
            at.push(Error::invalid(path(".value"), text("value"), messages.join(";")));
        }
        match text("effect") {
            "" => at.push(Error::required(path(".effect"), "")),
            "NoSchedule" | "PreferNoSchedule" | "NoExecute" => {}
            effect => {
                let supported = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
                at.push(Error::not_supported(path(".effect"), effect, &supported));
            }
        }
        if !seen.insert((text("effect"), text("key"))) {
            let value = shown.get(i).cloned().unwrap_or_default();
            let mut error = Error::duplicate(path(""), value);
            error.detail = "taints must be unique by key and effect pair".to_owned();
            at.push(error);
        }
    }
}

/// Taints and pods to avoid, as once written into annotations.
fn annotations(node: Cursor<'_>) {
    const FIELD: &str = "metadata.annotations";
    const TAINTS: &str = "scheduler.alpha.kubernetes.io/taints";
    const AVOID: &str = "scheduler.alpha.kubernetes.io/preferAvoidPods";
    let annotations = node.field("metadata").field("annotations");
    let read = |key: &'static str| Some(annotations.key(key).str()).filter(|t| !t.is_empty());
    match read(TAINTS).map(|text| json::from_slice(text.as_bytes())) {
        Some(Ok(list)) => {
            let items: Vec<&Value> = list.as_array().unwrap_or(&[]).iter().collect();
            let shown: Vec<Value> = items.iter().map(|v| (*v).clone()).collect();
            check_taints(node, &format!("{FIELD}.{TAINTS}"), &items, &shown);
        }
        Some(Err(e)) => node.push(Error::invalid(FIELD, TAINTS, e.message)),
        None => {}
    }
    match read(AVOID).map(|text| json::from_slice(text.as_bytes())) {
        Some(Ok(avoid)) => {
            for (i, entry) in avoid.array_at(&["preferAvoidPods"]).iter().enumerate() {
                let path = format!("{FIELD}.{AVOID}[{i}].PodSignature");
                match entry.at(&["podSignature", "podController"]) {
                    None => node.push(Error::required(path, "")),
                    Some(owner) if owner.get("controller").and_then(Value::as_bool) != Some(true) => {
                        let path = format!("{path}.PodController.Controller");
                        node.push(Error::invalid(path, false, "must point to a controller"));
                    }
                    Some(_) => {}
                }
            }
        }
        Some(Err(e)) => node.push(Error::invalid(format!("{FIELD}.AvoidPods"), AVOID, e.message)),
        None => {}
    }
}

/// Quantities in capacity and allocatable; kube-apiserver writes the resource as one more path element.
fn resources(node: Cursor<'_>) {
    let status = node.field("status");
    for member in ["capacity", "allocatable"] {
        for (name, quantity) in status.field(member).entries() {
            let path = format!("status.{member}.{name}");
            let value = resource_names::quantity(quantity);
            if value.sign() < 0 {
                node.push(Error::invalid(
                    path.clone(),
                    quantity.str(),
                    "must be greater than or equal to 0",
                ));
            }
            if resource_names::is_integer(name) && !resource_names::is_whole(&value) {
                node.push(Error::invalid(path, quantity.str(), "must be an integer"));
            }
        }
    }
}

fn declared_features(features: Cursor<'_>) {
    let mut before: Option<&str> = None;
    for feature in features.items() {
        let name = feature.str();
        match before {
            Some(before) if before == name => feature.duplicate(name),
            Some(before) if before > name => feature.invalid(name, "list must be sorted alphabetically"),
            _ => {}
        }
        if name.len() > 253 {
            feature.invalid(
                name,
                format!(
                    "invalid feature name {}: must be no more than 253 characters",
                    quote(name)
                ),
            );
        } else if !is_feature_name(name) {
            feature.invalid(name, format!("invalid feature name {}: must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes", quote(name)));
        }
        before = Some(name);
    }
}

fn quote(name: &str) -> String {
    triptych_object::field::quote(name)
}

fn is_feature_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
        && name
            .split('/')
            .all(|s| s.starts_with(|c: char| c.is_ascii_alphabetic()) && s.bytes().all(|b| b.is_ascii_alphanumeric()))
}
