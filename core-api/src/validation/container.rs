//! Containers of a pod: ordinary, init and ephemeral.

use std::collections::{BTreeSet, HashSet};

use triptych_object::field::Error;
use triptych_object::{Value, names};

use super::pod_options::PodOptions;
use super::resources::{Owner, Requirements};
use super::volumes::Volumes;
use super::{Cursor, env, names as rules, paths, probes, security_context};

/// What a container's rules need to know of its pod.
pub struct Pod<'a> {
    /// `spec`.
    pub spec: Cursor<'a>,
    /// Volumes without errors.
    pub volumes: Volumes<'a>,
    /// Names of resource claims.
    pub claims: BTreeSet<&'a str>,
    /// `spec.terminationGracePeriodSeconds`.
    pub grace_period: Option<i64>,
    /// False in a user namespace.
    pub host_users: bool,
    /// What the pod is.
    pub options: PodOptions,
}

const NOT_A_SIDECAR: &str = "may not be set for init containers without restartPolicy=Always";

impl Pod<'_> {
    /// `spec.containers`.
    pub fn containers(&self) {
        let list = self.spec.field("containers");
        if list.is_empty() {
            list.required("");
            return;
        }
        let mut seen = HashSet::new();
        for c in list.items() {
            self.common(c);
            if !seen.insert(c.str_of("name")) {
                c.field("name").duplicate(c.str_of("name"));
            }
            if let Some(lifecycle) = c.given("lifecycle") {
                probes::lifecycle(lifecycle, self.grace_period, self.spec.field("os"));
            }
            probes::probes(c, self.grace_period);
            restart_policy(c);
        }
        host_ports(list.items(), list);
    }

    /// `spec.initContainers`.
    pub fn init_containers(&self) {
        let list = self.spec.field("initContainers");
        let mut seen: HashSet<&str> = self
            .spec
            .field("containers")
            .items()
            .map(|c| c.str_of("name"))
            .collect();
        for c in list.items() {
            self.common(c);
            if c.has("restartPolicy") {
                restart_policy(c);
            } else if !c.field("restartPolicyRules").is_empty() {
                c.field("restartPolicy")
                    .required("must specify restartPolicy when restart rules are used");
            }
            let name = c.str_of("name");
            if seen.contains(name) {
                c.field("name").duplicate(name);
            } else if !name.is_empty() {
                seen.insert(name);
            }
            host_ports(std::iter::once(c), list);
            let sidecar = c.str_of("restartPolicy") == "Always";
            if sidecar {
                if let Some(lifecycle) = c.given("lifecycle") {
                    probes::lifecycle(lifecycle, self.grace_period, self.spec.field("os"));
                }
                probes::probes(c, self.grace_period);
                continue;
            }
            for member in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if let Some(member) = c.given(member) {
                    member.forbidden(NOT_A_SIDECAR);
                }
            }
            if !self.options.init_restart_on_resize {
                for policy in c.field("resizePolicy").items().map(|p| p.field("restartPolicy")) {
                    if policy.str() == "RestartContainer" {
                        let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                        policy.invalid(policy.str(), detail);
                    }
                }
            }
        }
    }

    /// `spec.ephemeralContainers`.
    pub fn ephemeral_containers(&self) {
        const REFUSED: [&str; 8] = [
            "ports",
            "resources",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
            "lifecycle",
            "resizePolicy",
            "restartPolicy",
        ];
        const DETAIL: &str = "cannot be set for an Ephemeral Container";
        let others: Vec<&str> = ["containers", "initContainers"]
            .into_iter()
            .flat_map(|list| self.spec.field(list).items())
            .map(|c| c.str_of("name"))
            .collect();
        let mut seen: HashSet<&str> = others.iter().copied().collect();
        for c in self.spec.field("ephemeralContainers").items() {
            self.common(c);
            untrimmed_image(c);
            if !seen.insert(c.str_of("name")) {
                c.field("name").duplicate(c.str_of("name"));
            }
            let target = c.field("targetContainerName");
            if !target.str().is_empty() && !others.contains(&target.str()) {
                target.not_found(target.str());
            }
            for member in REFUSED.into_iter().chain(["restartPolicyRules"]) {
                if let Some(member) = c.given(member)
                    && member.value().is_some_and(|v| *v != Value::object())
                {
                    member.forbidden(DETAIL);
                }
            }
            for mount in c.field("volumeMounts").items() {
                for path in ["subPath", "subPathExpr"] {
                    if !mount.str_of(path).is_empty() {
                        mount.field(path).forbidden(DETAIL);
                    }
                }
            }
        }
    }

    /// What all kinds of containers have in common.
    fn common(&self, c: Cursor<'_>) {
        rules::required_label(c.field("name"));
        rules::required(c.field("image"));
        let policy = c.field("terminationMessagePolicy");
        rules::required_one_of(policy, &["File", "FallbackToLogsOnError"]);
        ports(c.field("ports"));
        env::env(c.field("env"));
        env::env_from(c.field("envFrom"));
        self.volume_mounts(c);
        self.volume_devices(c);
        pull_policy(c.field("imagePullPolicy"));
        let requirements = Requirements {
            owner: Owner::Container,
            claims: &self.claims,
            allow_indivisible_huge_pages: self.options.indivisible_huge_pages,
        };
        requirements.check(c.field("resources"));
        self.resize_policy(c.field("resizePolicy"));
        security_context::container(c.field("securityContext"), self.host_users);
    }

    fn volume_mounts(&self, container: Cursor<'_>) {
        let list = container.field("volumeMounts");
        let devices = container.field("volumeDevices");
        let mut seen = HashSet::new();
        for mount in list.items() {
            let (name, path) = (mount.field("name"), mount.field("mountPath"));
            rules::required(name);
            if !self.volumes.contains_key(name.str()) {
                name.not_found(name.str());
            }
            rules::required(path);
            if !seen.insert(path.str()) {
                path.invalid(path.str(), "must be unique");
            }
            if devices.items().any(|d| d.str_of("name") == name.str()) {
                name.invalid(name.str(), "must not already exist in volumeDevices");
            }
            if last_by_name(devices, "devicePath").any(|device| device == path.str()) {
                path.invalid(path.str(), "must not already exist as a path in volumeDevices");
            }
            // these stand at the list, not at its item
            let (sub, expr) = (mount.field("subPath"), mount.field("subPathExpr"));
            if !sub.str().is_empty() {
                paths::local_descending(sub.standing_for(list.alias("subPath")));
            }
            if !expr.str().is_empty() {
                if !sub.str().is_empty() {
                    expr.invalid(expr.str(), "subPathExpr and subPath are mutually exclusive");
                }
                paths::local_descending(expr.standing_for(list.alias("subPathExpr")));
            }
            mount_propagation(
                mount
                    .field("mountPropagation")
                    .standing_for(list.alias("mountPropagation")),
                container,
            );
            recursive_read_only(mount, list.alias("recursiveReadOnly"));
        }
    }

    fn volume_devices(&self, container: Cursor<'_>) {
        let mounts = container.field("volumeMounts");
        let (mut names, mut devices) = (HashSet::new(), HashSet::new());
        for device in container.field("volumeDevices").items() {
            let (name, path) = (device.field("name"), device.field("devicePath"));
            rules::required(name);
            if names.contains(name.str()) {
                name.invalid(name.str(), "must be unique");
            }
            match self.volumes.get(name.str()) {
                Some(volume) if volume.has("persistentVolumeClaim") || volume.has("ephemeral") => {}
                Some(_) => {
                    let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                    name.invalid(name.str(), detail);
                }
                None => name.not_found(name.str()),
            }
            rules::required(path);
            if devices.contains(path.str()) {
                path.invalid(path.str(), "must be unique");
            }
            if path.str().split('/').any(|part| part == "..") {
                path.invalid(path.str(), "can not contain backsteps ('..')");
            } else {
                devices.insert(path.str());
            }
            if mounts.items().any(|m| m.str_of("name") == name.str()) {
                name.invalid(name.str(), "must not already exist in volumeMounts");
            }
            if last_by_name(mounts, "mountPath").any(|mount| mount == path.str()) {
                path.invalid(path.str(), "must not already exist as a path in volumeMounts");
            }
            if !name.str().is_empty() {
                names.insert(name.str());
            }
        }
    }

    fn resize_policy(&self, c: Cursor<'_>) {
        let mut seen = HashSet::new();
        for item in c.items() {
            let (resource, policy) = (item.str_of("resourceName"), item.str_of("restartPolicy"));
            if !seen.insert(resource) {
                item.duplicate(resource);
            }
            for (value, supported) in [
                (resource, ["cpu", "memory"]),
                (policy, ["NotRequired", "RestartContainer"]),
            ] {
                if value.is_empty() {
                    c.required("");
                } else if !supported.contains(&value) {
                    c.push(Error::not_supported(c.path(), value, &supported));
                }
            }
            if self.spec.str_of("restartPolicy") == "Never" && policy != "NotRequired" {
                c.invalid(policy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
            }
        }
    }
}

/// `member` of the items of a list, those of equal names replaced by the last.
fn last_by_name<'a>(list: Cursor<'a>, member: &'a str) -> impl Iterator<Item = &'a str> {
    let items: Vec<(&str, &str)> = list.items().map(|i| (i.str_of("name"), i.str_of(member))).collect();
    let last: Vec<&str> = items
        .iter()
        .enumerate()
        .filter(|(at, (name, _))| !items[at + 1..].iter().any(|(later, _)| later == name))
        .map(|(_, (_, value))| *value)
        .collect();
    last.into_iter()
}

/// When an image is pulled.
pub fn pull_policy(c: Cursor<'_>) {
    rules::required_one_of(c, &["Always", "IfNotPresent", "Never"]);
}

/// A pod's own containers may not have an image with spaces around its name.
pub fn untrimmed_image(c: Cursor<'_>) {
    let image = c.field("image");
    if image.str().trim() != image.str() {
        image.invalid(image.str(), "must not have leading or trailing whitespace");
    }
}

fn ports(c: Cursor<'_>) {
    let mut seen = HashSet::new();
    for port in c.items() {
        let name = port.field("name");
        if !name.str().is_empty() {
            let messages = names::port_name(name.str());
            if !messages.is_empty() {
                name.invalid_text(messages);
            } else if !seen.insert(name.str()) {
                name.duplicate(name.str());
            }
        }
        let (number, host) = (port.field("containerPort"), port.field("hostPort"));
        if number.int() == 0 {
            number.required("");
        }
        for port in [number, host].into_iter().filter(|p| p.int() != 0) {
            for message in names::port_num(port.int()) {
                port.invalid(port.int(), message);
            }
        }
        rules::required_one_of(port.field("protocol"), &["SCTP", "TCP", "UDP"]);
    }
}

/// Ports of the host that several containers want; errors of an init container stand as if it were the first.
fn host_ports<'a>(containers: impl Iterator<Item = Cursor<'a>>, list: Cursor<'a>) {
    let mut seen = HashSet::new();
    for (i, container) in containers.enumerate() {
        for (j, port) in container.field("ports").items().enumerate() {
            let number = port.i64_of("hostPort").unwrap_or(0);
            if number == 0 {
                continue;
            }
            let key = format!("{}/{}/{number}", port.str_of("protocol"), port.str_of("hostIP"));
            if seen.contains(&key) {
                list.index(i)
                    .field("ports")
                    .index(j)
                    .field("hostPort")
                    .duplicate(key.as_str());
            }
            seen.insert(key);
        }
    }
}

fn restart_policy(c: Cursor<'_>) {
    let (policy, rules_) = (c.field("restartPolicy"), c.field("restartPolicyRules"));
    if policy.exists() {
        rules::one_of(policy, &["Always", "Never", "OnFailure"]);
    } else if rules_.is_empty() {
        return;
    } else {
        policy.required("must specify restartPolicy when restart rules are used");
    }
    if rules_.len() > 20 {
        rules_.too_many(20);
    }
    for rule in rules_.items() {
        rules::one_of(rule.field("action"), &["Restart", "RestartAllContainers"]);
        let codes = rule.field("exitCodes");
        if !codes.exists() {
            codes.required("must be specified");
            continue;
        }
        rules::one_of(codes.field("operator"), &["In", "NotIn"]);
        if codes.field("values").len() > 255 {
            codes.field("values").too_many(255);
        }
    }
}

fn mount_propagation(c: Cursor<'_>, container: Cursor<'_>) {
    rules::optional_one_of(c, &["Bidirectional", "HostToContainer", "None"]);
    if c.str() == "Bidirectional" && !container.field("securityContext").is_true_of("privileged") {
        c.forbidden("Bidirectional mount propagation is available only to privileged containers");
    }
}

fn recursive_read_only<'a>(mount: Cursor<'a>, place: Cursor<'a>) {
    let c = mount.field("recursiveReadOnly").standing_for(place);
    if !c.exists() {
        return;
    }
    match c.str() {
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.is_true_of("readOnly") {
                c.forbidden("may only be specified when readOnly is true");
            }
            if !matches!(mount.str_of("mountPropagation"), "" | "None") {
                c.forbidden("may only be specified when mountPropagation is None or not specified");
            }
        }
        _ => c.not_supported(&["Disabled", "Enabled", "IfPossible"]),
    }
}
