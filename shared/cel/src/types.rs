//! The types of CEL as the checker sees them.
//!
//! Contract: displays as cel-go's `FormatCELType` does. Object types are equal when their names are; their fields are found when
//! asked for, so that a type may contain itself.

use std::fmt;
use std::sync::Arc;

/// A type.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// Not known before evaluation.
    Dyn,
    /// What has no type because something is wrong with it.
    Error,
    /// `null`.
    Null,
    /// true or false.
    Bool,
    /// An integer of 64 bits.
    Int,
    /// An unsigned integer of 64 bits.
    Uint,
    /// A number.
    Double,
    /// A text.
    String,
    /// Bytes.
    Bytes,
    /// A span of time.
    Duration,
    /// A point in time.
    Timestamp,
    /// A type as a value; of which type, if known.
    Type(Option<Arc<Type>>),
    /// A list of one type.
    List(Arc<Type>),
    /// A map from one type to another.
    Map(Arc<(Type, Type)>),
    /// An object with fields.
    Object(Arc<ObjectType>),
    /// A type of which only the name, and perhaps parameters, are known.
    Opaque(Arc<str>, Arc<[Type]>),
    /// A type to be found out: the parameter of an overload, or a fresh variable.
    Param(Param),
}

/// A type that is to be found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Param {
    /// A parameter of an overload.
    Named(&'static str),
    /// A variable of one check.
    Fresh(usize),
}

/// Finds the types of an object's fields.
pub trait Fields: Send + Sync {
    /// The type of a field, `None` if there is no such field.
    fn field(&self, name: &str) -> Option<Type>;
}

impl Fields for std::collections::HashMap<String, Type> {
    fn field(&self, name: &str) -> Option<Type> {
        self.get(name).cloned()
    }
}

impl Fields for std::collections::BTreeMap<String, Type> {
    fn field(&self, name: &str) -> Option<Type> {
        self.get(name).cloned()
    }
}

/// An object with fields.
pub struct ObjectType {
    /// Its name, shown in errors.
    pub name: Arc<str>,
    /// Its fields; `None` for the types of libraries, which have functions only.
    fields: Option<Box<dyn Fields>>,
}

impl ObjectType {
    /// An object with these fields.
    pub fn new(name: impl Into<Arc<str>>, fields: impl Fields + 'static) -> ObjectType {
        ObjectType {
            name: name.into(),
            fields: Some(Box::new(fields)),
        }
    }

    /// An object of which only the name is known.
    pub fn named(name: impl Into<Arc<str>>) -> ObjectType {
        ObjectType {
            name: name.into(),
            fields: None,
        }
    }

    /// The type of a field; the outer `None` if the object has no fields at all.
    pub fn field(&self, name: &str) -> Option<Option<Type>> {
        Some(self.fields.as_ref()?.field(name))
    }
}

impl fmt::Debug for ObjectType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl PartialEq for ObjectType {
    fn eq(&self, other: &ObjectType) -> bool {
        self.name == other.name
    }
}

impl Type {
    /// A list of these.
    pub fn list(item: Type) -> Type {
        Type::List(Arc::new(item))
    }

    /// A map of these.
    pub fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new((key, value)))
    }

    /// This or nothing.
    pub fn optional(inner: Type) -> Type {
        Type::Opaque("optional_type".into(), [inner].into())
    }

    /// An object with these fields.
    pub fn object(name: impl Into<Arc<str>>, fields: impl Fields + 'static) -> Type {
        Type::Object(Arc::new(ObjectType::new(name, fields)))
    }

    /// What the optional may hold, if this is one.
    pub fn as_optional(&self) -> Option<&Type> {
        match self {
            Type::Opaque(name, params) if &**name == "optional_type" => params.first(),
            _ => None,
        }
    }

    /// The types this one is made of.
    pub fn parameters(&self) -> Vec<&Type> {
        match self {
            Type::List(item) => vec![item],
            Type::Map(pair) => vec![&pair.0, &pair.1],
            Type::Opaque(_, params) => params.iter().collect(),
            Type::Type(Some(inner)) => vec![inner],
            _ => Vec::new(),
        }
    }

    /// The name without parameters: that of the values' type at run time.
    pub fn name(&self) -> &str {
        match self {
            Type::Dyn => "dyn",
            Type::Error => "error",
            Type::Null => "null_type",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Duration => "google.protobuf.Duration",
            Type::Timestamp => "google.protobuf.Timestamp",
            Type::Type(_) => "type",
            Type::List(_) => "list",
            Type::Map(_) => "map",
            Type::Object(object) => &object.name,
            Type::Opaque(name, _) => name,
            Type::Param(Param::Named(name)) => name,
            Type::Param(Param::Fresh(_)) => "dyn",
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Error => return f.write_str("!error!"),
            Type::Null => return f.write_str("null"),
            Type::Duration => return f.write_str("duration"),
            Type::Timestamp => return f.write_str("timestamp"),
            Type::Param(Param::Fresh(n)) => return write!(f, "_var{n}"),
            _ => f.write_str(self.name())?,
        }
        let params = self.parameters();
        for (i, param) in params.iter().enumerate() {
            write!(f, "{}{param}", if i == 0 { "(" } else { ", " })?;
        }
        if !params.is_empty() {
            f.write_str(")")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_shown_as_in_errors() {
        let map = Type::map(Type::String, Type::list(Type::Dyn));
        assert_eq!(map.to_string(), "map(string, list(dyn))");
        assert_eq!(Type::optional(Type::Null).to_string(), "optional_type(null)");
        assert_eq!(
            Type::Type(Some(Arc::new(Type::Timestamp))).to_string(),
            "type(timestamp)"
        );
    }
}
