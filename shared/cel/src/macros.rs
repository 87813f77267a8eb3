//! Calls that are rewritten while parsing: `has`, the quantifiers, `map`, `filter`, `transformList`, `optMap`, `sortBy`.
//!
//! Contract: a call whose name, style and number of arguments are those of a macro is expanded or, when an argument has the wrong
//! form, reported with cel-go's text; all nodes made here stand where the call stands.

use std::sync::Arc;

use crate::ast::{Comprehension, Entry, Expr, ExprKind, FieldInit, Literal};
use crate::parser::{Nodes, call};

/// The accumulator's name, which no expression can say.
pub(crate) const ACCUMULATOR: &str = "@result";
const OLD_ACCUMULATOR: &str = "__result__";
const UNUSED: &str = "#unused";
const SORT_INPUT: &str = "@__sortBy_input__";

/// What became of a call.
pub(crate) enum Expanded {
    /// It was a macro.
    Yes(Expr),
    /// It is an ordinary call.
    No(Option<Expr>, Vec<Expr>),
}

/// An argument of the wrong form, by id.
type Wrong = (usize, String);

/// Expands a call at an offset if it is a macro.
pub(crate) fn expand(nodes: &mut Nodes, offset: usize, name: &str, target: Option<Expr>, args: Vec<Expr>) -> Expanded {
    let known = matches!(
        (name, args.len(), target.is_some()),
        ("has", 1, false)
            | ("all" | "exists" | "exists_one" | "existsOne" | "map", 2 | 3, true)
            | ("filter" | "optMap" | "optFlatMap" | "sortBy", 2, true)
            | ("transformList" | "transformMap" | "transformMapEntry", 3 | 4, true)
    );
    let is_cel = |e: &Expr| simple(e).is_some_and(|name| &*name == "cel");
    let binds = nodes.bindings && name == "bind" && args.len() == 3 && target.as_ref().is_some_and(is_cel);
    if !known && !binds {
        return Expanded::No(target, args);
    }
    let mut maker = Maker { nodes, offset };
    let outcome = maker.expand(name, target.unwrap_or_default(), args);
    Expanded::Yes(outcome.unwrap_or_else(|(id, message)| {
        let at = nodes.offset(id);
        nodes.error(at, message)
    }))
}

struct Maker<'a> {
    nodes: &'a mut Nodes,
    offset: usize,
}

/// One or two variables, and the arguments after them.
type Variables = (Arc<str>, Option<Arc<str>>, Vec<Expr>);

/// The parts of a fold that differ between macros.
struct Fold {
    init: Expr,
    condition: Expr,
    step: Expr,
    result: Expr,
}

fn simple(expr: &Expr) -> Option<Arc<str>> {
    match &expr.kind {
        ExprKind::Ident(name) => Some(name.clone()),
        _ => None,
    }
}

fn not_the_accumulator(name: &str, expr: &Expr) -> Result<(), Wrong> {
    if name == ACCUMULATOR || name == OLD_ACCUMULATOR {
        let message = "iteration variable overwrites accumulator variable";
        return Err((expr.id, message.to_owned()));
    }
    Ok(())
}

impl Maker<'_> {
    fn node(&mut self, kind: ExprKind) -> Expr {
        self.nodes.node(self.offset, kind)
    }

    fn literal(&mut self, literal: Literal) -> Expr {
        self.node(ExprKind::Literal(literal))
    }

    fn ident(&mut self, name: &str) -> Expr {
        self.node(ExprKind::Ident(name.into()))
    }

    fn accumulator(&mut self) -> Expr {
        self.ident(ACCUMULATOR)
    }

    fn call(&mut self, function: &str, args: Vec<Expr>) -> Expr {
        self.node(call(function, args))
    }

    fn member_call(&mut self, function: &str, target: Expr, args: Vec<Expr>) -> Expr {
        self.node(ExprKind::Call {
            function: function.into(),
            target: Some(Box::new(target)),
            args,
        })
    }

    fn list(&mut self, items: Vec<Expr>) -> Expr {
        let optional = vec![false; items.len()];
        self.node(ExprKind::List { items, optional })
    }

    fn expand(&mut self, name: &str, target: Expr, mut args: Vec<Expr>) -> Result<Expr, Wrong> {
        match name {
            "has" => self.has(args.remove(0)),
            "map" => self.map(target, args),
            "filter" => self.filter(target, args),
            "optMap" | "optFlatMap" => self.optional_map(name, target, args),
            "sortBy" => self.sort_by(target, args),
            "transformList" | "transformMap" | "transformMapEntry" => self.transform(name, target, args),
            "bind" => self.named(args),
            _ => self.quantifier(name, target, args),
        }
    }

    fn has(&mut self, argument: Expr) -> Result<Expr, Wrong> {
        match argument.kind {
            ExprKind::Select { operand, field, .. } => {
                let test = true;
                Ok(self.node(ExprKind::Select { operand, field, test }))
            }
            _ => Err((argument.id, "invalid argument to has() macro".to_owned())),
        }
    }

    fn fold(&mut self, range: Expr, variable: Arc<str>, second: Option<Arc<str>>, fold: Fold) -> Expr {
        self.node(ExprKind::Comprehension(Box::new(Comprehension {
            range,
            variable,
            second,
            accumulator: ACCUMULATOR.into(),
            init: fold.init,
            condition: fold.condition,
            step: fold.step,
            result: fold.result,
        })))
    }

    /// The variables of a macro, and the arguments after them.
    fn variables(&mut self, args: Vec<Expr>, two: bool) -> Result<Variables, Wrong> {
        let name = |expr: &Expr| {
            let message = "argument must be a simple name".to_owned();
            simple(expr).ok_or((expr.id, message))
        };
        let mut args = args.into_iter();
        let first = args.next().unwrap_or_default();
        let variable = name(&first)?;
        if !two {
            not_the_accumulator(&variable, &first)?;
            return Ok((variable, None, args.collect()));
        }
        let second = args.next().unwrap_or_default();
        let other = name(&second)?;
        if variable == other {
            return Err((second.id, format!("duplicate variable name: {variable}")));
        }
        not_the_accumulator(&variable, &first)?;
        not_the_accumulator(&other, &second)?;
        Ok((variable, Some(other), args.collect()))
    }

    fn quantifier(&mut self, name: &str, range: Expr, args: Vec<Expr>) -> Result<Expr, Wrong> {
        let two = args.len() == 3;
        let (variable, second, mut rest) = self.variables(args, two)?;
        let predicate = rest.pop().unwrap_or_default();
        let fold = match name {
            "all" => {
                let init = self.literal(Literal::Bool(true));
                let accumulator = self.accumulator();
                let condition = self.call("@not_strictly_false", vec![accumulator]);
                let accumulator = self.accumulator();
                let step = self.call("_&&_", vec![accumulator, predicate]);
                let result = self.accumulator();
                Fold {
                    init,
                    condition,
                    step,
                    result,
                }
            }
            "exists" => {
                let init = self.literal(Literal::Bool(false));
                let accumulator = self.accumulator();
                let not = self.call("!_", vec![accumulator]);
                let condition = self.call("@not_strictly_false", vec![not]);
                let accumulator = self.accumulator();
                let step = self.call("_||_", vec![accumulator, predicate]);
                let result = self.accumulator();
                Fold {
                    init,
                    condition,
                    step,
                    result,
                }
            }
            _ => {
                let init = self.literal(Literal::Int(0));
                let condition = self.literal(Literal::Bool(true));
                let (accumulator, one) = (self.accumulator(), self.literal(Literal::Int(1)));
                let more = self.call("_+_", vec![accumulator, one]);
                let same = self.accumulator();
                let step = self.call("_?_:_", vec![predicate, more, same]);
                let (accumulator, one) = (self.accumulator(), self.literal(Literal::Int(1)));
                let result = self.call("_==_", vec![accumulator, one]);
                Fold {
                    init,
                    condition,
                    step,
                    result,
                }
            }
        };
        Ok(self.fold(range, variable, second, fold))
    }

    /// A fold that collects into `init`, skipping what the filter refuses.
    fn collect(
        &mut self,
        range: Expr,
        variables: (Arc<str>, Option<Arc<str>>),
        init: Expr,
        filter: Option<Expr>,
        step: Expr,
    ) -> Expr {
        let condition = self.literal(Literal::Bool(true));
        let step = match filter {
            Some(filter) => {
                let same = self.accumulator();
                self.call("_?_:_", vec![filter, step, same])
            }
            None => step,
        };
        let result = self.accumulator();
        let fold = Fold {
            init,
            condition,
            step,
            result,
        };
        self.fold(range, variables.0, variables.1, fold)
    }

    fn append(&mut self, item: Expr) -> Expr {
        let accumulator = self.accumulator();
        let list = self.list(vec![item]);
        self.call("_+_", vec![accumulator, list])
    }

    /// The variable of `map` and `filter`, whose text differs from that of the quantifiers.
    fn identifier(&mut self, expr: &Expr) -> Result<Arc<str>, Wrong> {
        let name = simple(expr).ok_or((expr.id, "argument is not an identifier".to_owned()))?;
        not_the_accumulator(&name, expr)?;
        Ok(name)
    }

    fn map(&mut self, range: Expr, args: Vec<Expr>) -> Result<Expr, Wrong> {
        let mut args = args.into_iter();
        let variable = self.identifier(&args.next().unwrap_or_default())?;
        let mut rest: Vec<Expr> = args.collect();
        let value = rest.pop().unwrap_or_default();
        let init = self.list(Vec::new());
        let step = self.append(value);
        Ok(self.collect(range, (variable, None), init, rest.pop(), step))
    }

    fn filter(&mut self, range: Expr, mut args: Vec<Expr>) -> Result<Expr, Wrong> {
        let filter = args.pop().unwrap_or_default();
        let item = args.pop().unwrap_or_default();
        let variable = self.identifier(&item)?;
        let init = self.list(Vec::new());
        let step = self.append(item);
        Ok(self.collect(range, (variable, None), init, Some(filter), step))
    }

    fn transform(&mut self, name: &str, range: Expr, args: Vec<Expr>) -> Result<Expr, Wrong> {
        let (variable, second, mut rest) = self.variables(args, true)?;
        let value = rest.pop().unwrap_or_default();
        let filter = rest.pop();
        let (init, step) = match name {
            "transformList" => (self.list(Vec::new()), self.append(value)),
            _ => {
                let init = self.node(ExprKind::Map(Vec::new()));
                let mut args = vec![self.accumulator()];
                if name == "transformMap" {
                    args.push(self.ident(&variable));
                }
                args.push(value);
                (init, self.call("cel.@mapInsert", args))
            }
        };
        Ok(self.collect(range, (variable, second), init, filter, step))
    }

    /// Names a value: a fold over nothing.
    fn bind(&mut self, name: Arc<str>, value: Expr, result: Expr) -> Expr {
        let range = self.list(Vec::new());
        let condition = self.literal(Literal::Bool(false));
        let step = self.ident(&name);
        self.node(ExprKind::Comprehension(Box::new(Comprehension {
            range,
            variable: UNUSED.into(),
            second: None,
            accumulator: name,
            init: value,
            condition,
            step,
            result,
        })))
    }

    /// `cel.bind(name, value, result)`.
    fn named(&mut self, mut args: Vec<Expr>) -> Result<Expr, Wrong> {
        let result = args.pop().unwrap_or_default();
        let value = args.pop().unwrap_or_default();
        let name = args.pop().unwrap_or_default();
        let message = "cel.bind() variable names must be simple identifiers".to_owned();
        let name = simple(&name).ok_or((name.id, message))?;
        Ok(self.bind(name, value, result))
    }

    fn optional_map(&mut self, name: &str, target: Expr, mut args: Vec<Expr>) -> Result<Expr, Wrong> {
        let result = args.pop().unwrap_or_default();
        let variable = args.pop().unwrap_or_default();
        let message = format!("{name}() variable name must be a simple identifier");
        let variable = simple(&variable).ok_or((variable.id, message))?;
        let copy = self.copy(&target);
        let has = self.member_call("hasValue", target, Vec::new());
        let value = self.member_call("value", copy, Vec::new());
        let bound = self.bind(variable, value, result);
        let some = match name {
            "optMap" => self.call("optional.of", vec![bound]),
            _ => bound,
        };
        let none = self.call("optional.none", Vec::new());
        Ok(self.call("_?_:_", vec![has, some, none]))
    }

    fn sort_by(&mut self, target: Expr, args: Vec<Expr>) -> Result<Expr, Wrong> {
        let sortable = matches!(
            target.kind,
            ExprKind::List { .. }
                | ExprKind::Select { .. }
                | ExprKind::Ident(_)
                | ExprKind::Comprehension(_)
                | ExprKind::Call { .. }
        );
        if !sortable {
            let message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return Err((target.id, message.to_owned()));
        }
        let input = self.ident(SORT_INPUT);
        let keys = self.map(input, args)?;
        let input = self.ident(SORT_INPUT);
        let sorted = self.member_call("@sortByAssociatedKeys", input, vec![keys]);
        Ok(self.bind(SORT_INPUT.into(), target, sorted))
    }

    /// The same tree with ids of its own.
    fn copy(&mut self, expr: &Expr) -> Expr {
        if self.nodes.is_full() {
            return Expr::default();
        }
        let kind = match &expr.kind {
            ExprKind::Select { operand, field, test } => ExprKind::Select {
                operand: Box::new(self.copy(operand)),
                field: field.clone(),
                test: *test,
            },
            ExprKind::Call { function, target, args } => ExprKind::Call {
                function: function.clone(),
                target: target.as_ref().map(|t| Box::new(self.copy(t))),
                args: args.iter().map(|a| self.copy(a)).collect(),
            },
            ExprKind::List { items, optional } => ExprKind::List {
                items: items.iter().map(|i| self.copy(i)).collect(),
                optional: optional.clone(),
            },
            ExprKind::Map(entries) => ExprKind::Map(
                entries
                    .iter()
                    .map(|e| Entry {
                        id: self.nodes.id(self.nodes.offset(e.id)),
                        key: self.copy(&e.key),
                        value: self.copy(&e.value),
                        optional: e.optional,
                    })
                    .collect(),
            ),
            ExprKind::Struct { name, fields } => ExprKind::Struct {
                name: name.clone(),
                fields: fields
                    .iter()
                    .map(|f| FieldInit {
                        id: self.nodes.id(self.nodes.offset(f.id)),
                        name: f.name.clone(),
                        value: self.copy(&f.value),
                        optional: f.optional,
                    })
                    .collect(),
            },
            ExprKind::Comprehension(c) => ExprKind::Comprehension(Box::new(Comprehension {
                range: self.copy(&c.range),
                variable: c.variable.clone(),
                second: c.second.clone(),
                accumulator: c.accumulator.clone(),
                init: self.copy(&c.init),
                condition: self.copy(&c.condition),
                step: self.copy(&c.step),
                result: self.copy(&c.result),
            })),
            plain => plain.clone(),
        };
        let offset = self.nodes.offset(expr.id);
        self.nodes.node(offset, kind)
    }
}
