//! From text to syntax tree: lines, words, attributes. Knows the grammar, not what names mean.

use crate::{Problem, Source};

/// One text.
#[derive(Debug, Default)]
pub struct File {
    pub path: String,
    pub package: String,
    /// Group (empty: core) and version.
    pub group: Option<(String, String)>,
    /// Short name and package.
    pub uses: Vec<(String, String)>,
    pub types: Vec<TypeDecl>,
    pub resources: Vec<ResourceDecl>,
}

/// A type's header and body.
#[derive(Debug)]
pub struct TypeDecl {
    pub line: usize,
    pub name: String,
    pub body: Body,
    pub attributes: Vec<Attribute>,
}

/// What a type is.
#[derive(Debug)]
pub enum Body {
    Struct(Vec<FieldDecl>),
    Constants {
        closed: bool,
        values: Vec<String>,
    },
    /// A Go slice type.
    Slice(TypeExpr),
    /// A special form.
    Special(String),
}

/// A field of a struct.
#[derive(Debug)]
pub struct FieldDecl {
    pub line: usize,
    pub name: String,
    pub tag: u16,
    pub inline: bool,
    pub ty: TypeExpr,
    pub pointer: bool,
    pub required: bool,
    pub always: bool,
    pub default: Option<serde_json::Value>,
    pub attributes: Vec<Attribute>,
}

/// A resource and its lines.
#[derive(Debug)]
pub struct ResourceDecl {
    pub line: usize,
    pub plural: String,
    pub kind: String,
    pub namespaced: bool,
    pub lines: Vec<ResourceLine>,
}

/// A line of a resource: its keyword (or `/subresource`) and the rest.
#[derive(Debug)]
pub struct ResourceLine {
    pub line: usize,
    pub keyword: String,
    pub words: Vec<String>,
}

/// `name` or `name(argument argument)`.
#[derive(Debug)]
pub struct Attribute {
    pub name: String,
    pub arguments: Option<String>,
}

impl Attribute {
    /// Reads `name` or `name(arguments)`.
    pub fn parse(word: &str) -> Self {
        match word.split_once('(') {
            Some((name, rest)) => Self {
                name: name.to_owned(),
                arguments: Some(rest.strip_suffix(')').unwrap_or(rest).trim().to_owned()),
            },
            None => Self {
                name: word.to_owned(),
                arguments: None,
            },
        }
    }

    /// The arguments, split at blanks.
    pub fn words(&self) -> Vec<String> {
        self.arguments
            .as_deref()
            .map(|a| words(a).into_iter().map(|w| unquote(&w)).collect())
            .unwrap_or_default()
    }
}

/// A type as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeExpr {
    Named(String),
    List(Box<TypeExpr>),
    Map(Box<TypeExpr>, Box<TypeExpr>),
}

impl TypeExpr {
    fn parse(text: &str) -> Result<Self, String> {
        if let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
            return Ok(Self::List(Box::new(Self::parse(inner)?)));
        }
        if let Some(inner) = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) {
            let (key, value) = inner.split_once(':').unwrap_or(("string", inner));
            return Ok(Self::Map(Box::new(Self::parse(key)?), Box::new(Self::parse(value)?)));
        }
        if !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '_') {
            return Ok(Self::Named(text.to_owned()));
        }
        Err(format!("`{text}` is no type"))
    }
}

/// Parses one text; mistakes go to `problems`.
pub fn parse(source: &Source, problems: &mut Vec<Problem>) -> File {
    let mut file = File {
        path: source.path.clone(),
        ..File::default()
    };
    for (index, raw) in source.text.lines().enumerate() {
        let line = index + 1;
        let words = words(raw);
        if words.is_empty() {
            continue;
        }
        let indented = raw.starts_with(char::is_whitespace);
        let done = if indented {
            member(&mut file, line, &words)
        } else {
            head(&mut file, line, &words)
        };
        if let Err(message) = done {
            problems.push(Problem {
                path: source.path.clone(),
                line,
                message,
            });
        }
    }
    if file.package.is_empty() {
        problems.push(Problem {
            path: source.path.clone(),
            line: 1,
            message: "no `package` line".into(),
        });
    }
    file
}

/// What a new indented line belongs to: the last thing that began. Resources and types alternate freely, so the later
/// line wins.
enum Open {
    Type,
    Resource,
    Nothing,
}

fn open(file: &File) -> Open {
    let ty = file.types.last().map_or(0, |t| t.line);
    let resource = file.resources.last().map_or(0, |r| r.line);
    match ty.cmp(&resource) {
        std::cmp::Ordering::Greater => Open::Type,
        std::cmp::Ordering::Less => Open::Resource,
        std::cmp::Ordering::Equal => Open::Nothing,
    }
}

fn head(file: &mut File, line: usize, words: &[String]) -> Result<(), String> {
    let rest: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    match (words[0].as_str(), rest.as_slice()) {
        ("package", [package]) => file.package = (*package).to_owned(),
        ("group", [group]) => file.group = Some(group_version(group)?),
        ("use", [alias, "=", package]) => file.uses.push(((*alias).to_owned(), (*package).to_owned())),
        ("resource", [plural, kind, flags @ ..]) => file.resources.push(ResourceDecl {
            line,
            plural: (*plural).to_owned(),
            kind: (*kind).to_owned(),
            namespaced: match flags {
                [] => false,
                ["namespaced"] => true,
                _ => return Err(format!("unexpected `{}`", flags.join(" "))),
            },
            lines: Vec::new(),
        }),
        ("package" | "group" | "use" | "resource", _) => return Err(format!("malformed `{}` line", words[0])),
        (name, _) => {
            let (body, attributes) = match rest.as_slice() {
                [mark @ ("=" | "~"), values @ ..] => {
                    let values = values.iter().map(|v| unquote(v)).collect();
                    (
                        Body::Constants {
                            closed: *mark == "=",
                            values,
                        },
                        Vec::new(),
                    )
                }
                [":", form] if form.starts_with('[') => match TypeExpr::parse(form)? {
                    TypeExpr::List(item) => (Body::Slice(*item), Vec::new()),
                    _ => return Err(format!("`{form}` is no list")),
                },
                [":", form, attributes @ ..] => (
                    Body::Special((*form).to_owned()),
                    attributes.iter().map(|a| Attribute::parse(a)).collect(),
                ),
                attributes => (
                    Body::Struct(Vec::new()),
                    attributes.iter().map(|a| Attribute::parse(a)).collect(),
                ),
            };
            file.types.push(TypeDecl {
                line,
                name: name.to_owned(),
                body,
                attributes,
            });
        }
    }
    Ok(())
}

fn member(file: &mut File, line: usize, words: &[String]) -> Result<(), String> {
    match open(file) {
        Open::Resource => {
            let resource = file.resources.last_mut().ok_or("outside of everything")?;
            resource.lines.push(ResourceLine {
                line,
                keyword: words[0].clone(),
                words: words[1..].to_vec(),
            });
            Ok(())
        }
        Open::Type => match file.types.last_mut().map(|t| &mut t.body) {
            Some(Body::Struct(fields)) => {
                fields.push(field(line, words)?);
                Ok(())
            }
            _ => Err("only structs have fields".into()),
        },
        Open::Nothing => Err("indented, but below nothing".into()),
    }
}

fn field(line: usize, words: &[String]) -> Result<FieldDecl, String> {
    let [name, tag, rest @ ..] = words else {
        return Err("a field is a name, a number and a type".into());
    };
    let (inline, rest) = match rest {
        [first, rest @ ..] if first == "inline" => (true, rest),
        rest => (false, rest),
    };
    let [ty, rest @ ..] = rest else {
        return Err("a field is a name, a number and a type".into());
    };
    let tag = match tag.as_str() {
        "-" => 0,
        number => number
            .parse()
            .map_err(|_| format!("`{number}` is no protobuf number"))?,
    };
    let plain = ty.trim_end_matches(['?', '!', '+']);
    let marks = &ty[plain.len()..];
    let mut field = FieldDecl {
        line,
        name: name.clone(),
        tag,
        inline,
        ty: TypeExpr::parse(plain)?,
        pointer: marks.contains('?'),
        required: marks.contains('!'),
        always: marks.contains(['!', '+']),
        default: None,
        attributes: Vec::new(),
    };
    let mut rest = rest;
    while let [word, after @ ..] = rest {
        rest = after;
        if word == "=" {
            let [value, after @ ..] = rest else {
                return Err("`=` without a value".into());
            };
            rest = after;
            field.default = Some(literal(value)?);
        } else {
            field.attributes.push(Attribute::parse(word));
        }
    }
    Ok(field)
}

/// `-/v1` or `apps/v1`.
pub fn group_version(text: &str) -> Result<(String, String), String> {
    let (group, version) = text
        .split_once('/')
        .ok_or_else(|| format!("`{text}` is no group/version"))?;
    Ok((
        if group == "-" { String::new() } else { group.to_owned() },
        version.to_owned(),
    ))
}

/// A JSON value, or a bare word that means a string.
pub fn literal(text: &str) -> Result<serde_json::Value, String> {
    match serde_json::from_str(text) {
        Ok(value) => Ok(value),
        Err(e) if text.starts_with(['"', '[', '{']) => Err(format!("`{text}`: {e}")),
        Err(_) => Ok(serde_json::Value::String(text.to_owned())),
    }
}

/// A word without its quotes.
pub fn unquote(word: &str) -> String {
    match serde_json::from_str::<serde_json::Value>(word) {
        Ok(serde_json::Value::String(s)) => s,
        _ => word.to_owned(),
    }
}

/// Splits at blanks outside of quotes and brackets; drops a comment.
pub fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut depth, mut quoted, mut escaped) = (Vec::new(), String::new(), 0usize, false, false);
    for c in line.chars() {
        if quoted {
            word.push(c);
            quoted = escaped || c != '"';
            escaped = c == '\\' && !escaped;
            continue;
        }
        match c {
            '#' if depth == 0 && word.is_empty() => break,
            c if c.is_whitespace() && depth == 0 => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                continue;
            }
            '"' => quoted = true,
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        word.push(c);
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_in_brackets_and_quotes_do_not_split_and_comments_end_a_line() {
        assert_eq!(
            words(r#"a  b(c d) "e f" {"g": [1, 2]} # h"#),
            ["a", "b(c d)", "\"e f\"", "{\"g\": [1, 2]}"]
        );
        assert_eq!(words(r#""q\"(" x"#), [r#""q\"(""#, "x"]);
    }

    #[test]
    fn a_field_line_is_read_with_marks_default_and_attributes() {
        let f = field(
            1,
            &words("ports 6 [ContainerPort]?! map(containerPort protocol) = [] patch(merge containerPort)"),
        )
        .unwrap();
        assert_eq!((f.tag, f.pointer, f.required, f.always), (6, true, true, true));
        assert_eq!(f.ty, TypeExpr::List(Box::new(TypeExpr::Named("ContainerPort".into()))));
        assert_eq!(f.default, Some(serde_json::json!([])));
        assert_eq!(f.attributes[0].words(), ["containerPort", "protocol"]);
        assert_eq!(f.attributes[1].words(), ["merge", "containerPort"]);
    }

    #[test]
    fn a_bare_word_is_a_string_and_anything_else_json() {
        assert_eq!(literal("TCP").unwrap(), serde_json::json!("TCP"));
        assert_eq!(literal("420").unwrap(), serde_json::json!(420));
        assert_eq!(literal("\"1\"").unwrap(), serde_json::json!("1"));
        assert!(literal("{oops").is_err());
    }

    #[test]
    fn a_field_outside_of_a_struct_is_a_problem_with_its_line() {
        let mut problems = Vec::new();
        parse(
            &Source {
                path: "x".into(),
                text: "package p\n\n  a 1 string\n".into(),
            },
            &mut problems,
        );
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].to_string(), "x:3: indented, but below nothing");
    }
}
