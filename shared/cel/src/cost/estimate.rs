//! What an expression may cost, from its tree and the sizes of what it reads.

mod functions;

use std::collections::HashMap;
use std::sync::Arc;

use super::{LIST_CREATE, MAP_CREATE, Range, STRING_TRAVERSAL, STRUCT_CREATE, Sizes};
use crate::ast::{Comprehension, Expr, ExprKind, Literal};
use crate::checker::Checked;
use crate::types::Type;

/// What evaluating costs at least and at most.
pub fn estimate(checked: &Checked, sizes: &dyn Sizes) -> Range {
    let mut coster = Coster {
        checked,
        sizes,
        paths: HashMap::new(),
        computed: HashMap::new(),
        entries: HashMap::new(),
        locals: HashMap::new(),
    };
    coster.cost(&checked.root)
}

/// What parsing a selector of some length costs at most.
pub(super) fn selector(length: u64) -> u64 {
    selector_cost(Range::fixed(length)).max
}

fn selector_cost(length: Range) -> Range {
    let parse = length.times(STRING_TRAVERSAL);
    let requirements = length.times(0.5).times((LIST_CREATE + STRUCT_CREATE) as f64);
    Range::fixed(LIST_CREATE) + parse + requirements
}

/// Sizes of a list's or map's keys and values.
#[derive(Clone, Copy)]
struct Entries {
    is_list: bool,
    key: Range,
    value: Range,
}

impl Entries {
    fn union(a: Option<Entries>, b: Option<Entries>) -> Option<Entries> {
        let (a, b) = (a?, b?);
        Some(Entries {
            is_list: a.is_list,
            key: a.key.union(b.key),
            value: a.value.union(b.value),
        })
    }
}

type Path = Arc<[String]>;

#[derive(Clone)]
struct Local {
    path: Path,
    size: Option<Range>,
    entries: Option<Entries>,
}

struct Coster<'a> {
    checked: &'a Checked,
    sizes: &'a dyn Sizes,
    paths: HashMap<usize, Path>,
    computed: HashMap<usize, Range>,
    entries: HashMap<usize, Entries>,
    locals: HashMap<Arc<str>, Vec<Local>>,
}

/// An argument as the costs of functions see it.
struct Node<'a> {
    expr: Option<&'a Expr>,
    path: Path,
    ty: Type,
    size: Option<Range>,
}

/// What a call costs, and the size of what comes out.
struct Call {
    cost: Range,
    size: Option<Range>,
}

fn only(cost: Range) -> Option<Call> {
    Some(Call { cost, size: None })
}

fn extended(path: &Path, step: &str) -> Path {
    path.iter().cloned().chain([step.to_owned()]).collect()
}

fn is_scalar(ty: &Type) -> bool {
    match ty {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        other => other.as_optional().is_some_and(is_scalar),
    }
}

fn literal_size(literal: &Literal) -> u64 {
    match literal {
        Literal::String(text) => text.chars().count() as u64,
        Literal::Bytes(bytes) => bytes.len() as u64,
        _ => 1,
    }
}

impl<'a> Coster<'a> {
    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.get(name)?.last()
    }

    fn push(&mut self, name: &Arc<str>, local: Local) {
        self.locals.entry(name.clone()).or_default().push(local);
    }

    fn pop(&mut self, name: &Arc<str>) {
        if let Some(stack) = self.locals.get_mut(name) {
            stack.pop();
        }
    }

    fn path(&self, expr: &Expr) -> Path {
        if let ExprKind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned().unwrap_or_else(|| Arc::new([]))
    }

    fn size(&mut self, expr: &Expr) -> Option<Range> {
        if let Some(size) = self.computed.get(&expr.id) {
            return Some(*size);
        }
        let fixed = match &expr.kind {
            ExprKind::Literal(literal) => Some(literal_size(literal)),
            ExprKind::List { items, .. } => Some(items.len() as u64),
            ExprKind::Map(entries) => Some(entries.len() as u64),
            _ => None,
        };
        if let Some(size) = fixed {
            return Some(Range::fixed(size));
        }
        let path = self.path(expr);
        if let Some(size) = self.estimated(&path) {
            self.computed.insert(expr.id, size);
            return Some(size);
        }
        if is_scalar(self.checked.type_of(expr)) {
            return Some(Range::fixed(1));
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    fn estimated(&self, path: &Path) -> Option<Range> {
        if path.is_empty() {
            return None;
        }
        self.sizes.size(path)
    }

    fn known(&mut self, expr: &Expr) -> Range {
        self.size(expr).unwrap_or(Range::UNKNOWN)
    }

    fn entries_of(&self, expr: &Expr) -> Option<Entries> {
        if let Some(entries) = self.entries.get(&expr.id) {
            return Some(*entries);
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name)?.entries,
            _ => None,
        }
    }

    fn cost(&mut self, expr: &'a Expr) -> Range {
        match &expr.kind {
            ExprKind::Unspecified | ExprKind::Literal(_) => Range::default(),
            ExprKind::Ident(name) => {
                let path = match self.local(name) {
                    Some(local) => local.path.clone(),
                    None => [name.to_string()].into(),
                };
                self.paths.insert(expr.id, path);
                Range::fixed(1)
            }
            ExprKind::Select { operand, field, test } => {
                let cost = self.cost(operand);
                if *test {
                    return cost;
                }
                let path = extended(&self.path(operand), field);
                self.paths.insert(expr.id, path);
                match self.checked.type_of(operand) {
                    Type::Map(_) | Type::Object(_) | Type::Param(_) => cost + Range::fixed(1),
                    _ => cost,
                }
            }
            ExprKind::Call { function, target, args } => self.call(expr, function, target.as_deref(), args),
            ExprKind::List { items, .. } => {
                let (mut cost, mut size) = (Range::fixed(LIST_CREATE), empty(items.is_empty()));
                for item in items {
                    cost = cost + self.cost(item);
                    size = size.union(self.known(item));
                }
                let entries = Entries {
                    is_list: true,
                    key: Range::fixed(1),
                    value: size,
                };
                self.entries.insert(expr.id, entries);
                cost
            }
            ExprKind::Map(members) => {
                let mut cost = Range::fixed(MAP_CREATE);
                let (mut key, mut value) = (empty(members.is_empty()), empty(members.is_empty()));
                for member in members {
                    cost = cost + self.cost(&member.key) + self.cost(&member.value);
                    key = key.union(self.known(&member.key));
                    value = value.union(self.known(&member.value));
                }
                let is_list = false;
                self.entries.insert(expr.id, Entries { is_list, key, value });
                cost
            }
            ExprKind::Struct { fields, .. } => {
                let mut cost = Range::fixed(STRUCT_CREATE);
                for field in fields {
                    cost = cost + self.cost(&field.value);
                }
                cost
            }
            ExprKind::Comprehension(fold) if is_bind(fold) => self.bind(expr, fold),
            ExprKind::Comprehension(fold) => self.fold(expr, fold),
        }
    }

    fn copy_sizes(&mut self, to: &Expr, from: &Expr) {
        if let Some(size) = self.size(from) {
            self.computed.insert(to.id, size);
        }
        if let Some(entries) = self.entries_of(from) {
            self.entries.insert(to.id, entries);
        }
    }

    fn accumulator(&mut self, fold: &Comprehension) -> Local {
        Local {
            path: self.path(&fold.init),
            size: self.size(&fold.init),
            entries: self.entries_of(&fold.init),
        }
    }

    fn bind(&mut self, expr: &Expr, fold: &'a Comprehension) -> Range {
        let mut cost = self.cost(&fold.range) + self.cost(&fold.init);
        let local = self.accumulator(fold);
        self.push(&fold.accumulator, local);
        cost = cost + self.cost(&fold.result);
        self.pop(&fold.accumulator);
        self.copy_sizes(expr, &fold.result);
        cost
    }

    fn fold(&mut self, expr: &Expr, fold: &'a Comprehension) -> Range {
        let mut cost = self.cost(&fold.range) + self.cost(&fold.init);
        let local = self.accumulator(fold);
        self.push(&fold.accumulator, local);
        let entries = self.entries_of(&fold.range);
        let path = self.path(&fold.range);
        let is_list = match entries {
            Some(entries) => entries.is_list,
            None => matches!(self.checked.type_of(&fold.range), Type::List(_)),
        };
        let variable = |step: &str, size: Option<Range>| Local {
            path: extended(&path, step),
            size,
            entries: None,
        };
        let (keys, values) = (entries.map(|e| e.key), entries.map(|e| e.value));
        let first = match (is_list, fold.second.is_some()) {
            (true, true) => variable("@indices", keys),
            (true, false) => variable("@items", values),
            (false, _) => variable("@keys", keys),
        };
        self.push(&fold.variable, first);
        if let Some(second) = &fold.second {
            let step = if is_list { "@items" } else { "@values" };
            self.push(second, variable(step, values));
        }
        let turn = self.cost(&fold.condition) + self.cost(&fold.step);
        self.pop(&fold.variable);
        if let Some(second) = &fold.second {
            self.pop(second);
        }
        cost = cost + self.cost(&fold.result);
        self.pop(&fold.accumulator);
        let turns = self.known(&fold.range);
        cost = cost + turns * turn;
        match &fold.init.kind {
            ExprKind::Literal(literal) => {
                self.computed.insert(expr.id, Range::fixed(literal_size(literal)));
            }
            ExprKind::List { .. } | ExprKind::Map(_) => {
                self.computed.insert(expr.id, turns);
                if let Some(entries) = self.entries_of(&fold.step) {
                    self.entries.insert(expr.id, entries);
                }
            }
            _ => {}
        }
        cost
    }

    fn node(&mut self, expr: &'a Expr) -> Node<'a> {
        let mut path = self.path(expr);
        if path.first().is_some_and(|p| p == crate::macros::ACCUMULATOR) {
            path = Arc::new([]);
        }
        Node {
            expr: Some(expr),
            path,
            ty: self.checked.type_of(expr).clone(),
            size: self.size(expr),
        }
    }

    fn call(&mut self, expr: &'a Expr, function: &str, target: Option<&'a Expr>, args: &'a [Expr]) -> Range {
        if let ("dyn", [arg]) = (function, args) {
            let cost = self.cost(arg);
            self.copy_sizes(expr, arg);
            return cost + Range::fixed(1);
        }
        let mut costs = Vec::with_capacity(args.len());
        let mut nodes = Vec::with_capacity(args.len());
        for arg in args {
            costs.push(self.cost(arg));
            nodes.push(self.node(arg));
        }
        let checked = self.checked;
        let overloads = checked.overloads(expr.id);
        if overloads.is_empty() {
            return Range::default();
        }
        let mut sum = Range::default();
        let receiver = target.map(|target| {
            sum = sum + self.cost(target);
            self.node(target)
        });
        let mut cost = Range { min: u64::MAX, max: 0 };
        let mut size: Option<Range> = None;
        for overload in overloads {
            let found = self.function(expr, function, overload, receiver.as_ref(), &nodes, &costs);
            cost = cost.union(found.cost);
            size = match (size, found.size) {
                (Some(a), Some(b)) => Some(a.union(b)),
                (a, b) => a.or(b),
            };
            let step = match *overload {
                "index_list" => Some("@items"),
                "index_map" => Some("@values"),
                _ => None,
            };
            if let (Some(step), Some(first)) = (step, args.first()) {
                size = self.entries_of(first).map(|e| e.value);
                let path = extended(&self.path(first), step);
                self.paths.insert(expr.id, path);
            }
            if size.is_none() {
                size = self.size(expr);
            }
        }
        if let Some(size) = size {
            self.computed.insert(expr.id, size);
        }
        sum + cost
    }
}

fn empty(is_empty: bool) -> Range {
    let min = if is_empty { 0 } else { u64::MAX };
    Range { min, max: 0 }
}

fn is_bind(fold: &Comprehension) -> bool {
    matches!(&fold.range.kind, ExprKind::List { items, .. } if items.is_empty())
        && matches!(fold.condition.kind, ExprKind::Literal(Literal::Bool(false)))
}
