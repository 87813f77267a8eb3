//! What the validator finds: kube-openapi's Result and its errors, and the field errors they become.

use triptych_object::Value;
use triptych_object::field::{Error, ErrorKind, ErrorList, quote};

/// No more problems than this are collected.
const MAX_PROBLEMS: usize = ErrorList::LIMIT;

/// What a validator found: kube-openapi's Result.
#[derive(Default)]
pub(super) struct Found {
    pub problems: Vec<Problem>,
    /// How many checks applied: tells which alternative fits best.
    pub matches: usize,
}

impl Found {
    pub fn push(&mut self, problem: Problem) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    pub fn merge(&mut self, other: Found) {
        self.matches += other.matches;
        other.problems.into_iter().for_each(|p| self.push(p));
    }

    pub fn is_valid(&self) -> bool {
        self.problems.is_empty()
    }
}

/// An error of kube-openapi.
pub(super) enum Problem {
    /// About a value: its path, what kind of error that becomes, the value shown, and the text.
    Field {
        name: String,
        kind: ErrorKind,
        value: Value,
        message: String,
    },
    Required {
        name: String,
        message: String,
    },
    Enum {
        name: String,
        value: Value,
        allowed: Vec<String>,
        message: String,
    },
    TooLong {
        name: String,
        max: i64,
        message: String,
    },
    TooMany {
        name: String,
        actual: i64,
        max: i64,
        message: String,
    },
    /// About the schema as a whole.
    Plain(String),
}

impl Problem {
    pub fn message(&self) -> &str {
        match self {
            Problem::Field { message, .. }
            | Problem::Required { message, .. }
            | Problem::Enum { message, .. }
            | Problem::TooLong { message, .. }
            | Problem::TooMany { message, .. }
            | Problem::Plain(message) => message,
        }
    }

    pub fn field_error(self, prefix: Option<&str>) -> Error {
        let path = |name: &str| {
            let name = name.strip_prefix('.').unwrap_or(name);
            match (prefix, name) {
                (None, "") => "<nil>".to_owned(),
                (Some(prefix), "") => prefix.to_owned(),
                (None, name) => name.to_owned(),
                (Some(prefix), name) => format!("{prefix}.{name}"),
            }
        };
        match self {
            Problem::Field {
                name,
                kind,
                value,
                message,
            } => Error::new(kind, path(&name), &value, message),
            Problem::Required { name, .. } => Error::required(path(&name), ""),
            Problem::Enum {
                name, value, allowed, ..
            } => Error::not_supported(path(&name), value, &allowed),
            Problem::TooLong { name, max, .. } => {
                Error::too_long(path(&name), usize::try_from(max).unwrap_or_default())
            }
            Problem::TooMany { name, actual, max, .. } => Error::too_many(
                path(&name),
                usize::try_from(actual).unwrap_or_default(),
                usize::try_from(max).unwrap_or_default(),
            ),
            Problem::Plain(message) => Error::invalid(path(""), "", message),
        }
    }
}

/// `Invalid value`.
pub(super) fn invalid(name: &str, value: impl Into<Value>, message: String) -> Problem {
    Problem::Field {
        name: name.to_owned(),
        kind: ErrorKind::Invalid,
        value: value.into(),
        message,
    }
}

/// A value of the wrong type; `value` is the name of the type it has.
pub(super) fn wrong_type(name: &str, wanted: &str, value: &str) -> Problem {
    let message = format!("{name} in body must be of type {wanted}: {}", quote(value));
    Problem::Field {
        name: name.to_owned(),
        kind: ErrorKind::TypeInvalid,
        value: value.into(),
        message,
    }
}
