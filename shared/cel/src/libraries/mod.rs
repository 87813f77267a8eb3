//! The functions of CEL's and Kubernetes' libraries.
//!
//! Contract: what no overload takes is refused with cel-go's text. No function's result can grow without bound: what would be longer than
//! [`MAX_RESULT`] is refused before it is made.

pub mod authorization;
mod declared;
mod format;
mod formats;
mod lists;
mod network;
mod optional;
mod quantity;
mod regex_functions;
mod semver;
mod standard;
mod strings;
mod url;

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use regex::Regex;
use triptych_object::Quantity;
use triptych_schema::go_regex;

use crate::error::EvalError;
use crate::types::{ObjectType, Type};
use crate::value::{Found, Value};

pub use authorization::{Authorizer, Check, Decision, Target};
pub(crate) use format::check_literal as check_format;
pub use formats::NamedFormat;
pub use network::Cidr;
pub use semver::Version;
pub use url::Url;

/// All declarations.
pub const DECLARATIONS: [&str; 5] = [
    declared::STANDARD,
    declared::OPTIONAL,
    declared::STRINGS,
    declared::LISTS,
    declared::KUBERNETES,
];

/// Bytes of a text, or items of a list, that a function may make.
const MAX_RESULT: usize = 16 << 20;

/// A value of one of Kubernetes' libraries.
#[derive(Clone, Debug)]
pub enum Extension {
    /// `url(…)`
    Url(Arc<Url>),
    /// `quantity(…)`
    Quantity(Arc<Quantity>),
    /// `ip(…)`
    Ip(IpAddr),
    /// `cidr(…)`
    Cidr(Cidr),
    /// `semver(…)`
    Semver(Arc<Version>),
    /// `format.named(…)`
    Format(NamedFormat),
    /// `authorizer` and what is asked of it.
    Authorization(Arc<authorization::Step>),
}

impl Extension {
    pub(crate) fn type_of(&self) -> Type {
        let object = |name: &str| Type::Object(Arc::new(ObjectType::named(name)));
        match self {
            Extension::Url(_) => object("kubernetes.URL"),
            Extension::Quantity(_) => object("kubernetes.Quantity"),
            Extension::Semver(_) => object("kubernetes.Semver"),
            Extension::Format(_) => object("kubernetes.NamedFormat"),
            Extension::Authorization(step) => object(step.type_name()),
            Extension::Ip(_) => Type::Opaque("net.IP".into(), Arc::new([])),
            Extension::Cidr(_) => Type::Opaque("net.CIDR".into(), Arc::new([])),
        }
    }

    pub(crate) fn size(&self) -> Option<u64> {
        match self {
            Extension::Ip(ip) => Some(if ip.is_ipv4() { 4 } else { 16 }),
            Extension::Cidr(cidr) => Some(if cidr.address.is_ipv4() { 4 } else { 16 }),
            _ => None,
        }
    }

    pub(crate) fn equals(&self, other: &Extension) -> bool {
        match (self, other) {
            (Extension::Url(a), Extension::Url(b)) => a.to_string() == b.to_string(),
            (Extension::Quantity(a), Extension::Quantity(b)) => (**a).cmp(&**b).is_eq(),
            (Extension::Ip(a), Extension::Ip(b)) => a == b,
            (Extension::Cidr(a), Extension::Cidr(b)) => a == b,
            (Extension::Semver(a), Extension::Semver(b)) => a.precedence(b).is_eq(),
            (Extension::Format(a), Extension::Format(b)) => a.name() == b.name(),
            _ => false,
        }
    }
}

impl fmt::Display for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extension::Url(url) => write!(f, "{url}"),
            Extension::Quantity(quantity) => write!(f, "{quantity}"),
            Extension::Ip(ip) => write!(f, "{ip}"),
            Extension::Cidr(cidr) => write!(f, "{cidr}"),
            Extension::Semver(version) => write!(f, "{version}"),
            Extension::Format(format) => f.write_str(format.name()),
            Extension::Authorization(step) => f.write_str(step.type_name()),
        }
    }
}

/// What functions need besides their arguments.
pub(crate) struct Context<'c> {
    /// Patterns known before.
    pub patterns: &'c HashMap<Arc<str>, Regex>,
    /// Patterns met while evaluating.
    pub made: &'c mut HashMap<String, Regex>,
    /// What is left of the budget.
    pub left: u64,
    /// The overload, if only one fits.
    pub overload: &'c str,
}

impl Context<'_> {
    fn pattern(&mut self, text: &str) -> Result<Regex, String> {
        if let Some(regex) = self.patterns.get(text).or_else(|| self.made.get(text)) {
            return Ok(regex.clone());
        }
        let regex = go_regex::compile(text)?;
        // A rule that makes ever new patterns gains nothing from keeping them.
        if self.made.len() < 64 {
            self.made.insert(text.to_owned(), regex.clone());
        }
        Ok(regex)
    }
}

/// Calls a function.
pub(crate) fn call<'a>(function: &str, context: &mut Context<'_>, args: &[Value<'a>]) -> Found<'a> {
    let found = standard::call(function, args)
        .or_else(|| optional::call(function, args))
        .or_else(|| strings::call(function, args))
        .or_else(|| regex_functions::call(function, context, args))
        .or_else(|| lists::call(function, context, args))
        .or_else(|| url::call(function, args))
        .or_else(|| quantity::call(function, args))
        .or_else(|| network::call(function, args))
        .or_else(|| semver::call(function, args))
        .or_else(|| formats::call(function, args))
        .or_else(|| authorization::call(function, args));
    found.unwrap_or_else(|| Err(no_overload(function, args)))
}

/// Converts a value; none of the conversions needs anything besides it.
pub(crate) fn convert(function: &str, value: Value<'static>) -> Found<'static> {
    let args = [value];
    standard::call(function, &args).unwrap_or_else(|| Err(no_overload(function, &args)))
}

/// What is said of arguments that no overload takes.
fn no_overload(function: &str, args: &[Value<'_>]) -> EvalError {
    let types: Vec<String> = args.iter().map(Value::type_name).collect();
    EvalError::new(format!("no such overload: {function}({})", types.join(", ")))
}

fn too_long() -> EvalError {
    EvalError::new("result of function is too long")
}
