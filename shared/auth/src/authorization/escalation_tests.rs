//! Who may grant what.

use super::super::index::RbacKind;
use super::super::index::tests::{binding, object, role};
use super::super::rbac::Rbac;
use super::*;

/// Ann may write roles everywhere and get config maps in `ns`; what else she may is bound by the test.
fn check(more: &[(&str, &str)]) -> EscalationCheck {
    let index = Arc::new(RbacIndex::new());
    for kind in RbacKind::ALL {
        index.replace(kind, []);
    }
    index.apply(RbacKind::Role, "ns", "own", Some(&role("configmaps")));
    index.apply(RbacKind::Role, "ns", "big", Some(&role("secrets")));
    index.apply(
        RbacKind::RoleBinding,
        "ns",
        "own",
        Some(&binding("Role", "own", "User:ann")),
    );
    for (i, (namespace, rules)) in more.iter().enumerate() {
        let name = format!("more-{i}");
        let rules = object(&format!(r#"{{"rules":[{rules}]}}"#));
        let bound = binding("ClusterRole", &name, "User:ann");
        index.apply(RbacKind::ClusterRole, "", &name, Some(&rules));
        match *namespace {
            "" => index.apply(RbacKind::ClusterRoleBinding, "", &name, Some(&bound)),
            namespace => index.apply(RbacKind::RoleBinding, namespace, &name, Some(&bound)),
        }
    }
    EscalationCheck::new(index.clone(), Arc::new(Rbac::new(index)))
}

async fn write(check: &EscalationCheck, resource: &str, name: &str, new: &Value, old: Option<&Value>) -> String {
    let user = UserInfo::new("ann", ["g", "system:authenticated"]);
    let mut new = new.clone();
    meta::set_text(&mut new, "name", "x");
    let old = old.map(|o| {
        let mut old = o.clone();
        meta::set_text(&mut old, "name", "x");
        old
    });
    let outcome = check
        .check(RbacWrite {
            user: &user,
            resource,
            namespace: if resource.starts_with("cluster") { "" } else { "ns" },
            name,
            new: &new,
            old: old.as_ref(),
        })
        .await;
    match outcome {
        Ok(()) => "ok".to_owned(),
        Err(status) => format!("{} {}", status.code, status.message),
    }
}

const ROLES: &str = "rbac.authorization.k8s.io";

#[tokio::test]
async fn a_role_may_give_what_its_writer_holds() {
    let check = check(&[]);
    assert_eq!(write(&check, "roles", "", &role("configmaps"), None).await, "ok");
    assert_eq!(
        write(&check, "roles", "", &role("secrets"), None).await,
        format!(
            "403 roles.{ROLES} \"x\" is forbidden: user \"ann\" (groups=[\"g\" \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}}"
        )
    );
    // What is held in a namespace does not cover a cluster role.
    assert!(
        write(&check, "clusterroles", "", &role("configmaps"), None)
            .await
            .starts_with("403")
    );
}

#[tokio::test]
async fn escalate_and_bind_are_asked_of_the_authorizer() {
    let escalate = format!(r#"{{"verbs":["escalate"],"apiGroups":["{ROLES}"],"resources":["roles"]}}"#);
    let check_any = check(&[("ns", &escalate)]);
    assert_eq!(write(&check_any, "roles", "", &role("secrets"), None).await, "ok");
    let named =
        format!(r#"{{"verbs":["escalate"],"apiGroups":["{ROLES}"],"resources":["roles"],"resourceNames":["x"]}}"#);
    let check_named = check(&[("ns", &named)]);
    // A create by POST has no name to be allowed by.
    assert!(
        write(&check_named, "roles", "", &role("secrets"), None)
            .await
            .starts_with("403")
    );
    assert_eq!(
        write(&check_named, "roles", "x", &role("secrets"), Some(&role("pods"))).await,
        "ok"
    );

    let bind = format!(r#"{{"verbs":["bind"],"apiGroups":["{ROLES}"],"resources":["roles"],"resourceNames":["big"]}}"#);
    let check_bind = check(&[("ns", &bind)]);
    let to = |role: &str| binding("Role", role, "User:bob");
    assert_eq!(write(&check_bind, "rolebindings", "", &to("big"), None).await, "ok");
    let without = check(&[]);
    assert_eq!(write(&without, "rolebindings", "", &to("own"), None).await, "ok");
    assert!(
        write(&without, "rolebindings", "", &to("big"), None)
            .await
            .starts_with("403")
    );
    assert_eq!(
        write(&without, "rolebindings", "", &to("nosuch"), None).await,
        format!("404 rolebindings.{ROLES} \"nosuch\" not found")
    );
}

#[tokio::test]
async fn an_aggregation_rule_takes_everything() {
    let aggregating = object(r#"{"rules":[],"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]}}"#);
    let plain = object(r#"{"rules":[]}"#);
    let refused = format!(
        "403 clusterroles.{ROLES} \"x\" is forbidden: must have cluster-admin privileges to use the aggregationRule"
    );
    let little = check(&[]);
    assert_eq!(write(&little, "clusterroles", "", &aggregating, None).await, refused);
    assert_eq!(
        write(&little, "clusterroles", "x", &plain, Some(&aggregating)).await,
        refused
    );
    assert_eq!(write(&little, "clusterroles", "", &plain, None).await, "ok");
    let all = r#"{"verbs":["*"],"apiGroups":["*"],"resources":["*"]},{"verbs":["*"],"nonResourceURLs":["*"]}"#;
    assert_eq!(
        write(&check(&[("", all)]), "clusterroles", "", &aggregating, None).await,
        "ok"
    );
}

#[tokio::test]
async fn the_garbage_collector_may_finish_what_it_could_not_grant() {
    let check = check(&[]);
    let old = role("secrets");
    let mut new = old.clone();
    meta::set_finalizers(&mut new, vec!["a/b".to_owned()]);
    assert_eq!(write(&check, "roles", "x", &new, Some(&old)).await, "ok");
    meta::set_label(&mut new, "a", "b");
    assert!(write(&check, "roles", "x", &new, Some(&old)).await.starts_with("403"));
}
