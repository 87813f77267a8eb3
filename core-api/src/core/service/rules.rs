//! What a service must be (`ValidateServiceCreate`, `ValidateServiceUpdate`), and what it is warned about.

use std::collections::HashSet;

use triptych_object::field::Error;
use triptych_object::{Value, meta, names};

use super::spec::{self, list, text};
use crate::validation::addresses::{endpoint_ip, is_ipv6, legacy_cidr, legacy_ip};
use crate::validation::{Cursor, label_selector, names as rules, port_numbers};

const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const ONLY_LOAD_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";
const MAX_AFFINITY_SECONDS: i64 = 86400;

/// A whole service.
pub fn whole(service: Cursor<'_>, old: Option<&Value>) {
    topology(service);
    let spec = service.field("spec");
    if spec.field("ports").is_empty() && !spec::is_headless(service.root()) && spec.str_of("type") != "ExternalName" {
        spec.field("ports").required("");
    }
    by_type(service);
    let ports = spec.field("ports");
    let mut seen = HashSet::new();
    for port in ports.items() {
        self::port(port, ports.len() > 1, &mut seen);
    }
    label_selector::labels(spec.field("selector"));
    affinity(spec);
    cluster_ips(service, old);
    let before = old.map(|o| list(o, "externalIPs")).unwrap_or_default();
    for ip in spec.field("externalIPs").items() {
        if legacy_ip(ip, &before) {
            endpoint_ip(ip);
        }
    }
    match spec.str_of("type") {
        "" => spec.field("type").required(""),
        "ClusterIP" => {
            for port in ports.items().filter(|p| p.i64_of("nodePort").unwrap_or(0) != 0) {
                port.field("nodePort")
                    .forbidden("may not be used when `type` is 'ClusterIP'");
            }
        }
        _ => rules::one_of(
            spec.field("type"),
            &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
        ),
    }
    duplicates(ports);
    source_ranges(service, old);
    let allocate = spec.field("allocateLoadBalancerNodePorts");
    match (spec.str_of("type") == "LoadBalancer", allocate.exists()) {
        (false, true) => allocate.forbidden(ONLY_LOAD_BALANCERS),
        (true, false) => service.push(Error::required("allocateLoadBalancerNodePorts", "")),
        _ => {}
    }
    load_balancer_class(service, None);
    traffic(service);
}

fn topology(service: Cursor<'_>) {
    let annotation = |key: &str| meta::annotation(service.root(), key);
    if let (Some(mode), Some(hints)) = (annotation(TOPOLOGY_MODE), annotation(TOPOLOGY_HINTS))
        && mode != hints
    {
        let detail = format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified");
        service.push(Error::invalid(
            format!("metadata.annotations[{TOPOLOGY_MODE}]"),
            mode,
            detail,
        ));
    }
}

fn by_type(service: Cursor<'_>) {
    let spec = service.field("spec");
    let cluster_ips = spec.field("clusterIPs");
    match spec.str_of("type") {
        kind @ ("LoadBalancer" | "NodePort") if spec::is_headless(service.root()) => {
            let detail = format!("may not be set to 'None' for {kind} services");
            cluster_ips.index(0).invalid("None", detail);
        }
        "ExternalName" => {
            for member in ["clusterIPs", "ipFamilies"] {
                if !spec.field(member).is_empty() {
                    spec.field(member).forbidden("may not be set for ExternalName services");
                }
            }
            if spec.has("ipFamilyPolicy") {
                spec.field("ipFamilyPolicy")
                    .forbidden("may not be set for ExternalName services");
            }
            let external = spec.field("externalName");
            let name = external.str().strip_suffix('.').unwrap_or(external.str());
            if name.is_empty() {
                external.required("");
            }
            for message in Some(name)
                .filter(|n| !n.is_empty())
                .map(names::dns1123_subdomain)
                .unwrap_or_default()
            {
                external.invalid(name, message);
            }
        }
        _ => {}
    }
}

fn port<'a>(port: Cursor<'a>, named: bool, seen: &mut HashSet<&'a str>) {
    let name = port.field("name");
    if !name.is_empty() {
        rules::label(name);
        if !seen.insert(name.str()) {
            name.duplicate(name.str());
        }
    } else if named {
        name.required("");
    }
    port_numbers::number(port.field("port"));
    port_numbers::protocol(port.field("protocol"));
    port_numbers::number_or_name(port.field("targetPort"));
    if let Some(app) = port.given("appProtocol") {
        rules::qualified(app);
    }
}

fn duplicates(ports: Cursor<'_>) {
    let mut seen = HashSet::new();
    for port in ports.items() {
        let node_port = port.field("nodePort");
        if node_port.int() != 0 && !seen.insert((port.str_of("protocol"), node_port.int())) {
            node_port.duplicate(node_port.int());
        }
    }
    let mut seen = HashSet::new();
    for port in ports.items() {
        let (protocol, number) = (port.str_of("protocol"), port.i64_of("port").unwrap_or(0));
        if !seen.insert((protocol, number)) {
            let key = Value::from([
                ("Name", "".into()),
                ("Protocol", protocol.into()),
                ("AppProtocol", Value::Null),
                ("Port", number.into()),
                ("TargetPort", Value::Int(0)),
                ("NodePort", Value::Int(0)),
            ]);
            port.duplicate(key);
        }
    }
}

fn affinity(spec: Cursor<'_>) {
    let kind = spec.field("sessionAffinity");
    rules::required_one_of(kind, &["ClientIP", "None"]);
    let config = spec.field("sessionAffinityConfig");
    match kind.str() {
        "ClientIP" => {
            const WHEN: &str = "when session affinity type is ClientIP";
            let client = config.field("clientIP");
            let timeout = client.field("timeoutSeconds");
            if !config.exists() {
                config.required(WHEN);
            } else if !client.exists() {
                client.required(WHEN);
            } else if !timeout.exists() {
                timeout.required(WHEN);
            } else if !(1..=MAX_AFFINITY_SECONDS).contains(&timeout.int()) {
                let detail = format!("must be greater than 0 and less than {MAX_AFFINITY_SECONDS}");
                timeout.invalid(timeout.int(), detail);
            }
        }
        "None" if config.exists() => config.forbidden("must not be set when session affinity is None"),
        _ => {}
    }
}

/// Addresses, families and policy, and how they agree (`ValidateServiceClusterIPsRelatedFields`).
pub fn cluster_ips(service: Cursor<'_>, old: Option<&Value>) {
    let spec = service.field("spec");
    if spec.str_of("type") == "ExternalName" {
        return;
    }
    let (ips, families) = (spec.field("clusterIPs"), spec.field("ipFamilies"));
    let single = spec.str_of("clusterIP");
    if !single.is_empty() {
        if ips.is_empty() {
            ips.required("");
        } else if ips.index(0).str() != single {
            ips.invalid(ips.shown(), "first value must match `clusterIP`");
        }
    } else if !ips.is_empty() {
        ips.invalid(ips.shown(), "must be empty when `clusterIP` is not specified");
    }
    let mut seen = HashSet::new();
    for family in families.items() {
        rules::one_of(family, &["IPv4", "IPv6"]);
        if !seen.insert(family.str()) {
            family.duplicate(family.str());
        }
    }
    if let Some(policy) = spec.given("ipFamilyPolicy") {
        rules::one_of(policy, &["PreferDualStack", "RequireDualStack", "SingleStack"]);
    }
    let before = old.map(|o| list(o, "clusterIPs")).unwrap_or_default();
    let mut bad = false;
    for (i, ip) in ips.items().enumerate() {
        if i == 0 && ip.str() == "None" {
            if ips.len() > 1 {
                bad = true;
                ips.invalid(ips.shown(), "'None' must be the first and only value");
            }
            continue;
        }
        bad |= !legacy_ip(ip, &before);
    }
    if ips.len() > 2 {
        ips.invalid(ips.shown(), "may only hold up to 2 values");
    }
    if bad {
        return;
    }
    if ips.len() > 1 {
        let sixes = ips.items().filter(|ip| is_ipv6(ip.str())).count();
        if sixes == 0 || sixes == ips.len() {
            ips.invalid(ips.shown(), "may specify no more than one IP for each IP family");
        }
    }
    if !spec::is_headless(service.root()) {
        for (i, (ip, family)) in ips.items().zip(families.items()).enumerate() {
            let expected = match (family.str(), is_ipv6(ip.str())) {
                ("IPv4", true) => "IPv4",
                ("IPv6", false) => "IPv6",
                _ => continue,
            };
            ip.invalid(
                ip.str(),
                format!("expected an {expected} value as indicated by `ipFamilies[{i}]`"),
            );
        }
    }
}

fn source_ranges(service: Cursor<'_>, old: Option<&Value>) {
    let spec = service.field("spec");
    let balancer = spec.str_of("type") == "LoadBalancer";
    let ranges = spec.field("loadBalancerSourceRanges");
    if !ranges.is_empty() {
        // kube-apiserver names the field so
        let ranges = ranges.renamed("LoadBalancerSourceRanges");
        if !balancer {
            ranges.forbidden(ONLY_LOAD_BALANCERS);
        }
        let before: Vec<&str> = old
            .map(|o| list(o, "loadBalancerSourceRanges"))
            .unwrap_or_default()
            .into_iter()
            .map(str::trim)
            .collect();
        for range in ranges.items() {
            legacy_cidr(range, range.str().trim(), &before);
        }
        return;
    }
    let Some(annotation) = meta::annotation(service.root(), SOURCE_RANGES) else {
        return;
    };
    let at = service.field("metadata").field("annotations").key(SOURCE_RANGES);
    if !balancer {
        at.forbidden(ONLY_LOAD_BALANCERS);
    }
    let unchanged = old.and_then(|o| meta::annotation(o, SOURCE_RANGES)) == Some(annotation);
    if !unchanged && !annotation.trim().is_empty() {
        for range in annotation.trim().split(',') {
            legacy_cidr(at, range.trim(), &[]);
        }
    }
}

fn load_balancer_class(service: Cursor<'_>, old: Option<&Value>) {
    let class = service.field("spec").field("loadBalancerClass");
    let balancer = spec::is_load_balancer(service.root());
    if let Some(old) = old.filter(|o| spec::is_load_balancer(o))
        && balancer
        && class.value() != old.at(&["spec", "loadBalancerClass"])
    {
        class.invalid(class.shown(), "may not change once set");
    }
    if !class.exists() {
        return;
    }
    if balancer {
        rules::qualified(class);
    } else {
        class.forbidden(ONLY_LOAD_BALANCERS);
    }
}

fn traffic(service: Cursor<'_>) {
    let spec = service.field("spec");
    let external = spec.field("externalTrafficPolicy");
    if spec::is_externally_accessible(service.root()) {
        rules::required_one_of(external, &["Cluster", "Local"]);
    } else if !external.is_empty() {
        external.invalid(external.str(), "may only be set for externally-accessible services");
    }
    let health = spec.field("healthCheckNodePort");
    if spec::needs_health_check(service.root()) {
        if health.int() == 0 {
            health.required("");
        } else {
            port_numbers::number(health);
        }
    } else if health.int() != 0 {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        health.invalid(health.int(), detail);
    }
    let internal = spec.field("internalTrafficPolicy");
    match internal.exists() {
        false if matches!(spec.str_of("type"), "NodePort" | "LoadBalancer" | "ClusterIP") => internal.required(""),
        false => {}
        true => rules::one_of(internal, &["Cluster", "Local"]),
    }
    if let Some(distribution) = spec.given("trafficDistribution") {
        rules::one_of(distribution, &["PreferClose", "PreferSameZone", "PreferSameNode"]);
    }
}

/// What may not change, before the new service is validated as a whole.
pub fn change(service: Cursor<'_>, old: &Value) {
    let new = service.root();
    let aliases = spec::is_external_name(new) || spec::is_external_name(old);
    if !aliases {
        let (headless, was_headless) = (spec::is_headless(new), spec::is_headless(old));
        if !(headless && was_headless) {
            change_of(service, old, "clusterIPs", "clusterIP");
        }
        if !headless && !was_headless {
            change_of(service, old, "ipFamilies", "ipFamily");
        }
    }
    load_balancer_class(service, Some(old));
    if spec::needs_health_check(old)
        && spec::needs_health_check(new)
        && spec::int(old, "healthCheckNodePort") != spec::int(new, "healthCheckNodePort")
    {
        service
            .field("spec")
            .field("healthCheckNodePort")
            .forbidden("field is immutable");
    }
}

/// The first address or family stays; the second may come, and go where the policy says so.
fn change_of(service: Cursor<'_>, old: &Value, member: &'static str, one: &'static str) {
    const FIXED: &str = "may not change once set";
    let spec = service.field("spec");
    let field = spec.field(member);
    let (have, had) = (list(service.root(), member), list(old, member));
    let families = member == "ipFamilies";
    // of families kube-apiserver shows the addresses when the first changed
    let shown_on_change = if families {
        spec.field("clusterIPs").shown()
    } else {
        field.shown()
    };
    let first_changed = matches!((have.first(), had.first()), (Some(a), Some(b)) if a != b);
    match have.len().cmp(&had.len()) {
        std::cmp::Ordering::Equal => {
            for i in (0..have.len()).filter(|i| have[*i] != had[*i]) {
                let at = if families { 0 } else { i };
                field.index(at).invalid(field.shown(), FIXED);
            }
        }
        std::cmp::Ordering::Less => {
            if spec.field("clusterIPs").is_empty() {
                field
                    .index(0)
                    .invalid(field.shown(), format!("primary {one} can not be unset"));
            }
            if first_changed {
                field.index(0).invalid(shown_on_change, FIXED);
            }
            let policy = spec.field("ipFamilyPolicy");
            if have.len() == 1 && policy.str() != "SingleStack" {
                let detail = format!("must be set to 'SingleStack' when releasing the secondary {one}");
                policy.invalid(policy.shown(), detail);
            }
        }
        std::cmp::Ordering::Greater => {
            if first_changed {
                field.index(0).invalid(shown_on_change, FIXED);
            }
        }
    }
}

/// The status of a load balancer.
pub fn status(service: Cursor<'_>, old: &Value) {
    let ingress = service.field("status").field("loadBalancer").field("ingress");
    if !spec::is_load_balancer(service.root()) && !ingress.is_empty() {
        ingress.forbidden("may only be used when `spec.type` is 'LoadBalancer'");
        return;
    }
    let before = old.array_at(&["status", "loadBalancer", "ingress"]).iter();
    let before: Vec<&str> = before.map(|i| i.str_at(&["ip"])).filter(|ip| !ip.is_empty()).collect();
    for item in ingress.items() {
        let (ip, mode, hostname) = (item.field("ip"), item.field("ipMode"), item.field("hostname"));
        if !ip.is_empty() {
            legacy_ip(ip, &before);
        }
        match (mode.exists(), !ip.is_empty()) {
            (false, true) => mode.required("must be specified when `ip` is set"),
            (true, false) => mode.forbidden("may not be specified when `ip` is not set"),
            (true, true) => rules::one_of(mode, &["Proxy", "VIP"]),
            (false, false) => {}
        }
        if !hostname.is_empty() {
            crate::networking::ingress::balancer_name(hostname);
        }
    }
}

/// What is accepted but should be otherwise.
pub fn warnings(service: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if meta::annotation(service, TOPOLOGY_HINTS).is_some() {
        warnings.push(format!(
            "annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead"
        ));
    }
    let headless = text(service, "type") == "ClusterIP" && text(service, "clusterIP") == "None";
    let addresses = |member: &str| {
        let items = list(service, member).into_iter().enumerate();
        items
            .flat_map(|(i, ip)| names::ip_warnings(&format!("spec.{member}[{i}]"), ip))
            .collect::<Vec<_>>()
    };
    if !matches!(text(service, "clusterIP"), "" | "None") {
        warnings.extend(addresses("clusterIPs"));
    }
    let external_ips = !list(service, "externalIPs").is_empty();
    let balancer_ip = text(service, "loadBalancerIP");
    if headless {
        if !balancer_ip.is_empty() {
            warnings.push("spec.loadBalancerIP is ignored for headless services".to_owned());
        }
        if external_ips {
            warnings.push("spec.externalIPs is ignored for headless services".to_owned());
        }
        if text(service, "sessionAffinity") != "None" {
            warnings.push("spec.SessionAffinity is ignored for headless services".to_owned());
        }
    }
    warnings.extend(addresses("externalIPs"));
    let alias = spec::is_external_name(service);
    if external_ips && !headless && !alias {
        warnings.push("spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned());
    }
    if !balancer_ip.is_empty() {
        warnings.extend(names::ip_warnings("spec.loadBalancerIP", balancer_ip));
    }
    for (i, cidr) in list(service, "loadBalancerSourceRanges").into_iter().enumerate() {
        warnings.extend(names::cidr_warnings(
            &format!("spec.loadBalancerSourceRanges[{i}]"),
            cidr,
        ));
    }
    if alias && external_ips {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if !alias && !text(service, "externalName").is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if text(service, "trafficDistribution") == "PreferClose" {
        warnings.push("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned());
    }
    warnings
}
