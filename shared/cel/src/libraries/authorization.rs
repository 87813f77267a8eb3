//! `authorizer`: asking, in an expression, what the requesting user or a service account may do.
//!
//! Contract: an expression only asks; an [`Authorizer`] answers. It is called while evaluating, so that an answer that takes time is the
//! business of who implements it.

use std::fmt;
use std::sync::Arc;

use triptych_object::names;

use super::Extension;
use crate::error::EvalError;
use crate::value::{Found, Value};

/// Answers what somebody may do.
pub trait Authorizer: Send + Sync {
    /// Decides a check; an `Err` ends the evaluation with that error.
    fn authorize(&self, check: &Check) -> Result<Decision, EvalError>;
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Check {
    /// Namespace and name of the service account that is asked about; `None` for who made the request.
    pub service_account: Option<(String, String)>,
    /// The verb.
    pub verb: String,
    /// What it is to be done to.
    pub target: Target,
}

/// What something is to be done to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// A path that is no resource's.
    Path(String),
    /// A resource, in any version.
    Resource {
        /// Its group.
        group: String,
        /// Its plural name.
        resource: String,
        /// Its subresource.
        subresource: String,
        /// The object's namespace.
        namespace: String,
        /// The object's name.
        name: String,
        /// Which objects, by field; not parsed yet.
        field_selector: String,
        /// Which objects, by label; not parsed yet.
        label_selector: String,
    },
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether it is allowed.
    pub allowed: bool,
    /// Why.
    pub reason: String,
    /// What went wrong when deciding.
    pub error: Option<String>,
}

/// A step on the way to an answer.
#[derive(Clone)]
pub struct Step {
    authorizer: Arc<dyn Authorizer>,
    service_account: Option<(String, String)>,
    state: State,
}

#[derive(Clone)]
enum State {
    Authorizer,
    Group(String),
    Target(Target),
    Decision(Decision),
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.type_name())
    }
}

impl Step {
    /// The variable `authorizer`.
    pub fn authorizer(authorizer: Arc<dyn Authorizer>) -> Step {
        Step {
            authorizer,
            service_account: None,
            state: State::Authorizer,
        }
    }

    /// The variable `authorizer.requestResource`.
    pub fn resource(authorizer: Arc<dyn Authorizer>, target: Target) -> Step {
        Step {
            authorizer,
            service_account: None,
            state: State::Target(target),
        }
    }

    /// This step as a value.
    pub fn value<'a>(self) -> Value<'a> {
        Value::Extension(Extension::Authorization(Arc::new(self)))
    }

    pub(crate) fn type_name(&self) -> &'static str {
        match &self.state {
            State::Authorizer => "kubernetes.authorization.Authorizer",
            State::Group(_) => "kubernetes.authorization.GroupCheck",
            State::Target(Target::Path(_)) => "kubernetes.authorization.PathCheck",
            State::Target(Target::Resource { .. }) => "kubernetes.authorization.ResourceCheck",
            State::Decision(_) => "kubernetes.authorization.Decision",
        }
    }

    fn with<'a>(&self, state: State) -> Value<'a> {
        Step { state, ..self.clone() }.value()
    }

    fn service_account<'a>(&self, namespace: &str, name: &str) -> Found<'a> {
        if !names::dns1123_subdomain(name).is_empty() {
            return Err(EvalError::new("Invalid service account name"));
        }
        if !names::dns1123_label(namespace).is_empty() {
            return Err(EvalError::new("Invalid service account namespace"));
        }
        Ok(Step {
            service_account: Some((namespace.to_owned(), name.to_owned())),
            ..self.clone()
        }
        .value())
    }

    fn narrowed<'a>(&self, function: &str, target: &Target, text: &str) -> Option<Found<'a>> {
        let mut target = target.clone();
        let Target::Resource {
            subresource,
            namespace,
            name,
            field_selector,
            label_selector,
            ..
        } = &mut target
        else {
            return None;
        };
        let place = match function {
            "subresource" => subresource,
            "namespace" => namespace,
            "name" => name,
            "fieldSelector" => field_selector,
            "labelSelector" => label_selector,
            _ => return None,
        };
        *place = text.to_owned();
        Some(Ok(self.with(State::Target(target))))
    }

    fn check<'a>(&self, target: &Target, verb: &str) -> Found<'a> {
        let check = Check {
            service_account: self.service_account.clone(),
            verb: verb.to_owned(),
            target: target.clone(),
        };
        self.authorizer
            .authorize(&check)
            .map(|decision| self.with(State::Decision(decision)))
    }
}

/// Calls a function if it is one of these.
pub fn call<'a>(function: &str, args: &[Value<'a>]) -> Option<Found<'a>> {
    let (Value::Extension(Extension::Authorization(step)), rest) = args.split_first()? else {
        return None;
    };
    let empty = |what: &str| Some(Err(EvalError::new(format!("{what} must not be empty"))));
    match (&step.state, function, rest) {
        (State::Authorizer, "path", [Value::String(path)]) => match path.trim().is_empty() {
            true => empty("path"),
            false => Some(Ok(step.with(State::Target(Target::Path((**path).to_owned()))))),
        },
        (State::Authorizer, "group", [Value::String(group)]) => Some(Ok(step.with(State::Group((**group).to_owned())))),
        (State::Authorizer, "serviceAccount", [Value::String(namespace), Value::String(name)]) => {
            Some(step.service_account(namespace, name))
        }
        (State::Group(group), "resource", [Value::String(resource)]) => match resource.trim().is_empty() {
            true => empty("resource"),
            false => Some(Ok(step.with(State::Target(Target::Resource {
                group: group.clone(),
                resource: (**resource).to_owned(),
                subresource: String::new(),
                namespace: String::new(),
                name: String::new(),
                field_selector: String::new(),
                label_selector: String::new(),
            })))),
        },
        (State::Target(target), "check", [Value::String(verb)]) => Some(step.check(target, verb)),
        (State::Target(target), _, [Value::String(text)]) => step.narrowed(function, target, text),
        (State::Decision(decision), _, []) => Some(Ok(match function {
            "errored" => Value::Bool(decision.error.is_some()),
            "error" => Value::string(decision.error.clone().unwrap_or_default()),
            "allowed" => Value::Bool(decision.allowed),
            "reason" => Value::string(decision.reason.clone()),
            _ => return None,
        })),
        _ => None,
    }
}
