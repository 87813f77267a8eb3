//! `node.k8s.io`: RuntimeClass, what runs a pod's containers and what that costs.

use std::collections::BTreeSet;

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{Value, meta, names};
use triptych_registry::age::age;
use triptych_registry::strategy::{Context, Strategy};

use crate::core::node_labels;
use crate::kinds::Kinds;
use crate::validation::resources::{Owner, Requirements};
use crate::validation::{Cursor, check, label_selector, tolerations};

/// Gives the kinds of this group their strategies.
pub fn register(kinds: &mut Kinds) {
    kinds.strategy("node.k8s.io", "runtimeclasses", RuntimeClasses);
}

/// The strategy of `runtimeclasses`.
pub struct RuntimeClasses;

impl Strategy for RuntimeClasses {
    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, whole);
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |class| {
            whole(class);
            let handler = class.field("handler");
            if handler.str() != old.str_at(&["handler"]) {
                handler.invalid(handler.str(), "field is immutable");
            }
        });
    }

    fn standard_finalizers(&self) -> bool {
        false
    }

    fn warnings(&self, _cx: &Context, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let selector = new.at(&["scheduling", "nodeSelector"]).and_then(Value::as_object);
        let keys = selector.into_iter().flat_map(|s| s.keys());
        keys.filter_map(node_labels::deprecation)
            .map(|message| format!("scheduling.nodeSelector: {message}"))
            .collect()
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(vec![
            meta::name(object).into(),
            object.str_at(&["handler"]).into(),
            age(object, now).into(),
        ])
    }
}

fn whole(class: Cursor<'_>) {
    let handler = class.field("handler");
    if handler.is_empty() {
        handler.required("");
    } else {
        handler.invalid_text(names::dns1123_label(handler.str()));
    }
    if let Some(overhead) = class.given("overhead") {
        let none = BTreeSet::new();
        let rules = Requirements {
            owner: Owner::Container,
            claims: &none,
            allow_indivisible_huge_pages: false,
        };
        rules.overhead(overhead.field("podFixed").reported_at(overhead));
    }
    if let Some(scheduling) = class.given("scheduling") {
        label_selector::labels(scheduling.field("nodeSelector"));
        let list = scheduling.field("tolerations");
        tolerations::tolerations(list, false);
        let mut seen: Vec<[&str; 4]> = Vec::new();
        for toleration in list.items() {
            let key = ["key", "operator", "value", "effect"].map(|member| toleration.str_of(member));
            if seen.contains(&key) {
                toleration.duplicate(toleration.go_struct());
            }
            seen.push(key);
        }
    }
}
