//! Ingress: hosts, paths and the services behind them.

use jiff::Timestamp;
use triptych_object::field::{Error, ErrorList};
use triptych_object::{Value, meta, names};
use triptych_registry::age::age;
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::strategy::{Context, Strategy};

use crate::printing;
use crate::validation::addresses::legacy_ip;
use crate::validation::{Cursor, check, port_numbers};

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// The strategy of `ingresses`.
pub struct Ingresses;

/// The strategy of `ingresses/status`.
pub struct Status;

impl Strategy for Ingresses {
    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |ingress| {
            spec(ingress.field("spec"), Lenience::default());
            let class = ingress.field("spec").given("ingressClassName");
            if let (Some(annotation), Some(class)) = (meta::annotation(new, CLASS_ANNOTATION), class)
                && annotation != class.str()
            {
                let field = format!("annotations.{CLASS_ANNOTATION}");
                let detail = "must match `ingressClassName` when both are specified";
                ingress.push(Error::invalid(field, annotation, detail));
            }
        });
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        let lenience = Lenience::of(old);
        check(new, errors, |ingress| spec(ingress.field("spec"), lenience));
    }

    fn warnings(&self, _cx: &Context, new: &Value, old: Option<&Value>) -> Vec<String> {
        let annotated = meta::annotation(new, CLASS_ANNOTATION).is_some();
        if old.is_some() || !annotated || new.at(&["spec", "ingressClassName"]).is_some() {
            return Vec::new();
        }
        vec![format!(
            "annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"
        )]
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let class = object.at(&["spec", "ingressClassName"]).and_then(Value::as_str);
        let tls = !object.array_at(&["spec", "tls"]).is_empty();
        Some(vec![
            meta::name(object).into(),
            class.unwrap_or("<none>").into(),
            hosts(object.array_at(&["spec", "rules"])).into(),
            printing::load_balancer(object).into(),
            if tls { "80, 443" } else { "80" }.into(),
            age(object, now).into(),
        ])
    }
}

impl Strategy for Status {
    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        let before = old.array_at(&["status", "loadBalancer", "ingress"]).iter();
        let before: Vec<&str> = before.map(|i| i.str_at(&["ip"])).filter(|ip| !ip.is_empty()).collect();
        check(new, errors, |ingress| {
            let list = ingress.field("status").field("loadBalancer").field("ingress");
            for item in list.items() {
                let (ip, hostname) = (item.field("ip"), item.field("hostname"));
                if !ip.is_empty() {
                    legacy_ip(ip, &before);
                }
                if !hostname.is_empty() {
                    balancer_name(hostname);
                }
            }
        });
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }

    fn warnings(&self, _cx: &Context, new: &Value, _old: Option<&Value>) -> Vec<String> {
        balancer_warnings(new)
    }
}

/// A load balancer's host name.
pub fn balancer_name(hostname: Cursor<'_>) {
    hostname.invalid_text(names::dns1123_subdomain(hostname.str()));
    if names::parse_ip(hostname.str()).is_some() {
        hostname.invalid(hostname.str(), "must be a DNS name, not an IP address");
    }
}

/// Odd addresses in the status of a load balancer.
pub fn balancer_warnings(object: &Value) -> Vec<String> {
    let list = object
        .array_at(&["status", "loadBalancer", "ingress"])
        .iter()
        .enumerate();
    list.flat_map(|(i, item)| match item.str_at(&["ip"]) {
        "" => Vec::new(),
        ip => names::ip_warnings(&format!("status.loadBalancer.ingress[{i}]"), ip),
    })
    .collect()
}

fn hosts(rules: &[Value]) -> String {
    const SHOWN: usize = 3;
    let mut list = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= list.len() == SHOWN;
        let host = rule.str_at(&["host"]);
        if !more && !host.is_empty() {
            list.push(host);
        }
    }
    match (list.is_empty(), more) {
        (true, _) => "*".to_owned(),
        (false, true) => format!("{} + {} more...", list.join(","), rules.len() - SHOWN),
        (false, false) => list.join(","),
    }
}

/// What the stored ingress has that a new one may not.
#[derive(Clone, Copy, Default)]
struct Lenience {
    secret_names: bool,
    wildcard_rules: bool,
}

impl Lenience {
    fn of(old: &Value) -> Lenience {
        let secret_names = old
            .array_at(&["spec", "tls"])
            .iter()
            .any(|tls| !secret_name(tls.str_at(&["secretName"])).is_empty());
        let mut found = ErrorList::new();
        check(old, &mut found, |ingress| {
            let rules = ingress.field("spec").field("rules").items();
            rules.filter(|r| r.str_of("host").contains('*')).for_each(paths);
        });
        Lenience {
            secret_names,
            wildcard_rules: !found.is_empty(),
        }
    }
}

fn secret_name(name: &str) -> Vec<String> {
    if name.is_empty() {
        Vec::new()
    } else {
        names::dns1123_subdomain(name)
    }
}

fn spec(spec: Cursor<'_>, lenience: Lenience) {
    let (rules, backend_by_default) = (spec.field("rules"), spec.given("defaultBackend"));
    if rules.is_empty() && backend_by_default.is_none() {
        spec.invalid(
            rules.go_struct(),
            "either `defaultBackend` or `rules` must be specified",
        );
    }
    if let Some(default) = backend_by_default {
        backend(default);
    }
    rules.items().for_each(|r| rule(r, lenience));
    for tls in spec.field("tls").items() {
        for host in tls.field("hosts").items() {
            host_name(host);
        }
        if !lenience.secret_names {
            let secret = tls.field("secretName");
            secret.invalid_text(secret_name(secret.str()));
        }
    }
    if let Some(class) = spec.given("ingressClassName") {
        class.invalid_text(names::dns1123_subdomain(class.str()));
    }
}

/// A host name or one with a wildcard; true for the latter.
fn host_name(host: Cursor<'_>) -> bool {
    let wildcard = host.str().contains('*');
    host.invalid_text(if wildcard {
        names::wildcard_dns1123_subdomain(host.str())
    } else {
        names::dns1123_subdomain(host.str())
    });
    wildcard
}

fn rule(rule: Cursor<'_>, lenience: Lenience) {
    let host = rule.field("host");
    let mut wildcard = false;
    if !host.is_empty() {
        if names::parse_ip(host.str()).is_some() {
            host.invalid(host.str(), "must be a DNS name, not an IP address");
        }
        wildcard = host_name(host);
    }
    if !wildcard || !lenience.wildcard_rules {
        paths(rule);
    }
}

fn paths(rule: Cursor<'_>) {
    let Some(http) = rule.given("http") else { return };
    let list = http.field("paths");
    if list.is_empty() {
        list.required("");
    }
    list.items().for_each(path);
}

fn path(entry: Cursor<'_>) {
    let Some(kind) = entry.given("pathType") else {
        entry.field("pathType").required("pathType must be specified");
        return;
    };
    let path = entry.field("path");
    let text = path.str();
    let absolute = || {
        if !text.starts_with('/') {
            path.invalid(text, "must be an absolute path");
        }
    };
    match kind.str() {
        "Exact" | "Prefix" => {
            absolute();
            for sequence in ["//", "/./", "/../", "%2f", "%2F"] {
                if text.contains(sequence) {
                    path.invalid(text, format!("must not contain '{sequence}'"));
                }
            }
            for suffix in ["/..", "/."] {
                if text.ends_with(suffix) {
                    path.invalid(text, format!("cannot end with '{suffix}'"));
                }
            }
        }
        "ImplementationSpecific" if !text.is_empty() => absolute(),
        "ImplementationSpecific" => {}
        _ => kind.not_supported(&["Exact", "ImplementationSpecific", "Prefix"]),
    }
    backend(entry.field("backend"));
}

fn backend(backend: Cursor<'_>) {
    let (service, resource) = (backend.given("service"), backend.given("resource"));
    let service = match (service, resource) {
        (Some(_), Some(_)) => return backend.invalid("", "cannot set both resource and service backends"),
        (None, Some(resource)) => return object_reference(resource),
        (None, None) => return backend.invalid("", "resource or service backend is required"),
        (Some(service), None) => service,
    };
    let name = service.field("name");
    if name.is_empty() {
        name.required("");
    } else {
        name.invalid_text(names::dns1123_label(name.str()));
    }
    let port = service.field("port");
    let (port_name, number) = (port.field("name"), port.field("number"));
    match (!port_name.is_empty(), number.int() != 0) {
        (true, true) => backend.invalid("", "cannot set both port name & port number"),
        (true, false) => port_name.invalid_text(names::port_name(port_name.str())),
        (false, true) => port_numbers::number(number),
        (false, false) => backend.required("port name or number is required"),
    }
}

fn object_reference(reference: Cursor<'_>) {
    if let Some(group) = reference.given("apiGroup") {
        group.invalid_text(names::dns1123_subdomain(group.str()));
    }
    for member in ["kind", "name"] {
        required_segment(reference.field(member));
    }
}

/// A text that must be given and fit into a URL's path.
pub fn required_segment(text: Cursor<'_>) {
    if text.is_empty() {
        text.required("");
    } else {
        text.invalid_text(names::path_segment_name(text.str()));
    }
}
