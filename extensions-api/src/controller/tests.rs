//! Each step by itself, and what they come to together.

use super::*;
use triptych_object::json;

fn crd(status: &str) -> Value {
    let text = format!(
        r#"{{"metadata":{{"name":"widgets.a.example.com"}},"spec":{{"group":"a.example.com","scope":"Namespaced",
        "names":{{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList","shortNames":["wd"]}},
        "versions":[{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":{{"type":"object"}}}}}}]}},
        "status":{status}}}"#
    );
    json::from_slice(text.as_bytes()).unwrap()
}

fn around<'a>(others: &[&'a Summary]) -> Surroundings<'a> {
    Surroundings {
        others: others.to_vec(),
        now: Timestamp::UNIX_EPOCH,
    }
}

fn conditions(crd: &Value) -> Vec<String> {
    let conditions = crd.array_at(&["status", "conditions"]).iter();
    conditions
        .map(|c| {
            format!(
                "{}={} {}",
                c.str_at(&["type"]),
                c.str_at(&["status"]),
                c.str_at(&["reason"])
            )
        })
        .collect()
}

const NEW: &str = r#"{"conditions":null,"acceptedNames":{"plural":"","kind":""},"storedVersions":["v1"]}"#;

#[test]
fn a_new_crd_gets_its_names_and_is_established_in_one_go() {
    let mut new = crd(NEW);
    assert!(run_steps(&mut new, &around(&[])));
    assert_eq!(
        conditions(&new),
        [
            "NamesAccepted=True NoConflicts",
            "Established=True InitialNamesAccepted"
        ]
    );
    assert_eq!(new.at(&["status", "acceptedNames"]), new.at(&["spec", "names"]));
    assert!(!run_steps(&mut new, &around(&[])), "nothing is left to do");
}

#[test]
fn names_that_another_crd_of_the_group_has_are_refused() {
    for (other, reason, message) in [
        (r#"{"kind":"Widget"}"#, "KindConflict", "\"Widget\" is already in use"),
        (
            r#"{"listKind":"WidgetList"}"#,
            "ListKindConflict",
            "\"WidgetList\" is already in use",
        ),
        (r#"{"singular":"wd"}"#, "ShortNamesConflict", "\"wd\" is already in use"),
        (
            r#"{"shortNames":["widget"]}"#,
            "SingularConflict",
            "\"widget\" is already in use",
        ),
    ] {
        let names = json::from_slice(other.as_bytes()).unwrap();
        let other = Summary {
            accepted: crate::definition::summary::Names::read(Some(&names)),
            ..Summary::default()
        };
        let mut new = crd(NEW);
        run_steps(&mut new, &around(&[&other]));
        assert_eq!(
            conditions(&new),
            [
                format!("NamesAccepted=False {reason}"),
                "Established=False NotAccepted".to_owned()
            ]
        );
        assert_eq!(new.array_at(&["status", "conditions"])[0].str_at(&["message"]), message);
    }
}

#[test]
fn a_crd_of_a_protected_group_says_whether_it_was_approved() {
    let mut new = crd(NEW);
    new.set_at(&["spec", "group"], "x.k8s.io".into());
    triptych_object::meta::set_annotation(&mut new, "api-approved.kubernetes.io", "unapproved, a test");
    run_steps(&mut new, &around(&[]));
    assert!(conditions(&new).contains(&"KubernetesAPIApprovalPolicyConformant=False UnapprovedAnnotation".to_owned()));
}

#[test]
fn an_old_schema_that_is_not_structural_is_told_of() {
    let mut old = crd(NEW);
    old.set_at(&["spec", "preserveUnknownFields"], Value::Bool(true));
    run_steps(&mut old, &around(&[]));
    assert!(conditions(&old).contains(&"NonStructuralSchema=True Violations".to_owned()));
    old.remove_at(&["spec", "preserveUnknownFields"]);
    run_steps(&mut old, &around(&[]));
    assert!(!conditions(&old).iter().any(|c| c.starts_with("NonStructural")));
}
