//! Which functions there are, and with which arguments: a text per library, read once for each environment.
//!
//! A line is a function's name, the id of an overload and its signature: `name overload_id receiver.(arguments) -> result`.
//! Type names: those of CEL, `list(T)`, `map(K, V)`, `optional(T)`, `type(T)`, one capital letter for a parameter, `@Name` for an object of a
//! library, `#name` for an opaque type.

use std::collections::HashMap;
use std::sync::Arc;

use crate::types::{ObjectType, Param, Type};

/// One way of calling a function.
#[derive(Debug)]
pub struct Overload {
    /// Its id.
    pub id: &'static str,
    /// The first argument stands before the name.
    pub member: bool,
    /// The types of the arguments.
    pub args: Vec<Type>,
    /// The type of what comes out.
    pub result: Type,
}

impl Overload {
    /// The type parameters, in the order they appear.
    pub fn params(&self) -> Vec<&'static str> {
        let mut found = Vec::new();
        for ty in self.args.iter().chain([&self.result]) {
            collect(ty, &mut found);
        }
        found
    }
}

fn collect(ty: &Type, found: &mut Vec<&'static str>) {
    match ty {
        Type::Param(Param::Named(name)) if !found.contains(name) => found.push(name),
        other => other.parameters().into_iter().for_each(|p| collect(p, found)),
    }
}

/// The functions of an environment by name.
#[derive(Debug, Default)]
pub struct Functions {
    by_name: HashMap<&'static str, Vec<Overload>>,
}

impl Functions {
    /// Adds the functions that a text declares; a line that cannot be read is left out (a test reads them all).
    pub fn declare(&mut self, text: &'static str) {
        for (name, overload) in text.lines().filter_map(read) {
            self.by_name.entry(name).or_default().push(overload);
        }
    }

    /// The overloads of a function.
    pub fn get(&self, name: &str) -> Option<&[Overload]> {
        self.by_name.get(name).map(Vec::as_slice)
    }
}

fn read(line: &'static str) -> Option<(&'static str, Overload)> {
    let (name, rest) = line.trim().split_once(' ')?;
    let (id, signature) = rest.trim().split_once(' ')?;
    let (left, result) = signature.split_once("->")?;
    let left = left.trim();
    let open = if left.starts_with('(') { 0 } else { left.find(".(")? + 1 };
    let arguments = left[open..].strip_prefix('(')?.strip_suffix(')')?;
    let mut args = Vec::new();
    if open > 0 {
        args.push(parse(&left[..open - 1])?);
    }
    for argument in split(arguments) {
        args.push(parse(argument)?);
    }
    Some((
        name,
        Overload {
            id,
            member: open > 0,
            args,
            result: parse(result)?,
        },
    ))
}

/// Splits at commas outside parentheses.
fn split(text: &'static str) -> Vec<&'static str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    if !text[start..].trim().is_empty() {
        parts.push(&text[start..]);
    }
    parts
}

fn parse(text: &'static str) -> Option<Type> {
    let text = text.trim();
    if let Some((name, inside)) = text.split_once('(') {
        let mut inside = split(inside.strip_suffix(')')?).into_iter().map(parse);
        let first = inside.next()??;
        return Some(match name {
            "list" => Type::list(first),
            "map" => Type::map(first, inside.next()??),
            "optional" => Type::optional(first),
            "type" => Type::Type(Some(Arc::new(first))),
            _ => return None,
        });
    }
    Some(match text {
        "dyn" => Type::Dyn,
        "null" => Type::Null,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        _ if text.len() == 1 => Type::Param(Param::Named(text)),
        _ => match (text.strip_prefix('@'), text.strip_prefix('#')) {
            (Some(name), _) => Type::Object(Arc::new(ObjectType::named(name))),
            (_, Some(name)) => Type::Opaque(name.into(), Arc::new([])),
            _ => return None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_every_library_can_be_read() {
        for text in crate::libraries::DECLARATIONS {
            for line in text.lines().filter(|l| !l.trim().is_empty()) {
                assert!(read(line).is_some(), "{line}");
            }
        }
    }

    #[test]
    fn signatures_are_read() {
        let (name, overload) = read("join list_join list(string).(string) -> string").unwrap();
        assert_eq!((name, overload.member, overload.args.len()), ("join", true, 2));
        let (_, overload) = read("f g (map(K, list(V)), K) -> optional(V)").unwrap();
        assert_eq!(overload.params(), ["K", "V"]);
        assert_eq!(overload.args[0].to_string(), "map(K, list(V))");
    }
}
