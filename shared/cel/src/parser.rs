//! From tokens to a tree.
//!
//! Contract: a text of the language gives its tree and, from literals and macros that are wrong, issues; any other text gives the
//! syntax errors that ANTLR's parser reports ([`crate::syntax`] finds them, here we only notice that there are some). Recursion is
//! bounded as upstream bounds it, to 250 levels of each rule; a tree that is deep in several rules at once is refused as well.

use std::sync::Arc;

use crate::ast::{Ast, Entry, Expr, ExprKind, FieldInit, Literal};
use crate::lexer::{self, Kind, Token};
use crate::macros;
use crate::program::weight;
use crate::source::{Issues, Location, Source};
use crate::{syntax, unescape};

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

const OR: u8 = 1;
const AND: u8 = 2;
const RELATION: u8 = 3;
const SUM: u8 = 4;
const PRODUCT: u8 = 5;

/// The function that an operator means, and how tightly it binds.
fn operator(kind: Kind) -> Option<(&'static str, u8)> {
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
struct Pending {
    operands: Vec<Option<Expr>>,
    operators: Vec<(&'static str, u8, usize)>,
}

impl Pending {
    /// Joins what binds at least as tightly as the operator that comes next; logical operators only when all of a kind are there, as they
    /// become a balanced tree.
    fn reduce(&mut self, nodes: &mut Nodes, next: u8) {
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

    /// `a.b.C{…}`, if that is what follows the first name.
    fn structure(&mut self, dot: &str, first: Token) -> Parsed<Option<Expr>> {
        let mut length = 0;
        while self.ahead(length) == Kind::Dot && self.ahead(length + 1) == Kind::Identifier {
            length += 2;
        }
        if self.ahead(length) != Kind::LeftBrace {
            return Ok(None);
        }
        let mut name = format!("{dot}{}", self.text(first));
        for i in 0..length {
            name.push_str(&self.text(self.tokens[self.at + i]));
        }
        self.at += length;
        let open = self.next();
        let id = self.nodes.id(open.start);
        let mut fields = Vec::new();
        self.separated(Kind::RightBrace, |p| {
            let optional = p.take(Kind::Question).is_some();
            let name = p.next();
            let text = match name.kind {
                Kind::Identifier => p.text(name),
                Kind::EscapedIdentifier => {
                    p.nodes.error(open.start + 1, "unsupported syntax: '`'");
                    String::new()
                }
                _ => return Err(Stop::Syntax),
            };
            let colon = p.expect(Kind::Colon)?;
            let id = p.nodes.id(colon.start);
            let value = p.expr()?;
            fields.push(FieldInit {
                id,
                name: text.into(),
                value,
                optional,
            });
            Ok(())
        })?;
        let kind = ExprKind::Struct {
            name: name.into(),
            fields,
        };
        Ok(Some(Expr { id, kind }))
    }

    /// Items between commas, one comma after the last allowed, up to a closing token.
    fn separated(&mut self, close: Kind, mut item: impl FnMut(&mut Self) -> Parsed<()>) -> Parsed<()> {
        if self.kind() != close && self.kind() != Kind::Comma {
            loop {
                item(self)?;
                if self.kind() != Kind::Comma || self.ahead(1) == close {
                    break;
                }
                self.next();
            }
        }
        self.take(Kind::Comma);
        self.expect(close)?;
        Ok(())
    }

    fn list(&mut self) -> Parsed<Expr> {
        let open = self.next();
        let id = self.nodes.id(open.start);
        let (mut items, mut optional) = (Vec::new(), Vec::new());
        self.separated(Kind::RightBracket, |p| {
            optional.push(p.take(Kind::Question).is_some());
            items.push(p.expr()?);
            Ok(())
        })?;
        let kind = ExprKind::List { items, optional };
        Ok(Expr { id, kind })
    }

    fn map(&mut self) -> Parsed<Expr> {
        let open = self.next();
        let id = self.nodes.id(open.start);
        let mut entries = Vec::new();
        self.separated(Kind::RightBrace, |p| {
            let optional = p.take(Kind::Question).is_some();
            let key = p.expr()?;
            let colon = p.expect(Kind::Colon)?;
            let id = p.nodes.id(colon.start);
            let value = p.expr()?;
            entries.push(Entry {
                id,
                key,
                value,
                optional,
            });
            Ok(())
        })?;
        let kind = ExprKind::Map(entries);
        Ok(Expr { id, kind })
    }

    fn literal(&mut self) -> Parsed<Expr> {
        let start = self.token().start;
        let negative = self.is_negative_literal() && self.take(Kind::Minus).is_some();
        let token = self.next();
        let text = self.text(token);
        let signed = |text: &str| match negative {
            true => format!("-{text}"),
            false => text.to_owned(),
        };
        let made = match token.kind {
            Kind::Int => match text.strip_prefix("0x") {
                Some(hex) => i64::from_str_radix(&signed(hex), 16),
                None => signed(&text).parse(),
            }
            .map(Literal::Int)
            .map_err(|_| "invalid int literal".to_owned()),
            Kind::Uint => {
                let text = &text[..text.len() - 1];
                match text.strip_prefix("0x") {
                    Some(hex) => u64::from_str_radix(hex, 16),
                    None => text.parse(),
                }
                .map(Literal::Uint)
                .map_err(|_| "invalid uint literal".to_owned())
            }
            Kind::Float => match signed(&text).parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Literal::Double(number)),
                _ => Err("invalid double literal".to_owned()),
            },
            Kind::String => unescape::text(&text).map(|t| Literal::String(t.into())),
            Kind::Bytes => unescape::bytes(&text[1..]).map(|b| Literal::Bytes(b.into())),
            Kind::True => Ok(Literal::Bool(true)),
            Kind::False => Ok(Literal::Bool(false)),
            Kind::Null => Ok(Literal::Null),
            _ => return Err(Stop::Syntax),
        };
        Ok(match made {
            Ok(literal) => self.nodes.node(start, ExprKind::Literal(literal)),
            Err(message) => self.nodes.error(start, message),
        })
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
