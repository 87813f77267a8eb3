//! A pod's specification, in pods and in templates.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use triptych_object::{Quantity, Value, names};

use super::container::Pod;
use super::pod_options::{PodOptions, containers_at};
use super::resources::{self, Owner, Requirements};
use super::{
    Cursor, affinity, names as rules, resource_names, security_context, tolerations, topology_spread, volumes,
};

/// Checks `spec`; `metadata` is that of a Pod, absent for templates.
pub fn pod_spec<'a>(spec: Cursor<'a>, metadata: Option<Cursor<'a>>, options: &PodOptions) {
    if !spec.has("terminationGracePeriodSeconds") {
        spec.field("terminationGracePeriodSeconds").required("");
    }
    let pod_name = metadata.map_or("", |m| m.str_of("name"));
    let pod = Pod {
        spec,
        volumes: volumes::volumes(spec.field("volumes"), pod_name, options),
        claims: claim_names(spec),
        grace_period: spec.i64_of("terminationGracePeriodSeconds"),
        host_users: spec.bool_of("hostUsers") != Some(false),
        options: *options,
    };
    resource_claims(spec.field("resourceClaims"), metadata);
    pod.containers();
    pod.init_containers();
    pod.ephemeral_containers();
    pod_resources(&pod);
    host_network_ports(spec, options);
    rules::required_one_of(spec.field("restartPolicy"), &["Always", "OnFailure", "Never"]);
    let dns_policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    rules::required_one_of(spec.field("dnsPolicy"), &dns_policies);
    super::label_selector::labels(spec.field("nodeSelector"));
    security_context::pod(spec, options);
    affinity::affinity(spec.field("affinity"), options.affinity);
    dns_config(spec);
    for gate in spec.field("readinessGates").items() {
        rules::qualified(gate.field("conditionType"));
    }
    scheduling_gates(spec.field("schedulingGates"));
    topology_spread::constraints(spec.field("topologySpreadConstraints"), options);
    security_context::windows_host_process(spec);
    user_namespace(spec, options);
    hostname_override(spec);
    rules::optional_subdomain(spec.field("serviceAccountName"));
    rules::optional_subdomain(spec.field("nodeName"));
    let deadline = spec.field("activeDeadlineSeconds");
    if deadline.i64().is_some_and(|s| !(1..=i64::from(i32::MAX)).contains(&s)) {
        deadline.invalid(deadline.int(), names::inclusive_range_message(1, i64::from(i32::MAX)));
    }
    for name in ["hostname", "subdomain"].map(|name| spec.field(name)) {
        if !name.str().is_empty() {
            rules::label(name);
        }
    }
    tolerations::tolerations(spec.field("tolerations"), options.toleration_comparisons);
    host_aliases(spec.field("hostAliases"));
    rules::optional_subdomain(spec.field("priorityClassName"));
    if let Some(class) = spec.given("runtimeClassName") {
        rules::subdomain(class);
    }
    if let Some(policy) = spec.given("preemptionPolicy") {
        rules::required_one_of(policy, &["PreemptLowerPriority", "Never"]);
    }
    if let Some(overhead) = spec.given("overhead") {
        requirements(&pod, Owner::Container).overhead(overhead);
    }
    operating_system(spec);
    if let Some(group) = spec.given("schedulingGroup") {
        let name = group.field("podGroupName");
        if name.exists() {
            rules::subdomain(name);
        } else {
            name.invalid(Value::Null, "must specify one of: `podGroupName`");
        }
    }
    env_file_volumes(spec);
}

fn requirements<'a>(pod: &'a Pod<'_>, owner: Owner) -> Requirements<'a> {
    Requirements {
        owner,
        claims: &pod.claims,
        allow_indivisible_huge_pages: pod.options.indivisible_huge_pages,
    }
}

fn claim_names(spec: Cursor<'_>) -> BTreeSet<&str> {
    let names = spec.field("resourceClaims").items().map(|c| c.str_of("name"));
    names.filter(|name| !name.is_empty()).collect()
}

fn resource_claims(c: Cursor<'_>, metadata: Option<Cursor<'_>>) {
    let mirror = metadata.is_some_and(|m| m.field("annotations").key(super::pod_annotations::MIRROR).exists());
    let mut seen = HashSet::new();
    for claim in c.items() {
        if mirror {
            let detail = "static pods do not support resource claims";
            c.push(triptych_object::field::Error::forbidden("", detail));
            continue;
        }
        let name = claim.field("name");
        if name.str().is_empty() {
            name.required("");
        } else if seen.contains(name.str()) {
            name.duplicate(name.str());
        } else {
            rules::label(name);
            seen.insert(name.str());
        }
        let (claim_name, template) = (
            claim.field("resourceClaimName"),
            claim.field("resourceClaimTemplateName"),
        );
        match (claim_name.exists(), template.exists()) {
            (true, true) => {
                let detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                claim.invalid(claim.go_struct(), detail);
            }
            (false, false) => {
                let detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
                claim.invalid(claim.go_struct(), detail);
            }
            _ => {}
        }
        for name in [claim_name, template] {
            if name.exists() {
                rules::subdomain(name);
            }
        }
    }
}

/// `spec.resources`: what the pod as a whole may use.
fn pod_resources(pod: &Pod<'_>) {
    let Some(c) = pod.spec.given("resources") else {
        return;
    };
    if pod.spec.field("os").str_of("name") == "windows" {
        c.forbidden("may not be set for a windows pod");
        return;
    }
    if c.has("claims") {
        c.field("claims")
            .forbidden("claims may not be set for Resources at pod-level");
    }
    requirements(pod, Owner::Pod).check(c);
    pod_resources_suffice(pod.spec, c);
}

fn pod_resources_suffice<'a>(spec: Cursor<'a>, c: Cursor<'a>) {
    let Some(document) = spec.value() else { return };
    for (member, huge_pages_only) in [("requests", false), ("limits", true)] {
        let own = c.field(member);
        for (name, sum) in aggregate(document, member) {
            if huge_pages_only && !resource_names::is_huge_pages(name) {
                continue;
            }
            let Some(value) = own.value().and_then(|v| v.get(name)) else {
                continue;
            };
            let value = resources::quantity(Some(value));
            if sum > value {
                let detail = format!("must be greater than or equal to aggregate container {member} of {sum}");
                own.key(name).invalid(value.to_string(), detail);
            }
        }
    }
    let limits = c.field("limits");
    for (i, container) in spec.field("containers").items().enumerate() {
        for (name, limit) in container.field("resources").field("limits").entries() {
            let Some(whole) = limits.value().and_then(|l| l.get(name)) else {
                continue;
            };
            let (limit, whole) = (resources::quantity(limit.value()), resources::quantity(Some(whole)));
            if limit > whole {
                let place = c.alias("containers").index(i).key(name).alias("limits");
                let detail = format!("must be less than or equal to pod limits of {whole}");
                place.invalid(limit.to_string(), detail);
            }
        }
    }
}

/// What a pod's containers ask for together (`requests` or `limits`): the ordinary ones and sidecars run at once, an
/// init container runs beside the sidecars before it (KEP-753).
pub fn aggregate<'a>(spec: &'a Value, member: &str) -> BTreeMap<&'a str, Quantity> {
    let list = |container: &'a Value| {
        let list = container.at(&["resources", member]).and_then(Value::as_object);
        list.map(|l| l.iter()).into_iter().flatten()
    };
    let mut sum: BTreeMap<&str, Quantity> = BTreeMap::new();
    let add = |sum: &mut BTreeMap<&'a str, Quantity>, container: &'a Value| {
        for (name, value) in list(container) {
            let value = resources::quantity(Some(value));
            sum.entry(name).and_modify(|s| s.add(&value)).or_insert(value);
        }
    };
    for container in spec.array_at(&["containers"]) {
        add(&mut sum, container);
    }
    let mut sidecars: BTreeMap<&str, Quantity> = BTreeMap::new();
    let mut peak: BTreeMap<&str, Quantity> = BTreeMap::new();
    for container in spec.array_at(&["initContainers"]) {
        let mut at_once = sidecars.clone();
        add(&mut at_once, container);
        if container.str_at(&["restartPolicy"]) == "Always" {
            add(&mut sum, container);
            add(&mut sidecars, container);
        }
        for (name, value) in at_once {
            let highest = peak.entry(name).or_insert_with(|| value.clone());
            if value > *highest {
                *highest = value;
            }
        }
    }
    for (name, value) in peak {
        let total = sum.entry(name).or_insert_with(|| value.clone());
        if value > *total {
            *total = value;
        }
    }
    sum
}

fn host_network_ports(spec: Cursor<'_>, options: &PodOptions) {
    if !spec.is_true_of("hostNetwork") {
        return;
    }
    for container in spec.field("containers").items() {
        for port in container.field("ports").items() {
            let (host, own) = (port.field("hostPort"), port.field("containerPort").int());
            if (options.is_pod || host.int() != 0) && host.int() != own {
                host.invalid(host.int(), "must match `containerPort` when `hostNetwork` is true");
            }
        }
    }
}

fn dns_config(spec: Cursor<'_>) {
    const NAMESERVERS: usize = 3;
    const SEARCHES: usize = 32;
    const SEARCH_CHARACTERS: usize = 2048;
    let c = spec.field("dnsConfig");
    let (nameservers, searches) = (c.field("nameservers"), c.field("searches"));
    if spec.str_of("dnsPolicy") == "None" {
        if !c.exists() {
            return c.required("must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if nameservers.is_empty() {
            return nameservers.required("must provide at least one DNS nameserver when `dnsPolicy` is None");
        }
    }
    if nameservers.len() > NAMESERVERS {
        nameservers.invalid(
            nameservers.shown(),
            format!("must not have more than {NAMESERVERS} nameservers"),
        );
    }
    nameservers.items().for_each(ip);
    if searches.len() > SEARCHES {
        searches.invalid(
            searches.shown(),
            format!("must not have more than {SEARCHES} search paths"),
        );
    }
    let characters = searches
        .items()
        .map(|s| s.str().len() + 1)
        .sum::<usize>()
        .saturating_sub(1);
    if characters > SEARCH_CHARACTERS {
        let detail =
            format!("must not have more than {SEARCH_CHARACTERS} characters (including spaces) in the search list");
        searches.invalid(searches.shown(), detail);
    }
    for search in searches.items().filter(|s| s.str() != ".") {
        let domain = search.str().strip_suffix('.').unwrap_or(search.str());
        for message in names::dns1123_subdomain_with_underscore(domain) {
            search.invalid(domain, message);
        }
    }
    for option in c.field("options").items() {
        if option.str_of("name").is_empty() {
            option.required("must not be empty");
        }
    }
}

fn ip(c: Cursor<'_>) {
    c.invalid_text(names::ip_for_legacy_field::<&str>(c.str(), true, &[]));
}

fn host_aliases(c: Cursor<'_>) {
    for alias in c.items() {
        ip(alias.field("ip"));
        alias.field("hostnames").items().for_each(rules::subdomain);
    }
}

fn scheduling_gates(c: Cursor<'_>) {
    let mut seen = HashSet::new();
    for gate in c.items() {
        let name = gate.str_of("name");
        for message in names::qualified_name(name) {
            gate.invalid(name, message);
        }
        if !seen.insert(name) {
            gate.duplicate(name);
        }
    }
}

/// What a pod with `hostUsers: false` may not have.
fn user_namespace(spec: Cursor<'_>, options: &PodOptions) {
    const DETAIL: &str = "when `hostUsers` is false";
    if spec.bool_of("hostUsers") != Some(false) {
        return;
    }
    if !options.user_namespace_host_network && spec.is_true_of("hostNetwork") {
        spec.field("hostNetwork").forbidden(DETAIL);
    }
    for (member, shown) in [("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.is_true_of(member) {
            spec.alias(shown).forbidden(DETAIL);
        }
    }
    if !options.user_namespace_devices {
        for container in containers_at(spec) {
            let devices = container.field("volumeDevices");
            if !devices.is_empty() {
                devices.forbidden(DETAIL);
            }
        }
    }
}

fn hostname_override(spec: Cursor<'_>) {
    let Some(c) = spec.given("hostnameOverride") else {
        return;
    };
    for (member, detail) in [
        (
            "setHostnameAsFQDN",
            "may not be specified when setHostnameAsFQDN is true",
        ),
        ("hostNetwork", "may not be specified when hostNetwork is true"),
    ] {
        if spec.is_true_of(member) {
            c.forbidden(detail);
        }
    }
    if c.str().len() > 64 {
        c.too_long(64);
    }
    rules::subdomain(c);
}

fn operating_system(spec: Cursor<'_>) {
    let Some(os) = spec.given("os") else { return };
    match os.str_of("name") {
        "" => os.field("name").required(""),
        "linux" => security_context::linux(spec),
        "windows" => security_context::windows(spec),
        other => os.push(triptych_object::field::Error::not_supported(
            os.path(),
            other,
            &["linux", "windows"],
        )),
    }
}

/// Variables read from files need an emptyDir.
fn env_file_volumes(spec: Cursor<'_>) {
    let volumes: HashMap<&str, Cursor<'_>> = spec.field("volumes").items().map(|v| (v.str_of("name"), v)).collect();
    for container in containers_at(spec) {
        for variable in container.field("env").items() {
            let Some(reference) = variable.field("valueFrom").given("fileKeyRef") else {
                continue;
            };
            let name = reference.field("volumeName");
            match volumes.get(name.str()) {
                None => name.not_found(name.str()),
                Some(volume) if !volume.has("emptyDir") => {
                    name.invalid(name.str(), "referenced volume must be of type emptyDir");
                }
                Some(_) => {}
            }
        }
    }
}
