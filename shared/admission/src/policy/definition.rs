//! Policies and their bindings, compiled once per change.

use triptych_object::selector::LabelSelector;
use triptych_object::{GroupVersion, Gvk, Value, meta};

use crate::expression::compile::{Compiler, Returns, Uses};
use crate::expression::conditions;
use crate::expression::evaluate::{Compiled, Variable};
use crate::matching::Criteria;

/// A ValidatingAdmissionPolicy or MutatingAdmissionPolicy.
pub struct Policy {
    /// Its name.
    pub name: String,
    /// What it wants to see.
    pub criteria: Criteria,
    /// What cannot be told refuses the request.
    pub fails_closed: bool,
    /// The kind of its parameters, as it is written, and read.
    pub param_kind: Option<ParamKind>,
    /// Must hold for it to be asked.
    pub conditions: Vec<Compiled>,
    /// Its named expressions.
    pub variables: Vec<Variable>,
    /// What it demands.
    pub validations: Vec<Validation>,
    /// What it would tell the audit log.
    pub annotations: Vec<Compiled>,
    /// What it changes.
    pub mutations: Vec<Mutation>,
    /// It wants to see what was changed after it.
    pub again: bool,
}

/// The kind of a policy's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamKind {
    /// Group, version, kind.
    pub kind: Gvk,
    /// As Go prints the struct.
    pub shown: String,
}

/// One demand of a policy.
pub struct Validation {
    /// Must be true.
    pub expression: Compiled,
    /// What is told otherwise.
    pub message: String,
    /// What is told otherwise, if it comes to a text.
    pub message_expression: Option<Compiled>,
    /// The reason of the refusal; empty for the usual one.
    pub reason: String,
}

/// One change that a policy makes.
pub struct Mutation {
    /// A JSON patch, else an applied configuration.
    pub json_patch: bool,
    /// Comes to the patch.
    pub expression: Compiled,
}

/// A binding.
pub struct Binding {
    /// Its name.
    pub name: String,
    /// The policy's name.
    pub policy: String,
    /// What of that which the policy wants to see; everything if it does not say.
    pub criteria: Option<Criteria>,
    /// Where the parameters are.
    pub params: Option<ParamRef>,
    /// What is done with who fails: `Deny`, `Warn`, `Audit`.
    pub actions: Vec<String>,
}

/// Where parameters are.
pub struct ParamRef {
    /// Empty for the request's own.
    pub namespace: String,
    /// Empty if a selector says which.
    pub name: String,
    /// Which, if no name does.
    pub selector: LabelSelector,
    /// None at all is an error.
    pub must_exist: bool,
}

impl Policy {
    /// Reads and compiles a policy.
    pub fn of(policy: &Value) -> Policy {
        let none = Value::Null;
        let spec = policy.get("spec").unwrap_or(&none);
        let list = |member: &str| spec.array_at(&[member]).iter();
        let param_kind = spec.get("paramKind").filter(|kind| !kind.is_null()).map(param_kind);
        let uses = Uses {
            params: param_kind.is_some(),
            authorizer: true,
            patches: false,
        };
        let mut compiler = Compiler::composed();
        let variables = list("variables")
            .map(|variable| variable_of(variable, &mut compiler, uses))
            .collect();
        let compile = |text: &str, uses: Uses, returns: Returns| Compiled {
            text: text.to_owned(),
            program: compiler.compile(text, uses, returns),
        };
        let validations = list("validations").map(|validation| {
            let message = validation.str_at(&["messageExpression"]);
            let plain = Uses {
                authorizer: false,
                ..uses
            };
            Validation {
                expression: compile(validation.str_at(&["expression"]), uses, Returns::Bool),
                message: validation.str_at(&["message"]).trim().to_owned(),
                message_expression: (!message.is_empty()).then(|| compile(message, plain, Returns::String)),
                reason: validation.str_at(&["reason"]).to_owned(),
            }
        });
        let annotations = list("auditAnnotations")
            .map(|annotation| compile(annotation.str_at(&["valueExpression"]), uses, Returns::StringOrNull));
        let mutations = list("mutations").map(|mutation| {
            let json_patch = mutation.str_at(&["patchType"]) == "JSONPatch";
            let (member, returns) = match json_patch {
                true => ("jsonPatch", Returns::JsonPatches),
                false => ("applyConfiguration", Returns::Object),
            };
            let uses = Uses { patches: true, ..uses };
            Mutation {
                json_patch,
                expression: compile(mutation.str_at(&[member, "expression"]), uses, returns),
            }
        });
        let conditions = list("matchConditions").map(|condition| condition.str_at(&["expression"]));
        Policy {
            name: meta::name(policy).to_owned(),
            criteria: Criteria::of_policy(spec.get("matchConstraints")),
            fails_closed: spec.str_at(&["failurePolicy"]) != "Ignore",
            conditions: conditions::compile(&compiler, conditions, uses.params),
            validations: validations.collect(),
            annotations: annotations.collect(),
            mutations: mutations.collect(),
            again: spec.str_at(&["reinvocationPolicy"]) == "IfNeeded",
            param_kind,
            variables,
        }
    }
}

fn variable_of(variable: &Value, compiler: &mut Compiler, uses: Uses) -> Variable {
    let (name, text) = (variable.str_at(&["name"]), variable.str_at(&["expression"]));
    Variable {
        name: name.to_owned(),
        expression: Compiled {
            text: text.to_owned(),
            program: compiler.variable(name, text, uses),
        },
    }
}

fn param_kind(kind: &Value) -> ParamKind {
    let (api_version, name) = (kind.str_at(&["apiVersion"]), kind.str_at(&["kind"]));
    let version: GroupVersion = api_version.parse().unwrap_or_default();
    ParamKind {
        kind: version.kind(name),
        shown: format!("&ParamKind{{APIVersion:{api_version},Kind:{name},}}"),
    }
}

impl Binding {
    /// Reads a binding.
    pub fn of(binding: &Value) -> Binding {
        let actions = binding
            .array_at(&["spec", "validationActions"])
            .iter()
            .filter_map(Value::as_str);
        let given = |member: &str| binding.at(&["spec", member]).filter(|value| !value.is_null());
        Binding {
            name: meta::name(binding).to_owned(),
            policy: binding.str_at(&["spec", "policyName"]).to_owned(),
            criteria: given("matchResources").map(|resources| Criteria::of_policy(Some(resources))),
            params: given("paramRef").map(|reference| ParamRef {
                namespace: reference.str_at(&["namespace"]).to_owned(),
                name: reference.str_at(&["name"]).to_owned(),
                selector: LabelSelector::of(reference.get("selector")),
                must_exist: reference.str_at(&["parameterNotFoundAction"]) == "Deny",
            }),
            actions: actions.map(str::to_owned).collect(),
        }
    }
}
