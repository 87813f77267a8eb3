//! Whether one type may stand for another, and what that says of types that are still to be found out.
//!
//! Contract: as cel-go's `checker/types.go`. What was assumed on the way to a "no" is taken back.

use crate::types::{Param, Type};

/// What is known of type variables.
#[derive(Default)]
pub struct Mapping {
    bound: Vec<Option<Type>>,
    trail: Vec<(usize, Option<Type>)>,
}

impl Mapping {
    /// A variable of which nothing is known.
    pub fn fresh(&mut self) -> Type {
        self.bound.push(None);
        Type::Param(Param::Fresh(self.bound.len() - 1))
    }

    fn find(&self, ty: &Type) -> Option<&Type> {
        match ty {
            Type::Param(Param::Fresh(n)) => self.bound.get(*n)?.as_ref(),
            _ => None,
        }
    }

    fn bind(&mut self, variable: &Type, ty: Type) {
        if let Type::Param(Param::Fresh(n)) = variable
            && let Some(slot) = self.bound.get_mut(*n)
        {
            let before = slot.replace(ty);
            self.trail.push((*n, before));
        }
    }

    /// Does it all or nothing.
    fn attempt(&mut self, work: impl FnOnce(&mut Self) -> bool) -> bool {
        let start = self.trail.len();
        let ok = work(self);
        if !ok {
            for (n, before) in self.trail.drain(start..).rev().collect::<Vec<_>>() {
                self.bound[n] = before;
            }
        }
        self.trail.truncate(start);
        ok
    }

    /// Whether a value of one type may stand where the other is wanted.
    pub fn assignable(&mut self, a: &Type, b: &Type) -> bool {
        self.attempt(|m| m.fits(a, b))
    }

    /// The same for all of two lists.
    pub fn all_assignable(&mut self, a: &[Type], b: &[Type]) -> bool {
        self.attempt(|m| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| m.fits(a, b)))
    }

    fn fits(&mut self, a: &Type, b: &Type) -> bool {
        if let Type::Param(_) = b {
            let (valid, known) = self.stands_for(a, b);
            if valid || known {
                return valid;
            }
        }
        if let Type::Param(_) = a {
            return self.stands_for(b, a).0;
        }
        if is_dyn_or_error(a) || is_dyn_or_error(b) {
            return true;
        }
        match (a, b) {
            (Type::Null, other) | (other, Type::Null) => {
                matches!(
                    other,
                    Type::Null | Type::Opaque(..) | Type::Object(_) | Type::Duration | Type::Timestamp
                )
            }
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(a), Type::List(b)) => self.fits(a, b),
            (Type::Map(a), Type::Map(b)) => self.fits(&a.0, &b.0) && self.fits(&a.1, &b.1),
            (Type::Opaque(a, pa), Type::Opaque(b, pb)) => {
                a == b && pa.len() == pb.len() && pa.iter().zip(pb.iter()).all(|(a, b)| self.fits(a, b))
            }
            _ => a == b,
        }
    }

    /// Whether `ty` may be what `variable` is, and whether something is known of the variable.
    fn stands_for(&mut self, ty: &Type, variable: &Type) -> (bool, bool) {
        if ty == variable {
            return (true, true);
        }
        if let Some(known) = self.find(variable).cloned() {
            if *ty == known {
                return (true, true);
            }
            if !self.fits(ty, &known) {
                return (false, true);
            }
            let general = most_general(ty.clone(), known);
            if self.not_in(variable, &general) {
                self.bind(variable, general);
            }
            return (true, true);
        }
        if self.not_in(variable, ty) {
            self.bind(variable, ty.clone());
            return (true, false);
        }
        (false, false)
    }

    fn not_in(&self, variable: &Type, within: &Type) -> bool {
        if variable == within {
            return false;
        }
        match within {
            Type::Param(_) => self.find(within).is_none_or(|known| self.not_in(variable, known)),
            other => other.parameters().into_iter().all(|p| self.not_in(variable, p)),
        }
    }

    /// The type with all that is known put in; with `to_dyn` what is unknown becomes `dyn`.
    pub fn substitute(&self, ty: &Type, to_dyn: bool) -> Type {
        if let Some(known) = self.find(ty) {
            return self.substitute(known, to_dyn);
        }
        match ty {
            Type::Param(_) if to_dyn => Type::Dyn,
            other => rebuild(other, &|p| self.substitute(p, to_dyn)),
        }
    }
}

/// The same type with other parameters.
pub fn rebuild(ty: &Type, change: &dyn Fn(&Type) -> Type) -> Type {
    match ty {
        Type::List(item) => Type::list(change(item)),
        Type::Map(pair) => Type::map(change(&pair.0), change(&pair.1)),
        Type::Opaque(name, params) if !params.is_empty() => {
            Type::Opaque(name.clone(), params.iter().map(change).collect())
        }
        Type::Type(Some(inner)) => Type::Type(Some(change(inner).into())),
        other => other.clone(),
    }
}

fn is_dyn_or_error(ty: &Type) -> bool {
    matches!(ty, Type::Dyn | Type::Error)
}

/// The more general of two types that fit each other.
pub fn most_general(a: Type, b: Type) -> Type {
    if less_specific(&a, &b) { a } else { b }
}

fn less_specific(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Dyn | Type::Param(_), _) => true,
        (_, Type::Dyn | Type::Param(_)) => false,
        (Type::Type(_), Type::Type(_)) => true,
        (Type::List(a), Type::List(b)) => less_specific(a, b),
        (Type::Map(a), Type::Map(b)) => less_specific(&a.0, &b.0) && less_specific(&a.1, &b.1),
        (Type::Opaque(a, pa), Type::Opaque(b, pb)) => {
            a == b && pa.len() == pb.len() && pa.iter().zip(pb.iter()).all(|(a, b)| less_specific(a, b))
        }
        _ => a == b,
    }
}
