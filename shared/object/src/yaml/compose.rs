//! From tokens to a tree of nodes, aliases resolved to the nodes they name.
//!
//! Contract: libyaml's grammar with its messages. Nodes live in one arena and are found by index; a node comes after
//! the nodes that contain it. Open collections are a stack of frames, so that depth costs no stack of calls.

use std::collections::HashMap;

use super::Error;
use super::scan::{Scanner, Spot, Token, located};
use crate::json::GO_MAX_DEPTH;

/// One node.
#[derive(Debug)]
pub(super) struct Node {
    /// Line it begins on, from 0.
    pub line: u64,
    /// Long form of its tag; empty if it has none.
    pub tag: String,
    pub content: Content,
}

#[derive(Debug)]
pub(super) enum Content {
    /// `implicit`: plain, so that its meaning is to be found out.
    Scalar {
        value: String,
        implicit: bool,
    },
    Sequence(Vec<usize>),
    /// Keys and values in turn.
    Mapping(Vec<usize>),
    Alias {
        name: String,
        target: usize,
    },
}

/// A document: its nodes, the root first.
#[derive(Debug)]
pub(super) struct Document {
    pub nodes: Vec<Node>,
}

/// The first document of a stream; none if the stream is empty.
pub(super) fn compose(text: &str) -> Result<Option<Document>, Error> {
    let mut composer = Composer {
        scanner: Scanner::new(text, GO_MAX_DEPTH),
        nodes: Vec::new(),
        anchors: HashMap::new(),
        handles: Vec::new(),
        open: Vec::new(),
    };
    composer.document()?;
    Ok((!composer.nodes.is_empty()).then_some(Document { nodes: composer.nodes }))
}

struct Composer<'a> {
    scanner: Scanner<'a>,
    nodes: Vec<Node>,
    anchors: HashMap<String, usize>,
    /// `%TAG` directives: handle and prefix.
    handles: Vec<(String, String)>,
    open: Vec<Frame>,
}

/// A parser's error blames the line of the token at fault as it is counted from 0, else that of what it is part of.
fn error(context: u64, problem: &str, at: u64) -> Error {
    located(if at == 0 { context } else { at }, problem)
}

/// An open collection.
#[derive(Clone, Copy)]
struct Frame {
    id: usize,
    kind: Kind,
    /// Line it began on.
    start: u64,
    /// A key was read, its value comes next.
    value_next: bool,
    /// Nothing was read yet.
    first: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    BlockSequence,
    /// Entries at the column of the key they belong to.
    IndentlessSequence,
    BlockMapping,
    FlowSequence,
    FlowMapping,
    /// `[a: b]` is a list of a map with one member.
    Pair,
}

/// What stands before a node.
#[derive(Default)]
struct Properties {
    anchor: Option<String>,
    tag: Option<String>,
    line: Option<u64>,
}

impl Composer<'_> {
    fn peek(&mut self) -> Result<&Spot, Error> {
        self.scanner.peek()
    }

    /// Takes the next token if it is this one; its line.
    fn take(&mut self, token: &Token) -> Result<Option<u64>, Error> {
        let spot = self.scanner.peek()?;
        let line = (spot.token == *token).then_some(spot.line);
        if line.is_some() {
            self.scanner.skip();
        }
        Ok(line)
    }

    fn next_is(&mut self, any_of: &[Token]) -> Result<bool, Error> {
        let spot = self.scanner.peek()?;
        Ok(any_of.contains(&spot.token))
    }

    fn document(&mut self) -> Result<(), Error> {
        self.take(&Token::StreamStart)?;
        let explicit = self.directives()?;
        let spot = self.peek()?;
        let line = spot.line;
        if spot.token == Token::StreamEnd && !explicit {
            return Ok(());
        }
        let started = self.take(&Token::DocumentStart)?.is_some();
        if explicit && !started {
            return Err(error(0, "did not find expected <document start>", line));
        }
        let spot = self.peek()?;
        let line = spot.line;
        let nothing = matches!(
            spot.token,
            Token::Version { .. }
                | Token::TagDirective { .. }
                | Token::DocumentStart
                | Token::DocumentEnd
                | Token::StreamEnd
        );
        if started && nothing {
            self.empty(line);
        } else {
            self.begin(true, false)?;
            while let Some(frame) = self.open.last().copied() {
                self.step(frame)?;
            }
        }
        // The document's end is looked at, and with it the token after the root.
        self.peek()?;
        Ok(())
    }

    /// Reads directives; whether there were any.
    fn directives(&mut self) -> Result<bool, Error> {
        let mut version = false;
        let mut any = false;
        loop {
            let spot = self.peek()?.clone();
            match spot.token {
                Token::Version { .. } if version => {
                    return Err(error(0, "found duplicate %YAML directive", spot.line));
                }
                Token::Version { major, minor } => {
                    if (major, minor) != (1, 1) {
                        return Err(error(0, "found incompatible YAML document", spot.line));
                    }
                    version = true;
                }
                Token::TagDirective { handle, prefix } => {
                    if self.handles.iter().any(|(h, _)| *h == handle) {
                        return Err(error(0, "found duplicate %TAG directive", spot.line));
                    }
                    self.handles.push((handle, prefix));
                }
                _ => break,
            }
            any = true;
            self.scanner.skip();
        }
        for (handle, prefix) in [("!", "!"), ("!!", "tag:yaml.org,2002:")] {
            if !self.handles.iter().any(|(h, _)| h == handle) {
                self.handles.push((handle.to_owned(), prefix.to_owned()));
            }
        }
        Ok(any)
    }

    /// Adds a node, as a child of the innermost open collection.
    fn add(&mut self, line: u64, properties: Properties, content: Content) -> usize {
        let id = self.nodes.len();
        if let Some(parent) = self.open.last()
            && let Content::Sequence(children) | Content::Mapping(children) = &mut self.nodes[parent.id].content
        {
            children.push(id);
        }
        let line = properties.line.unwrap_or(line);
        self.nodes.push(Node {
            line,
            tag: properties.tag.unwrap_or_default(),
            content,
        });
        // An anchor names its node before the node is complete: a node may contain itself, which decoding refuses.
        if let Some(anchor) = properties.anchor {
            self.anchors.insert(anchor, id);
        }
        id
    }

    fn empty(&mut self, line: u64) {
        let content = Content::Scalar {
            value: String::new(),
            implicit: true,
        };
        self.add(line, Properties::default(), content);
    }

    fn open(&mut self, line: u64, properties: Properties, kind: Kind) -> Result<(), Error> {
        let content = match kind {
            Kind::BlockMapping | Kind::FlowMapping | Kind::Pair => Content::Mapping(Vec::new()),
            _ => Content::Sequence(Vec::new()),
        };
        // go-yaml ignores the tags of collections.
        let id = self.add(
            line,
            Properties {
                tag: None,
                ..properties
            },
            content,
        );
        self.open.push(Frame {
            id,
            kind,
            start: line,
            value_next: false,
            first: true,
        });
        // Both contexts together may be deeper than either, which the scanner bounds.
        if self.open.len() > GO_MAX_DEPTH {
            return Err(Error::Yaml(format!("exceeded max depth of {GO_MAX_DEPTH}")));
        }
        Ok(())
    }

    fn properties(&mut self) -> Result<Properties, Error> {
        let mut p = Properties::default();
        loop {
            let spot = self.peek()?;
            let line = spot.line;
            match &spot.token {
                Token::Anchor(name) if p.anchor.is_none() => p.anchor = Some(name.clone()),
                Token::Tag { handle, suffix } if p.tag.is_none() => {
                    let (handle, suffix) = (handle.clone(), suffix.clone());
                    let prefix = match handle.as_str() {
                        "" => Some(""),
                        h => self
                            .handles
                            .iter()
                            .find(|(own, _)| own == h)
                            .map(|(_, prefix)| prefix.as_str()),
                    };
                    let tag = prefix.map(|prefix| format!("{prefix}{suffix}")).unwrap_or_default();
                    if tag.is_empty() {
                        return Err(error(p.line.unwrap_or(line), "found undefined tag handle", line));
                    }
                    p.tag = Some(tag);
                }
                _ => return Ok(p),
            }
            p.line.get_or_insert(line);
            self.scanner.skip();
        }
    }

    /// Reads a scalar or alias, or opens a collection.
    fn begin(&mut self, block: bool, indentless_sequence: bool) -> Result<(), Error> {
        let spot = self.peek()?;
        let line = spot.line;
        if let Token::Alias(name) = &spot.token {
            let name = name.clone();
            self.scanner.skip();
            let Some(&target) = self.anchors.get(&name) else {
                return Err(Error::Yaml(format!("unknown anchor '{name}' referenced")));
            };
            self.add(line, Properties::default(), Content::Alias { name, target });
            return Ok(());
        }
        let properties = self.properties()?;
        let spot = self.peek()?;
        let line = spot.line;
        let kind = match &spot.token {
            // The entry itself is read with the sequence.
            Token::BlockEntry if indentless_sequence => {
                return self.open(line, properties, Kind::IndentlessSequence);
            }
            Token::FlowSequenceStart => Kind::FlowSequence,
            Token::FlowMappingStart => Kind::FlowMapping,
            Token::BlockSequenceStart if block => Kind::BlockSequence,
            Token::BlockMappingStart if block => Kind::BlockMapping,
            Token::Scalar { value, plain } => {
                let implicit = properties.tag.as_ref().map_or(*plain, |tag| tag == "!");
                let content = Content::Scalar {
                    value: value.clone(),
                    implicit,
                };
                self.scanner.skip();
                self.add(line, properties, content);
                return Ok(());
            }
            _ if properties.anchor.is_some() || properties.tag.is_some() => {
                let implicit = properties.tag.is_none();
                self.add(
                    line,
                    properties,
                    Content::Scalar {
                        value: String::new(),
                        implicit,
                    },
                );
                return Ok(());
            }
            _ => {
                return Err(error(
                    properties.line.unwrap_or(line),
                    "did not find expected node content",
                    line,
                ));
            }
        };
        self.scanner.skip();
        self.open(line, properties, kind)
    }

    /// A node, or an empty scalar if one of `ends` comes instead.
    fn begin_unless(&mut self, line: u64, ends: &[Token], block: bool, indentless: bool) -> Result<(), Error> {
        if self.next_is(ends)? {
            self.empty(line);
            return Ok(());
        }
        self.begin(block, indentless)
    }

    /// Changes the innermost frame.
    fn update(&mut self, value_next: bool) {
        if let Some(frame) = self.open.last_mut() {
            frame.value_next = value_next;
            frame.first = false;
        }
    }

    /// Reads on in the innermost open collection.
    fn step(&mut self, frame: Frame) -> Result<(), Error> {
        match frame.kind {
            Kind::BlockSequence => self.block_sequence(frame),
            Kind::IndentlessSequence => self.indentless_sequence(),
            Kind::BlockMapping => self.block_mapping(frame),
            Kind::FlowSequence => self.flow_sequence(frame),
            Kind::FlowMapping => self.flow_mapping(frame),
            Kind::Pair => self.single_pair(frame),
        }
    }

    fn block_sequence(&mut self, frame: Frame) -> Result<(), Error> {
        if let Some(line) = self.take(&Token::BlockEntry)? {
            self.begin_unless(line, &[Token::BlockEntry, Token::BlockEnd], true, false)
        } else if self.take(&Token::BlockEnd)?.is_some() {
            self.open.pop();
            Ok(())
        } else {
            let at = self.peek()?.line;
            Err(error(frame.start, "did not find expected '-' indicator", at))
        }
    }

    fn indentless_sequence(&mut self) -> Result<(), Error> {
        match self.take(&Token::BlockEntry)? {
            Some(line) => {
                let ends = [Token::BlockEntry, Token::Key, Token::Value, Token::BlockEnd];
                self.begin_unless(line, &ends, true, false)
            }
            None => {
                self.open.pop();
                Ok(())
            }
        }
    }

    fn block_mapping(&mut self, frame: Frame) -> Result<(), Error> {
        const ENDS: [Token; 3] = [Token::Key, Token::Value, Token::BlockEnd];
        if frame.value_next {
            self.update(false);
            return match self.take(&Token::Value)? {
                Some(line) => self.begin_unless(line, &ENDS, true, true),
                None => {
                    let line = self.peek()?.line;
                    self.empty(line);
                    Ok(())
                }
            };
        }
        if let Some(line) = self.take(&Token::Key)? {
            self.update(true);
            self.begin_unless(line, &ENDS, true, true)
        } else if self.take(&Token::BlockEnd)?.is_some() {
            self.open.pop();
            Ok(())
        } else {
            let at = self.peek()?.line;
            Err(error(frame.start, "did not find expected key", at))
        }
    }

    /// The comma between entries; false at the collection's end, which is then closed.
    fn flow_entry(&mut self, frame: Frame, end: Token, problem: &str) -> Result<bool, Error> {
        let ends = [end];
        if !frame.first && !self.next_is(&ends)? && self.take(&Token::FlowEntry)?.is_none() {
            let at = self.peek()?.line;
            return Err(error(frame.start, problem, at));
        }
        if self.next_is(&ends)? {
            self.scanner.skip();
            self.open.pop();
            return Ok(false);
        }
        Ok(true)
    }

    fn flow_sequence(&mut self, frame: Frame) -> Result<(), Error> {
        if !self.flow_entry(frame, Token::FlowSequenceEnd, "did not find expected ',' or ']'")? {
            return Ok(());
        }
        self.update(false);
        match self.take(&Token::Key)? {
            Some(line) => self.open(line, Properties::default(), Kind::Pair),
            None => self.begin(false, false),
        }
    }

    fn single_pair(&mut self, frame: Frame) -> Result<(), Error> {
        if frame.first {
            self.update(true);
            let ends = [Token::Value, Token::FlowEntry, Token::FlowSequenceEnd];
            if self.next_is(&ends)? {
                // libyaml takes that token for the key.
                let at = self.peek()?.line;
                self.scanner.skip();
                self.empty(at);
                return Ok(());
            }
            return self.begin(false, false);
        }
        if frame.value_next {
            self.update(false);
            let given = self.take(&Token::Value)?.is_some();
            let at = self.peek()?.line;
            if given {
                return self.begin_unless(at, &[Token::FlowEntry, Token::FlowSequenceEnd], false, false);
            }
            self.empty(at);
            return Ok(());
        }
        self.open.pop();
        Ok(())
    }

    fn flow_mapping(&mut self, frame: Frame) -> Result<(), Error> {
        const ENDS: [Token; 3] = [Token::Value, Token::FlowEntry, Token::FlowMappingEnd];
        if frame.value_next {
            self.update(false);
            let given = self.take(&Token::Value)?.is_some();
            let at = self.peek()?.line;
            if given {
                return self.begin_unless(at, &ENDS[1..], false, false);
            }
            self.empty(at);
            return Ok(());
        }
        if !self.flow_entry(frame, Token::FlowMappingEnd, "did not find expected ',' or '}'")? {
            return Ok(());
        }
        self.update(true);
        match self.take(&Token::Key)? {
            Some(_) => {
                let at = self.peek()?.line;
                self.begin_unless(at, &ENDS, false, false)
            }
            None => self.begin(false, false),
        }
    }
}
