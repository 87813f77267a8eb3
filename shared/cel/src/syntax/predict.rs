//! Choosing between alternatives by what comes, as ANTLR's adaptive prediction does.
//!
//! Contract: goes on, token by token, with all alternatives that are still possible, until one is left (it is chosen), several can no longer be told apart
//! (the first is chosen) or none is possible. Then one that had reached its rule's end is chosen, if there is one; otherwise no alternative is viable.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use super::grammar::{At, Edge, Grammar};
use crate::lexer::{Kind, Token};

/// States to come back to, innermost first; the end is everything that may follow.
#[derive(PartialEq, Eq, Hash)]
struct Frame {
    back: usize,
    below: Stack,
}

type Stack = Option<Rc<Frame>>;

/// A way through the grammar that is still possible.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Config {
    alternative: usize,
    state: usize,
    stack: Stack,
    /// The rule of the decision has ended on this way.
    outside: bool,
}

/// What one token says of a decision.
#[derive(Clone, Copy)]
enum First {
    Only(usize),
    More,
}

/// Makes decisions; remembers those that one token makes.
#[derive(Default)]
pub struct Predictor {
    first: HashMap<(usize, u8, Kind), First>,
}

/// No alternative is viable: the token at which that shows.
pub struct NoViable(pub usize);

impl Predictor {
    /// The number of the edge to take out of a decision, for the tokens from `at` on.
    pub fn predict(
        &mut self,
        grammar: &Grammar,
        decision: usize,
        precedence: u8,
        tokens: &[Token],
        at: usize,
    ) -> Result<usize, NoViable> {
        let kind = |at: usize| tokens.get(at).map_or(Kind::Eof, |t| t.kind);
        let key = (decision, precedence, kind(at));
        if let Some(First::Only(alternative)) = self.first.get(&key) {
            return Ok(*alternative);
        }
        let starts = grammar.states[decision].edges.iter().enumerate();
        let starts = starts.filter_map(|(alternative, edge)| match edge {
            Edge::Free(state) => Some(Config {
                alternative,
                state: *state,
                stack: None,
                outside: false,
            }),
            _ => None,
        });
        let mut configs = closure(grammar, starts.collect(), Some(precedence));
        let mut ahead = at;
        loop {
            let reached = closure(grammar, step(grammar, &configs, kind(ahead)), None);
            let alternatives: BTreeSet<usize> = reached.iter().map(|c| c.alternative).collect();
            match alternatives.len() {
                0 => return finished(grammar, &configs).ok_or(NoViable(ahead)),
                1 => {
                    let only = alternatives.first().copied().unwrap_or(0);
                    let first = if ahead == at { First::Only(only) } else { First::More };
                    self.first.entry(key).or_insert(first);
                    return Ok(only);
                }
                _ if kind(ahead) == Kind::Eof || cannot_be_told_apart(&reached) => {
                    return Ok(alternatives.first().copied().unwrap_or(0));
                }
                _ => {}
            }
            configs = reached;
            ahead += 1;
        }
    }
}

/// What a token leads to.
fn step(grammar: &Grammar, configs: &HashSet<Config>, kind: Kind) -> Vec<Config> {
    let mut reached = Vec::new();
    for config in configs {
        for edge in &grammar.states[config.state].edges {
            let to = match edge {
                Edge::Token(wanted, to) if *wanted == kind => *to,
                Edge::Set(wanted, to) if wanted.contains(&kind) => *to,
                _ => continue,
            };
            reached.push(Config {
                state: to,
                ..config.clone()
            });
        }
    }
    reached
}

/// Everything that is reached without a token. Guards hold only where the decision is made, before any token.
fn closure(grammar: &Grammar, mut open: Vec<Config>, precedence: Option<u8>) -> HashSet<Config> {
    let mut all = HashSet::new();
    while let Some(config) = open.pop() {
        if !all.insert(config.clone()) {
            continue;
        }
        let state = &grammar.states[config.state];
        if let At::Stop(rule) = state.at {
            match &config.stack {
                Some(frame) => open.push(Config {
                    state: frame.back,
                    stack: frame.below.clone(),
                    ..config
                }),
                None => open.extend(grammar.follow[rule].iter().map(|back| Config {
                    state: *back,
                    outside: true,
                    ..config.clone()
                })),
            }
            continue;
        }
        for edge in &state.edges {
            let to = |state: usize| Config {
                state,
                ..config.clone()
            };
            match edge {
                Edge::Free(next) => open.push(to(*next)),
                Edge::Guard(guard, next) => {
                    let here = config.stack.is_none() && !config.outside;
                    let holds = precedence.is_none_or(|p| !here || *guard >= p);
                    if holds {
                        open.push(to(*next));
                    }
                }
                Edge::Rule(rule, back) => open.push(Config {
                    state: grammar.ends[*rule].0,
                    stack: Some(Rc::new(Frame {
                        back: *back,
                        below: config.stack.clone(),
                    })),
                    ..config.clone()
                }),
                Edge::Token(..) | Edge::Set(..) => {}
            }
        }
    }
    all
}

/// The first alternative that had reached the end of the decision's rule.
fn finished(grammar: &Grammar, configs: &HashSet<Config>) -> Option<usize> {
    let ended = |c: &&Config| c.outside || (c.stack.is_none() && matches!(grammar.states[c.state].at, At::Stop(_)));
    configs.iter().filter(ended).map(|c| c.alternative).min()
}

/// Every way is one of several alternatives.
fn cannot_be_told_apart(configs: &HashSet<Config>) -> bool {
    let mut ways: HashMap<(usize, &Stack), BTreeSet<usize>> = HashMap::new();
    for config in configs {
        ways.entry((config.state, &config.stack))
            .or_default()
            .insert(config.alternative);
    }
    ways.values().all(|alternatives| alternatives.len() > 1)
}
