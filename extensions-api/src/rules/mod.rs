//! CEL rules of custom resources, `x-kubernetes-validations` (KEP-2876): compiled when a CRD is written or taken into service, evaluated
//! when its objects are written.
//!
//! [`compile`] is one rule, [`Validator`] all rules of a schema, [`correlate`] tells which part of the old object a part of the new one was.

mod compile;
mod correlate;
mod evaluate;
#[cfg(test)]
mod tests;

pub use compile::{Compiled, Rule, compile};
pub use evaluate::{BUDGET, Validator};
