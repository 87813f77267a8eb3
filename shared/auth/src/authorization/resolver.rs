//! What a user may do, told as rules: the answer to SelfSubjectRulesReview.

use triptych_object::{UserInfo, Value, field};

use super::rules::PolicyRule;

/// The rules that apply to a user.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UserRules {
    /// In no particular order.
    pub rules: Vec<PolicyRule>,
    /// There may be more that cannot be told.
    pub incomplete: bool,
    /// What went wrong while looking.
    pub errors: Vec<String>,
}

/// An authorizer that can tell its rules.
pub trait RuleResolver: Send + Sync + 'static {
    /// The rules for a user in a namespace.
    fn rules_for(&self, user: &UserInfo, namespace: &str) -> UserRules;
}

impl UserRules {
    /// Adds another authorizer's.
    pub fn add(&mut self, other: UserRules) {
        self.rules.extend(other.rules);
        self.incomplete |= other.incomplete;
        self.errors.extend(other.errors);
    }

    /// `SubjectRulesReviewStatus`.
    pub fn to_status(&self) -> Value {
        let mut resource_rules = Vec::new();
        let mut non_resource_rules = Vec::new();
        for rule in &self.rules {
            if !rule.resources.is_empty() {
                resource_rules.push(
                    PolicyRule {
                        non_resource_urls: Vec::new(),
                        ..rule.clone()
                    }
                    .to_value(),
                );
            }
            if !rule.non_resource_urls.is_empty() {
                non_resource_rules.push(
                    PolicyRule {
                        verbs: rule.verbs.clone(),
                        non_resource_urls: rule.non_resource_urls.clone(),
                        ..PolicyRule::default()
                    }
                    .to_value(),
                );
            }
        }
        let mut status = Value::from([
            ("resourceRules", Value::Array(resource_rules)),
            ("nonResourceRules", Value::Array(non_resource_rules)),
            ("incomplete", self.incomplete.into()),
        ]);
        if !self.errors.is_empty() {
            status.set_at(
                &["evaluationError"],
                field::aggregate(self.errors.iter().cloned()).into(),
            );
        }
        status
    }
}
