//! CEL's grammar as the state machine that ANTLR makes of it.
//!
//! A rule's body is kept twice: as [`Node`]s, in the order in which a generated parser works through them, and as states with edges, of which sets of
//! expected tokens and predictions are made. Rules that recurse on their left are a first operand and a loop, guarded by precedence.

use std::collections::BTreeSet;

use crate::lexer::Kind;

/// A rule's number.
pub type Rule = usize;

pub const START: Rule = 0;
const EXPR: Rule = 1;
const OR: Rule = 2;
const AND: Rule = 3;
const RELATION: Rule = 4;
const CALC: Rule = 5;
const UNARY: Rule = 6;
const MEMBER: Rule = 7;
const PRIMARY: Rule = 8;
const EXPR_LIST: Rule = 9;
const LIST_INIT: Rule = 10;
const FIELDS: Rule = 11;
const OPT_FIELD: Rule = 12;
const ENTRIES: Rule = 13;
const IDENT: Rule = 14;
const OPT_EXPR: Rule = 15;
const LITERAL: Rule = 16;
const RULES: usize = 17;

/// A piece of a rule as it is written.
enum Piece {
    Token(Kind),
    Set(&'static [Kind]),
    /// A rule, with the precedence its loop begins at.
    Rule(Rule, u8),
    Seq(Vec<Piece>),
    Choice(Vec<Piece>),
    Optional(Box<Piece>),
    Star(Box<Piece>),
    Plus(Box<Piece>),
    /// Only if the rule's precedence is at most this.
    Guarded(u8, Box<Piece>),
}

/// A piece of a rule as it is worked through; numbers are states.
pub enum Node {
    Token(usize, Kind),
    Set(usize, &'static [Kind]),
    Rule(usize, Rule, u8),
    Seq(Vec<Node>),
    /// A decision between alternatives.
    Choice(usize, Vec<Node>),
    Optional(usize, Box<Node>),
    /// The decision to go in, and the state after each turn.
    Star(usize, usize, Box<Node>),
    /// The state before, and the decision after each turn.
    Plus(usize, usize, Box<Node>),
}

/// What leads from one state to the next.
pub enum Edge {
    Free(usize),
    Token(Kind, usize),
    Set(&'static [Kind], usize),
    /// Through a rule to the state after it.
    Rule(Rule, usize),
    Guard(u8, usize),
}

/// What the error strategy does at a state.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Nothing in particular.
    Plain,
    /// A block or loop begins.
    Begin,
    /// A loop's turn ends.
    TurnEnd,
    /// A rule ends.
    Stop(Rule),
}

/// A state.
pub struct State {
    pub at: At,
    pub edges: Vec<Edge>,
}

/// The grammar.
pub struct Grammar {
    pub states: Vec<State>,
    /// Bodies by rule.
    pub bodies: Vec<Node>,
    /// First and last states by rule.
    pub ends: Vec<(usize, usize)>,
    /// States that follow a rule somewhere, by rule.
    pub follow: Vec<Vec<usize>>,
    /// Whether a rule recurses on its left.
    pub left_recursive: [bool; RULES],
}

fn seq(pieces: Vec<Piece>) -> Piece {
    Piece::Seq(pieces)
}

fn optional(piece: Piece) -> Piece {
    Piece::Optional(Box::new(piece))
}

fn star(piece: Piece) -> Piece {
    Piece::Star(Box::new(piece))
}

fn rule(rule: Rule) -> Piece {
    Piece::Rule(rule, 0)
}

fn guarded(precedence: u8, pieces: Vec<Piece>) -> Piece {
    Piece::Guarded(precedence, Box::new(seq(pieces)))
}

/// The rules in the order of their numbers.
fn pieces() -> Vec<Piece> {
    use Kind::*;
    use Piece::{Choice, Plus, Set, Token};
    const RELATIONS: &[Kind] = &[Equals, NotEquals, In, Less, LessEquals, GreaterEquals, Greater];
    let list = |item: fn() -> Piece| seq(vec![item(), star(seq(vec![Token(Comma), item()]))]);
    let inside = |open: Kind, of: Rule, close: Kind| {
        seq(vec![
            Token(open),
            optional(rule(of)),
            optional(Token(Comma)),
            Token(close),
        ])
    };
    let arguments = || seq(vec![Token(LeftParen), optional(rule(EXPR_LIST)), Token(RightParen)]);
    let sign = |number: Kind| seq(vec![optional(Token(Minus)), Token(number)]);
    let prefix = |operator: Kind| seq(vec![Plus(Box::new(Token(operator))), rule(MEMBER)]);
    let dot = || optional(Token(Dot));
    vec![
        seq(vec![rule(EXPR), Token(Eof)]),
        seq(vec![
            rule(OR),
            optional(seq(vec![Token(Question), rule(OR), Token(Colon), rule(EXPR)])),
        ]),
        seq(vec![rule(AND), star(seq(vec![Token(Kind::Or), rule(AND)]))]),
        seq(vec![rule(RELATION), star(seq(vec![Token(And), rule(RELATION)]))]),
        seq(vec![
            rule(CALC),
            star(guarded(1, vec![Set(RELATIONS), Piece::Rule(RELATION, 2)])),
        ]),
        seq(vec![
            rule(UNARY),
            star(Choice(vec![
                guarded(2, vec![Set(&[Star, Slash, Percent]), Piece::Rule(CALC, 3)]),
                guarded(1, vec![Set(&[Minus, Kind::Plus]), Piece::Rule(CALC, 2)]),
            ])),
        ]),
        Choice(vec![rule(MEMBER), prefix(Exclamation), prefix(Minus)]),
        seq(vec![
            rule(PRIMARY),
            star(Choice(vec![
                guarded(3, vec![Token(Dot), optional(Token(Question)), rule(IDENT)]),
                guarded(2, vec![Token(Dot), Token(Identifier), arguments()]),
                guarded(
                    1,
                    vec![
                        Token(LeftBracket),
                        optional(Token(Question)),
                        rule(EXPR),
                        Token(RightBracket),
                    ],
                ),
            ])),
        ]),
        Choice(vec![
            seq(vec![dot(), Token(Identifier)]),
            seq(vec![dot(), Token(Identifier), arguments()]),
            seq(vec![Token(LeftParen), rule(EXPR), Token(RightParen)]),
            inside(LeftBracket, LIST_INIT, RightBracket),
            inside(LeftBrace, ENTRIES, RightBrace),
            seq(vec![
                dot(),
                Token(Identifier),
                star(seq(vec![Token(Dot), Token(Identifier)])),
                inside(LeftBrace, FIELDS, RightBrace),
            ]),
            rule(LITERAL),
        ]),
        list(|| rule(EXPR)),
        list(|| rule(OPT_EXPR)),
        list(|| seq(vec![rule(OPT_FIELD), Token(Colon), rule(EXPR)])),
        seq(vec![optional(Token(Question)), rule(IDENT)]),
        list(|| seq(vec![rule(OPT_EXPR), Token(Colon), rule(EXPR)])),
        Choice(vec![Token(Identifier), Token(EscapedIdentifier)]),
        seq(vec![optional(Token(Question)), rule(EXPR)]),
        Choice(vec![
            sign(Int),
            Token(Uint),
            sign(Float),
            Token(String),
            Token(Bytes),
            Token(True),
            Token(False),
            Token(Null),
        ]),
    ]
}

impl Grammar {
    /// Builds the states of all rules.
    pub fn new() -> Grammar {
        let mut grammar = Grammar {
            states: Vec::new(),
            bodies: Vec::new(),
            ends: Vec::new(),
            follow: (0..RULES).map(|_| Vec::new()).collect(),
            left_recursive: std::array::from_fn(|r| matches!(r, RELATION | CALC | MEMBER)),
        };
        for rule in 0..RULES {
            let first = grammar.state(At::Plain);
            let last = grammar.state(At::Stop(rule));
            grammar.ends.push((first, last));
        }
        for (rule, piece) in pieces().into_iter().enumerate() {
            let (first, last) = grammar.ends[rule];
            let (node, end) = grammar.build(piece, first);
            grammar.link(end, Edge::Free(last));
            grammar.bodies.push(node);
        }
        grammar
    }

    fn state(&mut self, at: At) -> usize {
        let edges = Vec::new();
        self.states.push(State { at, edges });
        self.states.len() - 1
    }

    fn link(&mut self, from: usize, edge: Edge) {
        self.states[from].edges.push(edge);
    }

    /// A new state that `from` leads to freely.
    fn next(&mut self, from: usize, at: At) -> usize {
        let state = self.state(at);
        self.link(from, Edge::Free(state));
        state
    }

    /// Adds a piece after a state; gives the state behind it.
    fn build(&mut self, piece: Piece, from: usize) -> (Node, usize) {
        match piece {
            Piece::Token(kind) => {
                let left = self.next(from, At::Plain);
                let right = self.state(At::Plain);
                self.link(left, Edge::Token(kind, right));
                (Node::Token(left, kind), right)
            }
            Piece::Set(kinds) => {
                let left = self.next(from, At::Plain);
                let right = self.state(At::Plain);
                self.link(left, Edge::Set(kinds, right));
                (Node::Set(left, kinds), right)
            }
            Piece::Rule(rule, precedence) => {
                let left = self.next(from, At::Plain);
                let right = self.state(At::Plain);
                self.link(left, Edge::Rule(rule, right));
                self.follow[rule].push(right);
                (Node::Rule(left, rule, precedence), right)
            }
            Piece::Seq(pieces) => {
                let (mut nodes, mut at) = (Vec::new(), from);
                for piece in pieces {
                    let (node, end) = self.build(piece, at);
                    nodes.push(node);
                    at = end;
                }
                (Node::Seq(nodes), at)
            }
            Piece::Choice(pieces) => {
                let start = self.next(from, At::Begin);
                let end = self.state(At::Plain);
                let mut nodes = Vec::new();
                for piece in pieces {
                    let first = self.next(start, At::Plain);
                    let (node, last) = self.build(piece, first);
                    self.link(last, Edge::Free(end));
                    nodes.push(node);
                }
                (Node::Choice(start, nodes), end)
            }
            Piece::Optional(piece) => {
                let start = self.next(from, At::Begin);
                let first = self.next(start, At::Plain);
                let (node, last) = self.build(*piece, first);
                let end = self.next(last, At::Plain);
                self.link(start, Edge::Free(end));
                (Node::Optional(start, Box::new(node)), end)
            }
            Piece::Star(piece) => {
                let entry = self.next(from, At::Begin);
                let first = self.next(entry, At::Plain);
                let (node, last) = self.build(*piece, first);
                let back = self.next(last, At::TurnEnd);
                self.link(back, Edge::Free(entry));
                let end = self.next(entry, At::Plain);
                (Node::Star(entry, back, Box::new(node)), end)
            }
            Piece::Plus(piece) => {
                let start = self.next(from, At::Begin);
                let (node, last) = self.build(*piece, start);
                let back = self.next(last, At::TurnEnd);
                self.link(back, Edge::Free(start));
                let end = self.next(back, At::Plain);
                (Node::Plus(start, back, Box::new(node)), end)
            }
            Piece::Guarded(precedence, piece) => {
                let first = self.state(At::Plain);
                self.link(from, Edge::Guard(precedence, first));
                self.build(*piece, first)
            }
        }
    }

    /// The tokens that may come at a state, and whether the rule may end before any does. With a stack of the states to come back to what
    /// follows the rule is looked at as well; at its bottom is the end of the text.
    pub fn look(&self, state: usize, stack: Option<&[usize]>) -> (BTreeSet<Kind>, bool) {
        let mut look = Look {
            grammar: self,
            found: BTreeSet::new(),
            ends: false,
            seen: BTreeSet::new(),
        };
        look.walk(state, 0, stack);
        (look.found, look.ends)
    }
}

struct Look<'g> {
    grammar: &'g Grammar,
    found: BTreeSet<Kind>,
    ends: bool,
    seen: BTreeSet<(usize, usize, usize)>,
}

impl Look<'_> {
    /// `inside` rules were entered on the way; a rule that ends inside goes on where it was entered.
    fn walk(&mut self, state: usize, inside: usize, stack: Option<&[usize]>) {
        let height = stack.map_or(0, <[usize]>::len);
        if !self.seen.insert((state, inside, height)) {
            return;
        }
        let grammar = self.grammar;
        let state = &grammar.states[state];
        if let At::Stop(_) = state.at {
            if inside > 0 {
                return;
            }
            match stack.map(<[usize]>::split_last) {
                None => self.ends = true,
                Some(None) => drop(self.found.insert(Kind::Eof)),
                Some(Some((back, rest))) => self.walk(*back, 0, Some(rest)),
            }
            return;
        }
        for edge in &state.edges {
            match edge {
                Edge::Free(to) | Edge::Guard(_, to) => self.walk(*to, inside, stack),
                Edge::Token(kind, _) => drop(self.found.insert(*kind)),
                Edge::Set(kinds, _) => self.found.extend(kinds.iter()),
                // No rule of this grammar can be empty, so what follows it does not begin here.
                Edge::Rule(rule, _) => self.walk(grammar.ends[*rule].0, inside + 1, stack),
            }
        }
    }
}
