//! Environment variables of containers and where their values come from.

use triptych_object::names;

use super::{Cursor, names as rules, paths, resources};

/// Fields of the pod that a variable can hold, sorted.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Resources of a container that can be exposed, sorted.
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// A container's `env`.
pub fn env(c: Cursor<'_>) {
    for variable in c.items() {
        let name = variable.field("name");
        if name.str().is_empty() {
            name.required("");
        } else {
            name.invalid_text(names::relaxed_env_var_name(name.str()));
        }
        if let Some(from) = variable.given("valueFrom") {
            value_from(from, variable.str_of("value"));
        }
    }
}

fn value_from(c: Cursor<'_>, value: &str) {
    let mut number = 0;
    let mut source = |name: &'static str, rule: &dyn Fn(Cursor<'_>)| {
        if let Some(source) = c.given(name) {
            number += 1;
            rule(source);
        }
    };
    source("fieldRef", &|c| object_field(c, &FIELDS));
    source("resourceFieldRef", &|c| resource_field(c, false));
    source("configMapKeyRef", &key_selector);
    source("secretKeyRef", &key_selector);
    source("fileKeyRef", &file_key_selector);
    if number == 0 {
        let detail =
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        c.invalid("", detail);
    } else if !value.is_empty() {
        c.invalid("", "may not be specified when `value` is not empty");
    } else if number > 1 {
        c.invalid("", "may not have more than one field specified at a time");
    }
}

/// `metadata.labels['key']` taken apart.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (path, key) = path.strip_suffix("']")?.split_once("['")?;
    (!path.is_empty()).then_some((path, key))
}

/// A reference to a field of the pod itself, one of `supported` (sorted).
pub fn object_field(c: Cursor<'_>, supported: &[&str]) {
    let (version, path) = (c.field("apiVersion"), c.field("fieldPath"));
    if version.str().is_empty() {
        version.required("");
        return;
    }
    if path.str().is_empty() {
        path.required("");
        return;
    }
    let internal = match convert_field_label(version.str(), path.str()) {
        Ok(internal) => internal,
        Err(why) => return path.invalid(path.str(), format!("error converting fieldPath: {why}")),
    };
    match subscript(internal) {
        Some(("metadata.annotations", key)) => subscript_key(c, &key.to_lowercase()),
        Some(("metadata.labels", key)) => subscript_key(c, key),
        Some((other, _)) => c.invalid(other, "does not support subscript"),
        None if !supported.contains(&internal) => {
            path.push(triptych_object::field::Error::not_supported(
                path.path(),
                internal,
                supported,
            ));
        }
        None => {}
    }
}

fn subscript_key(c: Cursor<'_>, key: &str) {
    for message in names::qualified_name(key) {
        c.invalid(key, message);
    }
}

fn convert_field_label<'a>(version: &str, label: &'a str) -> Result<&'a str, String> {
    const KNOWN: [&str; 14] = [
        "metadata.annotations",
        "metadata.labels",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.serviceAccountName",
        "spec.schedulerName",
        "status.phase",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    if version != "v1" {
        return Err(format!("unsupported pod version: {version}"));
    }
    match (subscript(label), label) {
        (Some(("metadata.annotations" | "metadata.labels", _)), _) => Ok(label),
        (Some(_), _) => Err(format!("field label does not support subscript: {label}")),
        (None, "spec.host") => Ok("spec.nodeName"),
        (None, known) if KNOWN.contains(&known) => Ok(label),
        (None, _) => Err(format!("field label not supported: {label}")),
    }
}

/// A reference to a resource of a container; in a volume the container must be named.
pub fn resource_field(c: Cursor<'_>, volume: bool) {
    let (container, resource) = (c.field("containerName"), c.field("resource"));
    let name = resource.str();
    let huge_pages = name.starts_with("requests.hugepages-") || name.starts_with("limits.hugepages-");
    if volume && container.str().is_empty() {
        container.required("");
    } else if name.is_empty() {
        resource.required("");
    } else if !RESOURCES.contains(&name) && !huge_pages {
        resource.not_supported(&RESOURCES);
    }
    divisor(c, name);
}

fn divisor(c: Cursor<'_>, resource: &str) {
    const CPU: [&str; 2] = ["1m", "1"];
    const BYTES: [&str; 13] = [
        "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
    ];
    let divisor = c.field("divisor");
    let value = resources::quantity(divisor.value());
    if value.is_zero() {
        return;
    }
    let (_, kind) = resource.split_once('.').unwrap_or(("", resource));
    let (allowed, what): (&[&str], _) = match kind {
        "cpu" => (&CPU, "cpu"),
        "memory" => (&BYTES, "memory"),
        "ephemeral-storage" => (&BYTES, "local ephemeral storage"),
        _ if kind.starts_with("hugepages-") => (&BYTES, "hugepages"),
        _ => return,
    };
    let text = value.to_string();
    if !allowed.contains(&text.as_str()) {
        let listed = if kind == "cpu" {
            "1m and 1".to_owned()
        } else {
            BYTES.join(", ")
        };
        let detail = format!("only divisor's values {listed} are supported with the {what} resource");
        divisor.invalid(resource, detail);
    }
}

/// A key of a ConfigMap or Secret.
pub fn key_selector(c: Cursor<'_>) {
    rules::subdomain(c.field("name"));
    let key = c.field("key");
    if key.str().is_empty() {
        key.required("");
    } else {
        key.invalid_text(names::config_map_key(key.str()));
    }
}

fn file_key_selector(c: Cursor<'_>) {
    let (key, path) = (c.field("key"), c.field("path"));
    if key.str().is_empty() {
        key.required("");
    } else {
        key.invalid_text(names::relaxed_env_var_name(key.str()));
    }
    rules::required_label(c.field("volumeName"));
    if path.str().is_empty() {
        path.required("");
    } else {
        paths::no_backsteps(path);
    }
}

/// A container's `envFrom`; errors about the number of sources stand at the list.
pub fn env_from(c: Cursor<'_>) {
    for item in c.items() {
        let prefix = item.field("prefix");
        if !prefix.str().is_empty() {
            prefix.invalid_text(names::relaxed_env_var_name(prefix.str()));
        }
        let mut number = 0;
        for source in ["configMapRef", "secretRef"] {
            if let Some(source) = item.given(source) {
                number += 1;
                let name = source.field("name");
                if name.str().is_empty() {
                    name.required("");
                } else {
                    name.invalid_text(names::dns1123_subdomain_prefix(name.str()));
                }
            }
        }
        if number == 0 {
            c.invalid("", "must specify one of: `configMapRef` or `secretRef`");
        } else if number > 1 {
            c.invalid("", "may not have more than one field specified at a time");
        }
    }
}
