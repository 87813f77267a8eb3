//! What a pod or template may have but had better not: texts of `Warning` headers (pkg/api/pod/warnings.go).

use std::collections::{HashMap, HashSet};

use triptych_object::field::quote;
use triptych_object::{Value, names};

use crate::core::node_labels::deprecation;

use super::pod_annotations::{APP_ARMOR, SECCOMP_CONTAINER, SECCOMP_POD, profile_of_annotation};
use super::resource_names::is_whole;
use super::resources::quantity;

/// Volume sources on their way out, with the name the warning uses.
const DEPRECATED_VOLUMES: [(&str, &str, &str); 9] = [
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    (
        "gitRepo",
        "gitRepo",
        "deprecated in v1.11, and disabled by default in v1.33+",
    ),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    (
        "storageos",
        "storageOS",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    (
        "glusterfs",
        "glusterfs",
        "deprecated in v1.25, non-functional in v1.26+",
    ),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// Annotations that no longer do anything.
const DEAD_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

/// Warnings about a pod.
pub fn pod(pod: &Value) -> Vec<String> {
    Warnings::of(pod, "")
}

/// Warnings about the pod template at `path` (`spec.template`).
pub fn template(template: Option<&Value>, path: &str) -> Vec<String> {
    template.map(|t| Warnings::of(t, path)).unwrap_or_default()
}

/// Warnings about the specification of a volume claim at `path`.
pub fn claim_spec(spec: &Value, path: &str) -> Vec<String> {
    let mut found = Warnings {
        prefix: "",
        texts: Vec::new(),
    };
    for list in ["requests", "limits"] {
        found.fractional(
            spec.at(&["resources", list]),
            &["storage"],
            &format!("{path}.resources.{list}"),
        );
    }
    found.texts
}

struct Warnings<'a> {
    /// Path of the template; empty for a pod.
    prefix: &'a str,
    texts: Vec<String>,
}

impl Warnings<'_> {
    fn of(object: &Value, prefix: &str) -> Vec<String> {
        let mut found = Warnings {
            prefix,
            texts: Vec::new(),
        };
        let null = Value::Null;
        let spec = object.get("spec").unwrap_or(&null);
        let annotations = object.at(&["metadata", "annotations"]).unwrap_or(&null);
        found.node_labels(spec);
        for (key, why) in DEAD_ANNOTATIONS {
            if annotations.get(key).is_some() {
                found.add(&format!("metadata.annotations[{key}]"), why);
            }
        }
        found.volumes(spec.array_at(&["volumes"]));
        found.repeated(spec.array_at(&["hostAliases"]), "hostAliases", "ip");
        found.repeated(spec.array_at(&["imagePullSecrets"]), "imagePullSecrets", "name");
        for (i, secret) in spec.array_at(&["imagePullSecrets"]).iter().enumerate() {
            if secret.str_at(&["name"]).is_empty() {
                found.add(&format!("spec.imagePullSecrets[{i}].name"), "invalid empty name \"\"");
            }
        }
        let at = found.at("spec.overhead");
        found.fractional(spec.get("overhead"), &["memory", "ephemeral-storage"], &at);
        if spec.at(&["securityContext", "seccompProfile"]).is_none() && annotations.get(SECCOMP_POD).is_some() {
            found.seccomp(SECCOMP_POD);
        }
        found.containers(spec, annotations);
        found.ports(spec);
        if spec
            .get("terminationGracePeriodSeconds")
            .and_then(Value::as_i64)
            .is_some_and(|s| s < 0)
        {
            let why = "must be >= 0; negative values are invalid and will be treated as 1";
            found.add("spec.terminationGracePeriodSeconds", why);
        }
        found.null_selectors(spec);
        for (i, ns) in spec.array_at(&["dnsConfig", "nameservers"]).iter().enumerate() {
            found.ip(&format!("spec.dnsConfig.nameservers[{i}]"), ns.as_str().unwrap_or(""));
        }
        for (i, alias) in spec.array_at(&["hostAliases"]).iter().enumerate() {
            found.ip(&format!("spec.hostAliases[{i}].ip"), alias.str_at(&["ip"]));
        }
        found.texts
    }

    fn at(&self, path: &str) -> String {
        if self.prefix.is_empty() {
            path.to_owned()
        } else {
            format!("{}.{path}", self.prefix)
        }
    }

    fn add(&mut self, path: &str, why: &str) {
        let text = format!("{}: {why}", self.at(path));
        self.texts.push(text);
    }

    fn ip(&mut self, path: &str, value: &str) {
        let path = self.at(path);
        self.texts.extend(names::ip_warnings(&path, value));
    }

    fn seccomp(&mut self, key: &str) {
        let why = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
        self.add(&format!("metadata.annotations[{key}]"), why);
    }

    fn node_labels(&mut self, spec: &Value) {
        for key in spec
            .get("nodeSelector")
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(|o| o.keys())
        {
            if let Some(why) = deprecation(key) {
                self.add(&format!("spec.nodeSelector[{key}]"), why);
            }
        }
        let node = "spec.affinity.nodeAffinity";
        let path = [
            "affinity",
            "nodeAffinity",
            "requiredDuringSchedulingIgnoredDuringExecution",
            "nodeSelectorTerms",
        ];
        for (i, term) in spec.array_at(&path).iter().enumerate() {
            let at = format!("{node}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{i}]");
            self.node_term(term, false, &at);
        }
        let path = [
            "affinity",
            "nodeAffinity",
            "preferredDuringSchedulingIgnoredDuringExecution",
        ];
        for (i, term) in spec.array_at(&path).iter().enumerate() {
            if let Some(preference) = term.get("preference") {
                let at = format!("{node}.preferredDuringSchedulingIgnoredDuringExecution[{i}].preference");
                self.node_term(preference, true, &at);
            }
        }
        for (i, constraint) in spec.array_at(&["topologySpreadConstraints"]).iter().enumerate() {
            let key = constraint.str_at(&["topologyKey"]);
            let at = format!("spec.topologySpreadConstraints[{i}]");
            if let Some(why) = deprecation(key) {
                self.add(&format!("{at}.topologyKey"), &format!("{key} is {why}"));
            }
            if constraint.get("labelSelector").is_none() {
                self.add(
                    &format!("{at}.labelSelector"),
                    "a null labelSelector results in matching no pod",
                );
            }
        }
    }

    fn node_term(&mut self, term: &Value, check_values: bool, at: &str) {
        for (i, expression) in term.array_at(&["matchExpressions"]).iter().enumerate() {
            let key = expression.str_at(&["key"]);
            if let Some(why) = deprecation(key) {
                self.add(&format!("{at}.matchExpressions[{i}].key"), &format!("{key} is {why}"));
            }
            for (j, value) in expression
                .array_at(&["values"])
                .iter()
                .enumerate()
                .filter(|_| check_values)
            {
                let value = value.as_str().unwrap_or("");
                for message in names::label_value(value) {
                    let why = format!("{value} is invalid, {message}");
                    self.add(&format!("{at}.matchExpressions[{i}].values[{j}]"), &why);
                }
            }
        }
    }

    fn volumes(&mut self, volumes: &[Value]) {
        for (i, volume) in volumes.iter().enumerate() {
            for (member, shown, why) in DEPRECATED_VOLUMES {
                if volume.get(member).is_some() {
                    self.add(&format!("spec.volumes[{i}].{shown}"), why);
                }
            }
            if let Some(spec) = volume.at(&["ephemeral", "volumeClaimTemplate", "spec"]) {
                let at = self.at(&format!("spec.volumes[{i}].ephemeral.volumeClaimTemplate.spec"));
                self.texts.extend(claim_spec(spec, &at));
            }
        }
        self.texts.extend(volumes.iter().flat_map(overlaps));
    }

    fn repeated(&mut self, items: &[Value], list: &str, member: &str) {
        let mut seen = HashSet::new();
        for (i, item) in items.iter().enumerate() {
            let value = item.str_at(&[member]);
            if !seen.insert(value) {
                self.add(
                    &format!("spec.{list}[{i}].{member}"),
                    &format!("duplicate {member} {}", quote(value)),
                );
            }
        }
    }

    fn fractional(&mut self, list: Option<&Value>, names: &[&str], at: &str) {
        for name in names {
            let Some(value) = list.and_then(|l| l.get(name)) else {
                continue;
            };
            let value = quantity(Some(value));
            if !is_whole(&value) {
                let shown = quote(&value.to_string());
                self.texts.push(format!(
                    "{at}[{name}]: fractional byte value {shown} is invalid, must be an integer"
                ));
            }
        }
    }

    fn containers(&mut self, spec: &Value, annotations: &Value) {
        let pod_profile = spec.at(&["securityContext", "appArmorProfile"]);
        for (container, at) in containers(spec) {
            let name = container.str_at(&["name"]);
            let key = format!("{SECCOMP_CONTAINER}{name}");
            if container.at(&["securityContext", "seccompProfile"]).is_none() && annotations.get(&key).is_some() {
                self.seccomp(&key);
            }
            let key = format!("{APP_ARMOR}{name}");
            if !self.prefix.is_empty()
                && container.at(&["securityContext", "appArmorProfile"]).is_none()
                && let Some(annotation) = annotations.get(&key).and_then(Value::as_str)
                && (pod_profile.is_none() || pod_profile != profile_of_annotation(annotation).as_ref())
            {
                let why = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
                self.add(&format!("metadata.annotations[{key}]"), why);
            }
            for resource in ["memory", "ephemeral-storage"] {
                for list in ["limits", "requests"] {
                    let at = self.at(&format!("{at}.resources.{list}"));
                    self.fractional(container.at(&["resources", list]), &[resource], &at);
                }
            }
            self.env(container.array_at(&["env"]), &at);
        }
    }

    fn env(&mut self, env: &[Value], at: &str) {
        let mut seen = HashSet::new();
        for (i, variable) in env.iter().enumerate() {
            let (name, value) = (variable.str_at(&["name"]), variable.str_at(&["value"]));
            if seen.insert(name) {
                continue;
            }
            let reference = format!("$({name})");
            if variable.get("valueFrom").is_some() || value == reference || !value.contains(&reference) {
                let why = format!(
                    "hides previous definition of {}, which may be dropped when using apply",
                    quote(name)
                );
                self.add(&format!("{at}.env[{i}]"), &why);
            }
        }
    }

    fn ports(&mut self, spec: &Value) {
        let mut all: HashMap<(i64, &str), Vec<Port<'_>>> = HashMap::new();
        let ports: Vec<(&Value, String)> = containers(spec)
            .flat_map(|(container, at)| {
                let ports = container.array_at(&["ports"]).iter().enumerate();
                ports
                    .map(move |(i, port)| (port, format!("{at}.ports[{i}]")))
                    .collect::<Vec<_>>()
            })
            .collect();
        for (port, at) in &ports {
            let number = |member| port.get(member).and_then(Value::as_i64).unwrap_or(0);
            let (ip, host) = (port.str_at(&["hostIP"]), number("hostPort"));
            let (own, protocol) = (number("containerPort"), port.str_at(&["protocol"]));
            if !ip.is_empty() && host == 0 {
                let shown = format!(
                    "{{Name:{} HostPort:0 ContainerPort:{own} Protocol:{protocol} HostIP:{ip}}}",
                    port.str_at(&["name"])
                );
                self.add(at, &format!("hostIP set without hostPort: {shown}"));
            }
            let others = all.entry((own, protocol)).or_default();
            for (other, other_ip, other_host) in others.iter() {
                let what = if ip == *other_ip && host == *other_host {
                    "duplicate"
                } else if host == 0 || *other_host == 0 {
                    "overlapping"
                } else if host == *other_host && ip.is_empty() != other_ip.is_empty() {
                    "dangerously ambiguous"
                } else {
                    continue;
                };
                self.add(at, &format!("{what} port definition with {}", self.at(other)));
            }
            others.push((at.clone(), ip, host));
        }
        let mut named: HashMap<&str, String> = HashMap::new();
        for (port, at) in &ports {
            let name = port.str_at(&["name"]);
            if name.is_empty() {
                continue;
            }
            match named.get(name) {
                Some(other) => {
                    let why = format!(
                        "duplicate port name {} with {other}, services and probes that select ports by name will use {other}",
                        quote(name)
                    );
                    self.add(at, &why);
                }
                None => {
                    named.insert(name, self.at(at));
                }
            }
        }
    }

    fn null_selectors(&mut self, spec: &Value) {
        const WHY: &str = "a null labelSelector results in matching no pod";
        const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
        const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
        for pods in ["podAffinity", "podAntiAffinity"] {
            for (i, term) in spec.array_at(&["affinity", pods, REQUIRED]).iter().enumerate() {
                if term.get("labelSelector").is_none() {
                    self.add(&format!("spec.affinity.{pods}.{REQUIRED}[{i}].labelSelector"), WHY);
                }
            }
            for (i, term) in spec.array_at(&["affinity", pods, PREFERRED]).iter().enumerate() {
                if term.at(&["podAffinityTerm", "labelSelector"]).is_none() {
                    let at = format!("spec.affinity.{pods}.{PREFERRED}[{i}].podAffinityTerm.labelSelector");
                    self.add(&at, WHY);
                }
            }
        }
    }
}

fn containers(spec: &Value) -> impl Iterator<Item = (&Value, String)> {
    ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(move |list| {
            let items = spec.array_at(&[list]).iter().enumerate();
            items.map(move |(i, container)| (container, format!("spec.{list}[{i}]")))
        })
}

/// Where a port is defined, its `hostIP` and its `hostPort`.
type Port<'a> = (String, &'a str, i64);

/// A path in a volume and, in a projected volume, where it comes from.
type Source<'a> = (&'a str, String);

fn shown((path, source): &Source<'_>) -> String {
    if source.is_empty() {
        quote(path)
    } else {
        format!("{} ({source})", quote(path))
    }
}

fn items<'a>(list: &'a [Value], source: &str) -> Vec<Source<'a>> {
    list.iter()
        .map(|item| (item.str_at(&["path"]), source.to_owned()))
        .collect()
}

/// Paths of one volume that lie over each other.
fn overlaps(volume: &Value) -> Vec<String> {
    let name = quote(volume.str_at(&["name"]));
    let warn = |what: &str, body: String| format!("volume {name} ({what}): overlapping paths: {body}");
    let mut out = Vec::new();
    let simple = [
        (
            "configMap",
            format!("ConfigMap {}", quote(volume.str_at(&["configMap", "name"]))),
        ),
        (
            "secret",
            format!("Secret {}", quote(volume.str_at(&["secret", "secretName"]))),
        ),
        ("downwardAPI", "DownwardAPI".to_owned()),
    ];
    for (member, what) in simple {
        let mut paths = Vec::new();
        for path in items(volume.array_at(&[member, "items"]), "") {
            collide(&mut paths, path, |body| out.push(warn(&what, body)));
        }
    }
    let mut paths = Vec::new();
    for source in volume.array_at(&["projected", "sources"]) {
        if source.as_object().is_none_or(|s| s.is_empty()) {
            out.push(format!("volume {name} (Projected) has no sources provided"));
            continue;
        }
        for path in projected(source) {
            collide(&mut paths, path, |body| out.push(warn("Projected", body)));
        }
    }
    out
}

fn projected(source: &Value) -> Vec<Source<'_>> {
    let named = |what: &str, member: &str| format!("{what} {}", quote(source.str_at(&[member, "name"])));
    if !source.array_at(&["configMap", "items"]).is_empty() {
        return items(
            source.array_at(&["configMap", "items"]),
            &named("ConfigMap", "configMap"),
        );
    }
    if !source.array_at(&["secret", "items"]).is_empty() {
        return items(source.array_at(&["secret", "items"]), &named("Secret", "secret"));
    }
    if !source.array_at(&["downwardAPI", "items"]).is_empty() {
        return items(source.array_at(&["downwardAPI", "items"]), "DownwardAPI");
    }
    if source.get("serviceAccountToken").is_some() {
        return vec![(
            source.str_at(&["serviceAccountToken", "path"]),
            "ServiceAccountToken".to_owned(),
        )];
    }
    if let Some(bundle) = source.get("clusterTrustBundle") {
        let name = bundle
            .get("name")
            .or_else(|| bundle.get("signerName"))
            .and_then(Value::as_str);
        let what = format!("ClusterTrustBundle {}", quote(name.unwrap_or("")));
        return vec![(bundle.str_at(&["path"]), what)];
    }
    let certificate = [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ];
    let paths = certificate.map(|(member, what)| (source.str_at(&["podCertificate", member]), what.to_owned()));
    paths.into_iter().filter(|(path, _)| !path.is_empty()).collect()
}

fn collide<'a>(paths: &mut Vec<Source<'a>>, new: Source<'a>, mut found: impl FnMut(String)) {
    let new = (new.0.trim_end_matches('/'), new.1);
    if !new.0.is_empty() {
        let below = |a: &str, b: &str| format!("{a}/").starts_with(&format!("{b}/"));
        for old in paths.iter().filter(|old| !old.0.is_empty()) {
            if below(old.0, new.0) || below(new.0, old.0) {
                found(format!("{} with {}", shown(&new), shown(old)));
            }
        }
    }
    paths.push(new);
}
