//! Going through a tree.

use crate::ast::{Expr, ExprKind};

/// Calls `visit` with each node right below one, in the order of the text.
pub fn children<'a>(expr: &'a Expr, visit: &mut dyn FnMut(&'a Expr)) {
    match &expr.kind {
        ExprKind::Unspecified | ExprKind::Literal(_) | ExprKind::Ident(_) => {}
        ExprKind::Select { operand, .. } => visit(operand),
        ExprKind::Call { target, args, .. } => {
            target.iter().for_each(|t| visit(t));
            args.iter().for_each(visit);
        }
        ExprKind::List { items, .. } => items.iter().for_each(visit),
        ExprKind::Map(entries) => entries.iter().for_each(|e| {
            visit(&e.key);
            visit(&e.value);
        }),
        ExprKind::Struct { fields, .. } => fields.iter().for_each(|f| visit(&f.value)),
        ExprKind::Comprehension(c) => {
            for part in [&c.range, &c.init, &c.condition, &c.step, &c.result] {
                visit(part);
            }
        }
    }
}
