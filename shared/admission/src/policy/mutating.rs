//! MutatingAdmissionPolicy: expressions that say how objects are changed.

use futures_util::future::BoxFuture;
use triptych_cel::Value as Cel;
use triptych_object::{Cause, Gvr, Status, StatusResult, Value, field, meta};
use triptych_registry::admission::{Attributes, Operation, Warnings};
use triptych_schema::decode::Reader;

use super::definition::{Mutation, Policy};
use super::patch::{self, Failure};
use super::{Policies, Selected};
use crate::chain::{Plugin, forbidden};
use crate::expression::checks::Checks;
use crate::expression::conditions::{self, Outcome};
use crate::expression::evaluate::{Evaluation, Input, POLICY_BUDGET};
use crate::matching::Invocation;
use crate::rounds::Rounds;
use crate::webhook::{review, versioned};

const NAME: &str = "MutatingAdmissionPolicy";

/// The plugin.
pub struct MutatingAdmissionPolicy(pub Policies);

/// What went wrong with a policy.
struct PolicyError {
    message: String,
    /// Empty for that of any refusal.
    reason: &'static str,
}

impl Plugin for MutatingAdmissionPolicy {
    fn name(&self) -> &'static str {
        NAME
    }

    fn concerns(&self, _operation: Operation, resource: &Gvr) -> bool {
        !self.0.none(resource)
    }

    fn mutate_in_round<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        mut object: Option<&'a mut Value>,
        old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
        rounds: &'a mut Rounds,
    ) -> BoxFuture<'a, StatusResult<()>> {
        Box::pin(async move {
            let selected = self.0.select(attributes, object.as_deref(), old).await?;
            if selected.is_empty() {
                return Ok(());
            }
            if rounds.is_second() {
                rounds.memory(NAME).begin_second(object.as_deref());
            }
            let mut run = Run {
                attributes,
                old,
                namespace: self.0.namespace(attributes).await?,
                checks: Checks::new(&*self.0.authorizer, attributes),
                errors: Vec::new(),
                mutated: false,
            };
            let mut outcome = Ok(());
            for selected in &selected {
                outcome = run.one(selected, object.as_deref_mut(), rounds).await;
                if outcome.is_err() {
                    break;
                }
            }
            if run.mutated {
                rounds.memory(NAME).changed();
                rounds.want_second();
            }
            let errors = run.errors;
            rounds.memory(NAME).end(object.as_deref());
            outcome?;
            refuse(attributes, object.as_deref(), errors)
        })
    }
}

fn refuse(attributes: &Attributes<'_>, object: Option<&Value>, errors: Vec<PolicyError>) -> StatusResult<()> {
    let Some(first) = errors.first() else {
        return Ok(());
    };
    let mut status = forbidden(attributes, object, "");
    status.message = first.message.clone();
    if !first.reason.is_empty() {
        status.reason = first.reason.into();
    }
    let causes = errors.iter().map(|error| Cause {
        message: error.message.clone(),
        ..Cause::default()
    });
    if let Some(details) = &mut status.details {
        details.causes.extend(causes);
    }
    Err(status)
}

/// All policies of one request in one round.
struct Run<'r> {
    attributes: &'r Attributes<'r>,
    old: Option<&'r Value>,
    namespace: Option<Value>,
    checks: Checks<'r>,
    errors: Vec<PolicyError>,
    /// Some mutation was made, even if nothing is different.
    mutated: bool,
}

impl Run<'_> {
    fn wrong(&mut self, selected: &Selected, why: &str, reason: &'static str) {
        if !selected.policy.fails_closed {
            return;
        }
        let policy = &selected.policy.name;
        let message = match &selected.binding {
            Some(binding) => format!(
                "policy '{policy}' with binding '{}' denied request: {why}",
                binding.name
            ),
            None => format!("policy {} denied request: {why}", field::quote(policy)),
        };
        self.errors.push(PolicyError { message, reason });
    }

    async fn one(
        &mut self,
        selected: &Selected,
        mut object: Option<&mut Value>,
        rounds: &mut Rounds,
    ) -> StatusResult<()> {
        let (shown, params) = match &selected.outcome {
            Ok(outcome) => outcome,
            Err(why) => {
                self.wrong(selected, why, "");
                return Ok(());
            }
        };
        for param in params {
            self.with_param(selected, shown, param.as_ref(), object.as_deref_mut(), rounds)
                .await?;
        }
        Ok(())
    }

    async fn with_param(
        &mut self,
        selected: &Selected,
        shown: &Invocation,
        param: Option<&Value>,
        object: Option<&mut Value>,
        rounds: &mut Rounds,
    ) -> StatusResult<()> {
        let policy = &*selected.policy;
        let old = versioned(self.attributes, shown, self.old)?;
        let mut current = versioned(self.attributes, shown, object.as_deref())?;
        let request = Value::Object(review::told_to_expressions(self.attributes, shown));
        let outcome = {
            let input = self.input(&request, param, current.as_ref(), old.as_ref());
            let check = || match policy.conditions.is_empty() {
                true => Outcome::Match,
                false => conditions::check(&policy.conditions, input, &policy.variables),
            };
            self.checks.settle(check).await
        };
        match outcome {
            Outcome::Match => {}
            Outcome::NoMatch => return Ok(()),
            Outcome::Error(why) => {
                self.wrong(selected, &why, "Invalid");
                return Ok(());
            }
        }
        let key = key(selected, param);
        if rounds.is_second() && !rounds.memory(NAME).runs_again(&key) {
            return Ok(());
        }
        let before = current.clone();
        for mutation in &policy.mutations {
            let Some(seen) = current.as_ref() else {
                break;
            };
            let input = self.input(&request, param, Some(seen), old.as_ref());
            let outcome = self
                .checks
                .settle(|| mutate(policy, mutation, input, self.attributes, shown, seen))
                .await;
            match outcome {
                Ok(changed) => {
                    self.mutated = true;
                    current = Some(self.renewed(shown, changed, mutation.json_patch)?);
                }
                Err(Failure::Policy(why)) => self.wrong(selected, &why, "Invalid"),
                Err(Failure::Request(status)) => return Err(status),
            }
        }
        if current != before {
            rounds.memory(NAME).changed();
            rounds.want_second();
            self.put_back(shown, current, object)?;
        }
        if policy.again {
            rounds.memory(NAME).invoked(&key);
        }
        Ok(())
    }

    fn input<'i>(
        &'i self,
        request: &'i Value,
        params: Option<&'i Value>,
        object: Option<&'i Value>,
        old: Option<&'i Value>,
    ) -> Input<'i> {
        Input {
            object,
            old,
            params,
            request,
            namespace: self.namespace.as_ref(),
            authorizer: Some((&self.checks.own, &self.checks.resource)),
        }
    }

    /// What came out, read and completed as any body is, still as it is shown.
    fn renewed(&self, shown: &Invocation, changed: Value, json_patch: bool) -> StatusResult<Value> {
        let model = self.attributes.model;
        let own = self.attributes.kind.group_version().to_string();
        let other = shown.kind != *self.attributes.kind;
        let mut renewed = match other {
            true => model.convert(&changed, &own).map_err(Status::internal)?,
            false => changed,
        };
        let reader = match json_patch {
            true => Reader::Json(&[]),
            false => Reader::Converter,
        };
        let findings = model.decode(&mut renewed, reader).map_err(Status::internal)?;
        if json_patch && model.bare_items() && !findings.is_empty() {
            let findings = findings.join(", ");
            return Err(Status::internal(format!("strict decoding error: {findings}")));
        }
        model.default(&mut renewed);
        match other {
            true => {
                let version = shown.kind.group_version().to_string();
                model.convert(&renewed, &version).map_err(Status::internal)
            }
            false => Ok(renewed),
        }
    }

    fn put_back(&self, shown: &Invocation, changed: Option<Value>, object: Option<&mut Value>) -> StatusResult<()> {
        if let (Some(changed), Some(object)) = (changed, object) {
            *object = if shown.kind == *self.attributes.kind {
                changed
            } else {
                let own = self.attributes.kind.group_version().to_string();
                self.attributes
                    .model
                    .convert(&changed, &own)
                    .map_err(Status::internal)?
            };
        }
        Ok(())
    }
}

/// By what a policy, its binding and a parameter are known in the second round.
fn key(selected: &Selected, param: Option<&Value>) -> String {
    let binding = selected.binding.as_ref().map(|binding| binding.name.as_str());
    let none = Value::Null;
    let param = param.unwrap_or(&none);
    format!(
        "{}/{}/{}/{}",
        selected.policy.name,
        binding.unwrap_or(""),
        meta::namespace(param),
        meta::name(param)
    )
}

/// The object as one mutation changes it.
fn mutate(
    policy: &Policy,
    mutation: &Mutation,
    input: Input<'_>,
    attributes: &Attributes<'_>,
    shown: &Invocation,
    object: &Value,
) -> Result<Value, Failure> {
    if let Err(why) = &mutation.expression.program {
        return Err(Failure::Policy(why.clone()));
    }
    let mut left = POLICY_BUDGET;
    let evaluation = Evaluation::new(input, &policy.variables);
    let outcome = evaluation
        .run(&mutation.expression, &mut left)
        .map_err(|e| Failure::Policy(e.to_string()))?;
    let made: Cel<'_> = outcome.map_err(Failure::Policy)?;
    match mutation.json_patch {
        true => patch::json_patch(object, &made),
        false => patch::apply(attributes.model, &shown.kind, object, &made),
    }
}
