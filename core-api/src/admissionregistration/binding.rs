//! Bindings of admission policies: where a policy applies, with which parameters and, if it validates, with what effect.

use std::collections::HashSet;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{StatusResult, Value, meta};
use triptych_registry::age::age;
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::strategy::{Context, Reservation, Strategy};

use super::matching::{match_resources, param_ref, shown_param_ref};
use super::param_access::ParamAccess;
use super::policy::Does;
use super::warn_of_static_name;
use crate::validation::{Cursor, check, names as rules};

/// The strategy of `mutatingadmissionpolicybindings` or `validatingadmissionpolicybindings`.
pub struct Bindings(pub Does, pub ParamAccess);

impl Strategy for Bindings {
    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |binding| {
            let spec = binding.field("spec");
            let policy = spec.field("policyName");
            match policy.is_empty() {
                true => policy.required(""),
                false => rules::subdomain(policy),
            }
            param_ref(spec.field("paramRef"));
            match_resources(spec.field("matchResources"), self.0 == Does::Mutates);
            if self.0 == Does::Validates {
                actions(spec.field("validationActions"));
            }
        });
    }

    fn validate_update(&self, cx: &Context, new: &Value, _old: &Value, errors: &mut ErrorList) {
        self.validate_create(cx, new, errors);
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Whole
    }

    fn standard_finalizers(&self) -> bool {
        false
    }

    fn warnings(&self, _cx: &Context, new: &Value, _old: Option<&Value>) -> Vec<String> {
        warn_of_static_name(new)
    }

    fn reserve<'a>(
        &'a self,
        cx: &'a Context,
        new: &'a mut Value,
        old: Option<&'a Value>,
    ) -> BoxFuture<'a, StatusResult<Option<Box<dyn Reservation>>>> {
        Box::pin(async move {
            self.1.check_binding(self.0, &cx.user, new, old).await?;
            Ok(None)
        })
    }

    fn cells(&self, binding: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(vec![
            meta::name(binding).into(),
            binding.str_at(&["spec", "policyName"]).into(),
            shown_param_ref(binding.at(&["spec", "paramRef"])).into(),
            age(binding, now).into(),
        ])
    }
}

fn actions(actions: Cursor<'_>) {
    let mut seen = HashSet::new();
    for action in actions.items() {
        rules::one_of(action, &["Audit", "Deny", "Warn"]);
        if !seen.insert(action.str()) {
            action.duplicate(action.str());
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        actions.invalid(actions.shown(), "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)");
    }
    if seen.is_empty() {
        actions.required("at least one validation action is required");
    }
}
