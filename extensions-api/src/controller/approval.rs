//! Approval of CRDs in Kubernetes' own groups: condition KubernetesAPIApprovalPolicyConformant.

use triptych_object::Value;

use super::Surroundings;
use crate::definition::approval::{self, Approval};
use crate::definition::conditions::Condition;

/// Sets the condition for CRDs of protected groups.
pub fn step(crd: &mut Value, around: &Surroundings<'_>) {
    if !approval::is_protected(crd.str_at(&["spec", "group"])) {
        return;
    }
    let (state, message) = approval::state(crd);
    let (holds, reason) = match state {
        Approval::Invalid => (false, "InvalidAnnotation"),
        Approval::Missing => (false, "MissingAnnotation"),
        Approval::Approved => (true, "ApprovedAnnotation"),
        Approval::Bypassed => (false, "UnapprovedAnnotation"),
    };
    let condition = Condition::new("KubernetesAPIApprovalPolicyConformant", holds, reason, message);
    if !condition.is_in(crd) {
        condition.set(crd, around.now);
    }
}
