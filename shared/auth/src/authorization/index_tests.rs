//! The index under changes, and the words for what it finds.

use triptych_object::json;

use super::*;

pub(in crate::authorization) fn object(text: &str) -> Value {
    json::from_slice(text.as_bytes()).unwrap()
}

/// A role that gives `get` on one resource.
pub(in crate::authorization) fn role(resource: &str) -> Value {
    object(&format!(
        r#"{{"rules":[{{"verbs":["get"],"apiGroups":[""],"resources":["{resource}"]}}]}}"#
    ))
}

/// `User:name`, `Group:name`, `ServiceAccount:namespace/name`, separated by spaces.
pub(in crate::authorization) fn binding(role_kind: &str, role: &str, subjects: &str) -> Value {
    let subjects: Vec<Value> = subjects
        .split_whitespace()
        .map(|s| {
            let (kind, name) = s.split_once(':').unwrap();
            let (namespace, name) = match name.split_once('/') {
                Some((namespace, name)) if kind == "ServiceAccount" => (namespace, name),
                _ => ("", name),
            };
            Value::from([
                ("kind", kind.into()),
                ("name", name.into()),
                ("namespace", namespace.into()),
            ])
        })
        .collect();
    let role_ref = Value::from([("kind", role_kind.into()), ("name", role.into())]);
    Value::from([("roleRef", role_ref), ("subjects", Value::Array(subjects))])
}

fn resources(index: &RbacIndex, user: &UserInfo, namespace: &str) -> String {
    let (rules, errors) = index.rules_for(user, namespace);
    let mut found: Vec<String> = rules.into_iter().flat_map(|r| r.resources).chain(errors).collect();
    found.sort();
    found.join(" ")
}

#[test]
fn a_user_has_the_rules_of_its_bindings_and_no_others() {
    let index = RbacIndex::new();
    for name in ["a", "b", "c", "d"] {
        index.apply(RbacKind::ClusterRole, "", name, Some(&role(name)));
    }
    index.apply(RbacKind::Role, "ns", "r", Some(&role("r")));
    let bind = |namespace: &str, name: &str, binding: Value| {
        let kind = match namespace {
            "" => RbacKind::ClusterRoleBinding,
            _ => RbacKind::RoleBinding,
        };
        index.apply(kind, namespace, name, Some(&binding));
    };
    bind("", "1", binding("ClusterRole", "a", "User:ann Group:devs"));
    bind("", "2", binding("ClusterRole", "b", "Group:devs"));
    bind(
        "",
        "3",
        binding("ClusterRole", "c", "ServiceAccount:ns/sa ServiceAccount:/nobody"),
    );
    bind("ns", "4", binding("Role", "r", "User:ann ServiceAccount:/sa"));
    bind("other", "5", binding("ClusterRole", "d", "ServiceAccount:ns/sa"));
    let user = |name: &str, group: &str| UserInfo::new(name, [group]);
    let account = user("system:serviceaccount:ns:sa", "x");
    for (user, namespace, want) in [
        (user("ann", "devs"), "", "a b"),
        (user("ann", "devs"), "ns", "a b r"),
        (user("ann", "x"), "other", "a"),
        (user("devs", "ann"), "ns", ""),
        (account.clone(), "", "c"),
        (account.clone(), "ns", "c r"),
        (account, "other", "c d"),
        (user("system:serviceaccount::nobody", "x"), "ns", ""),
    ] {
        assert_eq!(
            resources(&index, &user, namespace),
            want,
            "{} in {namespace:?}",
            user.name
        );
    }
}

#[test]
fn changes_take_effect_in_any_order() {
    let index = RbacIndex::new();
    let ann = UserInfo::new("ann", ["devs"]);
    let see = || resources(&index, &ann, "ns");
    index.apply(
        RbacKind::RoleBinding,
        "ns",
        "b",
        Some(&binding("Role", "r", "User:ann")),
    );
    assert_eq!(see(), r#"role.rbac.authorization.k8s.io "r" not found"#);
    index.apply(RbacKind::Role, "ns", "r", Some(&role("pods")));
    assert_eq!(see(), "pods");
    index.apply(RbacKind::Role, "ns", "r", Some(&role("secrets")));
    assert_eq!(see(), "secrets");
    index.apply(
        RbacKind::RoleBinding,
        "ns",
        "b",
        Some(&binding("Role", "r", "Group:devs")),
    );
    assert_eq!(see(), "secrets");
    index.apply(
        RbacKind::RoleBinding,
        "ns",
        "b",
        Some(&binding("Role", "r", "User:bob")),
    );
    assert_eq!(see(), "");
    index.apply(
        RbacKind::RoleBinding,
        "ns",
        "b",
        Some(&binding("ClusterRole", "c", "User:ann")),
    );
    assert_eq!(see(), r#"clusterrole.rbac.authorization.k8s.io "c" not found"#);
    index.apply(RbacKind::RoleBinding, "ns", "b", None);
    assert_eq!(see(), "");
    assert!(index.state.load().users.is_empty() && index.state.load().groups.is_empty());
}

#[test]
fn a_new_list_replaces_what_was_known_of_its_kind() {
    let index = RbacIndex::new();
    let named = |mut object: Value, namespace: &str, name: &str| {
        object.set_at(&["metadata", "name"], name.into());
        object.set_at(&["metadata", "namespace"], namespace.into());
        object
    };
    let everywhere = named(binding("ClusterRole", "a", "User:ann"), "", "b");
    index.replace(RbacKind::ClusterRole, &[named(role("pods"), "", "a")]);
    index.replace(RbacKind::ClusterRoleBinding, [&everywhere]);
    index.apply(
        RbacKind::RoleBinding,
        "ns",
        "b",
        Some(&binding("Role", "r", "User:ann")),
    );
    assert!(!index.is_synced());
    index.replace(RbacKind::RoleBinding, []);
    index.replace(RbacKind::Role, []);
    assert!(index.is_synced());
    let ann = UserInfo::new("ann", ["x"]);
    assert_eq!(resources(&index, &ann, "ns"), "pods");
    index.replace(RbacKind::ClusterRoleBinding, []);
    assert_eq!(resources(&index, &ann, "ns"), "");
}

#[test]
fn a_source_names_binding_role_and_the_first_subject_that_is_the_user() {
    let ann = UserInfo::new("ann", ["devs"]);
    let account = UserInfo::new("system:serviceaccount:ns:sa", ["x"]);
    for (namespace, subjects, user, want) in [
        (
            "",
            "User:ann",
            &ann,
            r#"ClusterRoleBinding "b" of ClusterRole "r" to User "ann""#,
        ),
        (
            "",
            "Group:devs User:ann",
            &ann,
            r#"ClusterRoleBinding "b" of ClusterRole "r" to Group "devs""#,
        ),
        (
            "ns",
            "User:bob User:ann",
            &ann,
            r#"RoleBinding "b/ns" of ClusterRole "r" to User "ann""#,
        ),
        (
            "ns",
            "ServiceAccount:/sa",
            &account,
            r#"RoleBinding "b/ns" of ClusterRole "r" to ServiceAccount "sa/ns""#,
        ),
        (
            "ns",
            "User:system:serviceaccount:ns:sa",
            &account,
            r#"RoleBinding "b/ns" of ClusterRole "r" to User "system:serviceaccount:ns:sa""#,
        ),
    ] {
        let binding = Binding::from_value(namespace, "b", &binding("ClusterRole", "r", subjects));
        assert_eq!(Source::new(&Arc::new(binding), user).to_string(), want);
    }
}

#[test]
fn an_index_follows_its_sources() {
    use triptych_storage::cache::{Board, Object, Update};

    struct Local(Arc<Board>);
    impl ObjectSource for Local {
        fn board(&self) -> &Arc<Board> {
            &self.0
        }
        fn consistent<'a>(
            &'a self,
            _wait: std::time::Duration,
        ) -> futures_util::future::BoxFuture<'a, Result<Snapshot, triptych_storage::cache::ReadError>> {
            Box::pin(async { self.0.snapshot().ok_or(triptych_storage::cache::ReadError::Filling) })
        }
    }
    let boards: [Arc<Board>; 4] = std::array::from_fn(|_| Board::new(&[]));
    let index = RbacIndex::following(
        boards
            .each_ref()
            .map(|b| Arc::new(Local(b.clone())) as Arc<dyn ObjectSource>),
    );
    let stored = |key: &str, mut object: Value, revision: u64| {
        object.set_at(&["kind"], "X".into());
        object.set_at(&["apiVersion"], "v1".into());
        object.set_at(&["metadata", "name"], "x".into());
        let entry = triptych_storage::Entry {
            key: key.into(),
            value: json::to_vec(&object).into(),
            revision,
        };
        Arc::new(Object::ingest(&entry, &triptych_storage::JsonDecoder::default()))
    };
    let ann = UserInfo::new("ann", ["devs"]);
    assert!(!index.is_synced());
    boards[0].reset([stored("/roles/ns/r", role("pods"), 2)], 2);
    boards[1].reset([stored("/rolebindings/ns/b", binding("Role", "r", "User:ann"), 3)], 3);
    boards[2].reset([], 3);
    boards[3].reset([], 3);
    assert!(index.is_synced());
    assert_eq!(resources(&index, &ann, "ns"), "pods");
    boards[0].apply(vec![Update::Put(stored("/roles/ns/r", role("secrets"), 4))]);
    assert_eq!(resources(&index, &ann, "ns"), "secrets");
    boards[1].reset(
        [stored("/rolebindings/other/b", binding("Role", "r", "User:ann"), 9)],
        9,
    );
    assert_eq!(resources(&index, &ann, "ns"), "");
}
