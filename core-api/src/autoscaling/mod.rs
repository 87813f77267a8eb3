//! autoscaling: HorizontalPodAutoscaler, stored as v2; v1 keeps what it cannot say in annotations.

mod cells;
mod convert;
mod metrics;
mod strategy;

use crate::kinds::Kinds;

/// Gives the kinds of this group their strategies.
pub fn register(kinds: &mut Kinds) {
    const HPA: &str = "horizontalpodautoscalers";
    kinds.versioned("autoscaling", "v1", HPA, strategy::V1);
    kinds.versioned_subresource("autoscaling", "v1", HPA, "status", strategy::V1Status);
    kinds.versioned("autoscaling", "v2", HPA, strategy::V2);
    kinds.versioned_subresource("autoscaling", "v2", HPA, "status", strategy::V2Status);
    kinds.conversion("autoscaling", "v1", HPA, convert::Convert);
}
