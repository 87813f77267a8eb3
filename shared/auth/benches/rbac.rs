//! What it costs to allow and to refuse an ordinary user's request under RBAC, beside how many roles and bindings others
//! have. `cargo bench -p triptych-auth`; the answers are checked.

#![allow(clippy::unwrap_used)] // a benchmark that cannot go on ends

use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use triptych_auth::authorization::Authorization;
use triptych_auth::authorization::index::{RbacIndex, RbacKind};
use triptych_auth::authorization::privileged::Privileged;
use triptych_auth::authorization::rbac::Rbac;
use triptych_auth::{Attributes, Authorizer};
use triptych_object::{RequestInfo, UserInfo, Value, json};

fn object(text: &str) -> Value {
    json::from_slice(text.as_bytes()).unwrap()
}

fn index(others: usize) -> RbacIndex {
    let index = RbacIndex::new();
    for kind in RbacKind::ALL {
        index.replace(kind, []);
    }
    let role = |resources: &str| {
        let rule = format!(r#"{{"verbs":["get","list","watch"],"apiGroups":[""],"resources":{resources}}}"#);
        object(&format!(r#"{{"rules":[{rule},{rule}]}}"#))
    };
    let binding = |role: &str, kind: &str, name: &str| {
        object(&format!(
            r#"{{"roleRef":{{"kind":"ClusterRole","name":"{role}"}},"subjects":[{{"kind":"{kind}","name":"{name}"}}]}}"#
        ))
    };
    for (name, resources) in [
        ("view", r#"["pods","configmaps"]"#),
        ("basic", r#"["bindings","events"]"#),
    ] {
        index.apply(RbacKind::ClusterRole, "", name, Some(&role(resources)));
    }
    for name in ["a", "b", "c"] {
        let everybody = binding("basic", "Group", "system:authenticated");
        index.apply(RbacKind::ClusterRoleBinding, "", name, Some(&everybody));
    }
    index.apply(
        RbacKind::RoleBinding,
        "ns",
        "view",
        Some(&binding("view", "User", "ann")),
    );
    for i in 0..others {
        let other = binding("view", "User", &format!("user-{i}"));
        index.apply(
            RbacKind::RoleBinding,
            &format!("ns-{}", i % 100),
            &format!("b-{i}"),
            Some(&other),
        );
    }
    index
}

fn main() {
    for others in [0, 10_000] {
        let rbac = Arc::new(Rbac::new(Arc::new(index(others))));
        let authorization = Authorization::new(vec![Arc::new(Privileged::new()), rbac]);
        let user = UserInfo::new("ann", ["devs", "system:authenticated"]);
        for (path, allowed) in [
            ("/api/v1/namespaces/ns/configmaps/c", true),
            ("/api/v1/namespaces/ns/secrets/s", false),
        ] {
            let request = RequestInfo::parse("GET", path, "").unwrap();
            let attributes = Attributes {
                user: &user,
                request: &request,
            };
            const ROUNDS: u32 = 200_000;
            let begin = Instant::now();
            for _ in 0..ROUNDS {
                let decision = authorization.authorize(attributes).now_or_never().unwrap();
                assert_eq!(decision.is_allowed(), allowed);
            }
            println!("{others} other bindings, GET {path}: {:?}", begin.elapsed() / ROUNDS);
        }
    }
}
