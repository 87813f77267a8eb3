//! CEL expressions of webhooks and policies.
//!
//! - [`compile`]: which variables an expression has, and what it may come to;
//! - [`evaluate`]: evaluating expressions on a request;
//! - [`checks`]: what `authorizer` is asked, and its answers.
//!
//! Contract: texts, variables and cost limits are those of k8s.io/apiserver 1.36 (`admission/plugin/cel`). Evaluation is
//! synchronous; what an authorizer has to be asked is noted, asked afterwards, and the evaluation is repeated.

pub mod checks;
pub mod compile;
pub mod conditions;
pub mod evaluate;
#[cfg(test)]
mod tests;
