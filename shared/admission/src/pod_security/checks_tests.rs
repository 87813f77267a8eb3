//! Each check with a pod that it objects to, at the versions at which it does.

use super::checks::{details, evaluate};
use super::policy::{Level, LevelVersion, Version};
use crate::testing::tree;

fn told(level: Level, version: Version, pod: &str) -> String {
    let pod = tree(pod);
    details(&evaluate(
        LevelVersion { level, version },
        &pod,
        pod.get("spec").unwrap(),
    ))
}

fn container(security: &str) -> String {
    format!(r#"{{"spec":{{"containers":[{{"name":"c","securityContext":{security}}}]}}}}"#)
}

#[test]
fn the_baseline_objects_to_what_raises_privileges() {
    for (pod, objection) in [
        (
            r#"{"spec":{"hostNetwork":true,"hostIPC":true}}"#.to_owned(),
            "host namespaces (hostNetwork=true, hostIPC=true)",
        ),
        (
            r#"{"spec":{"volumes":[{"name":"a","hostPath":{}},{"name":"b","emptyDir":{}}]}}"#.to_owned(),
            "hostPath volumes (volume \"a\")",
        ),
        (
            r#"{"spec":{"initContainers":[{"name":"i","ports":[{"hostPort":80},{"hostPort":8080}]}],"containers":[{"name":"c","ports":[{"hostPort":80}]}]}}"#.to_owned(),
            "hostPort (containers \"i\", \"c\" use hostPorts 80, 8080)",
        ),
        (
            r#"{"spec":{"containers":[{"name":"c","livenessProbe":{"httpGet":{"host":"h"}},"lifecycle":{"preStop":{"tcpSocket":{"host":"g"}}}}]}}"#.to_owned(),
            "probe or lifecycle host (container \"c\" uses probe or lifecycle hosts \"g\", \"h\")",
        ),
        (
            container(r#"{"privileged":true}"#),
            "privileged (container \"c\" must not set securityContext.privileged=true)",
        ),
        (
            container(r#"{"capabilities":{"add":["NET_ADMIN","CHOWN"]}}"#),
            "non-default capabilities (container \"c\" must not include \"NET_ADMIN\" in securityContext.capabilities.add)",
        ),
        (
            container(r#"{"procMount":"Unmasked"}"#),
            "procMount (container \"c\" must not set securityContext.procMount to \"Unmasked\")",
        ),
        (
            container(r#"{"seLinuxOptions":{"type":"t","user":"u"}}"#),
            "seLinuxOptions (container \"c\" set forbidden securityContext.seLinuxOptions: type \"t\"; user may not be set)",
        ),
        (
            r#"{"spec":{"securityContext":{"seccompProfile":{"type":"Unconfined"},"sysctls":[{"name":"a"},{"name":"kernel.shm_rmid_forced"}]}}}"#.to_owned(),
            "seccompProfile (pod must not set securityContext.seccompProfile.type to \"Unconfined\"), forbidden sysctls (a)",
        ),
        (
            r#"{"spec":{"securityContext":{"windowsOptions":{"hostProcess":true}},"containers":[{"name":"c","securityContext":{"windowsOptions":{"hostProcess":true}}}]}}"#.to_owned(),
            "hostProcess (pod and container \"c\" must not set securityContext.windowsOptions.hostProcess=true)",
        ),
        (
            r#"{"metadata":{"annotations":{"container.apparmor.security.beta.kubernetes.io/c":"unconfined"}},"spec":{"securityContext":{"appArmorProfile":{"type":"Unconfined"}}}}"#.to_owned(),
            "forbidden AppArmor profiles (pod and annotation must not set AppArmor profile type to \"Unconfined\", \"container.apparmor.security.beta.kubernetes.io/c=\"unconfined\"\")",
        ),
    ] {
        assert_eq!(told(Level::Baseline, Version::Latest, &pod), objection);
        assert_eq!(told(Level::Privileged, Version::Latest, &pod), "");
    }
}

#[test]
fn the_restricted_level_wants_good_practice() {
    let missing = "allowPrivilegeEscalation != false (container \"c\" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container \"c\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";
    assert_eq!(told(Level::Restricted, Version::Latest, &container("{}")), missing);
    let good = |more: &str| {
        format!(
            r#"{{"spec":{{"securityContext":{{"runAsNonRoot":true,"seccompProfile":{{"type":"RuntimeDefault"}}}},"containers":[{{"name":"c","securityContext":{{"allowPrivilegeEscalation":false,"capabilities":{{"drop":["ALL"],"add":["NET_BIND_SERVICE"]}}}}}}]{more}}}}}"#
        )
    };
    assert_eq!(told(Level::Restricted, Version::Latest, &good("")), "");
    let volumes = r#","volumes":[{"name":"a","hostPath":{}},{"name":"b","nfs":{}},{"name":"s","secret":{}}]"#;
    assert_eq!(
        told(Level::Restricted, Version::Latest, &good(volumes)),
        "restricted volume types (volumes \"a\", \"b\" use restricted volume types \"hostPath\", \"nfs\")"
    );
    let root = container(r#"{"runAsUser":0,"runAsNonRoot":false}"#);
    let objections = told(Level::Restricted, Version::Minor(23), &root);
    assert!(
        objections.contains("runAsNonRoot != true (container \"c\" must not set securityContext.runAsNonRoot=false)")
    );
    assert!(objections.contains("runAsUser=0 (container \"c\" must not set runAsUser=0)"));
}

#[test]
fn a_version_means_the_checks_of_its_release() {
    let probe = r#"{"spec":{"containers":[{"name":"c","startupProbe":{"tcpSocket":{"host":"h"}}}]}}"#.to_owned();
    let sysctl = r#"{"spec":{"securityContext":{"sysctls":[{"name":"net.ipv4.tcp_rmem"}]}}}"#.to_owned();
    let engine = container(r#"{"seLinuxOptions":{"type":"container_engine_t"}}"#);
    let annotated =
        r#"{"metadata":{"annotations":{"seccomp.security.alpha.kubernetes.io/pod":"unconfined"}},"spec":{}}"#;
    let unmasked =
        r#"{"spec":{"hostUsers":false,"containers":[{"name":"c","securityContext":{"procMount":"Unmasked"}}]}}"#;
    for (level, pod, minor, objects) in [
        (Level::Baseline, probe.as_str(), 33, false),
        (Level::Baseline, &probe, 34, true),
        (Level::Baseline, &sysctl, 31, true),
        (Level::Baseline, &sysctl, 32, false),
        (Level::Baseline, &engine, 30, true),
        (Level::Baseline, &engine, 31, false),
        (Level::Baseline, annotated, 18, true),
        (Level::Baseline, annotated, 19, false),
        (Level::Baseline, unmasked, 34, true),
        (Level::Baseline, unmasked, 35, false),
        (Level::Baseline, unmasked, 99, false),
    ] {
        let objection = told(level, Version::Minor(minor), pod);
        assert_eq!(!objection.is_empty(), objects, "{pod} v1.{minor}: {objection}");
    }
    assert!(told(Level::Restricted, Version::Minor(35), unmasked).contains("procMount"));
    let windows =
        r#"{"spec":{"os":{"name":"windows"},"securityContext":{"runAsNonRoot":true},"containers":[{"name":"c"}]}}"#;
    assert_eq!(told(Level::Restricted, Version::Minor(25), windows), "");
    assert!(told(Level::Restricted, Version::Minor(24), windows).starts_with("allowPrivilegeEscalation"));
}
