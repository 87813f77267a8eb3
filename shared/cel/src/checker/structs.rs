//! Types of struct literals.

use super::{Checker, Reference};
use crate::ast::{Expr, ExprKind};
use crate::types::Type;

impl Checker<'_> {
    pub(super) fn structure(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let ExprKind::Struct { name, fields } = &mut expr.kind else {
            return;
        };
        let Some((full, ty)) = self.lookup(name) else {
            let name = name.clone();
            self.undeclared(id, &name);
            self.set(id, Type::Error);
            return;
        };
        *name = full.clone();
        self.references[id] = Some(Reference::Ident(full.clone()));
        let result = match &ty {
            Type::Type(Some(inner)) if matches!(**inner, Type::Object(_)) => (**inner).clone(),
            Type::Type(Some(inner)) => {
                self.error(id, format!("'{}' is not a message type", inner.name()));
                Type::Error
            }
            other => {
                self.error(id, format!("'{}' is not a type", other.name()));
                Type::Error
            }
        };
        self.set(id, result.clone());
        for field in fields {
            self.check(&mut field.value);
            let wanted = match &result {
                Type::Object(object) => self.field(field.id, object, &field.name),
                _ => {
                    self.error(field.id, format!("unexpected failed resolution of '{full}'"));
                    None
                }
            };
            let mut given = self.get(&field.value);
            if field.optional {
                given = self.unwrapped(field.value.id, given);
            }
            let wanted = wanted.unwrap_or(Type::Error);
            if !self.mapping.assignable(&wanted, &given) {
                let name = &field.name;
                let message = format!("expected type of field '{name}' is '{wanted}' but provided type is '{given}'");
                self.error(field.id, message);
            }
        }
    }
}
