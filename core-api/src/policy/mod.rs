//! policy/v1: disruption budgets.

mod disruption_budget;

use crate::kinds::Kinds;

/// Gives the kinds of this group their strategies.
pub fn register(kinds: &mut Kinds) {
    kinds.strategy("policy", "poddisruptionbudgets", disruption_budget::DisruptionBudgets);
    kinds.subresource("policy", "poddisruptionbudgets", "status", disruption_budget::Status);
}
