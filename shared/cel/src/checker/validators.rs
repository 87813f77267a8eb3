//! What is looked at once types are known: literals that no evaluation would accept.

use crate::ast::{Entry, Expr, ExprKind, Literal};
use crate::checker::Checked;
use crate::libraries::check_format;
use crate::source::{Issues, Location};
use crate::time::{Span, Timestamp};
use crate::types::Type;
use crate::walk;

/// Reports literals of durations, times, patterns and formats that are wrong, and lists and maps of mixed types.
pub fn validate(checked: &Checked, offsets: &[usize], issues: &mut Issues) {
    let mut validator = Validator {
        checked,
        offsets,
        issues,
    };
    validator.visit(&checked.root, false);
}

struct Validator<'a> {
    checked: &'a Checked,
    offsets: &'a [usize],
    issues: &'a mut Issues,
}

impl Validator<'_> {
    fn error(&mut self, id: usize, message: String) {
        let location = match self.offsets.get(id) {
            Some(offset) if *offset != usize::MAX => self.issues.source().location(*offset),
            _ => Location::NONE,
        };
        self.issues.push(location, message);
    }

    /// `exempt` inside the arguments of `format`, which may be of any types.
    fn visit(&mut self, expr: &Expr, exempt: bool) {
        let mut exempt = exempt;
        match &expr.kind {
            ExprKind::Call { function, target, args } => {
                exempt |= &**function == "format";
                self.call(expr, function, target.as_deref(), args);
            }
            ExprKind::List { items, optional } if !exempt => self.list(items, optional),
            ExprKind::Map(entries) if !exempt => self.map(entries),
            _ => {}
        }
        walk::children(expr, &mut |child| self.visit(child, exempt));
    }

    fn call(&mut self, expr: &Expr, function: &str, target: Option<&Expr>, args: &[Expr]) {
        if let (Some(receiver), "format", [list]) = (target, function, args) {
            self.format(expr, receiver, list);
        }
        let Some((id, literal)) = args.first().and_then(|a| match &a.kind {
            ExprKind::Literal(literal) => Some((a.id, literal)),
            _ => None,
        }) else {
            return;
        };
        let fine = match (function, literal) {
            ("duration", Literal::String(text)) => Span::parse(text).is_some(),
            ("timestamp", Literal::String(text)) => Timestamp::parse(text).is_ok(),
            ("timestamp", Literal::Int(seconds)) => Timestamp::new(*seconds, 0).is_ok(),
            ("matches", Literal::String(pattern)) => triptych_schema::go_regex::compile(pattern).is_ok(),
            _ => true,
        };
        if !fine {
            self.error(id, format!("invalid {function} argument"));
        }
    }

    fn format(&mut self, expr: &Expr, receiver: &Expr, list: &Expr) {
        let (Some(text), ExprKind::List { items, .. }) = (receiver.as_string(), &list.kind) else {
            return;
        };
        let types: Vec<&Type> = items.iter().map(|i| self.checked.type_of(i)).collect();
        if let Some((item, message)) = check_format(text, &types) {
            let at = item.and_then(|i| items.get(i)).map_or(expr.id, |i| i.id);
            self.error(at, message);
        }
    }

    fn inner(&self, expr: &Expr, optional: bool) -> Type {
        let ty = self.checked.type_of(expr);
        match optional {
            true => ty.as_optional().unwrap_or(ty).clone(),
            false => ty.clone(),
        }
    }

    fn mismatch(&mut self, id: usize, expected: &Type, actual: &Type) {
        self.error(id, format!("expected type '{expected}' but found '{actual}'"));
    }

    fn list(&mut self, items: &[Expr], optional: &[bool]) {
        let mut first: Option<Type> = None;
        for (item, optional) in items.iter().zip(optional) {
            let ty = self.inner(item, *optional);
            match &first {
                None => first = Some(ty),
                Some(first) if *first != ty => {
                    let first = first.clone();
                    self.mismatch(item.id, &first, &ty);
                    return;
                }
                Some(_) => {}
            }
        }
    }

    fn map(&mut self, entries: &[Entry]) {
        let mut first: Option<(Type, Type)> = None;
        for entry in entries {
            let key = self.inner(&entry.key, false);
            let value = self.inner(&entry.value, entry.optional);
            let Some((first_key, first_value)) = first.clone() else {
                first = Some((key, value));
                continue;
            };
            if first_key != key {
                self.mismatch(entry.key.id, &first_key, &key);
            }
            if first_value != value {
                self.mismatch(entry.value.id, &first_value, &value);
            }
        }
    }
}
