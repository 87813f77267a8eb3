//! Compiling expressions: their variables, and what they may come to.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use triptych_cel::types::ObjectType;
use triptych_cel::{Environment, Fields, Program, Type};

/// Type of the variable `variables`.
const VARIABLES: &str = "kubernetes.variables";

/// Which variables an expression may use besides those that all have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// `params`.
    pub params: bool,
    /// `authorizer` and `authorizer.requestResource`.
    pub authorizer: bool,
    /// `Object{…}` and `JSONPatch{…}`.
    pub patches: bool,
}

/// What an expression must come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// A truth.
    Bool,
    /// A text.
    String,
    /// A text or null.
    StringOrNull,
    /// An `Object`.
    Object,
    /// A list of `JSONPatch`.
    JsonPatches,
    /// Anything.
    Anything,
}

impl Returns {
    fn types(self) -> Vec<Type> {
        let object = |name: &str| Type::Object(Arc::new(ObjectType::named(name)));
        match self {
            Returns::Bool => vec![Type::Bool],
            Returns::String => vec![Type::String],
            Returns::StringOrNull => vec![Type::String, Type::Null],
            Returns::Object => vec![object("Object")],
            Returns::JsonPatches => vec![Type::list(object("JSONPatch"))],
            Returns::Anything => Vec::new(),
        }
    }
}

/// The fields of an object type of which all may be used.
struct AnyField;

impl Fields for AnyField {
    fn field(&self, _name: &str) -> Option<Type> {
        Some(Type::Dyn)
    }
}

struct PatchTypes;

impl triptych_cel::Types for PatchTypes {
    fn find(&self, name: &str) -> Option<Type> {
        if name == "JSONPatch" {
            let text = || Type::String;
            let fields = [("op", text()), ("path", text()), ("from", text()), ("value", Type::Dyn)];
            return Some(object(name, fields));
        }
        let known = name == "Object" || name.starts_with("Object.");
        known.then(|| Type::object(name, AnyField))
    }
}

fn object<const N: usize>(name: &str, fields: [(&str, Type); N]) -> Type {
    let fields: BTreeMap<String, Type> = fields.into_iter().map(|(name, ty)| (name.to_owned(), ty)).collect();
    Type::object(name, fields)
}

fn texts() -> Type {
    Type::list(Type::String)
}

fn request_type() -> Type {
    let text = || Type::String;
    let kind = || {
        let fields = [("group", text()), ("version", text()), ("kind", text())];
        object("kubernetes.GroupVersionKind", fields)
    };
    let resource = || {
        let fields = [("group", text()), ("version", text()), ("resource", text())];
        object("kubernetes.GroupVersionResource", fields)
    };
    let user = object(
        "kubernetes.UserInfo",
        [
            ("username", text()),
            ("uid", text()),
            ("groups", texts()),
            ("extra", Type::map(text(), texts())),
        ],
    );
    object(
        "kubernetes.AdmissionRequest",
        [
            ("kind", kind()),
            ("resource", resource()),
            ("subResource", text()),
            ("requestKind", kind()),
            ("requestResource", resource()),
            ("requestSubResource", text()),
            ("name", text()),
            ("namespace", text()),
            ("operation", text()),
            ("userInfo", user),
            ("dryRun", Type::Bool),
            ("options", Type::Dyn),
        ],
    )
}

fn namespace_type() -> Type {
    let text = || Type::String;
    let labels = || Type::map(text(), text());
    let condition = object(
        "kubernetes.NamespaceCondition",
        [
            ("status", text()),
            ("type", text()),
            ("lastTransitionTime", Type::Timestamp),
            ("message", text()),
            ("reason", text()),
        ],
    );
    let metadata = object(
        "kubernetes.NamespaceMetadata",
        [
            ("name", text()),
            ("generateName", text()),
            ("namespace", text()),
            ("labels", labels()),
            ("annotations", labels()),
            ("UID", text()),
            ("creationTimestamp", Type::Timestamp),
            ("deletionGracePeriodSeconds", Type::Int),
            ("deletionTimestamp", Type::Timestamp),
            ("generation", Type::Int),
            ("resourceVersion", text()),
            ("finalizers", texts()),
        ],
    );
    let spec = object("kubernetes.NamespaceSpec", [("finalizers", texts())]);
    let status = object(
        "kubernetes.NamespaceStatus",
        [("conditions", Type::list(condition)), ("phase", text())],
    );
    object(
        "kubernetes.Namespace",
        [("metadata", metadata), ("spec", spec), ("status", status)],
    )
}

/// What all expressions have; the types never change.
static BASE: LazyLock<Environment> = LazyLock::new(|| {
    Environment::new()
        .variable("object", Type::Dyn)
        .variable("oldObject", Type::Dyn)
        .variable("namespaceObject", namespace_type())
        .variable("request", request_type())
});

/// Compiles the expressions of one webhook or policy.
#[derive(Default)]
pub struct Compiler {
    /// Those compiled so far, if expressions may use variables of the policy.
    variables: Option<BTreeMap<String, Type>>,
}

impl Compiler {
    /// For expressions that may use `variables`.
    pub fn composed() -> Compiler {
        Compiler {
            variables: Some(BTreeMap::new()),
        }
    }

    fn environment(&self, uses: Uses) -> Environment {
        let object = |name: &str| Type::Object(Arc::new(ObjectType::named(name)));
        let mut environment = BASE.clone();
        if uses.params {
            environment = environment.variable("params", Type::Dyn);
        }
        if uses.authorizer {
            environment = environment
                .variable("authorizer", object("kubernetes.authorization.Authorizer"))
                .variable(
                    "authorizer.requestResource",
                    object("kubernetes.authorization.ResourceCheck"),
                );
        }
        if let Some(variables) = &self.variables {
            environment = environment.variable("variables", Type::object(VARIABLES, variables.clone()));
        }
        match uses.patches {
            true => environment.types(Arc::new(PatchTypes)),
            false => environment.without(&["string_jsonpatch_escapeKey_string"]),
        }
    }

    /// Compiles an expression, or tells why it cannot be.
    pub fn compile(&self, text: &str, uses: Uses, returns: Returns) -> Result<Program, String> {
        let program = self
            .environment(uses)
            .compile(text)
            .map_err(|issues| format!("compilation failed: {issues}"))?;
        let wanted = returns.types();
        let output = program.output_type();
        if !wanted.is_empty() && !wanted.contains(output) {
            let got = go_type(output);
            let wanted: Vec<String> = wanted.iter().map(go_type).collect();
            return Err(match wanted.as_slice() {
                [one] => format!("must evaluate to {one} but got {got}"),
                several => format!("must evaluate to one of [{}] but got {got}", several.join(" ")),
            });
        }
        match program.instantiation_error() {
            Some(why) => Err(format!("program instantiation failed: {why}")),
            None => Ok(program),
        }
    }

    /// Compiles a variable, which later expressions may use.
    pub fn variable(&mut self, name: &str, text: &str, uses: Uses) -> Result<Program, String> {
        let compiled = self.compile(text, uses, Returns::Anything);
        let ty = compiled
            .as_ref()
            .map_or(Type::Dyn, |program| declared(program.output_type()));
        if let Some(variables) = &mut self.variables {
            variables.insert(name.to_owned(), ty);
        }
        compiled
    }
}

/// The type of a variable: of objects nothing is known any more.
fn declared(ty: &Type) -> Type {
    match ty {
        Type::List(item) => Type::list(declared(item)),
        Type::Map(pair) => Type::map(declared(&pair.0), declared(&pair.1)),
        Type::Bool
        | Type::Bytes
        | Type::Double
        | Type::Duration
        | Type::Int
        | Type::Null
        | Type::String
        | Type::Timestamp
        | Type::Uint => ty.clone(),
        _ => Type::Dyn,
    }
}

/// A type as cel-go's `Type.String` writes it.
fn go_type(ty: &Type) -> String {
    let parameters: Vec<String> = ty.parameters().into_iter().map(go_type).collect();
    match parameters.is_empty() {
        true => ty.name().to_owned(),
        false => format!("{}({})", ty.name(), parameters.join(", ")),
    }
}
