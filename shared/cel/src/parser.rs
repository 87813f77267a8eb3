//! From tokens to a tree.
//!
//! Contract: a text of the language gives its tree and, from literals and macros that are wrong, issues; any other text gives the
//! syntax errors that ANTLR's parser reports ([`crate::syntax`] finds them, here we only notice that there are some). Recursion is
//! bounded as upstream bounds it, to 250 levels of each rule; a tree that is deep in several rules at once is refused as well.

mod literals;
mod operators;

use std::sync::Arc;

use self::operators::{AND, OR, Pending, RELATION, operator};
use crate::ast::{Ast, Expr, ExprKind, Literal};

use crate::lexer::{self, Kind, Token};
use crate::macros;
use crate::program::weight;
use crate::source::{Issues, Location, Source};
use crate::syntax;

/// Levels of each grammar rule.
const MAX_DEPTH: usize = 250;
/// Code points in an expression.
const MAX_SIZE: usize = 100_000;
/// Nodes in a tree; macros that copy their target could multiply them without end.
const MAX_NODES: usize = 1_000_000;

/// What a tree may weigh, so that going through it does not run out of stack.
const MAX_WEIGHT: usize = 500;

const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "package",
    "namespace",
    "null",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// Parses a text, with the macro `cel.bind` or without.
pub fn parse(text: &str, bindings: bool) -> Result<Ast, Issues> {
    let source = Source::new(text);
    let mut issues = Issues::new(source.clone());
    let size = source.chars().len();
    if size > MAX_SIZE {
        let what = format!("expression code point size exceeds limit: size: {size}, limit {MAX_SIZE}");
        issues.push(Location::NONE, what);
        return Err(issues);
    }
    let tokens = lexer::tokens(&source, &mut issues);
    let mut parser = Parser {
        nodes: Nodes {
            offsets: vec![usize::MAX],
            issues: Issues::new(source.clone()),
            bindings,
        },
        tokens: &tokens,
        at: 0,
        source,
        depth: Depth::default(),
    };
    let outcome = parser.expr().and_then(|root| match parser.kind() {
        Kind::Eof => Ok(root),
        _ => Err(Stop::Syntax),
    });
    let root = match outcome {
        Ok(root) => root,
        Err(Stop::Syntax) => {
            syntax::explain(&parser.source, &tokens, &mut issues);
            return Err(issues);
        }
        Err(Stop::TooDeep(message)) => {
            issues.push(Location::NONE, message);
            return Err(issues);
        }
    };
    for issue in parser.nodes.issues.list() {
        issues.push(issue.location, issue.message.clone());
    }
    if weight(&root) > MAX_WEIGHT {
        issues.push(
            Location::NONE,
            format!("expression recursion limit exceeded: {MAX_DEPTH}"),
        );
    }
    if !issues.is_empty() {
        return Err(issues);
    }
    Ok(Ast {
        root,
        offsets: parser.nodes.offsets,
    })
}

/// Ids and places of nodes, and what is wrong with them.
pub(crate) struct Nodes {
    offsets: Vec<usize>,
    issues: Issues,
    /// `cel.bind` is a macro.
    pub bindings: bool,
}

impl Nodes {
    /// A new node that stands at an offset.
    pub fn node(&mut self, offset: usize, kind: ExprKind) -> Expr {
        Expr {
            id: self.id(offset),
            kind,
        }
    }

    /// A new id that stands at an offset.
    pub fn id(&mut self, offset: usize) -> usize {
        self.offsets.push(offset);
        self.offsets.len() - 1
    }

    /// Where a node stands.
    pub fn offset(&self, id: usize) -> usize {
        self.offsets.get(id).copied().unwrap_or(usize::MAX)
    }

    /// Whether there are as many nodes as there may be.
    pub fn is_full(&self) -> bool {
        self.offsets.len() > MAX_NODES
    }

    /// Reports an error at an offset; gives a node to go on with.
    pub fn error(&mut self, offset: usize, message: impl Into<String>) -> Expr {
        let location = self.issues.source().location(offset);
        self.issues.push(location, message);
        self.node(offset, ExprKind::Unspecified)
    }
}

/// Why parsing ended.
enum Stop {
    Syntax,
    TooDeep(String),
}

type Parsed<T> = Result<T, Stop>;

/// How deep each rule is nested.
#[derive(Default)]
struct Depth {
    expr: usize,
    relation: usize,
    calc: usize,
    member: usize,
}

fn deeper(depth: usize) -> Parsed<()> {
    if depth > MAX_DEPTH {
        return Err(Stop::TooDeep(format!(
            "expression recursion limit exceeded: {MAX_DEPTH}"
        )));
    }
    Ok(())
}

struct Parser<'a> {
    source: Source,
    tokens: &'a [Token],
    at: usize,
    nodes: Nodes,
    depth: Depth,
}

/// A function call.
pub(crate) fn call(function: &str, args: Vec<Expr>) -> ExprKind {
    ExprKind::Call {
        function: function.into(),
        target: None,
        args,
    }
}

impl Parser<'_> {
    fn token(&self) -> Token {
        self.tokens.get(self.at).copied().unwrap_or(Token {
            kind: Kind::Eof,
            start: 0,
            end: 0,
        })
    }

    fn kind(&self) -> Kind {
        self.token().kind
    }

    fn ahead(&self, count: usize) -> Kind {
        self.tokens.get(self.at + count).map_or(Kind::Eof, |t| t.kind)
    }

    fn next(&mut self) -> Token {
        let token = self.token();
        self.at += 1;
        token
    }

    fn take(&mut self, kind: Kind) -> Option<Token> {
        (self.kind() == kind).then(|| self.next())
    }

    fn expect(&mut self, kind: Kind) -> Parsed<Token> {
        self.take(kind).ok_or(Stop::Syntax)
    }

    fn text(&self, token: Token) -> String {
        self.source.slice(token.start, token.end)
    }

    /// A conditional, or what stands in one. Few functions lie between an expression and one inside it, so that deep nesting needs
    /// little stack.
    fn expr(&mut self) -> Parsed<Expr> {
        self.depth.expr += 1;
        deeper(self.depth.expr)?;
        if self.nodes.is_full() {
            deeper(usize::MAX)?;
        }
        let mut parsed = self.operators()?;
        if let Some(operator) = self.take(Kind::Question) {
            let yes = self.operators()?;
            self.expect(Kind::Colon)?;
            let no = self.expr()?;
            let kind = call("_?_:_", vec![parsed, yes, no]);
            parsed = self.nodes.node(operator.start, kind);
        }
        self.depth.expr -= 1;
        Ok(parsed)
    }

    /// Operands joined by operators, the tighter ones first.
    fn operators(&mut self) -> Parsed<Expr> {
        let (relation, calc) = (self.depth.relation, self.depth.calc);
        self.depth.relation += 1;
        self.depth.calc += 1;
        let mut pending = Pending::default();
        loop {
            deeper(self.depth.relation.max(self.depth.calc))?;
            let operand = self.unary()?;
            pending.operands.push(Some(operand));
            let token = self.token();
            let Some((function, binds)) = operator(token.kind) else {
                break;
            };
            self.at += 1;
            pending.reduce(&mut self.nodes, binds);
            match binds {
                OR | AND => (self.depth.relation, self.depth.calc) = (relation + 1, calc + 1),
                RELATION => {
                    self.depth.relation += 1;
                    self.depth.calc = calc + 1;
                }
                _ => self.depth.calc += 1,
            }
            pending.operators.push((function, binds, token.start));
        }
        (self.depth.relation, self.depth.calc) = (relation, calc);
        pending.reduce(&mut self.nodes, 0);
        Ok(pending.operands.pop().flatten().unwrap_or_default())
    }

    fn unary(&mut self) -> Parsed<Expr> {
        let first = self.token();
        let function = match first.kind {
            Kind::Exclamation => "!_",
            Kind::Minus if !self.is_negative_literal() => "-_",
            _ => return self.member(),
        };
        let mut count = 0;
        // A sign right before a number belongs to the number only when it is the only one.
        while self.take(first.kind).is_some() {
            count += 1;
        }
        let id = self.nodes.id(first.start);
        let operand = self.member()?;
        if count % 2 == 0 {
            return Ok(operand);
        }
        Ok(Expr {
            id,
            kind: call(function, vec![operand]),
        })
    }

    fn is_negative_literal(&self) -> bool {
        self.kind() == Kind::Minus && matches!(self.ahead(1), Kind::Int | Kind::Float)
    }

    fn member(&mut self) -> Parsed<Expr> {
        let before = self.depth.member;
        self.depth.member += 1;
        deeper(self.depth.member)?;
        let mut expr = self.primary()?;
        while matches!(self.kind(), Kind::Dot | Kind::LeftBracket) {
            self.depth.member += 1;
            deeper(self.depth.member)?;
            let operator = self.next();
            expr = if operator.kind == Kind::Dot {
                self.select(expr, operator)?
            } else {
                let optional = self.take(Kind::Question).is_some();
                let id = self.nodes.id(operator.start);
                let index = self.expr()?;
                self.expect(Kind::RightBracket)?;
                let function = if optional { "_[?_]" } else { "_[_]" };
                let kind = call(function, vec![expr, index]);
                Expr { id, kind }
            };
        }
        self.depth.member = before;
        Ok(expr)
    }

    fn select(&mut self, operand: Expr, dot: Token) -> Parsed<Expr> {
        let optional = self.take(Kind::Question).is_some();
        let name = self.next();
        if name.kind == Kind::Identifier && !optional && self.kind() == Kind::LeftParen {
            let open = self.next();
            let args = self.arguments()?;
            return Ok(self.call_or_macro(open, &self.text(name), Some(operand), args));
        }
        let field: Arc<str> = match name.kind {
            Kind::Identifier => self.text(name).into(),
            Kind::EscapedIdentifier => {
                self.nodes.error(name.start, "unsupported syntax: '`'");
                "".into()
            }
            _ => return Err(Stop::Syntax),
        };
        if optional {
            let id = self.nodes.id(dot.start);
            let literal = ExprKind::Literal(Literal::String(field));
            let field = self.nodes.node(name.start, literal);
            let kind = call("_?._", vec![operand, field]);
            return Ok(Expr { id, kind });
        }
        let operand = Box::new(operand);
        let test = false;
        Ok(self.nodes.node(dot.start, ExprKind::Select { operand, field, test }))
    }

    fn arguments(&mut self) -> Parsed<Vec<Expr>> {
        let mut args = Vec::new();
        if self.take(Kind::RightParen).is_some() {
            return Ok(args);
        }
        loop {
            args.push(self.expr()?);
            if self.take(Kind::Comma).is_none() {
                break;
            }
        }
        self.expect(Kind::RightParen)?;
        Ok(args)
    }

    fn call_or_macro(&mut self, open: Token, name: &str, target: Option<Expr>, args: Vec<Expr>) -> Expr {
        match macros::expand(&mut self.nodes, open.start, name, target, args) {
            macros::Expanded::Yes(expr) => expr,
            macros::Expanded::No(target, args) => self.nodes.node(
                open.start,
                ExprKind::Call {
                    function: name.into(),
                    target: target.map(Box::new),
                    args,
                },
            ),
        }
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let token = self.token();
        match token.kind {
            Kind::Dot | Kind::Identifier => self.name(),
            Kind::LeftParen => {
                self.next();
                let inside = self.expr()?;
                self.expect(Kind::RightParen)?;
                Ok(inside)
            }
            Kind::LeftBracket => self.list(),
            Kind::LeftBrace => self.map(),
            _ => self.literal(),
        }
    }

    /// A name, a call of a function, or a struct.
    fn name(&mut self) -> Parsed<Expr> {
        let first = self.token();
        let dot = if self.take(Kind::Dot).is_some() { "." } else { "" };
        let name = self.expect(Kind::Identifier)?;
        if let Some(expr) = self.structure(dot, name)? {
            return Ok(expr);
        }
        let text = self.text(name);
        let open = self.take(Kind::LeftParen);
        let args = match open {
            Some(_) => self.arguments()?,
            None => Vec::new(),
        };
        if RESERVED.contains(&text.as_str()) {
            return Ok(self.nodes.error(first.start, format!("reserved identifier: {text}")));
        }
        let text = format!("{dot}{text}");
        Ok(match open {
            Some(open) => self.call_or_macro(open, &text, None, args),
            None => self.nodes.node(name.start, ExprKind::Ident(text.into())),
        })
    }
}
