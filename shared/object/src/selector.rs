//! Label and field selectors: parsing with Kubernetes' texts, and matching.
//!
//! Contract: label selectors follow k8s.io/apimachinery/pkg/labels (`a=b`, `a!=b`, `a in (b,c)`, `!a`, `a>1`), field
//! selectors pkg/fields (`a=b,c!=d` with `\` escapes). Which field labels a resource knows is its own business.

use crate::field::quote;
use crate::{Value, meta, names};

/// A label selector's operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The label is present with one of the values (`=`, `==`, `in`).
    In,
    /// The label is absent or has none of the values (`!=`, `notin`).
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label is an integer above the value.
    GreaterThan,
    /// The label is an integer below the value.
    LessThan,
}

/// One condition of a label selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Label key.
    pub key: String,
    /// Operator.
    pub operator: Operator,
    /// Values, sorted.
    pub values: Vec<String>,
}

/// All conditions must hold; none hold for everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    /// The conditions.
    pub requirements: Vec<Requirement>,
}

impl Requirement {
    fn matches<'a>(&self, get: &impl Fn(&str) -> Option<&'a str>) -> bool {
        let value = get(&self.key);
        match self.operator {
            Operator::In => value.is_some_and(|v| self.values.iter().any(|w| w == v)),
            Operator::NotIn => value.is_none_or(|v| self.values.iter().all(|w| w != v)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan | Operator::LessThan => {
                let number = |s: &str| s.parse::<i64>().ok();
                match (value.and_then(number), self.values.first().and_then(|v| number(v))) {
                    (Some(have), Some(bound)) => {
                        if self.operator == Operator::GreaterThan {
                            have > bound
                        } else {
                            have < bound
                        }
                    }
                    _ => false,
                }
            }
        }
    }
}

impl LabelSelector {
    /// True for the selector that everything matches.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// True if the labels that `get` gives match.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|r| r.matches(&get))
    }

    /// Reads a `metav1.LabelSelector` (`matchLabels`, `matchExpressions`), which was validated: an absent or empty one
    /// is the selector that everything matches; a condition without a known operator nothing matches.
    pub fn of(selector: Option<&Value>) -> LabelSelector {
        let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
        let mut requirements = Vec::new();
        let labels = selector.and_then(|s| s.get("matchLabels")).and_then(Value::as_object);
        for (key, value) in labels.into_iter().flat_map(|map| map.iter()) {
            requirements.push(Requirement {
                key: key.to_owned(),
                operator: Operator::In,
                values: vec![text(value)],
            });
        }
        for condition in selector.map_or(&[][..], |s| s.array_at(&["matchExpressions"])) {
            let values = condition.array_at(&["values"]).iter().map(text).collect();
            let (operator, values) = match condition.str_at(&["operator"]) {
                "In" => (Operator::In, values),
                "NotIn" => (Operator::NotIn, values),
                "Exists" => (Operator::Exists, Vec::new()),
                "DoesNotExist" => (Operator::DoesNotExist, Vec::new()),
                _ => (Operator::In, Vec::new()),
            };
            requirements.push(Requirement {
                key: condition.str_at(&["key"]).to_owned(),
                operator,
                values,
            });
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        LabelSelector { requirements }
    }

    /// True if an object's labels match.
    pub fn matches_object(&self, object: &Value) -> bool {
        self.matches(|key| meta::label(object, key))
    }

    /// Parses a query parameter; an error has the text of Go's `labels.Parse`.
    pub fn parse(text: &str) -> Result<LabelSelector, String> {
        let mut p = Tokens::new(text);
        let mut requirements = Vec::new();
        loop {
            match p.peek(Context::Key) {
                Token::Identifier(_) | Token::Not => {
                    requirements.push(requirement(&mut p).map_err(|e| format!("unable to parse requirement: {e}"))?);
                    match p.next(Context::Values) {
                        Token::End => break,
                        Token::Comma => match p.peek(Context::Values) {
                            Token::Identifier(_) | Token::Not => {}
                            other => {
                                return Err(format!("found '{}', expected: identifier after ','", other.literal()));
                            }
                        },
                        other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.literal())),
                    }
                }
                Token::End => break,
                other => {
                    return Err(format!(
                        "found '{}', expected: !, identifier, or 'end of string'",
                        other.literal()
                    ));
                }
            }
        }
        requirements.sort_by(|a: &Requirement, b| a.key.cmp(&b.key));
        Ok(LabelSelector { requirements })
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Context {
    Key,
    Values,
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    End,
    Open,
    Close,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    Less,
    In,
    NotEquals,
    NotIn,
    Identifier(String),
    Error(String),
}

impl Token {
    fn literal(&self) -> &str {
        match self {
            Token::End => "",
            Token::Open => "(",
            Token::Close => ")",
            Token::Comma => ",",
            Token::Not => "!",
            Token::DoubleEquals => "==",
            Token::Equals => "=",
            Token::Greater => ">",
            Token::Less => "<",
            Token::In => "in",
            Token::NotEquals => "!=",
            Token::NotIn => "notin",
            Token::Identifier(s) | Token::Error(s) => s,
        }
    }
}

struct Tokens<'a> {
    rest: &'a str,
}

const SPECIAL: &[char] = &['=', '!', '(', ')', ',', '>', '<'];

impl<'a> Tokens<'a> {
    fn new(text: &'a str) -> Self {
        Tokens { rest: text }
    }

    fn scan(&self) -> (Token, &'a str) {
        let rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let Some(first) = rest.chars().next() else {
            return (Token::End, rest);
        };
        if SPECIAL.contains(&first) {
            let end = rest.find(|c| !SPECIAL.contains(&c)).unwrap_or(rest.len());
            let mut symbol = &rest[..end];
            // the longest known operator at the start, as Go backs up one character at a time
            while !symbol.is_empty() {
                let token = match symbol {
                    ")" => Token::Close,
                    "," => Token::Comma,
                    "!" => Token::Not,
                    "==" => Token::DoubleEquals,
                    "=" => Token::Equals,
                    ">" => Token::Greater,
                    "<" => Token::Less,
                    "!=" => Token::NotEquals,
                    "(" => Token::Open,
                    _ => {
                        symbol = &symbol[..symbol.len() - 1];
                        continue;
                    }
                };
                return (token, &rest[symbol.len()..]);
            }
            return (Token::Error(rest[..end].to_owned()), &rest[end..]);
        }
        let end = rest
            .find(|c: char| SPECIAL.contains(&c) || matches!(c, ' ' | '\t' | '\r' | '\n'))
            .unwrap_or(rest.len());
        let token = match &rest[..end] {
            "in" => Token::In,
            "notin" => Token::NotIn,
            word => Token::Identifier(word.to_owned()),
        };
        (token, &rest[end..])
    }

    fn in_context(token: Token, context: Context) -> Token {
        match (context, token) {
            (Context::Values, Token::In) => Token::Identifier("in".into()),
            (Context::Values, Token::NotIn) => Token::Identifier("notin".into()),
            (_, token) => token,
        }
    }

    fn peek(&self, context: Context) -> Token {
        Self::in_context(self.scan().0, context)
    }

    fn next(&mut self, context: Context) -> Token {
        let (token, rest) = self.scan();
        self.rest = rest;
        Self::in_context(token, context)
    }
}

fn requirement(p: &mut Tokens<'_>) -> Result<Requirement, String> {
    let mut operator = None;
    let mut token = p.next(Context::Values);
    if token == Token::Not {
        operator = Some(Operator::DoesNotExist);
        token = p.next(Context::Values);
    }
    let Token::Identifier(key) = token else {
        return Err(format!("found '{}', expected: identifier", token.literal()));
    };
    check_key(&key)?;
    if matches!(p.peek(Context::Values), Token::End | Token::Comma) {
        let operator = operator.unwrap_or(Operator::Exists);
        return make(key, operator, Vec::new());
    }
    if operator.is_some() {
        return make(key, Operator::DoesNotExist, Vec::new());
    }
    let (operator, many) = match p.next(Context::Key) {
        Token::In => (Operator::In, true),
        Token::NotIn => (Operator::NotIn, true),
        Token::Equals | Token::DoubleEquals => (Operator::In, false),
        Token::NotEquals => (Operator::NotIn, false),
        Token::Greater => (Operator::GreaterThan, false),
        Token::Less => (Operator::LessThan, false),
        other => {
            return Err(format!(
                "found '{}', expected: in, notin, =, ==, !=, gt, lt",
                other.literal()
            ));
        }
    };
    let values = if many { value_set(p)? } else { vec![exact_value(p)?] };
    make(key, operator, values)
}

fn exact_value(p: &mut Tokens<'_>) -> Result<String, String> {
    match p.peek(Context::Values) {
        Token::End | Token::Comma => Ok(String::new()),
        Token::Identifier(_) => Ok(p.next(Context::Values).literal().to_owned()),
        other => Err(format!("found '{}', expected: identifier", other.literal())),
    }
}

fn value_set(p: &mut Tokens<'_>) -> Result<Vec<String>, String> {
    let open = p.next(Context::Values);
    if open != Token::Open {
        return Err(format!("found '{}' expected: '('", open.literal()));
    }
    let mut values = Vec::new();
    match p.peek(Context::Values) {
        Token::Identifier(_) | Token::Comma => {
            // an empty place between commas is the empty value
            loop {
                match p.next(Context::Values) {
                    Token::Identifier(v) => {
                        values.push(v);
                        match p.peek(Context::Values) {
                            Token::Comma => {}
                            Token::Close => break,
                            other => return Err(format!("found '{}', expected: ',' or ')'", other.literal())),
                        }
                    }
                    Token::Comma => {
                        if values.is_empty() {
                            values.push(String::new());
                        }
                        match p.peek(Context::Values) {
                            Token::Close => {
                                values.push(String::new());
                                break;
                            }
                            Token::Comma => {
                                p.next(Context::Values);
                                values.push(String::new());
                            }
                            _ => {}
                        }
                    }
                    other => return Err(format!("found '{}', expected: ',', or identifier", other.literal())),
                }
            }
            let close = p.next(Context::Values);
            if close != Token::Close {
                return Err(format!("found '{}', expected: ')'", close.literal()));
            }
        }
        Token::Close => {
            p.next(Context::Values);
            values.push(String::new());
        }
        other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.literal())),
    }
    values.sort();
    values.dedup();
    Ok(values)
}

fn check_key(key: &str) -> Result<(), String> {
    let errors = names::qualified_name(key);
    if errors.is_empty() {
        return Ok(());
    }
    // the parser gives the key no path, and Go prints a nil path so
    Err(format!("<nil>: Invalid value: {}: {}", quote(key), errors.join("; ")))
}

fn make(key: String, operator: Operator, values: Vec<String>) -> Result<Requirement, String> {
    if matches!(operator, Operator::GreaterThan | Operator::LessThan)
        && values.first().is_none_or(|v| v.parse::<i64>().is_err())
    {
        let shown = values.first().map(String::as_str).unwrap_or_default();
        return Err(format!(
            "values[0]: Invalid value: {}: for 'Gt', 'Lt' operators, the value must be an integer",
            quote(shown)
        ));
    }
    for (i, v) in values.iter().enumerate() {
        let errors = names::label_value(v);
        if !errors.is_empty() {
            return Err(format!(
                "values[{i}][{key}]: Invalid value: {}: {}",
                quote(v),
                errors.join("; ")
            ));
        }
    }
    Ok(Requirement { key, operator, values })
}

/// One condition of a field selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTerm {
    /// Field label such as `metadata.name`.
    pub field: String,
    /// False for `!=`.
    pub equal: bool,
    /// Value compared with.
    pub value: String,
}

/// All terms must hold; none hold for everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    /// The terms, sorted by their text.
    pub terms: Vec<FieldTerm>,
}

impl FieldSelector {
    /// Parses a query parameter; an error has the text of Go's `fields.ParseSelector`.
    pub fn parse(text: &str) -> Result<FieldSelector, String> {
        let mut terms = Vec::new();
        let mut parts = split_terms(text);
        parts.sort();
        for part in parts {
            if part.is_empty() {
                continue;
            }
            let Some((field, operator, value)) = split_term(&part) else {
                return Err(format!("invalid selector: '{text}'; can't understand '{part}'"));
            };
            terms.push(FieldTerm {
                field: field.to_owned(),
                equal: operator != "!=",
                value: unescape(value)?,
            });
        }
        Ok(FieldSelector { terms })
    }

    /// True for the selector that everything matches.
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// The value that `field` must equal, if a term says so.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.terms
            .iter()
            .find(|t| t.equal && t.field == field)
            .map(|t| t.value.as_str())
    }

    /// True if the fields that `get` gives match; an absent field is empty.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.terms
            .iter()
            .all(|t| (get(&t.field).unwrap_or("") == t.value) == t.equal)
    }
}

fn split_terms(text: &str) -> Vec<String> {
    let (mut terms, mut current, mut escaped) = (Vec::new(), String::new(), false);
    for c in text.chars() {
        match c {
            _ if escaped => {
                escaped = false;
                current.push(c);
            }
            '\\' => {
                escaped = true;
                current.push(c);
            }
            ',' => terms.push(std::mem::take(&mut current)),
            c => current.push(c),
        }
    }
    terms.push(current);
    terms
}

fn split_term(term: &str) -> Option<(&str, &str, &str)> {
    for (i, _) in term.char_indices() {
        for operator in ["!=", "==", "="] {
            if let Some(value) = term[i..].strip_prefix(operator) {
                return Some((&term[..i], operator, value));
            }
        }
    }
    None
}

fn unescape(value: &str) -> Result<String, String> {
    if !value.contains(['\\', ',', '=']) {
        return Ok(value.to_owned());
    }
    let mut out = String::new();
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(c) => return Err(format!("invalid field selector: invalid escape sequence: \\{c}")),
                None => return Err("invalid field selector: invalid escape sequence: \\".to_owned()),
            },
            ',' | '=' => {
                return Err(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                ));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
        let s = LabelSelector::parse(selector).unwrap();
        s.matches(|k| labels.iter().find(|(l, _)| *l == k).map(|(_, v)| *v))
    }

    #[test]
    fn label_selectors_match_as_in_kubernetes() {
        let labels = [("a", "1"), ("b", "x")];
        for (s, want) in [
            ("", true),
            ("a", true),
            ("!a", false),
            ("a=1,b!=y", true),
            ("a==2", false),
            ("b in (x, y)", true),
            ("b notin (x)", false),
            ("c notin (x)", true),
            ("c!=x", true),
            ("a>0", true),
            ("a<1", false),
            ("c in ()", false),
        ] {
            assert_eq!(matches(s, &labels), want, "{s}");
        }
    }

    #[test]
    fn field_selectors_are_parsed_with_escapes() {
        let s = FieldSelector::parse(r"metadata.name=a\,b,status.phase!=Running").unwrap();
        assert_eq!(s.exact("metadata.name"), Some("a,b"));
        assert!(s.matches(|f| Some(if f == "metadata.name" { "a,b" } else { "Pending" })));
        let e = FieldSelector::parse("nope").unwrap_err();
        assert_eq!(e, "invalid selector: 'nope'; can't understand 'nope'");
    }
}
