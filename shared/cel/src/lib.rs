//! CEL, the expression language, in the environment that Kubernetes gives it.
//!
//! An [`Environment`] compiles a text to a [`Program`] or tells what is wrong with it; a program is evaluated on the values of an
//! [`Activation`] within a [`Budget`]. [`Declared`] is a custom resource's schema as rules see it. Texts, limits and costs are those of cel-go and
//! k8s.io/apiserver 1.36. No I/O, no async; nothing in an expression or document panics, recurses or grows without bound.

pub mod ast;
pub mod checker;
pub mod cost;
pub mod declarations;
pub mod declared;
pub mod environment;
pub mod error;
pub mod escape;
mod interpreter;
mod lexer;
pub mod libraries;
mod macros;
mod number;
mod parser;
pub mod program;
pub mod source;
mod syntax;
pub mod time;
pub mod types;
mod unescape;
pub mod value;
mod walk;

pub use cost::{Estimate, NoSizes, Sizes};
pub use declared::Declared;
pub use environment::{Environment, Types};
pub use error::EvalError;
pub use program::{Activation, Budget, Program};
pub use source::{Issue, Issues};
pub use types::{Fields, ObjectType, Type};
pub use value::Value;
