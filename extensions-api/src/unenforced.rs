//! What a CRD may ask for that this tier does not do yet: asking is refused unless `--allow-unenforced` names it, so that
//! nobody believes his objects converted that are not.

use std::collections::BTreeSet;

use futures_util::future::BoxFuture;
use triptych_admission::Plugin;
use triptych_admission::chain::forbidden;
use triptych_object::{Gvr, StatusResult, Value};
use triptych_registry::admission::{Attributes, Operation, Warnings};

use crate::definition::internal::hoisted;
use crate::definition::{GROUP, RESOURCE};

const CONVERSION: &str = "customresourcedefinitions.conversion";

/// What `--allow-unenforced` may name here: conversion webhooks.
pub const UNENFORCED: &[&str] = &[CONVERSION];

/// Refuses CRDs that ask for what is neither done nor allowed.
pub struct Unenforced {
    /// What the flag allows.
    pub allowed: BTreeSet<String>,
}

/// What a CRD asks for, with what it is called.
fn asked(crd: &Value) -> Vec<(&'static str, &'static str)> {
    let spec = hoisted(crd.get("spec").unwrap_or(&Value::Null));
    let mut asked = Vec::new();
    if spec.str_at(&["conversion", "strategy"]) == "Webhook" {
        asked.push((CONVERSION, "call conversion webhooks"));
    }
    asked
}

impl Plugin for Unenforced {
    fn name(&self) -> &'static str {
        "Unenforced"
    }

    fn concerns(&self, operation: Operation, resource: &Gvr) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
            && resource.group == GROUP
            && resource.resource == RESOURCE
            && UNENFORCED.iter().any(|name| !self.allowed.contains(*name))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        let before = old.map(asked).unwrap_or_default();
        let new = object
            .filter(|_| attributes.subresource.is_empty())
            .map(asked)
            .unwrap_or_default();
        let refused = new
            .into_iter()
            .find(|(name, _)| !self.allowed.contains(*name) && !before.iter().any(|(known, _)| known == name));
        let outcome = match refused {
            None => Ok(()),
            Some((name, what)) => {
                let why = format!(
                    "this server does not {what} yet; start extensions-api with --allow-unenforced={name} to store such definitions all the same"
                );
                Err(forbidden(attributes, object, why))
            }
        };
        Box::pin(std::future::ready(outcome))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_object::json;

    #[test]
    fn conversion_webhooks_are_found() {
        let crd = json::from_slice(
            br#"{"spec":{"conversion":{"strategy":"Webhook"},"versions":[{"name":"v1","schema":{"openAPIV3Schema":
                {"type":"object","properties":{"a":{"type":"array","items":{"x-kubernetes-validations":[{"rule":"true"}]}}}}}}]}}"#,
        )
        .unwrap();
        let names: Vec<&str> = asked(&crd).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, UNENFORCED);
    }
}
