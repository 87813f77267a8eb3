//! SelfSubjectRulesReview: everything the asker may in a namespace, as far as rules can tell.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use triptych_auth::authorization::resolver::RuleResolver;
use triptych_object::{Status, StatusResult, UserInfo, Value};
use triptych_registry::{Action, ActionContext, Answer};

/// Answers `selfsubjectrulesreviews`.
pub struct RulesReview {
    /// Knows the rules.
    pub resolver: Arc<dyn RuleResolver>,
}

impl Action for RulesReview {
    fn run<'a>(&'a self, cx: &'a ActionContext<'a>, document: Value) -> BoxFuture<'a, StatusResult<Answer>> {
        let answer = review(&*self.resolver, &cx.request.user, &document);
        std::future::ready(answer.map(Answer::Document)).boxed()
    }
}

fn review(resolver: &dyn RuleResolver, user: &UserInfo, document: &Value) -> StatusResult<Value> {
    let namespace = document.str_at(&["spec", "namespace"]);
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    // The answer is a new document: what was asked is not repeated.
    Ok(Value::from([
        ("kind", "SelfSubjectRulesReview".into()),
        ("apiVersion", "authorization.k8s.io/v1".into()),
        ("metadata", Value::object()),
        ("spec", Value::object()),
        ("status", resolver.rules_for(user, namespace).to_status()),
    ]))
}

#[cfg(test)]
mod tests {
    use triptych_auth::authorization::resolver::UserRules;
    use triptych_auth::authorization::rules::PolicyRule;
    use triptych_object::json;

    use super::*;

    struct Rules;

    impl RuleResolver for Rules {
        fn rules_for(&self, _user: &UserInfo, _namespace: &str) -> UserRules {
            UserRules {
                rules: vec![
                    PolicyRule {
                        verbs: vec!["get".to_owned()],
                        api_groups: vec![String::new()],
                        resources: vec!["pods".to_owned()],
                        ..PolicyRule::default()
                    },
                    PolicyRule {
                        verbs: vec!["get".to_owned()],
                        non_resource_urls: vec!["/metrics".to_owned()],
                        ..PolicyRule::default()
                    },
                ],
                incomplete: true,
                errors: vec!["a".to_owned(), "b".to_owned()],
            }
        }
    }

    #[test]
    fn rules_are_told_apart_by_what_they_are_about() {
        let document = json::from_slice(br#"{"spec":{"namespace":"ns"}}"#).unwrap();
        let answer = review(&Rules, &UserInfo::anonymous(), &document).unwrap();
        assert_eq!(
            json::to_string(answer.get("status").unwrap()),
            r#"{"resourceRules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}],"nonResourceRules":[{"verbs":["get"],"nonResourceURLs":["/metrics"]}],"incomplete":true,"evaluationError":"[a, b]"}"#
        );
        let nowhere = review(&Rules, &UserInfo::anonymous(), &Value::object());
        assert_eq!(nowhere.unwrap_err().message, "no namespace on request");
    }
}
