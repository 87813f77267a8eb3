//! A generated parser at work, with ANTLR's default error strategy: one token too many is dropped, one that is missing is made up, otherwise the rule is
//! left and tokens are skipped until something fits that may follow. After an error nothing is said until a token fits again.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use super::grammar::{At, Edge, Grammar, Node, Rule, START};
use super::predict::{NoViable, Predictor};
use crate::lexer::{self, Kind, Token};
use crate::source::{Location, Source};

/// Levels of each rule.
const MAX_DEPTH: usize = 250;
/// Recoveries after which parsing is given up.
const MAX_RECOVERIES: usize = 30;
/// Tokens that one recovery may skip.
const MAX_SKIPPED: usize = 256;
/// Syntax errors that are told.
const MAX_ERRORS: usize = 100;

/// Why a rule is left.
enum Leave {
    /// A token does not fit.
    Mismatch,
    /// No alternative fits: the tokens from the first to the second.
    NoViable(usize, usize),
    /// Parsing is given up.
    GiveUp,
}

type Outcome = Result<(), Leave>;

/// A parser at work.
pub struct Parser<'a> {
    grammar: &'a Grammar,
    source: &'a Source,
    tokens: &'a [Token],
    at: usize,
    state: usize,
    /// States after the rules that are being worked through.
    stack: Vec<usize>,
    depth: Vec<usize>,
    predictor: Predictor,
    errors: Vec<(Location, String)>,
    recovering: bool,
    recoveries: usize,
    last_error: Option<usize>,
    last_states: HashSet<usize>,
    /// What may come, by state.
    looks: HashMap<usize, Rc<Look>>,
    /// The first tokens of what is optional, by decision, where one token decides.
    single: HashMap<usize, Option<Rc<BTreeSet<Kind>>>>,
}

/// The tokens that may come, and whether the rule may end before any does.
type Look = (BTreeSet<Kind>, bool);

impl<'a> Parser<'a> {
    /// At the first token.
    pub fn new(grammar: &'a Grammar, source: &'a Source, tokens: &'a [Token]) -> Parser<'a> {
        Parser {
            grammar,
            source,
            tokens,
            at: 0,
            state: 0,
            stack: Vec::new(),
            depth: vec![0; grammar.bodies.len()],
            predictor: Predictor::default(),
            errors: Vec::new(),
            recovering: false,
            recoveries: 0,
            last_error: None,
            last_states: HashSet::new(),
            looks: HashMap::new(),
            single: HashMap::new(),
        }
    }

    /// Parses; gives the errors in the order they were found.
    pub fn run(mut self) -> Vec<(Location, String)> {
        // Giving up has been told of.
        let _ = self.rule(START, 0);
        self.errors
    }

    fn token(&self, at: usize) -> Token {
        let last = self.tokens.last().copied();
        self.tokens.get(at).copied().or(last).unwrap_or(Token {
            kind: Kind::Eof,
            start: 0,
            end: 0,
        })
    }

    fn kind(&self, ahead: usize) -> Kind {
        self.token(self.at + ahead).kind
    }

    fn consume(&mut self) {
        if self.kind(0) != Kind::Eof {
            self.at += 1;
        }
    }

    fn deeper(&mut self, rule: Rule) -> Outcome {
        self.depth[rule] += 1;
        if self.depth[rule] > MAX_DEPTH {
            let message = format!("expression recursion limit exceeded: {MAX_DEPTH}");
            self.errors.push((Location::NONE, message));
            return Err(Leave::GiveUp);
        }
        Ok(())
    }

    fn rule(&mut self, rule: Rule, precedence: u8) -> Outcome {
        let before = self.depth[rule];
        self.deeper(rule)?;
        let grammar = self.grammar;
        let outcome = match self.node(&grammar.bodies[rule], rule, precedence) {
            Err(Leave::GiveUp) => return Err(Leave::GiveUp),
            Err(why) => {
                self.report(&why)?;
                self.recover()
            }
            Ok(()) => Ok(()),
        };
        self.depth[rule] = before;
        outcome
    }

    fn node(&mut self, node: &Node, rule: Rule, precedence: u8) -> Outcome {
        match node {
            Node::Token(state, kind) => {
                self.state = *state;
                self.expect(&[*kind])
            }
            Node::Set(state, kinds) => {
                self.state = *state;
                self.expect(kinds)
            }
            Node::Rule(state, called, from) => {
                self.state = *state;
                let back = match self.grammar.states[*state].edges.first() {
                    Some(Edge::Rule(_, back)) => *back,
                    _ => *state,
                };
                self.stack.push(back);
                let outcome = self.rule(*called, *from);
                self.stack.pop();
                outcome
            }
            Node::Seq(nodes) => nodes.iter().try_for_each(|n| self.node(n, rule, precedence)),
            Node::Choice(start, nodes) => {
                self.state = *start;
                self.sync()?;
                let chosen = self.decide(*start, precedence)?;
                match nodes.get(chosen) {
                    Some(node) => self.node(node, rule, precedence),
                    None => Ok(()),
                }
            }
            Node::Optional(start, node) => {
                self.state = *start;
                self.sync()?;
                match self.goes_in(*start, precedence)? {
                    true => self.node(node, rule, precedence),
                    false => Ok(()),
                }
            }
            Node::Star(entry, back, node) => {
                self.state = *entry;
                self.sync()?;
                while self.goes_in(*entry, precedence)? {
                    if self.grammar.left_recursive[rule] {
                        self.deeper(rule)?;
                    }
                    self.node(node, rule, precedence)?;
                    self.state = *back;
                    self.sync()?;
                }
                Ok(())
            }
            Node::Plus(start, back, node) => {
                self.state = *start;
                self.sync()?;
                loop {
                    self.node(node, rule, precedence)?;
                    self.state = *back;
                    self.sync()?;
                    if !self.goes_in(*back, precedence)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn decide(&mut self, decision: usize, precedence: u8) -> Result<usize, Leave> {
        self.predictor
            .predict(self.grammar, decision, precedence, self.tokens, self.at)
            .map_err(|NoViable(to)| Leave::NoViable(self.at, to))
    }

    /// Whether an optional part or another turn comes. Where one token decides nothing can go wrong here.
    fn goes_in(&mut self, decision: usize, precedence: u8) -> Result<bool, Leave> {
        let single = match self.single.get(&decision) {
            Some(known) => known.clone(),
            None => {
                let found = self.one_token_decides(decision).map(Rc::new);
                self.single.insert(decision, found.clone());
                found
            }
        };
        match single {
            Some(first) => Ok(first.contains(&self.kind(0))),
            None => Ok(self.decide(decision, precedence)? == 0),
        }
    }

    /// The first tokens of what is optional, if none of them may also come behind it.
    fn one_token_decides(&self, decision: usize) -> Option<BTreeSet<Kind>> {
        let [Edge::Free(inside), Edge::Free(outside)] = self.grammar.states[decision].edges.as_slice() else {
            return None;
        };
        let (first, _) = self.grammar.look(*inside, None);
        let (mut after, ends) = self.grammar.look(*outside, None);
        if ends {
            after.extend(self.follow_of(*outside));
        }
        (!self.is_guarded(*inside) && first.is_disjoint(&after)).then_some(first)
    }

    /// Whether a guard comes before any token.
    fn is_guarded(&self, state: usize) -> bool {
        self.grammar.states[state].edges.iter().any(|edge| match edge {
            Edge::Guard(..) => true,
            Edge::Free(next) => self.is_guarded(*next),
            _ => false,
        })
    }

    fn look(&mut self, state: usize) -> Rc<Look> {
        let grammar = self.grammar;
        let found = self.looks.entry(state);
        found.or_insert_with(|| Rc::new(grammar.look(state, None))).clone()
    }

    /// What may follow the rule that a state belongs to, wherever it is used.
    fn follow_of(&self, state: usize) -> BTreeSet<Kind> {
        let mut found = BTreeSet::new();
        let (mut open, mut seen) = (vec![state], BTreeSet::new());
        while let Some(state) = open.pop() {
            if !seen.insert(state) {
                continue;
            }
            let (kinds, ends) = self.grammar.look(state, None);
            found.extend(kinds);
            if ends && let Some(rule) = self.rule_of(state) {
                open.extend(&self.grammar.follow[rule]);
            }
        }
        found
    }

    /// The rule whose end a state leads to.
    fn rule_of(&self, state: usize) -> Option<Rule> {
        let (mut open, mut seen) = (vec![state], BTreeSet::new());
        while let Some(state) = open.pop() {
            if !seen.insert(state) {
                continue;
            }
            if let At::Stop(rule) = self.grammar.states[state].at {
                return Some(rule);
            }
            for edge in &self.grammar.states[state].edges {
                match edge {
                    Edge::Free(to) | Edge::Guard(_, to) | Edge::Token(_, to) | Edge::Set(_, to) | Edge::Rule(_, to) => {
                        open.push(*to)
                    }
                }
            }
        }
        None
    }

    fn expect(&mut self, kinds: &[Kind]) -> Outcome {
        if kinds.contains(&self.kind(0)) {
            self.recovering = false;
            self.consume();
            return Ok(());
        }
        self.attempt()?;
        if self.drop_one()? {
            self.consume();
            return Ok(());
        }
        self.make_one_up()
    }

    /// What may come, with all that follows.
    fn expected(&self) -> BTreeSet<Kind> {
        let (mut found, mut ends) = self.grammar.look(self.state, None);
        let mut stack = self.stack.iter().rev();
        while ends {
            match stack.next() {
                Some(back) => {
                    let (kinds, more) = self.grammar.look(*back, None);
                    found.extend(kinds);
                    ends = more;
                }
                None => {
                    found.insert(Kind::Eof);
                    ends = false;
                }
            }
        }
        found
    }

    /// What may follow any of the rules that are being worked through.
    fn recovery_set(&self) -> BTreeSet<Kind> {
        let states: BTreeSet<usize> = self.stack.iter().copied().collect();
        states
            .into_iter()
            .flat_map(|back| self.grammar.look(back, None).0)
            .collect()
    }

    fn say(&mut self, at: usize, message: String) -> Outcome {
        let mut location = self.source.location(self.token(at).start);
        if self.source.chars().is_empty() {
            // So says cel-go of nothing at all.
            location.column = -1;
        }
        if self.errors.len() >= MAX_ERRORS {
            let message = format!("Syntax error: More than {MAX_ERRORS} syntax errors");
            self.errors.push((location, message));
            return Err(Leave::GiveUp);
        }
        // A reserved word where a name should be is told in another way.
        let reserved = ["true", "false", "null"].into_iter().find_map(|word| {
            let dotted = message.strip_prefix("no viable alternative at input '")?;
            let rest = dotted.strip_suffix('\'')?;
            (rest.chars().count() == word.len() + 1 && rest.ends_with(word)).then_some(word)
        });
        let message = match reserved {
            Some(word) => format!("mismatched input '{word}' expecting IDENTIFIER"),
            None => message,
        };
        self.errors.push((location, format!("Syntax error: {message}")));
        Ok(())
    }

    fn list(kinds: &BTreeSet<Kind>) -> String {
        let names: Vec<&str> = kinds.iter().map(|k| k.display()).collect();
        match names.as_slice() {
            [one] => (*one).to_owned(),
            names => format!("{{{}}}", names.join(", ")),
        }
    }

    /// A token as it is written, between quotes.
    fn quoted(&self, from: usize, to: usize) -> String {
        let (first, last) = (self.token(from), self.token(to));
        let text = match first.kind {
            Kind::Eof => "<EOF>".to_owned(),
            _ => {
                let end = if last.kind == Kind::Eof {
                    self.source.chars().len()
                } else {
                    last.end
                };
                lexer::recognized(self.source, first.start, end)
            }
        };
        let text = text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t");
        format!("'{text}'")
    }

    fn report(&mut self, why: &Leave) -> Outcome {
        if self.recovering {
            return Ok(());
        }
        self.recovering = true;
        match why {
            Leave::Mismatch => {
                let (token, expected) = (self.quoted(self.at, self.at), Self::list(&self.expected()));
                self.say(self.at, format!("mismatched input {token} expecting {expected}"))
            }
            Leave::NoViable(from, to) => {
                let text = self.quoted(*from, *to);
                self.say(*to, format!("no viable alternative at input {text}"))
            }
            Leave::GiveUp => Ok(()),
        }
    }

    fn attempt(&mut self) -> Outcome {
        if self.recoveries >= MAX_RECOVERIES {
            let message = format!("error recovery attempt limit exceeded: {MAX_RECOVERIES}");
            self.say(self.at, message)?;
            return Err(Leave::GiveUp);
        }
        self.recoveries += 1;
        Ok(())
    }

    fn recover(&mut self) -> Outcome {
        self.attempt()?;
        if self.last_error == Some(self.at) && self.last_states.contains(&self.state) {
            self.consume();
        }
        self.last_error = Some(self.at);
        self.last_states.insert(self.state);
        let set = self.recovery_set();
        self.skip_to(&set)
    }

    fn skip_to(&mut self, set: &BTreeSet<Kind>) -> Outcome {
        let mut skipped = 0;
        while self.kind(0) != Kind::Eof && !set.contains(&self.kind(0)) {
            if skipped >= MAX_SKIPPED {
                let message = format!("error recovery token lookahead limit exceeded: {MAX_SKIPPED}");
                self.errors.push((Location::NONE, message));
                return Err(Leave::GiveUp);
            }
            self.consume();
            skipped += 1;
        }
        Ok(())
    }

    fn unwanted(&mut self) -> Outcome {
        if self.recovering {
            return Ok(());
        }
        self.recovering = true;
        let (token, expected) = (self.quoted(self.at, self.at), Self::list(&self.expected()));
        self.say(self.at, format!("extraneous input {token} expecting {expected}"))
    }

    /// Drops a token if the next one fits.
    fn drop_one(&mut self) -> Result<bool, Leave> {
        if !self.expected().contains(&self.kind(1)) || self.kind(0) == Kind::Eof {
            return Ok(false);
        }
        self.unwanted()?;
        self.consume();
        self.recovering = false;
        Ok(true)
    }

    /// Goes on as if a token had been there, if what comes fits behind it.
    fn make_one_up(&mut self) -> Outcome {
        let behind = match self.grammar.states[self.state].edges.first() {
            Some(Edge::Token(_, to) | Edge::Set(_, to)) => *to,
            _ => return Err(Leave::Mismatch),
        };
        let (after, _) = self.grammar.look(behind, Some(&self.stack));
        if !after.contains(&self.kind(0)) {
            return Err(Leave::Mismatch);
        }
        if !self.recovering {
            self.recovering = true;
            let (token, missing) = (self.quoted(self.at, self.at), Self::list(&self.expected()));
            self.say(self.at, format!("missing {missing} at {token}"))?;
        }
        Ok(())
    }

    /// Before a decision: a token that does not fit is dropped or skipped, or the rule is left.
    fn sync(&mut self) -> Outcome {
        if self.recovering {
            return Ok(());
        }
        let look = self.look(self.state);
        if look.1 || look.0.contains(&self.kind(0)) {
            return Ok(());
        }
        match self.grammar.states[self.state].at {
            At::Begin => match self.drop_one()? {
                true => Ok(()),
                false => Err(Leave::Mismatch),
            },
            At::TurnEnd => {
                self.unwanted()?;
                let mut set = self.expected();
                set.extend(self.recovery_set());
                self.skip_to(&set)
            }
            At::Plain | At::Stop(_) => Ok(()),
        }
    }
}
