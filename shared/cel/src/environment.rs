//! What expressions are compiled with: variables, types, and the functions of Kubernetes' libraries.
//!
//! Contract: the functions are those of the base environment of Kubernetes 1.36. An environment is built once and may compile any number of
//! expressions; it is cheap to extend.

use std::sync::{Arc, LazyLock};

use crate::checker;
use crate::declarations::Functions;
use crate::libraries;
use crate::parser;
use crate::program::Program;
use crate::source::{Issues, Source};
use crate::types::Type;

/// Finds types by name: those of structs that expressions may make.
pub trait Types: Send + Sync {
    /// The type with this full name.
    fn find(&self, name: &str) -> Option<Type>;
}

/// What expressions are compiled with.
#[derive(Clone)]
pub struct Environment {
    pub(crate) functions: &'static Functions,
    variables: Arc<Vec<(Arc<str>, Type)>>,
    types: Option<Arc<dyn Types>>,
    disabled: Arc<[&'static str]>,
    bindings: bool,
}

/// The declarations never change: they are read once.
static FUNCTIONS: LazyLock<Functions> = LazyLock::new(|| {
    let mut functions = Functions::default();
    for text in libraries::DECLARATIONS {
        functions.declare(text);
    }
    functions
});

impl Default for Environment {
    fn default() -> Self {
        Environment::new()
    }
}

impl Environment {
    /// Kubernetes' base environment, without variables.
    pub fn new() -> Environment {
        Environment {
            functions: &FUNCTIONS,
            variables: Arc::new(Vec::new()),
            types: None,
            disabled: Arc::new([]),
            bindings: false,
        }
    }

    /// With a variable; it hides an earlier one of the same name.
    pub fn variable(mut self, name: impl Into<Arc<str>>, ty: Type) -> Environment {
        let name = name.into();
        let variables = Arc::make_mut(&mut self.variables);
        variables.retain(|(n, _)| *n != name);
        variables.push((name, ty));
        self
    }

    /// With types that expressions may make values of.
    pub fn types(mut self, types: Arc<dyn Types>) -> Environment {
        self.types = Some(types);
        self
    }

    /// Without some overloads, for parts of Kubernetes that do not offer them.
    pub fn without(mut self, overloads: &[&'static str]) -> Environment {
        self.disabled = overloads.into();
        self
    }

    /// With the macro `cel.bind`, which only some parts of Kubernetes have.
    pub fn with_bindings(mut self) -> Environment {
        self.bindings = true;
        self
    }

    pub(crate) fn enabled(&self, overload: &str) -> bool {
        !self.disabled.contains(&overload)
    }

    /// The type of a variable, or the type of a type, by name.
    pub(crate) fn ident(&self, name: &str) -> Option<Type> {
        if let Some((_, ty)) = self.variables.iter().find(|(n, _)| &**n == name) {
            return Some(ty.clone());
        }
        let named = builtin(name).or_else(|| self.types.as_ref()?.find(name));
        named.map(|ty| Type::Type(Some(Arc::new(ty))))
    }

    /// Compiles an expression; on failure all that is wrong with it, as cel-go says it.
    pub fn compile(&self, text: &str) -> Result<Program, Issues> {
        let source = Source::new(text);
        let ast = parser::parse(text, self.bindings)?;
        let checked = checker::check(&source, ast, self)?;
        Ok(Program::new(checked))
    }
}

/// CEL's own types, and those of the libraries, by name.
pub(crate) fn builtin(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "string" => Type::String,
        "null_type" => Type::Null,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "type" => Type::Type(None),
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "optional_type" => Type::optional(Type::Dyn),
        "net.IP" | "net.CIDR" => Type::Opaque(name.into(), Arc::new([])),
        "kubernetes.URL"
        | "kubernetes.Quantity"
        | "kubernetes.Semver"
        | "kubernetes.NamedFormat"
        | "kubernetes.authorization.Authorizer"
        | "kubernetes.authorization.PathCheck"
        | "kubernetes.authorization.GroupCheck"
        | "kubernetes.authorization.ResourceCheck"
        | "kubernetes.authorization.Decision" => Type::Object(Arc::new(crate::types::ObjectType::named(name))),
        _ => return None,
    })
}
