//! Operators: how tightly they bind, and the trees that they join operands into.

use super::{Nodes, call};
use crate::ast::Expr;
use crate::lexer::Kind;

pub(super) const OR: u8 = 1;
pub(super) const AND: u8 = 2;
pub(super) const RELATION: u8 = 3;
const SUM: u8 = 4;
const PRODUCT: u8 = 5;

/// The function that an operator means, and how tightly it binds.
pub(super) fn operator(kind: Kind) -> Option<(&'static str, u8)> {
    Some(match kind {
        Kind::Or => ("_||_", OR),
        Kind::And => ("_&&_", AND),
        Kind::Less => ("_<_", RELATION),
        Kind::LessEquals => ("_<=_", RELATION),
        Kind::GreaterEquals => ("_>=_", RELATION),
        Kind::Greater => ("_>_", RELATION),
        Kind::Equals => ("_==_", RELATION),
        Kind::NotEquals => ("_!=_", RELATION),
        Kind::In => ("@in", RELATION),
        Kind::Plus => ("_+_", SUM),
        Kind::Minus => ("_-_", SUM),
        Kind::Star => ("_*_", PRODUCT),
        Kind::Slash => ("_/_", PRODUCT),
        Kind::Percent => ("_%_", PRODUCT),
        _ => return None,
    })
}

/// Operands and operators that are not joined yet.
#[derive(Default)]
pub(super) struct Pending {
    pub operands: Vec<Option<Expr>>,
    pub operators: Vec<(&'static str, u8, usize)>,
}

impl Pending {
    /// Joins what binds at least as tightly as the operator that comes next; logical operators only when all of a kind are there, as they
    /// become a balanced tree.
    pub fn reduce(&mut self, nodes: &mut Nodes, next: u8) {
        while let Some((function, binds, at)) = self.operators.last().copied() {
            if binds < next || (binds == next && matches!(binds, OR | AND)) {
                return;
            }
            let count = match binds {
                OR | AND => self.operators.iter().rev().take_while(|o| o.1 == binds).count(),
                _ => 1,
            };
            let ids: Vec<usize> = self
                .operators
                .drain(self.operators.len() - count..)
                .map(|(_, _, start)| nodes.id(start))
                .collect();
            let first = self.operands.len() - count - 1;
            let joined = match binds {
                OR | AND => balanced(function, &ids, &mut self.operands[first..], 0),
                _ => {
                    let mut args = self.operands[first..].iter_mut().map(|o| o.take().unwrap_or_default());
                    let kind = call(
                        function,
                        vec![args.next().unwrap_or_default(), args.next().unwrap_or_default()],
                    );
                    nodes.node(at, kind)
                }
            };
            self.operands.truncate(first);
            self.operands.push(Some(joined));
        }
    }
}

/// Joins terms by an operator so that the tree is as flat as can be; `ids[i]` is that of the operator after `terms[i]`.
fn balanced(function: &str, ids: &[usize], terms: &mut [Option<Expr>], first: usize) -> Expr {
    let middle = ids.len() / 2;
    let side = |terms: &mut [Option<Expr>], ids: &[usize], first: usize| match ids {
        [] => terms.get_mut(first).and_then(Option::take).unwrap_or_default(),
        ids => balanced(function, ids, terms, first),
    };
    let left = side(terms, &ids[..middle], first);
    let right = side(terms, &ids[middle + 1..], first + middle + 1);
    Expr {
        id: ids[middle],
        kind: call(function, vec![left, right]),
    }
}
