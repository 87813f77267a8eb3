//! Types for every node of a tree, and which overloads its calls may mean.
//!
//! Contract: as cel-go's checker with comparisons across number types; errors carry its texts and
//! places. What could not be typed has [`Type::Error`], so that one mistake is reported once.

mod structs;
mod unify;
mod validators;

use std::sync::Arc;

use crate::ast::{Ast, Comprehension, Entry, Expr, ExprKind, Literal};
use crate::declarations::Overload;
use crate::environment::Environment;
use crate::source::{Issues, Location, Source};
use crate::types::{Param, Type};
use unify::{Mapping, most_general, rebuild};

/// What a name or call refers to.
#[derive(Clone, Debug, PartialEq)]
pub enum Reference {
    /// A variable, or a type, by its full name.
    Ident(Arc<str>),
    /// The overloads that fit.
    Function(Vec<&'static str>),
}

/// A tree whose types are known.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The tree, names made full.
    pub root: Expr,
    /// Types by id.
    pub types: Vec<Type>,
    /// References by id.
    pub references: Vec<Option<Reference>>,
}

impl Checked {
    /// The overloads that a call may mean.
    pub fn overloads(&self, id: usize) -> &[&'static str] {
        match self.references.get(id) {
            Some(Some(Reference::Function(overloads))) => overloads,
            _ => &[],
        }
    }

    /// A node's type.
    pub fn type_of(&self, expr: &Expr) -> &Type {
        self.types.get(expr.id).unwrap_or(&Type::Dyn)
    }
}

/// Checks a parsed expression.
pub fn check(source: &Source, ast: Ast, environment: &Environment) -> Result<Checked, Issues> {
    let size = ast.size();
    let mut checker = Checker {
        environment,
        offsets: ast.offsets,
        issues: Issues::new(source.clone()),
        types: vec![None; size],
        references: vec![None; size],
        mapping: Mapping::default(),
        scopes: Vec::new(),
    };
    let mut root = ast.root;
    checker.check(&mut root);
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    let types = std::mem::take(&mut checker.types);
    let types = types
        .into_iter()
        .map(|ty| ty.map_or(Type::Dyn, |ty| checker.mapping.substitute(&ty, true)))
        .collect();
    let checked = Checked {
        root,
        types,
        references: checker.references,
    };
    validators::validate(&checked, &checker.offsets, &mut checker.issues);
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    Ok(checked)
}

struct Checker<'a> {
    environment: &'a Environment,
    offsets: Vec<usize>,
    issues: Issues,
    types: Vec<Option<Type>>,
    references: Vec<Option<Reference>>,
    mapping: Mapping,
    /// Variables of the folds around, innermost last.
    scopes: Vec<(Arc<str>, Type)>,
}

impl Checker<'_> {
    fn location(&self, id: usize) -> Location {
        match self.offsets.get(id) {
            Some(offset) if *offset != usize::MAX => self.issues.source().location(*offset),
            _ => Location::NONE,
        }
    }

    fn error(&mut self, id: usize, message: String) {
        let location = self.location(id);
        self.issues.push(location, message);
    }

    fn mismatch(&mut self, id: usize, expected: &Type, actual: &Type) {
        self.error(id, format!("expected type '{expected}' but found '{actual}'"));
    }

    fn undeclared(&mut self, id: usize, name: &str) {
        self.error(id, format!("undeclared reference to '{name}' (in container '')"));
    }

    fn set(&mut self, id: usize, ty: Type) {
        self.types[id] = Some(ty);
    }

    fn get(&self, expr: &Expr) -> Type {
        self.types.get(expr.id).cloned().flatten().unwrap_or(Type::Error)
    }

    /// A variable or type by name; the name without its leading dot.
    fn lookup(&self, name: &str) -> Option<(Arc<str>, Type)> {
        let absolute = name.strip_prefix('.');
        let scoped = self.scopes.iter().rev().find(|(n, _)| &**n == name);
        if let (Some((name, ty)), None) = (scoped, absolute) {
            return Some((name.clone(), ty.clone()));
        }
        let name = absolute.unwrap_or(name);
        Some((name.into(), self.environment.ident(name)?))
    }

    fn check(&mut self, expr: &mut Expr) {
        let id = expr.id;
        match &mut expr.kind {
            ExprKind::Unspecified => self.error(id, "unexpected unspecified type: unspecifiedExpr".to_owned()),
            ExprKind::Literal(literal) => {
                let ty = match literal {
                    Literal::Null => Type::Null,
                    Literal::Bool(_) => Type::Bool,
                    Literal::Int(_) => Type::Int,
                    Literal::Uint(_) => Type::Uint,
                    Literal::Double(_) => Type::Double,
                    Literal::String(_) => Type::String,
                    Literal::Bytes(_) => Type::Bytes,
                };
                self.set(id, ty);
            }
            ExprKind::Ident(name) => match self.lookup(name) {
                Some((full, ty)) => {
                    self.set(id, ty);
                    self.references[id] = Some(Reference::Ident(full.clone()));
                    *name = full;
                }
                None => {
                    self.set(id, Type::Error);
                    let name = name.clone();
                    self.undeclared(id, &name);
                }
            },
            ExprKind::Select { .. } => self.select(expr),
            ExprKind::Call { .. } => self.call(expr),
            ExprKind::List { items, optional } => self.list(id, items, optional),
            ExprKind::Map(entries) => self.map(id, entries),
            ExprKind::Struct { .. } => self.structure(expr),
            ExprKind::Comprehension(fold) => self.comprehension(id, fold),
        }
    }

    fn select(&mut self, expr: &mut Expr) {
        let id = expr.id;
        if let Some(name) = expr.qualified_name()
            && let Some((full, ty)) = self.lookup(&name)
        {
            self.set(id, ty);
            self.references[id] = Some(Reference::Ident(full.clone()));
            expr.kind = ExprKind::Ident(full);
            return;
        }
        let ExprKind::Select { operand, field, test } = &mut expr.kind else {
            return;
        };
        let (field, test) = (field.clone(), *test);
        let found = self.member(id, operand, &field, false);
        let ty = if test { Type::Bool } else { found };
        let ty = self.mapping.substitute(&ty, false);
        self.set(id, ty);
    }

    /// The type of a member.
    fn member(&mut self, id: usize, operand: &mut Expr, field: &str, optional: bool) -> Type {
        self.check(operand);
        let ty = self.mapping.substitute(&self.get(operand), false);
        let (target, wrapped) = match ty.as_optional() {
            Some(inner) => (inner.clone(), true),
            None => (ty, false),
        };
        let result = match &target {
            Type::Map(pair) => pair.1.clone(),
            Type::Object(object) => self.field(id, object, field).unwrap_or(Type::Error),
            Type::Param(_) => {
                self.mapping.assignable(&Type::Dyn, &target);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                self.error(id, format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        };
        match wrapped || optional {
            true => Type::optional(result),
            false => result,
        }
    }

    fn field(&mut self, id: usize, object: &crate::types::ObjectType, field: &str) -> Option<Type> {
        let Some(mut found) = object.field(field) else {
            self.error(id, format!("unexpected failed resolution of '{}'", object.name));
            return None;
        };
        // A reserved word may also be written as it is.
        if found.is_none() && crate::escape::is_reserved(field) {
            found = object.field(&format!("__{field}__")).flatten();
        }
        if found.is_none() {
            self.error(id, format!("undefined field '{field}'"));
        }
        found
    }

    fn optional_select(&mut self, id: usize, args: &mut [Expr]) {
        let [operand, field] = args else { return };
        let Some(name) = field.as_string().cloned() else {
            self.error(field.id, "unsupported optional field selection: ".to_owned());
            return;
        };
        self.set(field.id, Type::String);
        let ty = self.member(id, operand, &name, true);
        let ty = self.mapping.substitute(&ty, false);
        self.set(id, ty);
        self.references[id] = Some(Reference::Function(vec!["select_optional_field"]));
    }

    fn call(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let ExprKind::Call { function, target, args } = &mut expr.kind else {
            return;
        };
        if &**function == "_?._" {
            self.optional_select(id, args);
            return;
        }
        for arg in args.iter_mut() {
            self.check(arg);
        }
        let functions = &self.environment.functions;
        let Some(receiver) = target else {
            let name = function.strip_prefix('.').unwrap_or(function);
            let Some(overloads) = functions.get(name) else {
                let name = function.clone();
                self.undeclared(id, &name);
                self.set(id, Type::Error);
                return;
            };
            *function = name.into();
            let name = function.clone();
            self.resolve(id, &name, overloads, None, args);
            return;
        };
        // A qualified name before the function may be a part of the function's name.
        if let Some(prefix) = receiver.qualified_name() {
            let full = format!("{prefix}.{function}");
            let name = full.strip_prefix('.').unwrap_or(&full);
            if let Some(overloads) = functions.get(name) {
                *function = name.into();
                *target = None;
                let name = function.clone();
                self.resolve(id, &name, overloads, None, args);
                return;
            }
        }
        self.check(receiver);
        let name = function.clone();
        match functions.get(&name) {
            Some(overloads) => self.resolve(id, &name, overloads, Some(receiver), args),
            None => {
                self.set(id, Type::Error);
                self.undeclared(id, &name);
            }
        }
    }

    fn resolve(&mut self, id: usize, name: &str, overloads: &[Overload], target: Option<&Expr>, args: &[Expr]) {
        let given: Vec<Type> = target.into_iter().chain(args).map(|a| self.get(a)).collect();
        if matches!(name, "_&&_" | "_||_") {
            self.logical(id, overloads, args, &given);
            return;
        }
        let (mut result, mut fitting): (Option<Type>, Vec<&'static str>) = (None, Vec::new());
        for overload in overloads.iter().filter(|o| o.member == target.is_some()) {
            if !self.environment.enabled(overload.id) {
                continue;
            }
            let fresh: Vec<(&str, Type)> = overload
                .params()
                .into_iter()
                .map(|name| (name, self.mapping.fresh()))
                .collect();
            let wanted: Vec<Type> = overload.args.iter().map(|a| instantiate(a, &fresh)).collect();
            if !self.mapping.all_assignable(&given, &wanted) {
                continue;
            }
            fitting.push(overload.id);
            let found = self.mapping.substitute(&instantiate(&overload.result, &fresh), false);
            result = Some(match result {
                None => found,
                Some(Type::Dyn) => Type::Dyn,
                Some(before) if before == found => before,
                Some(_) => Type::Dyn,
            });
        }
        match result {
            Some(ty) => {
                self.set(id, ty);
                self.references[id] = Some(Reference::Function(fitting));
            }
            None => {
                self.set(id, Type::Error);
                self.no_overload(id, name, &given, target.is_some());
            }
        }
    }

    fn no_overload(&mut self, id: usize, name: &str, given: &[Type], member: bool) {
        let shown: Vec<String> = given
            .iter()
            .map(|t| self.mapping.substitute(t, true).to_string())
            .collect();
        let signature = match shown.split_first() {
            Some((receiver, rest)) if member => format!("{receiver}.({})", rest.join(", ")),
            _ => format!("({})", shown.join(", ")),
        };
        self.error(
            id,
            format!("found no matching overload for '{name}' applied to '{signature}'"),
        );
    }

    fn logical(&mut self, id: usize, overloads: &[Overload], args: &[Expr], given: &[Type]) {
        let mut wrong = false;
        for (arg, ty) in args.iter().zip(given) {
            if !self.mapping.assignable(ty, &Type::Bool) {
                self.mismatch(arg.id, &Type::Bool, ty);
                wrong = true;
            }
        }
        if wrong {
            self.set(id, Type::Error);
            return;
        }
        self.set(id, Type::Bool);
        let ids = overloads.iter().map(|o| o.id).collect();
        self.references[id] = Some(Reference::Function(ids));
    }

    /// The type inside what must be an optional.
    fn unwrapped(&mut self, id: usize, ty: Type) -> Type {
        if let Some(inner) = ty.as_optional() {
            return inner.clone();
        }
        if ty != Type::Dyn {
            self.mismatch(id, &Type::optional(ty.clone()), &ty);
        }
        ty
    }

    fn list(&mut self, id: usize, items: &mut [Expr], optional: &[bool]) {
        let mut joined: Option<Type> = None;
        for (i, item) in items.iter_mut().enumerate() {
            self.check(item);
            let mut ty = self.get(item);
            if optional.get(i) == Some(&true) {
                ty = self.unwrapped(item.id, ty);
            }
            joined = Some(self.join(joined, ty));
        }
        let item = joined.unwrap_or_else(|| self.mapping.fresh());
        self.set(id, Type::list(item));
    }

    fn map(&mut self, id: usize, entries: &mut [Entry]) {
        let (mut keys, mut values): (Option<Type>, Option<Type>) = (None, None);
        for entry in entries {
            self.check(&mut entry.key);
            let key = self.get(&entry.key);
            keys = Some(self.join(keys, key));
            self.check(&mut entry.value);
            let mut value = self.get(&entry.value);
            if entry.optional {
                value = self.unwrapped(entry.value.id, value);
            }
            values = Some(self.join(values, value));
        }
        let key = keys.unwrap_or_else(|| self.mapping.fresh());
        let value = values.unwrap_or_else(|| self.mapping.fresh());
        self.set(id, Type::map(key, value));
    }

    /// The type of what was seen so far and one more; that types are not mixed is looked at later.
    fn join(&mut self, before: Option<Type>, ty: Type) -> Type {
        let Some(before) = before else { return ty };
        if self.mapping.assignable(&before, &ty) {
            return most_general(before, ty);
        }
        Type::Dyn
    }

    fn comprehension(&mut self, id: usize, fold: &mut Comprehension) {
        self.check(&mut fold.range);
        self.check(&mut fold.init);
        let range = self.mapping.substitute(&self.get(&fold.range), false);
        let accumulator = self.get(&fold.init);
        let scope = self.scopes.len();
        self.scopes.push((fold.accumulator.clone(), accumulator.clone()));
        let two = fold.second.is_some();
        let (first, second) = match &range {
            Type::List(item) if two => (Type::Int, (**item).clone()),
            Type::List(item) => ((**item).clone(), Type::Dyn),
            Type::Map(pair) => (pair.0.clone(), pair.1.clone()),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.mapping.assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.error(fold.range.id, message);
                (Type::Error, Type::Error)
            }
        };
        self.scopes.push((fold.variable.clone(), first));
        if let Some(name) = &fold.second {
            self.scopes.push((name.clone(), second));
        }
        self.check(&mut fold.condition);
        self.must_be(&fold.condition, &Type::Bool);
        self.check(&mut fold.step);
        self.must_be(&fold.step, &accumulator);
        self.scopes.truncate(scope + 1);
        self.check(&mut fold.result);
        self.scopes.truncate(scope);
        let ty = self.mapping.substitute(&self.get(&fold.result), false);
        self.set(id, ty);
    }

    fn must_be(&mut self, expr: &Expr, wanted: &Type) {
        let ty = self.get(expr);
        if !self.mapping.assignable(wanted, &ty) {
            self.mismatch(expr.id, wanted, &ty);
        }
    }
}

/// An overload's type with its parameters replaced.
fn instantiate(ty: &Type, fresh: &[(&str, Type)]) -> Type {
    match ty {
        Type::Param(Param::Named(name)) => {
            let found = fresh.iter().find(|(n, _)| n == name);
            found.map_or(Type::Dyn, |(_, ty)| ty.clone())
        }
        other => rebuild(other, &|p| instantiate(p, fresh)),
    }
}
