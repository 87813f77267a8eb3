//! Security contexts of pods and containers.

use std::sync::LazyLock;

use regex::Regex;
use triptych_object::{Value, names};

use super::pod_options::{PodOptions, containers_at};
use super::{Cursor, names as rules, paths};

const SYSCTL: &str = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
static SYSCTL_NAME: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(SYSCTL).ok());
static NETBIOS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r#"^[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}$"#).ok());
static DNS_DOMAIN: LazyLock<Option<Regex>> = LazyLock::new(|| {
    const LABEL: &str = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?";
    Regex::new(&format!(r"^{LABEL}(?:\.{LABEL})*$")).ok()
});

/// A container's security context; `host_users` is false in a user namespace.
pub fn container(c: Cursor<'_>, host_users: bool) {
    if !c.exists() {
        return;
    }
    user_and_group(c);
    if let Some(mount) = c.given("procMount") {
        rules::one_of(mount, &["Default", "Unmasked"]);
        if host_users && mount.str() == "Unmasked" {
            mount.invalid(mount.str(), "`hostUsers` must be false to use `Unmasked`");
        }
    }
    seccomp_profile(c.field("seccompProfile"));
    if c.bool_of("allowPrivilegeEscalation") == Some(false) {
        if c.is_true_of("privileged") {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            c.invalid(c.go_struct(), detail);
        }
        for capability in c.field("capabilities").field("add").items() {
            if capability.str() == "CAP_SYS_ADMIN" {
                let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
                c.invalid(c.go_struct(), detail);
            }
        }
    }
    windows_options(c.field("windowsOptions"));
    app_armor_profile(c.field("appArmorProfile"));
}

fn user_and_group(c: Cursor<'_>) {
    id(c.field("runAsUser"), names::user_id);
    id(c.field("runAsGroup"), names::group_id);
}

fn id(c: Cursor<'_>, rule: fn(i64) -> Vec<String>) {
    if let Some(id) = c.i64() {
        for message in rule(id) {
            c.invalid(id, message);
        }
    }
}

/// A user id.
pub fn user_id(c: Cursor<'_>) {
    id(c, names::user_id);
}

/// A group id.
pub fn group_id(c: Cursor<'_>) {
    id(c, names::group_id);
}

/// A pod's security context, of the specification `spec`.
pub fn pod(spec: Cursor<'_>, options: &PodOptions) {
    let c = spec.field("securityContext");
    group_id(c.field("fsGroup"));
    user_and_group(c);
    c.field("supplementalGroups").items().for_each(group_id);
    if spec.is_true_of("shareProcessNamespace") && spec.is_true_of("hostPID") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        c.alias("shareProcessNamespace").invalid(true, detail);
    }
    sysctls(c.field("sysctls"), spec, options);
    rules::optional_one_of(c.field("fsGroupChangePolicy"), &["Always", "OnRootMismatch"]);
    seccomp_profile(c.field("seccompProfile"));
    windows_options(c.field("windowsOptions"));
    app_armor_profile(c.field("appArmorProfile"));
    rules::optional_one_of(c.field("supplementalGroupsPolicy"), &["Merge", "Strict"]);
    let policies: &[&str] = if options.any_selinux_policy {
        &["MountOption", "Recursive"]
    } else {
        &["Recursive"]
    };
    rules::optional_one_of(c.field("seLinuxChangePolicy"), policies);
}

fn sysctls(c: Cursor<'_>, spec: Cursor<'_>, options: &PodOptions) {
    let mut seen = std::collections::HashSet::new();
    for sysctl in c.items() {
        let name = sysctl.field("name");
        if name.str().is_empty() {
            name.required("");
        } else if name.str().len() > 253 || !SYSCTL_NAME.as_ref().is_some_and(|r| r.is_match(name.str())) {
            name.invalid(
                name.str(),
                format!("must have at most 253 characters and match regex {SYSCTL}"),
            );
        } else if seen.contains(name.str()) {
            name.duplicate(name.str());
        }
        if !options.host_sysctls
            && let Some(detail) = spec.value().and_then(|spec| host_sysctl(spec, name.str()))
        {
            name.invalid(name.str(), detail);
        }
        seen.insert(name.str());
    }
}

/// Why a sysctl may not be set in a pod that shares the host's namespace it belongs to.
pub fn host_sysctl(spec: &Value, name: &str) -> Option<&'static str> {
    const IPC: [&str; 10] = [
        "kernel.sem",
        "kernel.shmall",
        "kernel.shmmax",
        "kernel.shmmni",
        "kernel.shm_rmid_forced",
        "kernel.shm",
        "kernel.msgmax",
        "kernel.msgmnb",
        "kernel.msgmni",
        "kernel.msg",
    ];
    let shares = |member| spec.get(member).and_then(Value::as_bool) == Some(true);
    // the first separator decides: with a slash first, slashes separate and dots are part of names
    let normalized = match name.find(['.', '/']) {
        Some(at) if name[at..].starts_with('/') => name
            .chars()
            .map(|c| {
                if c == '/' {
                    '.'
                } else if c == '.' {
                    '/'
                } else {
                    c
                }
            })
            .collect(),
        _ => name.to_owned(),
    };
    let prefix = normalized.split('*').next().unwrap_or("");
    if prefix.starts_with("net.") && shares("hostNetwork") {
        return Some("may not be specified when 'hostNetwork' is true");
    }
    if (IPC.contains(&prefix) || prefix.starts_with("fs.mqueue.")) && shares("hostIPC") {
        return Some("may not be specified when 'hostIPC' is true");
    }
    None
}

fn seccomp_profile(c: Cursor<'_>) {
    if !c.exists() {
        return;
    }
    let (kind, profile) = (c.field("type"), c.field("localhostProfile"));
    match kind.str() {
        "" => kind.required("type is required when seccompProfile is set"),
        _ => rules::one_of(kind, &["Localhost", "RuntimeDefault", "Unconfined"]),
    }
    match (kind.str() == "Localhost", profile.exists()) {
        (true, false) => profile.required("must be set when seccomp type is Localhost"),
        (true, true) => paths::local_descending(profile),
        (false, true) => profile.invalid(c.go_struct(), "can only be set when seccomp type is Localhost"),
        (false, false) => {}
    }
}

fn app_armor_profile(c: Cursor<'_>) {
    const LOCALHOST: &str = "must be set when AppArmor type is Localhost";
    const LONGEST: usize = 4095;
    if !c.exists() {
        return;
    }
    let (kind, profile) = (c.field("type"), c.field("localhostProfile"));
    match kind.str() {
        "Localhost" if !profile.exists() => profile.required(LOCALHOST),
        "Localhost" => {
            if profile.str().trim() != profile.str() {
                profile.invalid(profile.str(), "must not be padded with whitespace");
            } else if profile.str().is_empty() {
                profile.required(LOCALHOST);
            }
            if profile.str().len() > LONGEST {
                profile.too_long(LONGEST);
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if profile.exists() {
                profile.invalid(profile.str(), "can only be set when AppArmor type is Localhost");
            }
        }
        "" => kind.required("type is required when appArmorProfile is set"),
        _ => kind.not_supported(&["Localhost", "RuntimeDefault", "Unconfined"]),
    }
}

fn windows_options(c: Cursor<'_>) {
    const SPEC_KIB: usize = 64;
    c.field("gmsaCredentialSpecName").value().into_iter().for_each(|_| {
        rules::subdomain(c.field("gmsaCredentialSpecName"));
    });
    if let Some(spec) = c.given("gmsaCredentialSpec") {
        if spec.str().is_empty() {
            spec.invalid("", "gmsaCredentialSpec cannot be an empty string");
        } else if spec.str().len() > SPEC_KIB * 1024 {
            spec.invalid(
                spec.str(),
                format!("gmsaCredentialSpec size must be under {SPEC_KIB} KiB"),
            );
        }
    }
    if let Some(user) = c.given("runAsUserName") {
        run_as_user_name(user);
    }
}

fn run_as_user_name(c: Cursor<'_>) {
    const DOMAIN: usize = 256;
    const USER: usize = 104;
    let name = c.str();
    let wrong = |detail: &str| c.invalid(name, format!("runAsUserName{detail}"));
    if name.is_empty() {
        return wrong(" cannot be an empty string");
    }
    if name.chars().any(|ch| ch.is_ascii_control()) {
        return wrong(" cannot contain control characters");
    }
    if name.matches('\\').count() > 1 {
        return wrong(" cannot contain more than one backslash");
    }
    let (domain, user) = match name.split_once('\\') {
        Some((domain, user)) => (Some(domain), user),
        None => (None, name),
    };
    if domain.is_some_and(|d| d.len() >= DOMAIN) {
        wrong(&format!("'s Domain length must be under {DOMAIN} characters"));
    }
    let matches = |pattern: &Option<Regex>, text: &str| pattern.as_ref().is_some_and(|p| p.is_match(text));
    if domain.is_some_and(|d| !matches(&NETBIOS, d) && !matches(&DNS_DOMAIN, d)) {
        wrong("'s Domain doesn't match the NetBios nor the DNS format");
    }
    if user.is_empty() {
        wrong("'s User cannot be empty");
    } else if user.len() > USER {
        wrong(&format!("'s User length must not be longer than {USER} characters"));
    }
    if !user.is_empty() && user.chars().all(|ch| matches!(ch, '.' | ' ')) {
        wrong("'s User cannot contain only periods or spaces");
    }
    if user.contains([
        '"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']',
    ]) {
        wrong(r#"'s User cannot contain the following characters: "/\:;|=,+*?<>@[]"#);
    }
}

/// Host process containers of Windows: all or none, and on the host's network.
pub fn windows_host_process(spec: Cursor<'_>) {
    let pod = spec
        .field("securityContext")
        .field("windowsOptions")
        .bool_of("hostProcess");
    let (mut all, mut host_process) = (0, 0);
    for container in containers_at(spec) {
        all += 1;
        let own = container
            .field("securityContext")
            .field("windowsOptions")
            .field("hostProcess");
        if let (Some(pod), Some(own_value)) = (pod, own.bool())
            && pod != own_value
        {
            let detail = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            own.invalid(own_value, detail);
        }
        if own.bool().or(pod) == Some(true) {
            host_process += 1;
        }
    }
    if host_process == 0 {
        return;
    }
    if host_process != all {
        let detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        spec.invalid("", detail);
    }
    if !spec.is_true_of("hostNetwork") {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        spec.field("hostNetwork").invalid(false, detail);
    }
}

/// What a pod for Linux may not have.
pub fn linux(spec: Cursor<'_>) {
    for c in std::iter::once(spec).chain(containers_at(spec)) {
        if let Some(options) = c.field("securityContext").given("windowsOptions") {
            options.forbidden("windows options cannot be set for a linux pod");
        }
    }
}

/// What a pod for Windows may not have.
pub fn windows(spec: Cursor<'_>) {
    const POD: [&str; 10] = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "fsGroup",
        "fsGroupChangePolicy",
        "runAsUser",
        "runAsGroup",
        "supplementalGroups",
        "supplementalGroupsPolicy",
        "seLinuxChangePolicy",
    ];
    const CONTAINER: [&str; 10] = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "capabilities",
        "readOnlyRootFilesystem",
        "privileged",
        "allowPrivilegeEscalation",
        "procMount",
        "runAsUser",
        "runAsGroup",
    ];
    let refuse = |c: Cursor<'_>| c.forbidden("cannot be set for a windows pod");
    let context = spec.field("securityContext");
    POD.iter().filter_map(|name| context.given(name)).for_each(refuse);
    if !context.field("sysctls").is_empty() {
        refuse(context.field("sysctls"));
    }
    for name in ["hostUsers", "shareProcessNamespace"] {
        spec.given(name).into_iter().for_each(refuse);
    }
    for name in ["hostPID", "hostIPC"] {
        if spec.is_true_of(name) {
            refuse(spec.field(name));
        }
    }
    for container in containers_at(spec) {
        let context = container.field("securityContext");
        CONTAINER.iter().filter_map(|name| context.given(name)).for_each(refuse);
    }
}
