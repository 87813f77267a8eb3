//! The pod security standards: what a pod may not do at which level, as of which release.
//!
//! Contract: a check looks at one pod and says in upstream's words what it objects to. Checks stand in the order in which
//! they are told: those of the baseline first, by upstream's names for them, then those of the restricted level.

use std::collections::BTreeSet;

use triptych_object::{Value, field, meta};

use super::policy::{Level, LevelVersion, Version};
use crate::pods;

/// The release that last changed a check; later versions mean the same.
const NEWEST: u64 = 35;

/// What a check objects to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// In a few words.
    pub reason: String,
    /// Who did what.
    pub detail: String,
}

/// `reason (detail), reason (detail)`
pub fn details(violations: &[Violation]) -> String {
    let texts: Vec<String> = violations
        .iter()
        .map(|v| match v.detail.as_str() {
            "" => v.reason.clone(),
            detail => format!("{} ({detail})", v.reason),
        })
        .collect();
    texts.join(", ")
}

/// `reason, reason`
pub fn reasons(violations: &[Violation]) -> String {
    let texts: Vec<&str> = violations.iter().map(|v| v.reason.as_str()).collect();
    texts.join(", ")
}

/// A pod or a pod template under examination.
struct Subject<'a> {
    /// Of which the annotations count.
    owner: &'a Value,
    spec: &'a Value,
    minor: u64,
}

struct Check {
    level: Level,
    /// The release from which it counts.
    since: u64,
    /// The release from which a restricted check takes its place at the restricted level.
    replaced: u64,
    run: fn(&Subject<'_>) -> Option<Violation>,
}

const NEVER: u64 = u64::MAX;

const fn baseline(since: u64, replaced: u64, run: fn(&Subject<'_>) -> Option<Violation>) -> Check {
    Check {
        level: Level::Baseline,
        since,
        replaced,
        run,
    }
}

const fn restricted(since: u64, run: fn(&Subject<'_>) -> Option<Violation>) -> Check {
    Check {
        level: Level::Restricted,
        since,
        replaced: NEVER,
        run,
    }
}

const CHECKS: &[Check] = &[
    baseline(0, NEVER, app_armor_profile),
    baseline(0, 22, capabilities_baseline),
    baseline(0, NEVER, host_namespaces),
    baseline(0, 0, host_path_volumes),
    baseline(0, NEVER, host_ports),
    baseline(34, NEVER, host_probes_and_lifecycle),
    baseline(0, NEVER, privileged),
    baseline(0, 35, proc_mount_baseline),
    baseline(0, NEVER, se_linux_options),
    baseline(0, 19, seccomp_baseline),
    baseline(0, NEVER, sysctls),
    baseline(0, NEVER, windows_host_process),
    restricted(8, allow_privilege_escalation),
    restricted(22, capabilities_restricted),
    restricted(35, proc_mount),
    restricted(0, restricted_volumes),
    restricted(0, run_as_non_root),
    restricted(23, run_as_user),
    restricted(19, seccomp_restricted),
];

/// All that a policy objects to in a pod or template with this metadata and spec.
pub fn evaluate(policy: LevelVersion, owner: &Value, spec: &Value) -> Vec<Violation> {
    let minor = match policy.version {
        Version::Minor(minor) => minor.min(NEWEST),
        Version::Latest => NEWEST,
    };
    let subject = Subject { owner, spec, minor };
    let counts = |check: &&Check| {
        check.since <= minor
            && match policy.level {
                Level::Privileged => false,
                Level::Baseline => check.level == Level::Baseline,
                Level::Restricted => minor < check.replaced,
            }
    };
    CHECKS
        .iter()
        .filter(counts)
        .filter_map(|check| (check.run)(&subject))
        .collect()
}

impl<'a> Subject<'a> {
    /// A member of the pod's own security context.
    fn pod_security(&self, path: &[&str]) -> Option<&'a Value> {
        self.spec.get("securityContext")?.at(path)
    }

    /// Names of the containers that are `bad`.
    fn containers(&self, bad: impl FnMut(&&'a Value) -> bool) -> Vec<&'a str> {
        let containers = pods::all_containers(self.spec).filter(bad);
        containers.map(|container| container.str_at(&["name"])).collect()
    }

    fn is_windows(&self) -> bool {
        self.spec.str_at(&["os", "name"]) == "windows"
    }

    /// Root in a user namespace is nobody outside of it.
    fn has_user_namespace(&self) -> bool {
        self.spec.get("hostUsers").and_then(Value::as_bool) == Some(false)
    }
}

/// A member of a container's security context.
fn security<'a>(container: &'a Value, path: &[&str]) -> Option<&'a Value> {
    container.get("securityContext")?.at(path)
}

fn is_true(value: Option<&Value>) -> bool {
    value.and_then(Value::as_bool) == Some(true)
}

fn is_false(value: Option<&Value>) -> bool {
    value.and_then(Value::as_bool) == Some(false)
}

fn quoted<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| format!("\"{}\"", item.as_ref())).collect();
    items.join(", ")
}

fn plural<'a>(one: &'a str, many: &'a str, count: usize) -> &'a str {
    if count == 1 { one } else { many }
}

/// `container "a"`, `containers "a", "b"`
fn named(containers: &[&str]) -> String {
    let noun = plural("container", "containers", containers.len());
    format!("{noun} {}", quoted(containers))
}

/// `pod`, `container "a"` or both; `None` if it is neither.
fn setters(pod: bool, containers: &[&str]) -> Option<String> {
    match (pod, containers.is_empty()) {
        (false, true) => None,
        (true, true) => Some("pod".to_owned()),
        (false, false) => Some(named(containers)),
        (true, false) => Some(format!("pod and {}", named(containers))),
    }
}

fn violation(reason: impl Into<String>, detail: impl Into<String>) -> Option<Violation> {
    Some(Violation {
        reason: reason.into(),
        detail: detail.into(),
    })
}

fn app_armor_profile(pod: &Subject<'_>) -> Option<Violation> {
    const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
    let path = ["appArmorProfile", "type"];
    let profile = ["appArmorProfile"];
    let mut values = BTreeSet::new();
    let mut bad = |security: Option<&Value>, kind: Option<&Value>| {
        let kind = kind.and_then(Value::as_str).unwrap_or_default();
        let bad = security.is_some() && !matches!(kind, "RuntimeDefault" | "Localhost");
        if bad {
            values.insert(kind.to_owned());
        }
        bad
    };
    let whole = bad(pod.pod_security(&profile), pod.pod_security(&path));
    let containers = pod.containers(|c| bad(security(c, &profile), security(c, &path)));
    let annotations = pod.owner.at(&["metadata", "annotations"]).and_then(Value::as_object);
    let mut forbidden: Vec<String> = annotations
        .into_iter()
        .flat_map(|annotations| annotations.iter())
        .filter_map(|(key, value)| Some((key, value.as_str()?)))
        .filter(|(key, _)| key.starts_with(ANNOTATION))
        .filter(|(_, value)| !(value.is_empty() || *value == "runtime/default" || value.starts_with("localhost/")))
        .map(|(key, value)| format!("{key}={}", field::quote(value)))
        .collect();
    forbidden.sort();
    let mut who: Vec<String> = setters(whole, &containers).into_iter().collect();
    if !forbidden.is_empty() {
        who.push(plural("annotation", "annotations", forbidden.len()).to_owned());
    }
    if who.is_empty() {
        return None;
    }
    let values: Vec<String> = values.into_iter().chain(forbidden).collect();
    let reason = plural(
        "forbidden AppArmor profile",
        "forbidden AppArmor profiles",
        values.len(),
    );
    let (who, values) = (who.join(" and "), quoted(values));
    violation(reason, format!("{who} must not set AppArmor profile type to {values}"))
}

/// What container runtimes grant unasked.
const USUAL_CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

fn capabilities<'a>(container: &'a Value, list: &str) -> impl Iterator<Item = &'a str> {
    let list = security(container, &["capabilities", list]).and_then(Value::as_array);
    list.unwrap_or_default().iter().filter_map(Value::as_str)
}

/// The containers that add capabilities besides those allowed, and what they add.
fn adding<'a>(pod: &Subject<'a>, allowed: &[&str]) -> (Vec<&'a str>, BTreeSet<&'a str>) {
    let mut added = BTreeSet::new();
    let containers = pod.containers(|container| {
        let before = capabilities(container, "add").filter(|c| !allowed.contains(c));
        before.map(|capability| added.insert(capability)).count() > 0
    });
    (containers, added)
}

fn capabilities_baseline(pod: &Subject<'_>) -> Option<Violation> {
    let (containers, added) = adding(pod, &USUAL_CAPABILITIES);
    if containers.is_empty() {
        return None;
    }
    let (who, what) = (named(&containers), quoted(added));
    let detail = format!("{who} must not include {what} in securityContext.capabilities.add");
    violation("non-default capabilities", detail)
}

fn capabilities_restricted(pod: &Subject<'_>) -> Option<Violation> {
    if pod.minor >= 25 && pod.is_windows() {
        return None;
    }
    let keeping = pod.containers(|container| !capabilities(container, "drop").any(|c| c == "ALL"));
    let (containers, added) = adding(pod, &["NET_BIND_SERVICE"]);
    let mut details = Vec::new();
    if !keeping.is_empty() {
        let who = named(&keeping);
        details.push(format!("{who} must set securityContext.capabilities.drop=[\"ALL\"]"));
    }
    if !containers.is_empty() {
        let (who, what) = (named(&containers), quoted(added));
        details.push(format!(
            "{who} must not include {what} in securityContext.capabilities.add"
        ));
    }
    if details.is_empty() {
        return None;
    }
    violation("unrestricted capabilities", details.join("; "))
}

fn host_namespaces(pod: &Subject<'_>) -> Option<Violation> {
    let shared: Vec<String> = ["hostNetwork", "hostPID", "hostIPC"]
        .into_iter()
        .filter(|member| is_true(pod.spec.get(member)))
        .map(|member| format!("{member}=true"))
        .collect();
    if shared.is_empty() {
        return None;
    }
    violation("host namespaces", shared.join(", "))
}

fn host_path_volumes(pod: &Subject<'_>) -> Option<Violation> {
    let volumes = pod.spec.array_at(&["volumes"]).iter();
    let bad: Vec<&str> = volumes
        .filter(|volume| volume.get("hostPath").is_some())
        .map(|volume| volume.str_at(&["name"]))
        .collect();
    if bad.is_empty() {
        return None;
    }
    let noun = plural("volume", "volumes", bad.len());
    violation("hostPath volumes", format!("{noun} {}", quoted(bad)))
}

fn host_ports(pod: &Subject<'_>) -> Option<Violation> {
    let mut ports = BTreeSet::new();
    let containers = pod.containers(|container| {
        let own = container.array_at(&["ports"]).iter();
        let own = own.filter_map(|port| port.get("hostPort").and_then(Value::as_i64));
        own.filter(|port| *port != 0)
            .map(|port| ports.insert(port.to_string()))
            .count()
            > 0
    });
    if containers.is_empty() {
        return None;
    }
    let uses = plural("uses", "use", containers.len());
    let noun = plural("hostPort", "hostPorts", ports.len());
    let ports: Vec<String> = ports.into_iter().collect();
    let detail = format!("{} {uses} {noun} {}", named(&containers), ports.join(", "));
    violation("hostPort", detail)
}

fn host_probes_and_lifecycle(pod: &Subject<'_>) -> Option<Violation> {
    let handlers: [&[&str]; 5] = [
        &["livenessProbe"],
        &["readinessProbe"],
        &["startupProbe"],
        &["lifecycle", "postStart"],
        &["lifecycle", "preStop"],
    ];
    let mut hosts = BTreeSet::new();
    let containers: BTreeSet<&str> = pod
        .containers(|container| {
            let handlers = handlers.iter().filter_map(|path| container.at(path));
            let hosts_of = handlers.flat_map(|h| [h.str_at(&["httpGet", "host"]), h.str_at(&["tcpSocket", "host"])]);
            hosts_of
                .filter(|host| !host.is_empty())
                .map(|host| hosts.insert(host))
                .count()
                > 0
        })
        .into_iter()
        .collect();
    if containers.is_empty() {
        return None;
    }
    let uses = plural("uses", "use", containers.len());
    let noun = plural("probe or lifecycle host", "probe or lifecycle hosts", hosts.len());
    let containers: Vec<&str> = containers.into_iter().collect();
    let detail = format!("{} {uses} {noun} {}", named(&containers), quoted(hosts));
    violation("probe or lifecycle host", detail)
}

fn privileged(pod: &Subject<'_>) -> Option<Violation> {
    let containers = pod.containers(|container| is_true(security(container, &["privileged"])));
    if containers.is_empty() {
        return None;
    }
    let who = named(&containers);
    violation(
        "privileged",
        format!("{who} must not set securityContext.privileged=true"),
    )
}

fn proc_mount_baseline(pod: &Subject<'_>) -> Option<Violation> {
    if pod.minor >= 35 && pod.has_user_namespace() {
        return None;
    }
    proc_mount(pod)
}

fn proc_mount(pod: &Subject<'_>) -> Option<Violation> {
    let mut kinds = BTreeSet::new();
    let containers = pod.containers(|container| {
        let kind = security(container, &["procMount"]).and_then(Value::as_str);
        let bad = kind.filter(|kind| *kind != "Default");
        bad.map(|kind| kinds.insert(kind)).is_some()
    });
    if containers.is_empty() {
        return None;
    }
    let (who, kinds) = (named(&containers), quoted(kinds));
    violation(
        "procMount",
        format!("{who} must not set securityContext.procMount to {kinds}"),
    )
}

fn se_linux_options(pod: &Subject<'_>) -> Option<Violation> {
    let mut allowed = vec!["", "container_t", "container_init_t", "container_kvm_t"];
    if pod.minor >= 31 {
        allowed.push("container_engine_t");
    }
    let (mut kinds, mut user, mut role) = (BTreeSet::new(), false, false);
    let mut bad = |options: Option<&Value>| {
        let Some(options) = options else { return false };
        let kind = options.str_at(&["type"]);
        let bad_kind = !allowed.contains(&kind);
        if bad_kind {
            kinds.insert(kind.to_owned());
        }
        let (sets_user, sets_role) = (
            !options.str_at(&["user"]).is_empty(),
            !options.str_at(&["role"]).is_empty(),
        );
        user |= sets_user;
        role |= sets_role;
        bad_kind || sets_user || sets_role
    };
    let whole = bad(pod.pod_security(&["seLinuxOptions"]));
    let containers = pod.containers(|container| bad(security(container, &["seLinuxOptions"])));
    let who = setters(whole, &containers)?;
    let mut what = Vec::new();
    if !kinds.is_empty() {
        what.push(format!("{} {}", plural("type", "types", kinds.len()), quoted(kinds)));
    }
    if user {
        what.push("user may not be set".to_owned());
    }
    if role {
        what.push("role may not be set".to_owned());
    }
    let what = what.join("; ");
    violation(
        "seLinuxOptions",
        format!("{who} set forbidden securityContext.seLinuxOptions: {what}"),
    )
}

/// Who sets which forbidden seccomp profiles.
fn bad_seccomp(pod: &Subject<'_>) -> Option<Violation> {
    let mut kinds = BTreeSet::new();
    let mut bad = |profile: Option<&Value>| {
        let bad = profile.filter(|profile| !is_good_seccomp(profile));
        bad.map(|profile| kinds.insert(profile.str_at(&["type"]).to_owned()))
            .is_some()
    };
    let whole = bad(pod.pod_security(&["seccompProfile"]));
    let containers = pod.containers(|container| bad(security(container, &["seccompProfile"])));
    let who = setters(whole, &containers)?;
    let detail = format!(
        "{who} must not set securityContext.seccompProfile.type to {}",
        quoted(kinds)
    );
    violation("seccompProfile", detail)
}

fn is_good_seccomp(profile: &Value) -> bool {
    matches!(profile.str_at(&["type"]), "RuntimeDefault" | "Localhost")
}

fn seccomp_baseline(pod: &Subject<'_>) -> Option<Violation> {
    if pod.minor >= 19 {
        return bad_seccomp(pod);
    }
    let names = pods::all_containers(pod.spec).map(|container| container.str_at(&["name"]));
    let keys = names.map(|name| format!("container.seccomp.security.alpha.kubernetes.io/{name}"));
    let forbidden: BTreeSet<String> = std::iter::once("seccomp.security.alpha.kubernetes.io/pod".to_owned())
        .chain(keys)
        .filter_map(|key| {
            let value = meta::annotation(pod.owner, &key)?;
            let good = matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/");
            (!good).then(|| format!("{key}={}", field::quote(value)))
        })
        .collect();
    if forbidden.is_empty() {
        return None;
    }
    let noun = plural("annotation", "annotations", forbidden.len());
    let forbidden: Vec<String> = forbidden.into_iter().collect();
    violation("seccompProfile", format!("forbidden {noun} {}", forbidden.join(", ")))
}

fn seccomp_restricted(pod: &Subject<'_>) -> Option<Violation> {
    if pod.minor >= 25 && pod.is_windows() {
        return None;
    }
    if let Some(bad) = bad_seccomp(pod) {
        return Some(bad);
    }
    if pod.pod_security(&["seccompProfile"]).is_some() {
        return None;
    }
    let containers = pod.containers(|container| security(container, &["seccompProfile"]).is_none());
    if containers.is_empty() {
        return None;
    }
    let who = named(&containers);
    let detail =
        format!("pod or {who} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"");
    violation("seccompProfile", detail)
}

/// Settings that stay within the pod, and the release since which they count as such.
const SAFE_SYSCTLS: [(&str, u64); 12] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
];

fn sysctls(pod: &Subject<'_>) -> Option<Violation> {
    let is_safe = |name: &str| {
        SAFE_SYSCTLS
            .iter()
            .any(|(safe, since)| *safe == name && *since <= pod.minor)
    };
    let set = pod.spec.array_at(&["securityContext", "sysctls"]).iter();
    let bad: Vec<&str> = set
        .map(|sysctl| sysctl.str_at(&["name"]))
        .filter(|name| !is_safe(name))
        .collect();
    if bad.is_empty() {
        return None;
    }
    violation("forbidden sysctls", bad.join(", "))
}

fn windows_host_process(pod: &Subject<'_>) -> Option<Violation> {
    let path = ["windowsOptions", "hostProcess"];
    let whole = is_true(pod.pod_security(&path));
    let containers = pod.containers(|container| is_true(security(container, &path)));
    let who = setters(whole, &containers)?;
    let detail = format!("{who} must not set securityContext.windowsOptions.hostProcess=true");
    violation("hostProcess", detail)
}

fn allow_privilege_escalation(pod: &Subject<'_>) -> Option<Violation> {
    if pod.minor >= 25 && pod.is_windows() {
        return None;
    }
    let containers = pod.containers(|container| !is_false(security(container, &["allowPrivilegeEscalation"])));
    if containers.is_empty() {
        return None;
    }
    let who = named(&containers);
    let detail = format!("{who} must set securityContext.allowPrivilegeEscalation=false");
    violation("allowPrivilegeEscalation != false", detail)
}

/// Volumes that a restricted pod may have.
const PLAIN_VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];
/// All others.
const RESTRICTED_VOLUMES: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

fn restricted_volumes(pod: &Subject<'_>) -> Option<Violation> {
    let (mut bad, mut kinds) = (Vec::new(), BTreeSet::new());
    for volume in pod.spec.array_at(&["volumes"]) {
        let has = |kind: &&&str| volume.get(kind).is_some();
        if PLAIN_VOLUMES.iter().any(|kind| has(&kind)) {
            continue;
        }
        bad.push(volume.str_at(&["name"]));
        kinds.insert(*RESTRICTED_VOLUMES.iter().find(has).unwrap_or(&"unknown"));
    }
    if bad.is_empty() {
        return None;
    }
    let (noun, uses) = (plural("volume", "volumes", bad.len()), plural("uses", "use", bad.len()));
    let sort = plural("restricted volume type", "restricted volume types", kinds.len());
    let detail = format!("{noun} {} {uses} {sort} {}", quoted(bad), quoted(kinds));
    violation("restricted volume types", detail)
}

fn run_as_non_root(pod: &Subject<'_>) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    if pod.minor >= 35 && pod.has_user_namespace() {
        return None;
    }
    let path = ["runAsNonRoot"];
    let whole = pod.pod_security(&path);
    let explicit = pod.containers(|container| is_false(security(container, &path)));
    if let Some(who) = setters(is_false(whole), &explicit) {
        return violation(REASON, format!("{who} must not set securityContext.runAsNonRoot=false"));
    }
    if is_true(whole) {
        return None;
    }
    let implicit = pod.containers(|container| security(container, &path).is_none());
    if implicit.is_empty() {
        return None;
    }
    let who = named(&implicit);
    violation(
        REASON,
        format!("pod or {who} must set securityContext.runAsNonRoot=true"),
    )
}

fn run_as_user(pod: &Subject<'_>) -> Option<Violation> {
    if pod.minor >= 35 && pod.has_user_namespace() {
        return None;
    }
    let is_root = |user: Option<&Value>| user.and_then(Value::as_i64) == Some(0);
    let whole = is_root(pod.pod_security(&["runAsUser"]));
    let containers = pod.containers(|container| is_root(security(container, &["runAsUser"])));
    let who = setters(whole, &containers)?;
    violation("runAsUser=0", format!("{who} must not set runAsUser=0"))
}
