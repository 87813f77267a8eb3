//! `pods/status`: what kubelets and controllers report.

use std::collections::HashSet;

use triptych_object::field::ErrorList;
use triptych_object::{Value, names};
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::{Context, Strategy};

use crate::validation::pod_options::PodOptions;
use crate::validation::{Cursor, addresses, check, names as rules, pod_annotations, resource_names, security_context};

/// The strategy of `pods/status`.
pub struct Status;

impl Strategy for Status {
    fn default(&self, pod: &mut Value) {
        super::Pods.default(pod);
    }

    fn prepare_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        if new.str_at(&["status", "qosClass"]).is_empty() {
            keep(new, old, &["status", "qosClass"]);
        }
        preserve_observed_generation(new, old);
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |pod| update(pod, old));
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }

    fn warnings(&self, _cx: &Context, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        for list in ["podIPs", "hostIPs"] {
            for (i, ip) in new.array_at(&["status", list]).iter().enumerate() {
                warnings.extend(names::ip_warnings(
                    &format!("status.{list}[{i}].ip"),
                    ip.str_at(&["ip"]),
                ));
            }
        }
        warnings
    }
}

fn keep(new: &mut Value, old: &Value, path: &[&str]) {
    if let Some(value) = old.at(path) {
        new.set_at(path, value.clone());
    }
}

/// Clients that do not know `observedGeneration` do not clear it.
fn preserve_observed_generation(new: &mut Value, old: &Value) {
    const MEMBER: &str = "observedGeneration";
    if new.at(&["status", MEMBER]).is_none() {
        keep(new, old, &["status", MEMBER]);
    }
    let mut before: Vec<&Value> = old.array_at(&["status", "conditions"]).iter().collect();
    let conditions = new.at_mut(&["status", "conditions"]).and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        let kind = condition.str_at(&["type"]);
        let Some(at) = before.iter().position(|c| c.str_at(&["type"]) == kind) else {
            continue;
        };
        let generation = before.remove(at).get(MEMBER);
        if let (None, Some(generation)) = (condition.get(MEMBER), generation) {
            condition.set_at(&[MEMBER], generation.clone());
        }
    }
}

fn update(pod: Cursor<'_>, old: &Value) {
    let (spec, status) = (pod.field("spec"), pod.field("status"));
    let annotations = pod.field("metadata").field("annotations");
    pod_annotations::unchanged(annotations, old.at(&["metadata", "annotations"]));
    pod_annotations::annotations(annotations, spec, &PodOptions::updating(true, Some(old)));
    conditions(status.field("conditions"));
    let old_node = old.str_at(&["spec", "nodeName"]);
    if spec.str_of("nodeName") != old_node {
        status.alias("nodeName").forbidden("may not be changed directly");
    }
    let nominated = status.field("nominatedNodeName");
    if !nominated.str().is_empty() && nominated.str() != old.str_at(&["status", "nominatedNodeName"]) {
        rules::subdomain(nominated);
        if !old_node.is_empty() {
            nominated.forbidden("may not be set on pods that are already bound to a node");
        }
    }
    not_negative(status.field("observedGeneration"));
    let class = status.field("qosClass");
    if class.str() != old.str_at(&["status", "qosClass"]) {
        class.invalid(class.str(), "field is immutable");
    }
    transitions(status, old);
    claim_statuses(status.field("resourceClaimStatuses"), spec);
    extended_claim(status.field("extendedResourceClaimStatus"), spec);
    node_allocatable_claims(status, spec);
    ips(status, old);
    container_statuses(status, spec);
}

fn not_negative(c: Cursor<'_>) {
    if c.int() < 0 {
        c.invalid(c.int(), "must be a non-negative integer");
    }
}

fn conditions(c: Cursor<'_>) {
    for condition in c.items() {
        not_negative(condition.field("observedGeneration"));
        let kind = condition.field("type");
        if !matches!(kind.str(), "PodScheduled" | "Ready" | "Initialized") {
            rules::qualified(kind.renamed("Type"));
        }
    }
}

/// A container that ended may not go on unless its restart policy says so.
fn transitions(status: Cursor<'_>, old: &Value) {
    let null = Value::Null;
    let spec = old.get("spec").unwrap_or(&null);
    let restarts_all = ["initContainers", "containers"]
        .iter()
        .flat_map(|list| spec.array_at(&[list]))
        .flat_map(|c| c.array_at(&["restartPolicyRules"]))
        .any(|rule| rule.str_at(&["action"]) == "RestartAllContainers");
    for (list, containers) in [
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
        ("ephemeralContainerStatuses", ""),
    ] {
        if restarts_all && !containers.is_empty() {
            continue;
        }
        let now = status.field(list);
        for (i, before) in old.array_at(&["status", list]).iter().enumerate() {
            let Some(terminated) = before.at(&["state", "terminated"]) else {
                continue;
            };
            let name = before.str_at(&["name"]);
            let mut same = now.items().filter(|s| s.str_of("name") == name);
            if same.next().is_none_or(|s| s.field("state").has("terminated")) {
                continue;
            }
            let exit_code = terminated.get("exitCode").and_then(Value::as_i64).unwrap_or(0);
            let mut own = spec
                .array_at(&[containers])
                .iter()
                .filter(|c| c.str_at(&["name"]) == name);
            if !own.next().is_some_and(|c| may_restart(c, spec, exit_code)) {
                let place = now.index(i).alias("state");
                place.forbidden("may not be transitioned to non-terminated state");
            }
        }
    }
}

fn may_restart(container: &Value, spec: &Value, exit_code: i64) -> bool {
    if container.get("restartPolicy").is_some() {
        let matching = container.array_at(&["restartPolicyRules"]).iter().find(|rule| {
            let mut values = rule.array_at(&["exitCodes", "values"]).iter();
            let listed = values.any(|v| v.as_i64() == Some(exit_code));
            match rule.str_at(&["exitCodes", "operator"]) {
                "In" => listed,
                "NotIn" => !listed,
                _ => false,
            }
        });
        if matching.is_some_and(|rule| matches!(rule.str_at(&["action"]), "Restart" | "RestartAllContainers")) {
            return true;
        }
    }
    match (container.str_at(&["restartPolicy"]), spec.str_at(&["restartPolicy"])) {
        ("Always", _) => true,
        ("OnFailure", _) => exit_code != 0,
        ("Never", _) => false,
        (_, "OnFailure") => exit_code != 0,
        (_, "Never") => false,
        _ => true,
    }
}

fn claim_statuses<'a>(c: Cursor<'a>, spec: Cursor<'a>) {
    let mut seen = HashSet::new();
    for status in c.items() {
        let name = status.field("name");
        if !spec
            .field("resourceClaims")
            .items()
            .any(|claim| claim.str_of("name") == name.str())
        {
            name.invalid(name.str(), "must match the name of an entry in `spec.resourceClaims`");
        }
        if !seen.insert(name.str()) {
            name.duplicate(name.str());
        }
        if let Some(claim) = status.given("resourceClaimName") {
            rules::subdomain(claim);
        }
    }
}

fn extended_claim<'a>(c: Cursor<'a>, spec: Cursor<'a>) {
    const RESOURCE: &str = "must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests";
    const CONTAINER: &str = "must match the name of an entry in spec.initContainers.name or spec.containers.name";
    if !c.exists() {
        return;
    }
    let mappings = c.field("requestMappings");
    if mappings.is_empty() {
        mappings.required("at least one request mapping is required");
    }
    let mut seen = HashSet::new();
    for mapping in mappings.items() {
        let (container, resource, request) = (
            mapping.field("containerName"),
            mapping.field("resourceName"),
            mapping.field("requestName"),
        );
        let owner = ["containers", "initContainers"]
            .into_iter()
            .flat_map(|list| spec.field(list).items())
            .find(|c| c.str_of("name") == container.str());
        match owner {
            Some(owner) if owner.field("resources").field("requests").key(resource.str()).exists() => {}
            Some(_) => resource.invalid(resource.str(), RESOURCE),
            None => container.invalid(container.str(), CONTAINER),
        }
        rules::label(request.standing_for(c.alias("requestName")));
        if !seen.insert((container.str(), resource.str(), request.str())) {
            [container, resource, request]
                .into_iter()
                .for_each(|c| c.duplicate(c.str()));
        }
    }
    let name = c.field("resourceClaimName");
    if name.str().is_empty() {
        name.required("");
    } else {
        rules::subdomain(name);
    }
}

fn node_allocatable_claims<'a>(status: Cursor<'a>, spec: Cursor<'a>) {
    for claim in status.field("nodeAllocatableResourceClaimStatuses").items() {
        let name = claim.field("resourceClaimName");
        if name.str().is_empty() {
            name.required("must not be empty");
        }
        let known = spec
            .field("resourceClaims")
            .items()
            .chain(status.field("resourceClaimStatuses").items());
        let mut names = known.map(|c| {
            c.value()
                .and_then(|v| v.get("resourceClaimName"))
                .and_then(Value::as_str)
        });
        if !names.any(|known| known == Some(name.str())) {
            name.invalid(name.str(), "no mapping found in pod reference");
        }
        if claim.field("containers").is_empty() {
            claim.field("containers").required("must not be empty");
        }
        let resources = claim.field("resources");
        if resources.is_empty() {
            resources.required("must not be empty");
        }
        for (name, value) in resources.entries() {
            if !resource_names::is_native(name) {
                value.invalid(name, "must be a node allocatable resource name");
            }
            let amount = resource_names::quantity(value);
            if amount.sign() < 0 {
                value.invalid(amount.to_string(), "must be non-negative");
            }
        }
    }
}

fn ips(status: Cursor<'_>, old: &Value) {
    let hosts = status.field("hostIPs");
    if let Some(first) = hosts.items().next() {
        let ip = first.field("ip");
        if ip.str() != status.str_of("hostIP") {
            ip.invalid(ip.str(), "must be equal to `hostIP`");
        }
    }
    for list in ["podIPs", "hostIPs"] {
        let c = status.field(list);
        let before: Vec<&str> = old
            .array_at(&["status", list])
            .iter()
            .map(|ip| ip.str_at(&["ip"]))
            .collect();
        for item in c.items() {
            for message in names::ip_for_legacy_field(item.str_of("ip"), true, &before) {
                item.invalid(item.str_of("ip"), message);
            }
        }
        let families: Vec<bool> = c.items().map(|ip| addresses::is_ipv6(ip.str_of("ip"))).collect();
        let dual = families.len() == 2 && families[0] != families[1];
        if families.len() > 1 && !dual {
            if let Some(bad) = c.items().find(|ip| names::parse_ip(ip.str_of("ip")).is_none()) {
                let detail = format!(
                    "failed to check for dual stack with error:invalid IP: {}",
                    bad.str_of("ip")
                );
                c.internal(detail);
            }
            c.invalid(c.go_struct(), "may specify no more than one IP for each IP family");
        }
    }
}

fn container_statuses<'a>(status: Cursor<'a>, spec: Cursor<'a>) {
    let os = if spec.has("os") {
        spec.field("os").str_of("name")
    } else {
        "linux"
    };
    for (list, containers) in [
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
        ("ephemeralContainerStatuses", ""),
    ] {
        for c in status.field(list).items() {
            if let Some(linux) = c.field("user").given("linux") {
                match os {
                    "windows" => linux.forbidden("cannot be set for a windows pod"),
                    "linux" => {
                        security_context::user_id(linux.field("uid"));
                        security_context::group_id(linux.field("gid"));
                        linux
                            .field("supplementalGroups")
                            .items()
                            .for_each(security_context::group_id);
                    }
                    _ => {}
                }
            }
            let allocated = c.field("allocatedResourcesStatus");
            if !containers.is_empty() {
                let own = spec
                    .field(containers)
                    .items()
                    .find(|s| s.str_of("name") == c.str_of("name"));
                allocated_resources(allocated, own);
            } else if !allocated.is_empty() {
                allocated.forbidden("must not be specified in container status");
            }
        }
    }
}

fn allocated_resources(c: Cursor<'_>, container: Option<Cursor<'_>>) {
    const CLAIM: &str = "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty";
    for item in c.items() {
        let name = item.field("name");
        if let Some(resources) = container.map(|c| c.field("resources")) {
            let (found, detail) = if name.str().starts_with("claim:") {
                let found = resources.field("claims").items().any(|claim| {
                    let request = claim.str_of("request");
                    let slash = if request.is_empty() { "" } else { "/" };
                    name.str() == format!("claim:{}{slash}{request}", claim.str_of("name"))
                });
                (found, CLAIM)
            } else {
                let requests = resources.field("requests").value();
                let found = requests.is_some_and(|r| r.get(name.str()).is_some());
                (found, "must match one of the container's resource requests")
            };
            if !found {
                name.invalid(name.str(), detail);
            }
        }
        let mut seen = HashSet::new();
        for resource in item.field("resources").items() {
            rules::one_of(resource.field("health"), &["Healthy", "Unhealthy", "Unknown"]);
            if let Some(message) = resource.given("message") {
                if message.str().is_empty() {
                    message.required("must be non-empty if specified");
                } else if message.str().len() > 1024 {
                    message.too_long(1024);
                }
            }
            let id = resource.field("resourceID");
            if !seen.insert(id.str()) {
                id.duplicate(id.str());
            }
        }
    }
}

/// Sets a condition, keeping the time of its last change if its status is the same (podutil.UpdatePodCondition).
pub fn set_condition(pod: &mut Value, now: &str, kind: &str, status: &str, reason: &str, message: &str) {
    let conditions = pod.array_at(&["status", "conditions"]);
    let at = conditions.iter().position(|c| c.str_at(&["type"]) == kind);
    let before = at
        .and_then(|at| conditions.get(at))
        .filter(|c| c.str_at(&["status"]) == status);
    let since = before
        .and_then(|c| c.get("lastTransitionTime"))
        .cloned()
        .unwrap_or_else(|| now.into());
    let mut condition = Value::from([
        ("type", kind.into()),
        ("status", status.into()),
        ("lastProbeTime", Value::Null),
        ("lastTransitionTime", since),
    ]);
    for (member, text) in [("reason", reason), ("message", message)] {
        if !text.is_empty() {
            condition.set_at(&[member], text.into());
        }
    }
    let mut all = conditions.to_vec();
    match at {
        Some(at) => all[at] = condition,
        None => all.push(condition),
    }
    pod.set_at(&["status", "conditions"], Value::Array(all));
}
