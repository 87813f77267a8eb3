//! RoleBinding and ClusterRoleBinding.

use futures_util::future::{BoxFuture, FutureExt};
use jiff::Timestamp;
use triptych_auth::authorization::escalation::EscalationCheck;
use triptych_object::field::ErrorList;
use triptych_object::{StatusResult, Value, meta, names};
use triptych_registry::age::age;
use triptych_registry::strategy::{Context, Reservation, Strategy};

use super::guard::guard;
use super::policy::GROUP;
use crate::validation::{Cursor, check};

/// The strategy of `rolebindings`.
pub struct RoleBindings(pub EscalationCheck);

/// The strategy of `clusterrolebindings`.
pub struct ClusterRoleBindings(pub EscalationCheck);

impl Strategy for RoleBindings {
    fn default(&self, object: &mut Value) {
        default(object);
    }

    fn begin<'a>(
        &'a self,
        cx: &'a Context,
        new: &'a mut Value,
        old: Option<&'a Value>,
    ) -> BoxFuture<'a, StatusResult<Option<Box<dyn Reservation>>>> {
        guard(&self.0, "rolebindings", cx, new, old).boxed()
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |b| binding(b, true, None));
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |b| binding(b, true, Some(old)));
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(cells(object, now))
    }
}

impl Strategy for ClusterRoleBindings {
    fn default(&self, object: &mut Value) {
        default(object);
    }

    fn begin<'a>(
        &'a self,
        cx: &'a Context,
        new: &'a mut Value,
        old: Option<&'a Value>,
    ) -> BoxFuture<'a, StatusResult<Option<Box<dyn Reservation>>>> {
        guard(&self.0, "clusterrolebindings", cx, new, old).boxed()
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |b| binding(b, false, None));
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |b| binding(b, false, Some(old)));
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(cells(object, now))
    }
}

/// Users and groups, and the role, are of this API group.
fn default(binding: &mut Value) {
    if let Some(role) = binding.get_mut("roleRef").filter(|r| r.as_object().is_some())
        && role.str_at(&["apiGroup"]).is_empty()
    {
        role.set_at(&["apiGroup"], GROUP.into());
    }
    let subjects = binding.get_mut("subjects").and_then(Value::as_array_mut);
    for subject in subjects.into_iter().flatten() {
        let is_ours = matches!(subject.str_at(&["kind"]), "User" | "Group");
        if is_ours && subject.str_at(&["apiGroup"]).is_empty() {
            subject.set_at(&["apiGroup"], GROUP.into());
        }
    }
}

fn binding(binding: Cursor<'_>, namespaced: bool, old: Option<&Value>) {
    let role = binding.field("roleRef");
    if role.str_of("apiGroup") != GROUP {
        role.field("apiGroup").not_supported(&[GROUP]);
    }
    let kinds: &[&str] = if namespaced {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    if !kinds.contains(&role.str_of("kind")) {
        role.field("kind").not_supported(kinds);
    }
    let name = role.field("name");
    if name.str().is_empty() {
        name.required("");
    } else {
        name.invalid_text(names::path_segment_name(name.str()));
    }
    for subject in binding.field("subjects").items() {
        check_subject(subject, namespaced);
    }
    if let Some(old) = old {
        let same = |member: &str| role.str_of(member) == old.str_at(&["roleRef", member]);
        if !(same("apiGroup") && same("kind") && same("name")) {
            role.invalid(role.go_struct(), "cannot change roleRef");
        }
    }
}

fn check_subject(subject: Cursor<'_>, namespaced: bool) {
    let [name, group, namespace] = ["name", "apiGroup", "namespace"].map(|m| subject.field(m));
    if name.str().is_empty() {
        name.required("");
    }
    match subject.str_of("kind") {
        "ServiceAccount" => {
            if !name.str().is_empty() {
                name.invalid_text(names::dns1123_subdomain(name.str()));
            }
            if !group.str().is_empty() {
                group.not_supported(&[""]);
            }
            if !namespaced && namespace.str().is_empty() {
                namespace.required("");
            }
        }
        "User" | "Group" => {
            if group.str() != GROUP {
                group.not_supported(&[GROUP]);
            }
        }
        _ => subject
            .field("kind")
            .not_supported(&["ServiceAccount", "User", "Group"]),
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let subjects = object.array_at(&["subjects"]);
    let named = |kind: &str| -> Vec<&Value> { subjects.iter().filter(|s| s.str_at(&["kind"]) == kind).collect() };
    let names = |kind: &str| {
        let names: Vec<&str> = named(kind).iter().map(|s| s.str_at(&["name"])).collect();
        names.join(", ")
    };
    let accounts: Vec<String> = named("ServiceAccount")
        .iter()
        .map(|s| format!("{}/{}", s.str_at(&["namespace"]), s.str_at(&["name"])))
        .collect();
    let role = |member: &str| object.str_at(&["roleRef", member]);
    vec![
        meta::name(object).into(),
        format!("{}/{}", role("kind"), role("name")).into(),
        age(object, now).into(),
        names("User").into(),
        names("Group").into(),
        accounts.join(", ").into(),
    ]
}

#[cfg(test)]
mod tests {
    use triptych_object::json;

    use super::*;

    fn errors(text: &str, namespaced: bool, old: Option<&str>) -> String {
        let kind = if namespaced {
            "RoleBinding"
        } else {
            "ClusterRoleBinding"
        };
        let parse = |text: &str| {
            let mut object = json::from_slice(text.as_bytes()).unwrap();
            object.set_at(&["apiVersion"], format!("{GROUP}/v1").into());
            object.set_at(&["kind"], kind.into());
            default(&mut object);
            object
        };
        let (object, old) = (parse(text), old.map(parse));
        let mut errors = ErrorList::new();
        check(&object, &mut errors, |b| binding(b, namespaced, old.as_ref()));
        errors.aggregate()
    }

    #[test]
    fn subjects_and_role_are_checked() {
        const ROLE: &str = r#""roleRef":{"kind":"ClusterRole","name":"r"}"#;
        let with = |subject: &str| format!(r#"{{{ROLE},"subjects":[{subject}]}}"#);
        for (text, namespaced, want) in [
            (
                with(r#"{"kind":"User","name":"x"},{"kind":"Group","name":"y"}"#),
                false,
                "",
            ),
            (with(r#"{"kind":"User"}"#), false, "subjects[0].name: Required value"),
            (
                with(r#"{"kind":"Robot","name":"x"}"#),
                true,
                r#"subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group""#,
            ),
            (with(r#"{"kind":"ServiceAccount","name":"x"}"#), true, ""),
            (
                with(r#"{"kind":"ServiceAccount","name":"x"}"#),
                false,
                "subjects[0].namespace: Required value",
            ),
            (
                with(r#"{"kind":"ServiceAccount","name":"x","namespace":"n","apiGroup":"a"}"#),
                false,
                r#"subjects[0].apiGroup: Unsupported value: "a": supported values: """#,
            ),
            (
                r#"{"roleRef":{"kind":"Role","name":"a/b"}}"#.to_owned(),
                false,
                r#"[roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole", roleRef.name: Invalid value: "a/b": may not contain '/']"#,
            ),
            (
                r#"{"roleRef":{"kind":"Role","name":"r","apiGroup":"wrong"}}"#.to_owned(),
                true,
                r#"roleRef.apiGroup: Unsupported value: "wrong": supported values: "rbac.authorization.k8s.io""#,
            ),
        ] {
            assert_eq!(errors(&text, namespaced, None), want, "{text}");
        }
    }

    #[test]
    fn the_role_of_a_binding_stays() {
        let a = r#"{"roleRef":{"kind":"ClusterRole","name":"a"}}"#;
        let b = r#"{"roleRef":{"kind":"ClusterRole","name":"b"}}"#;
        assert_eq!(errors(a, true, Some(a)), "");
        assert_eq!(
            errors(b, true, Some(a)),
            r#"roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"ClusterRole","Name":"b"}: cannot change roleRef"#
        );
    }

    #[test]
    fn a_row_tells_role_and_subjects() {
        let text = r#"{"metadata":{"name":"b"},"roleRef":{"kind":"Role","name":"r"},"subjects":[{"kind":"User","name":"x"},{"kind":"Group","name":"y"},{"kind":"ServiceAccount","name":"z"},{"kind":"ServiceAccount","name":"d","namespace":"n"}]}"#;
        let cells = cells(&json::from_slice(text.as_bytes()).unwrap(), Timestamp::UNIX_EPOCH);
        let texts: Vec<&str> = cells.iter().filter_map(Value::as_str).collect();
        assert_eq!(texts, ["b", "Role/r", "<unknown>", "x", "y", "/z, n/d"]);
    }
}
