//! ValidatingAdmissionPolicy and MutatingAdmissionPolicy.

use std::collections::HashSet;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use triptych_admission::expression::compile::{Compiler, Returns, Uses};
use triptych_cel::escape::is_reserved;
use triptych_object::field::ErrorList;
use triptych_object::{StatusResult, Value, meta, names};
use triptych_registry::age::age;
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::strategy::{Context, Reservation, Strategy};

use super::matching::{
    FAILURE_POLICIES, REINVOCATION_POLICIES, compiles, match_conditions, match_resources, param_kind,
};
use super::param_access::ParamAccess;
use super::warn_of_static_name;
use crate::validation::conditions::conditions;
use crate::validation::{Cursor, check, names as rules};

const MAX_AUDIT_ANNOTATIONS: usize = 20;
const MAX_VALUE_EXPRESSION_BYTES: usize = 5 * 1024;
const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];

/// What a policy, or its binding, does with requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Changes the object.
    Mutates,
    /// Admits or refuses.
    Validates,
}

/// The strategy of `mutatingadmissionpolicies` or `validatingadmissionpolicies`.
pub struct Policies(pub Does, pub ParamAccess);

/// The strategy of `validatingadmissionpolicies/status`.
pub struct Status;

impl Strategy for Policies {
    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |policy| self.spec(policy.field("spec"), false));
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        let same = |member: &str| new.at(&["spec", member]) == old.at(&["spec", member]);
        let same_conditions = same("paramKind") && same("matchConditions");
        check(new, errors, |policy| {
            self.spec(policy.field("spec"), same_conditions);
        });
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Whole
    }

    fn standard_finalizers(&self) -> bool {
        false
    }

    fn warnings(&self, _cx: &Context, new: &Value, _old: Option<&Value>) -> Vec<String> {
        warn_of_static_name(new)
    }

    fn reserve<'a>(
        &'a self,
        cx: &'a Context,
        new: &'a mut Value,
        old: Option<&'a Value>,
    ) -> BoxFuture<'a, StatusResult<Option<Box<dyn Reservation>>>> {
        Box::pin(async move {
            self.1.check_policy(&cx.user, new, old).await?;
            Ok(None)
        })
    }

    fn cells(&self, policy: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let list = match self.0 {
            Does::Mutates => "mutations",
            Does::Validates => "validations",
        };
        let kind = policy.at(&["spec", "paramKind"]);
        let kind = kind.map(|k| format!("{}/{}", k.str_at(&["apiVersion"]), k.str_at(&["kind"])));
        Some(vec![
            meta::name(policy).into(),
            Value::Int(policy.array_at(&["spec", list]).len() as i64),
            kind.unwrap_or_else(|| "<unset>".into()).into(),
            age(policy, now).into(),
        ])
    }
}

impl Strategy for Status {
    fn validate_update(&self, _cx: &Context, new: &Value, _old: &Value, errors: &mut ErrorList) {
        check(new, errors, |policy| {
            let status = policy.field("status");
            for warning in status.field("typeChecking").field("expressionWarnings").items() {
                rules::required(warning.field("warning"));
                let reference = warning.field("fieldRef");
                if reference.str().trim().is_empty() {
                    reference.required("");
                }
            }
            conditions(status.field("conditions"));
        });
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::None
    }

    fn standard_finalizers(&self) -> bool {
        false
    }
}

impl Policies {
    fn spec(&self, spec: Cursor<'_>, same_conditions: bool) {
        let failure = spec.field("failurePolicy");
        match failure.exists() {
            true => rules::one_of(failure, &FAILURE_POLICIES),
            false => failure.required(""),
        }
        if let Some(kind) = spec.given("paramKind") {
            param_kind(kind);
        }
        let constraints = spec.field("matchConstraints");
        if constraints.exists() {
            match_resources(constraints, self.0 == Does::Mutates);
            if constraints.field("resourceRules").is_empty() {
                constraints.field("resourceRules").required("");
            }
        } else {
            constraints.required("");
        }
        if !same_conditions {
            match_conditions(spec.field("matchConditions"), spec.given("paramKind").is_some());
        }
        let variables = spec.field("variables");
        // without variables there is nothing of the name `variables`, except in mutations
        let mut compiler = match self.0 == Does::Mutates || !variables.is_empty() {
            true => Compiler::composed(),
            false => Compiler::default(),
        };
        let uses = Uses {
            params: spec.given("paramKind").is_some(),
            authorizer: true,
            patches: false,
        };
        variables.items().for_each(|item| variable(item, &mut compiler, uses));
        match self.0 {
            Does::Validates => validates(spec, &compiler, uses),
            Does::Mutates => mutates(spec, &compiler, uses),
        }
    }
}

fn is_blank(c: Cursor<'_>) -> bool {
    c.str().trim().is_empty()
}

fn variable(variable: Cursor<'_>, compiler: &mut Compiler, uses: Uses) {
    let (name, expression) = (variable.field("name"), variable.field("expression"));
    if is_blank(name) {
        name.required("name is not specified");
    } else if !is_cel_identifier(name.str()) {
        name.invalid(name.str(), "must be a valid CEL identifier");
    }
    if is_blank(expression) {
        expression.required("expression is not specified");
    } else {
        let text = expression.str();
        compiles(expression, text, compiler.variable(name.str(), text, uses));
    }
}

fn is_cel_identifier(text: &str) -> bool {
    let mut bytes = text.bytes();
    let first = bytes.next().is_some_and(|b| b == b'_' || b.is_ascii_alphabetic());
    first && bytes.all(|b| b == b'_' || b.is_ascii_alphanumeric()) && !is_reserved(text)
}

fn validates(spec: Cursor<'_>, compiler: &Compiler, uses: Uses) {
    const ONE: &str = "validations or auditAnnotations must contain at least one item";
    let (validations, annotations) = (spec.field("validations"), spec.field("auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        validations.required(ONE);
        annotations.required(ONE);
        return;
    }
    validations.items().for_each(|item| validation(item, compiler, uses));
    if annotations.len() > MAX_AUDIT_ANNOTATIONS {
        let detail = format!("must not have more than {MAX_AUDIT_ANNOTATIONS} auditAnnotations");
        annotations.invalid(annotations.go_struct(), detail);
    }
    let mut seen = HashSet::new();
    for annotation in annotations.items() {
        audit_annotation(annotation, compiler, uses);
        let key = annotation.field("key");
        if !seen.insert(key.str()) {
            key.duplicate(key.str());
        }
    }
}

fn validation(validation: Cursor<'_>, compiler: &Compiler, uses: Uses) {
    const NOT_BLANK: &str = "must be non-empty if specified";
    let checked = validation.field("expression");
    if is_blank(checked) {
        checked.required("expression is not specified");
    } else {
        let text = checked.str();
        compiles(checked, text, compiler.compile(text, uses, Returns::Bool));
    }
    let (message, expression) = (validation.field("message"), validation.field("messageExpression"));
    if !expression.is_empty() && is_blank(expression) {
        expression.invalid(expression.str(), NOT_BLANK);
    } else if !expression.is_empty() {
        let (text, uses) = (
            expression.str(),
            Uses {
                authorizer: false,
                ..uses
            },
        );
        compiles(expression, text, compiler.compile(text, uses, Returns::String));
    }
    if !message.is_empty() && is_blank(message) {
        message.invalid(message.str(), NOT_BLANK);
    } else if message.str().trim().contains(['\n', '\r']) {
        message.invalid(message.str(), "must not contain line breaks");
    }
    rules::optional_one_of(validation.field("reason"), &REASONS);
}

fn audit_annotation(annotation: Cursor<'_>, compiler: &Compiler, uses: Uses) {
    let (key, expression) = (annotation.field("key"), annotation.field("valueExpression"));
    let policy = meta::name(annotation.root());
    if policy.is_empty() {
        key.invalid(key.str(), "requires metadata.name be non-empty");
    } else {
        let whole = format!("{policy}/{}", key.str());
        for message in names::qualified_name(&whole) {
            key.invalid(whole.as_str(), message);
        }
    }
    let trimmed = expression.str().trim();
    if trimmed.is_empty() {
        expression.required("valueExpression is not specified");
    } else if trimmed.len() > MAX_VALUE_EXPRESSION_BYTES {
        expression.required(format!("must not exceed {MAX_VALUE_EXPRESSION_BYTES} bytes in length"));
    } else {
        let compiled = compiler.compile(trimmed, uses, Returns::StringOrNull);
        compiles(expression, expression.str(), compiled);
    }
}

fn mutates(spec: Cursor<'_>, compiler: &Compiler, uses: Uses) {
    let mutations = spec.field("mutations");
    if mutations.is_empty() {
        mutations.required("mutations must contain at least one item");
    }
    let uses = Uses { patches: true, ..uses };
    mutations.items().for_each(|item| mutation(item, compiler, uses));
    rules::required_one_of(spec.field("reinvocationPolicy"), &REINVOCATION_POLICIES);
}

fn mutation(mutation: Cursor<'_>, compiler: &Compiler, uses: Uses) {
    let kind = mutation.field("patchType");
    let (wanted, other, returns) = match kind.str() {
        "" => return kind.required(""),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", Returns::Object),
        "JSONPatch" => ("jsonPatch", "applyConfiguration", Returns::JsonPatches),
        _ => return kind.not_supported(&["ApplyConfiguration", "JSONPatch"]),
    };
    match mutation.given(wanted) {
        Some(patch) if is_blank(patch.field("expression")) => patch.field("expression").required(""),
        Some(patch) => {
            let expression = patch.field("expression");
            let text = expression.str().trim();
            compiles(expression, text, compiler.compile(text, uses, returns));
        }
        None => mutation
            .field(wanted)
            .required(format!("must be specified when patchType is {}", kind.str())),
    }
    if let Some(other_patch) = mutation.given(other) {
        let detail = format!("must not be specified when patchType is {}", kind.str());
        other_patch.invalid(format!("{{{other}}}"), detail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_words_are_no_identifiers() {
        assert!(is_cel_identifier("_a1"));
        for bad in ["", "1a", "a-b", "in", "namespace"] {
            assert!(!is_cel_identifier(bad), "{bad}");
        }
    }
}
