//! The RBAC authorizer's answers and reasons.

use std::sync::atomic::{AtomicUsize, Ordering};

use triptych_object::RequestInfo;

use super::super::index::RbacKind;
use super::super::index::tests::{binding, role};
use super::*;

fn synced() -> RbacIndex {
    let index = RbacIndex::new();
    for kind in RbacKind::ALL {
        index.replace(kind, []);
    }
    index
}

async fn ask(rbac: &Rbac, user: &str, path: &str) -> Decision {
    let request = RequestInfo::parse("GET", path, "").unwrap();
    let user = UserInfo::new(user, ["system:authenticated"]);
    let attributes = Attributes {
        user: &user,
        request: &request,
    };
    rbac.authorize(attributes).await
}

#[tokio::test]
async fn reasons_are_those_of_kubernetes() {
    let index = synced();
    index.apply(RbacKind::ClusterRole, "", "r", Some(&role("pods")));
    let bound = binding("ClusterRole", "r", "User:ann");
    index.apply(RbacKind::RoleBinding, "ns", "b", Some(&bound));
    let lost = binding("Role", "lost", "User:ann User:bob");
    index.apply(RbacKind::RoleBinding, "ns", "c", Some(&lost));
    let lost = binding("ClusterRole", "gone", "User:bob");
    index.apply(RbacKind::ClusterRoleBinding, "", "c", Some(&lost));
    let rbac = Rbac::new(Arc::new(index));
    let allowed = ask(&rbac, "ann", "/api/v1/namespaces/ns/pods/p").await;
    let why = r#"RBAC: allowed by RoleBinding "b/ns" of ClusterRole "r" to User "ann""#;
    assert_eq!(allowed, Decision::Allow(Reason::text(why)));
    assert_eq!(
        ask(&rbac, "ann", "/api/v1/namespaces/other/pods/p").await,
        Decision::PASS
    );
    assert_eq!(ask(&rbac, "ann", "/api/v1/pods").await, Decision::PASS);
    let lost = r#"RBAC: role.rbac.authorization.k8s.io "lost" not found"#;
    assert_eq!(
        ask(&rbac, "ann", "/api/v1/namespaces/ns/secrets/s").await,
        Decision::pass(lost)
    );
    let lost = r#"RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, role.rbac.authorization.k8s.io "lost" not found]"#;
    assert_eq!(
        ask(&rbac, "bob", "/api/v1/namespaces/ns/secrets/s").await,
        Decision::pass(lost)
    );
}

#[tokio::test]
async fn before_roles_are_known_nothing_is_refused() {
    let rbac = Rbac::new(Arc::new(RbacIndex::new()));
    assert!(matches!(
        ask(&rbac, "ann", "/api/v1/pods").await,
        Decision::Unavailable(_)
    ));
}

struct Late {
    index: Arc<RbacIndex>,
    asked: AtomicUsize,
}

impl Refresh for Late {
    fn refresh(&self) -> BoxFuture<'_, ()> {
        async {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let bound = binding("ClusterRole", "r", "User:ann");
            self.index.apply(RbacKind::ClusterRole, "", "r", Some(&role("pods")));
            self.index.apply(RbacKind::ClusterRoleBinding, "", "b", Some(&bound));
        }
        .boxed()
    }
}

#[tokio::test]
async fn a_mirrors_negative_is_confirmed_before_it_counts() {
    let index = Arc::new(synced());
    let late = Arc::new(Late {
        index: index.clone(),
        asked: AtomicUsize::new(0),
    });
    let rbac = Rbac::confirmed(index, late.clone());
    assert!(ask(&rbac, "ann", "/api/v1/namespaces/ns/pods/p").await.is_allowed());
    assert!(ask(&rbac, "ann", "/api/v1/namespaces/ns/pods/p").await.is_allowed());
    assert_eq!(late.asked.load(Ordering::Relaxed), 1);
    assert_eq!(ask(&rbac, "bob", "/api/v1/pods").await, Decision::PASS);
    assert_eq!(late.asked.load(Ordering::Relaxed), 2);
}
