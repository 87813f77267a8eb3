//! Establishing: a CRD whose names were accepted is served (condition Established).
//!
//! Contract: at once. kube-apiserver waits five seconds where there are several of it, so that all know the CRD by then;
//! here whoever does not know it asks the store before it answers 404.

use triptych_object::Value;

use super::Surroundings;
use crate::definition::conditions::{self, Condition};
use crate::definition::validation::conversion::ca_bundle_problem;

/// Sets the condition once names are accepted.
pub fn step(crd: &mut Value, around: &Surroundings<'_>) {
    if !conditions::is_true(crd, "NamesAccepted") || conditions::is_true(crd, "Established") {
        return;
    }
    let bundle = crd.str_at(&["spec", "conversion", "webhook", "clientConfig", "caBundle"]);
    let condition = if !bundle.is_empty() && ca_bundle_problem(bundle).is_some() {
        let message = "The conversion webhook CABundle is invalid";
        Condition::new("Established", false, "InvalidCABundle", message)
    } else {
        let message = "the initial names have been accepted";
        Condition::new("Established", true, "InitialNamesAccepted", message)
    };
    if !condition.is_in(crd) {
        condition.set(crd, around.now);
    }
}
