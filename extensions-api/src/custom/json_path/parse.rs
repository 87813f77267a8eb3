//! The parser of JSONPath actions, in the order in which client-go's parser looks.

use super::{Node, Operator};

/// Arrays, unions and filters nest no deeper.
const MAX_DEPTH: usize = 32;

/// Parses what stands between braces.
pub fn action(text: &str, depth: usize) -> Result<Vec<Node>, String> {
    if depth > MAX_DEPTH {
        return Err("the path is nested too deeply".to_owned());
    }
    let mut parser = Parser {
        rest: text,
        depth,
        nodes: Vec::new(),
    };
    parser.run()?;
    Ok(parser.nodes)
}

struct Parser<'t> {
    rest: &'t str,
    depth: usize,
    nodes: Vec<Node>,
}

fn is_terminator(c: char) -> bool {
    matches!(
        c,
        ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}'
    )
}

impl<'t> Parser<'t> {
    fn run(&mut self) -> Result<(), String> {
        loop {
            // what follows a closing brace is another action, which columns do not have
            let Some(c) = self.rest.chars().next().filter(|c| *c != '}') else {
                return Ok(());
            };
            if self.rest.starts_with("[?(") {
                self.filter()?;
            } else if self.rest.starts_with("..") {
                self.recursive()?;
            } else {
                match c {
                    '\r' | '\n' => return Err("unclosed action".to_owned()),
                    ' ' | '@' | '$' => self.rest = &self.rest[1..],
                    '[' => self.array()?,
                    '"' | '\'' => self.quoted(c)?,
                    '.' => {
                        self.rest = &self.rest[1..];
                        self.field();
                    }
                    '+' | '-' => self.number()?,
                    c if c.is_numeric() => self.number()?,
                    c if c == '_' || c.is_alphabetic() => self.identifier(),
                    c => return Err(format!("unrecognized character in action: U+{:04X} '{c}'", c as u32)),
                }
            }
        }
    }

    /// Takes `bytes` bytes.
    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken
    }

    fn field(&mut self) {
        let mut end = self.rest.len();
        let mut chars = self.rest.char_indices();
        while let Some((i, c)) = chars.next() {
            if c == '\\' {
                chars.next();
            } else if is_terminator(c) {
                end = i;
                break;
            }
        }
        let name = self.take(end);
        self.nodes.push(if name == "*" {
            Node::Wildcard
        } else {
            Node::Field(name.replace('\\', ""))
        });
    }

    fn identifier(&mut self) {
        let end = self.rest.find(is_terminator).unwrap_or(self.rest.len());
        let node = match self.take(end) {
            "true" => Node::Bool(true),
            "false" => Node::Bool(false),
            _ => Node::Identifier,
        };
        self.nodes.push(node);
    }

    fn recursive(&mut self) -> Result<(), String> {
        if self.nodes.last() == Some(&Node::Recursive) {
            return Err("invalid multiple recursive descent".to_owned());
        }
        self.take(2);
        self.nodes.push(Node::Recursive);
        if self.rest.starts_with(|c: char| c == '_' || c.is_alphanumeric()) {
            self.field();
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), String> {
        let sign = usize::from(self.rest.starts_with(['+', '-']));
        let digits = self.rest[sign..]
            .find(|c: char| c != '.' && !c.is_numeric())
            .map_or(self.rest.len(), |i| i + sign);
        let text = self.take(digits);
        if let Ok(i) = text.parse::<i64>() {
            self.nodes.push(Node::Int(i));
        } else if let Ok(f) = text.parse::<f64>() {
            self.nodes.push(Node::Float(f));
        } else {
            return Err(format!("cannot parse number {text}"));
        }
        Ok(())
    }

    fn quoted(&mut self, end: char) -> Result<(), String> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((i, c)) = chars.next() {
            match c {
                '\n' => break,
                '\\' => match chars.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, 'r')) => text.push('\r'),
                    Some((_, c)) => text.push(c),
                    None => break,
                },
                c if c == end => {
                    self.take(i + 1);
                    self.nodes.push(Node::Text(text));
                    return Ok(());
                }
                c => text.push(c),
            }
        }
        Err("unterminated quoted string".to_owned())
    }

    fn array(&mut self) -> Result<(), String> {
        let end = self
            .rest
            .find([']', '\n'])
            .filter(|end| self.rest.as_bytes()[*end] == b']')
            .ok_or("unterminated array")?;
        let text = &self.take(end + 1)[1..end];
        let text = if text == "*" { ":" } else { text };
        if text.contains(',') {
            let parts = text
                .split(',')
                .map(|part| action(&format!("[{}]", part.trim_matches(' ')), self.depth + 1));
            self.nodes.push(Node::Union(parts.collect::<Result<_, _>>()?));
            return Ok(());
        }
        let key = text.strip_prefix('\'').and_then(|t| t.strip_suffix('\''));
        if let Some(key) = key.filter(|k| !k.contains('\'')) {
            self.nodes.extend(action(&format!(".{key}"), self.depth + 1)?);
            return Ok(());
        }
        self.nodes.push(slice(text)?);
        Ok(())
    }

    fn filter(&mut self) -> Result<(), String> {
        self.take("[?(".len());
        let end = self.filter_end()?;
        let text = self.take(end);
        self.take(1);
        if !self.rest.starts_with(']') {
            return Err("unclosed array expect ]".to_owned());
        }
        self.take(1);
        let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
        let parse = |text: &str| action(text, self.depth + 1);
        let parts = text.find(is_operator).filter(|at| *at > 0).and_then(|at| {
            let (left, rest) = text.split_at(at);
            let end = rest.find(|c| !is_operator(c))?;
            Some((left, &rest[..end], &rest[end..]))
        });
        let node = match parts {
            None => Node::Filter {
                left: parse(text)?,
                operator: Operator::Exists,
                right: Vec::new(),
            },
            Some((left, operator, right)) => Node::Filter {
                left: parse(left)?,
                operator: match operator {
                    "<" => Operator::Less,
                    ">" => Operator::Greater,
                    "==" => Operator::Equal,
                    "!=" => Operator::NotEqual,
                    "<=" => Operator::LessEqual,
                    ">=" => Operator::GreaterEqual,
                    _ => Operator::Unknown,
                },
                right: parse(right)?,
            },
        };
        self.nodes.push(node);
        Ok(())
    }

    /// Position of the parenthesis that closes a filter: the first outside of its one quoted text.
    fn filter_end(&self) -> Result<usize, String> {
        let (mut quote, mut closed, mut before) = (None, false, '\0');
        for (i, c) in self.rest.char_indices() {
            match c {
                '\n' => break,
                '"' | '\'' if quote.is_none() => quote = Some(c),
                '"' | '\'' if before != '\\' && quote == Some(c) => closed = true,
                ')' if quote.is_some() == closed => return Ok(i),
                _ => {}
            }
            before = c;
        }
        Err("unterminated filter".to_owned())
    }
}

/// `1`, `-1`, `1:3`, `::2`.
fn slice(text: &str) -> Result<Node, String> {
    let bad = || format!("invalid array index {text}");
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() > 3 || !text.chars().all(|c| matches!(c, '-' | ':') || c.is_ascii_digit()) {
        return Err(bad());
    }
    let number = |part: Option<&&str>| -> Result<Option<i64>, String> {
        match part {
            None | Some(&"") => Ok(None),
            Some(part) if part.rfind('-').is_some_and(|i| i > 0) => Err(bad()),
            Some(part) => part
                .parse()
                .map(Some)
                .map_err(|_| format!("array index {part} is not a number")),
        }
    };
    let from = number(parts.first())?;
    let derived = parts.len() == 1;
    let to = if derived {
        Some(from.unwrap_or(0).saturating_add(1))
    } else {
        number(parts.get(1))?
    };
    Ok(Node::Slice {
        from,
        to,
        derived,
        step: number(parts.get(2))?,
    })
}
