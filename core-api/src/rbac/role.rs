//! Role and ClusterRole.

use futures_util::future::{BoxFuture, FutureExt};
use jiff::Timestamp;
use triptych_auth::authorization::escalation::EscalationCheck;
use triptych_object::field::ErrorList;
use triptych_object::{StatusResult, Value, meta};
use triptych_registry::strategy::{Context, Reservation, Strategy};

use super::guard::guard;
use crate::validation::label_selector::{Lenience, label_selector};
use crate::validation::{Cursor, check};

/// The strategy of `roles`.
pub struct Roles(pub EscalationCheck);

/// The strategy of `clusterroles`.
pub struct ClusterRoles(pub EscalationCheck);

impl Strategy for Roles {
    fn begin<'a>(
        &'a self,
        cx: &'a Context,
        new: &'a mut Value,
        old: Option<&'a Value>,
    ) -> BoxFuture<'a, StatusResult<Option<Box<dyn Reservation>>>> {
        guard(&self.0, "roles", cx, new, old).boxed()
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |role| policy_rules(role, true));
    }

    fn validate_update(&self, cx: &Context, new: &Value, _old: &Value, errors: &mut ErrorList) {
        self.validate_create(cx, new, errors);
    }

    fn cells(&self, object: &Value, _now: Timestamp) -> Option<Vec<Value>> {
        Some(cells(object))
    }
}

impl Strategy for ClusterRoles {
    fn begin<'a>(
        &'a self,
        cx: &'a Context,
        new: &'a mut Value,
        old: Option<&'a Value>,
    ) -> BoxFuture<'a, StatusResult<Option<Box<dyn Reservation>>>> {
        guard(&self.0, "clusterroles", cx, new, old).boxed()
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |role| cluster_role(role, Lenience::default()));
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        let mut stored = ErrorList::new();
        check(old, &mut stored, |old| selectors(old, Lenience::default()));
        let lenience = Lenience {
            invalid_values: !stored.is_empty(),
        };
        check(new, errors, |role| cluster_role(role, lenience));
    }

    fn cells(&self, object: &Value, _now: Timestamp) -> Option<Vec<Value>> {
        Some(cells(object))
    }
}

fn cells(object: &Value) -> Vec<Value> {
    vec![
        meta::name(object).into(),
        meta::text(object, "creationTimestamp").into(),
    ]
}

fn cluster_role(role: Cursor<'_>, lenience: Lenience) {
    policy_rules(role, false);
    if let Some(aggregation) = role.given("aggregationRule") {
        let list = aggregation.field("clusterRoleSelectors");
        if list.is_empty() {
            list.required("at least one clusterRoleSelector required if aggregationRule is non-nil");
        }
    }
    selectors(role, lenience);
}

/// Each selector must be sound; one that cannot be used at all is reported as a whole, too.
fn selectors(role: Cursor<'_>, lenience: Lenience) {
    for selector in role.field("aggregationRule").field("clusterRoleSelectors").items() {
        let before = selector.found();
        label_selector(selector, lenience);
        if selector.found() > before {
            selector.invalid(Value::Null, "invalid label selector.");
        }
    }
}

fn policy_rules(role: Cursor<'_>, namespaced: bool) {
    for rule in role.field("rules").items() {
        policy_rule(rule, namespaced);
    }
}

fn policy_rule(rule: Cursor<'_>, namespaced: bool) {
    let [verbs, groups, resources, names, urls] =
        ["verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs"].map(|m| rule.field(m));
    if verbs.is_empty() {
        verbs.required("verbs must contain at least one value");
    }
    if !urls.is_empty() {
        if namespaced {
            urls.invalid(urls.shown(), "namespaced rules cannot apply to non-resource URLs");
        }
        if !groups.is_empty() || !resources.is_empty() || !names.is_empty() {
            urls.invalid(
                urls.shown(),
                "rules cannot apply to both regular resources and non-resource URLs",
            );
        }
        return;
    }
    if groups.is_empty() {
        groups.required("resource rules must supply at least one api group");
    }
    if resources.is_empty() {
        resources.required("resource rules must supply at least one resource");
    }
}

#[cfg(test)]
mod tests {
    use triptych_object::json;

    use super::*;

    #[test]
    fn a_rule_names_verbs_and_what_they_apply_to() {
        for (rule, namespaced, want) in [
            (r#"{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}"#, true, ""),
            (r#"{"verbs":["get"],"nonResourceURLs":["/x"]}"#, false, ""),
            (
                r#"{"verbs":["get"]}"#,
                true,
                "[rules[0].apiGroups: Required value: resource rules must supply at least one api group, rules[0].resources: Required value: resource rules must supply at least one resource]",
            ),
            (
                r#"{"apiGroups":[""],"resources":["pods"]}"#,
                true,
                "rules[0].verbs: Required value: verbs must contain at least one value",
            ),
            (
                r#"{"verbs":["get"],"apiGroups":[""],"resources":["pods"],"nonResourceURLs":["/x"]}"#,
                true,
                r#"[rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs, rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs]"#,
            ),
        ] {
            let kind = if namespaced { "Role" } else { "ClusterRole" };
            let text = format!(r#"{{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"{kind}","rules":[{rule}]}}"#);
            let object = json::from_slice(text.as_bytes()).unwrap();
            let mut errors = ErrorList::new();
            check(&object, &mut errors, |role| policy_rules(role, namespaced));
            assert_eq!(errors.aggregate(), want, "{rule}");
        }
    }

    #[test]
    fn a_selector_of_an_aggregation_rule_is_sound() {
        let text = r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","aggregationRule":{"clusterRoleSelectors":[{"matchExpressions":[{"key":"a","operator":"In"}]}]}}"#;
        let object = json::from_slice(text.as_bytes()).unwrap();
        let mut errors = ErrorList::new();
        check(&object, &mut errors, |role| cluster_role(role, Lenience::default()));
        assert_eq!(
            errors.aggregate(),
            "[aggregationRule.clusterRoleSelectors[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn', aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid label selector.]"
        );
    }

    #[test]
    fn an_aggregation_rule_selects_something() {
        let text = r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","aggregationRule":{}}"#;
        let object = json::from_slice(text.as_bytes()).unwrap();
        let mut errors = ErrorList::new();
        check(&object, &mut errors, |role| cluster_role(role, Lenience::default()));
        assert_eq!(
            errors.aggregate(),
            "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil"
        );
    }
}
