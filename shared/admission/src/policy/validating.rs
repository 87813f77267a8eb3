//! ValidatingAdmissionPolicy: expressions that must be true.

use std::borrow::Cow;

use futures_util::future::BoxFuture;
use triptych_cel::Value as Cel;
use triptych_object::{Cause, Gvr, StatusResult, Value};
use triptych_registry::admission::{Attributes, Operation, Warnings};

use super::definition::{Policy, Validation};
use super::{Policies, Selected};
use crate::chain::{Plugin, forbidden};
use crate::expression::checks::Checks;
use crate::expression::conditions::{self, Outcome};
use crate::expression::evaluate::{Evaluation, Input, POLICY_BUDGET};
use crate::webhook::{review, versioned};

/// A message that an expression makes may have so many bytes.
const MAX_MESSAGE: usize = 5 * 1024;

/// The plugin.
pub struct ValidatingAdmissionPolicy(pub Policies);

/// Why a policy refuses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Denial {
    message: String,
    /// Empty for the usual one.
    reason: String,
    /// It refuses whatever the binding's actions are.
    always: bool,
}

impl Denial {
    fn error(message: String) -> Denial {
        Denial {
            message,
            ..Denial::default()
        }
    }
}

impl Plugin for ValidatingAdmissionPolicy {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionPolicy"
    }

    fn concerns(&self, _operation: Operation, resource: &Gvr) -> bool {
        !self.0.none(resource)
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        old: Option<&'a Value>,
        warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        Box::pin(async move {
            let selected = self.0.select(attributes, object, old).await?;
            if selected.is_empty() {
                return Ok(());
            }
            let checks = Checks::new(&*self.0.authorizer, attributes);
            let namespace = self.0.namespace(attributes).await;
            let mut first: Option<(String, String)> = None;
            for selected in selected {
                let denials = self
                    .evaluate(&selected, attributes, object, old, &namespace, &checks)
                    .await?;
                let refuses = act(&selected, denials, warnings);
                first = first.or(refuses);
            }
            match first {
                None => Ok(()),
                Some((message, reason)) => Err(refusal(attributes, object, message, reason)),
            }
        })
    }
}

impl ValidatingAdmissionPolicy {
    /// Why a policy refuses, through one of its bindings.
    async fn evaluate(
        &self,
        selected: &Selected,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
        namespace: &StatusResult<Option<Value>>,
        checks: &Checks<'_>,
    ) -> StatusResult<Vec<Denial>> {
        let policy = &*selected.policy;
        let failed = |why: String| match policy.fails_closed {
            true => vec![Denial {
                always: true,
                ..Denial::error(why)
            }],
            false => Vec::new(),
        };
        let (shown, params) = match &selected.outcome {
            Ok(outcome) => outcome,
            Err(why) => return Ok(failed(why.clone())),
        };
        if params.is_empty() {
            return Ok(Vec::new());
        }
        let converted = versioned(attributes, shown, object).and_then(|object| {
            let old = versioned(attributes, shown, old)?;
            Ok((object, old))
        });
        let (object, old) = match converted {
            Ok(converted) => converted,
            Err(status) => {
                let why = format!(
                    "failed to configure binding: failed to convert object version: {}",
                    status.message
                );
                return Ok(failed(why));
            }
        };
        let namespace = namespace.as_ref().map_err(Clone::clone)?;
        let request = Value::Object(review::told_to_expressions(attributes, shown));
        let mut denials = Vec::new();
        for param in params {
            let input = Input {
                object: object.as_ref(),
                old: old.as_ref(),
                params: param.as_ref(),
                request: &request,
                namespace: namespace.as_ref(),
                authorizer: Some((&checks.own, &checks.resource)),
            };
            denials.append(&mut checks.settle(|| judge(policy, input)).await);
        }
        Ok(denials)
    }
}

/// Does with the refusals of a policy what its binding says; the first that refuses the request, with its reason.
fn act(selected: &Selected, denials: Vec<Denial>, warnings: &mut Warnings) -> Option<(String, String)> {
    let policy = &selected.policy.name;
    let mut first = None;
    for denial in denials {
        let Denial {
            message,
            reason,
            always,
        } = denial;
        let Some(binding) = &selected.binding else {
            let text = format!("ValidatingAdmissionPolicy '{policy}' denied request: {message}");
            first = first.or(Some((text, reason)));
            continue;
        };
        let name = &binding.name;
        let does = |action: &str| binding.actions.iter().any(|known| known == action);
        if does("Warn") && !always {
            warnings.push(format!(
                "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{name}': {message}"
            ));
        }
        if does("Deny") || always {
            let text = format!("ValidatingAdmissionPolicy '{policy}' with binding '{name}' denied request: {message}");
            first = first.or(Some((text, reason)));
        }
    }
    first
}

fn refusal(
    attributes: &Attributes<'_>,
    object: Option<&Value>,
    message: String,
    reason: String,
) -> Box<triptych_object::Status> {
    let mut status = forbidden(attributes, object, &message);
    let (code, reason) = match reason.as_str() {
        "" => (422, Cow::Borrowed("Invalid")),
        "Forbidden" => (403, Cow::Owned(reason)),
        "Unauthorized" => (401, Cow::Owned(reason)),
        "RequestEntityTooLarge" => (413, Cow::Owned(reason)),
        _ => (422, Cow::Owned(reason)),
    };
    status.code = code;
    status.reason = reason;
    if let Some(details) = &mut status.details {
        details.causes.push(Cause {
            message,
            ..Cause::default()
        });
    }
    status
}

/// Evaluates a policy: why it refuses.
fn judge(policy: &Policy, input: Input<'_>) -> Vec<Denial> {
    let failed = |why: String| match policy.fails_closed {
        true => vec![Denial::error(why)],
        false => Vec::new(),
    };
    if !policy.conditions.is_empty() {
        match conditions::check(&policy.conditions, input, &policy.variables) {
            Outcome::Match => {}
            Outcome::NoMatch => return Vec::new(),
            Outcome::Error(why) => return failed(why),
        }
    }
    let mut denials = match validations(policy, input) {
        Ok(denials) => denials,
        Err(why) => return failed(why),
    };
    match annotations(policy, input) {
        Ok(mut errors) => denials.append(&mut errors),
        Err(why) => return failed(why),
    }
    denials
}

/// What the validations say; an error if they cost too much.
fn validations(policy: &Policy, input: Input<'_>) -> Result<Vec<Denial>, String> {
    let mut left = POLICY_BUDGET;
    let evaluation = Evaluation::new(input, &policy.variables);
    let mut outcomes = Vec::with_capacity(policy.validations.len());
    for validation in &policy.validations {
        let outcome = evaluation.run(&validation.expression, &mut left);
        outcomes.push(outcome.map_err(|e| e.to_string())?);
    }
    let plain = Input {
        authorizer: None,
        ..input
    };
    let evaluation = Evaluation::new(plain, &policy.variables);
    let mut messages = Vec::with_capacity(policy.validations.len());
    let mut exhausted = None;
    for validation in &policy.validations {
        let message = match (&validation.message_expression, &exhausted) {
            (Some(expression), None) => match evaluation.run(expression, &mut left) {
                Ok(outcome) => outcome.ok(),
                Err(e) => {
                    exhausted = Some(e.to_string());
                    None
                }
            },
            _ => None,
        };
        messages.push(message);
    }
    let mut denials = Vec::new();
    for ((validation, outcome), message) in policy.validations.iter().zip(outcomes).zip(messages) {
        let error = match (&outcome, &exhausted) {
            (Err(why), _) => Some(why.clone()),
            (Ok(_), Some(why)) => Some(format!("failed messageExpression: {why}")),
            (Ok(_), None) => None,
        };
        match error {
            Some(why) if policy.fails_closed => denials.push(Denial::error(why)),
            Some(_) => {}
            None if matches!(outcome, Ok(Cel::Bool(true))) => {}
            None => denials.push(Denial {
                message: told(validation, message.as_ref()),
                reason: validation.reason.clone(),
                always: false,
            }),
        }
    }
    Ok(denials)
}

/// What a validation that does not hold tells.
fn told(validation: &Validation, made: Option<&Cel<'_>>) -> String {
    let made = made.and_then(Cel::as_str).map(str::trim).unwrap_or_default();
    if !made.is_empty() && made.len() <= MAX_MESSAGE && !made.contains('\n') {
        return made.to_owned();
    }
    match validation.message.as_str() {
        "" => format!("failed expression: {}", validation.expression.text.trim()),
        message => message.to_owned(),
    }
}

/// Audit annotations are evaluated for what can go wrong with them; an error if they cost too much.
fn annotations(policy: &Policy, input: Input<'_>) -> Result<Vec<Denial>, String> {
    let plain = Input {
        authorizer: None,
        ..input
    };
    let evaluation = Evaluation::new(plain, &policy.variables);
    let mut left = POLICY_BUDGET;
    let mut denials = Vec::new();
    for expression in &policy.annotations {
        let why = match evaluation.run(expression, &mut left).map_err(|e| e.to_string())? {
            Ok(Cel::String(_) | Cel::Null) => continue,
            Ok(other) => format!(
                "valueExpression '{}' resulted in unsupported return type: {}. Return type must be either string or null.",
                expression.text,
                other.type_name()
            ),
            Err(_) if !policy.fails_closed => continue,
            Err(why) => why,
        };
        denials.push(Denial {
            always: true,
            ..Denial::error(why)
        });
    }
    Ok(denials)
}
