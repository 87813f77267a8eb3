//! `semver(…)`: versions by semver.org 2.0, errors as those of Go's `blang/semver`.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use triptych_object::duration::quote;

use super::Extension;
use crate::error::EvalError;
use crate::value::{Found, Value};

/// A version.
#[derive(Clone, Debug)]
pub struct Version {
    numbers: [u64; 3],
    pre: Vec<String>,
    build: Vec<String>,
}

fn number(text: &str, which: &str) -> Result<u64, String> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {which} number {}", quote(text)));
    }
    if text.len() > 1 && text.starts_with('0') {
        let name = capitalised(which);
        return Err(format!("{name} number must not contain leading zeroes {}", quote(text)));
    }
    text.parse().map_err(|e: std::num::ParseIntError| {
        let why = match e.kind() {
            std::num::IntErrorKind::PosOverflow => "value out of range",
            _ => "invalid syntax",
        };
        format!("strconv.ParseUint: parsing {}: {why}", quote(text))
    })
}

fn capitalised(word: &str) -> String {
    let mut chars = word.chars();
    chars
        .next()
        .map(|c| c.to_uppercase().chain(chars).collect())
        .unwrap_or_default()
}

fn is_plain(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn numeric(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

impl Version {
    fn parse(text: &str) -> Result<Version, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, patch] = parts[..] else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let major = number(major, "major")?;
        let minor = number(minor, "minor")?;
        let (patch, build) = match patch.split_once('+') {
            Some((patch, build)) => (patch, build.split('.').collect()),
            None => (patch, Vec::new()),
        };
        let (patch, pre) = match patch.split_once('-') {
            Some((patch, pre)) => (patch, pre.split('.').collect()),
            None => (patch, Vec::new()),
        };
        let patch = number(patch, "patch")?;
        for part in &pre {
            if part.is_empty() {
                return Err("Prerelease is empty".to_owned());
            }
            if !is_plain(part) {
                return Err(format!("Invalid character(s) found in prerelease {}", quote(part)));
            }
            if numeric(part) && part.len() > 1 && part.starts_with('0') {
                return Err(format!(
                    "Numeric PreRelease version must not contain leading zeroes {}",
                    quote(part)
                ));
            }
        }
        for part in &build {
            if part.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !is_plain(part) {
                return Err(format!("Invalid character(s) found in build meta data {}", quote(part)));
            }
        }
        let owned = |parts: Vec<&str>| parts.into_iter().map(str::to_owned).collect();
        Ok(Version {
            numbers: [major, minor, patch],
            pre: owned(pre),
            build: owned(build),
        })
    }

    fn normalized(text: &str) -> Result<Version, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(str::to_owned).collect();
        for part in &mut parts {
            if part.len() > 1 {
                let trimmed = part.trim_start_matches('0');
                *part = match trimmed.starts_with(|c: char| c.is_ascii_digit()) {
                    true => trimmed.to_owned(),
                    false => format!("0{trimmed}"),
                };
            }
        }
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err("short version cannot contain PreRelease/Build meta data".to_owned());
            }
            parts.resize(3, "0".to_owned());
        }
        Version::parse(&parts.join("."))
    }

    /// The order of versions; build metadata does not matter.
    pub fn precedence(&self, other: &Version) -> Ordering {
        let by_number = self.numbers.cmp(&other.numbers);
        if by_number.is_ne() {
            return by_number;
        }
        match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => return Ordering::Equal,
            (true, false) => return Ordering::Greater,
            (false, true) => return Ordering::Less,
            _ => {}
        }
        for (a, b) in self.pre.iter().zip(&other.pre) {
            let order = match (numeric(a), numeric(b)) {
                // Longer numbers are greater: they have no leading zeroes.
                (true, true) => a.len().cmp(&b.len()).then_with(|| a.cmp(b)),
                (true, false) => Ordering::Less,
                (false, true) => Ordering::Greater,
                (false, false) => a.cmp(b),
            };
            if order.is_ne() {
                return order;
            }
        }
        self.pre.len().cmp(&other.pre.len())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        if !self.pre.is_empty() {
            write!(f, "-{}", self.pre.join("."))?;
        }
        if !self.build.is_empty() {
            write!(f, "+{}", self.build.join("."))?;
        }
        Ok(())
    }
}

/// Calls a function if it is one of these.
pub fn call<'a>(function: &str, args: &[Value<'a>]) -> Option<Found<'a>> {
    if let ("semver" | "isSemver", [Value::String(text), rest @ ..]) = (function, args) {
        let parsed = match rest {
            [] | [Value::Bool(false)] => Version::parse(text),
            [Value::Bool(true)] => Version::normalized(text),
            _ => return None,
        };
        return Some(match function {
            "isSemver" => Ok(Value::Bool(parsed.is_ok())),
            _ => parsed
                .map(|v| Value::Extension(Extension::Semver(Arc::new(v))))
                .map_err(EvalError::new),
        });
    }
    let (Value::Extension(Extension::Semver(own)), rest) = args.split_first()? else {
        return None;
    };
    Some(Ok(match (function, rest) {
        ("major", []) => Value::Int(own.numbers[0] as i64),
        ("minor", []) => Value::Int(own.numbers[1] as i64),
        ("patch", []) => Value::Int(own.numbers[2] as i64),
        ("isGreaterThan", [Value::Extension(Extension::Semver(other))]) => Value::Bool(own.precedence(other).is_gt()),
        ("isLessThan", [Value::Extension(Extension::Semver(other))]) => Value::Bool(own.precedence(other).is_lt()),
        ("compareTo", [Value::Extension(Extension::Semver(other))]) => Value::Int(own.precedence(other) as i64),
        _ => return None,
    }))
}
